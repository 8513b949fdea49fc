//! What an agent is called, and what it answers beside its text.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Name of an agent as stored and sent, for example `router`. `auto` lets the server choose.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AgentType(String);

impl AgentType {
    /// The server chooses the agent.
    pub const AUTO: &str = "auto";
    /// Answers directly or hands over to another agent.
    pub const ROUTER: &str = "router";

    /// Asks the person what was meant.
    pub const CLARIFICATION: &str = "clarification";

    /// Accepts 1 to 64 lower-case letters, digits and `_`.
    pub fn parse(text: &str) -> Option<Self> {
        let fits = (1..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        fits.then(|| Self(text.to_owned()))
    }

    /// The agent that lets the server choose.
    pub fn auto() -> Self {
        Self(Self::AUTO.to_owned())
    }

    /// The agent that answers when no other does.
    pub fn router() -> Self {
        Self(Self::ROUTER.to_owned())
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name for people; an unknown agent shows its own name.
    pub fn label(&self) -> &str {
        match self.0.as_str() {
            "auto" => "Auto",
            "router" => "Router",
            "error_analysis" => "Error analysis",
            "tool_recommendation" => "Tool recommendation",
            "custom_tool" => "Custom tool",
            "history" => "History",
            "page_assistant" => "Markdown assistant",
            "clarification" => "Clarification",
            other => other,
        }
    }

    /// The symbol of the icon sprite that stands for the agent.
    pub fn icon(&self) -> &'static str {
        match self.0.as_str() {
            "auto" => "magic",
            "router" => "router",
            "error_analysis" => "bug",
            "tool_recommendation" => "tool",
            "custom_tool" => "wrench",
            "history" => "history-clock",
            "page_assistant" => "book",
            "clarification" => "info",
            _ => "robot",
        }
    }
}

/// How sure the agent is of its answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// Probably needs another look.
    Low,
    /// The usual case.
    #[default]
    Medium,
    /// Sure.
    High,
}

/// Something the person can do next; a card under the answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Suggestion {
    /// What the card does, for example `view_external`. Unknown kinds are shown without a button.
    pub action_type: String,
    /// The text of the card.
    pub description: String,
    /// What the action needs, for example `url`.
    #[serde(default)]
    pub parameters: Map<String, Value>,
    /// How sure the agent is that it helps.
    #[serde(default)]
    pub confidence: Confidence,
    /// 1 is the most useful, 3 the least.
    #[serde(default = "Suggestion::first")]
    pub priority: u8,
}

impl Suggestion {
    const fn first() -> u8 {
        1
    }
}

/// What an answer carries beside its text, in the original's `AgentResponse` terms.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// Which agent answered, when it is not the one that was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_type: Option<AgentType>,
    /// How sure it is.
    #[serde(default)]
    pub confidence: Confidence,
    /// What to do next, unordered.
    #[serde(default)]
    pub suggestions: Vec<Suggestion>,
    /// Facts that only some readers know.
    #[serde(default)]
    pub metadata: Map<String, Value>,
    /// Why the agent answered so, in one paragraph.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
}

impl Reply {
    /// The meanings to choose from, when the agent asked back.
    pub fn options(&self) -> Vec<String> {
        let options = self.metadata.get("options").and_then(Value::as_array);
        options.map(|all| all.iter().filter_map(Value::as_str).map(str::to_owned).collect()).unwrap_or_default()
    }
}
