//! Models of providers: OpenAI-compatible servers, Anthropic, Gemini and Ollama. The only place that names the client library.
//!
//! Nothing of the library's errors leaves this module but their kind: their text can hold the provider's words and addresses.

mod call;
mod fault;
#[cfg(test)]
mod tests;
mod transport;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::StreamExt;
use rig_core::DynModel;
use rig_core::completion::message::{
    AssistantContent, AssistantMessage, CallId, ToolCall, ToolFunction, ToolName, ToolResult, ToolResultContent,
};
use rig_core::completion::{CompletionRequest, Message as RigMessage, ToolDefinition};
use rig_core::operation::Completion;
use rig_core::providers::anthropic::wire::AnthropicConfig;
use rig_core::providers::gemini::GeminiConfig;
use rig_core::providers::ollama::OllamaConfig;
use rig_core::providers::openai::OpenAIConfig;
use rig_core::providers::openai::wire::Auth;
use serde_json::Value;

use self::transport::Transport;
pub(super) use self::transport::plain_client;
use super::settings::Secret;
use super::{Called, ChunkStream, Message, Model, Offer, Request, Step};

/// Who serves a model, and by which protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider {
    /// `OpenAI`, or any server that speaks its chat completions.
    OpenAi,
    /// Anthropic's messages.
    Anthropic,
    /// Google's Gemini.
    Gemini,
    /// An Ollama server.
    Ollama,
}

impl Provider {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::OpenAi, Self::Anthropic, Self::Gemini, Self::Ollama];

    /// The name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::Ollama => "ollama",
        }
    }

    /// The name for people.
    pub fn label(self) -> &'static str {
        match self {
            Self::OpenAi => "OpenAI",
            Self::Anthropic => "Anthropic",
            Self::Gemini => "Gemini",
            Self::Ollama => "Ollama",
        }
    }

    /// The provider of that name in the configuration.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|provider| provider.name() == name)
    }
}

/// One model and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Who serves it.
    pub provider: Provider,
    /// Its name there.
    pub model: String,
    /// Where, when not at the provider's own address.
    pub base_url: Option<String>,
    /// The key, when one is needed.
    pub key: Option<Secret>,
}

/// How long to wait for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// For the connection.
    pub connect: Duration,
    /// From the call to the first text or thinking.
    pub first_token: Duration,
    /// Between two pieces after that.
    pub idle: Duration,
}

impl Limits {
    /// What holds without configuration.
    pub const DEFAULT: Self = Self { connect: Duration::from_secs(10), first_token: Duration::from_mins(1), idle: Duration::from_secs(30) };
}

/// Anthropic's protocol demands a limit; for the models that the library knows it has the right one.
const ANTHROPIC_MAX_TOKENS: u64 = 8192;

/// A provider's model.
pub struct RemoteModel {
    name: String,
    provider: Provider,
    max_tokens: Option<u64>,
    limits: Limits,
    model: DynModel<Completion>,
    /// It answers without tools only: seen when it refused a request for them.
    without_tools: Arc<AtomicBool>,
}

impl RemoteModel {
    /// Prepares calls; nothing is sent yet.
    pub fn new(endpoint: Endpoint, limits: Limits) -> Result<Self, String> {
        let Endpoint { provider, model: name, base_url, key } = endpoint;
        let http = Transport::new(provider, base_url.as_deref(), key.as_ref(), limits)?;
        let key = key.as_ref().map(Secret::expose).unwrap_or_default();
        let mut max_tokens = None;
        let model = match provider {
            Provider::OpenAi => {
                let mut config = OpenAIConfig::new(key).with_auth(Auth::OptionalBearer);
                if let Some(url) = base_url {
                    config = config.with_base_url(url);
                }
                config.connect(http).chat(&name).erase()
            }
            Provider::Anthropic => {
                let mut config = AnthropicConfig::new(key);
                if let Some(url) = base_url {
                    config = config.with_base_url(url);
                }
                if config.dialect.default_max_tokens(&name).is_none() {
                    max_tokens = Some(ANTHROPIC_MAX_TOKENS);
                }
                config.connect(http).completion(&name).erase()
            }
            Provider::Gemini => {
                // The key goes into a header by our transport: the library would put it into the address, and so into errors.
                let mut config = GeminiConfig::new("");
                if let Some(url) = base_url {
                    config = config.with_base_url(url);
                }
                config.connect(http).completion(&name).erase()
            }
            Provider::Ollama => {
                let mut config = OllamaConfig::new().with_api_key(key);
                if let Some(url) = base_url {
                    config = config.with_base_url(url);
                }
                config.connect(http).native_completion(&name).erase()
            }
        };
        Ok(Self { name, provider, max_tokens, limits, model, without_tools: Arc::default() })
    }

    fn translate(&self, request: Request) -> CompletionRequest {
        let mut messages: Vec<RigMessage> = spoken(request.messages)
            .into_iter()
            .flat_map(|message| match message {
                Message::User(text) => vec![RigMessage::user(text)],
                Message::Assistant(text) => vec![RigMessage::assistant(text)],
                Message::Step(step) => taken(step),
            })
            .collect();
        let last = messages.pop().unwrap_or_else(|| RigMessage::user(""));
        let mut translated = CompletionRequest::new(last)
            .messages(messages)
            .max_tokens(request.max_tokens.or(self.max_tokens))
            .temperature(request.temperature)
            .tools(request.tools.iter().filter_map(definition).collect());
        if !request.system.is_empty() {
            translated = translated.preamble(request.system);
        }
        translated
    }
}

impl Model for RemoteModel {
    fn name(&self) -> &str {
        &self.name
    }

    fn is_demo(&self) -> bool {
        false
    }

    fn stream(&self, request: Request) -> ChunkStream {
        if request.tools.is_empty() || self.without_tools.load(Ordering::Relaxed) {
            let request = self.translate(Request { tools: Arc::from([]), ..request });
            return call::stream(self.provider, self.model.clone(), request, None, self.limits).boxed();
        }
        // Many local servers know no tools and refuse a request that names some: better an answer without them than none.
        let plain = self.translate(Request { tools: Arc::from([]), ..request.clone() });
        let otherwise = Some((plain, self.without_tools.clone()));
        call::stream(self.provider, self.model.clone(), self.translate(request), otherwise, self.limits).boxed()
    }
}

fn definition(offer: &Offer) -> Option<ToolDefinition> {
    Some(ToolDefinition::new(ToolName::new(&offer.name).ok()?, &offer.description, offer.schema.clone()))
}

/// A step for a provider: what the model said and called, then the results. As the provider gave it, if that is known.
fn taken(step: Step) -> Vec<RigMessage> {
    let Step { text, calls, memo } = step;
    let remembered = memo.and_then(|memo| serde_json::from_value::<RigMessage>(memo).ok());
    if let Some(message @ RigMessage::Assistant(_)) = remembered {
        let made = calls_of(&message);
        if made.len() == calls.len() {
            let results = made.iter().zip(calls).map(|(made, call)| result(made, call.result)).collect();
            return vec![message, RigMessage::tool_results(results)];
        }
    }
    let spoken = (!text.trim().is_empty()).then(|| AssistantContent::text(text));
    let made: Vec<ToolCall> = calls.iter().filter_map(as_made).collect();
    let content = spoken.into_iter().chain(made.iter().cloned().map(AssistantContent::ToolCall)).collect();
    let results = made.iter().zip(calls).map(|(made, call)| result(made, call.result)).collect();
    vec![RigMessage::Assistant(AssistantMessage::new(content)), RigMessage::tool_results(results)]
}

fn calls_of(message: &RigMessage) -> Vec<ToolCall> {
    let RigMessage::Assistant(said) = message else { return Vec::new() };
    let call = |content: &AssistantContent| match content {
        AssistantContent::ToolCall(call) => Some(call.clone()),
        _ => None,
    };
    said.content.iter().filter_map(call).collect()
}

fn as_made(call: &Called) -> Option<ToolCall> {
    Some(ToolCall::new(CallId::from_wire(&call.call), ToolFunction::new(ToolName::new(&call.name).ok()?, call.input.clone())))
}

fn result(made: &ToolCall, outcome: Result<Value, String>) -> ToolResult {
    match outcome {
        Ok(Value::String(text)) => made.result(vec![ToolResultContent::text(text)]),
        Ok(value) => made.result(vec![ToolResultContent::text(value.to_string())]),
        Err(why) => made.error_result(vec![ToolResultContent::text(why)]),
    }
}

/// The conversation as every provider takes it: nothing empty, and each side in turn. A turn that failed without an answer
/// leaves two questions in a row, which strict servers refuse.
fn spoken(messages: Vec<Message>) -> Vec<Message> {
    let mut spoken: Vec<Message> = Vec::with_capacity(messages.len());
    for message in messages {
        match (spoken.last_mut(), message) {
            (_, Message::User(text) | Message::Assistant(text)) if text.trim().is_empty() => {}
            (Some(Message::User(before)), Message::User(text)) | (Some(Message::Assistant(before)), Message::Assistant(text)) => {
                before.push_str("\n\n");
                before.push_str(&text);
            }
            (_, message) => spoken.push(message),
        }
    }
    spoken
}
