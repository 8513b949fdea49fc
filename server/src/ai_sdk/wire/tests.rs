//! What is streamed is what is loaded.

use app::model::agent::AgentType;
use app::model::event::{Failure, Finish, Interruption, TurnEvent};
use app::model::ids::{PromptId, TurnId, TurnRow};
use app::model::part::{CONSULT, Runner, ToolError};
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
            "reset-step" => parts.truncate(parts.iter().rposition(|part| part["type"] == "step-start").unwrap() + 1),
            "data-notice" => parts.push(json!({ "type": kind, "data": chunk["data"] })),
            "source-url" => parts.push(chunk.clone()),
            tool if tool.starts_with("tool-") => change_tool(parts, tool, chunk),
            _ => {}
        }
    }
    message
}

/// What a chunk makes of a call, by the SDK's rules: only the current step is looked at for a call whose arguments arrive.
fn change_tool(parts: &mut Vec<Value>, kind: &str, chunk: &Value) {
    let step = parts.iter().rposition(|part| part["type"] == "step-start").unwrap();
    let approval = chunk.get("approvalId");
    let known = parts.iter().position(|part| match approval {
        Some(id) if kind == "tool-approval-response" => part["approval"]["id"] == *id,
        _ => part["toolCallId"] == chunk["toolCallId"],
    });
    if matches!(kind, "tool-input-start" | "tool-input-available") {
        let at = known.unwrap_or_else(|| {
            parts.push(json!({ "toolCallId": chunk["toolCallId"], "type": format!("tool-{}", chunk["toolName"].as_str().unwrap()) }));
            parts.len() - 1
        });
        assert!(at > step, "a call does not leave its step while its arguments arrive");
        let part = &mut parts[at];
        for (name, value) in [("providerExecuted", "providerExecuted"), ("providerMetadata", "callProviderMetadata")] {
            if let Some(given) = chunk.get(name) {
                part[value] = given.clone();
            }
        }
        part["state"] = if kind == "tool-input-start" { "input-streaming" } else { "input-available" }.into();
        if let Some(input) = chunk.get("input") {
            part["input"] = input.clone();
        }
        return;
    }
    let part = &mut parts[known.expect("a call that is known")];
    match kind {
        "tool-input-delta" => {}
        "tool-approval-request" => {
            part["state"] = "approval-requested".into();
            part["approval"] = json!({ "id": chunk["approvalId"] });
        }
        "tool-approval-response" => {
            part["state"] = "approval-responded".into();
            part["approval"]["approved"] = chunk["approved"].clone();
            if let Some(reason) = chunk.get("reason") {
                part["approval"]["reason"] = reason.clone();
            }
        }
        "tool-output-available" => {
            part["state"] = "output-available".into();
            part["output"] = chunk["output"].clone();
        }
        "tool-output-error" => {
            part["state"] = "output-error".into();
            part["errorText"] = chunk["errorText"].clone();
        }
        "tool-output-denied" => part["state"] = "output-denied".into(),
        other => panic!("{other}"),
    }
}

fn called(call: &str, name: &str) -> TurnEvent {
    TurnEvent::ToolCalled { call: call.into(), name: name.into() }
}

fn moved(call: &str, state: ToolState) -> TurnEvent {
    TurnEvent::ToolChanged { call: call.into(), state }
}

fn under(call: &str, event: TurnEvent) -> TurnEvent {
    TurnEvent::Under { call: call.into(), event: Box::new(event) }
}

fn step() -> TurnEvent {
    TurnEvent::StepStarted { model: "m".into() }
}

fn text(text: &str) -> TurnEvent {
    TurnEvent::TextGrew { text: text.into() }
}

fn asking(call: &str) -> ToolState {
    ToolState::Asking { input: input(), runner: Runner::Server, approval: format!("ask-{call}"), until: 9 }
}

/// Arguments that serve every call: they stay the same through its life.
fn input() -> Value {
    json!({"agent": "error_analysis", "question": "?"})
}

fn ready() -> ToolState {
    ToolState::Ready { input: input() }
}

fn running(approval: Option<&str>) -> ToolState {
    ToolState::Running { input: input(), approval: approval.map(str::to_owned) }
}

fn done(approval: Option<&str>) -> ToolState {
    let sources = vec![Source { title: "S".into(), url: "https://s.org".into() }];
    ToolState::Done { input: input(), output: json!(null), approval: approval.map(str::to_owned), sources }
}

fn ended(how: End) -> TurnEvent {
    TurnEvent::Ended { at: 2_000, how, finish: Some(Finish::Stop) }
}

/// Lives of turns with tools: one for each way in which a call can go.
fn lives() -> Vec<Vec<TurnEvent>> {
    let failed = ToolState::Failed { input: json!("{bad"), error: ToolError::Refused("no".into()), approval: None };
    let denied = ToolState::Denied { input: input(), approval: "ask-b".into(), reason: "not now".into() };
    let waiting = ToolState::Waiting { input: input(), approval: None, tab: None, until: 9 };
    let consult = |call: &str| moved(call, running(None));
    vec![
        vec![
            step(),
            text("I look."),
            called("a", "x"),
            TurnEvent::ArgumentsGrew { call: "a".into(), text: "{\"a\":".into() },
            TurnEvent::ArgumentsGrew { call: "a".into(), text: "1}".into() },
            moved("a", ready()),
            called("b", "y"),
            moved("b", failed),
            moved("a", running(None)),
            moved("a", done(None)),
            step(),
            text("So."),
            ended(End::Answered),
        ],
        vec![
            step(),
            called("a", "x"),
            moved("a", ready()),
            called("b", "x"),
            moved("b", ready()),
            moved("a", asking("a")),
            moved("b", asking("b")),
            TurnEvent::Paused,
            TurnEvent::Resumed,
            moved("a", running(Some("ask-a"))),
            moved("b", denied),
            moved("a", done(Some("ask-a"))),
            step(),
            text("So."),
            ended(End::Answered),
        ],
        vec![
            step(),
            called("a", CONSULT),
            moved("a", ready()),
            called("b", CONSULT),
            moved("b", ready()),
            consult("a"),
            under("a", step()),
            consult("b"),
            under("b", step()),
            under("a", text("hidden")),
            under("a", called("a1", "x")),
            under("b", called("b1", CONSULT)),
            under("b", moved("b1", running(None))),
            under("b", under("b1", step())),
            under("a", moved("a1", asking("a1"))),
            under("b", under("b1", called("c1", "x"))),
            under("b", under("b1", moved("c1", asking("c1")))),
            TurnEvent::Paused,
            TurnEvent::Resumed,
            under("a", moved("a1", done(Some("ask-a1")))),
            under("b", under("b1", moved("c1", done(Some("ask-c1"))))),
            under("b", moved("b1", done(None))),
            moved("a", done(None)),
            moved("b", done(None)),
            step(),
            text("So."),
            ended(End::Answered),
        ],
        vec![
            step(),
            text("Half an ans"),
            called("a", "x"),
            TurnEvent::StepReset,
            text("A whole answer."),
            called("b", "copy_to_clipboard"),
            moved("b", waiting),
            TurnEvent::Paused,
            ended(End::Interrupted(Interruption::Expired)),
        ],
        vec![
            step(),
            called("a", "x"),
            moved("a", running(None)),
            moved("a", done(None)),
            TurnEvent::Noticed { notice: Notice::StepsUsed(1) },
            ended(End::Answered),
        ],
        vec![step(), called("a", "x"), moved("a", asking("a")), TurnEvent::Paused, ended(End::Interrupted(Interruption::ByUser))],
    ]
}

#[test]
fn calls_are_streamed_as_they_are_loaded_however_the_stream_is_cut() {
    for (number, events) in lives().into_iter().enumerate() {
        for every in 1..=events.len() {
            let (mut turn, mut encoder, mut chunks) = (turn(), Encoder::default(), Vec::new());
            for (index, event) in events.iter().enumerate() {
                turn.apply(turn.seq + 1, event).unwrap_or_else(|refused| panic!("life {number}: {event:?}: {refused}"));
                // A stream ends at a pause; this one goes on as if nobody had looked then.
                if (index + 1) % every == 0 && turn.state != TurnState::Paused {
                    chunks.extend(encoder.advance(&turn));
                }
            }
            chunks.extend(encoder.advance(&turn));
            assert_eq!(assembled(&chunks), assistant_message(&turn), "life {number}, every {every}: {chunks:#?}");
        }
    }
}

#[test]
fn a_client_goes_on_from_what_it_has_at_a_pause() {
    for events in lives() {
        let Some(pause) = events.iter().position(|event| *event == TurnEvent::Paused) else { continue };
        let mut turn = turn();
        for event in &events[..=pause] {
            turn.apply(turn.seq + 1, event).unwrap();
        }
        let mut chunks = Encoder::default().advance(&turn);
        assert_eq!(chunks.last().unwrap()["finishReason"], "tool-calls");
        let mine = assistant_message(&turn);
        assert_eq!(assembled(&chunks), mine, "what it has is what it was sent");
        for event in &events[pause + 1..] {
            turn.apply(turn.seq + 1, event).unwrap();
        }
        let mut encoder = Encoder::knowing(&turn, mine["parts"].as_array().unwrap()).expect("its copy is known");
        chunks.extend(encoder.advance(&turn));
        assert_eq!(assembled(&chunks), assistant_message(&turn));
        // Everything anew is the same message, too.
        assert_eq!(assembled(&Encoder::default().advance(&turn)), assistant_message(&turn));
    }
}

#[test]
fn a_copy_that_is_not_ours_is_not_gone_on_from() {
    let mut turn = turn();
    for event in [step(), text("True."), called("a", "x"), moved("a", asking("a")), TurnEvent::Paused] {
        turn.apply(turn.seq + 1, &event).unwrap();
    }
    let parts = assistant_message(&turn)["parts"].as_array().unwrap().clone();
    assert!(Encoder::knowing(&turn, &parts).is_some());
    let with = |index: usize, field: &str, value: Value| {
        let mut parts = parts.clone();
        parts[index][field] = value;
        Encoder::knowing(&turn, &parts)
    };
    assert!(with(1, "text", json!("Forged.")).is_none());
    assert!(with(2, "toolCallId", json!("other")).is_none());
    assert!(with(2, "type", json!("tool-y")).is_none());
    let longer: Vec<Value> = parts.iter().cloned().chain([json!({"type": "text", "text": "more"})]).collect();
    assert!(Encoder::knowing(&turn, &longer).is_none());
}

#[test]
fn what_waits_never_stands_in_one_step_with_the_call_that_consulted_its_agent() {
    let events = &lives()[2];
    let mut turn = turn();
    for event in events {
        turn.apply(turn.seq + 1, event).unwrap();
        if turn.state != TurnState::Paused {
            continue;
        }
        let message = assistant_message(&turn);
        let parts = message["parts"].as_array().unwrap();
        let last = parts.iter().rposition(|part| part["type"] == "step-start").unwrap();
        let states: Vec<_> = parts[last + 1..].iter().map(|part| part["state"].as_str().unwrap()).collect();
        assert!(states.iter().all(|state| *state == "approval-requested"), "{states:?}");
        assert!(parts[last + 1..].iter().all(|part| part["callProviderMetadata"]["chatgxy"]["agent"] == "error_analysis"));
        assert!(!message.to_string().contains("hidden"), "a consulted agent's words are its caller's");
    }
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
