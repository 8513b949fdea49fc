//! Identifiers that the browser chooses.

/// A fresh id for a conversation or a question: random, also on plain HTTP.
pub fn new() -> String {
    uuid::Uuid::new_v4().to_string()
}
