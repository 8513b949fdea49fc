//! The YAML file: what may stand in it, and the rules it becomes.

use std::collections::BTreeMap;
use std::time::Duration;

use regex::Regex;
use serde::Deserialize;
use serde_json::Map;

use super::Rule;
use crate::model::agent::{AgentType, Confidence, Reply, Suggestion};

/// What a rule answers, ready to be played.
pub(super) struct Answer {
    pub(super) content: String,
    pub(super) calls: Vec<Call>,
    pub(super) reply: Reply,
    pub(super) pace: Pace,
}

/// A tool that is called.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Call {
    pub(super) name: String,
    #[serde(default = "nothing")]
    pub(super) input: serde_json::Value,
    /// The text of the arguments, when they are no JSON.
    pub(super) arguments: Option<String>,
}

fn nothing() -> serde_json::Value {
    serde_json::Value::Object(Map::new())
}

/// How an answer comes. By default whole and at once.
#[derive(Clone, Default)]
pub(super) struct Pace {
    /// Characters in a piece; without it all come in one.
    pub(super) chunk_chars: Option<usize>,
    /// Time before every piece but the first.
    pub(super) delay: Duration,
    /// Time before the first piece.
    pub(super) first_delay: Duration,
    /// What the model thinks first.
    pub(super) thinking: String,
    /// How it goes wrong.
    pub(super) fail: Option<Fail>,
    /// How many characters of the content come before it goes wrong; without it all.
    pub(super) after_chars: Option<usize>,
}

/// How an answer goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Fail {
    /// The connection breaks.
    Cut,
    /// The provider reports a fault.
    Error,
    /// Nothing comes any more.
    Hang,
    /// Refused: too many requests.
    #[serde(rename = "http_429")]
    TooMany,
    /// Refused: the provider is broken.
    #[serde(rename = "http_500")]
    Broken,
    /// An end without any text.
    Empty,
    /// The length limit is reached.
    Length,
}

impl Fail {
    /// Whether it happens instead of the content and not after it.
    pub(super) fn at_once(self) -> bool {
        matches!(self, Self::TooMany | Self::Broken | Self::Empty)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    defaults: Option<Defaults>,
    rules: Option<Vec<serde_yaml_ng::Value>>,
    fallback: Option<serde_yaml_ng::Value>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Defaults {
    confidence: Option<Confidence>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(rename = "match")]
    conditions: Option<Conditions>,
    response: Response,
    stream: Option<Stream>,
    then: Option<Vec<Then>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Then {
    response: Response,
    stream: Option<Stream>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Conditions {
    agent_type: Option<String>,
    query: Option<String>,
    context: Option<BTreeMap<String, String>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Response {
    content: Option<String>,
    tool_calls: Option<Vec<Call>>,
    agent_type: Option<String>,
    confidence: Option<Confidence>,
    suggestions: Option<Vec<Suggestion>>,
    metadata: Option<Map<String, serde_json::Value>>,
    reasoning: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stream {
    chunk_chars: Option<usize>,
    #[serde(default)]
    delay_ms: u64,
    #[serde(default)]
    first_delay_ms: u64,
    thinking: Option<String>,
    fail: Option<Fail>,
    after_chars: Option<usize>,
}

/// The rules and the fallback of a file.
pub(super) fn read(text: &str) -> Result<(Vec<Rule>, Answer), String> {
    let document: Document = serde_yaml_ng::from_str(text).map_err(|error| error.to_string())?;
    let confidence = document.defaults.unwrap_or_default().confidence.unwrap_or_default();
    let rules = document
        .rules
        .unwrap_or_default()
        .into_iter()
        .zip(1_usize..)
        .map(|(value, number)| {
            serde_yaml_ng::from_value::<Written>(value)
                .map_err(|error| error.to_string())
                .and_then(|written| rule(written, confidence))
                .map_err(|error| format!("rule {number}: {error}"))
        })
        .collect::<Result<_, _>>()?;
    let fallback = match document.fallback {
        Some(value) => serde_yaml_ng::from_value(value)
            .map_err(|error| error.to_string())
            .and_then(|response| answer(response, None, confidence))
            .map_err(|error| format!("fallback: {error}"))?,
        None => Answer {
            content: "No rule of the static model fits this question.".to_owned(),
            calls: Vec::new(),
            reply: reply(Response::default(), Confidence::Low)?,
            pace: Pace::default(),
        },
    };
    Ok((rules, fallback))
}

fn rule(written: Written, confidence: Confidence) -> Result<Rule, String> {
    let conditions = written.conditions.unwrap_or_default();
    let context = conditions.context.unwrap_or_default().into_iter();
    let later = written.then.unwrap_or_default().into_iter().map(|then| answer(then.response, then.stream, confidence));
    let first = answer(written.response, written.stream, confidence);
    Ok(Rule {
        agent: conditions.agent_type.map(|name| agent("match.agent_type", &name)).transpose()?,
        query: conditions.query.map(|pattern| regex("match.query", &pattern)).transpose()?,
        context: context
            .map(|(name, pattern)| regex(&format!("match.context.{name}"), &pattern).map(|pattern| (name, pattern)))
            .collect::<Result<_, _>>()?,
        answers: std::iter::once(first).chain(later).collect::<Result<_, _>>()?,
    })
}

fn answer(mut response: Response, stream: Option<Stream>, confidence: Confidence) -> Result<Answer, String> {
    let pace = stream.map(pace).transpose()?.unwrap_or_default();
    let calls = response.tool_calls.take().unwrap_or_default();
    let content = match response.content.take() {
        Some(content) => content,
        None if !calls.is_empty() => String::new(),
        None if pace.fail.is_some_and(Fail::at_once) => String::new(),
        None => return Err("response.content is missing".to_owned()),
    };
    Ok(Answer { content, calls, reply: reply(response, confidence)?, pace })
}

fn reply(response: Response, confidence: Confidence) -> Result<Reply, String> {
    let mut metadata = response.metadata.unwrap_or_default();
    metadata.insert("static_backend".to_owned(), true.into());
    Ok(Reply {
        agent_type: response.agent_type.map(|name| agent("response.agent_type", &name)).transpose()?,
        confidence: response.confidence.unwrap_or(confidence),
        suggestions: response.suggestions.unwrap_or_default(),
        metadata,
        reasoning: response.reasoning,
    })
}

fn pace(stream: Stream) -> Result<Pace, String> {
    if stream.chunk_chars == Some(0) {
        return Err("stream.chunk_chars: expected 1 or more".to_owned());
    }
    if stream.after_chars.is_some_and(|chars| chars > 0) {
        match stream.fail {
            None => return Err("stream.after_chars: needs stream.fail".to_owned()),
            Some(fail) if fail.at_once() => {
                return Err("stream.after_chars: this kind of stream.fail comes before any text".to_owned());
            }
            Some(_) => {}
        }
    }
    Ok(Pace {
        chunk_chars: stream.chunk_chars,
        delay: Duration::from_millis(stream.delay_ms),
        first_delay: Duration::from_millis(stream.first_delay_ms),
        thinking: stream.thinking.unwrap_or_default(),
        fail: stream.fail,
        after_chars: stream.after_chars,
    })
}

fn agent(place: &str, name: &str) -> Result<AgentType, String> {
    AgentType::parse(name).ok_or_else(|| format!("{place}: `{name}` is not the name of an agent (lower-case letters, digits and _)"))
}

fn regex(place: &str, pattern: &str) -> Result<Regex, String> {
    Regex::new(pattern).map_err(|error| format!("{place}: {error}"))
}
