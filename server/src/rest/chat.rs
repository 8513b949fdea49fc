//! Asking, and what was said.

use std::borrow::Cow;
use std::time::Instant;

use app::model::error::AppError;
use app::model::event::{End, Failure, Interruption};
use app::model::ids::Millis;
use app::model::turn::{Turn, TurnState};
use app::ssr::AppState;
use app::ssr::auth::{Caller, CurrentUser};
use app::ssr::chat::{self, Ask, Asked, Branch};
use app::ssr::db::Db;
use app::ssr::db::lines::{HistoryLine, Line};
use app::ssr::db::message::{AgentResponse, Brief};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use jiff::fmt::temporal::DateTimePrinter;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};

use super::ErrorBody;
use super::input::{Name, Named, OptionalBody, Params};
use super::shapes::AgentResponseShape;
use crate::ai_sdk;

/// Lines of the history, unless asked otherwise.
const LINES: usize = 50;
/// Most lines of the history.
const LINES_MAX: usize = 1_000;

/// What a question says beside its body.
#[derive(Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ChatQuery {
    /// The agent that is asked; `auto` lets the server choose. An unknown one is answered by the router, whose metadata says so.
    #[param(default = "auto", pattern = "^[a-z0-9_]{1,64}$")]
    agent_type: Option<String>,
    /// The question, when there is no body.
    query: Option<String>,
}

/// Facts about where the person is.
#[derive(ToSchema)]
#[schema(no_recursion)]
#[allow(dead_code, reason = "only its shape is used, by the description of the API")]
#[serde(untagged)]
pub enum Context {
    /// As they are.
    Facts(Map<String, Value>),
    /// JSON in a text, or a kind of place.
    Text(String),
}

/// The body of a question. Keys that are not known are ignored.
#[derive(Default, Deserialize, ToSchema)]
pub struct ChatBody {
    /// The question.
    query: Option<String>,
    /// Facts about where the person is: an object, or JSON in a text; another text is a kind of place.
    #[schema(value_type = Option<Context>)]
    context: Option<Value>,
    /// The conversation, by number or uuid; none begins one.
    #[schema(value_type = Option<Name>)]
    exchange_id: Option<Name>,
    /// The page that the question is about.
    #[schema(value_type = Option<Name>)]
    page_id: Option<Name>,
    /// With `exchange_id`: answers the latest question again, changed to `query` if that is given.
    regenerate: Option<bool>,
}

/// The body of an AI SDK client (`DefaultChatTransport`); answered by a stream of events.
#[derive(ToSchema)]
#[allow(dead_code, reason = "only its shape is used, by the description of the API")]
pub struct UiChatBody {
    /// The conversation's uuid, chosen by the client.
    id: String,
    /// The client's conversation; only the last message of the user is taken from it.
    messages: Option<Vec<Value>>,
    /// That message alone, instead of `messages`.
    message: Option<Value>,
    /// `submit-message` or `regenerate-message`.
    trigger: Option<String>,
    /// The changed question, or the answer to make again.
    #[schema(rename = "messageId")]
    message_id: Option<String>,
}

/// Either body.
#[derive(ToSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "only its shape is used, by the description of the API")]
pub enum EitherBody {
    /// The original's.
    Chat(ChatBody),
    /// An AI SDK client's.
    Ui(UiChatBody),
}

/// The answer to a question.
#[derive(Serialize, ToSchema)]
pub struct ChatReply {
    /// The text.
    response: String,
    /// 0, else the status of this response.
    error_code: Option<u16>,
    /// What went wrong, in a sentence.
    error_message: Option<&'static str>,
    /// The whole answer.
    #[schema(value_type = Option<AgentResponseShape>)]
    agent_response: Option<AgentResponse>,
    /// The conversation; the question is stored in it in any case.
    exchange_id: Option<i64>,
    /// Seconds.
    processing_time: Option<f64>,
}

/// Asks.
///
/// With `query` the call waits for the end of the turn. With `messages` or `message` it is an AI SDK client's, and the answer is a stream of
/// events. The question is stored before a model is called, and stays so whatever happens.
#[utoipa::path(post, path = "/api/chat", tag = "chat", params(ChatQuery), request_body = Option<EitherBody>,
    responses(
        (status = 200, description = "The answer, or for an AI SDK client its stream", body = ChatReply),
        (status = 202, description = "The answer waits for somebody to allow a tool, or for a browser", body = ChatReply),
        (status = 409, description = "An answer is still being written in this conversation", body = ErrorBody),
        (status = 502, description = "The model failed; the question is stored", body = ChatReply),
        (status = 503, description = "The server was shut down before the answer was whole", body = ChatReply),
        (status = 504, description = "The model did not answer in time; the question is stored", body = ChatReply),
    ))]
pub async fn ask(
    State(state): State<AppState>,
    caller: Caller,
    Params(params): Params<ChatQuery>,
    OptionalBody(body): OptionalBody<Value>,
) -> Result<Response, AppError> {
    let (started, user) = (Instant::now(), &caller.user);
    if ai_sdk::is_submit(&body) && body.get("query").is_none() {
        return ai_sdk::submit(&state, &caller, params.agent_type, body).await;
    }
    if body.as_object().is_some_and(|body| !body.contains_key("query")) && params.query.is_none() && body["regenerate"] != true {
        return Err(AppError::invalid("body", "The body needs `query` (a question), or `messages` or `message` (an AI SDK client's)."));
    }
    let body: ChatBody = match body {
        Value::Null => ChatBody::default(),
        body => serde_json::from_value(body).map_err(|error| AppError::invalid("body", error.to_string()))?,
    };
    if body.page_id.is_some() {
        return Err(AppError::not_found("The page"));
    }
    let query = body.query.filter(|query| !query.is_empty()).or(params.query).unwrap_or_default();
    let exchange = body.exchange_id.map(Name::into_text);
    let asked = match (&exchange, body.regenerate) {
        (Some(exchange), Some(true)) => {
            let text = Some(query).filter(|query| !query.is_empty());
            chat::branch(&state.db, &state.engine, user.id, Branch { exchange, of: None, text }).await?
        }
        _ => {
            let context = body.context.map(context).unwrap_or_default();
            let ask = Ask { exchange, prompt_id: None, query, agent: params.agent_type, context };
            chat::ask(&state.db, &state.engine, user.id, ask).await?
        }
    };
    let turn = state.engine.finished(user.id, &asked.turn.id).await?;
    Ok(reply(&asked, &turn, started))
}

fn reply(asked: &Asked, turn: &Turn, started: Instant) -> Response {
    let (status, error_message) = outcome(turn);
    let reply = ChatReply {
        response: turn.text(),
        error_code: Some(if status.is_success() { 0 } else { status.as_u16() }),
        error_message: Some(error_message),
        agent_response: (turn.end() == Some(End::Answered)).then(|| AgentResponse::of(turn)),
        exchange_id: Some(asked.exchange.0),
        processing_time: Some(started.elapsed().as_secs_f64()),
    };
    (status, Json(reply)).into_response()
}

/// How the end of a turn looks to a program. The turn is stored in any case.
fn outcome(turn: &Turn) -> (StatusCode, &'static str) {
    match turn.end() {
        Some(End::Answered) => (StatusCode::OK, ""),
        Some(End::Failed(Failure::TimedOut)) => (StatusCode::GATEWAY_TIMEOUT, Failure::TimedOut.explain().0),
        Some(End::Failed(failure @ (Failure::Internal | Failure::Storage))) => (StatusCode::INTERNAL_SERVER_ERROR, failure.explain().0),
        Some(End::Failed(failure)) => (StatusCode::BAD_GATEWAY, failure.explain().0),
        Some(End::Interrupted(Interruption::ByUser)) => (StatusCode::OK, "The answer was stopped."),
        Some(End::Interrupted(Interruption::Expired | Interruption::Superseded)) => (StatusCode::OK, "Nobody answered what it waited for."),
        None if turn.state == TurnState::Paused => {
            (StatusCode::ACCEPTED, "The answer waits for somebody to allow a tool, or for a browser.")
        }
        Some(End::Interrupted(_)) | None => (StatusCode::SERVICE_UNAVAILABLE, "The server was shut down before the answer was whole."),
    }
}

/// The original takes JSON in a text; a text that is none is a kind of place.
pub fn context(context: Value) -> Map<String, Value> {
    let read = match context {
        Value::String(text) => serde_json::from_str(&text).unwrap_or(Value::String(text)),
        other => other,
    };
    match read {
        Value::Object(facts) => facts,
        Value::String(kind) if !kind.is_empty() => Map::from_iter([("context_type".to_owned(), Value::String(kind))]),
        _ => Map::new(),
    }
}

/// Which part of the history.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct HistoryQuery {
    /// How many.
    #[param(minimum = 1, maximum = 1000, default = 50)]
    limit: Option<usize>,
    /// The last conversation of the page before, by number or uuid.
    before: Option<String>,
}

/// A conversation with its first turn.
#[derive(Serialize, ToSchema)]
pub struct HistoryEntry<'a> {
    id: i64,
    #[schema(value_type = String)]
    query: Cow<'a, RawValue>,
    #[schema(value_type = String)]
    response: Cow<'a, RawValue>,
    #[schema(value_type = String)]
    agent_type: Cow<'a, RawValue>,
    #[schema(value_type = Option<AgentResponseShape>)]
    agent_response: Cow<'a, RawValue>,
    #[schema(format = DateTime)]
    timestamp: Option<String>,
    feedback: Option<i64>,
    message_count: i64,
    title: &'a str,
    #[schema(format = DateTime)]
    updated_at: Option<String>,
}

impl<'a> HistoryEntry<'a> {
    fn of(line: &'a HistoryLine<'_>) -> Self {
        let first = Brief::from_json(&line.first.message);
        Self {
            id: line.exchange_id,
            query: first.query,
            response: first.response,
            agent_type: first.agent_type,
            agent_response: first.agent_response,
            timestamp: timestamp(line.first.create_time),
            feedback: line.first.feedback,
            message_count: line.turn_count,
            title: &line.title,
            updated_at: timestamp(line.updated_at),
        }
    }
}

/// The general conversations, latest activity first, each with its first turn.
#[utoipa::path(get, path = "/api/chat/history", tag = "chat", params(HistoryQuery),
    responses((status = 200, description = "The conversations", body = Vec<HistoryEntry>)))]
pub async fn history(
    State(db): State<Db>,
    CurrentUser(user): CurrentUser,
    Params(params): Params<HistoryQuery>,
) -> Result<Response, AppError> {
    let limit = params.limit.unwrap_or(LINES);
    if !(1..=LINES_MAX).contains(&limit) {
        return Err(AppError::invalid("limit", format!("The limit is a number from 1 to {LINES_MAX}.")));
    }
    let joined = chat::history_lines(&db, user.id, params.before.as_deref(), limit).await?;
    let lines = joined.history_lines()?;
    Ok(Json(lines.iter().map(HistoryEntry::of).collect::<Vec<_>>()).into_response())
}

/// What one side said.
#[derive(Serialize, ToSchema)]
#[serde(tag = "role", rename_all = "lowercase")]
pub enum Side<'a> {
    /// The question.
    User {
        #[schema(value_type = String)]
        content: Cow<'a, RawValue>,
        #[schema(format = DateTime)]
        timestamp: Option<String>,
    },
    /// The answer.
    Assistant {
        /// Name of the turn, for feedback on it.
        turn: &'a str,
        #[schema(value_type = String)]
        content: Cow<'a, RawValue>,
        #[schema(value_type = String)]
        agent_type: Cow<'a, RawValue>,
        #[schema(value_type = Option<AgentResponseShape>)]
        agent_response: Cow<'a, RawValue>,
        #[schema(format = DateTime)]
        timestamp: Option<String>,
        feedback: Option<i64>,
    },
}

/// The words of both sides, in order, on the branch that is shown.
#[utoipa::path(get, path = "/api/chat/exchange/{exchange_id}/messages", tag = "chat",
    params(("exchange_id" = String, Path, description = "Number or uuid of the conversation")),
    responses((status = 200, description = "What was said", body = Vec<Side>)))]
pub async fn messages(State(state): State<AppState>, CurrentUser(user): CurrentUser, Named(exchange): Named) -> Result<Response, AppError> {
    let joined = state.db.lines(user.id, &exchange).await?;
    let lines = chat::lines(&state.engine, user.id, &joined).await?;
    Ok(Json(lines.iter().flat_map(both_sides).collect::<Vec<_>>()).into_response())
}

fn both_sides<'a>(line: &'a Line<'_>) -> impl Iterator<Item = Side<'a>> {
    let brief = Brief::from_json(&line.message);
    let is_ended = !matches!(&*line.state, "running" | "paused");
    let ended_at = brief.ended.map_or(line.create_time, |ended| ended.at.max(line.create_time));
    let answer = (is_ended || brief.has_text()).then_some(Side::Assistant {
        turn: &line.uuid,
        content: brief.response,
        agent_type: brief.agent_type,
        agent_response: brief.agent_response,
        timestamp: timestamp(ended_at),
        feedback: line.feedback,
    });
    [Some(Side::User { content: brief.query, timestamp: timestamp(line.create_time) }), answer].into_iter().flatten()
}

/// With its zone, so that no reader takes it for local time.
pub fn timestamp(at: Millis) -> Option<String> {
    const MILLIS: DateTimePrinter = DateTimePrinter::new().precision(Some(3));
    jiff::Timestamp::from_millisecond(at).ok().map(|at| MILLIS.timestamp_to_string(&at))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_context_is_an_object_or_a_kind_of_place() {
        let table = [
            (json!({"page_title": "Notes"}), json!({"page_title": "Notes"})),
            (json!("{\"page_title\": \"Notes\"}"), json!({"page_title": "Notes"})),
            (json!("tool_error"), json!({"context_type": "tool_error"})),
            (json!("{broken"), json!({"context_type": "{broken"})),
            (json!(""), json!({})),
            (json!("[1]"), json!({})),
            (json!(null), json!({})),
        ];
        for (sent, read) in table {
            assert_eq!(Value::Object(context(sent.clone())), read, "{sent}");
        }
    }

    #[test]
    fn a_timestamp_has_its_zone() {
        assert_eq!(timestamp(1_700_000_000_123).as_deref(), Some("2023-11-14T22:13:20.123Z"));
    }
}
