//! All SQL. SQLite (one file) or PostgreSQL, chosen by the URL; every statement is written once, as a `const`, for both.
//!
//! SQLite has one writing connection (every transaction `begin immediate`) and several read-only ones, in WAL mode. Every write but
//! the text of running answers returns only when it is on the disk ([`disk`]).
//!
//! # Why an enum and not `sqlx::Any`
//! `Any` fails on booleans, placeholders and native options; an enum with three small macros keeps each text and each row
//! struct once, and both engines native.

pub mod audit;
pub mod calls;
pub mod disk;
pub mod exchanges;
pub mod keys;
pub mod lines;
pub mod message;
pub mod sessions;
pub mod tools;
pub mod turns;
pub mod users;
pub mod writer;

use std::str::FromStr;
use std::time::Duration;

use sqlx::migrate::Migrator;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection, FromRow, PgConnection, PgPool, Row, SqlitePool};

use crate::model::error::AppError;

/// Needs what every write needs: the lock, and room on the disk.
const TRY_WRITE: &str = "insert into setting (name, value) values ('readiness', '') on conflict (name) do update set value = ''";
const PROBE: &str = "select id from chat_exchange where id = 0";

/// Rows that SQLite's thread hands over before it waits for their reader: each wait costs two switches of threads.
const ROWS_AT_ONCE: usize = 512;

/// Connections that read a SQLite file.
const READERS: u32 = 4;

static SQLITE: Migrator = sqlx::migrate!("../migrations/sqlite");
static POSTGRES: Migrator = sqlx::migrate!("../migrations/postgres");

/// The store. Cheap to clone.
#[derive(Clone, Debug)]
pub enum Db {
    /// One file.
    Sqlite {
        /// Read-only connections.
        reader: SqlitePool,
        /// The one writing connection.
        writer: SqlitePool,
        /// When what was written is on the disk.
        disk: disk::Disk,
    },
    /// A server.
    Postgres(PgPool),
}

/// Connections of a SQLite file. They cannot break, so none is tried out before each use: that would be two more switches of threads.
fn pool(connections: u32) -> SqlitePoolOptions {
    let pool = SqlitePoolOptions::new().max_connections(connections).test_before_acquire(false);
    // SQLite ends a transaction by itself when the disk is full; the library still counts it, and would refuse every later one.
    pool.before_acquire(|connection, _| Box::pin(async move { Ok(!connection.is_in_transaction()) }))
}

/// Runs an expression on a connection that may only read.
macro_rules! on_reader {
    ($db:expr, $pool:ident => $run:expr) => {
        match $db {
            $crate::ssr::db::Db::Sqlite { reader: $pool, .. } => $run,
            $crate::ssr::db::Db::Postgres($pool) => $run,
        }
    };
}

/// Runs one statement that writes, and waits until that is on the disk.
macro_rules! on_writer {
    ($db:expr, $pool:ident => $run:expr) => {
        match $db {
            $crate::ssr::db::Db::Sqlite { writer: $pool, disk, .. } => {
                let out = $run;
                disk.synced().await?;
                out
            }
            $crate::ssr::db::Db::Postgres($pool) => $run,
        }
    };
}

/// Runs a block in one transaction, and waits until it is on the disk; `?` inside rolls it back.
macro_rules! in_transaction {
    ($db:expr, $tx:ident => $run:expr) => {
        match $db {
            $crate::ssr::db::Db::Sqlite { writer, disk, .. } => {
                let mut $tx = writer.begin_with("begin immediate").await?;
                let out = $run;
                $tx.commit().await?;
                disk.synced().await?;
                out
            }
            $crate::ssr::db::Db::Postgres(pool) => {
                let mut $tx = pool.begin().await?;
                let out = $run;
                $tx.commit().await?;
                out
            }
        }
    };
}

pub(crate) use {in_transaction, on_reader, on_writer};

impl Db {
    /// Opens the store and brings its tables up to date.
    ///
    /// # Errors
    /// A text for the operator: a URL that is neither engine's, no connection, or a migration that failed.
    pub async fn open(url: &str) -> Result<Self, String> {
        if url.starts_with("sqlite:") {
            Self::open_sqlite(url).await.map_err(|e| format!("cannot open the SQLite database: {e}"))
        } else if url.starts_with("postgres:") || url.starts_with("postgresql:") {
            Self::open_postgres(url).await.map_err(|e| format!("cannot use the PostgreSQL database of DATABASE_URL: {e}"))
        } else {
            Err("DATABASE_URL must begin with sqlite: or postgres:".to_owned())
        }
    }

    async fn open_sqlite(url: &str) -> Result<Self, sqlx::Error> {
        let options = SqliteConnectOptions::from_str(url)?
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Normal)
            .busy_timeout(Duration::from_secs(5))
            .row_buffer_size(ROWS_AT_ONCE)
            .disable_statement_logging()
            .pragma("cache_size", "-4000");
        // The writer comes first: a read-only connection cannot create the file. It never writes the log back, as that waits for the disk.
        let writer = pool(1).connect_with(options.clone().pragma("wal_autocheckpoint", "0")).await?;
        SQLITE.run(&writer).await?;
        let keeper = pool(1).connect_with(options.clone()).await?;
        let disk = disk::Disk::start(url, keeper)?;
        let reader = pool(READERS).connect_with(options.create_if_missing(false).read_only(true)).await?;
        Ok(Self::Sqlite { reader, writer, disk })
    }

    async fn open_postgres(url: &str) -> Result<Self, sqlx::Error> {
        let options = PgConnectOptions::from_str(url)?.disable_statement_logging();
        // The pool would try for a while and then only say that it gave up.
        PgConnection::connect_with(&options).await?.close().await?;
        let pool = PgPoolOptions::new().max_connections(16).acquire_timeout(Duration::from_secs(10)).connect_with(options).await?;
        POSTGRES.run(&pool).await?;
        Ok(Self::Postgres(pool))
    }

    /// Whether the store answers, has its tables and takes a write.
    pub async fn is_ready(&self) -> Result<bool, AppError> {
        let found: Option<i64> = on_reader!(self, db => sqlx::query_scalar(PROBE).fetch_optional(db).await?);
        self.try_write().await?;
        Ok(found.is_none())
    }

    async fn try_write(&self) -> Result<(), sqlx::Error> {
        in_transaction!(self, tx => sqlx::query(TRY_WRITE).execute(&mut *tx).await.map(drop)?);
        Ok(())
    }

    /// Which engine, for people.
    pub fn engine(&self) -> &'static str {
        match self {
            Self::Sqlite { .. } => "SQLite",
            Self::Postgres(_) => "PostgreSQL",
        }
    }

    /// Whether every running turn in it must be this process's: a SQLite file has one server.
    pub fn is_private(&self) -> bool {
        matches!(self, Self::Sqlite { .. })
    }

    /// Writes back what is cached and closes all connections.
    pub async fn close(&self) {
        match self {
            Self::Sqlite { reader, writer, disk } => {
                reader.close().await;
                disk.close().await;
                writer.close().await;
            }
            Self::Postgres(pool) => pool.close().await,
        }
    }
}

/// Logs the database's own words once, under a fresh id, and shows only the id.
impl From<sqlx::Error> for AppError {
    fn from(error: sqlx::Error) -> Self {
        let id = uuid::Uuid::new_v4().simple().to_string();
        tracing::error!(error_id = %id, %error, "database error");
        let code = error.as_database_error().and_then(|error| error.code().map(std::borrow::Cow::into_owned));
        match (error, code.as_deref()) {
            // SQLite's codes, PostgreSQL's states.
            (_, Some("13" | "778" | "53100")) => Self::Full,
            (sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed, _) | (_, Some("5" | "6" | "261" | "517" | "53300" | "57P03")) => {
                Self::Unavailable
            }
            _ => Self::Internal { id },
        }
    }
}

/// A row of a list, unless it cannot be read: one bad row must not hide the others.
pub(crate) fn readable<'r, R: Row, T: FromRow<'r, R>>(row: &'r R) -> Option<T> {
    T::from_row(row).inspect_err(|error| tracing::error!(%error, "a stored row cannot be read; it is left out")).ok()
}

/// Whether a unique index refused the write; which one, its caller knows.
pub(crate) fn is_taken(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(sqlx::error::DatabaseError::is_unique_violation)
}

/// Text as both engines can hold it: PostgreSQL knows no NUL.
pub fn storable(text: &str) -> std::borrow::Cow<'_, str> {
    if text.contains('\0') { text.replace('\0', "").into() } else { text.into() }
}

/// Every statement that is meant for both engines, for the test that prepares them all.
pub fn statements() -> Vec<&'static str> {
    [audit::ALL, calls::ALL, exchanges::ALL, keys::ALL, lines::ALL, sessions::ALL, tools::ALL, turns::ALL, users::ALL].concat()
}

/// The statements that differ, those of this engine.
pub fn own_statements(db: &Db) -> Vec<&'static str> {
    match db {
        Db::Sqlite { .. } => [tools::SQLITE, writer::SQLITE].concat(),
        Db::Postgres(_) => [tools::POSTGRES, turns::POSTGRES, writer::POSTGRES].concat(),
    }
}
