//! The server's half of a turn's life, pure: what happened outside goes in, events to store and effects to run come out.
//!
//! No clock, no I/O, no tokio: the whole life of a turn is tested as tables below. [`super::drive`] runs the effects.

use std::time::Duration;

use crate::model::agent::{AgentType, Reply};
use crate::model::event::{End, Failure, Finish, Interruption, TurnEvent};
use crate::model::ids::Millis;
use crate::model::turn::Turn;
use crate::ssr::llm::{Chunk, Fault};

/// How often a model is called for one step at most.
pub const TRIES: u32 = 3;
/// A provider that asks for a longer pause than this is not waited for.
const LONGEST_PAUSE: Duration = Duration::from_secs(20);

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
    /// The model said something.
    Chunk(Chunk),
    /// The model failed.
    Fault {
        /// How.
        fault: Fault,
        /// Calls made for this step so far, this one included.
        tries: u32,
    },
    /// Somebody or something wants it to end.
    Stop(Interruption),
    /// The task that ran it broke.
    Broke,
}

/// Something to do outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Call the model, after a pause.
    CallModel {
        /// How long to wait first.
        after: Duration,
    },
    /// Drop the running call.
    AbortModel,
}

/// What follows from an input.
pub fn decide(turn: &Turn, now: Millis, input: Input) -> (Vec<TurnEvent>, Vec<Effect>) {
    if turn.is_ended() {
        return (Vec::new(), Vec::new());
    }
    match input {
        Input::Begin { agent, unknown, model } => {
            let mut reply = Reply { agent_type: Some(agent), ..Reply::default() };
            if let Some(unknown) = unknown {
                reply.metadata.insert("fallback".into(), true.into());
                reply.metadata.insert("original_agent_type".into(), unknown.as_str().into());
            }
            let events = vec![TurnEvent::Replied { reply }, TurnEvent::StepStarted { model }];
            (events, vec![Effect::CallModel { after: Duration::ZERO }])
        }
        Input::Chunk(Chunk::Text(text)) => (vec![TurnEvent::TextGrew { text }], Vec::new()),
        Input::Chunk(Chunk::Reasoning(text)) => (vec![TurnEvent::ReasoningGrew { text }], Vec::new()),
        Input::Chunk(Chunk::Tokens(usage)) => (vec![TurnEvent::TokensCounted { usage }], Vec::new()),
        Input::Chunk(Chunk::Step(model)) => (vec![TurnEvent::StepStarted { model }], Vec::new()),
        Input::Chunk(Chunk::Reply(mut reply)) => {
            reply.agent_type = reply.agent_type.or_else(|| turn.reply.agent_type.clone());
            for (key, value) in &turn.reply.metadata {
                reply.metadata.entry(key.clone()).or_insert_with(|| value.clone());
            }
            (vec![TurnEvent::Replied { reply }], Vec::new())
        }
        Input::Chunk(Chunk::Finish(finish)) => {
            let how = match (turn.has_text(), finish) {
                (true, _) => End::Answered,
                (false, Finish::ContentFilter) => End::Failed(Failure::Filtered),
                (false, _) => End::Failed(Failure::Empty),
            };
            (vec![TurnEvent::Ended { at: now, how, finish: Some(finish) }], Vec::new())
        }
        Input::Fault { fault, tries } => match pause_before_retry(turn, fault, tries) {
            Some(after) => (Vec::new(), vec![Effect::CallModel { after }]),
            None => (vec![ended(now, End::Failed(fault.failure))], Vec::new()),
        },
        Input::Stop(by) => (vec![ended(now, End::Interrupted(by))], vec![Effect::AbortModel]),
        Input::Broke => (vec![ended(now, End::Failed(Failure::Internal))], vec![Effect::AbortModel]),
    }
}

fn ended(at: Millis, how: End) -> TurnEvent {
    TurnEvent::Ended { at, how, finish: None }
}

/// A call is repeated only while nothing of the answer is stored: after that a second answer would follow half of the first.
fn pause_before_retry(turn: &Turn, fault: Fault, tries: u32) -> Option<Duration> {
    let untouched = !turn.parts.iter().any(|part| {
        use crate::model::part::Part;
        matches!(part, Part::Text { .. } | Part::Reasoning { .. } | Part::Tool(_))
    });
    if !untouched || !fault.failure.is_transient() || tries >= TRIES {
        return None;
    }
    let pause = fault.retry_after.unwrap_or(Duration::from_millis(500) * 2_u32.saturating_pow(tries.saturating_sub(1)));
    (pause <= LONGEST_PAUSE).then_some(pause)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::event::Usage;
    use crate::model::ids::{PromptId, TurnId, TurnRow};
    use crate::model::turn::{Prompt, Refused};

    fn turn() -> Turn {
        let prompt = Prompt { id: PromptId::parse("p").unwrap(), text: "why".into() };
        Turn::asked(TurnId::parse("t").unwrap(), TurnRow(1), prompt, AgentType::auto(), 1, 0)
    }

    /// Runs a life; gives the turn and every effect.
    fn live(inputs: impl IntoIterator<Item = Input>) -> (Turn, Vec<Effect>) {
        let mut turn = turn();
        let mut all = Vec::new();
        for input in inputs {
            let (events, effects) = decide(&turn, 7, input);
            for event in events {
                turn.apply(turn.seq + 1, &event).unwrap();
            }
            all.extend(effects);
        }
        (turn, all)
    }

    fn begin() -> Input {
        Input::Begin { agent: AgentType::router(), unknown: None, model: "demo".into() }
    }

    fn text(text: &str) -> Input {
        Input::Chunk(Chunk::Text(text.into()))
    }

    fn finish(finish: Finish) -> Input {
        Input::Chunk(Chunk::Finish(finish))
    }

    fn fault(failure: Failure, tries: u32) -> Input {
        Input::Fault { fault: failure.into(), tries }
    }

    fn call(millis: u64) -> Effect {
        Effect::CallModel { after: Duration::from_millis(millis) }
    }

    #[test]
    fn an_answer_ends_answered() {
        let (turn, effects) = live([begin(), text("a"), text("b"), finish(Finish::Stop)]);
        assert_eq!((turn.end(), turn.text().as_str(), effects), (Some(End::Answered), "ab", vec![call(0)]));
        assert_eq!(turn.agent(), &AgentType::router());
    }

    #[test]
    fn an_empty_answer_is_a_failure() {
        for (inputs, why) in [
            (vec![begin(), finish(Finish::Stop)], Failure::Empty),
            (vec![begin(), text(" \n"), finish(Finish::Stop)], Failure::Empty),
            (vec![begin(), Input::Chunk(Chunk::Reasoning("hm".into())), finish(Finish::Length)], Failure::Empty),
            (vec![begin(), finish(Finish::ContentFilter)], Failure::Filtered),
        ] {
            assert_eq!(live(inputs).0.end(), Some(End::Failed(why)));
        }
    }

    #[test]
    fn a_transient_fault_is_tried_again_with_growing_pauses() {
        let (turn, effects) = live([begin(), fault(Failure::Upstream, 1), fault(Failure::Upstream, 2), text("a"), finish(Finish::Stop)]);
        assert_eq!((turn.end(), effects), (Some(End::Answered), vec![call(0), call(500), call(1_000)]));
    }

    #[test]
    fn the_third_fault_is_the_last() {
        let (turn, effects) = live([begin(), fault(Failure::Cut, 1), fault(Failure::Cut, 2), fault(Failure::Cut, 3)]);
        assert_eq!((turn.end(), effects.len()), (Some(End::Failed(Failure::Cut)), 3));
    }

    #[test]
    fn nothing_is_tried_again_after_the_first_text() {
        let (turn, effects) = live([begin(), text("half"), fault(Failure::Cut, 1)]);
        assert_eq!((turn.end(), turn.text().as_str(), effects), (Some(End::Failed(Failure::Cut)), "half", vec![call(0)]));
    }

    #[test]
    fn a_lasting_fault_is_not_tried_again() {
        for why in [Failure::KeyRefused, Failure::TooLong, Failure::Rejected, Failure::NotAModel, Failure::Filtered] {
            assert_eq!(live([begin(), fault(why, 1)]), live([begin(), fault(why, 3)]));
            assert_eq!(live([begin(), fault(why, 1)]).0.end(), Some(End::Failed(why)));
        }
    }

    #[test]
    fn the_provider_decides_the_pause_within_reason() {
        let slow = |s| Input::Fault { fault: Fault { failure: Failure::RateLimited, retry_after: Some(Duration::from_secs(s)) }, tries: 1 };
        assert_eq!(live([begin(), slow(3)]).1, vec![call(0), call(3_000)]);
        assert_eq!(live([begin(), slow(21)]).0.end(), Some(End::Failed(Failure::RateLimited)));
    }

    #[test]
    fn stop_aborts_the_call_and_keeps_the_text() {
        let (turn, effects) = live([begin(), text("half"), Input::Stop(Interruption::ByUser), text("late"), finish(Finish::Stop)]);
        assert_eq!((turn.end(), turn.text().as_str()), (Some(End::Interrupted(Interruption::ByUser)), "half"));
        assert_eq!(effects, vec![call(0), Effect::AbortModel]);
    }

    #[test]
    fn an_unknown_agent_is_named_in_the_answer() {
        let unknown = AgentType::parse("nobody");
        let reply = Reply::default();
        let (turn, _) = live([Input::Begin { agent: AgentType::router(), unknown, model: "m".into() }, Input::Chunk(Chunk::Reply(reply))]);
        assert_eq!(turn.reply.metadata.get("original_agent_type").and_then(|v| v.as_str()), Some("nobody"));
        assert_eq!(turn.reply.metadata.get("fallback"), Some(&true.into()));
        assert_eq!(turn.agent(), &AgentType::router());
    }

    fn any_input() -> impl Strategy<Value = Input> {
        let failure = prop_oneof![Just(Failure::Cut), Just(Failure::KeyRefused), Just(Failure::RateLimited)];
        prop_oneof![
            Just(begin()),
            ".{0,3}".prop_map(|t| text(&t)),
            ".{0,3}".prop_map(|t| Input::Chunk(Chunk::Reasoning(t))),
            Just(Input::Chunk(Chunk::Tokens(Usage { input: 1, output: 2 }))),
            Just(Input::Chunk(Chunk::Reply(Reply::default()))),
            Just(finish(Finish::Stop)),
            (failure, 1_u32..5).prop_map(|(f, tries)| fault(f, tries)),
            Just(Input::Stop(Interruption::ByUser)),
            Just(Input::Stop(Interruption::Shutdown)),
            Just(Input::Broke),
        ]
    }

    proptest! {
        /// Whatever comes in whatever order: every event fits, and after the end nothing happens any more.
        #[test]
        fn every_decision_can_be_applied(inputs in prop::collection::vec(any_input(), 0..30)) {
            let mut turn = turn();
            for input in inputs {
                let ended = turn.is_ended();
                let (events, effects) = decide(&turn, 7, input);
                if ended {
                    prop_assert!(events.is_empty() && effects.is_empty());
                }
                for event in events {
                    prop_assert_eq!(turn.apply(turn.seq + 1, &event), Ok::<(), Refused>(()));
                }
            }
        }

        /// Stop always ends a live turn, at once.
        #[test]
        fn stop_always_ends_it(inputs in prop::collection::vec(any_input(), 0..20)) {
            let stop = std::iter::once(Input::Stop(Interruption::ByUser));
            prop_assert!(live(inputs.into_iter().chain(stop)).0.is_ended());
        }
    }
}
