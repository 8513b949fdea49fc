//! The one error from SQL to pixel, and the one table of status codes.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::tagged::Tagged;

/// Why a use case did not do what it was asked. Safe to show: holds nothing of the database or of another person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum AppError {
    /// No, or no valid, credentials.
    #[error("Sign in to go on.")]
    NotSignedIn,
    /// Known person, not allowed.
    #[error("{reason}")]
    Forbidden {
        /// What is not allowed.
        reason: String,
    },
    /// Unknown, or someone else's: the answer is the same.
    #[error("{what} was not found. It may have been deleted.")]
    NotFound {
        /// What was looked for, for example "The conversation".
        what: String,
    },
    /// A value that cannot be used.
    #[error("{reason}")]
    Invalid {
        /// Which value.
        field: String,
        /// What is wrong with it and what is allowed.
        reason: String,
    },
    /// The thing is in a state that does not allow it.
    #[error("{reason}")]
    Conflict {
        /// What stands in the way.
        reason: String,
    },
    /// Too many tries.
    #[error("Too many attempts. Try again in {retry_after_s} s.")]
    TooMany {
        /// Seconds to wait.
        retry_after_s: u64,
    },
    /// More than one person may use.
    #[error("{reason}")]
    TooMuch {
        /// What is used up, and when there is more.
        reason: String,
        /// Seconds to wait.
        retry_after_s: u64,
    },
    /// More bytes than allowed.
    #[error("That is too large: {limit} at most.")]
    TooLarge {
        /// The limit, with its unit.
        limit: String,
    },
    /// The server cannot do it now.
    #[error("The server is busy or shutting down. Try again in a moment.")]
    Unavailable,
    /// The disk takes nothing more: it is full, or failing.
    #[error("The server's disk takes nothing more, so this was not stored. Tell whoever runs the server, and try again later.")]
    Full,
    /// A fault of ours; the id is in the log.
    #[error("Something went wrong on the server. Nothing you sent before was lost. Id for support: {id}")]
    Internal {
        /// Found in the log.
        id: String,
    },
    /// The request did not reach the server, or its answer did not come back.
    #[error("The server could not be reached. Check the connection and try again.")]
    Transport,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Fields {
    reason: String,
    what: String,
    field: String,
    retry_after_s: u64,
    limit: String,
    id: String,
}

impl<'de> Deserialize<'de> for AppError {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Tagged { tag, fields } = Tagged::<Fields>::deserialize(deserializer)?;
        let Fields { reason, what, field, retry_after_s, limit, id } = fields;
        Ok(match tag.as_str() {
            "not-signed-in" => Self::NotSignedIn,
            "forbidden" => Self::Forbidden { reason },
            "not-found" => Self::NotFound { what },
            "invalid" => Self::Invalid { field, reason },
            "conflict" => Self::Conflict { reason },
            "too-many" => Self::TooMany { retry_after_s },
            "too-much" => Self::TooMuch { reason, retry_after_s },
            "too-large" => Self::TooLarge { limit },
            "unavailable" => Self::Unavailable,
            "full" => Self::Full,
            "internal" => Self::Internal { id },
            "transport" => Self::Transport,
            _ => return Err(D::Error::custom("no such error")),
        })
    }
}

impl AppError {
    /// A value that cannot be used.
    pub fn invalid(field: &str, reason: impl Into<String>) -> Self {
        Self::Invalid { field: field.to_owned(), reason: reason.into() }
    }

    /// Something that is not there for this person.
    pub fn not_found(what: &str) -> Self {
        Self::NotFound { what: what.to_owned() }
    }

    /// A conversation that is not there for this person.
    pub fn no_exchange() -> Self {
        Self::not_found("The conversation")
    }

    /// A conversation that already has a live turn.
    pub fn busy() -> Self {
        Self::Conflict { reason: "An answer is still being written in this conversation. Wait for it or stop it.".into() }
    }

    /// How long to wait before it makes sense to try again, in seconds.
    pub fn retry_after_s(&self) -> Option<u64> {
        match self {
            Self::TooMany { retry_after_s } | Self::TooMuch { retry_after_s, .. } => Some(*retry_after_s),
            _ => None,
        }
    }

    /// HTTP status.
    pub fn status(&self) -> u16 {
        match self {
            Self::NotSignedIn => 401,
            Self::Forbidden { .. } => 403,
            Self::NotFound { .. } => 404,
            Self::Invalid { .. } => 400,
            Self::Conflict { .. } => 409,
            Self::TooLarge { .. } => 413,
            Self::TooMany { .. } | Self::TooMuch { .. } => 429,
            Self::Unavailable | Self::Transport => 503,
            Self::Full => 507,
            Self::Internal { .. } => 500,
        }
    }

    /// The original's `err_code`: the status followed by three digits.
    pub fn code(&self) -> u32 {
        match self {
            Self::NotSignedIn => 401_001,
            Self::Forbidden { .. } => 403_002,
            Self::NotFound { .. } => 404_001,
            Self::Invalid { .. } => 400_008,
            Self::Conflict { .. } => 409_001,
            Self::TooLarge { .. } => 413_001,
            Self::TooMany { .. } => 429_001,
            Self::TooMuch { .. } => 429_002,
            Self::Unavailable | Self::Transport => 503_001,
            Self::Full => 507_001,
            Self::Internal { .. } => 500_001,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_comes_back_from_json_as_it_was() {
        let text = || "text".to_owned();
        for error in [
            AppError::NotSignedIn,
            AppError::Forbidden { reason: text() },
            AppError::NotFound { what: text() },
            AppError::Invalid { field: "f".into(), reason: text() },
            AppError::Conflict { reason: text() },
            AppError::TooMany { retry_after_s: 3 },
            AppError::TooMuch { reason: text(), retry_after_s: 4 },
            AppError::TooLarge { limit: text() },
            AppError::Unavailable,
            AppError::Full,
            AppError::Internal { id: text() },
            AppError::Transport,
        ] {
            let json = serde_json::to_string(&error).unwrap();
            assert_eq!(serde_json::from_str::<AppError>(&json).unwrap(), error, "{json}");
        }
        for bad in ["\"gone\"", "{}", "5", "{\"not-found\": 3}"] {
            assert!(serde_json::from_str::<AppError>(bad).is_err(), "{bad}");
        }
    }
}
