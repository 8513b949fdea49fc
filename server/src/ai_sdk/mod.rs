//! The endpoints of AI SDK clients (`useChat` and the like), on the same use cases as everything else.
//!
//! A client's copy of the conversation is never believed: only the last message of the person is taken from it, and from an answer that
//! waits for somebody the decisions on its calls and the outputs of browser tools.

mod wire;

use app::model::error::AppError;
use app::model::part::{ToolCall, ToolState};
use app::model::turn::{Turn, TurnState};
use app::ssr::AppState;
use app::ssr::auth::{Caller, CurrentUser};
use app::ssr::chat::{self, Ask, Branch, CallAnswer};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CACHE_CONTROL;
use axum::response::sse::Event;
use axum::response::{IntoResponse, Response};
use futures::{StreamExt, stream};
use serde::Deserialize;
use serde_json::Value;

use self::wire::Encoder;
use crate::rest::input::Named;
use crate::sse;

/// What `DefaultChatTransport` sends. Other keys are ignored, the conversation before the last message too.
#[derive(Deserialize)]
pub struct Submit {
    id: String,
    #[serde(default)]
    messages: Vec<Value>,
    message: Option<Value>,
    #[serde(default)]
    trigger: Trigger,
    #[serde(rename = "messageId")]
    message_id: Option<String>,
    agent_type: Option<String>,
}

/// What the person did.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Trigger {
    /// Wrote, or changed, a message.
    #[default]
    SubmitMessage,
    /// Wants another answer.
    RegenerateMessage,
}

/// The person's message, as far as it is taken.
struct Words {
    id: Option<String>,
    text: String,
}

/// Whether a body is one of ours: it has the key that the SDK always sends.
pub fn is_submit(body: &Value) -> bool {
    body.get("messages").is_some() || body.get("message").is_some()
}

/// `POST /api/chat` with an AI SDK body: asks, and streams the answer.
pub async fn submit(state: &AppState, caller: &Caller, agent: Option<String>, body: Value) -> Result<Response, AppError> {
    let body: Submit = serde_json::from_value(body).map_err(|error| AppError::invalid("body", error.to_string()))?;
    if body.id.is_empty() {
        return Err(AppError::invalid("id", "The conversation needs an id: 1 to 64 letters, digits, - or _."));
    }
    let user = &caller.user;
    let last = body.message.as_ref().or(body.messages.last());
    let agent = body.agent_type.or(agent);
    let turn = match body.trigger {
        Trigger::RegenerateMessage => {
            let shown = last.filter(|message| message["role"] == "user").and_then(|message| message["id"].as_str());
            let of = body.message_id.as_deref().or(shown);
            chat::branch(&state.db, &state.engine, user.id, Branch { exchange: &body.id, of, text: None }).await?.turn
        }
        Trigger::SubmitMessage if last.is_some_and(|message| message["role"] == "assistant") => {
            let message = last.unwrap_or(&Value::Null);
            // A client that names another message would write what comes into that one.
            let named = body.message_id.as_deref().is_none_or(|id| message["id"] == id);
            return go_on(state, caller, &body.id, if named { message } else { &Value::Null }).await;
        }
        Trigger::SubmitMessage => {
            let words = words(last.ok_or_else(|| AppError::invalid("messages", "There is no message to answer."))?)?;
            let changed = body.message_id.as_deref().filter(|id| words.id.as_deref() == Some(*id));
            let known = match changed {
                Some(id) => chat::has_prompt(&state.db, user.id, &body.id, id).await?,
                None => false,
            };
            if known {
                let text = Some(words.text);
                chat::branch(&state.db, &state.engine, user.id, Branch { exchange: &body.id, of: changed, text }).await?.turn
            } else {
                let ask = Ask { exchange: Some(body.id), prompt_id: words.id, query: words.text, agent, ..Ask::default() };
                chat::ask(&state.db, &state.engine, user.id, ask).await?.turn
            }
        }
    };
    stream_turn(state, caller, &turn, Encoder::default()).await
}

/// An answer that waited for somebody goes on: the client's copy of it says what was decided. Streams what the client does not have.
async fn go_on(state: &AppState, caller: &Caller, exchange: &str, message: &Value) -> Result<Response, AppError> {
    let user = caller.user.id;
    let unknown =
        || AppError::invalid("messages", "The last message is an answer that this conversation does not wait with. Load it again.");
    let name = message["id"].as_str().ok_or_else(unknown)?;
    let latest = match chat::latest_turn(&state.db, &state.engine, user, exchange).await {
        // Someone else's is not there; one that nobody has is a message about nothing.
        Err(AppError::NotFound { .. }) if !state.db.exchange_exists(exchange).await? => None,
        other => other?,
    };
    let turn = latest.filter(|turn| turn.id.as_str() == name).ok_or_else(unknown)?;
    let parts = message["parts"].as_array().ok_or_else(unknown)?;
    let answers: Vec<(String, CallAnswer)> =
        turn.every_call().into_iter().filter_map(|call| Some((call.call.clone(), answer_in(call, parts)?))).collect();
    if answers.is_empty() && turn.state == TurnState::Paused {
        return Err(AppError::invalid("messages", "Nothing in this message answers what the conversation waits for."));
    }
    for (call, answer) in answers {
        match chat::answer_call(&state.db, &state.engine, user, name, &call, answer).await {
            // Somebody else was first; the stream says what was decided.
            Ok(()) | Err(AppError::Conflict { .. } | AppError::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    let turn = state.engine.current(user, &turn.id).await?;
    let encoder = Encoder::knowing(&turn, parts).ok_or_else(|| AppError::Conflict {
        reason: "Your copy of this answer is not what is stored. Load the conversation again.".into(),
    })?;
    stream_turn(state, caller, &turn, encoder).await
}

/// What a client's copy of a message says about a call that waits. All else in it is not ours to believe.
fn answer_in(call: &ToolCall, parts: &[Value]) -> Option<CallAnswer> {
    let part = parts.iter().find(|part| part["toolCallId"] == call.call)?;
    let state = part["state"].as_str()?;
    match &call.state {
        ToolState::Asking { approval, .. } if state == "approval-responded" && part["approval"]["id"] == *approval => {
            let approval = approval.clone();
            let reason = part["approval"]["reason"].as_str().unwrap_or_default().chars().take(1_000).collect();
            let approved = part["approval"]["approved"].as_bool()?;
            Some(if approved { CallAnswer::Allow { approval, always: false } } else { CallAnswer::Deny { approval, reason } })
        }
        ToolState::Waiting { .. } if state == "output-available" => {
            Some(CallAnswer::Ran { outcome: Ok(part.get("output")?.clone()), tab: None })
        }
        ToolState::Waiting { .. } if state == "output-error" => {
            Some(CallAnswer::Ran { outcome: Err(part["errorText"].as_str()?.to_owned()), tab: None })
        }
        _ => None,
    }
}

/// The text of the person's message.
fn words(message: &Value) -> Result<Words, AppError> {
    if message["role"] != "user" {
        return Err(AppError::invalid("messages", "The last message must be the user's; nothing in this conversation waits for another."));
    }
    let id = match &message["id"] {
        Value::String(id) if !id.is_empty() => Some(id.clone()),
        Value::Null => None,
        _ => return Err(AppError::invalid("messages", "The id of a message is a text, not an empty one.")),
    };
    let Value::Array(parts) = &message["parts"] else { return Err(AppError::invalid("messages", "A message needs parts.")) };
    let text = |part: &Value| (part["type"] == "text").then(|| part["text"].as_str()).flatten().map(str::to_owned);
    let texts: Option<Vec<String>> = parts.iter().map(text).collect();
    let texts = texts.ok_or_else(|| AppError::invalid("messages", "A message may hold parts of type text only."))?;
    Ok(Words { id, text: texts.concat() })
}

/// The running answer from its start, as an AI SDK stream.
#[utoipa::path(get, path = "/api/chat/{exchange_id}/stream", tag = "chat",
    params(("exchange_id" = String, Path, description = "Uuid of the conversation")),
    responses((status = 200, description = "The stream", content_type = "text/event-stream", body = String),
        (status = 204, description = "Nothing runs, or there is no such conversation")))]
pub async fn resume(State(state): State<AppState>, caller: Caller, Named(exchange): Named) -> Result<Response, AppError> {
    match chat::live_turn(&state.db, &state.engine, caller.user.id, &exchange).await? {
        Some(turn) => stream_turn(&state, &caller, &turn, Encoder::default()).await,
        None => Ok(StatusCode::NO_CONTENT.into_response()),
    }
}

/// The conversation as the AI SDK's `UIMessage[]`, on the branch that is shown.
#[utoipa::path(get, path = "/api/chat/{exchange_id}/messages", tag = "chat",
    params(("exchange_id" = String, Path, description = "Uuid of the conversation")),
    responses((status = 200, description = "The messages", body = Vec<Object>)))]
pub async fn messages(
    State(state): State<AppState>,
    CurrentUser(user): CurrentUser,
    Named(exchange): Named,
) -> Result<Json<Vec<Value>>, AppError> {
    let turns = chat::all_turns(&state.db, &state.engine, user.id, &exchange).await?;
    Ok(Json(turns.iter().flat_map(|turn| [wire::user_message(turn), wire::assistant_message(turn)]).collect()))
}

/// Stops the running answer, whose text is kept; nothing to do when none runs.
#[utoipa::path(post, path = "/api/chat/{exchange_id}/stop", tag = "chat",
    params(("exchange_id" = String, Path, description = "Uuid of the conversation")),
    responses((status = 204, description = "Nothing runs any more")))]
pub async fn stop(State(state): State<AppState>, CurrentUser(user): CurrentUser, Named(exchange): Named) -> Result<StatusCode, AppError> {
    let exchange = chat::exchange(&state.db, user.id, &exchange).await?;
    state.engine.stop_exchange(user.id, exchange.id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The chunks of a turn from where its reader is to its end, or until it waits for somebody.
async fn stream_turn(state: &AppState, caller: &Caller, turn: &Turn, mut encoder: Encoder) -> Result<Response, AppError> {
    let chunks = state.engine.watch(caller.user.id, &turn.id, move |turn| encoder.advance(turn)).await?;
    let data = chunks.map(|chunk| chunk.to_string()).chain(stream::once(async { "[DONE]".to_owned() })).boxed();
    let reply = sse::reply(data, |data| Event::default().data(data), caller.proof.clone(), state.accounts.clone());
    let headers = [(CACHE_CONTROL.as_str(), "no-store, no-cache, no-transform"), ("x-vercel-ai-ui-message-stream", "v1")];
    Ok((headers, reply).into_response())
}
