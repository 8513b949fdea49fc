//! The use cases of the chat: access check, then store or engine. Server functions and REST call the same ones.

use serde_json::{Map, Value};

use super::clock;
use super::db::Db;
use super::db::lines::{Joined, Line};
use super::db::message::{Carried, StoredMessage};
use super::db::storable;
use super::engine::decide::Answer;
use super::engine::{Engine, Question};
use crate::model::agent::AgentType;
use crate::model::error::AppError;
use crate::model::exchange::{Conversation, ExchangeSummary, History, HistoryCursor};
use crate::model::ids::{ExchangeId, ExchangeUuid, Millis, PromptId, TurnId, TurnRow, UserId};
use crate::model::turn::{Feedback, Prompt, Turn, TurnState};

/// Longest question, in characters.
pub const QUESTION_CHARS: usize = 200_000;
/// Longest reason of a feedback, in characters.
pub const REASON_CHARS: usize = 1_000;
/// Turns of a conversation that are loaded at once.
pub const WINDOW: usize = 30;
/// Lines of the history that are loaded at once.
pub const HISTORY_LINES: usize = 50;

/// A question as a client sends it, unchecked.
#[derive(Clone, Debug, Default)]
pub struct Ask {
    /// Name or number of the conversation; none makes a new one.
    pub exchange: Option<String>,
    /// The client's id of the question; none makes one.
    pub prompt_id: Option<String>,
    /// The words.
    pub query: String,
    /// The agent; none is `auto`.
    pub agent: Option<String>,
    /// Facts about where the person is.
    pub context: Map<String, Value>,
}

/// A question that is stored and being answered.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Number of the conversation.
    pub exchange: ExchangeId,
    /// Name of the conversation.
    pub uuid: ExchangeUuid,
    /// The turn; already over when the same question had been sent before.
    pub turn: Turn,
}

/// A question as it is stored.
fn checked_question(text: &str) -> Result<String, AppError> {
    let question = storable(text).into_owned();
    if question.trim().is_empty() {
        return Err(AppError::invalid("query", "Write a question first."));
    }
    if question.chars().count() > QUESTION_CHARS {
        return Err(AppError::invalid("query", format!("The question is too long: {QUESTION_CHARS} characters at most.")));
    }
    Ok(question)
}

/// The agent of that name; none is `auto`.
pub fn agent_type(name: Option<&str>) -> Result<AgentType, AppError> {
    match name {
        None | Some("") => Ok(AgentType::auto()),
        Some(name) => {
            AgentType::parse(name).ok_or_else(|| AppError::invalid("agent_type", "An agent's name is lower-case letters, digits and _."))
        }
    }
}

/// Stores a question and starts to answer it.
pub async fn ask(db: &Db, engine: &Engine, user: UserId, ask: Ask) -> Result<Asked, AppError> {
    let question = checked_question(&ask.query)?;
    let agent = agent_type(ask.agent.as_deref())?;
    let prompt_id = match ask.prompt_id.as_deref() {
        None | Some("") => PromptId::from(uuid::Uuid::now_v7()),
        Some(id) => PromptId::parse(id).ok_or_else(|| bad_id("prompt_id"))?,
    };
    let uuid = exchange_uuid(db, user, ask.exchange.as_deref()).await?;
    let prompt = Prompt { id: prompt_id, text: question };
    let question = Question { exchange: uuid.clone(), prompt, agent, context: ask.context };
    let (turn, exchange) = engine.ask(user, question).await?;
    Ok(Asked { exchange, uuid, turn })
}

fn bad_id(field: &str) -> AppError {
    AppError::invalid(field, "An id is 1 to 64 letters, digits, - or _.")
}

/// The name of the conversation to ask in: a number must exist, a name may be new, none makes one.
async fn exchange_uuid(db: &Db, user: UserId, name: Option<&str>) -> Result<ExchangeUuid, AppError> {
    match name {
        None | Some("") => Ok(ExchangeUuid::from(uuid::Uuid::now_v7())),
        Some(number) if number.parse::<i64>().is_ok() => Ok(db.exchange(user, number).await?.ok_or_else(AppError::no_exchange)?.uuid),
        Some(name) => ExchangeUuid::parse_chosen(name).ok_or_else(|| bad_id("exchange")),
    }
}

/// Answers a question without a conversation; nothing is stored.
pub async fn answer_once(
    engine: &Engine,
    user: UserId,
    agent: AgentType,
    query: &str,
    context: Map<String, Value>,
) -> Result<Turn, AppError> {
    engine.answer_once(user, agent, checked_question(query)?, context).await
}

/// Another answer in the place of one that is there.
#[derive(Clone, Debug)]
pub struct Branch<'a> {
    /// Name or number of the conversation.
    pub exchange: &'a str,
    /// The client's id of the question, or the name of its turn; none is the latest.
    pub of: Option<&'a str>,
    /// The question, when it was changed.
    pub text: Option<String>,
}

/// Answers a question anew in its place; what was there leaves the shown conversation, with all after it, and stays stored.
pub async fn branch(db: &Db, engine: &Engine, user: UserId, branch: Branch<'_>) -> Result<Asked, AppError> {
    let text = branch.text.map(|text| checked_question(&text)).transpose()?;
    let summary = exchange(db, user, branch.exchange).await?;
    let of = db.shown_turn(user, &summary.uuid, branch.of).await?.ok_or_else(|| AppError::not_found("The message"))?;
    let (turn, exchange) = engine.branch(user, &of, text).await?;
    Ok(Asked { exchange, uuid: summary.uuid, turn })
}

/// Whether a shown question of the conversation has this id.
pub async fn has_prompt(db: &Db, user: UserId, exchange: &str, prompt: &str) -> Result<bool, AppError> {
    let Some(summary) = db.exchange(user, exchange).await? else { return Ok(false) };
    Ok(db.shown_turn(user, &summary.uuid, Some(prompt)).await?.is_some())
}

/// The running turn of a conversation; none when nothing runs, also when one waits for somebody, or when there is no such conversation.
///
/// # Errors
/// [`AppError::NotFound`] for someone else's.
pub async fn live_turn(db: &Db, engine: &Engine, user: UserId, name: &str) -> Result<Option<Turn>, AppError> {
    let Some(summary) = db.exchange(user, name).await? else {
        return if db.exchange_exists(name).await? { Err(AppError::no_exchange()) } else { Ok(None) };
    };
    let Some(id) = db.live_turn(summary.id).await? else { return Ok(None) };
    Ok(Some(engine.current(user, &id).await?).filter(|turn| turn.state == TurnState::Running))
}

/// The latest turn that is shown of a person's own conversation, as it is now.
pub async fn latest_turn(db: &Db, engine: &Engine, user: UserId, name: &str) -> Result<Option<Turn>, AppError> {
    let summary = exchange(db, user, name).await?;
    match db.shown_turn(user, &summary.uuid, None).await? {
        Some(id) => Ok(Some(engine.current(user, &id).await?)),
        None => Ok(None),
    }
}

/// All turns of a conversation; live ones with every word so far.
pub async fn all_turns(db: &Db, engine: &Engine, user: UserId, name: &str) -> Result<Vec<Turn>, AppError> {
    let summary = exchange(db, user, name).await?;
    let (mut turns, _) = db.turns(summary.id, None, 100_000).await?;
    for turn in turns.iter_mut().filter(|turn| !turn.is_ended()) {
        *turn = engine.current(user, &turn.id).await?;
    }
    Ok(turns)
}

/// A person's own conversation, by name or number.
pub async fn exchange(db: &Db, user: UserId, name: &str) -> Result<ExchangeSummary, AppError> {
    db.exchange(user, name).await?.ok_or_else(AppError::no_exchange)
}

/// The last turns of a conversation before `before`, rendered; live ones with every word so far.
pub async fn conversation(db: &Db, engine: &Engine, user: UserId, name: &str, before: Option<i64>) -> Result<Conversation, AppError> {
    let summary = exchange(db, user, name).await?;
    let (turns, earlier) = db.turns(summary.id, before.map(TurnRow), WINDOW).await?;
    let earlier = match turns.first() {
        Some(first) if earlier => db.turns_before(summary.id, first.row).await?,
        _ => 0,
    };
    let mut views = Vec::with_capacity(turns.len());
    for turn in turns {
        views.push(engine.refresh(user, turn).await?);
    }
    Ok(Conversation { summary, turns: views, earlier })
}

/// The turns of a conversation for programs, oldest first, from what the store gave of it; a live one as far as it is now.
pub async fn lines<'a>(engine: &Engine, user: UserId, joined: &'a Joined) -> Result<Vec<Line<'a>>, AppError> {
    let mut lines = joined.lines()?;
    if lines.is_empty() {
        return Err(AppError::no_exchange());
    }
    for line in lines.iter_mut().filter(|line| matches!(&*line.state, "running" | "paused")) {
        let turn = engine.current(user, &turn_id(&line.uuid)?).await?;
        line.message = StoredMessage::of(&turn, Carried::default()).to_json().into();
        line.state = turn.state_name().into();
    }
    Ok(lines)
}

/// A page of the history.
pub async fn history(db: &Db, user: UserId, before: Option<HistoryCursor>) -> Result<History, AppError> {
    db.history(user, before, HISTORY_LINES).await
}

/// The general conversations with less recent activity than `before` (a name or number; none: all), each with its first turn, for
/// programs.
pub async fn history_lines(db: &Db, user: UserId, before: Option<&str>, limit: usize) -> Result<Joined, AppError> {
    let before = match before {
        Some(name) => {
            let summary = exchange(db, user, name).await?;
            Some(HistoryCursor { updated_at: summary.updated_at, id: summary.id })
        }
        None => None,
    };
    db.history_lines(user, before, limit).await
}

/// The name of the conversation with the latest activity.
pub async fn latest(db: &Db, user: UserId) -> Result<Option<ExchangeUuid>, AppError> {
    Ok(db.history(user, None, 1).await?.lines.pop().map(|line| line.uuid))
}

/// Moves a conversation to the bin, its running answer stopped; the time is the key to take it back.
pub async fn delete(db: &Db, engine: &Engine, user: UserId, name: &str) -> Result<Millis, AppError> {
    let summary = exchange(db, user, name).await?;
    let now = clock::now();
    if !db.delete_exchange(user, &summary.uuid, now).await? {
        return Err(AppError::no_exchange());
    }
    // In this order: what is in the bin begins no turn, so none escapes.
    engine.stop_deleted(user).await?;
    Ok(now)
}

/// What was moved to the bin.
#[derive(Clone, Copy, Debug)]
pub struct Cleared {
    /// The key to take it back.
    pub deleted_at: Millis,
    /// Conversations.
    pub exchanges: usize,
    /// Shown turns in them.
    pub turns: i64,
}

/// Moves all general conversations to the bin.
pub async fn clear_history(db: &Db, engine: &Engine, user: UserId) -> Result<Cleared, AppError> {
    let deleted_at = clock::now();
    let counts = db.clear_history(user, deleted_at).await?;
    engine.stop_deleted(user).await?;
    Ok(Cleared { deleted_at, exchanges: counts.len(), turns: counts.iter().sum() })
}

/// Keeps what the person thought of an answer of a conversation: that of `turn`, else the latest one.
pub async fn set_exchange_feedback(
    db: &Db,
    user: UserId,
    name: &str,
    turn: Option<&str>,
    good: Option<bool>,
    reason: Option<String>,
) -> Result<(), AppError> {
    let summary = exchange(db, user, name).await?;
    let turn = match turn {
        Some(turn) => db.shown_turn(user, &summary.uuid, Some(turn)).await?,
        None => db.latest_answer(summary.id).await?,
    };
    let turn = turn.ok_or_else(|| AppError::not_found("The answer"))?;
    set_feedback(db, user, turn.as_str(), good, reason).await
}

/// Takes back what was deleted at that time.
pub async fn restore(db: &Db, user: UserId, deleted_at: Millis) -> Result<(), AppError> {
    match db.restore_deleted(user, deleted_at).await? {
        0 => Err(AppError::no_exchange()),
        _ => Ok(()),
    }
}

/// The turn of that name, as text from a client.
pub fn turn_id(text: &str) -> Result<TurnId, AppError> {
    TurnId::parse(text).ok_or_else(|| AppError::not_found("The turn"))
}

/// Longest reason of a denial, and longest name of a tab, in characters.
const DENIAL_CHARS: usize = 1_000;

/// The answer of a person, or of their browser, to a call that waits for it.
#[derive(Clone, Debug)]
pub enum CallAnswer {
    /// It may run.
    Allow {
        /// Id of the question.
        approval: String,
        /// And in this conversation the tool need not ask again.
        always: bool,
    },
    /// It may not.
    Deny {
        /// Id of the question.
        approval: String,
        /// Why.
        reason: String,
    },
    /// The browser ran it, or could not.
    Ran {
        /// What it gave, or why not.
        outcome: Result<Value, String>,
        /// The tab that did.
        tab: Option<String>,
    },
}

/// Lets a call of a turn go on.
///
/// # Errors
/// [`AppError::Conflict`] when it was decided otherwise, saying how; [`AppError::NotFound`] when nothing of that name waits for it.
pub async fn answer_call(db: &Db, engine: &Engine, user: UserId, turn: &str, call: &str, answer: CallAnswer) -> Result<(), AppError> {
    let id = turn_id(turn)?;
    let answer = match answer {
        CallAnswer::Allow { approval, always } => {
            if always {
                grant(db, engine, user, &id, call).await?;
            }
            Answer::Allow { approval }
        }
        CallAnswer::Deny { approval, reason } => {
            if reason.chars().count() > DENIAL_CHARS {
                return Err(AppError::invalid("reason", format!("The reason is too long: {DENIAL_CHARS} characters at most.")));
            }
            Answer::Deny { approval, reason }
        }
        CallAnswer::Ran { outcome: Ok(value), tab } => Answer::Output { value, tab },
        CallAnswer::Ran { outcome: Err(text), tab } => Answer::Failed { text: text.chars().take(DENIAL_CHARS).collect(), tab },
    };
    engine.answer(user, &id, call, answer).await
}

/// Notes that a tool need not ask again in the conversation of a turn.
async fn grant(db: &Db, engine: &Engine, user: UserId, turn: &TurnId, call: &str) -> Result<(), AppError> {
    let stored = db.turn(user, turn).await?.ok_or_else(|| AppError::not_found("The turn"))?;
    let current = engine.current(user, turn).await?;
    let (_, call) = current.find(call).ok_or_else(|| AppError::not_found("The tool call"))?;
    if engine.tools().can_ask(&call.name) {
        db.grant(user, stored.exchange, &call.name).await?;
    }
    Ok(())
}

/// The conversation of a turn.
pub async fn home_of(db: &Db, user: UserId, turn: &str) -> Result<ExchangeUuid, AppError> {
    let stored = db.turn(user, &turn_id(turn)?).await?.ok_or_else(|| AppError::not_found("The turn"))?;
    Ok(stored.exchange_uuid)
}

/// Makes a tab of the person's browser the one that runs a call, or holds on to it. `false`: another one has it, or it is over.
pub async fn claim_call(engine: &Engine, user: UserId, turn: &str, call: &str, tab: &str) -> Result<bool, AppError> {
    if tab.is_empty() || tab.chars().count() > DENIAL_CHARS {
        return Err(AppError::invalid("tab", "A tab needs a name of 1 to 1000 characters."));
    }
    engine.claim(user, &turn_id(turn)?, call, tab).await
}

/// Keeps, or with `None` forgets, what the person thought of an answer.
pub async fn set_feedback(db: &Db, user: UserId, turn: &str, good: Option<bool>, reason: Option<String>) -> Result<(), AppError> {
    let reason = reason.map(|text| storable(text.trim()).into_owned()).filter(|text| !text.is_empty());
    if reason.as_ref().is_some_and(|text| text.chars().count() > REASON_CHARS) {
        return Err(AppError::invalid("reason", format!("The reason is too long: {REASON_CHARS} characters at most.")));
    }
    let feedback = good.map(|good| Feedback { good, reason });
    if db.set_feedback(user, &turn_id(turn)?, feedback.as_ref()).await? { Ok(()) } else { Err(AppError::not_found("The turn")) }
}
