//! The server's half of a turn's life, pure: what happened outside goes in, events to store and effects to run come out.
//!
//! No clock, no I/O, no tokio: the whole life of a turn is tested as tables and as properties in `decide/tests.rs`. [`super::drive`]
//! runs the effects.
//!
//! An agent (the one that answers, or one that it consults, named by an [`AgentPath`]) is either answered by its model or waits for the
//! calls of its current step. When the last of those is closed its model is called again, until it calls nothing more.

#[cfg(test)]
mod tests;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::model::agent::{AgentType, Reply};
use crate::model::event::{End, Failure, Finish, Interruption, TurnEvent};
use crate::model::ids::Millis;
use crate::model::part::{Notice, Part, Runner, Source, ToolError, ToolState, arguments};
use crate::model::turn::{AgentPath, Turn, TurnState, calls, current_step};
use crate::ssr::llm::{Chunk, Fault};

/// How often a model is called for one step at most.
pub const TRIES: u32 = 3;
/// The same for a step of which something was heard already.
const TRIES_AFTER_WORDS: u32 = 2;
/// A provider that asks for a longer pause than this is not waited for.
const LONGEST_PAUSE: Duration = Duration::from_secs(20);

/// What the operator chose, as far as it decides anything here.
pub struct Rules<'a> {
    /// Steps of one agent at most.
    pub steps: u32,
    /// How long a person is asked, in milliseconds.
    pub approval_ms: Millis,
    /// How long a tab is waited for, in milliseconds.
    pub browser_ms: Millis,
    /// The model of an agent.
    pub model_of: &'a (dyn Fn(&AgentType) -> String + Sync),
}

/// Something that happened outside.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// The turn is stored and may run.
    Begin {
        /// The agent that answers.
        agent: AgentType,
        /// The agent that was asked for and does not exist.
        unknown: Option<AgentType>,
        /// The model it uses.
        model: String,
    },
    /// The model of an agent said something; not its end, which is [`Input::Finished`].
    Heard {
        /// Which agent.
        agent: AgentPath,
        /// What.
        chunk: Chunk,
    },
    /// The model of an agent begins to answer once more: what it said the time before is void.
    Again {
        /// Which agent.
        agent: AgentPath,
    },
    /// The model of an agent failed.
    Fault {
        /// Which agent.
        agent: AgentPath,
        /// How.
        fault: Fault,
        /// Calls of the model for this step so far, this one included.
        tries: u32,
    },
    /// The model of an agent has said all.
    Finished {
        /// Which agent.
        agent: AgentPath,
        /// Why it stopped.
        finish: Finish,
        /// What is to be done with each of its calls that came whole.
        verdicts: Vec<(String, Verdict)>,
    },
    /// A tool has run, or could not.
    Ran {
        /// Which call.
        call: String,
        /// What it gave.
        outcome: Result<Output, ToolError>,
    },
    /// Somebody, or another process, wants something.
    Order(Order),
    /// It is time to give up whoever did not answer.
    Expire,
    /// The task that ran it broke.
    Broke,
}

/// What somebody can want of a turn; may come from another process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// That it ends.
    Stop(Interruption),
    /// That a call goes on.
    Answer {
        /// Which call.
        call: String,
        /// How.
        answer: Answer,
    },
    /// To be the one tab that runs a call, or still to be it.
    Claim {
        /// Which call.
        call: String,
        /// The tab.
        tab: String,
    },
}

/// The answer to a call that waits for somebody.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// It may run.
    Allow {
        /// Id of the question.
        approval: String,
    },
    /// It may not.
    Deny {
        /// Id of the question.
        approval: String,
        /// Why, in the person's words.
        reason: String,
    },
    /// The browser ran it.
    Output {
        /// What it gave.
        value: Value,
        /// The tab, when it says who it is.
        tab: Option<String>,
    },
    /// The browser could not run it.
    Failed {
        /// Why.
        text: String,
        /// The tab, when it says who it is.
        tab: Option<String>,
    },
}

/// What a tool gave.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Output {
    /// For the model, and to be shown.
    pub value: Value,
    /// Where its facts come from.
    pub sources: Vec<Source>,
}

/// What is to be done with a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Run it here.
    Run,
    /// Ask the person first.
    Ask(Runner),
    /// Have it run by the browser.
    Browser,
    /// Do not run it, for this reason; the model hears it.
    Refuse(String),
}

/// What became of an order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Taken {
    /// It is carried out.
    Now,
    /// The same was decided before.
    Already,
}

/// Why an order is not carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NotTaken {
    /// Nothing of that name waits for anything of that kind.
    Unknown,
    /// It was decided in another way; the text says how.
    Decided(String),
    /// Another tab runs it.
    Elsewhere,
}

/// Something to do outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Call the model of an agent, after a pause.
    CallModel {
        /// Which agent.
        agent: AgentPath,
        /// How long to wait first.
        after: Duration,
    },
    /// Run a tool, once it is stored that it runs.
    RunTool {
        /// Which call.
        call: String,
    },
    /// Drop every running call of a model or a tool.
    AbortAll,
}

/// What follows from an input.
pub fn decide(turn: &Turn, now: Millis, rules: &Rules<'_>, input: Input) -> (Vec<TurnEvent>, Vec<Effect>) {
    if turn.is_ended() {
        return (Vec::new(), Vec::new());
    }
    match input {
        // What comes with every word must not cost a copy of the turn; it always fits.
        Input::Heard { agent, chunk: chunk @ (Chunk::Text(_) | Chunk::Reasoning(_) | Chunk::Tokens(_)) } if agent.is_empty() => {
            (heard(turn, &agent, chunk), Vec::new())
        }
        other => Plan { turn: turn.clone(), now, rules, events: Vec::new(), effects: Vec::new() }.carry_out(other),
    }
}

/// Whether an order fits the turn as it is. One that does not is no fault: two tabs may answer at once.
pub fn check(turn: &Turn, order: &Order) -> Result<Taken, NotTaken> {
    let (id, answer) = match order {
        Order::Stop(_) if turn.is_ended() => return Ok(Taken::Already),
        Order::Stop(_) => return Ok(Taken::Now),
        Order::Answer { call, answer } => (call, Some(answer)),
        Order::Claim { call, .. } => (call, None),
    };
    let (_, call) = turn.find(id).ok_or(NotTaken::Unknown)?;
    let held_by_another = |held: &Option<String>, tab: &Option<String>| held.is_some() && tab.is_some() && held != tab;
    match (&call.state, answer, order) {
        (ToolState::Waiting { tab: held, .. }, None, Order::Claim { tab, .. }) => {
            if held.as_ref().is_some_and(|held| held != tab) {
                Err(NotTaken::Elsewhere)
            } else {
                Ok(Taken::Now)
            }
        }
        (ToolState::Waiting { tab: held, .. }, Some(Answer::Output { tab, .. } | Answer::Failed { tab, .. }), _) => {
            if held_by_another(held, tab) { Err(NotTaken::Elsewhere) } else { Ok(Taken::Now) }
        }
        (ToolState::Asking { approval: asked, .. }, Some(Answer::Allow { approval } | Answer::Deny { approval, .. }), _) => {
            if asked == approval { Ok(Taken::Now) } else { Err(NotTaken::Unknown) }
        }
        (
            ToolState::Running { approval: Some(asked), .. }
            | ToolState::Waiting { approval: Some(asked), .. }
            | ToolState::Done { approval: Some(asked), .. }
            | ToolState::Failed { approval: Some(asked), .. },
            Some(Answer::Allow { approval }),
            _,
        ) if asked == approval => Ok(Taken::Already),
        (ToolState::Denied { approval: asked, .. }, Some(Answer::Deny { approval, .. }), _) if asked == approval => Ok(Taken::Already),
        (ToolState::Denied { reason, .. }, Some(_), _) if reason.is_empty() => Err(NotTaken::Decided("This was denied.".into())),
        (ToolState::Denied { reason, .. }, Some(_), _) => Err(NotTaken::Decided(format!("This was denied: {reason}"))),
        (ToolState::Running { approval: Some(_), .. } | ToolState::Done { approval: Some(_), .. }, Some(Answer::Deny { .. }), _) => {
            Err(NotTaken::Decided("This was allowed, and runs or has run.".into()))
        }
        (ToolState::Failed { error, .. }, Some(_), _) => Err(NotTaken::Decided(error.to_string())),
        (ToolState::Done { .. }, Some(Answer::Output { .. } | Answer::Failed { .. }), _) => {
            Err(NotTaken::Decided("This has run already.".into()))
        }
        _ => Err(NotTaken::Unknown),
    }
}

/// The events of a word, a thought, or a piece of a call.
fn heard(turn: &Turn, agent: &[String], chunk: Chunk) -> Vec<TurnEvent> {
    let events = match chunk {
        Chunk::Text(text) => vec![TurnEvent::TextGrew { text }],
        Chunk::Reasoning(text) => vec![TurnEvent::ReasoningGrew { text }],
        Chunk::Step(model) => vec![TurnEvent::StepStarted { model }],
        Chunk::Calling { call, name } => vec![TurnEvent::ToolCalled { call, name }],
        Chunk::Arguments { call, text } => vec![TurnEvent::ArgumentsGrew { call, text }],
        Chunk::Called { call, name, input } => {
            let known = turn.parts_of(agent).is_some_and(|parts| calls(parts).any(|known| known.call == call));
            let begun = (!known).then(|| TurnEvent::ToolCalled { call: call.clone(), name });
            let state = match input {
                Ok(input) => ToolState::Ready { input },
                Err(raw) => failed(Value::String(raw), "The arguments are no JSON."),
            };
            begun.into_iter().chain([TurnEvent::ToolChanged { call, state }]).collect()
        }
        Chunk::Tokens(usage) => return vec![TurnEvent::TokensCounted { usage }],
        // What goes with the answer of a consulted agent is for no one: its words go to the agent that asked.
        Chunk::Reply(_) if !agent.is_empty() => return Vec::new(),
        Chunk::Reply(mut reply) => {
            reply.agent_type = reply.agent_type.or_else(|| turn.reply.agent_type.clone());
            for (key, value) in &turn.reply.metadata {
                reply.metadata.entry(key.clone()).or_insert_with(|| value.clone());
            }
            return vec![TurnEvent::Replied { reply }];
        }
        Chunk::Finish(_) | Chunk::Memo(_) => return Vec::new(),
    };
    events.into_iter().map(|event| under(agent, event)).collect()
}

fn under(agent: &[String], event: TurnEvent) -> TurnEvent {
    agent.iter().rev().fold(event, |event, call| TurnEvent::Under { call: call.clone(), event: Box::new(event) })
}

fn failed(input: Value, why: &str) -> ToolState {
    ToolState::Failed { input, error: ToolError::Refused(why.to_owned()), approval: None }
}

/// A decision in the making: its events are applied to a copy of the turn, so that each next one is decided on what will be.
struct Plan<'a> {
    turn: Turn,
    now: Millis,
    rules: &'a Rules<'a>,
    events: Vec<TurnEvent>,
    effects: Vec<Effect>,
}

impl Plan<'_> {
    fn carry_out(mut self, input: Input) -> (Vec<TurnEvent>, Vec<Effect>) {
        match input {
            Input::Begin { agent, unknown, model } => self.begin(agent, unknown, model),
            Input::Heard { agent, chunk } => {
                for event in heard(&self.turn, &agent, chunk) {
                    self.emit(&[], event);
                }
            }
            Input::Again { agent } => {
                if self.turn.parts_of(&agent).is_some_and(|parts| !current_step(parts).is_empty()) {
                    self.emit(&agent, TurnEvent::StepReset);
                }
            }
            Input::Fault { agent, fault, tries } => self.fault(agent, fault, tries),
            Input::Finished { agent, finish, verdicts } => self.finished(&agent, finish, verdicts),
            Input::Ran { call, outcome } => self.ran(&call, outcome),
            Input::Order(Order::Stop(by)) => self.end(End::Interrupted(by), None),
            Input::Order(Order::Answer { call, answer }) => self.answer(&call, answer),
            Input::Order(Order::Claim { call, tab }) => self.claim(&call, tab),
            Input::Expire => self.expire(),
            Input::Broke => self.end(End::Failed(Failure::Internal), None),
        }
        match self.turn.state {
            TurnState::Running if !self.turn.is_active() => self.emit(&[], TurnEvent::Paused),
            // Nothing that was decided depends on it, so it may come first.
            TurnState::Paused if self.turn.is_active() => self.events.insert(0, TurnEvent::Resumed),
            _ => {}
        }
        (self.events, self.effects)
    }

    fn emit(&mut self, agent: &[String], event: TurnEvent) {
        let event = under(agent, event);
        // What does not fit came too late, for example a result of a call that is closed.
        if self.turn.apply(self.turn.seq + 1, &event).is_ok() {
            self.events.push(event);
        }
    }

    fn change(&mut self, agent: &[String], call: &str, state: ToolState) {
        self.emit(agent, TurnEvent::ToolChanged { call: call.to_owned(), state });
    }

    fn end(&mut self, how: End, finish: Option<Finish>) {
        self.effects.clear();
        self.effects.push(Effect::AbortAll);
        self.emit(&[], TurnEvent::Ended { at: self.now, how, finish });
    }

    fn begin(&mut self, agent: AgentType, unknown: Option<AgentType>, model: String) {
        let mut reply = Reply { agent_type: Some(agent), ..Reply::default() };
        if let Some(unknown) = unknown {
            reply.metadata.insert("fallback".into(), true.into());
            reply.metadata.insert("original_agent_type".into(), unknown.as_str().into());
        }
        self.emit(&[], TurnEvent::Replied { reply });
        self.emit(&[], TurnEvent::StepStarted { model });
        self.call_model(&[], Duration::ZERO);
    }

    fn call_model(&mut self, agent: &[String], after: Duration) {
        self.effects.push(Effect::CallModel { agent: agent.to_vec(), after });
    }

    fn fault(&mut self, agent: AgentPath, fault: Fault, tries: u32) {
        if let Some(after) = self.pause_before_retry(&agent, fault, tries) {
            return self.call_model(&agent, after);
        }
        match agent.split_last() {
            None => self.end(End::Failed(fault.failure), None),
            Some((call, asker)) => {
                let input = self.input_of(call);
                self.change(asker, call, failed(input, fault.failure.explain().0));
                self.go_on(asker, None);
            }
        }
    }

    /// What was heard of a step that broke off is shown until the model speaks again, and kept when it does not.
    fn pause_before_retry(&self, agent: &[String], fault: Fault, tries: u32) -> Option<Duration> {
        let parts = self.turn.parts_of(agent)?;
        let most = if current_step(parts).is_empty() { TRIES } else { TRIES_AFTER_WORDS };
        if !fault.failure.is_transient() || tries >= most {
            return None;
        }
        let pause = fault.retry_after.unwrap_or(Duration::from_millis(500) * 2_u32.saturating_pow(tries.saturating_sub(1)));
        let pause = pause.max(Duration::from_millis(1));
        (pause <= LONGEST_PAUSE).then_some(pause)
    }

    fn finished(&mut self, agent: &[String], finish: Finish, verdicts: Vec<(String, Verdict)>) {
        let Some(parts) = self.turn.parts_of(agent) else { return };
        let half: Vec<(String, Value)> = calls(current_step(parts))
            .filter_map(|call| match &call.state {
                ToolState::Streaming { raw } => Some((call.call.clone(), arguments(raw))),
                _ => None,
            })
            .collect();
        for (call, input) in half {
            self.change(agent, &call, failed(input, "The arguments did not come whole."));
        }
        for (call, verdict) in verdicts {
            let ready = |parts: &[Part]| calls(current_step(parts)).find(|known| known.call == call).map(|known| known.state.clone());
            let Some(ToolState::Ready { input }) = self.turn.parts_of(agent).and_then(ready) else { continue };
            match verdict {
                Verdict::Run => {
                    self.change(agent, &call, ToolState::Running { input, approval: None });
                    self.run(agent, &call);
                }
                Verdict::Ask(runner) => {
                    let (approval, until) = (format!("ask-{call}"), self.now + self.rules.approval_ms);
                    self.change(agent, &call, ToolState::Asking { input, runner, approval, until });
                }
                Verdict::Browser => {
                    let until = self.now + self.rules.browser_ms;
                    self.change(agent, &call, ToolState::Waiting { input, approval: None, tab: None, until });
                }
                Verdict::Refuse(why) => self.change(agent, &call, failed(input, &why)),
            }
        }
        self.go_on(agent, Some(finish));
    }

    fn input_of(&self, call: &str) -> Value {
        self.turn.find(call).and_then(|(_, call)| call.state.input().cloned()).unwrap_or_default()
    }

    /// What follows when it is decided that a call runs here.
    fn run(&mut self, agent: &[String], id: &str) {
        let Some((_, call)) = self.turn.find(id) else { return };
        let consulted = call.consults().then(|| call.argument("agent").and_then(AgentType::parse)).flatten();
        match consulted {
            Some(consulted) => {
                let path: AgentPath = agent.iter().cloned().chain([id.to_owned()]).collect();
                let model = (self.rules.model_of)(&consulted);
                self.emit(&path, TurnEvent::StepStarted { model });
                self.call_model(&path, Duration::ZERO);
            }
            None => self.effects.push(Effect::RunTool { call: id.to_owned() }),
        }
    }

    fn ran(&mut self, id: &str, outcome: Result<Output, ToolError>) {
        let Some((agent, call)) = self.turn.find(id) else { return };
        let ToolState::Running { input, approval } = call.state.clone() else { return };
        let state = match outcome {
            Ok(Output { value, sources }) => ToolState::Done { input, output: value, approval, sources },
            Err(error) => ToolState::Failed { input, error, approval },
        };
        self.change(&agent, id, state);
        self.go_on(&agent, None);
    }

    fn answer(&mut self, id: &str, answer: Answer) {
        let order = Order::Answer { call: id.to_owned(), answer };
        let (Ok(Taken::Now), Order::Answer { answer, .. }) = (check(&self.turn, &order), order) else { return };
        let Some((agent, call)) = self.turn.find(id) else { return };
        match (call.state.clone(), answer) {
            (ToolState::Asking { input, runner: Runner::Server, approval, .. }, Answer::Allow { .. }) => {
                self.change(&agent, id, ToolState::Running { input, approval: Some(approval) });
                self.run(&agent, id);
            }
            (ToolState::Asking { input, runner: Runner::Browser, approval, .. }, Answer::Allow { .. }) => {
                let until = self.now + self.rules.browser_ms;
                self.change(&agent, id, ToolState::Waiting { input, approval: Some(approval), tab: None, until });
            }
            (ToolState::Asking { input, approval, .. }, Answer::Deny { reason, .. }) => {
                self.change(&agent, id, ToolState::Denied { input, approval, reason });
                self.go_on(&agent, None);
            }
            (ToolState::Waiting { input, approval, .. }, Answer::Output { value, .. }) => {
                self.change(&agent, id, ToolState::Done { input, output: value, approval, sources: Vec::new() });
                self.go_on(&agent, None);
            }
            (ToolState::Waiting { input, approval, .. }, Answer::Failed { text, .. }) => {
                self.change(&agent, id, ToolState::Failed { input, error: ToolError::Refused(text), approval });
                self.go_on(&agent, None);
            }
            _ => {}
        }
    }

    fn claim(&mut self, id: &str, tab: String) {
        let order = Order::Claim { call: id.to_owned(), tab };
        let (Ok(_), Order::Claim { tab, .. }) = (check(&self.turn, &order), order) else { return };
        let Some((agent, call)) = self.turn.find(id) else { return };
        let ToolState::Waiting { input, approval, .. } = call.state.clone() else { return };
        let until = self.now + self.rules.browser_ms;
        self.change(&agent, id, ToolState::Waiting { input, approval, tab: Some(tab), until });
    }

    /// Closes what nobody answered in time. When that was all that was waited for the turn is over: whoever comes back finds out why, and
    /// no model speaks to nobody. Else the others are waited for.
    fn expire(&mut self) {
        let waited_for: Vec<(String, bool)> =
            (self.turn.every_call().iter()).filter_map(|call| Some((call.call.clone(), call.state.until()? < self.now))).collect();
        let due = |(id, due): &(String, bool)| due.then(|| id.clone());
        let late: Vec<String> = waited_for.iter().filter_map(due).collect();
        if late.is_empty() {
            return;
        }
        if late.len() == waited_for.len() && !self.turn.is_active() {
            return self.end(End::Interrupted(Interruption::Expired), None);
        }
        for id in late {
            let Some((agent, call)) = self.turn.find(&id) else { continue };
            let state = call.state.clone().settle(ToolError::Expired);
            self.change(&agent, &id, state);
            self.go_on(&agent, None);
        }
    }

    /// Whatever an agent does when a call of its step, or its model, is done.
    fn go_on(&mut self, agent: &[String], finish: Option<Finish>) {
        let Some(parts) = self.turn.parts_of(agent) else { return };
        let step = current_step(parts);
        if calls(step).any(|call| call.state.is_open()) {
            return;
        }
        if calls(step).next().is_none() {
            return self.agent_done(agent, finish);
        }
        let steps = u32::try_from(parts.iter().filter(|part| **part == Part::StepStart).count()).unwrap_or(u32::MAX);
        if steps >= self.rules.steps {
            self.emit(agent, TurnEvent::Noticed { notice: Notice::StepsUsed(steps) });
            return self.agent_done(agent, Some(Finish::ToolCalls));
        }
        let model = match self.turn.agents_to(agent).pop() {
            Some(name) => (self.rules.model_of)(&name),
            None => return,
        };
        self.emit(agent, TurnEvent::StepStarted { model });
        self.call_model(agent, Duration::ZERO);
    }

    fn agent_done(&mut self, agent: &[String], finish: Option<Finish>) {
        let Some((id, asker)) = agent.split_last() else {
            let noticed = self.turn.parts.iter().any(|part| matches!(part, Part::Notice(_)));
            let how = match (self.turn.has_text() || noticed, finish) {
                (true, _) => End::Answered,
                (false, Some(Finish::ContentFilter)) => End::Failed(Failure::Filtered),
                (false, _) => End::Failed(Failure::Empty),
            };
            return self.end(how, finish);
        };
        let Some((_, call)) = self.turn.find(id) else { return };
        let ToolState::Running { input, approval } = call.state.clone() else { return };
        let mut said = String::new();
        for part in current_step(&call.inner) {
            if let Part::Text { text } = part {
                said.push_str(text);
            }
        }
        let name = call.argument("agent").unwrap_or_default();
        let state = if said.trim().is_empty() {
            let why = if finish == Some(Finish::ToolCalls) {
                "The agent used all of its steps without an answer."
            } else {
                "The agent gave no answer."
            };
            ToolState::Failed { input, error: ToolError::Refused(why.into()), approval }
        } else {
            ToolState::Done { output: json!({ "agent": name, "answer": said }), input, approval, sources: Vec::new() }
        };
        self.change(asker, id, state);
        self.go_on(asker, None);
    }
}
