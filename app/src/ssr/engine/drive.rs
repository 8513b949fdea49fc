//! Runs one turn: feeds what happens to [`super::decide`], stores and shows its events, runs its effects.

use std::collections::{HashMap, HashSet, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use async_stream::stream;
use futures::future::{BoxFuture, FutureExt};
use futures::stream::{BoxStream, FuturesUnordered, SelectAll, StreamExt};
use serde_json::{Map, Value};
use tokio::sync::{mpsc, oneshot};

use super::decide::{Effect, Input, NotTaken, Order, Output, Taken, Verdict, check};
use super::live::Live;
use super::prompt::steps_of;
use super::{Command, Inner, clock};
use crate::model::agent::AgentType;
use crate::model::event::{End, Failure, Finish, Interruption, TurnEvent, Usage};
use crate::model::ids::ExchangeId;
use crate::model::part::{Part, ToolError, ToolState};
use crate::model::turn::{AgentPath, Turn, calls, current_step};
use crate::ssr::agents::Job;
use crate::ssr::db::message::{Carried, StoredMessage};
use crate::ssr::db::storable;
use crate::ssr::db::writer::{EndWrite, Outcome, Write, Written};
use crate::ssr::fault;
use crate::ssr::llm::{Chunk, ChunkStream, Fault};
use crate::ssr::tools::Scene;

/// Chunks taken at once from models that are faster than we are.
const BURST: usize = 512;

/// What is known of a turn beside what it says.
pub(super) struct Task {
    pub exchange: ExchangeId,
    pub epoch: i64,
    pub carried: Carried,
    /// The conversation before it, oldest first.
    pub earlier: Arc<[Turn]>,
    /// How it begins, or goes on.
    pub first: First,
}

/// How a task begins.
pub(super) enum First {
    /// A new turn.
    Input(Input),
    /// A paused turn that goes on: what was decided is stored and shown.
    Effects(Vec<Effect>),
}

type Said = (AgentPath, Result<Chunk, Fault>);
type Ran = (String, Result<Output, ToolError>);

/// The task of a turn. Returns when the turn is over, paused, or not this process's any more.
pub(super) async fn drive(inner: Arc<Inner>, live: Arc<Live>, mut commands: mpsc::UnboundedReceiver<Command>, task: Task) {
    let Task { exchange, epoch, carried, earlier, first } = task;
    let mut run = Run {
        inner: inner.clone(),
        live: live.clone(),
        exchange,
        epoch,
        carried,
        earlier,
        models: SelectAll::new(),
        tools: FuturesUnordered::new(),
        said: VecDeque::new(),
        tries: HashMap::new(),
        anew: HashSet::new(),
    };
    let lived = AssertUnwindSafe(run.live(first, &mut commands)).catch_unwind().await;
    if lived.is_err() {
        tracing::error!(turn = %live.id, "the task of a turn broke");
        run.abort();
        run.take(Input::Broke).await;
    }
    // Whoever sent a command that nobody took asks anew, of the store.
    commands.close();
    inner.leave(&live);
    drop(commands);
}

struct Run {
    inner: Arc<Inner>,
    live: Arc<Live>,
    exchange: ExchangeId,
    epoch: i64,
    carried: Carried,
    earlier: Arc<[Turn]>,
    /// The running calls of models; dropping one cancels it.
    models: SelectAll<BoxStream<'static, Said>>,
    /// The running tools; dropping one cancels it.
    tools: FuturesUnordered<BoxFuture<'static, Ran>>,
    /// What models said and is not worked off yet.
    said: VecDeque<Said>,
    /// Calls of the model of each agent for its current step.
    tries: HashMap<AgentPath, u32>,
    /// Agents whose model is called once more and has not spoken yet.
    anew: HashSet<AgentPath>,
}

/// What happened.
enum News {
    Said(Said),
    Input(Input),
    Command(Command),
}

impl Run {
    async fn live(&mut self, first: First, commands: &mut mpsc::UnboundedReceiver<Command>) {
        let over = match first {
            First::Input(input) => self.take(input).await,
            First::Effects(effects) => self.perform(effects).await,
        };
        if over {
            return;
        }
        loop {
            let news = tokio::select! {
                biased;
                Some(command) = commands.recv() => News::Command(command),
                Some((call, outcome)) = self.tools.next(), if !self.tools.is_empty() => News::Input(Input::Ran { call, outcome }),
                said = hear(&mut self.models, &mut self.said) => News::Said(said),
            };
            let over = match news {
                News::Input(input) => self.take(input).await,
                News::Said(said) => self.hear_out(said).await,
                News::Command(Command::Leave) => true,
                News::Command(Command::Order(order, told)) => self.obey(order, told).await,
            };
            if over {
                return;
            }
        }
    }

    async fn obey(&mut self, order: Order, told: Option<oneshot::Sender<Result<Taken, NotTaken>>>) -> bool {
        let verdict = self.live.with_turn(|turn| check(turn, &order));
        let over = match verdict {
            Ok(Taken::Now) => self.take(Input::Order(order)).await,
            _ => false,
        };
        if let Some(told) = told {
            let _ = told.send(verdict);
        }
        over
    }

    /// Works off what a model said; says whether that was the end.
    async fn hear_out(&mut self, (agent, said): Said) -> bool {
        let tries = self.tries.get(&agent).copied().unwrap_or(1);
        let chunk = match said {
            Err(fault) => return self.take(Input::Fault { agent, fault, tries }).await,
            Ok(chunk) => chunk,
        };
        if is_words(&chunk) && self.anew.remove(&agent) && self.take(Input::Again { agent: agent.clone() }).await {
            return true;
        }
        match chunk {
            Chunk::Memo(memo) => {
                self.remember(&agent, memo);
                false
            }
            Chunk::Finish(finish) => {
                let input = self.finished(agent, finish).await;
                self.take(input).await
            }
            Chunk::Step(_) => {
                self.tries.insert(agent.clone(), 1);
                self.take(Input::Heard { agent, chunk }).await
            }
            chunk => self.take(Input::Heard { agent, chunk }).await,
        }
    }

    /// Keeps a step as its provider gave it, by its first call.
    fn remember(&mut self, agent: &[String], memo: Value) {
        let first = self
            .live
            .with_turn(|turn| turn.parts_of(agent).and_then(|parts| calls(current_step(parts)).next().map(|call| call.call.clone())));
        if let Some(call) = first {
            self.carried.memos.insert(call, memo);
        }
    }

    /// The end of a model's answer, with what is to become of each call.
    async fn finished(&mut self, agent: AgentPath, finish: Finish) -> Input {
        let (agents, ready) = self.live.with_turn(|turn| {
            let step = turn.parts_of(&agent).map(current_step).unwrap_or_default();
            let ready: Vec<(String, String, Value)> = calls(step)
                .filter_map(|call| match &call.state {
                    ToolState::Ready { input } => Some((call.call.clone(), call.name.clone(), input.clone())),
                    _ => None,
                })
                .collect();
            (if ready.is_empty() { Vec::new() } else { turn.agents_to(&agent) }, ready)
        });
        if ready.is_empty() {
            return Input::Finished { agent, finish, verdicts: Vec::new() };
        }
        let granted = match self.inner.db.granted(self.exchange).await {
            Ok(granted) => granted,
            Err(error) => {
                tracing::warn!(%error, "what is allowed in a conversation cannot be read; the person is asked");
                Vec::new()
            }
        };
        let kit = self.inner.registry.kit_of(agents.last().unwrap_or(&AgentType::router()));
        let judge = |(call, name, input): (String, String, Value)| {
            let verdict: Verdict = self.inner.tools.judge(kit, &agents, &name, &input, &granted);
            (call, verdict)
        };
        Input::Finished { agent, finish, verdicts: ready.into_iter().map(judge).collect() }
    }

    /// Works off one input; says whether the task is over.
    async fn take(&mut self, input: Input) -> bool {
        let inner = self.inner.clone();
        let (events, effects) = self.live.with_turn(|turn| inner.decide(turn, input));
        let mut write = self.write();
        for event in events {
            if matches!(event, TurnEvent::Ended { .. } | TurnEvent::Paused) {
                self.settle(write, event).await;
                return true;
            }
            if let Some(seq) = self.live.push(event.clone()) {
                write.events.push((seq, event));
            }
        }
        if !write.events.is_empty() {
            self.inner.writer.write(write).await;
        }
        // Few inputs have any.
        if effects.is_empty() { false } else { self.perform(effects).await }
    }

    fn write(&self) -> Write {
        Write { row: self.live.row, epoch: self.epoch, events: Vec::new(), claims: Vec::new(), end: None, done: None }
    }

    async fn perform(&mut self, effects: Vec<Effect>) -> bool {
        let mut to_run = Vec::new();
        for effect in effects {
            match effect {
                Effect::AbortAll => self.abort(),
                Effect::CallModel { agent, after } => self.call_model(agent, after),
                Effect::RunTool { call } => to_run.push(call),
            }
        }
        if to_run.is_empty() { false } else { self.run_tools(to_run).await }
    }

    fn abort(&mut self) {
        self.models.clear();
        self.tools.clear();
        self.said.clear();
    }

    fn call_model(&mut self, agent: AgentPath, after: Duration) {
        let fresh = self.live.with_turn(|turn| turn.parts_of(&agent).is_some_and(|parts| matches!(parts.last(), Some(Part::StepStart))));
        let tries = self.tries.entry(agent.clone()).or_insert(0);
        // A step of which nothing was heard may be a new one, or one that is tried again: only a pause tells.
        *tries = if fresh && after.is_zero() { 1 } else { *tries + 1 };
        if *tries > 1 {
            self.anew.insert(agent.clone());
        }
        let (registry, job) = (self.inner.registry.clone(), self.job(&agent));
        let call = async move {
            tokio::time::sleep(after).await;
            registry.answer(&job)
        };
        self.models.push(whole(agent, futures::stream::once(call).flatten().boxed()));
    }

    /// What an agent is to answer now.
    fn job(&self, agent: &[String]) -> Job {
        let memos = &self.carried.memos;
        let (agents, question, steps) = self.live.with_turn(|turn| {
            let consulted = agent.last().and_then(|call| turn.find(call));
            let question = consulted.map_or(turn.prompt.text.as_str(), |(_, call)| call.argument("question").unwrap_or_default());
            (turn.agents_to(agent), question.to_owned(), turn.parts_of(agent).map(|parts| steps_of(parts, memos)).unwrap_or_default())
        });
        let name = agents.last().cloned().unwrap_or_else(AgentType::router);
        let offers = self.inner.tools.offered(self.inner.registry.kit_of(&name), agents.len().saturating_sub(1));
        Job {
            agent: name,
            question,
            // A consulted agent knows what it is asked, and nothing of the conversation.
            earlier: if agent.is_empty() { self.earlier.clone() } else { Arc::from([]) },
            context: self.carried.context.clone(),
            steps,
            offers: offers.into(),
        }
    }

    /// Runs tools, once it is stored that they run: after a crash none may run again because nobody knew.
    async fn run_tools(&mut self, ids: Vec<String>) -> bool {
        let named = |id: &String| {
            self.live.with_turn(|turn| {
                let (_, call) = turn.find(id)?;
                Some((id.clone(), call.name.clone(), call.state.input().cloned().unwrap_or_default()))
            })
        };
        let wanted: Vec<(String, String, Value)> = ids.iter().filter_map(named).collect();
        let (done, stored) = oneshot::channel();
        let mut write = self.write();
        write.claims = wanted.iter().map(|(id, name, _)| (id.clone(), name.clone())).collect();
        write.done = Some(done);
        fault::point("before-claim").await;
        self.inner.writer.write(write).await;
        let lost = Outcome { written: Written::Lost, claimed: Vec::new() };
        let Outcome { written, claimed } = stored.await.unwrap_or(lost);
        if written == Written::Stored && claimed.is_empty() {
            // Nothing is ours to run: the turn was taken over.
            self.abort();
            return true;
        }
        fault::point("after-claim").await;
        for (call, name, input) in wanted {
            let why_not = match written {
                Written::Stored if claimed.contains(&call) => None,
                Written::Stored => Some(ToolError::OutcomeUnknown),
                _ => Some(ToolError::Refused("The server could not store that this runs, so it did not run.".into())),
            };
            let scene = Scene { db: self.inner.db.clone(), user: self.live.user, exchange: self.exchange };
            let tools = self.inner.tools.clone();
            self.tools.push(
                async move {
                    if let Some(why) = why_not {
                        return (call, Err(why));
                    }
                    let ran = AssertUnwindSafe(tools.run(scene, &name, input)).catch_unwind().await;
                    fault::point("after-tool").await;
                    let outcome = ran.unwrap_or_else(|_| {
                        tracing::error!(tool = name, "a tool broke");
                        Err(ToolError::Refused("The tool broke; what it did is unknown.".into()))
                    });
                    (call, outcome.map(|output| Output { value: storable_json(output.value), ..output }))
                }
                .boxed(),
            );
        }
        false
    }

    /// Stores the end or the pause, and shows it only then: what a reader saw as the end must still be the end after a crash.
    async fn settle(&mut self, mut write: Write, event: TurnEvent) {
        self.abort();
        let mut turn = self.live.turn();
        let seq = turn.seq + 1;
        if turn.apply(seq, &event).is_err() {
            return;
        }
        let (done, stored) = oneshot::channel();
        write.end = Some(end_write(&turn, self.carried.clone()));
        write.done = Some(done);
        fault::point("before-end").await;
        self.inner.writer.write(write).await;
        let written = stored.await.map_or(Written::Lost, |outcome| outcome.written);
        fault::point("after-end").await;
        match written {
            Written::Stored => {
                log_state(&turn);
                self.inner.figures.lock().unwrap_or_else(PoisonError::into_inner).count(&turn);
                self.live.push(event);
            }
            Written::Refused => {
                let theirs = as_stored_elsewhere(&self.inner, &self.live, &turn).await;
                self.live.replace(theirs);
            }
            Written::Lost => {
                let lost = TurnEvent::Ended { at: clock::now(), how: End::Failed(Failure::Storage), finish: None };
                self.live.push(lost);
            }
        }
    }
}

/// The end, or the pause, of a turn for the store.
pub(super) fn end_write(turn: &Turn, carried: Carried) -> EndWrite {
    EndWrite {
        state: turn.state_name(),
        message: StoredMessage::of(turn, carried).to_json(),
        until: turn.until(),
        agent: turn.agent().clone(),
        at: clock::now(),
        // Those of a turn are counted once.
        usage: if turn.is_ended() { turn.usage } else { Usage::default() },
    }
}

/// The turn as whoever has it now stored it.
async fn as_stored_elsewhere(inner: &Inner, live: &Live, mine: &Turn) -> Turn {
    match inner.db.turn(live.user, &mine.id).await {
        Ok(Some(stored)) => stored.turn,
        // The conversation was deleted, or the store is away: to those who watch, it is over all the same.
        _ => {
            let mut turn = live.turn();
            let event = TurnEvent::Ended { at: clock::now(), how: End::Interrupted(Interruption::Lost), finish: None };
            let _ = turn.apply(turn.seq + 1, &event);
            turn
        }
    }
}

/// One line of the log for each turn that ends or pauses, without a word of what was said.
pub(super) fn log_state(turn: &Turn) {
    tracing::info!(
        turn = %turn.id, state = turn.state_name(), end = ?turn.end(), took_ms = turn.took_ms(), agent = turn.agent().as_str(),
        model = turn.model.as_deref(), input_tokens = turn.usage.input, output_tokens = turn.usage.output, calls = turn.every_call().len(),
        "{}", if turn.is_ended() { "turn ended" } else { "turn waits for somebody" }
    );
}

/// Whether the model has begun to speak.
fn is_words(chunk: &Chunk) -> bool {
    matches!(chunk, Chunk::Text(_) | Chunk::Reasoning(_) | Chunk::Calling { .. } | Chunk::Called { .. } | Chunk::Finish(_))
}

/// A model's answer as what an agent hears, up to its end. A stream that ends without saying so broke off.
fn whole(agent: AgentPath, mut call: ChunkStream) -> BoxStream<'static, Said> {
    stream! {
        while let Some(said) = call.next().await {
            let over = matches!(said, Ok(Chunk::Finish(_)) | Err(_));
            yield (agent.clone(), said);
            if over {
                return;
            }
        }
        yield (agent, Err(Failure::Cut.into()));
    }
    .boxed()
}

/// The next thing that a model says; waits for ever when none is called. What is there already is taken together, and pieces of one
/// kind become one, so that a fast model costs no more events than a slow one.
async fn hear(models: &mut SelectAll<BoxStream<'static, Said>>, said: &mut VecDeque<Said>) -> Said {
    loop {
        if let Some(next) = said.pop_front() {
            return next;
        }
        if models.is_empty() {
            return std::future::pending().await;
        }
        let Some(first) = models.next().await else { continue };
        note(said, first);
        for _ in 0..BURST {
            match models.next().now_or_never() {
                Some(Some(item)) => note(said, item),
                Some(None) | None => break,
            }
        }
    }
}

/// Puts something that was said into the queue, or to the end of what the same agent said last.
fn note(queue: &mut VecDeque<Said>, (agent, item): Said) {
    let item = item.map(storable_chunk);
    match (queue.back_mut(), item) {
        (_, Ok(Chunk::Text(text) | Chunk::Reasoning(text) | Chunk::Arguments { text, .. })) if text.is_empty() => {}
        (Some((last, Ok(Chunk::Text(open)))), Ok(Chunk::Text(text)))
        | (Some((last, Ok(Chunk::Reasoning(open)))), Ok(Chunk::Reasoning(text)))
            if *last == agent =>
        {
            open.push_str(&text);
        }
        (Some((_, Ok(Chunk::Arguments { call: open_call, text: open }))), Ok(Chunk::Arguments { call, text })) if *open_call == call => {
            open.push_str(&text);
        }
        (_, item) => queue.push_back((agent, item)),
    }
}

fn storable_chunk(chunk: Chunk) -> Chunk {
    match chunk {
        Chunk::Text(text) => Chunk::Text(storable(&text).into_owned()),
        Chunk::Reasoning(text) => Chunk::Reasoning(storable(&text).into_owned()),
        Chunk::Called { call, name, input } => Chunk::Called { call, name, input: input.map(storable_json) },
        other => other,
    }
}

/// JSON as PostgreSQL can hold it.
pub(super) fn storable_json(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(storable(&text).into_owned()),
        Value::Array(items) => Value::Array(items.into_iter().map(storable_json).collect()),
        Value::Object(fields) => {
            let field = |(name, value): (String, Value)| (storable(&name).into_owned(), storable_json(value));
            Value::Object(fields.into_iter().map(field).collect::<Map<_, _>>())
        }
        other => other,
    }
}
