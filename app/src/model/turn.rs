//! A turn: one question and everything that became of it.
//!
//! Laws, each a property test below: an ended turn has no open call; a turn pauses only for someone; only a paused turn resumes;
//! an ended turn never changes; a repeated event changes nothing; a gap is refused.

use serde::{Deserialize, Serialize};

use super::agent::{AgentType, Reply};
use super::event::{End, Finish, Interruption, Seq, TurnEvent, Usage};
use super::ids::{Millis, PromptId, TurnId, TurnRow};
use super::part::{Part, ToolCall, ToolError, ToolState};

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
}

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
            TurnEvent::StepStarted { model } => {
                self.model = Some(model.clone());
                self.parts.push(Part::StepStart);
            }
            TurnEvent::TextGrew { text } => match self.parts.last_mut() {
                Some(Part::Text { text: open }) => open.push_str(text),
                _ => self.parts.push(Part::Text { text: text.clone() }),
            },
            TurnEvent::ReasoningGrew { text } => match self.parts.last_mut() {
                Some(Part::Reasoning { text: open }) => open.push_str(text),
                _ => self.parts.push(Part::Reasoning { text: text.clone() }),
            },
            TurnEvent::ToolChanged { call } => self.change_call(call)?,
            TurnEvent::Replied { reply } => self.reply = reply.clone(),
            TurnEvent::TokensCounted { usage } => {
                self.usage.input = self.usage.input.saturating_add(usage.input);
                self.usage.output = self.usage.output.saturating_add(usage.output);
            }
            TurnEvent::Paused => {
                if !self.calls().any(|call| call.state.awaits_someone()) {
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
                self.settle(*how);
                self.state = TurnState::Ended { when: *at, end: *how, finish: *finish };
            }
        }
        self.seq = seq;
        Ok(())
    }

    fn change_call(&mut self, call: &ToolCall) -> Result<(), Refused> {
        let known = self.parts.iter_mut().find_map(|part| match part {
            Part::Tool(known) if known.call == call.call => Some(known),
            _ => None,
        });
        match known {
            Some(known) if !known.state.is_open() => return Err(Refused::CallClosed),
            Some(known) => *known = call.clone(),
            None => self.parts.push(Part::Tool(call.clone())),
        }
        Ok(())
    }

    /// Closes what is open, since an ended turn has no open call.
    fn settle(&mut self, how: End) {
        for part in &mut self.parts {
            let Part::Tool(call) = part else { continue };
            let error = match (how, &call.state) {
                (End::Interrupted(Interruption::ByUser), _) => ToolError::Stopped,
                (_, ToolState::Ready { .. }) => ToolError::OutcomeUnknown,
                _ => ToolError::NotRun,
            };
            call.state = call.state.clone().settle(error);
        }
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

    /// The text of the answer, all text parts together.
    pub fn text(&self) -> String {
        self.parts.iter().fold(String::new(), |mut all, part| {
            if let Part::Text { text } = part {
                all.push_str(text);
            }
            all
        })
    }

    /// Whether any text of an answer has come that a person could read.
    pub fn has_text(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Text { text } if !text.trim().is_empty()))
    }

    /// The agent to show: who answered, else who was asked.
    pub fn agent(&self) -> &AgentType {
        self.reply.agent_type.as_ref().unwrap_or(&self.asked)
    }

    /// The tool calls, in order.
    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.parts.iter().filter_map(|part| match part {
            Part::Tool(call) => Some(call),
            _ => None,
        })
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

#[cfg(test)]
mod tests;
