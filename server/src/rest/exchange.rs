//! Conversations as a whole: rating, deleting.

use app::model::error::AppError;
use app::ssr::AppState;
use app::ssr::auth::CurrentUser;
use app::ssr::chat;
use app::ssr::db::Db;
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::input::{Body, Name, Named, Params};

/// Most conversations of one batch.
const BATCH: usize = 1_000;

/// What was done, in a sentence.
#[derive(Serialize, ToSchema)]
pub struct Done {
    message: String,
}

/// Which answer.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct FeedbackQuery {
    /// Name of the turn; without it the latest answer.
    turn: Option<String>,
}

/// What the person thought of an answer: 1 good, 0 not, null forgets it; alone, or with a reason.
#[derive(Deserialize, ToSchema)]
#[serde(untagged)]
pub enum Feedback {
    /// Alone.
    Number(Option<i64>),
    /// With a reason.
    WithReason {
        /// 1, 0 or null.
        feedback: Option<i64>,
        /// Why, 1,000 characters at most.
        reason: Option<String>,
    },
}

/// The feedback that is stored now.
#[derive(Serialize, ToSchema)]
pub struct Saved {
    message: &'static str,
    feedback: Option<i64>,
}

/// Keeps what the person thought of an answer.
#[utoipa::path(put, path = "/api/chat/exchange/{exchange_id}/feedback", tag = "chat", request_body = Feedback,
    params(("exchange_id" = String, Path, description = "Number or uuid of the conversation"), FeedbackQuery),
    responses((status = 200, description = "Kept", body = Saved)))]
pub async fn feedback(
    State(db): State<Db>,
    CurrentUser(user): CurrentUser,
    Named(exchange): Named,
    Params(params): Params<FeedbackQuery>,
    Body(body): Body<Value>,
) -> Result<Json<Saved>, AppError> {
    let wrong = || AppError::invalid("feedback", "Feedback should be 0 or 1.");
    let (feedback, reason) = match serde_json::from_value(body).map_err(|_| wrong())? {
        Feedback::Number(feedback) => (feedback, None),
        Feedback::WithReason { feedback, reason } => (feedback, reason),
    };
    let good = match feedback {
        None => None,
        Some(0) => Some(false),
        Some(1) => Some(true),
        Some(_) => return Err(wrong()),
    };
    chat::set_exchange_feedback(&db, user.id, &exchange, params.turn.as_deref(), good, reason).await?;
    Ok(Json(Saved { message: "Feedback saved", feedback }))
}

/// Moves a conversation to the bin.
#[utoipa::path(delete, path = "/api/chat/exchange/{exchange_id}", tag = "chat",
    params(("exchange_id" = String, Path, description = "Number or uuid of the conversation")),
    responses((status = 200, description = "Moved to the bin", body = Done)))]
pub async fn delete(State(state): State<AppState>, CurrentUser(user): CurrentUser, Named(exchange): Named) -> Result<Json<Done>, AppError> {
    chat::delete(&state.db, &state.engine, user.id, &exchange).await?;
    Ok(Json(Done { message: "Deleted".into() }))
}

/// Several conversations.
#[derive(Deserialize, ToSchema)]
pub struct Batch {
    /// Their numbers or uuids, 1,000 at most; unknown ones are passed over.
    ids: Vec<Name>,
}

/// Moves several conversations to the bin.
#[utoipa::path(put, path = "/api/chat/exchanges/batch/delete", tag = "chat", request_body = Batch,
    responses((status = 200, description = "Moved to the bin", body = Done)))]
pub async fn delete_batch(
    State(state): State<AppState>,
    CurrentUser(user): CurrentUser,
    Body(batch): Body<Batch>,
) -> Result<Json<Done>, AppError> {
    if batch.ids.len() > BATCH {
        return Err(AppError::invalid("ids", format!("{BATCH} conversations at most at once.")));
    }
    let mut deleted = 0;
    for id in batch.ids {
        match chat::delete(&state.db, &state.engine, user.id, &id.into_text()).await {
            Ok(_) => deleted += 1,
            Err(AppError::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Json(Done { message: format!("Deleted {deleted} exchanges") }))
}

/// Moves all general conversations to the bin.
#[utoipa::path(delete, path = "/api/chat/history", tag = "chat",
    responses((status = 200, description = "Moved to the bin", body = Done)))]
pub async fn clear(State(state): State<AppState>, CurrentUser(user): CurrentUser) -> Result<Json<Done>, AppError> {
    let cleared = chat::clear_history(&state.db, &state.engine, user.id).await?;
    Ok(Json(Done { message: format!("Cleared {} chat exchanges with {} messages", cleared.exchanges, cleared.turns) }))
}
