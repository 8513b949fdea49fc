//! Laws of [`Turn::apply`], as tables and as properties over random event sequences.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::model::event::Failure;
use crate::model::part::{CONSULT, Notice, Runner};

fn turn() -> Turn {
    let prompt = Prompt { id: PromptId::parse("p1").unwrap(), text: "why?".into() };
    Turn::asked(TurnId::parse("t1").unwrap(), TurnRow(1), prompt, AgentType::auto(), 1, 1_000)
}

fn begun(id: &str, name: &str) -> TurnEvent {
    TurnEvent::ToolCalled { call: id.into(), name: name.into() }
}

fn moved(id: &str, state: ToolState) -> TurnEvent {
    TurnEvent::ToolChanged { call: id.into(), state }
}

fn under(id: &str, event: TurnEvent) -> TurnEvent {
    TurnEvent::Under { call: id.into(), event: Box::new(event) }
}

fn asking() -> ToolState {
    ToolState::Asking { input: json!({}), runner: Runner::Server, approval: "q1".into(), until: 9 }
}

fn running() -> ToolState {
    ToolState::Running { input: json!({"agent": "error_analysis"}), approval: None }
}

fn done() -> ToolState {
    ToolState::Done { input: json!(1), output: json!(2), approval: None, sources: Vec::new() }
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
        begun("c1", "search"),
        text("c"),
        TurnEvent::StepStarted { model: "demo".into() },
        text("d"),
    ]);
    assert_eq!(turn.parts.len(), 7);
    assert_eq!(turn.parts[2], Part::Text { text: "ab".into() });
    assert_eq!(turn.text(), "abc\n\nd");
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

fn states(turn: &Turn) -> Vec<ToolState> {
    turn.every_call().iter().map(|call| call.state.clone()).collect()
}

#[test]
fn stop_settles_an_open_question_as_denied() {
    let turn = play(&[begun("c1", "rename"), moved("c1", asking()), TurnEvent::Paused, ended(End::Interrupted(Interruption::ByUser))]);
    assert_eq!(states(&turn), [ToolState::Denied { input: json!({}), approval: "q1".into(), reason: "Stopped by the user.".into() }]);
}

#[test]
fn how_a_turn_ends_says_why_its_calls_have_no_result() {
    for (interruption, of_running, of_asking) in [
        (Interruption::ByUser, ToolError::Stopped, ToolError::Stopped),
        (Interruption::Lost, ToolError::OutcomeUnknown, ToolError::NotRun),
        (Interruption::Shutdown, ToolError::OutcomeUnknown, ToolError::NotRun),
        (Interruption::Expired, ToolError::Expired, ToolError::Expired),
        (Interruption::Superseded, ToolError::Superseded, ToolError::Superseded),
    ] {
        let turn = play(&[
            begun("c1", CONSULT),
            moved("c1", running()),
            under("c1", begun("c2", "rename")),
            under("c1", moved("c2", asking())),
            ended(End::Interrupted(interruption)),
        ]);
        let [ToolState::Failed { error, .. }, ToolState::Denied { reason, .. }] = &states(&turn)[..] else { panic!("{turn:?}") };
        assert_eq!((error, reason), (&of_running, &of_asking.to_string()));
    }
}

#[test]
fn a_consulted_agent_works_inside_of_its_call() {
    let turn = play(&[
        TurnEvent::StepStarted { model: "m".into() },
        begun("c1", CONSULT),
        moved("c1", running()),
        under("c1", TurnEvent::StepStarted { model: "n".into() }),
        under("c1", text("inner")),
        under("c1", begun("c2", CONSULT)),
        under("c1", moved("c2", running())),
        under("c1", under("c2", text("innermost"))),
        text("outer"),
    ]);
    assert_eq!((turn.text().as_str(), turn.model.as_deref()), ("outer", Some("m")));
    let path = vec!["c1".to_owned(), "c2".to_owned()];
    assert_eq!(turn.parts_of(&path), Some(&[Part::Text { text: "innermost".into() }][..]));
    assert_eq!(turn.find("c2").map(|(path, call)| (path, call.at)), Some((vec!["c1".to_owned()], 7)));
    assert_eq!(turn.agents_to(&path).len(), 3);
    assert_eq!(turn.parts_of(&["c9".to_owned()]), None);
}

#[test]
fn a_step_is_taken_back_without_what_came_before() {
    let mut turn = play(&[text("a"), TurnEvent::StepStarted { model: "m".into() }, text("b"), begun("c1", "x")]);
    turn.apply(turn.seq + 1, &TurnEvent::StepReset).unwrap();
    assert_eq!((turn.parts.len(), turn.text().as_str(), turn.resets), (2, "a", 1));
}

#[test]
fn a_turn_is_active_while_a_model_speaks_or_a_tool_runs() {
    let waiting = ToolState::Waiting { input: json!({}), approval: None, tab: None, until: 5 };
    let mut turn = play(&[begun("c1", "a"), begun("c2", CONSULT), begun("c3", "b")]);
    let steps = [
        (moved("c1", asking()), false, Some(9)),
        (moved("c3", waiting), false, Some(5)),
        (moved("c2", running()), true, Some(5)),
        (under("c2", begun("d1", "a")), true, Some(5)),
        (under("c2", moved("d1", asking())), false, Some(5)),
        (moved("c1", running()), true, Some(5)),
        (moved("c1", done()), false, Some(5)),
        (moved("c3", done()), false, Some(9)),
        (under("c2", moved("d1", done())), true, None),
        (moved("c2", done()), true, None),
    ];
    for (event, active, until) in steps {
        turn.apply(turn.seq + 1, &event).unwrap();
        assert_eq!((turn.is_active(), turn.until()), (active, until), "{event:?}");
    }
}

#[test]
fn what_is_refused_says_why_and_changes_nothing() {
    let lonely = play(&[begun("c1", "x"), moved("c1", running())]);
    let table = [
        (turn(), 2, text("x"), Refused::Gap { have: 0, got: 2 }),
        (play(&[ended(End::Answered)]), 2, text("x"), Refused::Ended),
        (turn(), 1, TurnEvent::Paused, Refused::NothingToWaitFor),
        (lonely.clone(), 3, TurnEvent::Paused, Refused::NothingToWaitFor),
        (turn(), 1, TurnEvent::Resumed, Refused::NotPaused),
        (turn(), 1, moved("c1", running()), Refused::CallUnknown),
        (lonely.clone(), 3, begun("c1", "x"), Refused::CallUnknown),
        (play(&[begun("c1", "x"), moved("c1", done())]), 3, moved("c1", asking()), Refused::CallClosed),
        (lonely.clone(), 3, moved("c1", asking()), Refused::CallBackwards),
        (lonely.clone(), 3, TurnEvent::ArgumentsGrew { call: "c1".into(), text: "{".into() }, Refused::CallBackwards),
        (lonely.clone(), 3, TurnEvent::StepReset, Refused::Misplaced),
        (lonely, 3, under("c1", text("x")), Refused::Misplaced),
        (play(&[begun("c1", CONSULT)]), 2, under("c1", TurnEvent::Paused), Refused::Misplaced),
    ];
    for (mut turn, seq, event, why) in table {
        let before = turn.clone();
        assert_eq!(turn.apply(seq, &event), Err(why), "{event:?}");
        assert_eq!(turn, before);
    }
}

fn any_state() -> impl Strategy<Value = ToolState> {
    prop_oneof![
        Just(ToolState::Ready { input: json!({}) }),
        Just(running()),
        Just(ToolState::Waiting { input: json!({}), approval: None, tab: None, until: 9 }),
        Just(asking()),
        Just(done()),
        Just(ToolState::Denied { input: json!({}), approval: "q1".into(), reason: "no".into() }),
    ]
}

fn event_of_an_agent() -> impl Strategy<Value = TurnEvent> {
    prop_oneof![
        Just(TurnEvent::StepStarted { model: "m".into() }),
        Just(TurnEvent::StepReset),
        Just(TurnEvent::Noticed { notice: Notice::StepsUsed(3) }),
        ".{0,5}".prop_map(|text| TurnEvent::TextGrew { text }),
        ".{0,5}".prop_map(|text| TurnEvent::ReasoningGrew { text }),
        ("[ab]", prop_oneof![Just("x"), Just(CONSULT)]).prop_map(|(id, name)| begun(&id, name)),
        ("[ab]", ".{0,3}").prop_map(|(call, text)| TurnEvent::ArgumentsGrew { call, text }),
        ("[ab]", any_state()).prop_map(|(id, state)| moved(&id, state)),
    ]
}

fn any_event() -> impl Strategy<Value = TurnEvent> {
    let nested = event_of_an_agent().prop_recursive(2, 4, 1, |inner| ("[ab]", inner).prop_map(|(id, event)| under(&id, event)));
    prop_oneof![
        12 => nested,
        1 => Just(TurnEvent::TokensCounted { usage: Usage { input: u64::MAX, output: 1 } }),
        1 => Just(TurnEvent::Paused),
        1 => Just(TurnEvent::Resumed),
        1 => prop_oneof![
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
                prop_assert!(turn.every_call().iter().all(|call| !call.state.is_open()), "an ended turn has no open call");
            }
            if outcome.is_ok() && matches!(event, TurnEvent::Resumed) {
                prop_assert_eq!(before.state, TurnState::Paused, "only a paused turn resumes");
            }
            if outcome.is_ok() && matches!(event, TurnEvent::Paused) {
                prop_assert!(turn.every_call().iter().any(|call| call.state.awaits_someone()), "a turn pauses only for someone");
                prop_assert!(!turn.is_active(), "and not while anything works");
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
