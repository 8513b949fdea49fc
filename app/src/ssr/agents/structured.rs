//! Answers that a model gives as data: read, checked, asked for again once, then put into words by us.

use async_stream::stream;
use futures::StreamExt;

use super::decision::unfenced;
use crate::model::agent::Reply;
use crate::model::event::{Failure, Finish};
use crate::ssr::llm::{Chunk, ChunkStream, Message, Model, Request};
use std::sync::Arc;

/// How often the model is asked for data that can be used.
const TRIES: usize = 2;

/// What a specialist makes of the model's data.
pub struct Words {
    /// Markdown.
    pub text: String,
    /// What the answer carries beside it.
    pub reply: Reply,
}

/// A specialist's way to read its model: from the data to words, or what is wrong with it, in a sentence to the model.
pub type Read = Box<dyn Fn(&str) -> Result<Words, String> + Send>;

/// What is answered when the model's data could not be used, given its last words.
pub type Fallback = Box<dyn Fn(&str) -> Words + Send>;

/// Calls the model until its data can be read, twice at most, and answers with the words made of it.
pub fn answer(model: Arc<dyn Model>, mut request: Request, read: Read, fallback: Fallback) -> ChunkStream {
    stream! {
        for attempt in 1..=TRIES {
            if attempt > 1 {
                yield Ok(Chunk::Step(model.name().to_owned()));
            }
            let (mut said, mut finish, mut called) = (String::new(), None, false);
            let mut call = model.stream(request.clone());
            while let Some(item) = call.next().await {
                match item {
                    Ok(Chunk::Text(text)) => said.push_str(&text),
                    Ok(Chunk::Finish(how)) => finish = Some(how),
                    Ok(call @ Chunk::Called { .. }) => {
                        called = true;
                        yield Ok(call);
                    }
                    Ok(other) => yield Ok(other),
                    Err(fault) => {
                        yield Err(fault);
                        return;
                    }
                }
            }
            let Some(finish) = finish else {
                yield Err(Failure::Cut.into());
                return;
            };
            // With calls the data comes later, when it is known what they gave.
            if called || said.trim().is_empty() || finish == Finish::ContentFilter {
                yield Ok(Chunk::Finish(finish));
                return;
            }
            match read(unfenced(&said)) {
                Ok(words) => {
                    yield Ok(Chunk::Reply(words.reply));
                    yield Ok(Chunk::Text(words.text));
                    yield Ok(Chunk::Finish(Finish::Stop));
                    return;
                }
                Err(problem) if attempt < TRIES => {
                    request.messages.push(Message::Assistant(said));
                    request.messages.push(Message::User(format!("That cannot be used: {problem} Reply again, with the corrected data alone.")));
                }
                Err(_) => {
                    let words = fallback(&said);
                    yield Ok(Chunk::Reply(words.reply));
                    yield Ok(Chunk::Text(words.text));
                    yield Ok(Chunk::Finish(Finish::Stop));
                }
            }
        }
    }
    .boxed()
}
