//! Shapes that handlers send as they are stored, for the description of the API. A test reads real answers into them.

use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// An answer in the original's terms.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = AgentResponse)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "read by the description and its test only")]
pub struct AgentResponseShape {
    /// The text, Markdown.
    content: String,
    /// `low`, `medium` or `high`.
    confidence: ConfidenceShape,
    /// Who answered.
    agent_type: String,
    /// What to do next.
    suggestions: Vec<SuggestionShape>,
    /// Model, tokens, and what only some agents say.
    metadata: Map<String, Value>,
    /// Why the agent answered so.
    reasoning: Option<String>,
}

/// Something the person can do next.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = ActionSuggestion)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "read by the description and its test only")]
pub struct SuggestionShape {
    /// What it does, for example `view_external`.
    action_type: String,
    /// The text of the card.
    description: String,
    /// What the action needs, for example `url`.
    parameters: Map<String, Value>,
    /// How sure the agent is that it helps.
    confidence: ConfidenceShape,
    /// 1 is the most useful, 3 the least.
    priority: u8,
}

/// How sure an agent is.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = ConfidenceLevel)]
#[serde(rename_all = "lowercase")]
pub enum ConfidenceShape {
    /// Probably needs another look.
    Low,
    /// The usual case.
    Medium,
    /// Sure.
    High,
}

#[cfg(test)]
mod tests {
    use app::model::agent::{AgentType, Reply, Suggestion};
    use app::model::event::{End, TurnEvent, Usage};
    use app::model::ids::{PromptId, TurnId, TurnRow};
    use app::model::turn::{Prompt, Turn};
    use app::ssr::db::message::AgentResponse;

    use super::*;

    #[test]
    fn a_real_answer_fits_its_described_shape() {
        let prompt = Prompt { id: PromptId::parse("p").unwrap(), text: "why".into() };
        let mut turn = Turn::asked(TurnId::parse("t").unwrap(), TurnRow(1), prompt, AgentType::auto(), 1, 0);
        let suggestion: Suggestion = serde_json::from_str(r#"{"action_type": "view_external", "description": "x"}"#).unwrap();
        let reply = Reply { suggestions: vec![suggestion], reasoning: Some("so".into()), ..Reply::default() };
        let events = [
            TurnEvent::StepStarted { model: "m".into() },
            TurnEvent::TextGrew { text: "a".into() },
            TurnEvent::Replied { reply },
            TurnEvent::TokensCounted { usage: Usage { input: 1, output: 2 } },
            TurnEvent::Ended { at: 1, how: End::Answered, finish: None },
        ];
        for event in &events {
            turn.apply(turn.seq + 1, event).unwrap();
        }
        let json = serde_json::to_string(&AgentResponse::of(&turn)).unwrap();
        let read: AgentResponseShape = serde_json::from_str(&json).unwrap();
        assert_eq!((read.content.as_str(), read.suggestions.len(), read.metadata.len()), ("a", 1, 4), "{json}");
    }
}
