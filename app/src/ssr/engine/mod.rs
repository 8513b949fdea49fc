//! The engine: runs turns, lets readers follow them, ends what died.
//!
//! A turn runs in a task of its own, never in a request, so no closed tab stops it. What it says goes to readers from memory at
//! once and to the store through the group commit; its end is shown only when it is durable.

mod alone;
pub mod decide;
mod drive;
mod follow;
mod live;
mod reaper;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::decide::Input;
use self::live::Live;
use super::agents::{Job, Registry};
use super::clock;
use super::db::Db;
use super::db::turns::{Begun, Lease, NewTurn, Sibling, StoredTurn};
use super::db::writer::{Writer, day};
use crate::model::agent::AgentType;
use crate::model::error::AppError;
use crate::model::event::{End, Interruption};
use crate::model::exchange::TurnView;
use crate::model::ids::{ExchangeId, ExchangeUuid, Millis, TurnId, UserId};
use crate::model::turn::{Prompt, Turn};

/// How many earlier turns are looked at for the model's context; the token cap usually bites first.
const CONTEXT_TURNS: usize = 200;

/// Times that operators and tests may set.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// A turn whose process does not renew it for this long is lost.
    pub lease: Duration,
    /// How often leases are renewed and lost turns looked for.
    pub renew: Duration,
    /// How long a shutdown waits for running answers.
    pub drain: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Self { lease: Duration::from_secs(30), renew: Duration::from_secs(10), drain: Duration::from_secs(5) }
    }
}

/// What one person may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// Turns that run at the same time.
    pub turns_at_once: i64,
    /// Tokens of a day (UTC), of questions and answers together.
    pub tokens_a_day: i64,
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
    owner: String,
    times: Times,
    caps: Caps,
    live: Mutex<HashMap<TurnId, Arc<Live>>>,
    tasks: TaskTracker,
    closing: CancellationToken,
}

/// A question as it comes in.
#[derive(Clone, Debug)]
pub struct Question {
    /// The conversation; made when it does not exist.
    pub exchange: ExchangeUuid,
    /// The words, with the client's id.
    pub prompt: Prompt,
    /// The agent that is asked.
    pub agent: AgentType,
    /// Facts about where the person is.
    pub context: Map<String, Value>,
}

impl Engine {
    /// Starts the engine on a store: ends what an earlier process left running, then watches over leases.
    pub async fn start(db: Db, registry: Registry, times: Times, caps: Caps) -> Result<Self, AppError> {
        let (writer, _) = Writer::start(db.clone());
        let inner = Inner {
            figures: Mutex::default(),
            db,
            writer,
            registry,
            owner: uuid::Uuid::new_v4().to_string(),
            times,
            caps,
            live: Mutex::new(HashMap::new()),
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
        };
        let engine = Self { inner: Arc::new(inner) };
        // One server owns a SQLite file, so whatever runs in it is lost; on a shared server only expired leases tell.
        let lost_before = if engine.inner.db.is_private() { Millis::MAX } else { clock::now() };
        engine.end_lost(lost_before).await?;
        tokio::spawn(reaper::run(Arc::downgrade(&engine.inner)));
        Ok(engine)
    }

    /// What it did since it started, and does.
    pub fn figures(&self) -> Figures {
        let figures = *self.inner.figures.lock().unwrap_or_else(PoisonError::into_inner);
        Figures { live: self.inner.lives().len() as u64, ..figures }
    }

    /// The agents and their model.
    pub fn registry(&self) -> &Registry {
        &self.inner.registry
    }

    /// Stores the question, then starts to answer it. Sending the same prompt again gives the turn that it made.
    ///
    /// # Errors
    /// [`AppError::Conflict`] while another turn of the conversation is live, [`AppError::NotFound`] for someone else's.
    pub async fn ask(&self, user: UserId, question: Question) -> Result<(Turn, ExchangeId), AppError> {
        let text = question.prompt.text.clone();
        let (turn, exchange) = self.ask_or_find(user, question).await?;
        if turn.prompt.text != text {
            return Err(AppError::Conflict {
                reason: "There is another message with this id in the conversation. Send it with an id of its own.".into(),
            });
        }
        Ok((turn, exchange))
    }

    async fn ask_or_find(&self, user: UserId, question: Question) -> Result<(Turn, ExchangeId), AppError> {
        if let Err(refused) = self.admit(user).await {
            // What is stored already costs nothing more.
            let known = self.inner.db.known_turn(user, &question.exchange, &question.prompt.id).await?;
            let Some(id) = known else { return Err(refused) };
            return self.run(user, Begun::Known(id), question.context).await;
        }
        let new = NewTurn {
            user,
            exchange: question.exchange,
            prompt: question.prompt,
            agent: question.agent,
            context: question.context,
            id: TurnId::from(uuid::Uuid::now_v7()),
            now: clock::now(),
            lease: self.lease(),
        };
        let engine = self.clone();
        self.shielded(async move {
            let mut begun = engine.inner.db.begin(&new).await?;
            if let Begun::Busy(other) = &begun
                && engine.end_if_lost(user, other).await?
            {
                begun = engine.inner.db.begin(&new).await?;
            }
            engine.run(user, begun, new.context).await
        })
        .await
    }

    /// Answers the question of the latest turn again; the earlier attempt stays stored.
    ///
    /// # Errors
    /// [`AppError::Conflict`] while it runs, or when it is not the latest; [`AppError::NotFound`] for someone else's.
    pub async fn retry(&self, user: UserId, of: &TurnId) -> Result<(Turn, ExchangeId), AppError> {
        self.beside(user, of, None, true).await
    }

    /// Answers a question anew in its place, with `text` a changed one; what was there leaves the shown conversation and stays stored.
    ///
    /// # Errors
    /// [`AppError::Conflict`] while a turn runs, or when that one is not shown any more; [`AppError::NotFound`] for someone else's.
    pub async fn branch(&self, user: UserId, of: &TurnId, text: Option<String>) -> Result<(Turn, ExchangeId), AppError> {
        self.beside(user, of, text, false).await
    }

    /// Answers a question without storing it; only its tokens are counted.
    pub async fn answer_once(
        &self,
        user: UserId,
        asked: AgentType,
        question: String,
        context: Map<String, Value>,
    ) -> Result<Turn, AppError> {
        self.admit(user).await?;
        let job = Job { agent: asked.clone(), question: question.clone(), earlier: Arc::from([]), context };
        let turn = alone::alone(&self.inner.registry, asked, question, job).await;
        self.inner.db.count_tokens(user, day(clock::now()), turn.usage).await?;
        Ok(turn)
    }

    /// Whether a person may begin another turn now. Two at the same moment may both pass; that is close enough for a cap.
    async fn admit(&self, user: UserId) -> Result<(), AppError> {
        let (now, Caps { turns_at_once, tokens_a_day }) = (clock::now(), self.inner.caps);
        let today = day(now);
        let (live, tokens) = self.inner.db.load_of(user, today).await?;
        if live >= turns_at_once {
            return Err(AppError::TooMuch {
                reason: format!("{live} answers are being written for you already, the most at once. Wait for one of them."),
                retry_after_s: 5,
            });
        }
        if tokens >= tokens_a_day {
            let midnight = (today + 1) * 24 * 60 * 60 * 1_000;
            return Err(AppError::TooMuch {
                reason: "You have used today's tokens on this server. They are counted anew at midnight, UTC.".into(),
                retry_after_s: u64::try_from((midnight - now) / 1_000 + 1).unwrap_or(1),
            });
        }
        Ok(())
    }

    async fn beside(&self, user: UserId, of: &TurnId, text: Option<String>, latest_only: bool) -> Result<(Turn, ExchangeId), AppError> {
        self.admit(user).await?;
        let (engine, of) = (self.clone(), of.clone());
        self.shielded(async move {
            let context = engine.inner.db.turn(user, &of).await?.ok_or_else(AppError::no_exchange)?.context;
            engine.end_if_lost(user, &of).await?;
            let id = TurnId::from(uuid::Uuid::now_v7());
            let new = Sibling { user, of, text, latest_only, id, now: clock::now(), lease: engine.lease() };
            let mut begun = engine.inner.db.begin_sibling(&new).await?;
            if let Begun::Busy(other) = &begun
                && engine.end_if_lost(user, other).await?
            {
                begun = engine.inner.db.begin_sibling(&new).await?;
            }
            engine.run(user, begun, context).await
        })
        .await
    }

    /// Runs to its end even when the request that wants it goes away: a stored turn must get a task.
    async fn shielded<T: Send + 'static>(&self, work: impl Future<Output = Result<T, AppError>> + Send + 'static) -> Result<T, AppError> {
        if self.inner.closing.is_cancelled() {
            return Err(AppError::Unavailable);
        }
        self.inner.tasks.spawn(work).await.unwrap_or(Err(AppError::Unavailable))
    }

    async fn run(&self, user: UserId, begun: Begun, context: Map<String, Value>) -> Result<(Turn, ExchangeId), AppError> {
        match begun {
            Begun::New(turn, exchange) => {
                let (earlier, _) = self.inner.db.turns(exchange, Some(turn.row), CONTEXT_TURNS).await.unwrap_or_default();
                self.spawn(user, (*turn).clone(), earlier.into(), context);
                Ok((*turn, exchange))
            }
            Begun::Known(id) => {
                let stored = self.stored(user, &id).await?;
                Ok((self.refresh(user, stored.turn).await?.turn, stored.exchange))
            }
            Begun::Busy(_) => Err(AppError::busy()),
            Begun::NotFound => Err(AppError::no_exchange()),
            Begun::NotLatest => Err(AppError::Conflict { reason: "Only the latest answer can be retried.".into() }),
            Begun::NotShown => Err(AppError::Conflict {
                reason: "That message was replaced in this conversation. Load it again to see it as it is.".into(),
            }),
        }
    }

    fn spawn(&self, user: UserId, turn: Turn, earlier: Arc<[Turn]>, context: Map<String, Value>) {
        let route = self.inner.registry.route(&turn.asked);
        let model = self.inner.registry.model_of(&route.agent).to_owned();
        let job = Job { agent: route.agent.clone(), question: turn.prompt.text.clone(), earlier, context };
        let begin = Input::Begin { agent: route.agent, unknown: route.unknown, model };
        let (live, inputs) = Live::new(user, turn, 1);
        self.inner.lives().insert(live.id.clone(), live.clone());
        if self.inner.closing.is_cancelled() {
            live.send(Input::Stop(Interruption::Shutdown));
        }
        self.inner.tasks.spawn(drive::drive(self.inner.clone(), live, inputs, begin, job));
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

    /// The turn as stored, with its events; ended first if whoever ran it is gone.
    async fn stored(&self, user: UserId, id: &TurnId) -> Result<StoredTurn, AppError> {
        self.end_if_lost(user, id).await?;
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

    /// Ends the turn by the person's wish and waits until that is stored; a turn that is over stays as it is.
    pub async fn stop(&self, user: UserId, id: &TurnId) -> Result<(), AppError> {
        if let Some(live) = self.inner.live(user, id) {
            live.send(Input::Stop(Interruption::ByUser));
            live.ended().await;
            return Ok(());
        }
        if !self.stored(user, id).await?.turn.is_ended() {
            self.inner.db.request_stop(id).await?;
        }
        Ok(())
    }

    /// Stops what runs in a conversation.
    pub async fn stop_exchange(&self, user: UserId, exchange: ExchangeId) -> Result<(), AppError> {
        match self.inner.db.live_turn(exchange).await? {
            Some(id) => self.stop(user, &id).await,
            None => Ok(()),
        }
    }

    /// Stops what runs in a person's deleted conversations.
    pub async fn stop_deleted(&self, user: UserId) -> Result<(), AppError> {
        for id in self.inner.db.deleted_live_turns(user).await? {
            match self.inner.live(user, &id) {
                Some(live) => {
                    live.send(Input::Stop(Interruption::ByUser));
                    live.ended().await;
                }
                None => self.inner.db.request_stop(&id).await?,
            }
        }
        Ok(())
    }

    /// Waits for the end of a turn that runs here and gives it whole.
    pub async fn finished(&self, user: UserId, id: &TurnId) -> Result<Turn, AppError> {
        if let Some(live) = self.inner.live(user, id) {
            live.ended().await;
            return Ok(live.turn());
        }
        Ok(self.stored(user, id).await?.turn)
    }

    /// Refuses new turns, waits a while for running ones, interrupts the rest, and returns when all is stored.
    pub async fn close(&self) {
        self.inner.closing.cancel();
        self.inner.tasks.close();
        if tokio::time::timeout(self.inner.times.drain, self.inner.tasks.wait()).await.is_err() {
            for live in self.inner.lives().values() {
                live.send(Input::Stop(Interruption::Shutdown));
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
    fn lives(&self) -> MutexGuard<'_, HashMap<TurnId, Arc<Live>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn live(&self, user: UserId, id: &TurnId) -> Option<Arc<Live>> {
        self.lives().get(id).filter(|live| live.user == user).cloned()
    }

    fn lease(&self) -> Lease {
        let lease = i64::try_from(self.times.lease.as_millis()).unwrap_or(i64::MAX / 2);
        Lease { owner: self.owner.clone(), until: clock::now() + lease }
    }
}
