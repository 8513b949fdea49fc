//! The parts of an answer, and the states of a tool call.
//!
//! A state owns exactly the data that is true in it, so "a result of a call that was denied" cannot be written. The states are
//! those of the AI SDK's tool parts with approvals, finer where a crash must be told apart; `settle` is the one way an open call is
//! closed by anything but its own result.

use serde::de::Error;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::event::Seq;
use super::ids::Millis;
use super::tagged::Tagged;

/// One piece of an answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
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
    /// Something that we say about the answer, not the model.
    Notice(Notice),
    /// A part of a version that we do not know: kept as it is by the store, shown nowhere.
    #[serde(serialize_with = "nothing")]
    Unknown(Value),
}

fn nothing<S: Serializer>(_: &Value, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_map(Some(0))?.end()
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PartFields {
    text: String,
    call: Option<String>,
    name: Option<String>,
    state: Option<ToolState>,
    at: Seq,
    inner: Vec<Part>,
    #[serde(rename = "steps-used")]
    steps_used: u32,
}

impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Tagged { tag, fields } = Tagged::<PartFields>::deserialize(deserializer)?;
        let PartFields { text, call, name, state, at, inner, steps_used } = fields;
        let need = Tagged::<PartFields>::need::<String, D::Error>;
        Ok(match tag.as_str() {
            "text" => Self::Text { text },
            "reasoning" => Self::Reasoning { text },
            "step-start" => Self::StepStart,
            "tool" => Self::Tool(ToolCall { call: need(call)?, name: need(name)?, state: Tagged::<PartFields>::need(state)?, at, inner }),
            "notice" => Self::Notice(Notice::StepsUsed(steps_used)),
            "unknown" => Self::Unknown(Value::Null),
            _ => return Err(D::Error::custom("no such part")),
        })
    }
}

/// Something that we say about an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Notice {
    /// The model wanted to go on after its last step.
    StepsUsed(u32),
}

impl std::fmt::Display for Notice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::StepsUsed(1) => f.write_str("This answer used its only step. Ask to go on if something is missing."),
            Self::StepsUsed(steps) => write!(f, "This answer used all of its {steps} steps. Ask to go on if something is missing."),
        }
    }
}

/// A tool that the model called.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ToolCall {
    /// Our id of the call, unique everywhere: providers repeat theirs.
    pub call: String,
    /// Name of the tool.
    pub name: String,
    /// How far it got.
    pub state: ToolState,
    /// The event with which it appeared, then the one that decided what becomes of it; orders the calls of agents that work side by side.
    pub at: Seq,
    /// What the consulted agent did, when the call consults one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inner: Vec<Part>,
}

/// The tool that consults another agent: its call has parts of its own.
pub const CONSULT: &str = "consult_agent";

impl ToolCall {
    /// A call that appears with the event `at`.
    pub fn begun(call: String, name: String, at: Seq) -> Self {
        Self { call, name, state: ToolState::Streaming { raw: String::new() }, at, inner: Vec::new() }
    }

    /// Whether it consults another agent.
    pub fn consults(&self) -> bool {
        self.name == CONSULT
    }

    /// A text of the arguments, for example the `agent` that is consulted.
    pub fn argument(&self, name: &str) -> Option<&str> {
        self.state.input()?.get(name)?.as_str()
    }

    /// Name of the tool for people: "Search tools" for `search_tools`.
    pub fn label(&self) -> String {
        match self.name.as_str() {
            CONSULT => "Ask a specialist".to_owned(),
            "rename_exchange" => "Rename conversation".to_owned(),
            "get_conversation" => "Read a conversation".to_owned(),
            // ASCII is all that a name may hold, and the tables for the rest would be loaded by everybody.
            other => {
                let mut words = other.replace(['_', '-'], " ");
                if let Some(first) = words.get_mut(..1) {
                    first.make_ascii_uppercase();
                }
                words
            }
        }
    }
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
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToolState {
    /// The arguments are still arriving.
    Streaming {
        /// The JSON text so far.
        raw: String,
    },
    /// The arguments are there, and the model goes on speaking.
    Ready {
        /// The arguments.
        input: Value,
    },
    /// A person must allow it first.
    Asking {
        /// The arguments.
        input: Value,
        /// Where it would run.
        runner: Runner,
        /// Id of the question.
        approval: String,
        /// Nobody is asked any more after this.
        until: Millis,
    },
    /// The server runs it, or is just about to: stored before it begins.
    Running {
        /// The arguments.
        input: Value,
        /// The approval that allowed it, if one was asked for.
        approval: Option<String>,
    },
    /// A tab of the person's browser must run it.
    Waiting {
        /// The arguments.
        input: Value,
        /// The approval that allowed it, if one was asked for.
        approval: Option<String>,
        /// The tab that runs it: no other may.
        tab: Option<String>,
        /// It is given up after this, unless a tab holds on to it.
        until: Millis,
    },
    /// It ran.
    Done {
        /// The arguments.
        input: Value,
        /// What it gave.
        output: Value,
        /// The approval that allowed it, if one was asked for.
        approval: Option<String>,
        /// Where its facts come from.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        sources: Vec<Source>,
    },
    /// It did not give a result.
    Failed {
        /// The arguments; a text, when they were no JSON.
        input: Value,
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

#[derive(Default, Deserialize)]
#[serde(default)]
struct Fields {
    raw: String,
    input: Value,
    runner: Option<Runner>,
    approval: Option<String>,
    until: Millis,
    tab: Option<String>,
    output: Value,
    sources: Vec<Source>,
    error: Option<ToolError>,
    reason: String,
}

impl<'de> Deserialize<'de> for ToolState {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Tagged { tag, fields } = Tagged::<Fields>::deserialize(deserializer)?;
        let Fields { raw, input, runner, approval, until, tab, output, sources, error, reason } = fields;
        let asked = |approval| Tagged::<Fields>::need::<String, D::Error>(approval);
        Ok(match tag.as_str() {
            "streaming" => Self::Streaming { raw },
            "ready" => Self::Ready { input },
            "asking" => Self::Asking { input, runner: Tagged::<Fields>::need(runner)?, approval: asked(approval)?, until },
            "running" => Self::Running { input, approval },
            "waiting" => Self::Waiting { input, approval, tab, until },
            "done" => Self::Done { input, output, approval, sources },
            "failed" => Self::Failed { input, error: Tagged::<Fields>::need(error)?, approval },
            "denied" => Self::Denied { input, approval: asked(approval)?, reason },
            _ => return Err(D::Error::custom("no such state")),
        })
    }
}

/// Where a fact comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// What it is called.
    pub title: String,
    /// Where it is, `http` or `https`.
    pub url: String,
}

/// Why a tool call has no result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToolError {
    /// The tool itself said so, or the rules did before it ran.
    Refused(String),
    /// It took longer than it may, in seconds.
    TimedOut(u64),
    /// The person stopped the turn.
    Stopped,
    /// The server went away before it ran.
    NotRun,
    /// The server went away while it ran; it is never run again by itself.
    OutcomeUnknown,
    /// Nobody answered in time.
    Expired,
    /// A new message came instead of an answer.
    Superseded,
}

impl ToolState {
    /// Whether the call still waits for something.
    pub fn is_open(&self) -> bool {
        !matches!(self, Self::Done { .. } | Self::Failed { .. } | Self::Denied { .. })
    }

    /// Whether it waits for a person or a browser, the only reasons for a turn to pause.
    pub fn awaits_someone(&self) -> bool {
        self.until().is_some()
    }

    /// When nobody is waited for any more.
    pub fn until(&self) -> Option<Millis> {
        match self {
            Self::Asking { until, .. } | Self::Waiting { until, .. } => Some(*until),
            _ => None,
        }
    }

    /// Whether it was decided what becomes of it, and it is not over: its agent waits for it.
    pub fn is_under_way(&self) -> bool {
        matches!(self, Self::Asking { .. } | Self::Running { .. } | Self::Waiting { .. })
    }

    /// The arguments, once they are there.
    pub fn input(&self) -> Option<&Value> {
        match self {
            Self::Streaming { .. } => None,
            Self::Ready { input }
            | Self::Asking { input, .. }
            | Self::Running { input, .. }
            | Self::Waiting { input, .. }
            | Self::Done { input, .. }
            | Self::Failed { input, .. }
            | Self::Denied { input, .. } => Some(input),
        }
    }

    /// The word for it in the page.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Streaming { .. } => "streaming",
            Self::Ready { .. } => "ready",
            Self::Asking { .. } => "asking",
            Self::Running { .. } => "running",
            Self::Waiting { .. } => "waiting",
            Self::Done { .. } => "done",
            Self::Failed { .. } => "failed",
            Self::Denied { .. } => "denied",
        }
    }

    /// Closes an open call because of `error`; a closed one stays as it is.
    ///
    /// A question that nobody answered becomes a denial, since an approval that was never given must not look like one.
    #[must_use]
    pub fn settle(self, error: ToolError) -> Self {
        match self {
            Self::Streaming { raw } => Self::Failed { input: arguments(&raw), error, approval: None },
            Self::Ready { input } => Self::Failed { input, error, approval: None },
            Self::Running { input, approval } | Self::Waiting { input, approval, .. } => Self::Failed { input, error, approval },
            Self::Asking { input, approval, .. } => Self::Denied { input, approval, reason: error.to_string() },
            closed => closed,
        }
    }
}

/// Arguments from their text; what is no JSON stays a text.
pub fn arguments(raw: &str) -> Value {
    if raw.trim().is_empty() {
        return Value::Object(serde_json::Map::new());
    }
    serde_json::from_str(raw).unwrap_or_else(|_| Value::String(raw.to_owned()))
}

impl std::fmt::Display for ToolError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Refused(text) => f.write_str(text),
            Self::TimedOut(seconds) => write!(f, "It did not finish within {seconds} s; what it did is unknown."),
            Self::Stopped => f.write_str("Stopped by the user."),
            Self::NotRun => f.write_str("Interrupted before it ran."),
            Self::OutcomeUnknown => f.write_str("Interrupted while it ran; what it did is unknown."),
            Self::Expired => f.write_str("Nobody answered in time."),
            Self::Superseded => f.write_str("A new message came instead of an answer."),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn settle_closes_each_open_state_in_its_own_way() {
        let failed = |input| ToolState::Failed { input, error: ToolError::Stopped, approval: None };
        let allowed = Some("q".to_owned());
        let table = [
            (ToolState::Streaming { raw: r#"{"a":1}"#.into() }, failed(json!({"a": 1}))),
            (ToolState::Streaming { raw: r#"{"a":"#.into() }, failed(json!("{\"a\":"))),
            (ToolState::Streaming { raw: String::new() }, failed(json!({}))),
            (ToolState::Ready { input: json!(1) }, failed(json!(1))),
            (
                ToolState::Running { input: json!(1), approval: allowed.clone() },
                ToolState::Failed { input: json!(1), error: ToolError::Stopped, approval: allowed.clone() },
            ),
            (
                ToolState::Waiting { input: json!(1), approval: allowed.clone(), tab: None, until: 1 },
                ToolState::Failed { input: json!(1), error: ToolError::Stopped, approval: allowed },
            ),
            (
                ToolState::Asking { input: json!(1), runner: Runner::Server, approval: "q".into(), until: 1 },
                ToolState::Denied { input: json!(1), approval: "q".into(), reason: "Stopped by the user.".into() },
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
            ToolState::Done { input: json!(1), output: json!(2), approval: None, sources: Vec::new() },
            ToolState::Failed { input: json!(0), error: ToolError::NotRun, approval: None },
            ToolState::Denied { input: json!(1), approval: "q".into(), reason: "no".into() },
        ] {
            assert_eq!(closed.clone().settle(ToolError::Stopped), closed);
        }
    }

    #[test]
    fn a_tool_has_a_name_for_people() {
        for (name, label) in [
            ("search_tools", "Search tools"),
            ("rename_exchange", "Rename conversation"),
            ("mcp_files_read-it", "Mcp files read it"),
            ("", ""),
            ("élan", "élan"),
        ] {
            assert_eq!(ToolCall::begun("c".into(), name.into(), 1).label(), label);
        }
    }
}
