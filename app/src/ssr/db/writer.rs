//! Group commit: the events of all running turns go through one task, which commits them together every 40 ms at the latest.
//!
//! The end of a turn, or its pause, is in the same queue, so order holds, and flushes at once. A turn that ends in the batch that holds
//! its events needs none of them: its row then says everything. So does the claim to run tools, which is stored before they run.
//!
//! # Why
//! One transaction for each token costs a core at a thousand tokens a second; one for all costs 25 a second whatever the load.

use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::Db;
use crate::model::agent::AgentType;
use crate::model::event::{Seq, TurnEvent, Usage};
use crate::model::ids::{Millis, TurnRow};
use crate::ssr::clock;

/// Longest wait of an event for its commit. With the time of one commit this keeps a crash's loss under 60 ms of text.
const TICK: Duration = Duration::from_millis(40);
/// How long a failing store is tried again before the turns are told.
const PATIENCE: Duration = Duration::from_secs(20);
/// Queue length; a full one holds the turns back.
const QUEUE: usize = 4096;

// All ends of a batch go in one statement each: a thousand answers that end together must not wait for each other.
const END_SQLITE: &str = "update chat_exchange_message set state = j.value ->> 2, message = j.value ->> 3, \
     lease_until = coalesce(j.value ->> 4, lease_until) from json_each($1) j \
     where chat_exchange_message.id = j.value ->> 0 and epoch = j.value ->> 1 and chat_exchange_message.state in ('running', 'paused') returning id, chat_exchange_id";
const END_POSTGRES: &str = "update chat_exchange_message m set state = v ->> 2, message = v ->> 3, \
     lease_until = coalesce((v ->> 4)::bigint, lease_until) \
     from jsonb_array_elements($1::text::jsonb) v \
     where m.id = (v ->> 0)::bigint and m.epoch = (v ->> 1)::bigint and m.state in ('running', 'paused') returning m.id, m.chat_exchange_id";
const FORGET_EVENTS_SQLITE: &str = "delete from turn_event where turn_id in (select value from json_each($1))";
const FORGET_EVENTS_POSTGRES: &str = "delete from turn_event where turn_id in \
     (select v::bigint from jsonb_array_elements_text($1::text::jsonb) v)";
const TOUCH_SQLITE: &str = "update chat_exchange set updated_at = j.value ->> 1, agent_type = j.value ->> 2 from json_each($1) j \
     where chat_exchange.id = j.value ->> 0";
const TOUCH_POSTGRES: &str = "update chat_exchange e set updated_at = (v ->> 1)::bigint, agent_type = v ->> 2 \
     from jsonb_array_elements($1::text::jsonb) v where e.id = (v ->> 0)::bigint";
const COUNT_TOKENS_SQLITE: &str = "insert into token_usage (user_id, day, input, output) \
     select e.user_id, j.value ->> 3, sum(j.value ->> 4), sum(j.value ->> 5) from json_each($1) j \
     join chat_exchange e on e.id = j.value ->> 0 where true group by 1, 2 \
     on conflict (user_id, day) do update set input = token_usage.input + excluded.input, output = token_usage.output + excluded.output";
const COUNT_TOKENS_POSTGRES: &str = "insert into token_usage (user_id, day, input, output) \
     select e.user_id, (v ->> 3)::bigint, sum((v ->> 4)::bigint), sum((v ->> 5)::bigint) from jsonb_array_elements($1::text::jsonb) v \
     join chat_exchange e on e.id = (v ->> 0)::bigint group by 1, 2 \
     on conflict (user_id, day) do update set input = token_usage.input + excluded.input, output = token_usage.output + excluded.output";
const APPEND_SQLITE: &str = "insert into turn_event (turn_id, seq, event) \
     select m.id, j.value ->> 2, j.value ->> 3 from json_each($1) j join chat_exchange_message m \
     on m.id = j.value ->> 0 and m.epoch = j.value ->> 1 where m.state in ('running', 'paused') \
     on conflict (turn_id, seq) do nothing";
const APPEND_POSTGRES: &str = "insert into turn_event (turn_id, seq, event) \
     select m.id, (v ->> 2)::bigint, v ->> 3 from jsonb_array_elements($1::text::jsonb) v join chat_exchange_message m \
     on m.id = (v ->> 0)::bigint and m.epoch = (v ->> 1)::bigint where m.state in ('running', 'paused') \
     on conflict (turn_id, seq) do nothing";

// A call runs once: who cannot make the row does not run it. The lock keeps a taking over from slipping in between.
const CLAIM_SQLITE: &str = "insert into tool_run (turn_id, call, tool, started_at) \
     select m.id, j.value ->> 2, j.value ->> 3, j.value ->> 4 from json_each($1) j join chat_exchange_message m \
     on m.id = j.value ->> 0 and m.epoch = j.value ->> 1 where m.state = 'running' on conflict (turn_id, call) do nothing returning call";
const CLAIM_POSTGRES: &str = "insert into tool_run (turn_id, call, tool, started_at) \
     select m.id, v ->> 2, v ->> 3, (v ->> 4)::bigint from jsonb_array_elements($1::text::jsonb) v join chat_exchange_message m \
     on m.id = (v ->> 0)::bigint and m.epoch = (v ->> 1)::bigint where m.state = 'running' for share of m \
     on conflict (turn_id, call) do nothing returning call";
// For the other processes; see the engine's bell.
const TELL: &str = "select pg_notify('chatgxy', $1)";
/// A notification holds 8,000 bytes at most.
const TOLD_AT_ONCE: usize = 300;

pub(super) const SQLITE: &[&str] = &[APPEND_SQLITE, END_SQLITE, FORGET_EVENTS_SQLITE, TOUCH_SQLITE, COUNT_TOKENS_SQLITE, CLAIM_SQLITE];
pub(super) const POSTGRES: &[&str] =
    &[APPEND_POSTGRES, END_POSTGRES, FORGET_EVENTS_POSTGRES, TOUCH_POSTGRES, COUNT_TOKENS_POSTGRES, CLAIM_POSTGRES, TELL];

/// Something to store about one turn.
#[derive(Debug)]
pub struct Write {
    /// Its row.
    pub row: TurnRow,
    /// The epoch under which the writer runs it.
    pub epoch: i64,
    /// New events.
    pub events: Vec<(Seq, TurnEvent)>,
    /// Calls that are about to run, each with its tool.
    pub claims: Vec<(String, String)>,
    /// Its end or its pause, if these are its last.
    pub end: Option<EndWrite>,
    /// Told what became of it, once it is durable.
    pub done: Option<oneshot::Sender<Outcome>>,
}

/// The end or the pause of a turn.
#[derive(Debug)]
pub struct EndWrite {
    /// `answered`, `failed`, `interrupted` or `paused`.
    pub state: &'static str,
    /// The whole turn as JSON.
    pub message: String,
    /// Until when a paused one waits.
    pub until: Option<Millis>,
    /// Who answered.
    pub agent: AgentType,
    /// When.
    pub at: Millis,
    /// Tokens that are to be counted: those of the whole turn at its end, none before.
    pub usage: Usage,
}

/// What became of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What became of it as a whole.
    pub written: Written,
    /// The calls that may run now.
    pub claimed: Vec<String>,
}

/// What became of a write as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// Durable.
    Stored,
    /// Somebody else ended the turn, or took it over.
    Refused,
    /// The store failed for too long.
    Lost,
}

/// The way to the writing task. Cheap to clone; the task ends when all are dropped.
#[derive(Clone, Debug)]
pub struct Writer {
    queue: mpsc::Sender<Write>,
}

impl Writer {
    /// Starts the task.
    pub fn start(db: Db) -> (Self, tokio::task::JoinHandle<()>) {
        let (queue, inbox) = mpsc::channel(QUEUE);
        let task = tokio::spawn(run(db, inbox));
        (Self { queue }, task)
    }

    /// Hands something over; waits only when the queue is full.
    pub async fn write(&self, write: Write) {
        if self.queue.send(write).await.is_err() {
            tracing::error!("the writer is gone; an event was not stored");
        }
    }
}

async fn run(db: Db, mut inbox: mpsc::Receiver<Write>) {
    let mut batch = Vec::new();
    while let Some(first) = inbox.recv().await {
        batch.push(first);
        let due = Instant::now() + TICK;
        while !batch.iter().any(|write| write.done.is_some()) {
            match tokio::time::timeout_at(due, inbox.recv()).await {
                Ok(Some(next)) => batch.push(next),
                Ok(None) | Err(_) => break,
            }
        }
        while let Ok(next) = inbox.try_recv() {
            batch.push(next);
        }
        store(&db, &mut batch).await;
    }
}

/// Stores a batch, trying again while the store is busy or full; then tells those who wait.
async fn store(db: &Db, batch: &mut Vec<Write>) {
    let give_up = Instant::now() + PATIENCE;
    let mut pause = Duration::from_millis(50);
    let outcome = loop {
        match commit(db, batch).await {
            Ok(ended) => break Some(ended),
            Err(error) if Instant::now() < give_up => {
                tracing::warn!(%error, "storing turns failed; trying again");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(Duration::from_secs(2));
            }
            Err(error) => {
                tracing::error!(%error, "storing turns failed for too long");
                break None;
            }
        }
    };
    for write in batch.drain(..) {
        let Some(done) = write.done else { continue };
        let written = match &outcome {
            None => Written::Lost,
            Some(stored) if write.end.is_none() || stored.ended.contains(&write.row) => Written::Stored,
            Some(_) => Written::Refused,
        };
        let claimed = outcome
            .as_ref()
            .map(|stored| write.claims.iter().filter(|(call, _)| stored.claimed.contains(call)).map(|(call, _)| call.clone()).collect());
        // Nobody listens when the turn's task was cancelled; the row is what counts.
        let _ = done.send(Outcome { written, claimed: claimed.unwrap_or_default() });
    }
}

/// The day of a time, UTC.
pub fn day(at: Millis) -> i64 {
    at.div_euclid(24 * 60 * 60 * 1_000)
}

/// What a commit did beside appending.
struct Stored {
    ended: Vec<TurnRow>,
    claimed: Vec<String>,
}

async fn commit(db: &Db, batch: &[Write]) -> Result<Stored, sqlx::Error> {
    let ending: Vec<TurnRow> = batch.iter().filter(|write| write.end.is_some()).map(|write| write.row).collect();
    let lines: Vec<(i64, i64, Seq, String)> = batch
        .iter()
        .filter(|write| !ending.contains(&write.row))
        .flat_map(|write| {
            write.events.iter().map(|(seq, event)| (write.row.0, write.epoch, *seq, serde_json::to_string(event).unwrap_or_default()))
        })
        .collect();
    let append = (!lines.is_empty()).then(|| json(&lines));
    let ends: Vec<(i64, i64, &str, &str, Option<Millis>)> = batch
        .iter()
        .filter_map(|write| write.end.as_ref().map(|end| (write.row.0, write.epoch, end.state, end.message.as_str(), end.until)))
        .collect();
    let now = clock::now();
    let claims: Vec<(i64, i64, &str, &str, Millis)> = batch
        .iter()
        .flat_map(|write| write.claims.iter().map(|(call, tool)| (write.row.0, write.epoch, call.as_str(), tool.as_str(), now)))
        .collect();
    let mut ended: Vec<(i64, i64)> = Vec::new();
    let mut claimed: Vec<String> = Vec::new();
    macro_rules! commit_in {
        ($tx:ident, [$append:ident, $end:ident, $forget:ident, $touch:ident, $count:ident, $claim:ident]) => {{
            if let Some(lines) = &append {
                sqlx::query($append).bind(lines).execute(&mut *$tx).await?;
            }
            if !claims.is_empty() {
                claimed = sqlx::query_scalar($claim).bind(json(&claims)).fetch_all(&mut *$tx).await?;
            }
            if !ends.is_empty() {
                ended = sqlx::query_as($end).bind(json(&ends)).fetch_all(&mut *$tx).await?;
            }
            if !ended.is_empty() {
                let rows: Vec<i64> = ended.iter().map(|(row, _)| *row).collect();
                sqlx::query($forget).bind(json(&rows)).execute(&mut *$tx).await?;
                let touched = json(&touched(batch, &ended));
                sqlx::query($touch).bind(&touched).execute(&mut *$tx).await?;
                sqlx::query($count).bind(&touched).execute(&mut *$tx).await?;
            }
        }};
    }
    // The text of a running answer need not be on the disk at once, and must not wait for it; what somebody waits for is promised.
    let sync = batch.iter().any(|write| write.done.is_some());
    match db {
        Db::Sqlite { writer, disk, .. } => {
            let mut tx = writer.begin_with("begin immediate").await?;
            commit_in!(tx, [APPEND_SQLITE, END_SQLITE, FORGET_EVENTS_SQLITE, TOUCH_SQLITE, COUNT_TOKENS_SQLITE, CLAIM_SQLITE]);
            tx.commit().await?;
            if sync {
                disk.synced().await?;
            }
        }
        Db::Postgres(pool) => {
            let mut tx = pool.begin().await?;
            commit_in!(tx, [APPEND_POSTGRES, END_POSTGRES, FORGET_EVENTS_POSTGRES, TOUCH_POSTGRES, COUNT_TOKENS_POSTGRES, CLAIM_POSTGRES]);
            let mut rows: Vec<i64> = batch.iter().map(|write| write.row.0).collect();
            rows.sort_unstable();
            rows.dedup();
            for rows in rows.chunks(TOLD_AT_ONCE) {
                let rows: Vec<String> = rows.iter().map(ToString::to_string).collect();
                sqlx::query(TELL).bind(rows.join(" ")).execute(&mut *tx).await?;
            }
            tx.commit().await?;
        }
    }
    Ok(Stored { ended: ended.into_iter().map(|(row, _)| TurnRow(row)).collect(), claimed })
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// For each exchange with an end: its row, when, who answered, the day, and the tokens.
fn touched<'a>(batch: &'a [Write], ended: &[(i64, i64)]) -> Vec<(i64, Millis, &'a str, i64, i64, i64)> {
    let count = |tokens: u64| i64::try_from(tokens).unwrap_or(i64::MAX);
    let ends = batch.iter().filter_map(|write| {
        let (_, exchange) = ended.iter().find(|(row, _)| *row == write.row.0)?;
        let end = write.end.as_ref()?;
        Some((*exchange, end.at, end.agent.as_str(), day(end.at), count(end.usage.input), count(end.usage.output)))
    });
    ends.collect()
}
