//! Conversations.

use sqlx::FromRow;

use super::{Db, on_reader, on_writer, readable};
use crate::model::agent::AgentType;
use crate::model::error::AppError;
use crate::model::exchange::{ExchangeSummary, History, HistoryCursor};
use crate::model::ids::{ExchangeId, ExchangeUuid, Millis, UserId};

const BY_UUID: &str = "select id, uuid, title, agent_type, updated_at, turn_count from chat_exchange \
     where uuid = $1 and user_id = $2 and deleted_at is null";
const BY_ID: &str = "select id, uuid, title, agent_type, updated_at, turn_count from chat_exchange \
     where id = $1 and user_id = $2 and deleted_at is null";
const HISTORY: &str = "select id, uuid, title, agent_type, updated_at, turn_count from chat_exchange \
     where user_id = $1 and deleted_at is null and job_id is null and page_id is null \
     and (updated_at, id) < ($2, $3) order by updated_at desc, id desc limit $4";
const EXISTS: &str = "select id from chat_exchange where uuid = $1";
const EXISTS_ID: &str = "select id from chat_exchange where id = $1";
const DELETE: &str = "update chat_exchange set deleted_at = $3 \
     where uuid = $1 and user_id = $2 and deleted_at is null returning id";
const CLEAR: &str = "update chat_exchange set deleted_at = $2 \
     where user_id = $1 and deleted_at is null and job_id is null and page_id is null returning turn_count";
const RESTORE: &str = "update chat_exchange set deleted_at = null where user_id = $1 and deleted_at = $2 returning id";
const PURGE: &str = "delete from chat_exchange where deleted_at < $1";

pub(super) const ALL: &[&str] = &[BY_UUID, BY_ID, HISTORY, EXISTS, EXISTS_ID, DELETE, CLEAR, RESTORE, PURGE];

#[derive(FromRow)]
struct Row {
    id: i64,
    uuid: String,
    title: String,
    agent_type: String,
    updated_at: Millis,
    turn_count: i64,
}

impl Row {
    /// `None` only for a row that was written around us.
    fn summary(self) -> Option<ExchangeSummary> {
        Some(ExchangeSummary {
            id: ExchangeId(self.id),
            uuid: ExchangeUuid::parse(&self.uuid)?,
            title: self.title,
            agent: AgentType::parse(&self.agent_type).unwrap_or_else(AgentType::auto),
            updated_at: self.updated_at,
            turn_count: self.turn_count,
        })
    }
}

impl Db {
    /// A person's own conversation by its uuid, else by its number.
    pub async fn exchange(&self, user: UserId, name: &str) -> Result<Option<ExchangeSummary>, AppError> {
        let row: Option<Row> = match name.parse::<i64>() {
            Ok(id) => on_reader!(self, db => sqlx::query_as(BY_ID).bind(id).bind(user.0).fetch_optional(db).await?),
            Err(_) => on_reader!(self, db => sqlx::query_as(BY_UUID).bind(name).bind(user.0).fetch_optional(db).await?),
        };
        Ok(row.and_then(Row::summary))
    }

    /// A person's general conversations, latest activity first.
    pub async fn history(&self, user: UserId, before: Option<HistoryCursor>, limit: usize) -> Result<History, AppError> {
        let (time, id) = before.map_or((i64::MAX, i64::MAX), |c| (c.updated_at, c.id.0));
        let more = i64::try_from(limit).unwrap_or(i64::MAX - 1) + 1;
        let (rows, found): (Vec<Row>, usize) = on_reader!(self, db => {
            let rows = sqlx::query(HISTORY).bind(user.0).bind(time).bind(id).bind(more).fetch_all(db).await?;
            (rows.iter().filter_map(readable).collect(), rows.len())
        });
        let full = found > limit;
        let lines: Vec<_> = rows.into_iter().take(limit).filter_map(Row::summary).collect();
        let next = lines.last().filter(|_| full).map(|line| HistoryCursor { updated_at: line.updated_at, id: line.id });
        Ok(History { lines, next })
    }

    /// Moves a conversation to the bin. `false`: there is none for this person.
    pub async fn delete_exchange(&self, user: UserId, uuid: &ExchangeUuid, now: Millis) -> Result<bool, AppError> {
        let gone: Option<i64> = on_writer!(self, db =>
            sqlx::query_scalar(DELETE).bind(uuid.as_str()).bind(user.0).bind(now).fetch_optional(db).await?);
        Ok(gone.is_some())
    }

    /// Moves all general conversations of a person to the bin; gives how many turns each had.
    pub async fn clear_history(&self, user: UserId, now: Millis) -> Result<Vec<i64>, AppError> {
        Ok(on_writer!(self, db => sqlx::query_scalar(CLEAR).bind(user.0).bind(now).fetch_all(db).await?))
    }

    /// Whether anybody has, or had, a conversation of that uuid or number.
    pub async fn exchange_exists(&self, name: &str) -> Result<bool, AppError> {
        let found: Option<i64> = match name.parse::<i64>() {
            Ok(id) => on_reader!(self, db => sqlx::query_scalar(EXISTS_ID).bind(id).fetch_optional(db).await?),
            Err(_) => on_reader!(self, db => sqlx::query_scalar(EXISTS).bind(name).fetch_optional(db).await?),
        };
        Ok(found.is_some())
    }

    /// Takes back what was deleted at exactly this time; gives how many.
    pub async fn restore_deleted(&self, user: UserId, deleted_at: Millis) -> Result<usize, AppError> {
        let back: Vec<i64> = on_writer!(self, db => sqlx::query_scalar(RESTORE).bind(user.0).bind(deleted_at).fetch_all(db).await?);
        Ok(back.len())
    }

    /// Removes for good what was deleted before `then`.
    pub async fn purge_deleted(&self, then: Millis) -> Result<(), AppError> {
        on_writer!(self, db => sqlx::query(PURGE).bind(then).execute(db).await.map(drop)?);
        Ok(())
    }
}
