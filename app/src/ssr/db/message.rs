//! The JSON in `chat_exchange_message.message`: the original's four fields, and beside them what a turn needs to be whole.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Error as _, IgnoredAny, MapAccess, Visitor};
use serde::ser::SerializeSeq;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::model::agent::{AgentType, Confidence, Reply, Suggestion};
use crate::model::event::{End, Failure, Finish, Seq, Usage};
use crate::model::ids::Millis;
use crate::model::part::Part;
use crate::model::turn::{Turn, TurnState};

/// An answer in the original's terms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentResponse {
    /// The text.
    pub content: String,
    /// How sure the agent is.
    #[serde(default)]
    pub confidence: Confidence,
    /// Who answered.
    pub agent_type: AgentType,
    /// What to do next.
    #[serde(default)]
    pub suggestions: Vec<Suggestion>,
    /// Facts that only some readers know.
    #[serde(default)]
    pub metadata: Map<String, Value>,
    /// Why the agent answered so.
    #[serde(default)]
    pub reasoning: Option<String>,
}

impl AgentResponse {
    /// The answer of a turn, with what the original's clients look for in its metadata.
    pub fn of(turn: &Turn) -> Self {
        let mut metadata = turn.reply.metadata.clone();
        if let Some(model) = &turn.model {
            metadata.entry("model").or_insert_with(|| model.clone().into());
        }
        if turn.usage != Usage::default() {
            metadata.insert("input_tokens".into(), turn.usage.input.into());
            metadata.insert("output_tokens".into(), turn.usage.output.into());
            metadata.insert("total_tokens".into(), turn.usage.input.saturating_add(turn.usage.output).into());
        }
        Self {
            content: turn.text(),
            confidence: turn.reply.confidence,
            agent_type: turn.agent().clone(),
            suggestions: turn.reply.suggestions.clone(),
            metadata,
            reasoning: turn.reply.reasoning.clone(),
        }
    }
}

/// The stored message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredMessage {
    /// The question.
    pub query: String,
    /// The text of the answer so far.
    #[serde(default)]
    pub response: String,
    /// Who answered, else who was asked.
    pub agent_type: AgentType,
    /// The whole answer; none before there is one, or when it failed.
    #[serde(default)]
    pub agent_response: Option<AgentResponse>,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Ended>,
    /// The parts of the answer. Those of a later version are kept as they are.
    #[serde(default, serialize_with = "write_parts", deserialize_with = "read_parts")]
    pub parts: Vec<Part>,
    /// What the answer carries beside its text, as the agent gave it; also of an answer that is not whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply: Option<Reply>,
    /// Who was asked, when that is not who answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<AgentType>,
    /// The model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Tokens.
    #[serde(default)]
    pub usage: Usage,
    /// The last event that is in here.
    #[serde(default)]
    pub seq: Seq,
    /// How often a step was taken back.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub resets: u32,
    /// Facts about where the person was when asking.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub context: Map<String, Value>,
    /// Steps as their provider gave them, of a turn that is not over.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub memos: Map<String, Value>,
}

fn write_parts<S: Serializer>(parts: &[Part], serializer: S) -> Result<S::Ok, S::Error> {
    let mut list = serializer.serialize_seq(Some(parts.len()))?;
    for part in parts {
        match part {
            Part::Unknown(value) => list.serialize_element(value)?,
            known => list.serialize_element(known)?,
        }
    }
    list.end()
}

fn read_parts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Part>, D::Error> {
    let parts: Vec<Box<RawValue>> = Vec::deserialize(deserializer)?;
    let read = |raw: Box<RawValue>| {
        serde_json::from_str(raw.get()).or_else(|_| serde_json::from_str(raw.get()).map(Part::Unknown)).map_err(D::Error::custom)
    };
    parts.into_iter().map(read).collect()
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "as the library calls it")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// What is kept with a turn and shown to nobody.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Carried {
    /// Facts about where the person was when asking.
    pub context: Map<String, Value>,
    /// Steps as their provider gave them, by the first call of each: the same provider wants them back.
    pub memos: Map<String, Value>,
}

/// The end of a turn as stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// When.
    pub at: Millis,
    /// How.
    pub how: End,
    /// Why the provider stopped.
    #[serde(default)]
    pub finish: Option<Finish>,
}

/// What programs read of a stored message. Most of it goes out as it is stored, so it is not taken apart.
#[derive(Debug)]
pub struct Brief<'a> {
    /// The question, a JSON text.
    pub query: Cow<'a, RawValue>,
    /// The text of the answer so far, a JSON text.
    pub response: Cow<'a, RawValue>,
    /// Who answered, else who was asked, a JSON text.
    pub agent_type: Cow<'a, RawValue>,
    /// The whole answer, an [`AgentResponse`], or `null`.
    pub agent_response: Cow<'a, RawValue>,
    /// How it ended.
    pub ended: Option<Ended>,
}

/// The same, as it is being read.
#[derive(Default)]
struct Raw<'a> {
    query: Option<&'a RawValue>,
    response: Option<&'a RawValue>,
    agent_type: Option<&'a RawValue>,
    agent_response: Option<&'a RawValue>,
    ended: Option<Ended>,
}

impl<'a> Raw<'a> {
    /// Reads no further than the last of its fields, which come first in what we store. `None`: this cannot be read.
    fn from_json(text: &'a str) -> Option<Self> {
        let mut raw = Self::default();
        let read = serde_json::Deserializer::from_str(text).deserialize_map(&mut raw);
        (read.is_ok() || raw.is_whole()).then_some(raw)
    }

    fn is_whole(&self) -> bool {
        self.query.is_some()
            && self.response.is_some()
            && self.agent_type.is_some()
            && self.agent_response.is_some()
            && self.ended.is_some()
    }
}

impl<'a> Visitor<'a> for &mut Raw<'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a stored message")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(field) = map.next_key::<Cow<'a, str>>()? {
            match &*field {
                "query" => self.query = map.next_value()?,
                "response" => self.response = map.next_value()?,
                "agent_type" => self.agent_type = map.next_value()?,
                // Of a failed turn it is null, and still a value.
                "agent_response" => self.agent_response = Some(map.next_value()?),
                "ended" => self.ended = map.next_value()?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
            if self.is_whole() {
                return Err(A::Error::custom("enough"));
            }
        }
        Ok(())
    }
}

impl<'a> Brief<'a> {
    /// From JSON text; what cannot be read is shown as [`StoredMessage::from_json`] does it.
    pub fn from_json(text: &'a str) -> Self {
        let is_text = |value: &&RawValue| value.get().starts_with('"');
        let raw = Raw::from_json(text).unwrap_or_default();
        match (raw.query.filter(is_text), raw.agent_type.filter(is_text)) {
            (Some(query), Some(agent_type)) => Self {
                query: Cow::Borrowed(query),
                response: raw.response.filter(is_text).map_or_else(|| json_text(""), Cow::Borrowed),
                agent_type: Cow::Borrowed(agent_type),
                agent_response: Cow::Borrowed(raw.agent_response.unwrap_or(RawValue::NULL)),
                ended: raw.ended,
            },
            _ => {
                let stored = StoredMessage::from_json(text);
                Self {
                    query: json_text(&stored.query),
                    response: json_text(&stored.response),
                    agent_type: json_text(stored.agent_type.as_str()),
                    agent_response: Cow::Borrowed(RawValue::NULL),
                    ended: stored.ended,
                }
            }
        }
    }

    /// Whether there is any text of an answer.
    pub fn has_text(&self) -> bool {
        self.response.get() != "\"\""
    }
}

fn json_text<'a>(text: &str) -> Cow<'a, RawValue> {
    serde_json::value::to_raw_value(text).map_or(Cow::Borrowed(RawValue::NULL), Cow::Owned)
}

impl StoredMessage {
    /// A question without an answer.
    pub fn asked(query: &str, agent: &AgentType, context: Map<String, Value>) -> Self {
        Self {
            query: query.to_owned(),
            response: String::new(),
            agent_type: agent.clone(),
            agent_response: None,
            parts: Vec::new(),
            reply: None,
            asked: None,
            model: None,
            usage: Usage::default(),
            seq: 0,
            resets: 0,
            ended: None,
            context,
            memos: Map::new(),
        }
    }

    /// All that a turn says, with what is kept beside it.
    pub fn of(turn: &Turn, carried: Carried) -> Self {
        let answered = turn.end() == Some(End::Answered);
        let asked = (turn.agent() != &turn.asked).then(|| turn.asked.clone());
        Self {
            query: turn.prompt.text.clone(),
            response: turn.text(),
            agent_type: turn.agent().clone(),
            agent_response: answered.then(|| AgentResponse::of(turn)),
            parts: turn.parts.clone(),
            reply: Some(turn.reply.clone()),
            asked,
            model: turn.model.clone(),
            usage: turn.usage,
            seq: turn.seq,
            resets: turn.resets,
            ended: match turn.state {
                TurnState::Ended { when, end, finish } => Some(Ended { at: when, how: end, finish }),
                TurnState::Running | TurnState::Paused => None,
            },
            context: carried.context,
            memos: if turn.is_ended() { Map::new() } else { carried.memos },
        }
    }

    /// As JSON text.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// From JSON text. What cannot be read (a foreign or damaged row) becomes an answer of its plain text, marked as failed, so
    /// that one bad row never hides the others.
    pub fn from_json(text: &str) -> Self {
        serde_json::from_str(text).unwrap_or_else(|_| Self {
            response: text.to_owned(),
            parts: vec![Part::Text { text: text.to_owned() }],
            ended: Some(Ended { at: 0, how: End::Failed(Failure::Internal), finish: None }),
            ..Self::asked("", &AgentType::auto(), Map::new())
        })
    }

    /// What the answer carries beside its text. A row that another program wrote has it in the original's terms only.
    pub fn reply(&self) -> Reply {
        match (&self.reply, &self.agent_response) {
            (Some(reply), _) => reply.clone(),
            (None, None) => Reply::default(),
            (None, Some(answer)) => Reply {
                agent_type: Some(answer.agent_type.clone()),
                confidence: answer.confidence,
                suggestions: answer.suggestions.clone(),
                metadata: answer.metadata.clone(),
                reasoning: answer.reasoning.clone(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn programs_read_the_same_of_a_message_as_the_whole_reader() {
        let answer = json!({"content": "b", "agent_type": "router", "parts": [1]});
        for (stored, ended) in [
            (
                json!({"query": "a \"q\"", "response": "b", "agent_type": "router", "agent_response": answer, "ended": {"at": 7, "how": "answered"}}),
                true,
            ),
            (json!({"query": "a", "response": "b", "agent_type": "router", "agent_response": null, "parts": []}), false),
            (json!({"query": "a", "agent_type": "router"}), false),
            (json!({"parts": [], "agent_type": "auto", "ended": null, "query": "", "response": ""}), false),
        ] {
            let text = stored.to_string();
            let (brief, whole) = (Brief::from_json(&text), StoredMessage::from_json(&text));
            assert_eq!(brief.query.get(), json!(whole.query).to_string(), "{text}");
            assert_eq!(brief.response.get(), json!(whole.response).to_string(), "{text}");
            assert_eq!(brief.agent_type.get(), json!(whole.agent_type.as_str()).to_string(), "{text}");
            assert_eq!((brief.ended, brief.ended.is_some()), (whole.ended, ended), "{text}");
            assert_eq!(brief.agent_response.get() == "null", whole.agent_response.is_none(), "{text}");
        }
    }

    #[test]
    fn a_part_of_a_later_version_is_kept_as_it_is() {
        let parts = r#"["step-start",{"hologram":{"depth":3}},"later",{"tool":{"call":"c","name":"n","state":{"flying":1},"at":1}}]"#;
        let stored = StoredMessage::from_json(&format!("{{\"query\": \"q\", \"agent_type\": \"auto\", \"parts\": {parts}}}"));
        assert_eq!(stored.parts[0], Part::StepStart);
        assert!(stored.parts[1..].iter().all(|part| matches!(part, Part::Unknown(_))), "{stored:?}");
        let again: Value = serde_json::from_str(&stored.to_json()).unwrap();
        assert_eq!(again["parts"], serde_json::from_str::<Value>(parts).unwrap());
    }

    #[test]
    fn what_we_store_is_read_no_further_than_its_end() {
        let turn =
            json!({"query": "a", "response": "b", "agent_type": "router", "agent_response": null, "ended": {"at": 7, "how": "answered"}});
        let text = turn.to_string();
        let cut = format!("{}, \"parts\": [damaged", text.trim_end_matches('}').to_owned() + "}");
        assert_eq!(Brief::from_json(&cut).query.get(), "\"a\"");
    }

    proptest! {
        #[test]
        fn no_row_breaks_its_readers(text in any::<String>(), query in any::<String>()) {
            for text in [&text, &format!("{{\"query\": {query:?}, \"agent_type\": \"x\""), &format!("{{\"query\": {text}}}")] {
                let (brief, whole) = (Brief::from_json(text), StoredMessage::from_json(text));
                prop_assert_eq!(brief.query.get(), json!(whole.query).to_string());
            }
        }
    }
}
