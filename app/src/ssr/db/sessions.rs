//! Signed-in browsers. The table holds hashes only, so a stolen database signs nobody in.

use sqlx::FromRow;

use super::users::named;
use super::{Db, on_reader, on_writer};
use crate::model::error::AppError;
use crate::model::ids::{Millis, UserId};
use crate::model::user::User;

const INSERT: &str = "insert into session (token_hash, user_id, created_at, seen_at, expires_at) values ($1, $2, $3, $3, $4)";
const USER: &str = "select u.id, u.email, u.admin, u.username, s.seen_at from session s join user_account u on u.id = s.user_id \
     where s.token_hash = $1 and s.expires_at > $2";
const EXTEND: &str = "update session set seen_at = $2, expires_at = $3 where token_hash = $1";
const DELETE: &str = "delete from session where token_hash = $1 \
     returning (select email from user_account where id = session.user_id)";
pub(super) const DELETE_OF_USER: &str = "delete from session where user_id = $1";
const DELETE_EXPIRED: &str = "delete from session where expires_at <= $1";

pub(super) const ALL: &[&str] = &[INSERT, USER, EXTEND, DELETE, DELETE_OF_USER, DELETE_EXPIRED];

/// Who a session belongs to.
#[derive(FromRow)]
pub struct SessionRow {
    id: i64,
    email: String,
    admin: i64,
    username: Option<String>,
    /// When it was last extended.
    pub seen_at: Millis,
}

impl SessionRow {
    /// The signed-in person.
    pub fn user(&self) -> User {
        User {
            id: UserId(self.id),
            username: named(self.username.as_deref(), &self.email),
            email: self.email.clone(),
            admin: self.admin == 1,
        }
    }
}

impl Db {
    /// Starts a session.
    pub async fn insert_session(&self, hash: &str, user: UserId, now: Millis, until: Millis) -> Result<(), AppError> {
        on_writer!(self, db => sqlx::query(INSERT).bind(hash).bind(user.0).bind(now).bind(until).execute(db).await.map(drop)?);
        Ok(())
    }

    /// Who is signed in by this cookie, if it is still good.
    pub async fn session(&self, hash: &str, now: Millis) -> Result<Option<SessionRow>, AppError> {
        Ok(on_reader!(self, db => sqlx::query_as(USER).bind(hash).bind(now).fetch_optional(db).await?))
    }

    /// Lets a session that is in use live on.
    pub async fn extend_session(&self, hash: &str, now: Millis, until: Millis) -> Result<(), AppError> {
        on_writer!(self, db => sqlx::query(EXTEND).bind(hash).bind(now).bind(until).execute(db).await.map(drop)?);
        Ok(())
    }

    /// Ends one session, at once; gives whose it was.
    pub async fn delete_session(&self, hash: &str) -> Result<Option<String>, AppError> {
        Ok(on_writer!(self, db => sqlx::query_scalar(DELETE).bind(hash).fetch_optional(db).await?))
    }

    /// Removes what has run out.
    pub async fn delete_expired_sessions(&self, now: Millis) -> Result<(), AppError> {
        on_writer!(self, db => sqlx::query(DELETE_EXPIRED).bind(now).execute(db).await.map(drop)?);
        Ok(())
    }
}
