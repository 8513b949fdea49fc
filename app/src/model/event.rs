//! What can happen to a turn. The same value is stored in the event log, sent to browsers and applied by all.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use super::agent::Reply;
use super::ids::Millis;
use super::part::{Notice, ToolState};
use super::tagged::Tagged;

/// Place of an event in its turn, from 1 without gaps; 0 is "nothing yet".
pub type Seq = u64;

/// One thing that happened to a turn.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TurnEvent {
    /// The model is being called, for the first time or after tool results.
    StepStarted {
        /// The model's name as people know it.
        model: String,
    },
    /// More text of the answer.
    TextGrew {
        /// What is appended.
        text: String,
    },
    /// More of the model's thinking.
    ReasoningGrew {
        /// What is appended.
        text: String,
    },
    /// What this step said is taken back: the model is called for it once more.
    StepReset,
    /// The model begins to call a tool.
    ToolCalled {
        /// Our id of the call.
        call: String,
        /// Name of the tool.
        name: String,
    },
    /// More of the arguments of a call.
    ArgumentsGrew {
        /// Which call.
        call: String,
        /// JSON text that is appended.
        text: String,
    },
    /// A call moved on.
    ToolChanged {
        /// Which call.
        call: String,
        /// How far it is now.
        state: ToolState,
    },
    /// We say something about the answer. Belongs to the current step and opens none.
    Noticed {
        /// What.
        notice: Notice,
    },
    /// Something happened to the agent that a call consults.
    Under {
        /// The call.
        call: String,
        /// What happened.
        event: Box<TurnEvent>,
    },
    /// The agent said what its answer carries beside the text.
    Replied {
        /// Suggestions, confidence and the like.
        reply: Reply,
    },
    /// The provider counted tokens; added to what was counted before.
    TokensCounted {
        /// The count of one call.
        usage: Usage,
    },
    /// Nothing runs until a person or a browser answers.
    Paused,
    /// The answer came; it runs again.
    Resumed,
    /// It is over.
    Ended {
        /// When.
        at: Millis,
        /// How.
        how: End,
        /// Why the provider stopped, when it said so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        finish: Option<Finish>,
    },
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Fields {
    model: Option<String>,
    text: String,
    call: Option<String>,
    name: Option<String>,
    state: Option<ToolState>,
    notice: Option<Notice>,
    event: Option<Box<TurnEvent>>,
    reply: Option<Reply>,
    usage: Usage,
    at: Millis,
    how: Option<End>,
    finish: Option<Finish>,
}

impl<'de> Deserialize<'de> for TurnEvent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Tagged { tag, fields } = Tagged::<Fields>::deserialize(deserializer)?;
        let Fields { model, text, call, name, state, notice, event, reply, usage, at, how, finish } = fields;
        let need = Tagged::<Fields>::need::<String, D::Error>;
        Ok(match tag.as_str() {
            "step-started" => Self::StepStarted { model: need(model)? },
            "text-grew" => Self::TextGrew { text },
            "reasoning-grew" => Self::ReasoningGrew { text },
            "step-reset" => Self::StepReset,
            "tool-called" => Self::ToolCalled { call: need(call)?, name: need(name)? },
            "arguments-grew" => Self::ArgumentsGrew { call: need(call)?, text },
            "tool-changed" => Self::ToolChanged { call: need(call)?, state: Tagged::<Fields>::need(state)? },
            "noticed" => Self::Noticed { notice: Tagged::<Fields>::need(notice)? },
            "under" => Self::Under { call: need(call)?, event: Tagged::<Fields>::need(event)? },
            "replied" => Self::Replied { reply: Tagged::<Fields>::need(reply)? },
            "tokens-counted" => Self::TokensCounted { usage },
            "paused" => Self::Paused,
            "resumed" => Self::Resumed,
            "ended" => Self::Ended { at, how: Tagged::<Fields>::need(how)?, finish },
            _ => return Err(D::Error::custom("no such event")),
        })
    }
}

/// Tokens that a provider counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the prompt.
    pub input: u64,
    /// Tokens of the answer, reasoning included.
    pub output: u64,
}

/// Why a provider stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Finish {
    /// It was done.
    Stop,
    /// The answer reached the length limit.
    Length,
    /// The provider withheld the rest.
    ContentFilter,
    /// It wants tools to be run.
    ToolCalls,
    /// Something that we have no name for.
    Other,
}

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// There is an answer.
    Answered,
    /// The model, or we, could not give one. What came before is kept.
    Failed(Failure),
    /// It was cut short from outside. What came before is kept.
    Interrupted(Interruption),
}

/// Who cut a turn short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Interruption {
    /// The person pressed Stop.
    ByUser,
    /// The server was shut down in an orderly way.
    Shutdown,
    /// The server died; its lease ran out.
    Lost,
    /// Nobody gave the answer that it waited for.
    Expired,
    /// The person went on with another message instead of an answer.
    Superseded,
}

/// The kind of a failure. The provider's own words are never kept: they may hold secrets or another person's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Failure {
    /// No connection to the provider.
    Unreachable,
    /// Connected, but nothing came in time, or the stream fell silent.
    TimedOut,
    /// The provider's stream broke off.
    Cut,
    /// The provider asks to slow down.
    RateLimited,
    /// The provider refused our key.
    KeyRefused,
    /// The conversation does not fit the model.
    TooLong,
    /// The provider refused the request.
    Rejected,
    /// The provider failed.
    Upstream,
    /// What answers at the address is not a model API.
    NotAModel,
    /// The provider withheld the answer.
    Filtered,
    /// The answer was empty.
    Empty,
    /// What came could not be stored.
    Storage,
    /// A fault of ours.
    Internal,
}

impl Failure {
    /// Whether calling again soon may help. Only tried while nothing of the answer is stored.
    pub fn is_transient(self) -> bool {
        matches!(self, Self::Unreachable | Self::TimedOut | Self::Cut | Self::RateLimited | Self::Upstream)
    }

    /// What happened and what to do, for people: one sentence each.
    pub fn explain(self) -> (&'static str, &'static str) {
        match self {
            Self::Unreachable => ("The model could not be reached.", "Check that it runs, then retry."),
            Self::TimedOut => ("The model did not answer in time.", "Retry, or ask for less at once."),
            Self::Cut => ("The connection to the model broke off.", "Retry to get a whole answer."),
            Self::RateLimited => ("The model's provider limits requests right now.", "Wait a minute, then retry."),
            Self::KeyRefused => ("The model's provider refused the key of this server.", "Tell the operator of this server."),
            Self::TooLong => ("The conversation is too long for this model.", "Start a new conversation or shorten the question."),
            Self::Rejected => ("The model's provider did not accept the request.", "Rephrase the question, then retry."),
            Self::Upstream => ("The model's provider had a fault.", "Retry in a moment."),
            Self::NotAModel => ("The address in the settings does not answer like a model.", "Tell the operator of this server."),
            Self::Filtered => ("The model's provider withheld the answer.", "Rephrase the question, then retry."),
            Self::Empty => ("The model gave an empty answer.", "Retry, or rephrase the question."),
            Self::Storage => ("The answer could not be stored.", "Retry; if it happens again, tell the operator."),
            Self::Internal => ("Something went wrong on this server.", "Retry; if it happens again, tell the operator."),
        }
    }
}
