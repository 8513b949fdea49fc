//! API keys, for programs. Like sessions, stored as hashes.

use sqlx::FromRow;

use super::users::named;
use super::{Db, on_reader, on_writer};
use crate::model::error::AppError;
use crate::model::ids::{Millis, UserId};
use crate::model::user::{ApiKey, Scope, User};

const INSERT: &str =
    "insert into api_key (user_id, name, prefix, secret_hash, created_at, scope) values ($1, $2, $3, $4, $5, $6) returning id";
const USER: &str = "select k.id as key_id, k.prefix, k.scope, k.used_at, u.id, u.email, u.admin, u.username from api_key k \
     join user_account u on u.id = k.user_id where k.secret_hash = $1";
const TOUCH: &str = "update api_key set used_at = $2 where id = $1";
const LIST: &str = "select id, name, prefix, scope, created_at, used_at from api_key where user_id = $1 order by id";
const DELETE: &str = "delete from api_key where id = $1 and user_id = $2 returning prefix";
const DELETE_BY_PREFIX: &str = "delete from api_key where prefix = $1 returning prefix";

pub(super) const ALL: &[&str] = &[INSERT, USER, TOUCH, LIST, DELETE, DELETE_BY_PREFIX];

/// Who a key belongs to.
#[derive(FromRow)]
pub struct KeyRow {
    /// Row of the key.
    pub key_id: i64,
    /// When it was last used, to the minute.
    pub used_at: Option<Millis>,
    /// How it begins.
    pub prefix: String,
    scope: String,
    id: i64,
    email: String,
    admin: i64,
    username: Option<String>,
}

impl KeyRow {
    /// What the key may do; a scope that is not known is the narrowest.
    pub fn scope(&self) -> Scope {
        Scope::parse(&self.scope).unwrap_or(Scope::Read)
    }

    /// The key's owner, an administrator only as far as the key's scope goes.
    pub fn user(&self) -> User {
        let admin = self.admin == 1 && self.scope() == Scope::Admin;
        User { id: UserId(self.id), username: named(self.username.as_deref(), &self.email), email: self.email.clone(), admin }
    }
}

#[derive(FromRow)]
struct Listed {
    id: i64,
    name: String,
    prefix: String,
    scope: String,
    created_at: Millis,
    used_at: Option<Millis>,
}

/// What is stored of a new key.
pub struct NewKey<'a> {
    /// Whose.
    pub user: UserId,
    /// What its owner calls it.
    pub name: &'a str,
    /// How it begins.
    pub prefix: &'a str,
    /// SHA-256 of the whole.
    pub hash: &'a str,
    /// What it may do.
    pub scope: Scope,
    /// Now.
    pub now: Millis,
}

impl Db {
    /// Stores a new key; gives its row.
    pub async fn insert_key(&self, key: &NewKey<'_>) -> Result<i64, AppError> {
        let (user, scope) = (key.user.0, key.scope.name());
        Ok(on_writer!(self, db => sqlx::query_scalar(INSERT)
            .bind(user).bind(key.name).bind(key.prefix).bind(key.hash).bind(key.now).bind(scope).fetch_one(db).await?))
    }

    /// Who calls with this key.
    pub async fn key_owner(&self, hash: &str) -> Result<Option<KeyRow>, AppError> {
        Ok(on_reader!(self, db => sqlx::query_as(USER).bind(hash).fetch_optional(db).await?))
    }

    /// Notes that a key was used.
    pub async fn touch_key(&self, key: i64, now: Millis) -> Result<(), AppError> {
        on_writer!(self, db => sqlx::query(TOUCH).bind(key).bind(now).execute(db).await.map(drop)?);
        Ok(())
    }

    /// A person's keys, oldest first.
    pub async fn keys(&self, user: UserId) -> Result<Vec<ApiKey>, AppError> {
        let rows: Vec<Listed> = on_reader!(self, db => sqlx::query_as(LIST).bind(user.0).fetch_all(db).await?);
        let key = |r: Listed| {
            let scope = Scope::parse(&r.scope).unwrap_or(Scope::Read);
            ApiKey { id: r.id, name: r.name, prefix: r.prefix, scope, created_at: r.created_at, used_at: r.used_at }
        };
        Ok(rows.into_iter().map(key).collect())
    }

    /// Revokes a person's own key, at once; gives how it began. `None`: there is none of that id.
    pub async fn delete_key(&self, user: UserId, key: i64) -> Result<Option<String>, AppError> {
        Ok(on_writer!(self, db => sqlx::query_scalar(DELETE).bind(key).bind(user.0).fetch_optional(db).await?))
    }

    /// Revokes the keys that begin so (the operator's way); gives how each began.
    pub async fn delete_keys_by_prefix(&self, prefix: &str) -> Result<Vec<String>, AppError> {
        Ok(on_writer!(self, db => sqlx::query_scalar(DELETE_BY_PREFIX).bind(prefix).fetch_all(db).await?))
    }
}
