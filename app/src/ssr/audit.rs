//! Who signed in, used a key, or acted for others: kept in the store for a year, for `chatgxy audit`.
//!
//! Never a password, a whole key, or what was said.

use std::net::IpAddr;

use super::clock;
use super::db::Db;
use super::db::audit::AuditRow;
use crate::model::error::AppError;
use crate::model::ids::Millis;

/// How long rows are kept.
pub(super) const KEPT: Millis = 365 * DAY;
const DAY: Millis = 24 * 60 * 60 * 1000;

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Made an account for themselves.
    Registered,
    /// Signed in with a password.
    SignedIn,
    /// Tried to. The subject is the account; an address without one is not kept, as it may be a mistyped password.
    SignInFailed,
    /// Signed out.
    SignedOut,
    /// Came through a trusted proxy; once a day and address.
    CameByProxy,
    /// Changed the password.
    PasswordChanged,
    /// Made a key.
    KeyMade,
    /// Revoked a key.
    KeyRevoked,
    /// Used a key; once a day and address.
    KeyUsed,
    /// An administrator made an account.
    AccountMade,
    /// An administrator acted for another person; once a day and address.
    ActedAs,
    /// The operator replaced the catalogue of tools.
    ToolsImported,
}

impl Act {
    /// As it is stored and shown.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Registered => "registered",
            Self::SignedIn => "signed-in",
            Self::SignInFailed => "sign-in-failed",
            Self::SignedOut => "signed-out",
            Self::CameByProxy => "came-by-proxy",
            Self::PasswordChanged => "password-changed",
            Self::KeyMade => "key-made",
            Self::KeyRevoked => "key-revoked",
            Self::KeyUsed => "key-used",
            Self::AccountMade => "account-made",
            Self::ActedAs => "acted-as",
            Self::ToolsImported => "tools-imported",
        }
    }

    /// What happens with every request is kept once a day.
    const fn is_frequent(self) -> bool {
        matches!(self, Self::KeyUsed | Self::ActedAs | Self::CameByProxy)
    }
}

/// Who acts, and from where.
#[derive(Clone, Debug)]
pub struct Actor {
    name: String,
    address: String,
}

impl Actor {
    /// A person, by their email.
    pub fn person(email: &str, from: IpAddr) -> Self {
        Self { name: email.to_owned(), address: from.to_string() }
    }

    /// Somebody who is not known.
    pub fn nobody(from: IpAddr) -> Self {
        Self::person("", from)
    }

    /// The operator.
    pub fn command_line() -> Self {
        Self { name: "command line".to_owned(), address: String::new() }
    }
}

/// Keeps that it was done, before the one who did it hears so.
pub async fn record(db: &Db, act: Act, actor: &Actor, subject: &str) -> Result<(), AppError> {
    let at = clock::now();
    let row =
        AuditRow { at, act: act.name().to_owned(), actor: actor.name.clone(), subject: subject.to_owned(), address: actor.address.clone() };
    // No names in the log: that is read by more people.
    tracing::info!(target: "audit", act = act.name());
    db.insert_audit(&row, act.is_frequent().then_some(at - at.rem_euclid(DAY))).await
}
