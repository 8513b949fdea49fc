//! Identifiers. Integers are rows of the database, texts are names that clients may choose or see.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Milliseconds since the Unix epoch, UTC.
pub type Millis = i64;

macro_rules! row_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub i64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

row_id! {
    /// A person who can sign in.
    UserId
}
row_id! {
    /// One conversation; the integer that the original's clients call `exchange_id`.
    ExchangeId
}
row_id! {
    /// The row of one turn. Rows of one conversation are ordered by it.
    TurnRow
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// The longest accepted id, in bytes.
            pub const MAX: usize = 64;

            /// Accepts 1 to 64 letters, digits, `-` and `_`: what AI SDK clients and UUIDs are made of, safe in a URL.
            pub fn parse(text: &str) -> Option<Self> {
                let fits = (1..=Self::MAX).contains(&text.len())
                    && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
                fits.then(|| Self(text.to_owned()))
            }

            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl From<uuid::Uuid> for $name {
            fn from(id: uuid::Uuid) -> Self {
                Self(id.to_string())
            }
        }
    };
}

text_id! {
    /// The name of a conversation in URLs; chosen by the client, unique in the whole store.
    ExchangeUuid
}
text_id! {
    /// The name of a turn; also the id of its assistant message for AI SDK clients.
    TurnId
}
text_id! {
    /// The client's id of the user message. Sending the same one twice makes one turn.
    PromptId
}

impl ExchangeUuid {
    /// `new` is a page, and a number would be taken for an [`ExchangeId`].
    pub fn parse_chosen(text: &str) -> Option<Self> {
        let reserved = text == "new" || text.bytes().all(|b| b.is_ascii_digit());
        if reserved { None } else { Self::parse(text) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_accept_what_clients_make_and_nothing_that_needs_escaping() {
        for good in ["a", "0198f0c2-7a4e-7cc1-b5a5-0f6c6f3f1c11", "x_Y-9", &"k".repeat(64)] {
            assert_eq!(PromptId::parse(good).map(|id| id.to_string()), Some(good.to_owned()));
        }
        for bad in ["", "a b", "a/b", "é", "a.b", "\0", &"k".repeat(65)] {
            assert_eq!(PromptId::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_chosen_conversation_id_is_neither_a_page_nor_a_number() {
        assert_eq!(ExchangeUuid::parse_chosen("new"), None);
        assert_eq!(ExchangeUuid::parse_chosen("42"), None);
        assert!(ExchangeUuid::parse_chosen("42a").is_some());
    }
}
