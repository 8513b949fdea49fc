//! The whole life of a turn, as tables, and as properties over random lives with crashes between any two steps.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::model::event::Usage;
use crate::model::ids::{PromptId, TurnId, TurnRow};
use crate::model::part::CONSULT;
use crate::model::turn::{Prompt, Refused};

const NOW: Millis = 1_000;
const STEPS: u32 = 3;

fn turn() -> Turn {
    let prompt = Prompt { id: PromptId::parse("p").unwrap(), text: "why".into() };
    Turn::asked(TurnId::parse("t").unwrap(), TurnRow(1), prompt, AgentType::auto(), 1, 0)
}

fn with_rules<T>(run: impl FnOnce(&Rules<'_>) -> T) -> T {
    run(&Rules { steps: STEPS, approval_ms: 100, browser_ms: 10, model_of: &|agent| format!("model of {}", agent.as_str()) })
}

/// Runs a life on; gives the turn and every effect.
fn live_on(mut turn: Turn, now: Millis, inputs: impl IntoIterator<Item = Input>) -> (Turn, Vec<Effect>) {
    let mut all = Vec::new();
    for input in inputs {
        let (events, effects) = with_rules(|rules| decide(&turn, now, rules, input));
        for event in events {
            turn.apply(turn.seq + 1, &event).unwrap();
        }
        all.extend(effects);
    }
    (turn, all)
}

fn live(inputs: impl IntoIterator<Item = Input>) -> (Turn, Vec<Effect>) {
    live_on(turn(), NOW, inputs)
}

fn begin() -> Input {
    Input::Begin { agent: AgentType::router(), unknown: None, model: "demo".into() }
}

fn at(path: &[&str]) -> AgentPath {
    path.iter().map(ToString::to_string).collect()
}

fn heard(path: &[&str], chunk: Chunk) -> Input {
    Input::Heard { agent: at(path), chunk }
}

fn text(words: &str) -> Input {
    heard(&[], Chunk::Text(words.into()))
}

fn calls_tool(path: &[&str], call: &str, name: &str) -> Input {
    let input = json!({ "agent": if call == "b" { "custom_tool" } else { "error_analysis" }, "question": call });
    heard(path, Chunk::Called { call: call.into(), name: name.into(), input: Ok(input) })
}

fn finished(path: &[&str], finish: Finish, verdicts: &[(&str, Verdict)]) -> Input {
    let verdicts = verdicts.iter().map(|(call, verdict)| ((*call).to_owned(), verdict.clone())).collect();
    Input::Finished { agent: at(path), finish, verdicts }
}

fn called(path: &[&str], verdicts: &[(&str, Verdict)]) -> Input {
    finished(path, Finish::ToolCalls, verdicts)
}

fn done() -> Input {
    finished(&[], Finish::Stop, &[])
}

fn fault(failure: Failure, tries: u32) -> Input {
    Input::Fault { agent: Vec::new(), fault: failure.into(), tries }
}

fn ran(call: &str) -> Input {
    Input::Ran { call: call.into(), outcome: Ok(Output { value: json!("result"), sources: Vec::new() }) }
}

fn answer(call: &str, answer: Answer) -> Input {
    Input::Order(Order::Answer { call: call.into(), answer })
}

fn allow(call: &str) -> Input {
    answer(call, Answer::Allow { approval: format!("ask-{call}") })
}

fn deny(call: &str) -> Input {
    answer(call, Answer::Deny { approval: format!("ask-{call}"), reason: "no".into() })
}

fn stop(by: Interruption) -> Input {
    Input::Order(Order::Stop(by))
}

fn call_model(path: &[&str], millis: u64) -> Effect {
    Effect::CallModel { agent: at(path), after: Duration::from_millis(millis) }
}

fn run_tool(call: &str) -> Effect {
    Effect::RunTool { call: call.into() }
}

fn states(turn: &Turn) -> Vec<&'static str> {
    turn.every_call().iter().map(|call| call.state.name()).collect()
}

const ASK: Verdict = Verdict::Ask(Runner::Server);

/// A turn that asks whether `a` may run.
fn asking() -> Vec<Input> {
    vec![begin(), calls_tool(&[], "a", "x"), called(&[], &[("a", ASK)])]
}

#[test]
fn an_answer_ends_answered() {
    let (turn, effects) = live([begin(), text("a"), text("b"), done()]);
    assert_eq!((turn.end(), turn.text().as_str(), effects), (Some(End::Answered), "ab", vec![call_model(&[], 0), Effect::AbortAll]));
    assert_eq!(turn.agent(), &AgentType::router());
}

#[test]
fn an_empty_answer_is_a_failure() {
    for (inputs, why) in [
        (vec![begin(), done()], Failure::Empty),
        (vec![begin(), text(" \n"), done()], Failure::Empty),
        (vec![begin(), heard(&[], Chunk::Reasoning("hm".into())), finished(&[], Finish::Length, &[])], Failure::Empty),
        (vec![begin(), finished(&[], Finish::ContentFilter, &[])], Failure::Filtered),
    ] {
        assert_eq!(live(inputs).0.end(), Some(End::Failed(why)));
    }
}

#[test]
fn a_transient_fault_is_tried_again_with_growing_pauses() {
    let (turn, effects) = live([begin(), fault(Failure::Upstream, 1), fault(Failure::Upstream, 2), text("a"), done()]);
    assert_eq!((turn.end(), &effects[..3]), (Some(End::Answered), &[call_model(&[], 0), call_model(&[], 500), call_model(&[], 1_000)][..]));
    let (turn, effects) = live([begin(), fault(Failure::Cut, 1), fault(Failure::Cut, 2), fault(Failure::Cut, 3)]);
    assert_eq!((turn.end(), effects.len()), (Some(End::Failed(Failure::Cut)), 4), "the third is the last");
}

#[test]
fn a_retry_after_words_replaces_the_step_and_doubles_nothing() {
    let again = || Input::Again { agent: Vec::new() };
    let (turn, _) = live([begin(), text("half"), calls_tool(&[], "a", "x"), fault(Failure::Cut, 1), again(), text("whole"), done()]);
    assert_eq!((turn.end(), turn.text().as_str(), turn.every_call().len()), (Some(End::Answered), "whole", 0));
    let (turn, _) = live([begin(), text("half"), fault(Failure::Cut, 1), fault(Failure::Cut, 2)]);
    assert_eq!((turn.end(), turn.text().as_str()), (Some(End::Failed(Failure::Cut)), "half"), "what came is kept when nothing replaces it");
}

#[test]
fn a_lasting_fault_is_not_tried_again() {
    for why in [Failure::KeyRefused, Failure::TooLong, Failure::Rejected, Failure::NotAModel, Failure::Filtered] {
        assert_eq!(live([begin(), fault(why, 1)]).0.end(), Some(End::Failed(why)));
    }
}

#[test]
fn the_provider_decides_the_pause_within_reason() {
    let slow = |s| {
        let fault = Fault { failure: Failure::RateLimited, retry_after: Some(Duration::from_secs(s)) };
        Input::Fault { agent: Vec::new(), fault, tries: 1 }
    };
    assert_eq!(live([begin(), slow(3)]).1, vec![call_model(&[], 0), call_model(&[], 3_000)]);
    assert_eq!(live([begin(), slow(0)]).1[1], call_model(&[], 1), "a retry can be told from a new step by its pause");
    assert_eq!(live([begin(), slow(21)]).0.end(), Some(End::Failed(Failure::RateLimited)));
}

#[test]
fn stop_aborts_everything_and_keeps_the_text() {
    let (turn, effects) = live([begin(), text("half"), stop(Interruption::ByUser), text("late"), done()]);
    assert_eq!((turn.end(), turn.text().as_str()), (Some(End::Interrupted(Interruption::ByUser)), "half"));
    assert_eq!(effects, vec![call_model(&[], 0), Effect::AbortAll]);
}

#[test]
fn an_unknown_agent_is_named_in_the_answer() {
    let begin = Input::Begin { agent: AgentType::router(), unknown: AgentType::parse("nobody"), model: "m".into() };
    let (turn, _) = live([begin, heard(&[], Chunk::Reply(Reply::default()))]);
    assert_eq!(turn.reply.metadata.get("original_agent_type").and_then(|v| v.as_str()), Some("nobody"));
    assert_eq!(turn.reply.metadata.get("fallback"), Some(&true.into()));
    assert_eq!(turn.agent(), &AgentType::router());
}

#[test]
fn tools_of_one_step_run_side_by_side_and_the_model_goes_on_when_all_are_done() {
    let both = [("a", Verdict::Run), ("b", Verdict::Run)];
    let (turn, effects) = live([begin(), calls_tool(&[], "a", "x"), calls_tool(&[], "b", "y"), called(&[], &both), ran("b")]);
    assert_eq!((states(&turn), &effects[1..]), (vec!["running", "done"], &[run_tool("a"), run_tool("b")][..]));
    let (turn, effects) = live_on(turn, NOW, [ran("a"), text("so"), done()]);
    assert_eq!((turn.end(), effects[0].clone()), (Some(End::Answered), call_model(&[], 0)));
    assert_eq!(turn.model.as_deref(), Some("model of router"));
}

#[test]
fn a_call_that_is_refused_goes_back_to_the_model_at_once() {
    let refuse = Verdict::Refuse("no such tool".into());
    let bad = heard(&[], Chunk::Called { call: "b".into(), name: "x".into(), input: Err("{bad".into()) });
    let begun = heard(&[], Chunk::Calling { call: "c".into(), name: "x".into() });
    let (turn, effects) = live([begin(), calls_tool(&[], "a", "x"), bad, begun, finished(&[], Finish::Length, &[("a", refuse)])]);
    assert_eq!((states(&turn), effects.last().cloned()), (vec!["failed"; 3], Some(call_model(&[], 0))));
}

#[test]
fn the_last_step_is_noticed_and_ends_the_answer() {
    let step = |n: &str| [calls_tool(&[], n, "x"), called(&[], &[(n, Verdict::Run)]), ran(n)];
    let (turn, _) = live([begin()].into_iter().chain(step("a")).chain(step("b")).chain(step("c")));
    assert_eq!(turn.parts.last(), Some(&Part::Notice(Notice::StepsUsed(STEPS))));
    assert!(matches!(turn.state, TurnState::Ended { end: End::Answered, finish: Some(Finish::ToolCalls), .. }));
}

#[test]
fn a_question_pauses_the_turn_until_it_is_answered() {
    let (paused, effects) = live(asking());
    assert_eq!((paused.state, paused.until(), effects.len()), (TurnState::Paused, Some(NOW + 100), 1));
    let (turn, effects) = live_on(paused.clone(), NOW, [allow("a")]);
    assert_eq!((turn.state, states(&turn), effects), (TurnState::Running, vec!["running"], vec![run_tool("a")]));
    let (turn, effects) = live_on(paused.clone(), NOW, [deny("a")]);
    assert_eq!((turn.state, states(&turn), effects), (TurnState::Running, vec!["denied"], vec![call_model(&[], 0)]));
    for wrong in
        [answer("a", Answer::Allow { approval: "ask-b".into() }), answer("z", Answer::Allow { approval: "ask-a".into() }), ran("a")]
    {
        assert_eq!(live_on(paused.clone(), NOW, [wrong]).0, paused);
    }
}

#[test]
fn two_questions_are_answered_one_by_one() {
    let (paused, _) = live([begin(), calls_tool(&[], "a", "x"), calls_tool(&[], "b", "x"), called(&[], &[("a", ASK), ("b", ASK)])]);
    let (turn, effects) = live_on(paused.clone(), NOW, [deny("a")]);
    assert_eq!((turn.state, states(&turn), effects), (TurnState::Paused, vec!["denied", "asking"], vec![]));
    let (turn, _) = live_on(paused, NOW, [allow("a"), ran("a")]);
    assert_eq!((turn.state, states(&turn)), (TurnState::Paused, vec!["done", "asking"]));
    let (turn, effects) = live_on(turn, NOW, [allow("b"), ran("b")]);
    assert_eq!((turn.state, effects), (TurnState::Running, vec![run_tool("b"), call_model(&[], 0)]));
}

#[test]
fn a_browser_tool_runs_in_the_tab_that_claims_it() {
    let (paused, _) = live([begin(), calls_tool(&[], "a", "x"), called(&[], &[("a", Verdict::Browser)])]);
    assert_eq!((paused.state, paused.until()), (TurnState::Paused, Some(NOW + 10)));
    let claim = |tab: &str| Order::Claim { call: "a".into(), tab: tab.into() };
    let (held, _) = live_on(paused, NOW + 5, [Input::Order(claim("one"))]);
    assert_eq!((held.state, held.until()), (TurnState::Paused, Some(NOW + 15)), "it is waited for as long as a tab holds it");
    assert_eq!((check(&held, &claim("two")), check(&held, &claim("one"))), (Err(NotTaken::Elsewhere), Ok(Taken::Now)));
    let output = |tab: Option<&str>| Answer::Output { value: json!(1), tab: tab.map(str::to_owned) };
    let (other, _) = live_on(held.clone(), NOW, [answer("a", output(Some("two")))]);
    assert_eq!(other, held, "another tab's result is not taken");
    for tab in [Some("one"), None] {
        let (turn, effects) = live_on(held.clone(), NOW, [answer("a", output(tab))]);
        assert_eq!((turn.state, states(&turn), effects), (TurnState::Running, vec!["done"], vec![call_model(&[], 0)]));
    }
}

#[test]
fn what_nobody_answers_in_time_is_given_up() {
    let (paused, _) = live(asking());
    assert_eq!(live_on(paused.clone(), NOW + 100, [Input::Expire]).0, paused, "not before its time");
    let (turn, _) = live_on(paused, NOW + 101, [Input::Expire, allow("a")]);
    assert_eq!((turn.end(), states(&turn)), (Some(End::Interrupted(Interruption::Expired)), vec!["denied"]));
    let both = [("a", ASK), ("b", Verdict::Browser)];
    let (paused, _) = live([begin(), calls_tool(&[], "a", "x"), calls_tool(&[], "b", "x"), called(&[], &both)]);
    let (turn, _) = live_on(paused, NOW + 50, [Input::Expire]);
    assert_eq!((turn.state, states(&turn)), (TurnState::Paused, vec!["asking", "failed"]), "the other is still asked for");
}

#[test]
fn a_new_message_settles_what_waits() {
    let (turn, _) = live(asking().into_iter().chain([stop(Interruption::Superseded)]));
    let reason = turn.every_call().iter().find_map(|call| match &call.state {
        ToolState::Denied { reason, .. } => Some(reason.clone()),
        _ => None,
    });
    assert_eq!(reason, Some(ToolError::Superseded.to_string()));
}

fn consulting() -> Vec<Input> {
    vec![begin(), calls_tool(&[], "a", CONSULT), called(&[], &[("a", Verdict::Run)])]
}

#[test]
fn a_consulted_agent_answers_into_its_call() {
    let (turn, effects) = live(consulting().into_iter().chain([
        heard(&["a"], Chunk::Text("INNER".into())),
        heard(&["a"], Chunk::Tokens(Usage { input: 1, output: 2 })),
        finished(&["a"], Finish::Stop, &[]),
        text("outer"),
        done(),
    ]));
    assert_eq!(effects[1..3], [call_model(&["a"], 0), call_model(&[], 0)]);
    assert_eq!((turn.end(), turn.text().as_str(), turn.usage.output), (Some(End::Answered), "outer", 2));
    let output = turn.every_call().iter().find_map(|call| match &call.state {
        ToolState::Done { output, .. } => Some(output.clone()),
        _ => None,
    });
    assert_eq!(output, Some(json!({"agent": "error_analysis", "answer": "INNER"})));
}

#[test]
fn a_question_of_a_nested_agent_pauses_all_and_its_answer_cascades() {
    let (paused, _) = live(consulting().into_iter().chain([
        calls_tool(&["a"], "b", CONSULT),
        called(&["a"], &[("b", Verdict::Run)]),
        calls_tool(&["a", "b"], "c", "x"),
        called(&["a", "b"], &[("c", ASK)]),
    ]));
    assert_eq!((paused.state, states(&paused)), (TurnState::Paused, vec!["running", "running", "asking"]));
    let rest = [
        allow("c"),
        ran("c"),
        heard(&["a", "b"], Chunk::Text("deep".into())),
        finished(&["a", "b"], Finish::Stop, &[]),
        heard(&["a"], Chunk::Text("less deep".into())),
        finished(&["a"], Finish::Stop, &[]),
        text("top"),
        done(),
    ];
    let (turn, effects) = live_on(paused, NOW, rest);
    let expected = [run_tool("c"), call_model(&["a", "b"], 0), call_model(&["a"], 0), call_model(&[], 0), Effect::AbortAll];
    assert_eq!((turn.end(), turn.text().as_str(), effects), (Some(End::Answered), "top", expected.to_vec()));
}

#[test]
fn a_consulted_agent_that_fails_fails_its_call_only() {
    let fault = Input::Fault { agent: at(&["a"]), fault: Failure::KeyRefused.into(), tries: 1 };
    for end in [fault, finished(&["a"], Finish::Stop, &[])] {
        let (turn, effects) = live_on(live(consulting()).0, NOW, [end]);
        assert_eq!((states(&turn), turn.state, effects), (vec!["failed"], TurnState::Running, vec![call_model(&[], 0)]));
    }
}

#[test]
fn a_second_answer_is_told_what_was_decided() {
    let (paused, _) = live(asking());
    let order = |answer| Order::Answer { call: "a".into(), answer };
    let yes = order(Answer::Allow { approval: "ask-a".into() });
    let no = order(Answer::Deny { approval: "ask-a".into(), reason: "x".into() });
    assert_eq!((check(&paused, &yes), check(&paused, &no)), (Ok(Taken::Now), Ok(Taken::Now)));
    let forged = order(Answer::Output { value: json!("forged"), tab: None });
    for allowed in [live_on(paused.clone(), NOW, [allow("a")]).0, live_on(paused.clone(), NOW, [allow("a"), ran("a")]).0] {
        assert_eq!(check(&allowed, &yes), Ok(Taken::Already));
        assert!(matches!(check(&allowed, &no), Err(NotTaken::Decided(why)) if why.contains("allowed")));
        assert!(check(&allowed, &forged).is_err(), "no output for a tool of the server");
    }
    let denied = live_on(paused, NOW, [deny("a")]).0;
    assert_eq!(check(&denied, &no), Ok(Taken::Already));
    assert_eq!(check(&denied, &yes), Err(NotTaken::Decided("This was denied: no".into())));
}

fn path() -> impl Strategy<Value = AgentPath> {
    prop_oneof![4 => Just(at(&[])), 2 => Just(at(&["a"])), 1 => Just(at(&["a", "b"])), 1 => Just(at(&["z"]))]
}

fn id() -> impl Strategy<Value = String> {
    "[a-d]"
}

fn verdict() -> impl Strategy<Value = Verdict> {
    prop_oneof![
        3 => Just(Verdict::Run),
        2 => Just(ASK),
        1 => Just(Verdict::Ask(Runner::Browser)),
        2 => Just(Verdict::Browser),
        1 => Just(Verdict::Refuse("no".into())),
    ]
}

fn chunk() -> impl Strategy<Value = Chunk> {
    prop_oneof![
        2 => ".{0,3}".prop_map(Chunk::Text),
        1 => ".{0,3}".prop_map(Chunk::Reasoning),
        1 => Just(Chunk::Tokens(Usage { input: 1, output: 2 })),
        1 => Just(Chunk::Reply(Reply::default())),
        1 => id().prop_map(|call| Chunk::Calling { call, name: "x".into() }),
        1 => (id(), ".{0,3}").prop_map(|(call, text)| Chunk::Arguments { call, text }),
        4 => (id(), any::<bool>()).prop_map(|(call, consults)| {
            let name = if consults { CONSULT } else { "x" };
            Chunk::Called { call, name: name.into(), input: Ok(json!({ "agent": "custom_tool", "question": "?" })) }
        }),
        1 => id().prop_map(|call| Chunk::Called { call, name: "x".into(), input: Err("{".into()) }),
    ]
}

fn any_input() -> impl Strategy<Value = Input> {
    let failure = prop_oneof![Just(Failure::Cut), Just(Failure::KeyRefused), Just(Failure::RateLimited)];
    let finish = prop_oneof![Just(Finish::Stop), Just(Finish::ToolCalls), Just(Finish::Length)];
    let output = prop_oneof![Just(Ok(Output::default())), Just(Err(ToolError::TimedOut(1)))];
    let browser = Answer::Output { value: json!(1), tab: None };
    prop_oneof![
        2 => Just(begin()),
        12 => (path(), chunk()).prop_map(|(agent, chunk)| Input::Heard { agent, chunk }),
        8 => (path(), finish, prop::collection::vec((id(), verdict()), 0..3))
            .prop_map(|(agent, finish, verdicts)| Input::Finished { agent, finish, verdicts }),
        2 => path().prop_map(|agent| Input::Again { agent }),
        2 => (path(), failure, 1_u32..5).prop_map(|(agent, f, tries)| Input::Fault { agent, fault: f.into(), tries }),
        6 => (id(), output).prop_map(|(call, outcome)| Input::Ran { call, outcome }),
        4 => id().prop_map(|call| allow(&call)),
        2 => id().prop_map(|call| deny(&call)),
        2 => id().prop_map(move |call| answer(&call, browser.clone())),
        1 => id().prop_map(|call| answer(&call, Answer::Failed { text: "x".into(), tab: Some("t".into()) })),
        1 => (id(), "[tu]").prop_map(|(call, tab)| Input::Order(Order::Claim { call, tab })),
        1 => Just(Input::Expire),
        1 => prop_oneof![Just(stop(Interruption::ByUser)), Just(stop(Interruption::Superseded)), Just(Input::Broke)],
    ]
}

/// What must hold of a turn between any two inputs.
fn holds(turn: &Turn, effects: &[Effect], ran_once: &mut Vec<String>) -> Result<(), TestCaseError> {
    match turn.state {
        TurnState::Ended { .. } => prop_assert!(turn.every_call().iter().all(|call| !call.state.is_open()), "nothing is open at the end"),
        TurnState::Paused => {
            prop_assert!(
                !turn.is_active() && turn.every_call().iter().any(|call| call.state.awaits_someone()),
                "it pauses for someone only"
            );
        }
        TurnState::Running => prop_assert!(turn.is_active(), "who runs, does something"),
    }
    for effect in effects {
        match effect {
            Effect::RunTool { call } => {
                prop_assert!(!ran_once.contains(call), "{call} ran twice");
                let state = turn.find(call).map(|(_, call)| call.state.name());
                prop_assert_eq!(state, Some("running"), "what runs is marked as running first");
                ran_once.push(call.clone());
            }
            Effect::CallModel { agent, .. } => prop_assert!(turn.parts_of(agent).is_some(), "only an agent that is there is asked"),
            Effect::AbortAll => prop_assert!(turn.is_ended()),
        }
    }
    Ok(())
}

proptest! {
    /// Whatever comes in whatever order, at whatever time, with the process gone and back between any two inputs (the turn read anew from
    /// its snapshot, or ended because nobody ran it): every event fits, every law holds, no tool runs twice.
    #[test]
    fn every_life_keeps_the_laws(inputs in prop::collection::vec((any_input(), 0_i64..60, 0_u8..40), 0..50)) {
        let (mut turn, mut now, mut ran_once, mut began) = (turn(), NOW, Vec::new(), false);
        for (input, later, crash) in inputs {
            let input = if began { input } else { begin() };
            began = true;
            now += later;
            let ended = turn.is_ended();
            let (events, effects) = with_rules(|rules| decide(&turn, now, rules, input));
            if ended {
                prop_assert!(events.is_empty() && effects.is_empty(), "after the end nothing happens");
            }
            for event in events {
                prop_assert_eq!(turn.apply(turn.seq + 1, &event), Ok::<(), Refused>(()));
            }
            holds(&turn, &effects, &mut ran_once)?;
            if crash == 0 {
                turn = serde_json::from_str(&serde_json::to_string(&turn).unwrap()).unwrap();
                if turn.state == TurnState::Running {
                    let lost = TurnEvent::Ended { at: now, how: End::Interrupted(Interruption::Lost), finish: None };
                    prop_assert_eq!(turn.apply(turn.seq + 1, &lost), Ok(()));
                }
                holds(&turn, &[], &mut ran_once)?;
            }
        }
    }

    /// Stop always ends a turn, at once.
    #[test]
    fn stop_always_ends_it(inputs in prop::collection::vec(any_input(), 0..20)) {
        prop_assert!(live([begin()].into_iter().chain(inputs).chain([stop(Interruption::ByUser)])).0.is_ended());
    }
}
