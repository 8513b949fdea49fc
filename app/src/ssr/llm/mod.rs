//! The models behind the agents, behind one trait.
//!
//! `remote` is the only place that names the provider client; `static_rules` answers from a YAML file. A stream yields chunks and
//! ends with exactly one [`Chunk::Finish`] or one [`Fault`]; a stream that just stops is a broken one ([`Failure::Cut`]).
//! Dropping a stream cancels the provider's call. A model never retries: the engine does.

pub mod remote;
pub mod settings;
pub mod static_rules;

use std::sync::Arc;
use std::time::Duration;

use futures::stream::BoxStream;
use serde_json::{Map, Value};

use crate::model::agent::{AgentType, Reply};
use crate::model::event::{Failure, Finish, Usage};

/// A source of answers.
pub trait Model: Send + Sync + 'static {
    /// The name to show, for example `gpt-5-mini`.
    fn name(&self) -> &str;

    /// Whether it only pretends: the page then says so and how to connect a real one.
    fn is_demo(&self) -> bool;

    /// Whether its answers are an agent's, whole with suggestions and metadata, not a model's words for an agent to read.
    fn speaks_for_agents(&self) -> bool {
        false
    }

    /// Calls the model. Nothing happens before the first poll.
    fn stream(&self, request: Request) -> ChunkStream;
}

/// What a model answers, piece by piece.
pub type ChunkStream = BoxStream<'static, Result<Chunk, Fault>>;

/// One call of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The agent that asks.
    pub agent: AgentType,
    /// Its instructions.
    pub system: String,
    /// The conversation, oldest first; the last one is the question.
    pub messages: Vec<Message>,
    /// Facts about where the person is, by name; static rules match on them.
    pub context: Map<String, Value>,
    /// How freely it speaks, when not as its provider has it.
    pub temperature: Option<f64>,
    /// Longest answer, when not as its provider has it.
    pub max_tokens: Option<u64>,
    /// The tools that it may call.
    pub tools: Arc<[Offer]>,
}

/// A tool that a model may call.
#[derive(Clone, Debug, PartialEq)]
pub struct Offer {
    /// Its name.
    pub name: String,
    /// What it does and when to call it, for the model.
    pub description: String,
    /// JSON Schema of its arguments, an object.
    pub schema: Value,
}

/// One message of the conversation as a model sees it.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// The person's words.
    User(String),
    /// An earlier answer.
    Assistant(String),
    /// A step of the answer that is being given.
    Step(Step),
}

/// A step of an answer: what the model said, which tools it called, and what each gave. A call without a result cannot be written:
/// every provider refuses that.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// What it said beside the calls, maybe nothing.
    pub text: String,
    /// The calls, in order, one at least.
    pub calls: Vec<Called>,
    /// The step as the provider gave it, see [`Chunk::Memo`].
    pub memo: Option<Value>,
}

/// A call with what became of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Called {
    /// Our id of the call.
    pub call: String,
    /// Name of the tool.
    pub name: String,
    /// The arguments.
    pub input: Value,
    /// The result, or why there is none.
    pub result: Result<Value, String>,
}

/// One piece of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Chunk {
    /// Text, never empty.
    Text(String),
    /// Thinking, never empty.
    Reasoning(String),
    /// What the answer carries beside its text.
    Reply(Reply),
    /// Tokens of one call.
    Tokens(Usage),
    /// Another call of a model begins, of the model with that name.
    Step(String),
    /// It begins to call a tool. The id is new in the whole world.
    Calling {
        /// Id of the call.
        call: String,
        /// Name of the tool.
        name: String,
    },
    /// More of the arguments of a call, JSON text.
    Arguments {
        /// Id of the call.
        call: String,
        /// What comes after what came before.
        text: String,
    },
    /// The call is whole.
    Called {
        /// Id of the call.
        call: String,
        /// Name of the tool.
        name: String,
        /// The arguments; their text, when they are no JSON.
        input: Result<Value, String>,
    },
    /// The step as the provider gave it, with what only the provider can read (signatures of its thoughts); to be given back to the same
    /// model with the results of its calls.
    Memo(Value),
    /// The end.
    Finish(Finish),
}

/// Why a call gave no whole answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Its kind.
    pub failure: Failure,
    /// How long the provider asks us to wait.
    pub retry_after: Option<Duration>,
}

impl From<Failure> for Fault {
    fn from(failure: Failure) -> Self {
        Self { failure, retry_after: None }
    }
}
