//! What the operator chose for single agents: a YAML file, one entry an agent.
//!
//! ```yaml
//! custom_tool: {model: "anthropic:claude-haiku-4-5", temperature: 0.2, max_tokens: 8000, context_tokens: 8000}
//! error_analysis: {enabled: false}
//! tool_recommendation: {tools: false}      # calls no tools
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;

use super::AGENTS;
use crate::ssr::llm::Model;

/// What was chosen for one agent.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentSettings {
    /// Its name.
    pub agent: String,
    /// Its model, like `CHATGXY_MODEL`.
    pub model: Option<String>,
    /// 0 to 2.
    pub temperature: Option<f64>,
    /// Longest answer, in tokens.
    pub max_tokens: Option<u64>,
    /// About how many tokens of the conversation it is shown.
    pub context_tokens: Option<usize>,
    /// Whether it can be asked.
    pub enabled: bool,
    /// Whether it may call tools.
    pub tools: bool,
}

/// The same with its model connected, if it has one of its own.
pub type Chosen = (AgentSettings, Option<Arc<dyn Model>>);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    model: Option<String>,
    temperature: Option<f64>,
    max_tokens: Option<u64>,
    context_tokens: Option<usize>,
    #[serde(default = "yes")]
    enabled: bool,
    #[serde(default = "yes")]
    tools: bool,
}

fn yes() -> bool {
    true
}

/// Reads the file. The error says which agent and what is allowed.
pub fn read(yaml: &str) -> Result<Vec<AgentSettings>, String> {
    let entries: BTreeMap<String, Entry> = serde_yaml_ng::from_str(yaml).map_err(|error| error.to_string())?;
    let read = |(agent, entry): (String, Entry)| {
        if AGENTS.iter().all(|known| known.name != agent) {
            let names: Vec<_> = AGENTS.iter().map(|known| known.name).collect();
            return Err(format!("there is no agent \"{agent}\": one of {}", names.join(", ")));
        }
        if entry.temperature.is_some_and(|temperature| !(0.0..=2.0).contains(&temperature)) {
            return Err(format!("{agent}: temperature is a number from 0 to 2"));
        }
        if entry.max_tokens == Some(0) {
            return Err(format!("{agent}: max_tokens is 1 or more"));
        }
        if entry.context_tokens.is_some_and(|tokens| !(1_000..=2_000_000).contains(&tokens)) {
            return Err(format!("{agent}: context_tokens is a number from 1000 to 2000000"));
        }
        let Entry { model, temperature, max_tokens, context_tokens, enabled, tools } = entry;
        Ok(AgentSettings { agent, model, temperature, max_tokens, context_tokens, enabled, tools })
    };
    entries.into_iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn settings_are_read_and_wrong_ones_named() {
        let read_one = read("custom_tool: {model: \"openai:x\", temperature: 0.2, max_tokens: 9}\nrouter: {enabled: false}\n").unwrap();
        assert_eq!((read_one[0].agent.as_str(), read_one[0].temperature, read_one[0].enabled), ("custom_tool", Some(0.2), true));
        assert!(!read_one[1].enabled);
        let table = [
            ("nobody: {}", "no agent \"nobody\""),
            ("router: {temperature: 3}", "router: temperature"),
            ("router: {max_tokens: 0}", "router: max_tokens"),
            ("router: {context_tokens: 5}", "router: context_tokens"),
            ("router: {colour: red}", "colour"),
            ("- router", "map"),
        ];
        for (yaml, why) in table {
            let error = read(yaml).unwrap_err();
            assert!(error.contains(why), "{yaml}: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_file_breaks_the_reader(text in any::<String>(), model in any::<String>(), number in any::<f64>()) {
            let _ = read(&text);
            let _ = read(&format!("router: {{model: {model:?}, temperature: {number}, max_tokens: {number}}}"));
        }
    }
}
