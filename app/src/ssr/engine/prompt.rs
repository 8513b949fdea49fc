//! What a model is told of the steps before: the parts of one agent as [`Step`]s. Those of the agents that it consulted are inside of its
//! calls, and so never in its prompt: their answer is the result of the call.

use serde_json::{Map, Value};

use crate::model::part::{Part, ToolState};
use crate::ssr::llm::{Called, Step};

/// Longest result that a model is shown, as JSON, in bytes.
const SHOWN_BYTES: usize = 24_000;

/// The steps of an agent whose calls are closed, oldest first.
pub(super) fn steps_of(parts: &[Part], memos: &Map<String, Value>) -> Vec<Step> {
    let mut steps = Vec::new();
    for step in parts.split(|part| *part == Part::StepStart) {
        let (mut text, mut calls) = (String::new(), Vec::new());
        for part in step {
            match part {
                Part::Text { text: said } => text.push_str(said),
                Part::Tool(call) => {
                    let result = match &call.state {
                        ToolState::Done { output, .. } => Ok(shown(output)),
                        ToolState::Failed { error, .. } => Err(error.to_string()),
                        ToolState::Denied { reason, .. } if reason.is_empty() => Err("The person denied this call.".to_owned()),
                        ToolState::Denied { reason, .. } => Err(format!("The person denied this call: {reason}")),
                        _ => Err("It has not run.".to_owned()),
                    };
                    let input = call.state.input().cloned().unwrap_or_default();
                    calls.push(Called { call: call.call.clone(), name: call.name.clone(), input, result });
                }
                _ => {}
            }
        }
        if let Some(first) = calls.first() {
            let memo = memos.get(&first.call).cloned();
            steps.push(Step { text, calls, memo });
        }
    }
    steps
}

/// A result that is too long for a model is cut, and says so.
fn shown(output: &Value) -> Value {
    let text = output.to_string();
    if text.len() <= SHOWN_BYTES {
        return output.clone();
    }
    let end = text.floor_char_boundary(SHOWN_BYTES);
    Value::String(format!("{}… (cut here; the whole result has {} bytes)", &text[..end], text.len()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::part::{CONSULT, ToolCall, ToolError};

    fn call(id: &str, name: &str, state: ToolState, inner: Vec<Part>) -> Part {
        Part::Tool(ToolCall { call: id.into(), name: name.into(), state, at: 1, inner })
    }

    fn done(output: Value) -> ToolState {
        ToolState::Done { input: json!({"q": 1}), output, approval: None, sources: Vec::new() }
    }

    #[test]
    fn a_step_is_its_text_its_calls_and_their_results() {
        let secret = vec![Part::Text { text: "INNER".into() }, call("d", "x", done(json!("INNER")), Vec::new())];
        let parts = [
            Part::StepStart,
            Part::Reasoning { text: "hm".into() },
            Part::Text { text: "Let me ask.".into() },
            call("a", CONSULT, done(json!({"answer": "so"})), secret),
            call("b", "x", ToolState::Failed { input: json!(1), error: ToolError::Expired, approval: None }, Vec::new()),
            call("c", "x", ToolState::Denied { input: json!(1), approval: "q".into(), reason: "no".into() }, Vec::new()),
            Part::StepStart,
            Part::Text { text: "The end.".into() },
        ];
        let memos = Map::from_iter([("a".to_owned(), json!("memo"))]);
        let steps = steps_of(&parts, &memos);
        assert_eq!((steps.len(), steps[0].text.as_str(), steps[0].memo.clone()), (1, "Let me ask.", Some(json!("memo"))));
        let results: Vec<_> = steps[0].calls.iter().map(|call| call.result.clone()).collect();
        let expected =
            [Ok(json!({"answer": "so"})), Err("Nobody answered in time.".to_owned()), Err("The person denied this call: no".to_owned())];
        assert_eq!(results, expected);
        assert!(!format!("{steps:?}").contains("INNER"), "what a consulted agent did is not in the prompt");
    }

    #[test]
    fn a_long_result_is_cut_for_the_model() {
        let steps = steps_of(&[call("a", "x", done(json!("é".repeat(30_000))), Vec::new())], &Map::new());
        let Ok(Value::String(text)) = &steps[0].calls[0].result else { panic!() };
        assert!(text.len() < SHOWN_BYTES + 100 && text.ends_with("bytes)"));
    }
}
