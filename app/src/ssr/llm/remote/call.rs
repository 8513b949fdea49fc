//! One call: the library's stream as ours, within the time limits.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::StreamExt;
use futures::stream::{self, Stream};
use rig_core::DynModel;
use rig_core::completion::message::{AssistantContent, ToolFunction};
use rig_core::completion::{CompletionRequest, CompletionResponse, FinishReason};
use rig_core::error::ProviderError;
use rig_core::operation::Completion;
use rig_core::streaming::{CompletionStream, Item, Part, PartKind, StreamEvent};
use serde_json::Value;
use tokio::time::{Instant, timeout, timeout_at};
use tracing::instrument::WithSubscriber;
use tracing::subscriber::NoSubscriber;

use super::{Limits, Provider, fault};
use crate::model::event::{Failure, Finish, Usage};
use crate::ssr::llm::{Chunk, Fault};

struct Call {
    provider: Provider,
    limits: Limits,
    state: State,
    /// The request without tools, and what notes that the model takes no other.
    otherwise: Option<(DynModel<Completion>, Box<CompletionRequest>, Arc<AtomicBool>)>,
    /// To be noted when that one is answered.
    refused: Option<Arc<AtomicBool>>,
    /// Our ids of the calls, by their parts.
    calls: HashMap<Part, String>,
}

enum State {
    New(DynModel<Completion>, Box<CompletionRequest>),
    /// Until the first token with the time by which it must come.
    Reading(Box<CompletionStream>, Option<Instant>),
    Ending(std::vec::IntoIter<Chunk>),
    Over,
}

/// Calls `model` at the first poll. Dropping the stream closes the connection.
pub(super) fn stream(
    provider: Provider,
    model: DynModel<Completion>,
    request: CompletionRequest,
    otherwise: Option<(CompletionRequest, Arc<AtomicBool>)>,
    limits: Limits,
) -> impl Stream<Item = Result<Chunk, Fault>> + Send + 'static {
    let otherwise = otherwise.map(|(request, noted)| (model.clone(), Box::new(request), noted));
    let state = State::New(model, Box::new(request));
    let call = Call { provider, limits, state, otherwise, refused: None, calls: HashMap::new() };
    stream::unfold(call, |mut call| async move {
        // The library logs requests and what providers say about errors: neither may reach our log.
        let item = call.next().with_subscriber(NoSubscriber::default()).await?;
        if let Err(fault) = &item {
            let failure = fault.failure;
            tracing::warn!(provider = call.provider.name(), ?failure, "a call of the model failed");
        }
        Some((item, call))
    })
}

impl Call {
    async fn next(&mut self) -> Option<Result<Chunk, Fault>> {
        loop {
            // Whatever is not put back is dropped, and with it the connection.
            match std::mem::replace(&mut self.state, State::Over) {
                State::New(model, request) => match model.stream(*request) {
                    Ok(reply) => {
                        let deadline = Instant::now() + self.limits.first_token;
                        self.state = State::Reading(Box::new(reply), Some(deadline));
                    }
                    Err(error) => return Some(Err(fault::of(&error, false))),
                },
                State::Reading(reply, first) => {
                    if let Some(item) = self.read(reply, first).await {
                        return Some(item);
                    }
                }
                State::Ending(mut rest) => {
                    let chunk = rest.next()?;
                    self.state = State::Ending(rest);
                    return Some(Ok(chunk));
                }
                State::Over => return None,
            }
        }
    }

    async fn read(&mut self, mut reply: Box<CompletionStream>, first: Option<Instant>) -> Option<Result<Chunk, Fault>> {
        let deadline = first.unwrap_or_else(|| Instant::now() + self.limits.idle);
        match timeout_at(deadline, reply.next()).await {
            Err(_) => Some(Err(Failure::TimedOut.into())),
            Ok(Some(Err(error))) => {
                let fault = fault::of(&error, first.is_none());
                let may_be_tools = first.is_some() && fault.failure == Failure::Rejected;
                if let Some((model, request, noted)) = self.otherwise.take().filter(|_| may_be_tools) {
                    self.refused = Some(noted);
                    self.state = State::New(model, request);
                    return None;
                }
                Some(Err(fault))
            }
            Ok(Some(Ok(item))) => {
                let chunk = self.chunk(item);
                let first = if chunk.is_some() { None } else { first };
                if let Some(noted) = self.refused.take_if(|_| first.is_none()) {
                    tracing::warn!(provider = self.provider.name(), "the model refuses tools; it is asked without them from now on");
                    noted.store(true, Ordering::Relaxed);
                }
                self.state = State::Reading(reply, first);
                chunk.map(Ok)
            }
            Ok(None) => match timeout(self.limits.idle, reply.finish()).await {
                Err(_) => Some(Err(Failure::TimedOut.into())),
                Ok(end) => match end.map_err(|error| fault::of(&error, first.is_none())).and_then(|end| ending(&end)) {
                    Ok(rest) => {
                        self.state = State::Ending(rest.into_iter());
                        None
                    }
                    Err(fault) => Some(Err(fault)),
                },
            },
        }
    }
}

impl Call {
    fn chunk(&mut self, item: Item<StreamEvent>) -> Option<Chunk> {
        let Item::Event(event) = item else { return None };
        match event {
            StreamEvent::Text { text, .. } if !text.is_empty() => Some(Chunk::Text(text)),
            StreamEvent::Reasoning { text, .. } if !text.is_empty() => Some(Chunk::Reasoning(text)),
            StreamEvent::Start { part, kind: PartKind::ToolCall, name } => {
                Some(Chunk::Calling { call: self.call_of(part), name: name.map(|name| name.to_string()).unwrap_or_default() })
            }
            StreamEvent::Arguments { part, json } if !json.is_empty() => Some(Chunk::Arguments { call: self.call_of(part), text: json }),
            StreamEvent::End { part, content: AssistantContent::ToolCall(made) } => {
                let ToolFunction { name, arguments, invalid_arguments } = made.function;
                // What was made of broken arguments is never run.
                let input = invalid_arguments.map_or(Ok(Value::Object(arguments)), Err);
                Some(Chunk::Called { call: self.call_of(part), name: name.to_string(), input })
            }
            _ => None,
        }
    }

    /// Providers repeat their ids from answer to answer, and some have none.
    fn call_of(&mut self, part: Part) -> String {
        self.calls.entry(part).or_insert_with(|| uuid::Uuid::now_v7().to_string()).clone()
    }
}

fn ending(response: &CompletionResponse) -> Result<Vec<Chunk>, Fault> {
    let finish = match response.finish_reason() {
        Some(FinishReason::Stop) => Finish::Stop,
        Some(FinishReason::Length) => Finish::Length,
        Some(FinishReason::ToolCalls) => Finish::ToolCalls,
        Some(FinishReason::ContentFilter) => Finish::ContentFilter,
        _ => Finish::Other,
    };
    // A provider can end a reply in good order and still say in it that it failed. A filter has its own end.
    if response.error.is_some() && finish != Finish::ContentFilter {
        return Err(fault::of(&ProviderError::Provider(String::new()), true));
    }
    let mut rest = Vec::with_capacity(3);
    let (input, output) = (response.usage.input_tokens, response.usage.output_tokens);
    if input.is_some() || output.is_some() {
        rest.push(Chunk::Tokens(Usage { input: input.unwrap_or(0), output: output.unwrap_or(0) }));
    }
    if finish == Finish::ToolCalls
        && let Some(memo) = response.message().and_then(|message| serde_json::to_value(message).ok())
    {
        rest.push(Chunk::Memo(memo));
    }
    rest.push(Chunk::Finish(finish));
    Ok(rest)
}
