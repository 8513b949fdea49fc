//! Who is signed in, as the pages show it.

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
    /// When it was made.
    pub created_at: Millis,
    /// When it last signed a request, if ever; exact to the minute.
    pub used_at: Option<Millis>,
}
