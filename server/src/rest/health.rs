//! For those who watch the server: is it alive, is it ready, what does it do.

use app::model::error::AppError;
use app::ssr::auth::{Administrator, Client};
use app::ssr::db::Db;
use app::ssr::engine::Engine;
use axum::Extension;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;

use crate::metrics::Metrics;

/// `GET /healthz`: the process answers.
pub async fn alive() -> &'static str {
    "ok\n"
}

/// `GET /readyz`: the database is reachable and its tables are up to date.
pub async fn ready(State(db): State<Db>) -> Result<&'static str, AppError> {
    match db.is_ready().await {
        Ok(true) => Ok("ready\n"),
        Ok(false) | Err(_) => Err(AppError::Unavailable),
    }
}

/// `GET /metrics`: figures for Prometheus, for this machine and for administrators.
pub async fn figures(
    State(engine): State<Engine>,
    Extension(metrics): Extension<Metrics>,
    client: Client,
    admin: Result<Administrator, AppError>,
) -> Result<impl IntoResponse, AppError> {
    if !client.ip.is_loopback() || client.by_proxy {
        admin?;
    }
    Ok(([(CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], metrics.text(&engine.figures())))
}
