//! One call: the library's stream as ours, within the time limits.

use futures::StreamExt;
use futures::stream::{self, Stream};
use rig_core::DynModel;
use rig_core::completion::{CompletionRequest, CompletionResponse, FinishReason};
use rig_core::error::ProviderError;
use rig_core::operation::Completion;
use rig_core::streaming::{CompletionStream, Item, StreamEvent};
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
    limits: Limits,
) -> impl Stream<Item = Result<Chunk, Fault>> + Send + 'static {
    let call = Call { provider, limits, state: State::New(model, Box::new(request)) };
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
            Ok(Some(Err(error))) => Some(Err(fault::of(&error, first.is_none()))),
            Ok(Some(Ok(item))) => {
                let chunk = chunk(item);
                let first = if chunk.is_some() { None } else { first };
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

fn chunk(item: Item<StreamEvent>) -> Option<Chunk> {
    match item {
        Item::Event(StreamEvent::Text { text, .. }) if !text.is_empty() => Some(Chunk::Text(text)),
        Item::Event(StreamEvent::Reasoning { text, .. }) if !text.is_empty() => Some(Chunk::Reasoning(text)),
        _ => None,
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
    let mut rest = Vec::with_capacity(2);
    let (input, output) = (response.usage.input_tokens, response.usage.output_tokens);
    if input.is_some() || output.is_some() {
        rest.push(Chunk::Tokens(Usage { input: input.unwrap_or(0), output: output.unwrap_or(0) }));
    }
    rest.push(Chunk::Finish(finish));
    Ok(rest)
}
