//! Laws of [`Turn::apply`], as tables and as properties over random event sequences.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::model::event::Failure;
use crate::model::part::Runner;

fn turn() -> Turn {
    let prompt = Prompt { id: PromptId::parse("p1").unwrap(), text: "why?".into() };
    Turn::asked(TurnId::parse("t1").unwrap(), TurnRow(1), prompt, AgentType::auto(), 1, 1_000)
}

fn call(id: &str, state: ToolState) -> TurnEvent {
    TurnEvent::ToolChanged { call: ToolCall { call: id.into(), name: "search".into(), state } }
}

fn asking() -> ToolState {
    ToolState::Asking { input: json!({}), runner: Runner::Server, approval: "q1".into() }
}

fn play(events: &[TurnEvent]) -> Turn {
    let mut turn = turn();
    for event in events {
        turn.apply(turn.seq + 1, event).unwrap();
    }
    turn
}

fn text(text: &str) -> TurnEvent {
    TurnEvent::TextGrew { text: text.into() }
}

fn ended(how: End) -> TurnEvent {
    TurnEvent::Ended { at: 3_500, how, finish: Some(Finish::Stop) }
}

#[test]
fn text_grows_in_one_part_until_something_else_comes() {
    let turn = play(&[
        TurnEvent::StepStarted { model: "demo".into() },
        TurnEvent::ReasoningGrew { text: "hm".into() },
        text("a"),
        text("b"),
        call("c1", ToolState::Streaming { raw: String::new() }),
        text("c"),
    ]);
    assert_eq!(turn.parts.len(), 5);
    assert_eq!(turn.parts[2], Part::Text { text: "ab".into() });
    assert_eq!(turn.text(), "abc");
    assert_eq!(turn.model.as_deref(), Some("demo"));
}

#[test]
fn a_turn_ends_with_its_time_and_keeps_partial_text() {
    let turn = play(&[text("half"), ended(End::Failed(Failure::Cut))]);
    assert_eq!((turn.state_name(), turn.text().as_str(), turn.took_ms()), ("failed", "half", Some(2_500)));
}

#[test]
fn tokens_of_several_calls_are_added() {
    let counted = TurnEvent::TokensCounted { usage: Usage { input: 3, output: 4 } };
    assert_eq!(play(&[counted.clone(), counted]).usage, Usage { input: 6, output: 8 });
}

#[test]
fn stop_settles_an_open_question_as_denied() {
    let turn = play(&[call("c1", asking()), TurnEvent::Paused, ended(End::Interrupted(Interruption::ByUser))]);
    let states: Vec<_> = turn.calls().map(|call| call.state.clone()).collect();
    assert_eq!(states, [ToolState::Denied { input: json!({}), approval: "q1".into(), reason: "stopped by the user".into() }]);
}

#[test]
fn a_call_that_ran_when_the_server_died_has_an_unknown_outcome() {
    let ready = ToolState::Ready { input: json!({}), runner: Runner::Server, approval: None };
    let turn = play(&[call("c1", ready), ended(End::Interrupted(Interruption::Lost))]);
    let error = turn.calls().find_map(|call| match &call.state {
        ToolState::Failed { error, .. } => Some(error.clone()),
        _ => None,
    });
    assert_eq!(error, Some(ToolError::OutcomeUnknown));
}

#[test]
fn what_is_refused_says_why_and_changes_nothing() {
    let done = ToolState::Done { input: json!(1), output: json!(2), approval: None };
    let table = [
        (turn(), 2, text("x"), Refused::Gap { have: 0, got: 2 }),
        (play(&[ended(End::Answered)]), 2, text("x"), Refused::Ended),
        (turn(), 1, TurnEvent::Paused, Refused::NothingToWaitFor),
        (turn(), 1, TurnEvent::Resumed, Refused::NotPaused),
        (play(&[call("c1", done)]), 2, call("c1", asking()), Refused::CallClosed),
    ];
    for (mut turn, seq, event, why) in table {
        let before = turn.clone();
        assert_eq!(turn.apply(seq, &event), Err(why));
        assert_eq!(turn, before);
    }
}

fn any_state() -> impl Strategy<Value = ToolState> {
    prop_oneof![
        Just(ToolState::Streaming { raw: "{".into() }),
        Just(ToolState::Ready { input: json!({}), runner: Runner::Server, approval: None }),
        Just(ToolState::Ready { input: json!({}), runner: Runner::Browser, approval: None }),
        Just(asking()),
        Just(ToolState::Done { input: json!({}), output: json!(1), approval: None }),
        Just(ToolState::Denied { input: json!({}), approval: "q1".into(), reason: "no".into() }),
    ]
}

fn any_event() -> impl Strategy<Value = TurnEvent> {
    prop_oneof![
        Just(TurnEvent::StepStarted { model: "m".into() }),
        ".{0,5}".prop_map(|text| TurnEvent::TextGrew { text }),
        ".{0,5}".prop_map(|text| TurnEvent::ReasoningGrew { text }),
        ("[ab]", any_state()).prop_map(|(id, state)| call(&id, state)),
        Just(TurnEvent::TokensCounted { usage: Usage { input: u64::MAX, output: 1 } }),
        Just(TurnEvent::Paused),
        Just(TurnEvent::Resumed),
        prop_oneof![
            Just(End::Answered),
            Just(End::Failed(Failure::Cut)),
            Just(End::Interrupted(Interruption::ByUser)),
            Just(End::Interrupted(Interruption::Lost)),
        ]
        .prop_map(ended),
    ]
}

proptest! {
    /// Every law of the module, after every single event of a random life.
    #[test]
    fn the_laws_hold_in_every_life(events in prop::collection::vec(any_event(), 0..40)) {
        let mut turn = turn();
        for event in &events {
            let before = turn.clone();
            let outcome = turn.apply(turn.seq + 1, event);
            match outcome {
                Err(_) => prop_assert_eq!(&turn, &before, "a refused event changes nothing"),
                Ok(()) => prop_assert_eq!(turn.seq, before.seq + 1),
            }
            if before.is_ended() {
                prop_assert_eq!(outcome, Err(Refused::Ended));
            }
            if turn.is_ended() {
                prop_assert!(turn.calls().all(|call| !call.state.is_open()), "an ended turn has no open call");
            }
            if outcome.is_ok() && matches!(event, TurnEvent::Resumed) {
                prop_assert_eq!(before.state, TurnState::Paused, "only a paused turn resumes");
            }
            if outcome.is_ok() && matches!(event, TurnEvent::Paused) {
                prop_assert!(turn.calls().any(|call| call.state.awaits_someone()), "a turn pauses only for someone");
            }
        }
    }

    /// A reconnect may overlap: replaying any earlier stretch changes nothing.
    #[test]
    fn a_replay_changes_nothing(events in prop::collection::vec(any_event(), 1..30), from in 0_usize..30) {
        let mut turn = turn();
        let mut accepted = Vec::new();
        for event in events {
            if turn.apply(turn.seq + 1, &event).is_ok() {
                accepted.push(event);
            }
        }
        let after = turn.clone();
        for (index, event) in accepted.iter().enumerate().skip(from) {
            prop_assert_eq!(turn.apply(index as Seq + 1, event), Ok(()));
        }
        prop_assert_eq!(turn, after);
    }

    /// What is stored is what was there: a turn and its events survive JSON.
    #[test]
    fn json_keeps_a_turn_whole(events in prop::collection::vec(any_event(), 0..20)) {
        let mut turn = turn();
        for event in &events {
            let text = serde_json::to_string(event).unwrap();
            prop_assert_eq!(&serde_json::from_str::<TurnEvent>(&text).unwrap(), event);
            let _ = turn.apply(turn.seq + 1, event);
        }
        let text = serde_json::to_string(&turn).unwrap();
        prop_assert_eq!(serde_json::from_str::<Turn>(&text).unwrap(), turn);
    }
}
