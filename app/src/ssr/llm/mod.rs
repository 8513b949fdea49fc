//! The models behind the agents, behind one trait.
//!
//! `remote` is the only place that names the provider client; `static_rules` answers from a YAML file. A stream yields chunks and
//! ends with exactly one [`Chunk::Finish`] or one [`Fault`]; a stream that just stops is a broken one ([`Failure::Cut`]).
//! Dropping a stream cancels the provider's call. A model never retries: the engine does, and only before the first stored text.

pub mod remote;
pub mod settings;
pub mod static_rules;

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
}

/// One message of the conversation as a model sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// The person's words.
    User(String),
    /// An earlier answer.
    Assistant(String),
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
