//! Calls of tools: what is allowed in a conversation, and what the tests' tools did. Which calls ran is in [`super::writer`].

use super::{Db, on_reader, on_writer};
use crate::model::error::AppError;
use crate::model::ids::{ExchangeId, UserId};

const GRANT: &str = "insert into tool_grant (chat_exchange_id, tool) select id, $3 from chat_exchange where id = $1 and user_id = $2 \
     on conflict (chat_exchange_id, tool) do nothing";
const GRANTED: &str = "select tool from tool_grant where chat_exchange_id = $1";
const RENAME: &str = "update chat_exchange set title = $3 where id = $1 and user_id = $2 and deleted_at is null returning id";
const NOTE_TEST_RUN: &str = "insert into test_run (chat_exchange_id, tool) values ($1, $2)";
const COUNT_TEST_RUNS: &str = "select count(*) from test_run where chat_exchange_id = $1";

pub(super) const ALL: &[&str] = &[GRANT, GRANTED, RENAME, NOTE_TEST_RUN, COUNT_TEST_RUNS];

impl Db {
    /// From now on the owner of a conversation is not asked for this tool in it.
    pub async fn grant(&self, user: UserId, exchange: ExchangeId, tool: &str) -> Result<(), AppError> {
        on_writer!(self, db => sqlx::query(GRANT).bind(exchange.0).bind(user.0).bind(tool).execute(db).await.map(drop)?);
        Ok(())
    }

    /// The tools that need not be asked for in a conversation. The caller has checked whose it is.
    pub async fn granted(&self, exchange: ExchangeId) -> Result<Vec<String>, AppError> {
        Ok(on_reader!(self, db => sqlx::query_scalar(GRANTED).bind(exchange.0).fetch_all(db).await?))
    }

    /// Gives a conversation another title. `false`: there is none for this person.
    pub async fn rename(&self, user: UserId, exchange: ExchangeId, title: &str) -> Result<bool, AppError> {
        let done: Option<i64> = on_writer!(self, db =>
            sqlx::query_scalar(RENAME).bind(exchange.0).bind(user.0).bind(title).fetch_optional(db).await?);
        Ok(done.is_some())
    }

    /// Notes that a tool really runs. Only where tools are tested.
    pub async fn note_test_run(&self, exchange: ExchangeId, tool: &str) -> Result<(), AppError> {
        on_writer!(self, db => sqlx::query(NOTE_TEST_RUN).bind(exchange.0).bind(tool).execute(db).await.map(drop)?);
        Ok(())
    }

    /// How often tools ran in a conversation. The caller has checked whose it is.
    pub async fn count_test_runs(&self, exchange: ExchangeId) -> Result<i64, AppError> {
        Ok(on_reader!(self, db => sqlx::query_scalar(COUNT_TEST_RUNS).bind(exchange.0).fetch_one(db).await?))
    }
}
