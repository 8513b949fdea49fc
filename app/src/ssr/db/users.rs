//! Accounts.

use sqlx::FromRow;

use super::{Db, in_transaction, is_taken, on_reader, sessions};
use crate::model::error::AppError;
use crate::model::ids::{Millis, UserId};
use crate::model::user::User;

const INSERT: &str = "insert into user_account (email, password_hash, created_at, username) values ($1, $2, $3, $4) returning id";
const CLAIM_FIRST: &str = "insert into first_account (one, user_id) values (1, $1) on conflict (one) do nothing returning user_id";
const MAKE_ADMIN: &str = "update user_account set admin = 1 where id = $1";
const BY_EMAIL: &str = "select id, email, admin, username, password_hash from user_account where email = $1";
const BY_ID: &str = "select id, email, admin, username, password_hash from user_account where id = $1";
const LIST: &str = "select id, email, admin, username, password_hash from user_account order by id";
const SET_PASSWORD: &str = "update user_account set password_hash = $2 where id = $1";

pub(super) const ALL: &[&str] = &[INSERT, CLAIM_FIRST, MAKE_ADMIN, BY_EMAIL, BY_ID, LIST, SET_PASSWORD];

/// An account with its secret.
#[derive(Clone, FromRow)]
pub struct Account {
    id: i64,
    email: String,
    admin: i64,
    username: Option<String>,
    /// The argon2id hash; `None` for those who come through a trusted proxy only.
    pub password_hash: Option<String>,
}

impl Account {
    /// Without the secret.
    pub fn user(&self) -> User {
        User {
            id: UserId(self.id),
            username: named(self.username.as_deref(), &self.email),
            email: self.email.clone(),
            admin: self.admin == 1,
        }
    }
}

/// What programs call a person: the name they chose, else the part of the email before the `@`.
pub(super) fn named(username: Option<&str>, email: &str) -> String {
    username.unwrap_or_else(|| email.split('@').next().unwrap_or_default()).to_owned()
}

/// What is stored of a new account.
pub struct NewAccount<'a> {
    /// Lower case.
    pub email: &'a str,
    /// What programs call the person, lower case.
    pub username: Option<&'a str>,
    /// The argon2id hash; `None` for those who come through a trusted proxy only.
    pub password_hash: Option<&'a str>,
    /// An administrator, even when it is not the first account.
    pub admin: bool,
    /// Now.
    pub now: Millis,
}

impl Db {
    /// Makes an account. The very first one becomes administrator; others when `admin` says so. `None`: the address or the
    /// username is taken.
    pub async fn insert_user(&self, new: &NewAccount<'_>) -> Result<Option<User>, AppError> {
        let made: Result<User, sqlx::Error> = async {
            Ok(in_transaction!(self, tx => {
                let id: i64 =
                    sqlx::query_scalar(INSERT).bind(new.email).bind(new.password_hash).bind(new.now).bind(new.username)
                        .fetch_one(&mut *tx).await?;
                let first: Option<i64> = sqlx::query_scalar(CLAIM_FIRST).bind(id).fetch_optional(&mut *tx).await?;
                let admin = new.admin || first.is_some();
                if admin {
                    sqlx::query(MAKE_ADMIN).bind(id).execute(&mut *tx).await?;
                }
                User { id: UserId(id), username: named(new.username, new.email), email: new.email.to_owned(), admin }
            }))
        }
        .await;
        match made {
            Ok(user) => Ok(Some(user)),
            Err(error) if is_taken(&error) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The account that signs in with this address.
    pub async fn account_by_email(&self, email: &str) -> Result<Option<Account>, AppError> {
        Ok(on_reader!(self, db => sqlx::query_as(BY_EMAIL).bind(email).fetch_optional(db).await?))
    }

    /// The account of a row.
    pub async fn account_by_id(&self, id: UserId) -> Result<Option<Account>, AppError> {
        Ok(on_reader!(self, db => sqlx::query_as(BY_ID).bind(id.0).fetch_optional(db).await?))
    }

    /// All accounts, oldest first.
    pub async fn users(&self) -> Result<Vec<User>, AppError> {
        let accounts: Vec<Account> = on_reader!(self, db => sqlx::query_as(LIST).fetch_all(db).await?);
        Ok(accounts.iter().map(Account::user).collect())
    }

    /// Replaces the password and ends all sessions of the person; both or neither.
    pub async fn set_password(&self, id: UserId, hash: &str) -> Result<(), AppError> {
        let done: Result<(), sqlx::Error> = async {
            in_transaction!(self, tx => {
                sqlx::query(SET_PASSWORD).bind(id.0).bind(hash).execute(&mut *tx).await?;
                sqlx::query(sessions::DELETE_OF_USER).bind(id.0).execute(&mut *tx).await?;
            });
            Ok(())
        }
        .await;
        Ok(done?)
    }
}
