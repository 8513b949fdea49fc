//! Server functions whose arguments could not be read never run, and would be answered as a fault of ours.

use app::model::error::AppError;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::Response;

/// The header by which a server function says that it failed.
const FAILED: &str = "serverfnerror";
/// An error is a few words.
const ERROR_BYTES: usize = 64 * 1024;

/// Gives a failed server function the status of its error.
pub async fn give_status(request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    if response.status() != StatusCode::INTERNAL_SERVER_ERROR || !response.headers().contains_key(FAILED) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let bytes = to_bytes(body, ERROR_BYTES).await.unwrap_or_default();
    let status = serde_json::from_slice(&bytes).ok().and_then(|error: AppError| StatusCode::from_u16(error.status()).ok());
    parts.status = status.unwrap_or(parts.status);
    Response::from_parts(parts, Body::from(bytes))
}
