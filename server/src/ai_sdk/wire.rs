//! A turn as the AI SDK (version 7) sees it: the message it is, and the chunks that build that message in a client.
//!
//! Both are made from the [`Turn`] alone, so that what a client assembles from the stream equals what it loads later. Pure.

use app::model::event::{End, Finish};
use app::model::ids::Millis;
use app::model::part::Part;
use app::model::turn::{Turn, TurnState};
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
    let mut parts = Vec::with_capacity(turn.parts.len() + 1);
    if !matches!(turn.parts.first(), Some(Part::StepStart)) {
        // A message without parts is none to the SDK.
        parts.push(json!({ "type": "step-start" }));
    }
    let last = turn.parts.len().saturating_sub(1);
    for (index, part) in turn.parts.iter().enumerate() {
        let state = if index == last && !turn.is_ended() { "streaming" } else { "done" };
        match part {
            Part::StepStart => parts.push(json!({ "type": "step-start" })),
            Part::Text { text } => parts.push(json!({ "type": "text", "text": text, "state": state })),
            // The SDK keeps the name of a reasoning part, and of no other.
            Part::Reasoning { text } => parts.push(json!({ "type": "reasoning", "id": id(turn, index), "text": text, "state": state })),
            Part::Tool(_) => {}
        }
    }
    json!({ "id": turn.id, "role": "assistant", "metadata": metadata(turn), "parts": parts })
}

/// What we say about an answer; never taken from a client.
fn metadata(turn: &Turn) -> Value {
    let mut all = Map::new();
    all.insert("createdAt".into(), time(turn.started_at).into());
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
    /// The part that is open, and how many bytes of it were sent.
    open: Option<(usize, usize)>,
    /// Parts before this one are done with.
    next: usize,
    over: bool,
}

impl Encoder {
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
        while let Some(part) = turn.parts.get(self.next) {
            let is_last = self.next + 1 == turn.parts.len();
            match part {
                Part::StepStart => self.step(&mut chunks),
                Part::Text { text } => self.grow(turn, "text", text, &mut chunks),
                Part::Reasoning { text } => self.grow(turn, "reasoning", text, &mut chunks),
                Part::Tool(_) => {}
            }
            if is_last && matches!(part, Part::Text { .. } | Part::Reasoning { .. }) && !turn.is_ended() {
                break;
            }
            self.close(turn, &mut chunks);
            self.next += 1;
        }
        if let Some(end) = turn.end() {
            self.finish(turn, end, &mut chunks);
        }
        chunks
    }

    fn step(&mut self, chunks: &mut Vec<Value>) {
        if self.in_step {
            chunks.push(json!({ "type": "finish-step" }));
        }
        chunks.push(json!({ "type": "start-step" }));
        self.in_step = true;
    }

    fn grow(&mut self, turn: &Turn, kind: &str, text: &str, chunks: &mut Vec<Value>) {
        if !self.in_step {
            self.step(chunks);
        }
        let id = id(turn, self.next);
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

    fn close(&mut self, turn: &Turn, chunks: &mut Vec<Value>) {
        let Some((part, _)) = self.open.take() else { return };
        let kind = if matches!(turn.parts.get(part), Some(Part::Reasoning { .. })) { "reasoning-end" } else { "text-end" };
        chunks.push(json!({ "type": kind, "id": id(turn, part) }));
    }

    fn finish(&mut self, turn: &Turn, end: End, chunks: &mut Vec<Value>) {
        self.over = true;
        self.close(turn, chunks);
        if !self.in_step {
            self.step(chunks);
        }
        chunks.push(json!({ "type": "finish-step" }));
        let metadata = metadata(turn);
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
mod tests {
    use app::model::agent::AgentType;
    use app::model::event::{Failure, Interruption, TurnEvent};
    use app::model::ids::{PromptId, TurnId, TurnRow};
    use app::model::turn::Prompt;

    use super::*;

    fn life(ends: End, finish: Option<Finish>) -> Vec<TurnEvent> {
        vec![
            TurnEvent::StepStarted { model: "m".into() },
            TurnEvent::ReasoningGrew { text: "hm".into() },
            TurnEvent::TextGrew { text: "Grüße ".into() },
            TurnEvent::TextGrew { text: "🧬".into() },
            TurnEvent::Ended { at: 2_000, how: ends, finish },
        ]
    }

    fn turn() -> Turn {
        let prompt = Prompt { id: PromptId::parse("p").unwrap(), text: "why".into() };
        Turn::asked(TurnId::parse("t").unwrap(), TurnRow(1), prompt, AgentType::router(), 1, 1_000)
    }

    /// What a client builds from chunks, by the SDK's rules.
    fn assembled(chunks: &[Value]) -> Value {
        let mut message = json!({ "role": "assistant", "metadata": {}, "parts": [] });
        for chunk in chunks {
            if let Some(metadata) = chunk.get("messageMetadata").and_then(Value::as_object) {
                for (key, value) in metadata {
                    message["metadata"][key] = value.clone();
                }
            }
            let kind = chunk["type"].as_str().unwrap();
            let parts = message["parts"].as_array_mut().unwrap();
            match kind {
                "start" => message["id"] = chunk["messageId"].clone(),
                "start-step" => parts.push(json!({ "type": "step-start" })),
                "text-start" => parts.push(json!({ "type": "text", "text": "", "state": "streaming" })),
                "reasoning-start" => parts.push(json!({ "type": "reasoning", "id": chunk["id"], "text": "", "state": "streaming" })),
                "text-delta" | "reasoning-delta" => {
                    let text = parts.last().unwrap()["text"].as_str().unwrap().to_owned() + chunk["delta"].as_str().unwrap();
                    parts.last_mut().unwrap()["text"] = text.into();
                }
                "text-end" | "reasoning-end" => parts.last_mut().unwrap()["state"] = "done".into(),
                _ => {}
            }
        }
        message
    }

    #[test]
    fn what_is_streamed_is_what_is_loaded_however_it_is_cut() {
        let ends = [(End::Answered, Some(Finish::Stop)), (End::Failed(Failure::Cut), None), (End::Interrupted(Interruption::ByUser), None)];
        for (end, finish) in ends {
            let events = life(end, finish);
            for every in 1..=events.len() {
                let (mut turn, mut encoder, mut chunks) = (turn(), Encoder::default(), Vec::new());
                for (index, event) in events.iter().enumerate() {
                    turn.apply(turn.seq + 1, event).unwrap();
                    if (index + 1) % every == 0 {
                        chunks.extend(encoder.advance(&turn));
                    }
                }
                chunks.extend(encoder.advance(&turn));
                assert!(encoder.advance(&turn).is_empty(), "nothing comes after the end");
                assert_eq!(assembled(&chunks), assistant_message(&turn), "every {every}: {chunks:?}");
            }
        }
    }

    #[test]
    fn a_turn_that_failed_before_its_first_step_is_still_a_message() {
        let mut turn = turn();
        turn.apply(1, &TurnEvent::Ended { at: 2_000, how: End::Interrupted(Interruption::Lost), finish: None }).unwrap();
        let chunks = Encoder::default().advance(&turn);
        assert_eq!(assembled(&chunks), assistant_message(&turn));
        assert_eq!(assistant_message(&turn)["parts"], json!([{ "type": "step-start" }]));
    }

    #[test]
    fn a_running_message_is_streaming() {
        let mut turn = turn();
        turn.apply(1, &TurnEvent::StepStarted { model: "m".into() }).unwrap();
        turn.apply(2, &TurnEvent::TextGrew { text: "a".into() }).unwrap();
        assert_eq!(assistant_message(&turn)["parts"][1], json!({ "type": "text", "text": "a", "state": "streaming" }));
        let chunks = Encoder::default().advance(&turn);
        let kinds: Vec<_> = chunks.iter().map(|chunk| chunk["type"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["start", "start-step", "text-start", "text-delta"]);
    }
}
