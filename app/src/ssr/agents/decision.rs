//! What the router may say instead of an answer: hand over to a specialist, or ask back.

use serde::Deserialize;

use crate::model::agent::AgentType;

/// A reply longer than this is an answer, whatever it begins with.
const LONGEST: usize = 4_096;

/// The router's typed decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// A specialist answers.
    HandOff {
        /// Which.
        agent: AgentType,
        /// Why, in the router's words.
        reason: String,
    },
    /// The person must choose a meaning first.
    Clarify {
        /// The question back.
        question: String,
        /// Two to four answers to pick from.
        options: Vec<String>,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HandOff {
    hand_off: String,
    #[serde(default)]
    reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Clarify {
    clarify: String,
    options: Vec<String>,
}

impl Decision {
    /// Whether a reply that begins so may still turn out to be a decision, and so is not shown yet.
    pub fn may_be(beginning: &str) -> bool {
        if beginning.len() > LONGEST {
            return false;
        }
        let compact: String = beginning.chars().filter(|c| !c.is_whitespace()).take(32).collect();
        let starts = ["{\"hand_off\":", "{\"clarify\":"];
        let fences = ["", "```", "```json"];
        fences.iter().any(|fence| {
            starts.iter().any(|start| {
                let whole = format!("{fence}{start}");
                whole.starts_with(&compact) || compact.starts_with(&whole)
            })
        })
    }

    /// The decision that a whole reply is; `None` for an answer.
    pub fn parse(reply: &str) -> Option<Self> {
        if reply.len() > LONGEST {
            return None;
        }
        let json = unfenced(reply);
        if let Ok(HandOff { hand_off, reason }) = serde_json::from_str(json) {
            return AgentType::parse(&hand_off).map(|agent| Self::HandOff { agent, reason });
        }
        let Clarify { clarify, options } = serde_json::from_str(json).ok()?;
        let line = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let (question, options) = (line(clarify), options.into_iter().map(line).filter(|option| !option.is_empty()).collect::<Vec<_>>());
        let fits = !question.is_empty() && (2..=4).contains(&options.len()) && options.iter().all(|option| option.chars().count() <= 200);
        fits.then_some(Self::Clarify { question, options })
    }
}

/// A reply without the code fence that models like to put around JSON and YAML.
pub fn unfenced(reply: &str) -> &str {
    let reply = reply.trim();
    let Some(inner) = reply.strip_prefix("```").and_then(|rest| rest.strip_suffix("```")) else { return reply };
    // The word behind the opening fence names the language.
    inner.split_once('\n').map_or(inner, |(_, body)| body).trim()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hand_off(agent: &str, reason: &str) -> Decision {
        Decision::HandOff { agent: AgentType::parse(agent).unwrap(), reason: reason.into() }
    }

    #[test]
    fn decisions_are_read_with_or_without_a_fence() {
        let table = [
            (r#"{"hand_off": "error_analysis", "reason": "a log"}"#, Some(hand_off("error_analysis", "a log"))),
            (" {\"hand_off\":\"custom_tool\"}\n", Some(hand_off("custom_tool", ""))),
            ("```json\n{\"hand_off\": \"custom_tool\"}\n```", Some(hand_off("custom_tool", ""))),
            (
                r#"{"clarify": "Which one?", "options": ["DNA", " RNA\nseq "]}"#,
                Some(Decision::Clarify { question: "Which one?".into(), options: vec!["DNA".into(), "RNA seq".into()] }),
            ),
            (r#"{"clarify": "Which one?", "options": ["only one"]}"#, None),
            (r#"{"clarify": "", "options": ["a", "b"]}"#, None),
            (r#"{"hand_off": "No Such Name!"}"#, None),
            (r#"{"hand_off": "router", "and": "more"}"#, None),
            ("Use fastp.", None),
            ("{}", None),
            ("", None),
        ];
        for (reply, decision) in table {
            assert_eq!(Decision::parse(reply), decision, "{reply:?}");
        }
    }

    #[test]
    fn only_what_may_be_a_decision_is_held_back() {
        for held in ["", " ", "{", "{ \"", "{\"hand", "{\"hand_off\": \"err", "```", "```js", "```json\n{ \"clarify\" : ", "\n{"] {
            assert!(Decision::may_be(held), "{held:?}");
        }
        for shown in ["U", "{x", "{\"a\": 1", "```python", "```json\n[", "- {", &format!("{{\"hand_off\":{}", "x".repeat(LONGEST))] {
            assert!(!Decision::may_be(shown), "{shown:?}");
        }
    }

    proptest! {
        #[test]
        fn no_beginning_breaks_the_reader(text in any::<String>(), cut in 0_usize..60) {
            let _ = (Decision::may_be(&text), Decision::parse(&text));
            let whole = format!("{{\"clarify\": {{\"question\": {text:?}, \"options\": [{text:?}, 1]}}}}");
            let beginning: String = whole.chars().take(cut).collect();
            let _ = (Decision::may_be(&beginning), Decision::parse(&whole));
        }
    }
}
