//! Wake-ups: who waits for news of a turn is rung for when there may be some.
//!
//! A bell says nothing but "look again"; whoever misses one looks by itself after a while. Across processes it is PostgreSQL's NOTIFY.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError, Weak};
use std::time::Duration;

use sqlx::PgPool;
use sqlx::postgres::PgListener;
use tokio::sync::watch;

use super::{Engine, Inner};
use crate::model::ids::TurnRow;

/// How long to wait before the connection for notifications is made anew.
const PAUSE: Duration = Duration::from_secs(2);

/// The bells that somebody listens for.
#[derive(Default)]
pub(super) struct Bells(Mutex<HashMap<TurnRow, watch::Sender<()>>>);

impl Bells {
    /// Rings for whoever waits for that turn.
    pub fn ring(&self, row: TurnRow) {
        let mut bells = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bell) = bells.get(&row)
            && bell.send(()).is_err()
        {
            bells.remove(&row);
        }
    }

    /// Rings for everybody.
    fn ring_all(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|_, bell| bell.send(()).is_ok());
    }

    /// The bell of a turn.
    pub fn listen(&self, row: TurnRow) -> watch::Receiver<()> {
        let mut bells = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        bells.entry(row).or_insert_with(|| watch::channel(()).0).subscribe()
    }
}

/// Rings for what other processes did, until the engine is gone.
pub(super) async fn listen(inner: Weak<Inner>, pool: PgPool) {
    loop {
        if let Err(error) = hear(&inner, &pool).await {
            tracing::warn!(%error, "news of other processes cannot be heard; trying again");
        }
        if inner.strong_count() == 0 {
            return;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn hear(inner: &Weak<Inner>, pool: &PgPool) -> Result<(), sqlx::Error> {
    let mut listener = PgListener::connect_with(pool).await?;
    listener.listen("chatgxy").await?;
    loop {
        let told = listener.try_recv().await?;
        let Some(strong) = inner.upgrade() else { return Ok(()) };
        let engine = Engine { inner: strong };
        match told {
            // Either an order for a turn, or the turns that something happened to.
            Some(told) => match told.payload().strip_prefix("order ") {
                Some(row) => engine.look_for_orders(TurnRow(row.parse().unwrap_or(0))).await,
                None => told.payload().split(' ').filter_map(|row| row.parse().ok()).for_each(|row| engine.inner.bells.ring(TurnRow(row))),
            },
            // The connection was lost for a while: anything may have happened.
            None => engine.inner.bells.ring_all(),
        }
    }
}
