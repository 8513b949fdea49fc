//! Runs one turn: feeds what happens to [`decide`], stores and shows its events, runs its effects.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use futures::future::FutureExt;
use futures::stream::StreamExt;
use tokio::sync::{mpsc, oneshot};

use super::decide::{Effect, Input, decide};
use super::live::Live;
use super::{Inner, clock};
use crate::model::event::{End, Failure, Interruption, TurnEvent};
use crate::model::turn::Turn;
use crate::ssr::agents::Job;
use crate::ssr::db::message::StoredMessage;
use crate::ssr::db::storable;
use crate::ssr::db::writer::{EndWrite, Write, Written};
use crate::ssr::llm::{Chunk, ChunkStream, Fault};

/// Chunks taken at once from a model that is faster than we are.
const BURST: usize = 512;

/// The task of a turn. Returns when the turn is over and stored.
pub(super) async fn drive(inner: Arc<Inner>, live: Arc<Live>, mut inputs: mpsc::UnboundedReceiver<Input>, begin: Input, job: Job) {
    let mut run = Run { inner: inner.clone(), live: live.clone(), job, call: None, tries: 0, heard: VecDeque::new() };
    let lived = AssertUnwindSafe(run.live(begin, &mut inputs)).catch_unwind().await;
    if lived.is_err() {
        tracing::error!(turn = %live.id, "the task of a turn broke");
        run.call = None;
        run.take(Input::Broke).await;
    }
    inner.lives().remove(&live.id);
}

struct Run {
    inner: Arc<Inner>,
    live: Arc<Live>,
    job: Job,
    /// The running call of the model; dropping it cancels it.
    call: Option<ChunkStream>,
    /// Calls made for this step.
    tries: u32,
    /// What the model said and is not worked off yet.
    heard: VecDeque<Input>,
}

impl Run {
    async fn live(&mut self, begin: Input, inputs: &mut mpsc::UnboundedReceiver<Input>) {
        let mut input = begin;
        while !self.take(input).await {
            input = tokio::select! {
                biased;
                Some(input) = inputs.recv() => input,
                heard = hear(&mut self.call, &mut self.heard, self.tries) => heard,
            };
        }
    }

    /// Works off one input; says whether that was the end.
    async fn take(&mut self, input: Input) -> bool {
        let (events, effects) = self.live.with_turn(|turn| decide(turn, clock::now(), input));
        for effect in effects {
            match effect {
                Effect::AbortModel => {
                    self.call = None;
                    self.heard.clear();
                }
                Effect::CallModel { after } => self.call_model(after),
            }
        }
        let mut write = Write { row: self.live.with_turn(|turn| turn.row), epoch: self.live.epoch, events: Vec::new(), end: None };
        for event in events {
            if matches!(event, TurnEvent::Ended { .. }) {
                self.end(write, event).await;
                return true;
            }
            if let Some(seq) = self.live.push(event.clone()) {
                write.events.push((seq, event));
            }
        }
        if !write.events.is_empty() {
            self.inner.writer.write(write).await;
        }
        false
    }

    fn call_model(&mut self, after: Duration) {
        self.tries += 1;
        let (registry, job) = (self.inner.registry.clone(), self.job.clone());
        let call = async move {
            tokio::time::sleep(after).await;
            registry.answer(&job)
        };
        self.call = Some(futures::stream::once(call).flatten().boxed());
    }

    /// Stores the end, and shows it only then: what a reader saw as the end must still be the end after a crash.
    async fn end(&mut self, mut write: Write, event: TurnEvent) {
        self.call = None;
        let mut turn = self.live.turn();
        let seq = turn.seq + 1;
        if turn.apply(seq, &event).is_err() {
            return;
        }
        let (done, written) = oneshot::channel();
        write.end = Some(EndWrite {
            state: turn.state_name(),
            message: StoredMessage::of(&turn, self.job.context.clone()).to_json(),
            agent: turn.agent().clone(),
            at: clock::now(),
            usage: turn.usage,
            done,
        });
        self.inner.writer.write(write).await;
        match written.await.unwrap_or(Written::Lost) {
            Written::Stored => {
                log_end(&turn);
                self.inner.figures.lock().unwrap_or_else(PoisonError::into_inner).count(&turn);
                self.live.push(event);
            }
            Written::Refused => {
                let theirs = ended_elsewhere(&self.inner, &self.live, &turn).await;
                self.live.replace(theirs);
            }
            Written::Lost => {
                let lost = TurnEvent::Ended { at: clock::now(), how: End::Failed(Failure::Storage), finish: None };
                self.live.push(lost);
            }
        }
    }
}

/// The turn as whoever ended it stored it.
async fn ended_elsewhere(inner: &Inner, live: &Live, mine: &Turn) -> Turn {
    match inner.db.turn(live.user, &mine.id).await {
        Ok(Some(stored)) if stored.turn.is_ended() => stored.turn,
        // The conversation was deleted, or the store is away: to those who watch, it is over all the same.
        _ => {
            let mut turn = live.turn();
            let event = TurnEvent::Ended { at: clock::now(), how: End::Interrupted(Interruption::Lost), finish: None };
            let _ = turn.apply(turn.seq + 1, &event);
            turn
        }
    }
}

/// One line of the log for each turn, without a word of what was said.
fn log_end(turn: &Turn) {
    tracing::info!(
        turn = %turn.id, state = turn.state_name(), end = ?turn.end(), took_ms = turn.took_ms(), agent = turn.agent().as_str(),
        model = turn.model.as_deref(), input_tokens = turn.usage.input, output_tokens = turn.usage.output, "turn ended"
    );
}

/// The next thing that the model says; waits for ever when none is called. What is there already is taken together, and pieces of
/// one kind become one, so that a fast model costs no more events than a slow one.
async fn hear(call: &mut Option<ChunkStream>, heard: &mut VecDeque<Input>, tries: u32) -> Input {
    if let Some(next) = heard.pop_front() {
        return next;
    }
    let Some(stream) = call else { return std::future::pending().await };
    let first = stream.next().await;
    let mut closed = listen(first, heard, tries);
    for _ in 0..BURST {
        if closed {
            break;
        }
        match stream.next().now_or_never() {
            Some(item) => closed = listen(item, heard, tries),
            None => break,
        }
    }
    if closed {
        *call = None;
    }
    match heard.pop_front() {
        Some(next) => next,
        None => Box::pin(hear(call, heard, tries)).await,
    }
}

/// Notes one item; says whether it was the last. A stream that ends without saying so broke off.
fn listen(item: Option<Result<Chunk, Fault>>, heard: &mut VecDeque<Input>, tries: u32) -> bool {
    let fault = |fault| Input::Fault { fault, tries };
    match item {
        Some(Ok(Chunk::Text(text))) => join(heard, Chunk::Text(storable(&text).into_owned())),
        Some(Ok(Chunk::Reasoning(text))) => join(heard, Chunk::Reasoning(storable(&text).into_owned())),
        Some(Ok(Chunk::Finish(finish))) => {
            heard.push_back(Input::Chunk(Chunk::Finish(finish)));
            return true;
        }
        Some(Ok(other)) => heard.push_back(Input::Chunk(other)),
        Some(Err(why)) => {
            heard.push_back(fault(why));
            return true;
        }
        None => {
            heard.push_back(fault(Failure::Cut.into()));
            return true;
        }
    }
    false
}

fn join(heard: &mut VecDeque<Input>, chunk: Chunk) {
    match (heard.back_mut(), chunk) {
        (_, Chunk::Text(text) | Chunk::Reasoning(text)) if text.is_empty() => {}
        (Some(Input::Chunk(Chunk::Text(open))), Chunk::Text(text))
        | (Some(Input::Chunk(Chunk::Reasoning(open))), Chunk::Reasoning(text)) => open.push_str(&text),
        (_, chunk) => heard.push_back(Input::Chunk(chunk)),
    }
}
