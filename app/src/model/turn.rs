//! A turn: one question and everything that became of it.
//!
//! Laws, each a property test below: an ended turn has no open call; a turn pauses only for someone; only a paused turn resumes;
//! an ended turn never changes; a closed call never changes, an open one never goes back; a repeated event changes nothing; a gap is
//! refused.
//!
//! An agent that is consulted by a tool call works inside of that call: it has parts of its own ([`ToolCall::inner`]), and what happens
//! to it comes as [`TurnEvent::Under`]. So no part of it can get into the prompt of the agent that asked.

use serde::{Deserialize, Serialize};

use super::agent::{AgentType, Reply};
use super::event::{End, Finish, Interruption, Seq, TurnEvent, Usage};
use super::ids::{Millis, PromptId, TurnId, TurnRow};
use super::part::{Part, Source, ToolCall, ToolError, ToolState};

/// What the person asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prompt {
    /// The client's id of the message.
    pub id: PromptId,
    /// The words.
    pub text: String,
}

/// What the person thought of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Feedback {
    /// Thumbs up or down.
    pub good: bool,
    /// Why, if the person said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// One question and its answer, in whatever state it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// Its name.
    pub id: TurnId,
    /// Its row; later turns have greater ones.
    pub row: TurnRow,
    /// What was asked.
    pub prompt: Prompt,
    /// The agent that was asked, maybe `auto`.
    pub asked: AgentType,
    /// 1, and one more for each retry of the same prompt.
    pub attempt: i64,
    /// When it was stored.
    pub started_at: Millis,
    /// The model that was called last.
    pub model: Option<String>,
    /// What came, in order.
    pub parts: Vec<Part>,
    /// What the answer carries beside its text.
    pub reply: Reply,
    /// Tokens of all calls together.
    pub usage: Usage,
    /// Where it is in its life.
    pub state: TurnState,
    /// The last event that was applied.
    pub seq: Seq,
    /// What the person thought of it.
    pub feedback: Option<Feedback>,
    /// How often a step was taken back; tells readers who keep count that what they have of the current step is void.
    #[serde(default)]
    pub resets: u32,
}

/// Which agent of a turn: the calls that lead to it, outermost first. Empty: the one that answers the person.
pub type AgentPath = Vec<String>;

/// Where a turn is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TurnState {
    /// A model or a tool is at work.
    Running,
    /// A person or a browser must answer.
    Paused,
    /// Over.
    Ended {
        /// When.
        when: Millis,
        /// How.
        end: End,
        /// Why the provider stopped, when it said so.
        finish: Option<Finish>,
    },
}

/// Why an event was not applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Events are missing in between; load the turn anew.
    #[error("event {got} came after event {have}")]
    Gap {
        /// The last applied one.
        have: Seq,
        /// The one that came.
        got: Seq,
    },
    /// An ended turn never changes.
    #[error("the turn has ended")]
    Ended,
    /// A pause needs a call that waits for someone.
    #[error("nothing waits for anyone")]
    NothingToWaitFor,
    /// Only a paused turn resumes.
    #[error("the turn is not paused")]
    NotPaused,
    /// A closed call never changes.
    #[error("the tool call is closed")]
    CallClosed,
    /// A call that goes on began before, and one that begins did not.
    #[error("the tool call is not known, or known already")]
    CallUnknown,
    /// An open call only moves on.
    #[error("the tool call is further than that")]
    CallBackwards,
    /// It does not happen to a consulted agent, or not now.
    #[error("that does not happen there")]
    Misplaced,
}

impl Turn {
    /// A turn that has just been asked.
    pub fn asked(id: TurnId, row: TurnRow, prompt: Prompt, agent: AgentType, attempt: i64, now: Millis) -> Self {
        Self {
            id,
            row,
            prompt,
            asked: agent,
            attempt,
            started_at: now,
            model: None,
            parts: Vec::new(),
            reply: Reply::default(),
            usage: Usage::default(),
            state: TurnState::Running,
            seq: 0,
            feedback: None,
            resets: 0,
        }
    }

    /// The only function that changes what a turn says. A repeated event is ignored; a gap is refused; a refused event changes
    /// nothing.
    pub fn apply(&mut self, seq: Seq, event: &TurnEvent) -> Result<(), Refused> {
        if seq <= self.seq {
            return Ok(());
        }
        if seq != self.seq + 1 {
            return Err(Refused::Gap { have: self.seq, got: seq });
        }
        if self.is_ended() {
            return Err(Refused::Ended);
        }
        match event {
            TurnEvent::Replied { reply } => self.reply = reply.clone(),
            TurnEvent::TokensCounted { usage } => {
                self.usage.input = self.usage.input.saturating_add(usage.input);
                self.usage.output = self.usage.output.saturating_add(usage.output);
            }
            TurnEvent::Paused => {
                if self.is_active() || !self.every_call().iter().any(|call| call.state.awaits_someone()) {
                    return Err(Refused::NothingToWaitFor);
                }
                self.state = TurnState::Paused;
            }
            TurnEvent::Resumed => {
                if self.state != TurnState::Paused {
                    return Err(Refused::NotPaused);
                }
                self.state = TurnState::Running;
            }
            TurnEvent::Ended { at, how, finish } => {
                settle(&mut self.parts, *how);
                self.state = TurnState::Ended { when: *at, end: *how, finish: *finish };
            }
            of_an_agent => {
                if let TurnEvent::ToolCalled { call, .. } = innermost(event)
                    && self.find(call).is_some()
                {
                    return Err(Refused::CallUnknown);
                }
                change(&mut self.parts, seq, of_an_agent)?;
                if let TurnEvent::StepStarted { model } = event {
                    self.model = Some(model.clone());
                }
                if innermost(event) == &TurnEvent::StepReset {
                    self.resets += 1;
                }
            }
        }
        self.seq = seq;
        Ok(())
    }

    /// Whether it is over.
    pub fn is_ended(&self) -> bool {
        matches!(self.state, TurnState::Ended { .. })
    }

    /// How it ended, if it did.
    pub fn end(&self) -> Option<End> {
        match self.state {
            TurnState::Ended { end, .. } => Some(end),
            TurnState::Running | TurnState::Paused => None,
        }
    }

    /// How long it ran, in milliseconds, once it is over.
    pub fn took_ms(&self) -> Option<i64> {
        match self.state {
            TurnState::Ended { when, .. } => Some((when - self.started_at).max(0)),
            TurnState::Running | TurnState::Paused => None,
        }
    }

    /// The text of the answer, all text parts together; what was said in different steps stands in paragraphs of its own.
    pub fn text(&self) -> String {
        let (mut all, mut gap) = (String::new(), false);
        for part in &self.parts {
            match part {
                Part::StepStart => gap = !all.is_empty(),
                Part::Text { text } => {
                    if std::mem::take(&mut gap) {
                        all.push_str("\n\n");
                    }
                    all.push_str(text);
                }
                _ => {}
            }
        }
        all
    }

    /// Whether any text of an answer has come that a person could read.
    pub fn has_text(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Text { text } if !text.trim().is_empty()))
    }

    /// The agent to show: who answered, else who was asked.
    pub fn agent(&self) -> &AgentType {
        self.reply.agent_type.as_ref().unwrap_or(&self.asked)
    }

    /// All tool calls: each before those of the agent that it consults.
    pub fn every_call(&self) -> Vec<&ToolCall> {
        fn collect<'a>(parts: &'a [Part], all: &mut Vec<&'a ToolCall>) {
            for part in parts {
                if let Part::Tool(call) = part {
                    all.push(call);
                    collect(&call.inner, all);
                }
            }
        }
        let mut all = Vec::new();
        collect(&self.parts, &mut all);
        all
    }

    /// A call by its id, with the agent that made it.
    pub fn find(&self, id: &str) -> Option<(AgentPath, &ToolCall)> {
        fn search<'a>(parts: &'a [Part], id: &str, path: &mut AgentPath) -> Option<&'a ToolCall> {
            for call in calls(parts) {
                if call.call == id {
                    return Some(call);
                }
                if !call.inner.is_empty() {
                    path.push(call.call.clone());
                    if let Some(found) = search(&call.inner, id, path) {
                        return Some(found);
                    }
                    path.pop();
                }
            }
            None
        }
        let mut path = Vec::new();
        let call = search(&self.parts, id, &mut path)?;
        Some((path, call))
    }

    /// The parts of an agent.
    pub fn parts_of(&self, agent: &[String]) -> Option<&[Part]> {
        agent.iter().try_fold(self.parts.as_slice(), |parts, id| {
            calls(parts).find(|call| call.call == *id && call.consults()).map(|call| call.inner.as_slice())
        })
    }

    /// The agents that lead to one, outermost first, itself last.
    pub fn agents_to(&self, agent: &[String]) -> Vec<AgentType> {
        let mut agents = vec![self.agent().clone()];
        let mut parts = self.parts.as_slice();
        for id in agent {
            let Some(call) = calls(parts).find(|call| call.call == *id) else { break };
            agents.extend(call.argument("agent").and_then(AgentType::parse));
            parts = &call.inner;
        }
        agents
    }

    /// Whether a model speaks or a tool runs, for whichever agent. When none does, and the turn is not over, somebody must answer.
    pub fn is_active(&self) -> bool {
        works(&self.parts)
    }

    /// When the first of those that are waited for is waited for no more.
    pub fn until(&self) -> Option<Millis> {
        self.every_call().iter().filter_map(|call| call.state.until()).min()
    }

    /// Where the facts of the answer come from, each once, in the order in which they came up.
    pub fn sources(&self) -> Vec<&Source> {
        let mut all: Vec<&Source> = Vec::new();
        for call in self.every_call() {
            let ToolState::Done { sources, .. } = &call.state else { continue };
            for source in sources {
                if all.iter().all(|known| known.url != source.url) {
                    all.push(source);
                }
            }
        }
        all
    }

    /// The word for its state in the database and in the page: `running`, `paused`, `answered`, `failed` or `interrupted`.
    pub fn state_name(&self) -> &'static str {
        match self.state {
            TurnState::Running => "running",
            TurnState::Paused => "paused",
            TurnState::Ended { end: End::Answered, .. } => "answered",
            TurnState::Ended { end: End::Failed(_), .. } => "failed",
            TurnState::Ended { end: End::Interrupted(_), .. } => "interrupted",
        }
    }
}

/// The calls among some parts.
pub fn calls(parts: &[Part]) -> impl Iterator<Item = &ToolCall> {
    parts.iter().filter_map(|part| match part {
        Part::Tool(call) => Some(call),
        _ => None,
    })
}

/// The parts of an agent's current step.
pub fn current_step(parts: &[Part]) -> &[Part] {
    &parts[step_start(parts)..]
}

fn step_start(parts: &[Part]) -> usize {
    parts.iter().rposition(|part| *part == Part::StepStart).map_or(0, |at| at + 1)
}

/// An agent whose calls are all closed, or not decided on, is being answered by its model; else it waits for those that are under way.
fn works(parts: &[Part]) -> bool {
    let mut under_way = calls(current_step(parts)).filter(|call| call.state.is_under_way()).peekable();
    if under_way.peek().is_none() {
        return true;
    }
    under_way.any(|call| matches!(call.state, ToolState::Running { .. }) && (!call.consults() || works(&call.inner)))
}

fn innermost(event: &TurnEvent) -> &TurnEvent {
    match event {
        TurnEvent::Under { event, .. } => innermost(event),
        other => other,
    }
}

/// Applies what happened to one agent.
fn change(parts: &mut Vec<Part>, seq: Seq, event: &TurnEvent) -> Result<(), Refused> {
    match event {
        TurnEvent::StepStarted { .. } => parts.push(Part::StepStart),
        TurnEvent::StepReset => {
            if calls(current_step(parts)).any(|call| call.state.is_under_way()) {
                return Err(Refused::Misplaced);
            }
            parts.truncate(step_start(parts));
        }
        TurnEvent::TextGrew { text } => match parts.last_mut() {
            Some(Part::Text { text: open }) => open.push_str(text),
            _ => parts.push(Part::Text { text: text.clone() }),
        },
        TurnEvent::ReasoningGrew { text } => match parts.last_mut() {
            Some(Part::Reasoning { text: open }) => open.push_str(text),
            _ => parts.push(Part::Reasoning { text: text.clone() }),
        },
        TurnEvent::Noticed { notice } => parts.push(Part::Notice(*notice)),
        TurnEvent::ToolCalled { call, name } => {
            parts.push(Part::Tool(ToolCall::begun(call.clone(), name.clone(), seq)));
        }
        TurnEvent::ArgumentsGrew { call, text } => match &mut open_call(parts, call)?.state {
            ToolState::Streaming { raw } => raw.push_str(text),
            _ => return Err(Refused::CallBackwards),
        },
        TurnEvent::ToolChanged { call, state } => {
            let known = open_call(parts, call)?;
            if rank(state) < rank(&known.state) {
                return Err(Refused::CallBackwards);
            }
            if matches!(known.state, ToolState::Streaming { .. } | ToolState::Ready { .. }) {
                known.at = seq;
            }
            known.state = state.clone();
        }
        TurnEvent::Under { call, event } => {
            let known = open_call(parts, call)?;
            if !known.consults() || !matches!(known.state, ToolState::Running { .. }) {
                return Err(Refused::Misplaced);
            }
            change(&mut known.inner, seq, event)?;
        }
        TurnEvent::Replied { .. } | TurnEvent::TokensCounted { .. } | TurnEvent::Paused | TurnEvent::Resumed | TurnEvent::Ended { .. } => {
            return Err(Refused::Misplaced);
        }
    }
    Ok(())
}

fn open_call<'a>(parts: &'a mut [Part], id: &str) -> Result<&'a mut ToolCall, Refused> {
    let known = parts.iter_mut().find_map(|part| match part {
        Part::Tool(known) if known.call == id => Some(known),
        _ => None,
    });
    match known {
        None => Err(Refused::CallUnknown),
        Some(known) if !known.state.is_open() => Err(Refused::CallClosed),
        Some(known) => Ok(known),
    }
}

/// How far a state is; a call never goes back.
fn rank(state: &ToolState) -> u8 {
    match state {
        ToolState::Streaming { .. } => 0,
        ToolState::Ready { .. } => 1,
        ToolState::Asking { .. } => 2,
        ToolState::Running { .. } | ToolState::Waiting { .. } => 3,
        ToolState::Done { .. } | ToolState::Failed { .. } | ToolState::Denied { .. } => 4,
    }
}

/// Closes what is open, since an ended turn has no open call.
fn settle(parts: &mut [Part], how: End) {
    for part in parts {
        let Part::Tool(call) = part else { continue };
        if call.state.is_open() {
            let error = match (how, &call.state) {
                (End::Interrupted(Interruption::ByUser), _) => ToolError::Stopped,
                (End::Interrupted(Interruption::Expired), _) => ToolError::Expired,
                (End::Interrupted(Interruption::Superseded), _) => ToolError::Superseded,
                (_, ToolState::Running { .. }) => ToolError::OutcomeUnknown,
                _ => ToolError::NotRun,
            };
            call.state = call.state.clone().settle(error);
        }
        settle(&mut call.inner, how);
    }
}

#[cfg(test)]
mod tests;
