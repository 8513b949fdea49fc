//! Questions: stored first, then answered. Asking again, asking otherwise, and asking without a trace.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::decide::Input;
use super::drive::{First, Task};
use super::{Caps, Engine, alone, clock};
use crate::model::agent::AgentType;
use crate::model::error::AppError;
use crate::model::event::Interruption;
use crate::model::ids::{ExchangeId, ExchangeUuid, TurnId, UserId};
use crate::model::turn::{Prompt, Turn};
use crate::ssr::agents::Job;
use crate::ssr::db::message::Carried;
use crate::ssr::db::turns::{Begun, NewTurn, Sibling};
use crate::ssr::db::writer::day;

/// How many earlier turns are looked at for the model's context; the token cap usually bites first.
pub(super) const CONTEXT_TURNS: usize = 200;

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
                && engine.make_way(user, other).await?
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
        // It has no tools: nobody could be asked, and nothing that it does would be kept.
        let (steps, offers) = (Vec::new(), Arc::from([]));
        let job = Job { agent: asked.clone(), question: question.clone(), earlier: Arc::from([]), context, steps, offers };
        let turn = alone::alone(&self.inner.registry, asked, question, job).await;
        self.inner.db.count_tokens(user, day(clock::now()), turn.usage).await?;
        Ok(turn)
    }

    /// Whether a person may begin another turn now. Two at the same moment may both pass; that is close enough for a cap.
    async fn admit(&self, user: UserId) -> Result<(), AppError> {
        let (now, Caps { turns_at_once, tokens_a_day, .. }) = (clock::now(), self.inner.caps);
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
            let context = engine.inner.db.turn(user, &of).await?.ok_or_else(AppError::no_exchange)?.carried.context;
            engine.end_if_lost(user, &of).await?;
            let id = TurnId::from(uuid::Uuid::now_v7());
            let new = Sibling { user, of, text, latest_only, id, now: clock::now(), lease: engine.lease() };
            let mut begun = engine.inner.db.begin_sibling(&new).await?;
            if let Begun::Busy(other) = &begun
                && engine.make_way(user, other).await?
            {
                begun = engine.inner.db.begin_sibling(&new).await?;
            }
            engine.run(user, begun, context).await
        })
        .await
    }

    /// Runs to its end even when the request that wants it goes away: a stored turn must get a task.
    pub(super) async fn shielded<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, AppError>> + Send + 'static,
    ) -> Result<T, AppError> {
        if self.inner.closing.is_cancelled() {
            return Err(AppError::Unavailable);
        }
        self.inner.tasks.spawn(work).await.unwrap_or(Err(AppError::Unavailable))
    }

    async fn run(&self, user: UserId, begun: Begun, context: Map<String, Value>) -> Result<(Turn, ExchangeId), AppError> {
        match begun {
            Begun::New(turn, exchange) => {
                let (earlier, _) = self.inner.db.turns(exchange, Some(turn.row), CONTEXT_TURNS).await.unwrap_or_default();
                self.begin(user, (*turn).clone(), exchange, earlier.into(), context);
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

    /// Makes room for another turn: ends the one that is live when its process is gone, or when it waits for an answer that the person
    /// does not give. Says whether it did.
    async fn make_way(&self, user: UserId, other: &TurnId) -> Result<bool, AppError> {
        if self.end_if_lost(user, other).await? {
            return Ok(true);
        }
        Box::pin(self.end_paused(user, other, Interruption::Superseded)).await
    }

    fn begin(&self, user: UserId, turn: Turn, exchange: ExchangeId, earlier: Arc<[Turn]>, context: Map<String, Value>) {
        let route = self.inner.registry.route(&turn.asked);
        let model = self.inner.registry.model_of(&route.agent).to_owned();
        let first = First::Input(Input::Begin { agent: route.agent, unknown: route.unknown, model });
        let carried = Carried { context, memos: Map::new() };
        self.spawn(user, turn, Task { exchange, epoch: 1, carried, earlier, first });
    }
}
