//! When what SQLite committed is on the disk.
//!
//! Commits do not wait for the disk: a process that dies loses nothing of them, since the system has the bytes. Only a machine that
//! loses power would, so whoever promises durability waits for [`Disk::synced`]. One sync serves all who wait, and none of them holds
//! up the writer: a slow disk delays promises, never the text of running answers.

use std::fs::File;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use sqlx::sqlite::{SqliteConnectOptions, SqlitePool};
use tokio::sync::{mpsc, oneshot};

/// A log that has grown to this many bytes is written back into the database.
const LOG_BYTES: u64 = 4 << 20;

/// The way to the syncing task. Cheap to clone; the task ends when all are dropped.
#[derive(Clone, Debug)]
pub struct Disk {
    queue: mpsc::UnboundedSender<oneshot::Sender<bool>>,
    keeper: SqlitePool,
}

impl Disk {
    /// Starts the task for the write-ahead log of that database, which must exist. `keeper` is a connection of its own, for writing the
    /// log back without holding up the writer.
    pub fn start(url: &str, keeper: SqlitePool) -> Result<Self, sqlx::Error> {
        let options = SqliteConnectOptions::from_str(url)?;
        let mut log = options.get_filename().as_os_str().to_owned();
        log.push("-wal");
        let log = Arc::new(File::open(Path::new(&log))?);
        let (queue, inbox) = mpsc::unbounded_channel();
        tokio::spawn(run(log, keeper.clone(), inbox));
        Ok(Self { queue, keeper })
    }

    /// Closes the connection that writes the log back.
    pub async fn close(&self) {
        self.keeper.close().await;
    }

    /// Returns when everything committed before the call is on the disk.
    ///
    /// # Errors
    /// The disk refused: what was committed may be lost with the machine's power.
    pub async fn synced(&self) -> Result<(), sqlx::Error> {
        let (done, synced) = oneshot::channel();
        let _ = self.queue.send(done);
        match synced.await {
            Ok(true) => Ok(()),
            _ => Err(sqlx::Error::Io(std::io::Error::other("the disk did not take what was written"))),
        }
    }
}

async fn run(log: Arc<File>, keeper: SqlitePool, mut inbox: mpsc::UnboundedReceiver<oneshot::Sender<bool>>) {
    let mut waiting = Vec::new();
    while inbox.recv_many(&mut waiting, usize::MAX).await > 0 {
        let file = log.clone();
        let synced = tokio::task::spawn_blocking(move || file.sync_data().and_then(|()| file.metadata())).await;
        let length = match synced {
            Ok(Ok(metadata)) => Some(metadata.len()),
            Ok(Err(error)) => {
                tracing::error!(%error, "the disk refused to sync the database's log");
                None
            }
            Err(_) => None,
        };
        for done in waiting.drain(..) {
            let _ = done.send(length.is_some());
        }
        if length.is_some_and(|length| length > LOG_BYTES)
            && let Err(error) = sqlx::query("pragma wal_checkpoint(passive)").execute(&keeper).await
        {
            tracing::warn!(%error, "the database's log could not be written back");
        }
    }
}
