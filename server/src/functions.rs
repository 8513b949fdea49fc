//! Mends what the framework answers for server functions: arguments that could not be read would be a fault of ours, and a form that
//! is sent back to its page would find a stray `?` in the address.

use app::model::error::AppError;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::header::LOCATION;
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::Response;

/// The header by which a server function says that it failed.
const FAILED: &str = "serverfnerror";
/// An error is a few words.
const ERROR_BYTES: usize = 64 * 1024;

/// Gives a failed server function the status of its error, and a redirect a clean address.
pub async fn mend(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let clean = response.headers().get(LOCATION).and_then(|location| location.to_str().ok()?.strip_suffix('?').map(HeaderValue::from_str));
    if let Some(Ok(clean)) = clean {
        response.headers_mut().insert(LOCATION, clean);
    }
    if response.status() != StatusCode::INTERNAL_SERVER_ERROR || !response.headers().contains_key(FAILED) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let bytes = to_bytes(body, ERROR_BYTES).await.unwrap_or_default();
    let status = serde_json::from_slice(&bytes).ok().and_then(|error: AppError| StatusCode::from_u16(error.status()).ok());
    parts.status = status.unwrap_or(parts.status);
    Response::from_parts(parts, Body::from(bytes))
}
