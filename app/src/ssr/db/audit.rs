//! The audit log as rows. What is worth one is decided in [`crate::ssr::audit`].

use sqlx::FromRow;

use super::{Db, on_reader, on_writer};
use crate::model::error::AppError;
use crate::model::ids::Millis;

const INSERT: &str = "insert into audit_log (at, act, actor, subject, address) values ($1, $2, $3, $4, $5)";
const INSERT_ONCE: &str = "insert into audit_log (at, act, actor, subject, address) select $1, $2, $3, $4, $5 where not exists \
     (select 1 from audit_log where act = $2 and actor = $3 and subject = $4 and address = $5 and at >= $6)";
const LATEST: &str = "select at, act, actor, subject, address from audit_log order by id desc limit $1";
const DELETE_OLD: &str = "delete from audit_log where at < $1";

pub(super) const ALL: &[&str] = &[INSERT, INSERT_ONCE, LATEST, DELETE_OLD];

/// Who did what.
#[derive(Clone, Debug, PartialEq, Eq, FromRow)]
pub struct AuditRow {
    /// When.
    pub at: Millis,
    /// What, see [`crate::ssr::audit::Act`].
    pub act: String,
    /// An email, or the command line; empty: nobody known.
    pub actor: String,
    /// A key by its first characters, or another account; empty: the actor.
    pub subject: String,
    /// Address of the other end; empty: the command line.
    pub address: String,
}

impl Db {
    /// Adds a row; with `once_since` only if there is no such row from that time on.
    pub async fn insert_audit(&self, row: &AuditRow, once_since: Option<Millis>) -> Result<(), AppError> {
        let AuditRow { at, act, actor, subject, address } = row;
        match once_since {
            None => on_writer!(self, db =>
                sqlx::query(INSERT).bind(at).bind(act).bind(actor).bind(subject).bind(address).execute(db).await.map(drop)?),
            Some(since) => on_writer!(self, db =>
                sqlx::query(INSERT_ONCE).bind(at).bind(act).bind(actor).bind(subject).bind(address).bind(since)
                    .execute(db).await.map(drop)?),
        }
        Ok(())
    }

    /// The latest rows, newest first.
    pub async fn audit(&self, limit: i64) -> Result<Vec<AuditRow>, AppError> {
        Ok(on_reader!(self, db => sqlx::query_as(LATEST).bind(limit).fetch_all(db).await?))
    }

    /// Removes what is older.
    pub async fn delete_old_audit(&self, before: Millis) -> Result<(), AppError> {
        on_writer!(self, db => sqlx::query(DELETE_OLD).bind(before).execute(db).await.map(drop)?);
        Ok(())
    }
}
