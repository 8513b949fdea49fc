//! Turns: beginning, reading, leases. Appending and ending are in [`super::writer`].

use serde_json::{Map, Value};
use sqlx::FromRow;

use super::message::{Carried, StoredMessage};
use super::{Db, in_transaction, is_taken, on_reader, on_writer, readable};
use crate::model::agent::AgentType;
use crate::model::error::AppError;
use crate::model::event::{End, Failure, Interruption, Seq, TurnEvent, Usage};
use crate::model::exchange::ExchangeSummary;
use crate::model::ids::{ExchangeId, ExchangeUuid, Millis, PromptId, TurnId, TurnRow, UserId};
use crate::model::turn::{Feedback, Prompt, Turn, TurnState};

// Writing to the exchange comes first in each transaction: it locks the row on PostgreSQL too, so turns of one conversation begin
// one after another.
const JOIN_EXCHANGE: &str = "update chat_exchange set updated_at = $3, agent_type = $4, turn_count = turn_count + 1 \
     where uuid = $1 and user_id = $2 and deleted_at is null returning id";
const EXCHANGE_EXISTS: &str = "select id from chat_exchange where uuid = $1";
const INSERT_EXCHANGE: &str = "insert into chat_exchange (user_id, uuid, title, agent_type, turn_count, created_at, updated_at) \
     values ($1, $2, $3, $4, 1, $5, $5) returning id";
const KNOWN_PROMPT: &str = "select uuid from chat_exchange_message \
     where chat_exchange_id = $1 and prompt_id = $2 order by attempt desc limit 1";
const LIVE: &str = "select uuid from chat_exchange_message where chat_exchange_id = $1 and state in ('running', 'paused')";
const LAST_ACTIVE: &str = "select id from chat_exchange_message where chat_exchange_id = $1 and active = 1 order by id desc limit 1";
const LATEST_ANSWER: &str = "select uuid from chat_exchange_message where chat_exchange_id = $1 and active = 1 and state = 'answered' \
     order by id desc limit 1";
const INSERT: &str = "insert into chat_exchange_message \
     (chat_exchange_id, create_time, message, uuid, prompt_id, attempt, parent_id, active, state, lease_owner, lease_until) \
     values ($1, $2, $3, $4, $5, $6, $7, 1, 'running', $8, $9) returning id";
const BRANCH_POINT: &str = "select m.id, m.chat_exchange_id, m.prompt_id, m.parent_id, m.message, m.active, \
     (select max(x.attempt) from chat_exchange_message x where x.chat_exchange_id = m.chat_exchange_id and x.prompt_id = m.prompt_id) \
     as attempts from chat_exchange_message m \
     join chat_exchange e on e.id = m.chat_exchange_id where m.uuid = $1 and e.user_id = $2 and e.deleted_at is null";
const TOUCH_EXCHANGE: &str = "update chat_exchange set updated_at = $2 where id = $1";
const RETIRE: &str = "update chat_exchange_message set active = 0 where chat_exchange_id = $1 and active = 1 and id >= $2";
const COUNT_TURNS: &str = "update chat_exchange set turn_count = \
     (select count(*) from chat_exchange_message m where m.chat_exchange_id = chat_exchange.id and m.active = 1) where id = $1";
const BY_PROMPT: &str = "select m.uuid from chat_exchange_message m join chat_exchange e on e.id = m.chat_exchange_id \
     where e.uuid = $1 and e.user_id = $2 and e.deleted_at is null and m.active = 1 and (m.prompt_id = $3 or m.uuid = $3) \
     order by m.id desc limit 1";
const LATEST: &str = "select m.uuid from chat_exchange_message m join chat_exchange e on e.id = m.chat_exchange_id \
     where e.uuid = $1 and e.user_id = $2 and e.deleted_at is null and m.active = 1 order by m.id desc limit 1";
const WINDOW: &str = "select id, uuid, prompt_id, attempt, create_time, message, feedback, feedback_reason, state \
     from chat_exchange_message where chat_exchange_id = $1 and active = 1 and id < $2 order by id desc limit $3";
const COUNT_BEFORE: &str = "select count(*) from chat_exchange_message where chat_exchange_id = $1 and active = 1 and id < $2";
const ONE: &str = "select m.id, m.uuid, m.prompt_id, m.attempt, m.create_time, m.message, m.feedback, m.feedback_reason, m.state, \
     m.chat_exchange_id, m.epoch, m.lease_until, e.uuid as exchange_uuid from chat_exchange_message m \
     join chat_exchange e on e.id = m.chat_exchange_id where m.uuid = $1 and e.user_id = $2 and e.deleted_at is null";
const DELETED_LIVE: &str = "select m.uuid, m.id from chat_exchange_message m join chat_exchange e on e.id = m.chat_exchange_id \
     where e.user_id = $1 and e.deleted_at is not null and m.state = 'running'";
const KNOWN_TURN: &str = "select m.uuid from chat_exchange_message m join chat_exchange e on e.id = m.chat_exchange_id \
     where e.uuid = $1 and e.user_id = $2 and e.deleted_at is null and m.prompt_id = $3 order by m.attempt desc limit 1";
const LOAD: &str = "select (select count(*) from chat_exchange_message m join chat_exchange e on e.id = m.chat_exchange_id \
     where e.user_id = $1 and m.state = 'running'), \
     coalesce((select input + output from token_usage where user_id = $1 and day = $2), 0)";
const COUNT_TOKENS: &str = "insert into token_usage (user_id, day, input, output) values ($1, $2, $3, $4) \
     on conflict (user_id, day) do update set input = token_usage.input + excluded.input, output = token_usage.output + excluded.output";
const EVENTS: &str = "select seq, event from turn_event where turn_id = $1 and seq > $2 order by seq";
const FEEDBACK: &str = "update chat_exchange_message set feedback = $3, feedback_reason = $4 where uuid = $1 and chat_exchange_id in \
     (select id from chat_exchange where user_id = $2 and deleted_at is null) returning id";
const RENEW: &str = "update chat_exchange_message set lease_until = $2 where lease_owner = $1 and state = 'running' returning uuid";
const LATE: &str = "select m.uuid, e.user_id from chat_exchange_message m join chat_exchange e on e.id = m.chat_exchange_id \
     where m.state = 'paused' and m.lease_until < $1 and e.deleted_at is null";
const ADVANCE: &str = "update chat_exchange_message set epoch = epoch + 1, lease_owner = $3, lease_until = $4, state = $5 \
     where id = $1 and epoch = $2 and state = 'paused' returning id";
const ADD_EVENT: &str = "insert into turn_event (turn_id, seq, event) values ($1, $2, $3)";
const GIVE_ORDER: &str = "insert into turn_order (turn_id, body, created_at) values ($1, $2, $3)";
const TAKE_ORDERS: &str = "delete from turn_order where turn_id = $1 returning id, body";
const ORDERED: &str = "select distinct m.uuid from turn_order o join chat_exchange_message m on m.id = o.turn_id where m.lease_owner = $1";
const FORGET_ORDERS: &str = "delete from turn_order where created_at < $1";
const TELL: &str = "select pg_notify('chatgxy', $1)";
const LOST: &str = "select id, epoch from chat_exchange_message where state = 'running' and lease_until < $1";
const TAKE: &str = "update chat_exchange_message set epoch = epoch + 1, lease_owner = $3, lease_until = $4 \
     where id = $1 and epoch = $2 and state = 'running' \
     returning id, uuid, prompt_id, attempt, create_time, message, feedback, feedback_reason, state";

const GIVE_UP: &str = "update chat_exchange_message set state = 'failed' where id = $1";

pub(super) const ALL: &[&str] = &[
    GIVE_UP,
    JOIN_EXCHANGE,
    EXCHANGE_EXISTS,
    INSERT_EXCHANGE,
    KNOWN_PROMPT,
    LIVE,
    LAST_ACTIVE,
    LATEST_ANSWER,
    INSERT,
    BRANCH_POINT,
    TOUCH_EXCHANGE,
    RETIRE,
    COUNT_TURNS,
    BY_PROMPT,
    LATEST,
    WINDOW,
    COUNT_BEFORE,
    ONE,
    DELETED_LIVE,
    KNOWN_TURN,
    LOAD,
    COUNT_TOKENS,
    EVENTS,
    FEEDBACK,
    RENEW,
    LATE,
    ADVANCE,
    ADD_EVENT,
    GIVE_ORDER,
    TAKE_ORDERS,
    ORDERED,
    FORGET_ORDERS,
    LOST,
    TAKE,
];
pub(super) const POSTGRES: &[&str] = &[TELL];

/// What is needed to begin a turn.
#[derive(Clone, Debug)]
pub struct NewTurn {
    /// Who asks.
    pub user: UserId,
    /// The conversation; made when it does not exist.
    pub exchange: ExchangeUuid,
    /// The client's id of the question.
    pub prompt: Prompt,
    /// The agent that is asked.
    pub agent: AgentType,
    /// Facts about where the person is.
    pub context: Map<String, Value>,
    /// The turn's name.
    pub id: TurnId,
    /// Now.
    pub now: Millis,
    /// Who runs it, and until when without renewal.
    pub lease: Lease,
}

/// The right to run a turn.
#[derive(Clone, Debug)]
pub struct Lease {
    /// This run of this process.
    pub owner: String,
    /// After that, anyone may end the turn as lost.
    pub until: Millis,
}

/// What became of a wish to begin a turn.
#[derive(Debug)]
pub enum Begun {
    /// Stored; run it.
    New(Box<Turn>, ExchangeId),
    /// The same question was sent before; this is its latest turn.
    Known(TurnId),
    /// Another turn of this conversation is live.
    Busy(TurnId),
    /// No such conversation or turn for this person.
    NotFound,
    /// Only the latest turn can be retried.
    NotLatest,
    /// The turn is not part of the conversation as it is shown.
    NotShown,
}

/// Leaves a transaction early, undoing it.
enum Leave {
    With(Begun),
    Sql(sqlx::Error),
}

impl From<sqlx::Error> for Leave {
    fn from(error: sqlx::Error) -> Self {
        Self::Sql(error)
    }
}

#[derive(FromRow)]
struct Row {
    id: i64,
    uuid: String,
    prompt_id: String,
    attempt: i64,
    create_time: Millis,
    message: String,
    feedback: Option<i64>,
    feedback_reason: Option<String>,
    state: String,
}

#[derive(FromRow)]
struct OneRow {
    #[sqlx(flatten)]
    row: Row,
    chat_exchange_id: i64,
    epoch: i64,
    lease_until: Millis,
    exchange_uuid: String,
}

/// Another turn in the place of one that is there: a retry, another answer, or a changed question.
#[derive(Clone, Debug)]
pub struct Sibling {
    /// Who asks.
    pub user: UserId,
    /// The turn whose place it takes; that one leaves the active branch, with all after it, and stays stored.
    pub of: TurnId,
    /// The question, when it was changed.
    pub text: Option<String>,
    /// Refused unless `of` is the latest turn.
    pub latest_only: bool,
    /// Its name.
    pub id: TurnId,
    /// Now.
    pub now: Millis,
    /// Who runs it, and until when without renewal.
    pub lease: Lease,
}

#[derive(FromRow)]
struct BranchPoint {
    id: i64,
    chat_exchange_id: i64,
    prompt_id: String,
    parent_id: Option<i64>,
    message: String,
    active: i64,
    attempts: i64,
}

/// A turn as stored, with what running it needs.
#[derive(Clone, Debug)]
pub struct StoredTurn {
    /// The turn; without the events that are not in its row yet, until [`Db::replay`].
    pub turn: Turn,
    /// Its conversation.
    pub exchange: ExchangeId,
    /// The conversation's name.
    pub exchange_uuid: ExchangeUuid,
    /// Its fencing epoch.
    pub epoch: i64,
    /// When its lease runs out.
    pub lease_until: Millis,
    /// What is kept beside it.
    pub carried: Carried,
}

/// A paused turn that goes on, or waits for the rest of what it waits for.
#[derive(Debug)]
pub struct Advance {
    /// Its row.
    pub row: TurnRow,
    /// Its epoch so far; it will be one greater.
    pub epoch: i64,
    /// Whether it runs now, else it is still paused.
    pub runs: bool,
    /// Who runs it, or asked, and until when without renewal; of a paused one until when it waits.
    pub lease: Lease,
    /// What happened.
    pub events: Vec<(Seq, TurnEvent)>,
}

impl Row {
    fn turn(self) -> Option<(Turn, Carried)> {
        let stored = StoredMessage::from_json(&self.message);
        let reply = stored.reply();
        let state = match (self.state.as_str(), stored.ended) {
            ("running", _) => TurnState::Running,
            ("paused", _) => TurnState::Paused,
            (_, Some(ended)) => TurnState::Ended { when: ended.at, end: ended.how, finish: ended.finish },
            ("answered", None) => TurnState::Ended { when: self.create_time, end: End::Answered, finish: None },
            ("interrupted", None) => TurnState::Ended { when: self.create_time, end: End::Interrupted(Interruption::Lost), finish: None },
            _ => TurnState::Ended { when: self.create_time, end: End::Failed(Failure::Internal), finish: None },
        };
        let turn = Turn {
            id: TurnId::parse(&self.uuid)?,
            row: TurnRow(self.id),
            prompt: Prompt { id: PromptId::parse(&self.prompt_id)?, text: stored.query },
            asked: stored.asked.unwrap_or(stored.agent_type),
            attempt: self.attempt,
            started_at: self.create_time,
            model: stored.model,
            parts: stored.parts,
            reply,
            usage: stored.usage,
            state,
            seq: stored.seq,
            feedback: self.feedback.map(|good| Feedback { good: good == 1, reason: self.feedback_reason }),
            resets: stored.resets,
        };
        Some((turn, Carried { context: stored.context, memos: stored.memos }))
    }
}

fn turn_id(text: &str) -> Result<TurnId, Leave> {
    TurnId::parse(text).ok_or_else(|| Leave::Sql(sqlx::Error::Protocol("a stored turn has an unusable uuid".into())))
}

/// The statements of [`Db::begin`], on either engine's transaction.
macro_rules! begin_in {
    ($tx:ident, $new:ident) => {{
        let text = StoredMessage::asked(&$new.prompt.text, &$new.agent, $new.context.clone()).to_json();
        let joined: Option<i64> = sqlx::query_scalar(JOIN_EXCHANGE)
            .bind($new.exchange.as_str())
            .bind($new.user.0)
            .bind($new.now)
            .bind($new.agent.as_str())
            .fetch_optional(&mut *$tx)
            .await?;
        let (exchange, parent) = if let Some(exchange) = joined {
            let known: Option<String> =
                sqlx::query_scalar(KNOWN_PROMPT).bind(exchange).bind($new.prompt.id.as_str()).fetch_optional(&mut *$tx).await?;
            if let Some(known) = known {
                return Err(Leave::With(Begun::Known(turn_id(&known)?)));
            }
            let live: Option<String> = sqlx::query_scalar(LIVE).bind(exchange).fetch_optional(&mut *$tx).await?;
            if let Some(live) = live {
                return Err(Leave::With(Begun::Busy(turn_id(&live)?)));
            }
            let parent: Option<i64> = sqlx::query_scalar(LAST_ACTIVE).bind(exchange).fetch_optional(&mut *$tx).await?;
            (exchange, parent)
        } else {
            let foreign: Option<i64> = sqlx::query_scalar(EXCHANGE_EXISTS).bind($new.exchange.as_str()).fetch_optional(&mut *$tx).await?;
            if foreign.is_some() {
                return Err(Leave::With(Begun::NotFound));
            }
            let exchange: i64 = sqlx::query_scalar(INSERT_EXCHANGE)
                .bind($new.user.0)
                .bind($new.exchange.as_str())
                .bind(ExchangeSummary::title_of(&$new.prompt.text))
                .bind($new.agent.as_str())
                .bind($new.now)
                .fetch_one(&mut *$tx)
                .await?;
            (exchange, None)
        };
        let row: i64 = sqlx::query_scalar(INSERT)
            .bind(exchange)
            .bind($new.now)
            .bind(text)
            .bind($new.id.as_str())
            .bind($new.prompt.id.as_str())
            .bind(1_i64)
            .bind(parent)
            .bind(&$new.lease.owner)
            .bind($new.lease.until)
            .fetch_one(&mut *$tx)
            .await?;
        let turn = Turn::asked($new.id.clone(), TurnRow(row), $new.prompt.clone(), $new.agent.clone(), 1, $new.now);
        (turn, ExchangeId(exchange))
    }};
}

/// The statements of [`Db::begin_sibling`], on either engine's transaction.
macro_rules! sibling_in {
    ($tx:ident, $new:ident) => {{
        let point: Option<BranchPoint> =
            sqlx::query_as(BRANCH_POINT).bind($new.of.as_str()).bind($new.user.0).fetch_optional(&mut *$tx).await?;
        let Some(point) = point else { return Err(Leave::With(Begun::NotFound)) };
        let Some(prompt_id) = PromptId::parse(&point.prompt_id) else { return Err(Leave::With(Begun::NotFound)) };
        sqlx::query(TOUCH_EXCHANGE).bind(point.chat_exchange_id).bind($new.now).execute(&mut *$tx).await?;
        let live: Option<String> = sqlx::query_scalar(LIVE).bind(point.chat_exchange_id).fetch_optional(&mut *$tx).await?;
        if let Some(live) = live {
            return Err(Leave::With(Begun::Busy(turn_id(&live)?)));
        }
        if point.active != 1 {
            return Err(Leave::With(if $new.latest_only { Begun::NotLatest } else { Begun::NotShown }));
        }
        let last: Option<i64> = sqlx::query_scalar(LAST_ACTIVE).bind(point.chat_exchange_id).fetch_optional(&mut *$tx).await?;
        if $new.latest_only && last != Some(point.id) {
            return Err(Leave::With(Begun::NotLatest));
        }
        let old = StoredMessage::from_json(&point.message);
        let agent = old.asked.unwrap_or(old.agent_type);
        let query = $new.text.clone().unwrap_or(old.query);
        let text = StoredMessage::asked(&query, &agent, old.context).to_json();
        sqlx::query(RETIRE).bind(point.chat_exchange_id).bind(point.id).execute(&mut *$tx).await?;
        let attempt = point.attempts + 1;
        let row: i64 = sqlx::query_scalar(INSERT)
            .bind(point.chat_exchange_id)
            .bind($new.now)
            .bind(text)
            .bind($new.id.as_str())
            .bind(&point.prompt_id)
            .bind(attempt)
            .bind(point.parent_id)
            .bind(&$new.lease.owner)
            .bind($new.lease.until)
            .fetch_one(&mut *$tx)
            .await?;
        sqlx::query(COUNT_TURNS).bind(point.chat_exchange_id).execute(&mut *$tx).await?;
        let prompt = Prompt { id: prompt_id, text: query };
        let turn = Turn::asked($new.id.clone(), TurnRow(row), prompt, agent, attempt, $new.now);
        (turn, ExchangeId(point.chat_exchange_id))
    }};
}

impl Db {
    /// Stores a question and the right to answer it, in one transaction; nothing is left behind when it is refused.
    pub async fn begin(&self, new: &NewTurn) -> Result<Begun, AppError> {
        // Two processes may race for a conversation or a prompt that neither saw; the loser looks again.
        for _ in 0..3 {
            match self.try_begin(new).await {
                Ok((turn, exchange)) => return Ok(Begun::New(Box::new(turn), exchange)),
                Err(Leave::With(begun)) => return Ok(begun),
                Err(Leave::Sql(error)) if is_taken(&error) => {}
                Err(Leave::Sql(error)) => return Err(error.into()),
            }
        }
        Err(AppError::busy())
    }

    async fn try_begin(&self, new: &NewTurn) -> Result<(Turn, ExchangeId), Leave> {
        Ok(in_transaction!(self, tx => begin_in!(tx, new)))
    }

    /// Stores a turn in the place of another, which leaves the active branch with all that came after it; nothing is deleted.
    pub async fn begin_sibling(&self, new: &Sibling) -> Result<Begun, AppError> {
        match self.try_sibling(new).await {
            Ok((turn, exchange)) => Ok(Begun::New(Box::new(turn), exchange)),
            Err(Leave::With(begun)) => Ok(begun),
            Err(Leave::Sql(error)) if is_taken(&error) => Err(AppError::busy()),
            Err(Leave::Sql(error)) => Err(error.into()),
        }
    }

    async fn try_sibling(&self, new: &Sibling) -> Result<(Turn, ExchangeId), Leave> {
        Ok(in_transaction!(self, tx => sibling_in!(tx, new)))
    }

    /// The shown turn of a person's own conversation with that prompt id or that name; without a name the latest.
    pub async fn shown_turn(&self, user: UserId, exchange: &ExchangeUuid, name: Option<&str>) -> Result<Option<TurnId>, AppError> {
        let found: Option<String> = match name {
            Some(name) => on_reader!(self, db =>
                sqlx::query_scalar(BY_PROMPT).bind(exchange.as_str()).bind(user.0).bind(name).fetch_optional(db).await?),
            None => on_reader!(self, db => sqlx::query_scalar(LATEST).bind(exchange.as_str()).bind(user.0).fetch_optional(db).await?),
        };
        Ok(found.as_deref().and_then(TurnId::parse))
    }

    /// The running or paused turn of a conversation. The caller has checked whose it is.
    pub async fn live_turn(&self, exchange: ExchangeId) -> Result<Option<TurnId>, AppError> {
        let found: Option<String> = on_reader!(self, db => sqlx::query_scalar(LIVE).bind(exchange.0).fetch_optional(db).await?);
        Ok(found.as_deref().and_then(TurnId::parse))
    }

    /// The latest answered turn of a conversation. The caller has checked whose it is.
    pub async fn latest_answer(&self, exchange: ExchangeId) -> Result<Option<TurnId>, AppError> {
        let found: Option<String> = on_reader!(self, db => sqlx::query_scalar(LATEST_ANSWER).bind(exchange.0).fetch_optional(db).await?);
        Ok(found.as_deref().and_then(TurnId::parse))
    }

    /// The last `limit` turns before `before` on the active branch, oldest first, and whether there are earlier ones.
    /// The caller has checked whose conversation it is.
    pub async fn turns(&self, exchange: ExchangeId, before: Option<TurnRow>, limit: usize) -> Result<(Vec<Turn>, bool), AppError> {
        let more = i64::try_from(limit).unwrap_or(i64::MAX - 1) + 1;
        let before = before.map_or(i64::MAX, |row| row.0);
        let (rows, found): (Vec<Row>, usize) = on_reader!(self, db => {
            let rows = sqlx::query(WINDOW).bind(exchange.0).bind(before).bind(more).fetch_all(db).await?;
            (rows.iter().filter_map(readable).collect(), rows.len())
        });
        let earlier = found > limit;
        let turns = rows.into_iter().take(limit).rev().filter_map(|row| Some(row.turn()?.0)).collect();
        Ok((turns, earlier))
    }

    /// How many turns of the active branch come before a row.
    pub async fn turns_before(&self, exchange: ExchangeId, row: TurnRow) -> Result<i64, AppError> {
        Ok(on_reader!(self, db => sqlx::query_scalar(COUNT_BEFORE).bind(exchange.0).bind(row.0).fetch_one(db).await?))
    }

    /// A person's own turn.
    pub async fn turn(&self, user: UserId, id: &TurnId) -> Result<Option<StoredTurn>, AppError> {
        let found: Option<OneRow> = on_reader!(self, db => sqlx::query_as(ONE).bind(id.as_str()).bind(user.0).fetch_optional(db).await?);
        Ok(found.and_then(|one| {
            let (turn, carried) = one.row.turn()?;
            Some(StoredTurn {
                turn,
                carried,
                exchange: ExchangeId(one.chat_exchange_id),
                exchange_uuid: ExchangeUuid::parse(&one.exchange_uuid)?,
                epoch: one.epoch,
                lease_until: one.lease_until,
            })
        }))
    }

    /// Applies the stored events that are not in the turn yet. One that cannot be read, or is missing, costs its own words only.
    pub async fn replay(&self, turn: &mut Turn) -> Result<(), AppError> {
        for (seq, text) in self.events(turn.row, turn.seq).await? {
            if seq > turn.seq + 1 {
                tracing::error!(turn = %turn.id, seq, "a stored event is missing");
                turn.seq = seq - 1;
            }
            let applied = serde_json::from_str::<TurnEvent>(&text).is_ok_and(|event| turn.apply(seq, &event).is_ok());
            if !applied {
                tracing::error!(turn = %turn.id, seq, "a stored event cannot be read or does not fit its turn");
                turn.seq = seq;
            }
        }
        Ok(())
    }

    /// The stored events after `after`, in order, each as its JSON text.
    pub async fn events(&self, row: TurnRow, after: Seq) -> Result<Vec<(Seq, String)>, AppError> {
        let after = i64::try_from(after).unwrap_or(i64::MAX);
        let rows: Vec<(i64, String)> = on_reader!(self, db => {
            let rows = sqlx::query(EVENTS).bind(row.0).bind(after).fetch_all(db).await?;
            rows.iter().filter_map(readable).collect()
        });
        Ok(rows.into_iter().filter_map(|(seq, text)| Some((u64::try_from(seq).ok()?, text))).collect())
    }

    /// The latest turn of a person's own question, by the client's id of that.
    pub async fn known_turn(&self, user: UserId, exchange: &ExchangeUuid, prompt: &PromptId) -> Result<Option<TurnId>, AppError> {
        let found: Option<String> = on_reader!(self, db =>
            sqlx::query_scalar(KNOWN_TURN).bind(exchange.as_str()).bind(user.0).bind(prompt.as_str()).fetch_optional(db).await?);
        Ok(found.as_deref().and_then(TurnId::parse))
    }

    /// The turns that are live in a person's deleted conversations, in whichever process.
    pub async fn deleted_live_turns(&self, user: UserId) -> Result<Vec<(TurnId, TurnRow)>, AppError> {
        let rows: Vec<(String, i64)> = on_reader!(self, db => sqlx::query_as(DELETED_LIVE).bind(user.0).fetch_all(db).await?);
        Ok(rows.into_iter().filter_map(|(id, row)| Some((TurnId::parse(&id)?, TurnRow(row)))).collect())
    }

    /// Counts tokens that a person used outside a conversation.
    pub async fn count_tokens(&self, user: UserId, day: i64, usage: Usage) -> Result<(), AppError> {
        let count = |tokens: u64| i64::try_from(tokens).unwrap_or(i64::MAX);
        let (input, output) = (count(usage.input), count(usage.output));
        on_writer!(self, db => sqlx::query(COUNT_TOKENS).bind(user.0).bind(day).bind(input).bind(output).execute(db).await.map(drop)?);
        Ok(())
    }

    /// How many turns of a person are live, and how many tokens that day's turns used.
    pub async fn load_of(&self, user: UserId, day: i64) -> Result<(i64, i64), AppError> {
        Ok(on_reader!(self, db => sqlx::query_as(LOAD).bind(user.0).bind(day).fetch_one(db).await?))
    }

    /// Keeps what the person thought of an answer. `false`: no such turn for this person.
    pub async fn set_feedback(&self, user: UserId, id: &TurnId, feedback: Option<&Feedback>) -> Result<bool, AppError> {
        let good = feedback.map(|f| i64::from(f.good));
        let reason = feedback.and_then(|f| f.reason.as_deref());
        let done: Option<i64> = on_writer!(self, db =>
            sqlx::query_scalar(FEEDBACK).bind(id.as_str()).bind(user.0).bind(good).bind(reason).fetch_optional(db).await?);
        Ok(done.is_some())
    }

    /// Leaves an order for whichever process runs the turn.
    pub async fn give_order(&self, row: TurnRow, body: &str, now: Millis) -> Result<(), AppError> {
        in_transaction!(self, tx => sqlx::query(GIVE_ORDER).bind(row.0).bind(body).bind(now).execute(&mut *tx).await.map(drop)?);
        self.tell(format!("order {row}")).await
    }

    /// Tells all processes. It is only a hint: whoever misses it looks again by itself.
    async fn tell(&self, what: String) -> Result<(), AppError> {
        if let Self::Postgres(pool) = self {
            sqlx::query(TELL).bind(what).execute(pool).await?;
        }
        Ok(())
    }

    /// The orders that were left for a turn, oldest first; they are gone then.
    pub async fn take_orders(&self, row: TurnRow) -> Result<Vec<String>, AppError> {
        let mut rows: Vec<(i64, String)> = on_writer!(self, db => sqlx::query_as(TAKE_ORDERS).bind(row.0).fetch_all(db).await?);
        rows.sort_unstable();
        Ok(rows.into_iter().map(|(_, body)| body).collect())
    }

    /// The turns of a process for which orders were left.
    pub async fn ordered(&self, owner: &str) -> Result<Vec<TurnId>, AppError> {
        let ids: Vec<String> = on_reader!(self, db => sqlx::query_scalar(ORDERED).bind(owner).fetch_all(db).await?);
        Ok(ids.iter().filter_map(|id| TurnId::parse(id)).collect())
    }

    /// Removes orders that nobody took before `then`.
    pub async fn forget_orders(&self, then: Millis) -> Result<(), AppError> {
        on_writer!(self, db => sqlx::query(FORGET_ORDERS).bind(then).execute(db).await.map(drop)?);
        Ok(())
    }

    /// Lets a paused turn go on, unless somebody else was first; all of it or nothing. Says whether it was done.
    pub async fn advance(&self, advance: &Advance) -> Result<bool, AppError> {
        if !self.try_advance(advance).await? {
            return Ok(false);
        }
        self.tell(advance.row.to_string()).await?;
        Ok(true)
    }

    async fn try_advance(&self, advance: &Advance) -> Result<bool, AppError> {
        let state = if advance.runs { "running" } else { "paused" };
        let done = in_transaction!(self, tx => {
            let taken: Option<i64> = sqlx::query_scalar(ADVANCE)
                .bind(advance.row.0)
                .bind(advance.epoch)
                .bind(&advance.lease.owner)
                .bind(advance.lease.until)
                .bind(state)
                .fetch_optional(&mut *tx)
                .await?;
            if taken.is_some() {
                for (seq, event) in &advance.events {
                    let seq = i64::try_from(*seq).unwrap_or(i64::MAX);
                    let event = serde_json::to_string(event).unwrap_or_default();
                    sqlx::query(ADD_EVENT).bind(advance.row.0).bind(seq).bind(event).execute(&mut *tx).await?;
                }
            }
            taken.is_some()
        });
        Ok(done)
    }

    /// Prolongs all leases of a process; gives the turns it still owns.
    pub async fn renew_leases(&self, lease: &Lease) -> Result<Vec<TurnId>, AppError> {
        let ids: Vec<String> = on_writer!(self, db => sqlx::query_scalar(RENEW).bind(&lease.owner).bind(lease.until).fetch_all(db).await?);
        Ok(ids.iter().filter_map(|id| TurnId::parse(id)).collect())
    }

    /// Paused turns of which something waited until before `now`, with whose they are.
    pub async fn late_turns(&self, now: Millis) -> Result<Vec<(TurnId, UserId)>, AppError> {
        let rows: Vec<(String, i64)> = on_reader!(self, db => sqlx::query_as(LATE).bind(now).fetch_all(db).await?);
        Ok(rows.into_iter().filter_map(|(id, user)| Some((TurnId::parse(&id)?, UserId(user)))).collect())
    }

    /// Running turns whose lease ran out before `then`, with their epochs.
    pub async fn lost_turns(&self, then: Millis) -> Result<Vec<(TurnRow, i64)>, AppError> {
        let rows: Vec<(i64, i64)> = on_reader!(self, db => sqlx::query_as(LOST).bind(then).fetch_all(db).await?);
        Ok(rows.into_iter().map(|(id, epoch)| (TurnRow(id), epoch)).collect())
    }

    /// Takes a lost turn over, fencing off whoever ran it. `None`: somebody else was first, or it ended.
    pub async fn take_over(&self, row: TurnRow, epoch: i64, lease: &Lease) -> Result<Option<(Turn, Carried, i64)>, AppError> {
        let taken: Option<Row> = on_writer!(self, db =>
            sqlx::query_as(TAKE).bind(row.0).bind(epoch).bind(&lease.owner).bind(lease.until).fetch_optional(db).await?);
        let Some(taken) = taken else { return Ok(None) };
        let Some((mut turn, carried)) = taken.turn() else {
            tracing::error!(row = row.0, "a lost turn cannot be read; it is marked as failed");
            on_writer!(self, db => sqlx::query(GIVE_UP).bind(row.0).execute(db).await.map(drop)?);
            return Ok(None);
        };
        self.replay(&mut turn).await?;
        Ok(Some((turn, carried, epoch + 1)))
    }
}
