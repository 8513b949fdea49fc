//! Models of providers: OpenAI-compatible servers, Anthropic, Gemini and Ollama. The only place that names the client library.
//!
//! Nothing of the library's errors leaves this module but their kind: their text can hold the provider's words and addresses.

mod call;
mod fault;
#[cfg(test)]
mod tests;
mod transport;

use std::time::Duration;

use futures::StreamExt;
use rig_core::DynModel;
use rig_core::completion::{CompletionRequest, Message as RigMessage};
use rig_core::operation::Completion;
use rig_core::providers::anthropic::wire::AnthropicConfig;
use rig_core::providers::gemini::GeminiConfig;
use rig_core::providers::ollama::OllamaConfig;
use rig_core::providers::openai::OpenAIConfig;
use rig_core::providers::openai::wire::Auth;

use self::transport::Transport;
pub(super) use self::transport::plain_client;
use super::settings::Secret;
use super::{ChunkStream, Message, Model, Request};

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
        Ok(Self { name, provider, max_tokens, limits, model })
    }

    fn translate(&self, request: Request) -> CompletionRequest {
        let mut messages = spoken(request.messages).into_iter().map(|message| match message {
            Message::User(text) => RigMessage::user(text),
            Message::Assistant(text) => RigMessage::assistant(text),
        });
        let last = messages.next_back().unwrap_or_else(|| RigMessage::user(""));
        let mut translated = CompletionRequest::new(last)
            .messages(messages)
            .max_tokens(request.max_tokens.or(self.max_tokens))
            .temperature(request.temperature);
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
        call::stream(self.provider, self.model.clone(), self.translate(request), self.limits).boxed()
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
