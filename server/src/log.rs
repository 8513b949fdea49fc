//! One line and one count per request: what was asked for and how it went. Never a body, a query, a cookie, a key or a name in a path.

use std::panic::AssertUnwindSafe;
use std::time::Instant;

use app::model::error::AppError;
use axum::extract::{MatchedPath, Request, State};
use axum::http::HeaderValue;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures::FutureExt;

use crate::metrics::Metrics;

/// Logs the request, and turns a panic of its handler into an error with an id that is in the log.
pub async fn one_line(State(metrics): State<Metrics>, request: Request, next: Next) -> Response {
    let started = Instant::now();
    let id = format!("{:016x}", rand::random::<u64>());
    let method = request.method().clone();
    let path = request.extensions().get::<MatchedPath>().cloned();
    let mut response = match AssertUnwindSafe(next.run(request)).catch_unwind().await {
        Ok(response) => response,
        Err(_) => {
            tracing::error!(error_id = %id, "a handler panicked");
            AppError::Internal { id: id.clone() }.into_response()
        }
    };
    let path = path.as_ref().map_or("-", MatchedPath::as_str);
    metrics.count(method.as_str(), path, response.status().as_u16(), started.elapsed());
    tracing::info!(
        target: "http",
        %method,
        path,
        status = response.status().as_u16(),
        ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        request_id = %id,
    );
    if let Ok(id) = HeaderValue::from_str(&id) {
        response.headers_mut().insert("x-request-id", id);
    }
    response
}
