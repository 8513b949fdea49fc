//! Copies of turns that are not over and do not run here: they wait for somebody, or another process runs them. A copy follows the store
//! as long as somebody reads it.

use std::sync::Arc;
use std::time::Duration;

use super::live::Live;
use super::{Engine, Entry};
use crate::model::error::AppError;
use crate::model::event::{End, Interruption, TurnEvent};
use crate::model::ids::{TurnId, UserId};
use crate::model::turn::{Turn, TurnState};
use crate::ssr::clock;

/// How often a turn is looked at that runs in another process, if nobody rings.
const LOOK_RUNNING: Duration = Duration::from_millis(700);
/// How often a turn is looked at that waits for somebody, if nobody rings.
const LOOK_PAUSED: Duration = Duration::from_secs(10);

impl Engine {
    /// The turn as it goes on, wherever it runs; as it ended, if it is over.
    pub(super) async fn attach(&self, user: UserId, id: &TurnId) -> Result<Result<Arc<Live>, Box<Turn>>, AppError> {
        if let Some(live) = self.inner.live(user, id) {
            return Ok(Ok(live));
        }
        let stored = self.stored(user, id).await?;
        if stored.turn.is_ended() {
            return Ok(Err(Box::new(stored.turn)));
        }
        let mut lives = self.inner.lives();
        if let Some(known) = lives.get(id) {
            // A copy that has not heard yet would show a pause that is over.
            if known.task.is_none() && known.live.with_turn(|turn| turn.seq < stored.turn.seq) {
                known.live.replace(stored.turn);
            }
            return Ok(Ok(known.live.clone()));
        }
        let live = Live::new(user, stored.turn);
        lives.insert(id.clone(), Entry { live: live.clone(), task: None });
        tokio::spawn(keep(self.clone(), live.clone()));
        Ok(Ok(live))
    }
}

/// Keeps a copy up to date until a task runs the turn here, it is over, or nobody reads it.
pub(super) async fn keep(engine: Engine, live: Arc<Live>) {
    let mut bell = engine.inner.bells.listen(live.row);
    let mut unread = 0;
    loop {
        bell.mark_unchanged();
        if engine.inner.task(&live.id).is_some() || engine.inner.closing.is_cancelled() {
            return;
        }
        match engine.bring_up_to_date(&live).await {
            Ok(()) => {}
            Err(AppError::NotFound { .. }) => {
                // The conversation was deleted: to those who watch, the turn is over.
                let end = TurnEvent::Ended { at: clock::now(), how: End::Interrupted(Interruption::Lost), finish: None };
                live.push(end);
            }
            Err(error) => tracing::warn!(%error, "a turn cannot be followed; trying again"),
        }
        // Whoever asked for the copy needs a moment to begin to read it.
        unread = if live.is_watched() { 0 } else { unread + 1 };
        if live.with_turn(Turn::is_ended) || unread > 3 {
            let mut lives = engine.inner.lives();
            if lives.get(&live.id).is_some_and(|entry| entry.task.is_none() && Arc::ptr_eq(&entry.live, &live)) {
                lives.remove(&live.id);
            }
            return;
        }
        let pause = match live.with_turn(|turn| turn.state) {
            TurnState::Paused if unread == 0 => LOOK_PAUSED,
            _ => LOOK_RUNNING,
        };
        let _ = tokio::time::timeout(pause, bell.changed()).await;
    }
}

impl Engine {
    async fn bring_up_to_date(&self, live: &Live) -> Result<(), AppError> {
        let stored = self.stored(live.user, &live.id).await?;
        let (seq, at) = live.with_turn(|turn| (turn.seq, turn.state));
        if stored.turn.seq == seq && stored.turn.state == at {
            return Ok(());
        }
        if !stored.turn.is_ended() {
            let mut fits = true;
            for (seq, text) in self.inner.db.events(live.row, seq).await? {
                fits = fits && serde_json::from_str(&text).is_ok_and(|event| live.learn(seq, event));
            }
            if fits && live.with_turn(|turn| turn.seq) >= stored.turn.seq {
                return Ok(());
            }
        }
        live.replace(stored.turn);
        Ok(())
    }
}
