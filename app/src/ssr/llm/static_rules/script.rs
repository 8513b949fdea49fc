//! An answer as steps in time.

use std::time::Duration;

use super::format::{Answer, Call, Fail};
use crate::model::event::{Failure, Finish, Usage};
use crate::ssr::llm::{Called, Chunk, Fault, Message, Request};

/// Something that happens after a while.
pub(super) struct Step {
    wait: Duration,
    deed: Deed,
}

enum Deed {
    Give(Chunk),
    Fail(Failure),
    Hang,
}

impl Step {
    /// Waits and gives the item. Never returns when the answer hangs here.
    pub(super) async fn play(self) -> Result<Chunk, Fault> {
        if !self.wait.is_zero() {
            tokio::time::sleep(self.wait).await;
        }
        match self.deed {
            Deed::Give(chunk) => Ok(chunk),
            Deed::Fail(failure) => Err(failure.into()),
            Deed::Hang => futures::future::pending().await,
        }
    }
}

/// Everything that happens when `answer` is given to `request`.
pub(super) fn steps(answer: &Answer, request: &Request) -> Vec<Step> {
    let pace = &answer.pace;
    let whole = if answer.content.contains(RESULTS) { &answer.content.replace(RESULTS, &results(request)) } else { &answer.content };
    let content = match (pace.fail, pace.after_chars) {
        (Some(fail), _) if fail.at_once() => "",
        (Some(_), Some(chars)) => first_chars(whole, chars),
        _ => whole,
    };
    // A refused request does not think either.
    let thinking = if matches!(pace.fail, Some(Fail::TooMany | Fail::Broken)) { "" } else { &pace.thinking };

    let thoughts = pieces(thinking, pace.chunk_chars).map(Chunk::Reasoning);
    let texts = pieces(content, pace.chunk_chars).map(Chunk::Text);
    let calls = answer.calls.iter().flat_map(|call| called(call, pace.chunk_chars));
    let mut deeds: Vec<Deed> = thoughts.chain(texts).chain(calls).map(Deed::Give).collect();
    let spoken = deeds.len();
    let usage = Usage { input: asked_tokens(request), output: tokens(thinking) + tokens(content) };
    let ending = |finish| [Chunk::Reply(answer.reply.clone()), Chunk::Tokens(usage), Chunk::Finish(finish)];
    match pace.fail {
        None if !answer.calls.is_empty() => deeds.extend(ending(Finish::ToolCalls).map(Deed::Give)),
        None => deeds.extend(ending(Finish::Stop).map(Deed::Give)),
        Some(Fail::Length) => deeds.extend(ending(Finish::Length).map(Deed::Give)),
        Some(Fail::Empty) => deeds.extend([Chunk::Tokens(usage), Chunk::Finish(Finish::Stop)].map(Deed::Give)),
        Some(Fail::Cut) => deeds.push(Deed::Fail(Failure::Cut)),
        Some(Fail::Error | Fail::Broken) => deeds.push(Deed::Fail(Failure::Upstream)),
        Some(Fail::TooMany) => deeds.push(Deed::Fail(Failure::RateLimited)),
        Some(Fail::Hang) => deeds.push(Deed::Hang),
    }
    let wait = |place| match place {
        0 => pace.first_delay,
        _ if place < spoken => pace.delay,
        _ => Duration::ZERO,
    };
    deeds.into_iter().enumerate().map(|(place, deed)| Step { wait: wait(place), deed }).collect()
}

/// Stands for what the last calls gave.
const RESULTS: &str = "{{results}}";

fn results(request: &Request) -> String {
    let Some(Message::Step(step)) = request.messages.last() else { return String::new() };
    let result = |call: &Called| call.result.as_ref().map_or_else(Clone::clone, ToString::to_string);
    step.calls.iter().map(result).collect::<Vec<_>>().join(" | ")
}

/// A call, its arguments in pieces like a text.
fn called(call: &Call, chunk_chars: Option<usize>) -> Vec<Chunk> {
    let id = uuid::Uuid::now_v7().to_string();
    let arguments = call.arguments.clone().unwrap_or_else(|| call.input.to_string());
    let mut chunks = vec![Chunk::Calling { call: id.clone(), name: call.name.clone() }];
    chunks.extend(pieces(&arguments, chunk_chars).map(|text| Chunk::Arguments { call: id.clone(), text }));
    let input = if call.arguments.is_some() { Err(arguments) } else { Ok(call.input.clone()) };
    chunks.push(Chunk::Called { call: id, name: call.name.clone(), input });
    chunks
}

fn first_chars(text: &str, chars: usize) -> &str {
    text.char_indices().nth(chars).map_or(text, |(end, _)| &text[..end])
}

/// `text` in pieces of so many characters.
fn pieces(text: &str, chars: Option<usize>) -> impl Iterator<Item = String> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let piece = first_chars(rest, chars.unwrap_or(usize::MAX));
        rest = &rest[piece.len()..];
        (!piece.is_empty()).then(|| piece.to_owned())
    })
}

/// A rough count, so that the page has numbers to show: four characters are about one token.
fn tokens(text: &str) -> u64 {
    u64::try_from(text.chars().count().div_ceil(4)).unwrap_or(u64::MAX)
}

fn asked_tokens(request: &Request) -> u64 {
    let messages = request.messages.iter().map(|message| match message {
        Message::User(text) | Message::Assistant(text) => tokens(text),
        Message::Step(step) => tokens(&step.text),
    });
    tokens(&request.system) + messages.sum::<u64>()
}
