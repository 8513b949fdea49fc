//! Calls of tools that wait for somebody.

use app::model::error::AppError;
use app::model::part::ToolState;
use app::ssr::AppState;
use app::ssr::auth::CurrentUser;
use app::ssr::chat::{self, CallAnswer};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::input::{Body, Named};

/// The answer to a call: `approved` for one that asks, `output` or `error` for one that a browser runs.
#[derive(Deserialize, ToSchema)]
pub struct CallBody {
    /// Whether it may run.
    approved: Option<bool>,
    /// Why not.
    reason: Option<String>,
    /// With `approved`: in this conversation the tool need not ask again.
    always: Option<bool>,
    /// What the tool gave.
    output: Option<Value>,
    /// Why the tool gave nothing.
    error: Option<String>,
}

/// Answers a call of the latest turn that waits.
///
/// A second answer that says the same is taken; one that says something else is told what was decided (409).
#[utoipa::path(put, path = "/api/chat/{exchange_id}/calls/{call_id}", tag = "chat",
    params(("exchange_id" = String, Path, description = "Number or uuid of the conversation"),
        ("call_id" = String, Path, description = "The `toolCallId` of the call")),
    request_body = CallBody,
    responses((status = 204, description = "It goes on")))]
pub async fn answer(
    State(state): State<AppState>,
    CurrentUser(user): CurrentUser,
    Named(names): Named<(String, String)>,
    Body(body): Body<CallBody>,
) -> Result<StatusCode, AppError> {
    let (exchange, call) = names;
    let no_call = || AppError::not_found("The tool call");
    let turn = chat::latest_turn(&state.db, &state.engine, user.id, &exchange).await?.ok_or_else(no_call)?;
    let (_, known) = turn.find(&call).ok_or_else(no_call)?;
    let approval = match &known.state {
        ToolState::Asking { approval, .. } | ToolState::Denied { approval, .. } => Some(approval.clone()),
        ToolState::Running { approval, .. }
        | ToolState::Waiting { approval, .. }
        | ToolState::Done { approval, .. }
        | ToolState::Failed { approval, .. } => approval.clone(),
        ToolState::Streaming { .. } | ToolState::Ready { .. } => None,
    };
    let approval = approval.unwrap_or_default();
    let answer = match body {
        CallBody { approved: Some(true), always, .. } => CallAnswer::Allow { approval, always: always == Some(true) },
        CallBody { approved: Some(false), reason, .. } => CallAnswer::Deny { approval, reason: reason.unwrap_or_default() },
        CallBody { output: Some(value), .. } => CallAnswer::Ran { outcome: Ok(value), tab: None },
        CallBody { error: Some(why), .. } => CallAnswer::Ran { outcome: Err(why), tab: None },
        _ => return Err(AppError::invalid("body", "The body needs `approved`, `output` or `error`.")),
    };
    chat::answer_call(&state.db, &state.engine, user.id, turn.id.as_str(), &call, answer).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// How often tools ran in the conversation. There only where tools are tested.
pub async fn count_runs(
    State(state): State<AppState>,
    CurrentUser(user): CurrentUser,
    Named(exchange): Named,
) -> Result<Json<Value>, AppError> {
    if !state.engine.tools().is_testing() {
        return Err(super::unknown().await);
    }
    let exchange = chat::exchange(&state.db, user.id, &exchange).await?;
    Ok(Json(json!({ "count": state.db.count_test_runs(exchange.id).await? })))
}
