//! A model that answers by rules from a YAML file: the same file serves unit, HTTP and browser tests, and the embedded one is
//! what answers on a first run without any key.
//!
//! ```yaml
//! defaults: {confidence: medium}
//! rules:                       # the first rule whose every condition holds
//!   - match: {agent_type: router, query: "(?i)slow", context: {page_title: "Notes"}}   # regular expressions, searched for
//!     response: {content: "…", agent_type: router, confidence: high, suggestions: [], metadata: {}, reasoning: null}
//!     stream:                  # without it the content comes at once
//!       {chunk_chars: 8, delay_ms: 50, first_delay_ms: 0, thinking: "…", fail: cut, after_chars: 40}
//! fallback: {content: "…"}     # when no rule holds
//! ```
//!
//! A response may call tools: `tool_calls: [{name: search_tools, input: {query: "trim"}}]`, with `arguments: "{bad"` instead of `input`
//! for a text that is no JSON. What follows their results is in the rule's `then`, a list of `{response, stream}`; the last of them, or
//! the rule's own response when there is none, answers all later steps. `{{results}}` in a content stands for what the last calls gave.
//!
//! `fail` is one of `cut`, `error`, `hang` and `length`, which happen after `after_chars` characters (or the whole content), and
//! `http_429`, `http_500` and `empty`, which happen instead of any text.

mod format;
mod script;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use futures::{StreamExt, stream};
use regex::Regex;
use serde_json::Value;

use self::format::Answer;
use super::{ChunkStream, Message, Model, Request};
use crate::model::agent::AgentType;

/// The rules of a first run.
const DEMO: &str = include_str!("demo.yml");

/// A model that answers by rules.
pub struct StaticModel {
    name: &'static str,
    rules: Vec<Rule>,
    fallback: Answer,
}

/// Conditions and what to answer when all hold.
struct Rule {
    agent: Option<AgentType>,
    query: Option<Regex>,
    context: Vec<(String, Regex)>,
    /// What is answered at each step, one at least.
    answers: Vec<Answer>,
}

impl StaticModel {
    /// The demo model of a first run.
    pub fn embedded() -> Result<Self, String> {
        Ok(Self { name: "demo", ..Self::from_yaml(DEMO)? })
    }

    /// Reads rules. The error names the rule by its number, from 1, and what is wrong with it.
    pub fn from_yaml(text: &str) -> Result<Self, String> {
        let (rules, fallback) = format::read(text)?;
        Ok(Self { name: "static", rules, fallback })
    }

    fn answer(&self, request: &Request) -> &Answer {
        let step = request.messages.iter().filter(|message| matches!(message, Message::Step(_))).count();
        let rule = self.rules.iter().find(|rule| rule.holds(request));
        rule.and_then(|rule| rule.answers.get(step).or(rule.answers.last())).unwrap_or(&self.fallback)
    }
}

impl Model for StaticModel {
    fn name(&self) -> &str {
        self.name
    }

    fn is_demo(&self) -> bool {
        self.name == "demo"
    }

    fn speaks_for_agents(&self) -> bool {
        true
    }

    fn stream(&self, request: Request) -> ChunkStream {
        let steps = script::steps(self.answer(&request), &request);
        stream::unfold(steps.into_iter(), |mut steps| async move {
            let item = steps.next()?.play().await;
            Some((item, steps))
        })
        .boxed()
    }
}

impl Rule {
    fn holds(&self, request: &Request) -> bool {
        self.agent.as_ref().is_none_or(|agent| *agent == request.agent)
            && self.query.as_ref().is_none_or(|query| query.is_match(question(request)))
            && self
                .context
                .iter()
                .all(|(name, pattern)| request.context.get(name).is_some_and(|value| pattern.is_match(&plain_text(value))))
    }
}

/// The last words of the person.
fn question(request: &Request) -> &str {
    request
        .messages
        .iter()
        .rev()
        .find_map(|message| match message {
            Message::User(text) => Some(text.as_str()),
            Message::Assistant(_) | Message::Step(_) => None,
        })
        .unwrap_or_default()
}

/// A string as it is, everything else as JSON.
fn plain_text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => Cow::Borrowed(text),
        other => Cow::Owned(other.to_string()),
    }
}
