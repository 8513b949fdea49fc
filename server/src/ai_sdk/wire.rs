//! A turn as the AI SDK (version 7) sees it: the message it is, and the chunks that build that message in a client.
//!
//! Both are made from the [`Turn`] alone, so that what a client assembles from the stream equals what it loads later. Pure.

use std::collections::HashMap;

use app::model::event::{End, Finish};
use app::model::ids::Millis;
use app::model::part::{Notice, Part, Source, ToolCall, ToolState};
use app::model::turn::{Turn, TurnState, calls};
use app::ssr::tools::IN_BROWSER;
use serde_json::{Map, Value, json};

/// The question of a turn.
pub fn user_message(turn: &Turn) -> Value {
    json!({
        "id": turn.prompt.id,
        "role": "user",
        "metadata": { "createdAt": time(turn.started_at) },
        "parts": [{ "type": "text", "text": turn.prompt.text }],
    })
}

/// The answer of a turn as far as it came.
pub fn assistant_message(turn: &Turn) -> Value {
    let wires = flattened(turn);
    let last = wires.len().saturating_sub(1);
    let mut parts: Vec<Value> = Vec::with_capacity(wires.len());
    for (index, wire) in wires.iter().enumerate() {
        let state = if index == last && turn.state == TurnState::Running { "streaming" } else { "done" };
        parts.push(match wire {
            Wire::Step => json!({ "type": "step-start" }),
            Wire::Text { text, .. } => json!({ "type": "text", "text": text, "state": state }),
            // The SDK keeps the name of a reasoning part, and of no other.
            Wire::Reasoning { index, text } => json!({ "type": "reasoning", "id": id(turn, *index), "text": text, "state": state }),
            Wire::Tool { call, agent } => tool_part(call, agent.as_deref()),
            Wire::Notice(notice) => json!({ "type": "data-notice", "data": { "text": notice.to_string() } }),
        });
    }
    if turn.is_ended() {
        parts.extend(turn.sources().iter().zip(1..).map(|(source, number)| source_url(source, number)));
    }
    json!({ "id": turn.id, "role": "assistant", "metadata": metadata(turn), "parts": parts })
}

/// One part of the message as a client has it, in its order.
enum Wire<'a> {
    Step,
    /// With the index of the part in the turn.
    Text {
        index: usize,
        text: &'a str,
    },
    Reasoning {
        index: usize,
        text: &'a str,
    },
    /// With the agent that called it, when that is a consulted one.
    Tool {
        call: &'a ToolCall,
        agent: Option<String>,
    },
    Notice(Notice),
}

/// The parts of a turn in a row. The SDK knows no agents inside of calls: their calls come after those of the step that consulted them,
/// with the agent's name as metadata; their words are not shown, only the answer, which is the result of the consulting call.
///
/// A client that answers by itself looks at the last step only, and waits for every call in it. So a call that waits never stands in
/// one step with the call that consulted its agent.
fn flattened(turn: &Turn) -> Vec<Wire<'_>> {
    let mut wires = Vec::with_capacity(turn.parts.len() + 1);
    if !matches!(turn.parts.first(), Some(Part::StepStart)) {
        // A message without parts is none to the SDK.
        wires.push(Wire::Step);
    }
    let mut step = 0;
    for (index, part) in turn.parts.iter().enumerate() {
        match part {
            Part::StepStart => {
                add_nested(&turn.parts[step..index], &mut wires);
                step = index;
                wires.push(Wire::Step);
            }
            Part::Text { text } => wires.push(Wire::Text { index, text }),
            Part::Reasoning { text } => wires.push(Wire::Reasoning { index, text }),
            Part::Tool(call) => wires.push(Wire::Tool { call, agent: None }),
            Part::Notice(notice) => wires.push(Wire::Notice(*notice)),
            Part::Unknown(_) => {}
        }
    }
    add_nested(&turn.parts[step..], &mut wires);
    wires
}

/// A call of a consulted agent, with that agent's name and the call that consulted it.
type Nested<'a> = (&'a ToolCall, String, &'a str);

fn add_nested<'a>(step: &'a [Part], wires: &mut Vec<Wire<'a>>) {
    fn collect<'a>(consulting: &'a ToolCall, all: &mut Vec<Nested<'a>>) {
        let agent = consulting.argument("agent").unwrap_or_default();
        for call in calls(&consulting.inner) {
            // Before that it may still be taken back.
            if !matches!(call.state, ToolState::Streaming { .. } | ToolState::Ready { .. }) {
                all.push((call, agent.to_owned(), &consulting.call));
            }
            collect(call, all);
        }
    }
    let mut nested = Vec::new();
    calls(step).for_each(|call| collect(call, &mut nested));
    nested.sort_by_key(|(call, ..)| call.at);
    let mut in_this_step: Vec<&str> = calls(step).map(|call| call.call.as_str()).collect();
    for (call, agent, consulting) in nested {
        if in_this_step.contains(&consulting) {
            in_this_step.clear();
            wires.push(Wire::Step);
        }
        in_this_step.push(&call.call);
        wires.push(Wire::Tool { call, agent: Some(agent) });
    }
}

/// A call as a part of a stored message; the shapes are those that the SDK's own validator accepts.
fn tool_part(call: &ToolCall, agent: Option<&str>) -> Value {
    let mut part = Map::new();
    part.insert("type".into(), format!("tool-{}", call.name).into());
    part.insert("toolCallId".into(), call.call.as_str().into());
    if let Some(agent) = agent {
        part.insert("callProviderMetadata".into(), by_agent(agent));
    }
    if !in_browser(call) {
        part.insert("providerExecuted".into(), true.into());
    }
    let state = match &call.state {
        ToolState::Streaming { .. } => "input-streaming",
        ToolState::Ready { .. } | ToolState::Waiting { approval: None, .. } | ToolState::Running { approval: None, .. } => {
            "input-available"
        }
        ToolState::Asking { .. } => "approval-requested",
        ToolState::Running { .. } | ToolState::Waiting { .. } => "approval-responded",
        ToolState::Done { .. } => "output-available",
        ToolState::Failed { .. } => "output-error",
        ToolState::Denied { .. } => "output-denied",
    };
    part.insert("state".into(), state.into());
    if let Some(input) = call.state.input() {
        part.insert("input".into(), input.clone());
    }
    match &call.state {
        ToolState::Asking { approval, .. } => drop(part.insert("approval".into(), json!({ "id": approval }))),
        ToolState::Running { approval: Some(approval), .. }
        | ToolState::Waiting { approval: Some(approval), .. }
        | ToolState::Done { approval: Some(approval), .. }
        | ToolState::Failed { approval: Some(approval), .. } => {
            // A client keeps the reason that it sent unless it is told another.
            part.insert("approval".into(), json!({ "id": approval, "approved": true, "reason": "" }));
        }
        ToolState::Denied { approval, reason, .. } => {
            part.insert("approval".into(), json!({ "id": approval, "approved": false, "reason": reason }));
        }
        _ => {}
    }
    match &call.state {
        ToolState::Done { output, .. } => drop(part.insert("output".into(), output.clone())),
        ToolState::Failed { error, .. } => drop(part.insert("errorText".into(), error.to_string().into())),
        _ => {}
    }
    Value::Object(part)
}

/// Clients run what is not marked as run by the server.
fn in_browser(call: &ToolCall) -> bool {
    IN_BROWSER.contains(&call.name.as_str())
}

fn by_agent(agent: &str) -> Value {
    json!({ "chatgxy": { "agent": agent } })
}

fn source_url(source: &Source, number: usize) -> Value {
    json!({ "type": "source-url", "sourceId": format!("source-{number}"), "url": source.url, "title": source.title })
}

/// What we say about an answer; never taken from a client.
fn metadata(turn: &Turn) -> Value {
    let mut all = Map::new();
    all.insert("createdAt".into(), time(turn.started_at).into());
    if turn.state == TurnState::Paused {
        all.insert("state".into(), turn.state_name().into());
    }
    let TurnState::Ended { when, end, .. } = turn.state else { return Value::Object(all) };
    all.insert("agent".into(), turn.agent().as_str().into());
    if let Some(model) = &turn.model {
        all.insert("model".into(), model.as_str().into());
    }
    all.insert("state".into(), turn.state_name().into());
    all.insert("finishedAt".into(), time(when).into());
    let (input, output) = (turn.usage.input, turn.usage.output);
    all.insert("usage".into(), json!({ "inputTokens": input, "outputTokens": output, "totalTokens": input.saturating_add(output) }));
    match end {
        End::Answered => {
            all.insert("confidence".into(), json!(turn.reply.confidence));
            all.insert("suggestions".into(), json!(turn.reply.suggestions));
        }
        End::Failed(failure) => drop(all.insert("error".into(), failure.explain().0.into())),
        End::Interrupted(_) => {}
    }
    Value::Object(all)
}

fn time(at: Millis) -> String {
    jiff::Timestamp::from_millisecond(at).map_or_else(|_| String::new(), |at| format!("{at:.3}"))
}

/// Turns the growth of a turn into chunks. It keeps how much it has said, so it may be shown any later state of the turn: after one
/// event, after a thousand, or anew after a gap.
#[derive(Debug, Default)]
pub struct Encoder {
    started: bool,
    in_step: bool,
    /// Where the current step began among the flattened parts.
    step_at: usize,
    /// The text that is open, and how many bytes of it were sent.
    open: Option<(usize, usize)>,
    /// Flattened parts before this one were sent, or begun.
    next: usize,
    /// How far each call was sent.
    calls: HashMap<String, Sent>,
    /// How often steps were taken back so far.
    resets: u32,
    over: bool,
}

/// How much of a call was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Sent {
    stage: Stage,
    /// Bytes of the arguments while they arrive.
    raw: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    #[default]
    Nothing,
    Begun,
    Input,
    Asked,
    Answered,
    Closed,
}

impl Encoder {
    /// One for a client that has these parts of the message already; none, when they are not what the turn holds.
    pub fn knowing(turn: &Turn, parts: &[Value]) -> Option<Self> {
        let wires = flattened(turn);
        let mut encoder = Self { next: parts.len(), resets: turn.resets, ..Self::default() };
        if parts.len() > wires.len() {
            return None;
        }
        for (index, (part, wire)) in parts.iter().zip(&wires).enumerate() {
            let kind = part["type"].as_str()?;
            match wire {
                Wire::Step if kind == "step-start" => {
                    encoder.in_step = true;
                    encoder.step_at = index;
                }
                Wire::Text { text, .. } if kind == "text" && part["text"] == *text => {}
                Wire::Reasoning { text, .. } if kind == "reasoning" && part["text"] == *text => {}
                Wire::Notice(_) if kind == "data-notice" => {}
                Wire::Tool { call, .. } if kind == format!("tool-{}", call.name) && part["toolCallId"] == call.call => {
                    encoder.calls.insert(call.call.clone(), Sent { stage: known_stage(call, part), raw: 0 });
                }
                _ => return None,
            }
        }
        Some(encoder)
    }

    /// The chunks that bring a client from what it was sent to `turn`.
    pub fn advance(&mut self, turn: &Turn) -> Vec<Value> {
        let mut chunks = Vec::new();
        if self.over {
            return chunks;
        }
        if !self.started {
            self.started = true;
            let begun = json!({ "createdAt": time(turn.started_at) });
            chunks.push(json!({ "type": "start", "messageId": turn.id, "messageMetadata": begun }));
        }
        let wires = flattened(turn);
        self.take_back(turn, &wires, &mut chunks);
        for wire in wires.iter().take(self.next) {
            if let Wire::Tool { call, agent } = wire {
                self.tool(call, agent.as_deref(), &mut chunks);
            }
        }
        while let Some(wire) = wires.get(self.next) {
            match wire {
                Wire::Step => self.step(&mut chunks),
                Wire::Text { index, text } => self.grow(turn, *index, "text", text, &mut chunks),
                Wire::Reasoning { index, text } => self.grow(turn, *index, "reasoning", text, &mut chunks),
                Wire::Tool { call, agent } => self.tool(call, agent.as_deref(), &mut chunks),
                Wire::Notice(notice) => chunks.push(json!({ "type": "data-notice", "data": { "text": notice.to_string() } })),
            }
            let may_grow = self.next + 1 == wires.len() && turn.state == TurnState::Running;
            if may_grow && self.open.is_some() {
                break;
            }
            self.close(turn, &wires, &mut chunks);
            self.next += 1;
        }
        if turn.state != TurnState::Running {
            self.finish(turn, &mut chunks);
        }
        chunks
    }

    /// When a step was taken back the client drops what it has of the current one, and gets it anew.
    fn take_back(&mut self, turn: &Turn, wires: &[Wire<'_>], chunks: &mut Vec<Value>) {
        if self.resets == turn.resets {
            return;
        }
        self.resets = turn.resets;
        if !self.in_step {
            return;
        }
        chunks.push(json!({ "type": "reset-step" }));
        self.open = None;
        self.next = self.step_at + 1;
        let before: Vec<&str> = wires
            .iter()
            .take(self.next)
            .filter_map(|wire| match wire {
                Wire::Tool { call, .. } => Some(call.call.as_str()),
                _ => None,
            })
            .collect();
        self.calls.retain(|call, _| before.contains(&call.as_str()));
    }

    fn step(&mut self, chunks: &mut Vec<Value>) {
        if self.in_step {
            chunks.push(json!({ "type": "finish-step" }));
        }
        chunks.push(json!({ "type": "start-step" }));
        self.in_step = true;
        self.step_at = self.next;
    }

    fn grow(&mut self, turn: &Turn, index: usize, kind: &str, text: &str, chunks: &mut Vec<Value>) {
        let id = id(turn, index);
        let sent = match self.open {
            Some((part, sent)) if part == self.next => sent,
            _ => {
                chunks.push(json!({ "type": format!("{kind}-start"), "id": id }));
                0
            }
        };
        if let Some(more) = text.get(sent..).filter(|more| !more.is_empty()) {
            chunks.push(json!({ "type": format!("{kind}-delta"), "id": id, "delta": more }));
        }
        self.open = Some((self.next, text.len().max(sent)));
    }

    fn close(&mut self, turn: &Turn, wires: &[Wire<'_>], chunks: &mut Vec<Value>) {
        let Some((part, _)) = self.open.take() else { return };
        match wires.get(part) {
            Some(Wire::Reasoning { index, .. }) => chunks.push(json!({ "type": "reasoning-end", "id": id(turn, *index) })),
            Some(Wire::Text { index, .. }) => chunks.push(json!({ "type": "text-end", "id": id(turn, *index) })),
            _ => {}
        }
    }

    /// Brings a call to where it is. Every stage on the way is sent: clients accept no output of a call that was asked for and not
    /// answered, and no denial that was not asked for.
    fn tool(&mut self, call: &ToolCall, agent: Option<&str>, chunks: &mut Vec<Value>) {
        let sent = self.calls.entry(call.call.clone()).or_default();
        let (id, name) = (&call.call, &call.name);
        let begin = |kind: &str| {
            let mut chunk = Map::new();
            chunk.insert("type".into(), kind.into());
            chunk.insert("toolCallId".into(), id.as_str().into());
            chunk.insert("toolName".into(), name.as_str().into());
            if !in_browser(call) {
                chunk.insert("providerExecuted".into(), true.into());
            }
            if let Some(agent) = agent {
                chunk.insert("providerMetadata".into(), by_agent(agent));
            }
            chunk
        };
        if let ToolState::Streaming { raw } = &call.state {
            if sent.stage < Stage::Begun {
                chunks.push(Value::Object(begin("tool-input-start")));
                sent.stage = Stage::Begun;
            }
            if let Some(more) = raw.get(sent.raw..).filter(|more| !more.is_empty()) {
                chunks.push(json!({ "type": "tool-input-delta", "toolCallId": id, "inputTextDelta": more }));
                sent.raw = raw.len();
            }
            return;
        }
        if sent.stage < Stage::Input {
            let mut chunk = begin("tool-input-available");
            chunk.insert("input".into(), call.state.input().cloned().unwrap_or_default());
            chunks.push(Value::Object(chunk));
            sent.stage = Stage::Input;
        }
        let (asked, answered) = match &call.state {
            ToolState::Asking { approval, .. } => (Some(approval), None),
            ToolState::Running { approval, .. }
            | ToolState::Waiting { approval, .. }
            | ToolState::Done { approval, .. }
            | ToolState::Failed { approval, .. } => (approval.as_ref(), Some((true, ""))),
            ToolState::Denied { approval, reason, .. } => (Some(approval), Some((false, reason.as_str()))),
            ToolState::Streaming { .. } | ToolState::Ready { .. } => (None, None),
        };
        if let Some(approval) = asked {
            if sent.stage < Stage::Asked {
                chunks.push(json!({ "type": "tool-approval-request", "approvalId": approval, "toolCallId": id }));
                sent.stage = Stage::Asked;
            }
            if let (true, Some((approved, reason))) = (sent.stage < Stage::Answered, answered) {
                chunks.push(json!({ "type": "tool-approval-response", "approvalId": approval, "approved": approved, "reason": reason }));
                sent.stage = Stage::Answered;
            }
        }
        if sent.stage < Stage::Closed {
            match &call.state {
                ToolState::Done { output, .. } => {
                    chunks.push(json!({ "type": "tool-output-available", "toolCallId": id, "output": output }));
                }
                ToolState::Failed { error, .. } => {
                    chunks.push(json!({ "type": "tool-output-error", "toolCallId": id, "errorText": error.to_string() }));
                }
                ToolState::Denied { .. } => chunks.push(json!({ "type": "tool-output-denied", "toolCallId": id })),
                _ => return,
            }
            sent.stage = Stage::Closed;
        }
    }

    fn finish(&mut self, turn: &Turn, chunks: &mut Vec<Value>) {
        self.over = true;
        if !self.in_step {
            self.step(chunks);
        }
        let metadata = metadata(turn);
        let Some(end) = turn.end() else {
            chunks.push(json!({ "type": "finish-step" }));
            chunks.push(json!({ "type": "finish", "finishReason": "tool-calls", "messageMetadata": metadata }));
            return;
        };
        chunks.extend(turn.sources().iter().zip(1..).map(|(source, number)| source_url(source, number)));
        chunks.push(json!({ "type": "finish-step" }));
        match end {
            End::Answered => chunks.push(json!({ "type": "finish", "finishReason": reason(turn), "messageMetadata": metadata })),
            // A client sends nothing again by itself after this reason.
            End::Interrupted(_) => chunks.push(json!({ "type": "finish", "finishReason": "interrupted", "messageMetadata": metadata })),
            End::Failed(failure) => {
                let (what, advice) = failure.explain();
                chunks.push(json!({ "type": "message-metadata", "messageMetadata": metadata }));
                chunks.push(json!({ "type": "error", "errorText": format!("{what} {advice}") }));
            }
        }
    }
}

/// How far a client is with a call, by its own copy. What it answered itself is sent to it again, as it was decided.
fn known_stage(call: &ToolCall, part: &Value) -> Stage {
    let same_output = matches!(&call.state, ToolState::Done { output, .. } if *output == part["output"]);
    match part["state"].as_str() {
        Some("input-streaming") => Stage::Begun,
        Some("approval-requested" | "approval-responded") => Stage::Asked,
        Some("output-available") if same_output => Stage::Closed,
        Some("output-denied") if matches!(call.state, ToolState::Denied { .. }) => Stage::Closed,
        Some("output-error") if matches!(call.state, ToolState::Failed { .. }) => Stage::Closed,
        _ => Stage::Input,
    }
}

/// Name of a part in the stream.
fn id(turn: &Turn, part: usize) -> String {
    format!("{}-{part}", turn.id)
}

fn reason(turn: &Turn) -> &'static str {
    match turn.state {
        TurnState::Ended { finish: Some(finish), .. } => match finish {
            Finish::Stop => "stop",
            Finish::Length => "length",
            Finish::ContentFilter => "content-filter",
            Finish::ToolCalls => "tool-calls",
            Finish::Other => "other",
        },
        _ => "stop",
    }
}

#[cfg(test)]
mod tests;
