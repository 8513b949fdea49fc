//! The event stream of one turn, for our own browser: what happened since the reader's last event, then what comes, then one end.

use std::convert::Infallible;
use std::time::Duration;

use app::model::error::AppError;
use app::model::event::Seq;
use app::model::frame::Frame;
use app::ssr::account::Accounts;
use app::ssr::auth::Caller;
use app::ssr::chat;
use app::ssr::engine::Engine;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::HeaderMap;
use axum::http::header::CACHE_CONTROL;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::StreamExt;
use serde::Deserialize;

/// A silent stream says so this often, so that neither end takes the other for dead.
pub const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Where to begin.
#[derive(Deserialize)]
pub struct From {
    after: Option<Seq>,
}

/// `GET /chatgxy/turns/{id}/events?after=SEQ`
pub async fn events(
    State(engine): State<Engine>,
    State(accounts): State<Accounts>,
    caller: Caller,
    Path(id): Path<String>,
    from: Result<Query<From>, QueryRejection>,
    headers: HeaderMap,
) -> Result<Response, AppError> {
    let Query(From { after }) = from.map_err(|_| AppError::invalid("after", "The last event you have is a number."))?;
    // A browser that reconnects by itself asks with its first address, and says by this header how far it got since.
    let seen = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse().ok());
    let after = after.unwrap_or(0).max(seen.unwrap_or(0));
    let frames = engine.follow(caller.user.id, &chat::turn_id(&id)?, after).await?;
    let frames = frames.take_until(Box::pin(Caller::gone(caller.proof, accounts)));
    let events = Sse::new(frames.map(|frame| Ok::<_, Infallible>(event(&frame))));
    let headers = [(CACHE_CONTROL.as_str(), "no-store, no-transform"), ("x-accel-buffering", "no")];
    Ok((headers, events.keep_alive(KeepAlive::new().interval(KEEP_ALIVE))).into_response())
}

fn event(frame: &Frame) -> Event {
    let event = match place(frame) {
        Some(seq) => Event::default().id(seq.to_string()),
        None => Event::default(),
    };
    event.data(serde_json::to_string(frame).unwrap_or_default())
}

/// The last event that a reader of this frame has.
fn place(frame: &Frame) -> Option<Seq> {
    match frame {
        Frame::Snapshot { view } => Some(view.turn.seq),
        Frame::Events { first, events } => Some(first + (events.len() as Seq).saturating_sub(1)),
        Frame::Html { .. } | Frame::End => None,
    }
}
