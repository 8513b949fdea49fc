//! The catalogue of tools, with the engines' own full-text search.

use sqlx::FromRow;

use super::{Db, on_reader, on_writer};
use crate::model::error::AppError;
use crate::ssr::agents::catalogue::Tool;

const SETTING: &str = "select value from setting where name = $1";
const SET_ONCE: &str =
    "insert into setting (name, value) values ($1, $2) on conflict (name) do update set value = setting.value returning value";
const SET: &str = "insert into setting (name, value) values ($1, $2) on conflict (name) do update set value = excluded.value";
const CLEAR: &str = "delete from tool";

const INSERT_SQLITE: &str =
    "insert into tool (id, name, purpose, operations, inputs, outputs, homepage) values ($1, $2, $3, $4, $5, $6, $7)";
const CLEAR_WORDS: &str = "delete from tool_search";
const INSERT_WORDS: &str = "insert into tool_search (id, name, purpose, operations, formats) values ($1, $2, $3, $4, $5)";
const SEARCH_SQLITE: &str = "select t.id, t.name, t.purpose, t.operations, t.inputs, t.outputs, t.homepage \
     from tool_search s join tool t on t.id = s.id where tool_search match $1 order by bm25(tool_search, 0, 8, 3, 6, 2), t.id limit $2";

const INSERT_POSTGRES: &str = "insert into tool (id, name, purpose, operations, inputs, outputs, homepage, search) \
     values ($1, $2, $3, $4, $5, $6, $7, setweight(to_tsvector('english', $2), 'A') || setweight(to_tsvector('english', $8), 'B') || \
     setweight(to_tsvector('english', $3), 'C') || setweight(to_tsvector('english', $9), 'D'))";
const SEARCH_POSTGRES: &str = "select id, name, purpose, operations, inputs, outputs, homepage from tool \
     where search @@ to_tsquery('english', $1) order by ts_rank_cd(search, to_tsquery('english', $1)) desc, id limit $2";

pub(super) const ALL: &[&str] = &[SETTING, SET_ONCE, SET, CLEAR];
pub(super) const SQLITE: &[&str] = &[INSERT_SQLITE, CLEAR_WORDS, INSERT_WORDS, SEARCH_SQLITE];
pub(super) const POSTGRES: &[&str] = &[INSERT_POSTGRES, SEARCH_POSTGRES];

#[derive(FromRow)]
struct Row {
    id: String,
    name: String,
    purpose: String,
    operations: String,
    inputs: String,
    outputs: String,
    homepage: String,
}

impl Row {
    fn tool(self) -> Tool {
        let list = |text: &str| serde_json::from_str(text).unwrap_or_default();
        Tool {
            operations: list(&self.operations),
            inputs: list(&self.inputs),
            outputs: list(&self.outputs),
            id: self.id,
            name: self.name,
            purpose: self.purpose,
            homepage: self.homepage,
        }
    }
}

fn json(list: &[String]) -> String {
    serde_json::to_string(list).unwrap_or_default()
}

impl Db {
    /// What the server remembers under a name.
    pub async fn setting(&self, name: &str) -> Result<Option<String>, AppError> {
        Ok(on_reader!(self, db => sqlx::query_scalar(SETTING).bind(name).fetch_optional(db).await?))
    }

    /// What the server remembers under a name; `fresh`, and remembered from now on, when that is nothing.
    pub async fn setting_or(&self, name: &str, fresh: &str) -> Result<String, AppError> {
        Ok(on_writer!(self, db => sqlx::query_scalar(SET_ONCE).bind(name).bind(fresh).fetch_one(db).await?))
    }

    /// Replaces the catalogue, and notes which one it is; both or neither.
    pub async fn replace_tools(&self, tools: &[Tool], version: &str) -> Result<(), AppError> {
        match self {
            Self::Sqlite { writer, disk, .. } => {
                let mut tx = writer.begin_with("begin immediate").await?;
                sqlx::query(CLEAR).execute(&mut *tx).await?;
                sqlx::query(CLEAR_WORDS).execute(&mut *tx).await?;
                for tool in tools {
                    sqlx::query(INSERT_SQLITE)
                        .bind(&tool.id)
                        .bind(&tool.name)
                        .bind(&tool.purpose)
                        .bind(json(&tool.operations))
                        .bind(json(&tool.inputs))
                        .bind(json(&tool.outputs))
                        .bind(&tool.homepage)
                        .execute(&mut *tx)
                        .await?;
                    sqlx::query(INSERT_WORDS)
                        .bind(&tool.id)
                        .bind(&tool.name)
                        .bind(&tool.purpose)
                        .bind(tool.operations.join(", "))
                        .bind([tool.inputs.join(" "), tool.outputs.join(" ")].join(" "))
                        .execute(&mut *tx)
                        .await?;
                }
                sqlx::query(SET).bind("catalogue").bind(version).execute(&mut *tx).await?;
                tx.commit().await?;
                disk.synced().await?;
            }
            Self::Postgres(pool) => {
                let mut tx = pool.begin().await?;
                // Locks the row, so that two servers that start at once do this one after the other.
                sqlx::query(SET).bind("catalogue").bind(version).execute(&mut *tx).await?;
                sqlx::query(CLEAR).execute(&mut *tx).await?;
                for tool in tools {
                    sqlx::query(INSERT_POSTGRES)
                        .bind(&tool.id)
                        .bind(&tool.name)
                        .bind(&tool.purpose)
                        .bind(json(&tool.operations))
                        .bind(json(&tool.inputs))
                        .bind(json(&tool.outputs))
                        .bind(&tool.homepage)
                        .bind(tool.operations.join(", "))
                        .bind([tool.inputs.join(" "), tool.outputs.join(" ")].join(" "))
                        .execute(&mut *tx)
                        .await?;
                }
                tx.commit().await?;
            }
        }
        Ok(())
    }

    /// The tools with any of the words, best first. The words are letters and digits only.
    pub async fn search_tools(&self, words: &[String], limit: usize) -> Result<Vec<Tool>, AppError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows: Vec<Row> = match self {
            Self::Sqlite { reader, .. } => {
                let query = words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(" OR ");
                sqlx::query_as(SEARCH_SQLITE).bind(query).bind(limit).fetch_all(reader).await?
            }
            Self::Postgres(pool) => {
                let query = words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" | ");
                sqlx::query_as(SEARCH_POSTGRES).bind(query).bind(limit).fetch_all(pool).await?
            }
        };
        Ok(rows.into_iter().map(Row::tool).collect())
    }
}
