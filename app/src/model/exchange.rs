//! A conversation as the list shows it, and a page of its turns.

use serde::{Deserialize, Serialize};

use super::agent::AgentType;
use super::ids::{ExchangeId, ExchangeUuid, Millis};
use super::turn::Turn;

/// What a conversation is about. Exactly one holds; the database checks it too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// A chat of its own.
    #[default]
    General,
    /// About one page of the editor.
    Page(i64),
    /// About one job.
    Job(i64),
}

/// One line of the history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExchangeSummary {
    /// Row, for the original's clients.
    pub id: ExchangeId,
    /// Name in URLs.
    pub uuid: ExchangeUuid,
    /// The given title, else the first question; one line, at most [`ExchangeSummary::TITLE_CHARS`] characters.
    pub title: String,
    /// The agent that answered last, or was asked last.
    pub agent: AgentType,
    /// Last activity.
    pub updated_at: Millis,
    /// Turns on the active branch.
    pub turn_count: i64,
}

impl ExchangeSummary {
    /// Longest title, in characters.
    pub const TITLE_CHARS: usize = 300;

    /// The first question as a title: one line, cut at a character.
    pub fn title_of(question: &str) -> String {
        question.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(Self::TITLE_CHARS).collect()
    }
}

/// A stretch of a conversation, oldest turn first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Conversation {
    /// Which conversation.
    pub summary: ExchangeSummary,
    /// The turns, oldest first, on the active branch.
    pub turns: Vec<TurnView>,
    /// How many turns come before the first one here.
    pub earlier: i64,
}

/// A turn together with its rendered text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnView {
    /// The turn.
    pub turn: Turn,
    /// For each part of the turn the HTML of its top-level blocks; empty for parts that are not text.
    pub html: Vec<Vec<String>>,
}

/// A place in the history list: everything older than it comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryCursor {
    /// `updated_at` of the last line.
    pub updated_at: Millis,
    /// `id` of the last line; tells equal times apart.
    pub id: ExchangeId,
}

/// One page of the history list, latest activity first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    /// The lines.
    pub lines: Vec<ExchangeSummary>,
    /// Where the next page begins, if there is one.
    pub next: Option<HistoryCursor>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_one_line_of_at_most_300_characters() {
        assert_eq!(ExchangeSummary::title_of(" why\n is\tit  slow? "), "why is it slow?");
        assert_eq!(ExchangeSummary::title_of(&"ä".repeat(400)).chars().count(), 300);
        assert_eq!(ExchangeSummary::title_of(""), "");
    }
}
