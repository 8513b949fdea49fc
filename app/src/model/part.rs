//! The parts of an answer, and the states of a tool call.
//!
//! A state owns exactly the data that is true in it, so "a result of a call that was denied" cannot be written. The states are
//! those of the AI SDK's tool parts with approvals; `settle` is the one way an open call is closed by anything but its own result.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One piece of an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// Text of the answer, Markdown.
    Text {
        /// What came so far.
        text: String,
    },
    /// What a reasoning model thought before it answered; shown folded.
    Reasoning {
        /// What came so far.
        text: String,
    },
    /// A new call of the model begins.
    StepStart,
    /// A call of a tool.
    Tool(ToolCall),
}

/// A tool that the model called.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The provider's id of the call, unique in the turn.
    pub call: String,
    /// Name of the tool.
    pub name: String,
    /// How far it got.
    pub state: ToolState,
}

/// Where a tool runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Runner {
    /// In this server.
    Server,
    /// In one tab of the person's browser.
    Browser,
}

/// How far a tool call got.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToolState {
    /// The arguments are still arriving.
    Streaming {
        /// The JSON text so far.
        raw: String,
    },
    /// It may run, or is running.
    Ready {
        /// The arguments.
        input: Value,
        /// Where it runs.
        runner: Runner,
        /// The approval that allowed it, if one was asked for.
        approval: Option<String>,
    },
    /// A person must allow it first.
    Asking {
        /// The arguments.
        input: Value,
        /// Where it would run.
        runner: Runner,
        /// Id of the question.
        approval: String,
    },
    /// It ran.
    Done {
        /// The arguments.
        input: Value,
        /// What it gave.
        output: Value,
        /// The approval that allowed it, if one was asked for.
        approval: Option<String>,
    },
    /// It did not give a result.
    Failed {
        /// The arguments, when they came whole.
        input: Option<Value>,
        /// Why.
        error: ToolError,
        /// The approval that allowed it, if one was asked for.
        approval: Option<String>,
    },
    /// A person, or the rules, refused it.
    Denied {
        /// The arguments.
        input: Value,
        /// Id of the question.
        approval: String,
        /// Why, in the person's or the rule's words.
        reason: String,
    },
}

/// Why a tool call has no result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToolError {
    /// The tool itself said so.
    Refused(String),
    /// The person stopped the turn.
    Stopped,
    /// The server went away before it ran.
    NotRun,
    /// The server went away while it ran; it is never run again by itself.
    OutcomeUnknown,
    /// Nobody answered in time, or a new message came.
    Expired(String),
}

impl ToolState {
    /// Whether the call still waits for something.
    pub fn is_open(&self) -> bool {
        matches!(self, Self::Streaming { .. } | Self::Ready { .. } | Self::Asking { .. })
    }

    /// Whether it waits for a person or a browser, the only reasons for a turn to pause.
    pub fn awaits_someone(&self) -> bool {
        matches!(self, Self::Asking { .. } | Self::Ready { runner: Runner::Browser, .. })
    }

    /// Closes an open call because of `error`; a closed one stays as it is.
    ///
    /// A question that nobody answered becomes a denial, since an approval that was never given must not look like one.
    #[must_use]
    pub fn settle(self, error: ToolError) -> Self {
        match self {
            Self::Streaming { raw } => Self::Failed { input: serde_json::from_str(&raw).ok(), error, approval: None },
            Self::Ready { input, approval, .. } => Self::Failed { input: Some(input), error, approval },
            Self::Asking { input, approval, .. } => Self::Denied { input, approval, reason: error.to_string() },
            closed => closed,
        }
    }
}

impl std::fmt::Display for ToolError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Refused(text) | Self::Expired(text) => f.write_str(text),
            Self::Stopped => f.write_str("stopped by the user"),
            Self::NotRun => f.write_str("interrupted before it ran"),
            Self::OutcomeUnknown => f.write_str("interrupted while it ran; outcome unknown"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn settle_closes_each_open_state_in_its_own_way() {
        let table = [
            (
                ToolState::Streaming { raw: r#"{"a":1}"#.into() },
                ToolState::Failed { input: Some(json!({"a": 1})), error: ToolError::Stopped, approval: None },
            ),
            (ToolState::Streaming { raw: r#"{"a":"#.into() }, ToolState::Failed { input: None, error: ToolError::Stopped, approval: None }),
            (
                ToolState::Ready { input: json!(1), runner: Runner::Server, approval: Some("q".into()) },
                ToolState::Failed { input: Some(json!(1)), error: ToolError::Stopped, approval: Some("q".into()) },
            ),
            (
                ToolState::Asking { input: json!(1), runner: Runner::Server, approval: "q".into() },
                ToolState::Denied { input: json!(1), approval: "q".into(), reason: "stopped by the user".into() },
            ),
        ];
        for (open, closed) in table {
            assert!(open.is_open() && !closed.is_open());
            assert_eq!(open.settle(ToolError::Stopped), closed);
        }
    }

    #[test]
    fn settle_leaves_a_closed_call_alone() {
        for closed in [
            ToolState::Done { input: json!(1), output: json!(2), approval: None },
            ToolState::Failed { input: None, error: ToolError::NotRun, approval: None },
            ToolState::Denied { input: json!(1), approval: "q".into(), reason: "no".into() },
        ] {
            assert_eq!(closed.clone().settle(ToolError::Stopped), closed);
        }
    }
}
