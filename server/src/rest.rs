//! The API for programs, in the original's shapes: parse, call the use case, reply.

use std::time::Instant;

use app::model::error::AppError;
use app::model::event::{End, Failure, Interruption};
use app::model::exchange::ExchangeSummary;
use app::model::ids::Millis;
use app::model::turn::Turn;
use app::model::user::User;
use app::ssr::AppState;
use app::ssr::auth::CurrentUser;
use app::ssr::chat::{self, Ask};
use app::ssr::db::Db;
use app::ssr::db::message::AgentResponse;
use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Lines of the history, unless asked otherwise.
const LINES: usize = 50;
/// Most lines of the history.
const LINES_MAX: usize = 1_000;

/// What a question says beside its body.
#[derive(Default, Deserialize)]
pub struct ChatQuery {
    agent_type: Option<String>,
    query: Option<String>,
}

/// The body of a question. Keys that are not known are ignored.
#[derive(Default, Deserialize)]
pub struct ChatBody {
    query: Option<String>,
    context: Option<Value>,
    exchange_id: Option<Name>,
    page_id: Option<Name>,
}

/// Programs may name things by number or by text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Name {
    Number(i64),
    Text(String),
}

impl Name {
    fn into_text(self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Text(text) => text,
        }
    }
}

#[derive(Serialize)]
struct ChatReply {
    response: String,
    error_code: u16,
    error_message: &'static str,
    agent_response: Option<AgentResponse>,
    exchange_id: i64,
    processing_time: f64,
}

/// `POST /api/chat`: asks, and waits for the end of the turn.
pub async fn ask(
    State(state): State<AppState>,
    CurrentUser(user): CurrentUser,
    Params(params): Params<ChatQuery>,
    OptionalBody(body): OptionalBody<ChatBody>,
) -> Result<Response, AppError> {
    let started = Instant::now();
    if body.page_id.is_some() {
        return Err(AppError::not_found("The page"));
    }
    let query = body.query.filter(|query| !query.is_empty()).or(params.query).unwrap_or_default();
    let ask = Ask {
        exchange: body.exchange_id.map(Name::into_text),
        prompt_id: None,
        query,
        agent: params.agent_type,
        context: body.context.map(context).unwrap_or_default(),
    };
    let asked = chat::ask(&state.db, &state.engine, user.id, ask).await?;
    let turn = state.engine.finished(user.id, &asked.turn.id).await?;
    let (status, error_message) = outcome(&turn);
    let reply = ChatReply {
        response: turn.text(),
        error_code: if status == StatusCode::OK { 0 } else { status.as_u16() },
        error_message,
        agent_response: (turn.end() == Some(End::Answered)).then(|| AgentResponse::of(&turn)),
        exchange_id: asked.exchange.0,
        processing_time: started.elapsed().as_secs_f64(),
    };
    Ok((status, Json(reply)).into_response())
}

/// How the end of a turn looks to a program. The turn is stored in any case.
fn outcome(turn: &Turn) -> (StatusCode, &'static str) {
    match turn.end() {
        Some(End::Answered) => (StatusCode::OK, ""),
        Some(End::Failed(Failure::TimedOut)) => (StatusCode::GATEWAY_TIMEOUT, Failure::TimedOut.explain().0),
        Some(End::Failed(failure @ (Failure::Internal | Failure::Storage))) => (StatusCode::INTERNAL_SERVER_ERROR, failure.explain().0),
        Some(End::Failed(failure)) => (StatusCode::BAD_GATEWAY, failure.explain().0),
        Some(End::Interrupted(Interruption::ByUser)) => (StatusCode::OK, "The answer was stopped."),
        Some(End::Interrupted(_)) | None => (StatusCode::SERVICE_UNAVAILABLE, "The server was shut down before the answer was whole."),
    }
}

/// The original takes JSON in a text; a text that is none is a kind of place.
fn context(context: Value) -> Map<String, Value> {
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

/// How much of the history.
#[derive(Deserialize)]
pub struct HistoryQuery {
    limit: Option<usize>,
}

/// `GET /api/chat/history`: general conversations, latest activity first, each with its first turn.
pub async fn history(
    State(db): State<Db>,
    CurrentUser(user): CurrentUser,
    Params(params): Params<HistoryQuery>,
) -> Result<Json<Vec<Value>>, AppError> {
    let limit = params.limit.unwrap_or(LINES);
    if !(1..=LINES_MAX).contains(&limit) {
        return Err(AppError::invalid("limit", format!("The limit is a number from 1 to {LINES_MAX}.")));
    }
    let lines = chat::history_lines(&db, user.id, limit).await?;
    Ok(Json(lines.iter().map(|(exchange, first)| history_line(exchange, first)).collect()))
}

fn history_line(exchange: &ExchangeSummary, first: &Turn) -> Value {
    json!({
        "id": exchange.id,
        "query": first.prompt.text,
        "response": first.text(),
        "agent_type": first.agent(),
        "agent_response": answer(first),
        "timestamp": timestamp(first.started_at),
        "feedback": feedback(first),
        "message_count": exchange.turn_count,
        "title": exchange.title,
        "updated_at": timestamp(exchange.updated_at),
    })
}

/// `GET /api/chat/exchange/{id}/messages`: the words of both sides, in order.
pub async fn messages(
    State(db): State<Db>,
    CurrentUser(user): CurrentUser,
    Path(exchange): Path<String>,
) -> Result<Json<Vec<Value>>, AppError> {
    let turns = chat::all_turns(&db, user.id, &exchange).await?;
    Ok(Json(turns.iter().flat_map(both_sides).collect()))
}

fn both_sides(turn: &Turn) -> Vec<Value> {
    let mut sides = vec![json!({ "role": "user", "content": turn.prompt.text, "timestamp": timestamp(turn.started_at) })];
    if turn.is_ended() || turn.has_text() {
        sides.push(json!({
            "role": "assistant",
            "content": turn.text(),
            "agent_type": turn.agent(),
            "agent_response": answer(turn),
            "timestamp": timestamp(turn.started_at.saturating_add(turn.took_ms().unwrap_or(0))),
            "feedback": feedback(turn),
        }));
    }
    sides
}

fn answer(turn: &Turn) -> Option<AgentResponse> {
    (turn.end() == Some(End::Answered)).then(|| AgentResponse::of(turn))
}

fn feedback(turn: &Turn) -> Option<u8> {
    turn.feedback.as_ref().map(|feedback| u8::from(feedback.good))
}

/// With its zone, so that no reader takes it for local time.
fn timestamp(at: Millis) -> Option<String> {
    jiff::Timestamp::from_millisecond(at).ok().map(|at| format!("{at:.3}"))
}

/// `GET /api/whoami`: the person who calls, or `null`.
pub async fn whoami(user: Result<CurrentUser, AppError>) -> Result<Json<Option<User>>, AppError> {
    match user {
        Ok(CurrentUser(user)) => Ok(Json(Some(user))),
        Err(AppError::NotSignedIn) => Ok(Json(None)),
        Err(error) => Err(error),
    }
}

/// Any other path of the API.
pub async fn unknown() -> AppError {
    AppError::not_found("This address")
}

/// A known path with a method that it does not have.
pub async fn wrong_method() -> Response {
    let body = json!({ "err_msg": "This address does not take that method.", "err_code": 405_001 });
    (StatusCode::METHOD_NOT_ALLOWED, Json(body)).into_response()
}

/// The query string of a request; a wrong one is an error in our own shape.
pub struct Params<T>(T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Params<T> {
    type Rejection = AppError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, AppError> {
        let read: Result<Query<T>, QueryRejection> = Query::from_request_parts(parts, state).await;
        read.map(|Query(value)| Self(value)).map_err(|error| AppError::invalid("query", error.body_text()))
    }
}

/// The JSON body of a request, which may be empty; a wrong one is an error in our own shape.
pub struct OptionalBody<T>(T);

impl<T: DeserializeOwned + Default, S: Send + Sync> FromRequest<S> for OptionalBody<T> {
    type Rejection = AppError;

    async fn from_request(request: Request, state: &S) -> Result<Self, AppError> {
        if axum::body::HttpBody::size_hint(request.body()).exact() == Some(0) {
            return Ok(Self(T::default()));
        }
        let read: Result<Json<T>, JsonRejection> = Json::from_request(request, state).await;
        read.map(|Json(value)| Self(value)).map_err(|error| AppError::invalid("body", error.body_text()))
    }
}

#[cfg(test)]
mod tests {
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
