//! The event stream of one turn, for our own browser: what happened since the reader's last event, then what comes, then one end.
//!
//! [`reply`] is how every stream of this server is sent, the one of AI SDK clients too.

use std::convert::Infallible;
use std::time::Duration;

use app::model::error::AppError;
use app::model::event::Seq;
use app::model::frame::Frame;
use app::ssr::account::Accounts;
use app::ssr::auth::{Caller, Proof};
use app::ssr::chat;
use app::ssr::engine::Engine;
use async_stream::stream;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderMap, HeaderName};
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use futures::StreamExt;
use futures::stream::BoxStream;
use serde::Deserialize;
use tokio::time::{Instant, sleep_until};

/// A stream says this often that it lives, so that neither end takes the other for dead, and looks whether its reader may still read.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

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
    let headers = [(CACHE_CONTROL, "no-store, no-transform")];
    Ok((headers, reply(frames, event, caller.proof, accounts)).into_response())
}

/// A stream as a response: ends with the items, or when the session of its reader ends or the key is revoked (within seconds, when that
/// happened in another process).
pub fn reply<T: Send + 'static>(
    mut items: BoxStream<'static, T>,
    event: impl Fn(T) -> Event + Send + 'static,
    proof: Proof,
    accounts: Accounts,
) -> impl IntoResponse {
    let mut endings = accounts.endings();
    let events = stream! {
        // One timer for both of its uses: an idle stream holds little more than its connection.
        let mut due = Instant::now() + KEEP_ALIVE;
        loop {
            let next = tokio::select! {
                biased;
                item = items.next() => Next::Item(item),
                _ = endings.changed() => Next::Ending,
                () = sleep_until(due) => Next::Due,
            };
            match next {
                Next::Item(Some(item)) => {
                    yield Ok::<_, Infallible>(event(item));
                    // A stream that is never silent is looked at, too.
                    if Instant::now() < due {
                        continue;
                    }
                }
                Next::Item(None) => return,
                Next::Ending | Next::Due => {}
            }
            // A store that does not answer is no proof of anything. In a box, since idle streams should not hold the room for a query.
            if matches!(Box::pin(accounts.still_good(&proof)).await, Ok(false)) {
                return;
            }
            if Instant::now() >= due {
                due = Instant::now() + KEEP_ALIVE;
                yield Ok(Event::default().comment("keep-alive"));
            }
        }
    };
    ([(HeaderName::from_static("x-accel-buffering"), "no")], Sse::new(events))
}

/// What happens next in a stream.
enum Next<T> {
    Item(Option<T>),
    /// Somebody's session or key ended.
    Ending,
    Due,
}

fn event(frame: Frame) -> Event {
    let event = match place(&frame) {
        Some(seq) => Event::default().id(seq.to_string()),
        None => Event::default(),
    };
    event.data(serde_json::to_string(&frame).unwrap_or_default())
}

/// The last event that a reader of this frame has.
fn place(frame: &Frame) -> Option<Seq> {
    match frame {
        Frame::Snapshot { view } => Some(view.turn.seq),
        Frame::Events { first, events } => Some(first + (events.len() as Seq).saturating_sub(1)),
        Frame::Html { .. } | Frame::End => None,
    }
}
