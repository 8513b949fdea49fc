//! Readers of a turn. A reader owns nothing: it says what it has, gets the rest, then what comes, then exactly one end.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::Engine;
use super::live::{Html, Live, Look, News};
use crate::model::error::AppError;
use crate::model::event::Seq;
use crate::model::exchange::TurnView;
use crate::model::frame::Frame;
use crate::model::ids::{TurnId, UserId};
use crate::model::turn::Turn;

/// Frames that wait for a slow reader; it never holds the turn back, only itself.
const QUEUE: usize = 16;
/// How often a turn that runs in another process is looked at.
const LOOK: Duration = Duration::from_millis(500);

impl Engine {
    /// The frames of a turn for a reader who has everything up to `after`. Ends after [`Frame::End`].
    pub async fn follow(&self, user: UserId, id: &TurnId, after: Seq) -> Result<ReceiverStream<Frame>, AppError> {
        let (tx, rx) = mpsc::channel(QUEUE);
        if let Some(live) = self.inner.live(user, id) {
            tokio::spawn(follow_live(live, after, tx));
        } else {
            let view = self.view(user, id).await?;
            let (engine, id) = (self.clone(), id.clone());
            tokio::spawn(async move { engine.follow_stored(user, &id, view, tx).await });
        }
        Ok(ReceiverStream::new(rx))
    }

    /// What `look` makes of the turn as it is now and after each change, until its end. Unlike [`Engine::follow`] it renders nothing.
    pub async fn watch<T: Send + 'static>(
        &self,
        user: UserId,
        id: &TurnId,
        look: impl FnMut(&Turn) -> Vec<T> + Send + 'static,
    ) -> Result<ReceiverStream<T>, AppError> {
        let (tx, rx) = mpsc::channel(QUEUE);
        if let Some(live) = self.inner.live(user, id) {
            tokio::spawn(watch_live(live, look, tx));
        } else {
            let turn = self.stored(user, id).await?.turn;
            let (engine, id) = (self.clone(), id.clone());
            tokio::spawn(async move { engine.watch_stored(user, &id, turn, look, tx).await });
        }
        Ok(ReceiverStream::new(rx))
    }

    async fn watch_stored<T: Send>(
        &self,
        user: UserId,
        id: &TurnId,
        mut turn: Turn,
        mut look: impl FnMut(&Turn) -> Vec<T> + Send,
        tx: mpsc::Sender<T>,
    ) {
        loop {
            if !send_all(look(&turn), &tx).await || turn.is_ended() {
                return;
            }
            tokio::select! {
                () = tx.closed() => return,
                () = tokio::time::sleep(LOOK) => {}
            }
            match self.stored(user, id).await {
                Ok(next) => turn = next.turn,
                // Deleted meanwhile, or the store is away: the reader comes back and is told.
                Err(_) => return,
            }
        }
    }

    /// Follows a turn that has ended, or runs in another process, by looking at the store.
    async fn follow_stored(&self, user: UserId, id: &TurnId, mut view: TurnView, tx: mpsc::Sender<Frame>) {
        let mut seen = None;
        loop {
            let (seq, ended) = (view.turn.seq, view.turn.is_ended());
            if seen != Some(seq) {
                seen = Some(seq);
                if tx.send(Frame::Snapshot { view: Box::new(view) }).await.is_err() {
                    return;
                }
            }
            if ended {
                break;
            }
            tokio::select! {
                () = tx.closed() => return,
                () = tokio::time::sleep(LOOK) => {}
            }
            match self.view(user, id).await {
                Ok(next) => view = next,
                // Deleted meanwhile, or the store is away: the reader reconnects and is told.
                Err(_) => break,
            }
        }
        let _ = tx.send(Frame::End).await;
    }
}

async fn watch_live<T: Send>(live: Arc<Live>, mut look: impl FnMut(&Turn) -> Vec<T> + Send, tx: mpsc::Sender<T>) {
    let mut changed = live.subscribe();
    loop {
        changed.mark_unchanged();
        let (seen, ended) = live.with_turn(|turn| (look(turn), turn.is_ended()));
        if !send_all(seen, &tx).await || ended {
            return;
        }
        tokio::select! {
            () = tx.closed() => return,
            // The sender lives as long as `live`, which this task holds.
            _ = changed.changed() => {}
        }
    }
}

/// Whether the reader is still there.
async fn send_all<T>(items: Vec<T>, tx: &mpsc::Sender<T>) -> bool {
    for item in items {
        if tx.send(item).await.is_err() {
            return false;
        }
    }
    true
}

async fn follow_live(live: Arc<Live>, mut after: Seq, tx: mpsc::Sender<Frame>) {
    let mut changed = live.subscribe();
    let mut shown: Html = Vec::new();
    loop {
        changed.mark_unchanged();
        let Look { news, html, due_in, ended } = live.look(after);
        let mut frames = Vec::new();
        let mut last = None;
        match news {
            News::Events { first, mut events } => {
                after += events.len() as Seq;
                if ended {
                    // A turn that says it is over looks it, too: its end comes after the last of its text.
                    last = events.pop().map(|event| Frame::Events { first: after, events: vec![event] });
                }
                if !events.is_empty() {
                    frames.push(Frame::Events { first, events });
                }
                frames.extend(differences(&shown, &html));
            }
            News::Whole(view) => {
                after = view.turn.seq;
                frames.push(Frame::Snapshot { view });
            }
        }
        shown = html;
        if ended {
            frames.extend(last);
            frames.push(Frame::End);
        }
        for frame in frames {
            if tx.send(frame).await.is_err() {
                return;
            }
        }
        if ended {
            return;
        }
        tokio::select! {
            () = tx.closed() => return,
            // The sender lives as long as `live`, which this task holds.
            _ = changed.changed() => {}
            () = tokio::time::sleep(due_in.unwrap_or_default()), if due_in.is_some() => {}
        }
    }
}

/// The blocks that are not the ones shown. Settled blocks are the same allocation, so this costs a pointer each.
fn differences(shown: &Html, html: &Html) -> Vec<Frame> {
    let mut frames = Vec::new();
    for (part, blocks) in html.iter().enumerate() {
        let old = shown.get(part).map_or(&[][..], Vec::as_slice);
        for (block, text) in blocks.iter().enumerate() {
            let same = old.get(block).is_some_and(|old| Arc::ptr_eq(old, text) || old == text);
            if !same {
                frames.push(Frame::Html { part, block, blocks: blocks.len(), html: text.to_string() });
            }
        }
        if let (true, Some(last)) = (blocks.len() < old.len() && frames.is_empty(), blocks.last()) {
            frames.push(Frame::Html { part, block: blocks.len() - 1, blocks: blocks.len(), html: last.to_string() });
        }
    }
    frames
}

#[cfg(test)]
mod tests {
    use super::*;

    fn html(parts: &[&[&str]]) -> Html {
        parts.iter().map(|blocks| blocks.iter().map(|block| Arc::from(*block)).collect()).collect()
    }

    fn frame(part: usize, block: usize, blocks: usize, html: &str) -> Frame {
        Frame::Html { part, block, blocks, html: html.into() }
    }

    #[test]
    fn only_what_changed_is_sent() {
        let table = [
            (html(&[]), html(&[&["a"]]), vec![frame(0, 0, 1, "a")]),
            (html(&[&["a"]]), html(&[&["a"]]), vec![]),
            (html(&[&["a", "b"]]), html(&[&["a", "B", "c"]]), vec![frame(0, 1, 3, "B"), frame(0, 2, 3, "c")]),
            (html(&[&["a", "b"]]), html(&[&["a"]]), vec![frame(0, 0, 1, "a")]),
            (html(&[&["a"]]), html(&[&["a"], &["z"]]), vec![frame(1, 0, 1, "z")]),
        ];
        for (shown, now, expected) in table {
            assert_eq!(differences(&shown, &now), expected);
        }
    }
}
