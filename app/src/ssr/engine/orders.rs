//! What people and other processes want of a turn: that it stops, that a call may run, what the browser gave.
//!
//! Where the turn is decides how an order gets to it: its task here is told; one in another process finds the order in the store; a turn
//! that waits has no task, so its row is taken up here, by compare-and-set on its epoch. Of two who answer at once one is told what the
//! other decided.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::ask::CONTEXT_TURNS;
use super::decide::{Answer, Input, NotTaken, Order, Taken, check};
use super::drive::{First, Task, end_write, log_state, storable_json};
use super::{Command, Engine, clock};
use crate::model::error::AppError;
use crate::model::event::Interruption;
use crate::model::ids::{ExchangeId, TurnId, TurnRow, UserId};
use crate::model::turn::{Turn, TurnState};
use crate::ssr::db::message::Carried;
use crate::ssr::db::storable;
use crate::ssr::db::turns::{Advance, Lease, StoredTurn};
use crate::ssr::db::writer::{Write, Written};
use crate::ssr::fault;

/// How long the answer of another process is waited for.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often that is looked for, if nobody rings.
const LOOK: Duration = Duration::from_millis(300);

/// An order on its way to another process.
#[derive(Serialize, Deserialize)]
struct Sent {
    order: Order,
}

impl Engine {
    /// Ends the turn by the person's wish and waits until that is stored; a turn that is over stays as it is.
    pub async fn stop(&self, user: UserId, id: &TurnId) -> Result<(), AppError> {
        let stopped = Box::pin(self.order(user, id, Order::Stop(Interruption::ByUser))).await;
        match stopped {
            // Whoever runs it hears of it; it takes a while.
            Err(AppError::Unavailable) => Ok(()),
            other => other.map(drop),
        }
    }

    /// Lets a call go on that waits for the person, or for the browser.
    ///
    /// # Errors
    /// [`AppError::Conflict`] when it was decided otherwise, saying how; [`AppError::NotFound`] when nothing of that name waits.
    pub async fn answer(&self, user: UserId, id: &TurnId, call: &str, answer: Answer) -> Result<(), AppError> {
        let answer = match answer {
            Answer::Deny { approval, reason } => Answer::Deny { approval, reason: storable(reason.trim()).into_owned() },
            Answer::Output { value, tab } => Answer::Output { value: storable_json(value), tab },
            Answer::Failed { text, tab } => Answer::Failed { text: storable(&text).into_owned(), tab },
            allow @ Answer::Allow { .. } => allow,
        };
        Box::pin(self.order(user, id, Order::Answer { call: call.to_owned(), answer })).await.map(drop)
    }

    /// Makes a tab the one that runs a call, or holds on to it. `false`: another tab has it, or it is over.
    pub async fn claim(&self, user: UserId, id: &TurnId, call: &str, tab: &str) -> Result<bool, AppError> {
        match Box::pin(self.order(user, id, Order::Claim { call: call.to_owned(), tab: tab.to_owned() })).await {
            Ok(_) => Ok(true),
            Err(AppError::Conflict { .. } | AppError::NotFound { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Stops what runs in a conversation.
    pub async fn stop_exchange(&self, user: UserId, exchange: ExchangeId) -> Result<(), AppError> {
        match self.inner.db.live_turn(exchange).await? {
            Some(id) => self.stop(user, &id).await,
            None => Ok(()),
        }
    }

    /// Stops what runs in a person's deleted conversations. What waits there for somebody goes on waiting: the conversation may come back.
    pub async fn stop_deleted(&self, user: UserId) -> Result<(), AppError> {
        for (id, row) in self.inner.db.deleted_live_turns(user).await? {
            let stop = Order::Stop(Interruption::ByUser);
            match self.inner.live(user, &id) {
                Some(live) => {
                    self.tell(&id, stop).await;
                    live.until(Turn::is_ended).await;
                }
                None => self.inner.db.give_order(row, &body(stop), clock::now()).await?,
            }
        }
        Ok(())
    }

    /// Tells the task here, if there is one, and waits for what becomes of it.
    async fn tell(&self, id: &TurnId, order: Order) -> Option<Result<Taken, NotTaken>> {
        let (told, outcome) = oneshot::channel();
        self.inner.task(id)?.send(Command::Order(order, Some(told))).ok()?;
        outcome.await.ok()
    }

    async fn order(&self, user: UserId, id: &TurnId, order: Order) -> Result<Taken, AppError> {
        let give_up = Instant::now() + PATIENCE;
        let mut left = false;
        loop {
            if self.inner.live(user, id).is_some()
                && let Some(outcome) = self.tell(id, order.clone()).await
            {
                return outcome.map_err(refused);
            }
            let stored = self.stored(user, id).await?;
            let fits = check(&stored.turn, &order);
            match (stored.turn.state, fits) {
                (_, Err(why)) => return Err(refused(why)),
                (TurnState::Ended { .. }, Ok(_)) | (_, Ok(Taken::Already)) => return Ok(Taken::Already),
                (TurnState::Paused, Ok(Taken::Now)) => {
                    // Not given up with the request: the row must not be taken up and left alone.
                    let (engine, order) = (self.clone(), order.clone());
                    let taken = self.shielded(async move { engine.take_up(user, stored, Input::Order(order)).await }).await?;
                    if taken {
                        return Ok(Taken::Now);
                    }
                }
                (TurnState::Running, Ok(Taken::Now)) => {
                    let mut bell = self.inner.bells.listen(stored.turn.row);
                    if !left {
                        left = true;
                        self.inner.db.give_order(stored.turn.row, &body(order.clone()), clock::now()).await?;
                    }
                    if Instant::now() > give_up {
                        return Err(AppError::Unavailable);
                    }
                    let _ = tokio::time::timeout(LOOK, bell.changed()).await;
                    // What it waits for is gone from the turn as soon as it is carried out.
                    let now = self.as_stored(user, id).await?.turn;
                    if check(&now, &order) != Ok(Taken::Now) {
                        return Ok(Taken::Now);
                    }
                }
            }
        }
    }

    /// Ends a turn that waits for somebody; says whether it did.
    pub(super) async fn end_paused(&self, user: UserId, id: &TurnId, why: Interruption) -> Result<bool, AppError> {
        let stored = self.as_stored(user, id).await?;
        if stored.turn.state != TurnState::Paused {
            return Ok(false);
        }
        self.take_up(user, stored, Input::Order(Order::Stop(why))).await
    }

    /// Gives up what nobody answered in time.
    pub(super) async fn expire(&self, user: UserId, id: &TurnId) -> Result<(), AppError> {
        let stored = self.as_stored(user, id).await?;
        if stored.turn.state == TurnState::Paused {
            self.take_up(user, stored, Input::Expire).await?;
        }
        Ok(())
    }

    /// Carries out an input on a paused turn: its row is taken up, unless somebody else was first; then it runs on here, waits on, or ends.
    async fn take_up(&self, user: UserId, stored: StoredTurn, input: Input) -> Result<bool, AppError> {
        let StoredTurn { turn: before, exchange, epoch, carried, .. } = stored;
        let (events, effects) = self.inner.decide(&before, input);
        let mut turn = before.clone();
        let mut numbered = Vec::new();
        for event in events {
            let seq = turn.seq + 1;
            if turn.apply(seq, &event).is_err() {
                return Ok(false);
            }
            numbered.push((seq, event));
        }
        if numbered.is_empty() {
            return Ok(true);
        }
        let runs = turn.state != TurnState::Paused;
        let lease = if runs { self.lease() } else { Lease { until: turn.until().unwrap_or(0), ..self.lease() } };
        // The end is stored by the writer, with all that belongs to one; a crash in between leaves a turn whose lease runs out.
        let ends = turn.is_ended();
        let shown = numbered.clone();
        let events = if ends { Vec::new() } else { numbered };
        fault::point("before-take-up").await;
        if !self.inner.db.advance(&Advance { row: turn.row, epoch, runs, lease, events }).await? {
            return Ok(false);
        }
        fault::point("after-take-up").await;
        let epoch = epoch + 1;
        if ends {
            self.store_end(&turn, epoch, carried.clone()).await;
            log_state(&turn);
            self.inner.figures.lock().unwrap_or_else(std::sync::PoisonError::into_inner).count(&turn);
        }
        if let Some(live) = self.inner.lives().get(&turn.id).map(|entry| entry.live.clone()) {
            for (seq, event) in shown {
                live.learn(seq, event);
            }
        }
        if runs && !ends {
            let (earlier, _) = self.inner.db.turns(exchange, Some(turn.row), CONTEXT_TURNS).await.unwrap_or_default();
            let task = Task { exchange, epoch, carried, earlier: earlier.into(), first: First::Effects(effects) };
            self.spawn(user, turn.clone(), task);
        }
        self.inner.bells.ring(turn.row);
        Ok(true)
    }

    /// Stores an end that no task stores, and waits for it.
    pub(super) async fn store_end(&self, turn: &Turn, epoch: i64, carried: Carried) -> Written {
        let (done, stored) = oneshot::channel();
        let end = Some(end_write(turn, carried));
        self.inner.writer.write(Write { row: turn.row, epoch, events: Vec::new(), claims: Vec::new(), end, done: Some(done) }).await;
        stored.await.map_or(Written::Lost, |outcome| outcome.written)
    }

    /// Gives the task here the orders that were left for it in the store.
    pub(super) async fn look_for_orders(&self, row: TurnRow) {
        let task = self.inner.lives().values().find(|entry| entry.live.row == row).and_then(|entry| entry.task.clone());
        let Some(task) = task else { return };
        match self.inner.db.take_orders(row).await {
            Ok(bodies) => {
                for order in bodies.iter().filter_map(|body| serde_json::from_str::<Sent>(body).ok()) {
                    let _ = task.send(Command::Order(order.order, None));
                }
            }
            Err(error) => tracing::warn!(%error, "what another process wants cannot be read; trying again"),
        }
    }
}

fn body(order: Order) -> String {
    serde_json::to_string(&Sent { order }).unwrap_or_default()
}

fn refused(why: NotTaken) -> AppError {
    match why {
        NotTaken::Unknown => AppError::not_found("A tool call that waits for this answer"),
        NotTaken::Decided(reason) => AppError::Conflict { reason },
        NotTaken::Elsewhere => AppError::Conflict { reason: "Another tab runs this.".into() },
    }
}
