//! The engine: runs turns, lets readers follow them, ends what died.
//!
//! A turn runs in a task of its own, never in a request, so no closed tab stops it. What it says goes to readers from memory at
//! once and to the store through the group commit; its end is shown only when it is durable.
//!
//! A turn that waits for somebody has no task: it is a row, and whoever brings the answer, in whichever process, takes the row up and
//! runs it on ([`orders`]). A process that only shows a turn keeps a copy that follows the store ([`mirror`]).

mod alone;
mod ask;
mod bell;
pub mod decide;
mod drive;
mod follow;
mod live;
mod mirror;
mod orders;
mod prompt;
mod reaper;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use self::ask::Question;
use self::bell::Bells;
use self::decide::{Input, NotTaken, Order, Rules, Taken, decide};
use self::drive::Task;
use self::live::Live;
use super::agents::Registry;
use super::clock;
use super::db::Db;
use super::db::turns::{Lease, StoredTurn};
use super::db::writer::Writer;
use super::tools::Toolbox;
use crate::model::agent::AgentType;
use crate::model::error::AppError;
use crate::model::event::{End, Interruption, TurnEvent};
use crate::model::exchange::TurnView;
use crate::model::ids::{Millis, TurnId, UserId};
use crate::model::turn::{Turn, TurnState};

/// Times that operators and tests may set.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// A turn whose process does not renew it for this long is lost.
    pub lease: Duration,
    /// How often leases are renewed and lost turns looked for.
    pub renew: Duration,
    /// How long a shutdown waits for running answers.
    pub drain: Duration,
    /// How long a person is asked whether a tool may run.
    pub approval: Duration,
    /// How long a tab is waited for that runs a tool.
    pub browser: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(30),
            renew: Duration::from_secs(10),
            drain: Duration::from_secs(5),
            approval: Duration::from_hours(24),
            browser: Duration::from_mins(2),
        }
    }
}

/// What one person may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// Turns that run at the same time.
    pub turns_at_once: i64,
    /// Tokens of a day (UTC), of questions and answers together.
    pub tokens_a_day: i64,
    /// Steps of one agent in one turn: calls of its model, with the tools that it calls between them.
    pub steps: u32,
}

/// Runs turns. Cheap to clone.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

/// What the engine did since it started, and does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Turns that ended with an answer.
    pub answered: u64,
    /// Turns that ended with a failure.
    pub failed: u64,
    /// Turns that were stopped or lost.
    pub interrupted: u64,
    /// Tokens sent to models.
    pub input_tokens: u64,
    /// Tokens that models answered.
    pub output_tokens: u64,
    /// Turns that run here.
    pub live: u64,
}

impl Figures {
    fn count(&mut self, turn: &Turn) {
        match turn.end() {
            Some(End::Answered) => self.answered += 1,
            Some(End::Failed(_)) => self.failed += 1,
            Some(End::Interrupted(_)) => self.interrupted += 1,
            None => {}
        }
        self.input_tokens = self.input_tokens.saturating_add(turn.usage.input);
        self.output_tokens = self.output_tokens.saturating_add(turn.usage.output);
    }
}

struct Inner {
    figures: Mutex<Figures>,
    db: Db,
    writer: Writer,
    registry: Registry,
    tools: Toolbox,
    owner: String,
    times: Times,
    caps: Caps,
    /// The turns that are not over and are run or read here.
    lives: Mutex<HashMap<TurnId, Entry>>,
    bells: Bells,
    tasks: TaskTracker,
    closing: CancellationToken,
}

/// A turn that is not over, in this process.
struct Entry {
    live: Arc<Live>,
    /// The way to the task that runs it; none when it is paused or runs elsewhere.
    task: Option<mpsc::UnboundedSender<Command>>,
}

/// What a task can be told.
enum Command {
    /// Somebody wants something; who waits for the outcome is told.
    Order(Order, Option<oneshot::Sender<Result<Taken, NotTaken>>>),
    /// Another process has the turn now.
    Leave,
}

impl Engine {
    /// Starts the engine on a store: ends what an earlier process left running, then watches over leases.
    pub async fn start(db: Db, registry: Registry, tools: Toolbox, times: Times, caps: Caps) -> Result<Self, AppError> {
        let (writer, _) = Writer::start(db.clone());
        let inner = Inner {
            figures: Mutex::default(),
            db,
            writer,
            registry,
            tools,
            owner: uuid::Uuid::new_v4().to_string(),
            times,
            caps,
            lives: Mutex::new(HashMap::new()),
            bells: Bells::default(),
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
        };
        let engine = Self { inner: Arc::new(inner) };
        // One server owns a SQLite file, so whatever runs in it is lost; on a shared server only expired leases tell.
        let lost_before = if engine.inner.db.is_private() { Millis::MAX } else { clock::now() };
        engine.end_lost(lost_before).await?;
        tokio::spawn(reaper::run(Arc::downgrade(&engine.inner)));
        if let Db::Postgres(pool) = &engine.inner.db {
            tokio::spawn(bell::listen(Arc::downgrade(&engine.inner), pool.clone()));
        }
        Ok(engine)
    }

    /// What it did since it started, and does.
    pub fn figures(&self) -> Figures {
        let figures = *self.inner.figures.lock().unwrap_or_else(PoisonError::into_inner);
        let live = self.inner.lives().values().filter(|entry| entry.task.is_some()).count();
        Figures { live: live as u64, ..figures }
    }

    /// The agents and their model.
    pub fn registry(&self) -> &Registry {
        &self.inner.registry
    }

    /// The tools of the agents.
    pub fn tools(&self) -> &Toolbox {
        &self.inner.tools
    }

    /// Lets a task run the turn. Whoever reads it here goes on reading.
    fn spawn(&self, user: UserId, turn: Turn, task: Task) {
        let (sender, commands) = mpsc::unbounded_channel();
        let live = {
            let mut lives = self.inner.lives();
            let known = lives.get(&turn.id).map(|entry| entry.live.clone());
            let live = match known {
                Some(live) => {
                    if live.with_turn(|known| known.seq != turn.seq) {
                        live.replace(turn);
                    }
                    live
                }
                None => Live::new(user, turn),
            };
            lives.insert(live.id.clone(), Entry { live: live.clone(), task: Some(sender.clone()) });
            live
        };
        if self.inner.closing.is_cancelled() {
            let _ = sender.send(Command::Order(Order::Stop(Interruption::Shutdown), None));
        }
        self.inner.tasks.spawn(drive::drive(self.inner.clone(), live, commands, task));
    }

    /// The turn as it is now, from memory while it runs here, with its HTML.
    pub async fn view(&self, user: UserId, id: &TurnId) -> Result<TurnView, AppError> {
        if let Some(live) = self.inner.live(user, id) {
            return Ok(live.view());
        }
        Ok(self.stored(user, id).await?.turn.into())
    }

    /// The turn as it is now, from memory while it runs here.
    pub async fn current(&self, user: UserId, id: &TurnId) -> Result<Turn, AppError> {
        if let Some(live) = self.inner.live(user, id) {
            return Ok(live.turn());
        }
        Ok(self.stored(user, id).await?.turn)
    }

    /// The turn as stored, with its events; ended first if whoever ran it is gone, or nobody answered in time.
    async fn stored(&self, user: UserId, id: &TurnId) -> Result<StoredTurn, AppError> {
        self.end_if_lost(user, id).await?;
        let stored = self.as_stored(user, id).await?;
        if stored.turn.state == TurnState::Paused && stored.turn.until().is_some_and(|until| until < clock::now()) {
            // In a box: few reads need the room for it.
            Box::pin(self.expire(user, id)).await?;
            return self.as_stored(user, id).await;
        }
        Ok(stored)
    }

    async fn as_stored(&self, user: UserId, id: &TurnId) -> Result<StoredTurn, AppError> {
        let mut stored = self.inner.db.turn(user, id).await?.ok_or_else(|| AppError::not_found("The turn"))?;
        if !stored.turn.is_ended() {
            self.inner.db.replay(&mut stored.turn).await?;
        }
        Ok(stored)
    }

    /// Puts what memory or the event log knows into a live turn of a list, so that a reader sees every word so far.
    pub async fn refresh(&self, user: UserId, turn: Turn) -> Result<TurnView, AppError> {
        if turn.is_ended() { Ok(turn.into()) } else { self.view(user, &turn.id).await }
    }

    /// Waits for the end of a turn, or until it waits for somebody, and gives it whole.
    pub async fn finished(&self, user: UserId, id: &TurnId) -> Result<Turn, AppError> {
        let live = match self.attach(user, id).await? {
            Ok(live) => live,
            Err(ended) => return Ok(*ended),
        };
        live.until(|turn| turn.state != TurnState::Running).await;
        Ok(live.turn())
    }

    /// Refuses new turns, waits a while for running ones, interrupts the rest, and returns when all is stored.
    pub async fn close(&self) {
        self.inner.closing.cancel();
        self.inner.tasks.close();
        if tokio::time::timeout(self.inner.times.drain, self.inner.tasks.wait()).await.is_err() {
            for task in self.inner.lives().values().filter_map(|entry| entry.task.as_ref()) {
                let _ = task.send(Command::Order(Order::Stop(Interruption::Shutdown), None));
            }
            if tokio::time::timeout(Duration::from_secs(10), self.inner.tasks.wait()).await.is_err() {
                tracing::error!("some turns could not be ended; the next start does it");
            }
        }
    }

    fn lease(&self) -> Lease {
        self.inner.lease()
    }
}

impl Inner {
    fn lives(&self) -> MutexGuard<'_, HashMap<TurnId, Entry>> {
        self.lives.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The turn, if it runs here.
    fn live(&self, user: UserId, id: &TurnId) -> Option<Arc<Live>> {
        self.lives().get(id).filter(|entry| entry.live.user == user && entry.task.is_some()).map(|entry| entry.live.clone())
    }

    /// The way to the task that runs the turn here.
    fn task(&self, id: &TurnId) -> Option<mpsc::UnboundedSender<Command>> {
        self.lives().get(id).and_then(|entry| entry.task.clone())
    }

    /// The task of a turn is over: what reads it follows the store from now on, if there is anything left to follow.
    fn leave(self: &Arc<Self>, live: &Arc<Live>) {
        let mut lives = self.lives();
        let Some(entry) = lives.get_mut(&live.id) else { return };
        // Another task may have it by now.
        if entry.task.as_ref().is_some_and(|task| !task.is_closed()) {
            return;
        }
        entry.task = None;
        if live.with_turn(Turn::is_ended) || !live.is_watched() {
            lives.remove(&live.id);
        } else {
            tokio::spawn(mirror::keep(Engine { inner: self.clone() }, live.clone()));
        }
        drop(lives);
        self.bells.ring(live.row);
    }

    fn decide(&self, turn: &Turn, input: Input) -> (Vec<TurnEvent>, Vec<decide::Effect>) {
        let millis = |time: Duration| Millis::try_from(time.as_millis()).unwrap_or(Millis::MAX / 2);
        let rules = Rules {
            steps: self.caps.steps,
            approval_ms: millis(self.times.approval),
            browser_ms: millis(self.times.browser),
            model_of: &|agent: &AgentType| self.registry.model_of(agent).to_owned(),
        };
        decide(turn, clock::now(), &rules, input)
    }

    fn lease(&self) -> Lease {
        let lease = i64::try_from(self.times.lease.as_millis()).unwrap_or(i64::MAX / 2);
        Lease { owner: self.owner.clone(), until: clock::now() + lease }
    }
}
