//! An error as an HTTP response, in the shape of the original's API.

use axum::Json;
use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::{IntoResponse, Response};

use crate::model::error::AppError;

impl IntoResponse for AppError {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = serde_json::json!({ "err_msg": self.to_string(), "err_code": self.code() });
        let mut response = (status, Json(body)).into_response();
        if let Some(seconds) = self.retry_after_s() {
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        response
    }
}
