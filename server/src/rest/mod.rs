//! The API for programs, in the original's shapes: parse, call the use case, reply. [`routes`] is its table of contents, and what
//! `/api/openapi.json` says comes from the same lines.

mod account;
mod agents;
mod calls;
mod chat;
mod docs;
mod exchange;
mod health;
pub mod input;
mod shapes;

use app::model::error::AppError;
use app::ssr::AppState;
use axum::Json;
use axum::Router;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use serde::Serialize;
use serde_json::json;
use utoipa::openapi::OpenApi;
use utoipa::{OpenApi as _, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::ai_sdk;

/// All addresses for programs.
pub fn routes() -> Router<AppState> {
    let (router, description) = described().split_for_parts();
    router
        .merge(docs::routes(description))
        .route("/api/chat/{exchange_id}/execs", get(calls::count_runs))
        .route("/api/{*rest}", any(unknown))
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .route("/metrics", get(health::figures))
}

fn described() -> OpenApiRouter<AppState> {
    OpenApiRouter::with_openapi(docs::Description::openapi())
        .routes(routes!(chat::ask))
        .routes(routes!(ai_sdk::resume))
        .routes(routes!(ai_sdk::messages))
        .routes(routes!(ai_sdk::stop))
        .routes(routes!(calls::answer))
        .routes(routes!(chat::history, exchange::clear))
        .routes(routes!(chat::messages))
        .routes(routes!(exchange::feedback))
        .routes(routes!(exchange::delete))
        .routes(routes!(exchange::delete_batch))
        .routes(routes!(agents::list))
        .routes(routes!(agents::query))
        .routes(routes!(agents::configuration))
        .routes(routes!(account::version))
        .routes(routes!(account::whoami))
        .routes(routes!(account::current))
        .routes(routes!(account::list, account::add))
        .routes(routes!(account::make_key))
}

/// What `/api/openapi.json` says.
pub fn description() -> OpenApi {
    docs::finished(described().into_openapi())
}

/// An error.
#[derive(Serialize, ToSchema)]
#[allow(dead_code, reason = "only its shape is used, by the description of the API")]
pub struct ErrorBody {
    /// What happened and what to do, for people.
    err_msg: String,
    /// The status followed by three digits, for programs.
    err_code: u32,
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
