//! Who is signed in, as the pages show it, and the password that a form sends.

use std::fmt;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use super::ids::{Millis, UserId};

/// The signed-in person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// Row of the account.
    pub id: UserId,
    /// Lower-cased address; what the person signs in with.
    pub email: String,
    /// May see and change other accounts.
    pub admin: bool,
    /// What programs call the person; pages do not need it.
    #[serde(skip)]
    pub username: String,
}

/// How much an API key may do of what its owner may. Each includes the ones before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Only read.
    Read,
    /// Ask, stop, judge and delete as well.
    Chat,
    /// All: make keys and, for an administrator, see and make accounts.
    Admin,
}

impl Scope {
    /// The narrowest first.
    pub const ALL: [Self; 3] = [Self::Read, Self::Chat, Self::Admin];

    /// As it is stored and sent.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Chat => "chat",
            Self::Admin => "admin",
        }
    }

    /// From [`Scope::name`].
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.name() == name)
    }
}

/// An API key as it can be shown again: never the secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiKey {
    /// Row of the key.
    pub id: i64,
    /// What its owner calls it.
    pub name: String,
    /// The first characters of the secret, enough to tell keys apart.
    pub prefix: String,
    /// What it may do.
    pub scope: Scope,
    /// When it was made.
    pub created_at: Millis,
    /// When it last signed a request, if ever; exact to the minute.
    pub used_at: Option<Millis>,
}

/// A password on its way to the server. Printing it shows nothing, so it gets into no log by accident.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Password(String);

impl Password {
    /// Allowed lengths, in characters; any text will do.
    pub const CHARS: RangeInclusive<usize> = 8..=200;

    /// The words.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Password {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(…)")
    }
}
