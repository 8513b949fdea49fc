//! Tools of the tests, there only with `CHATGXY_TEST_TOOLS=1`: one for each way in which a tool can behave.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{Broken, Policy, Scene, Tool};
use crate::ssr::engine::decide::Output;

/// What their names begin with.
pub(super) const PREFIX: &str = "test_";

/// What the tools of the tests take.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Anything {
    /// Comes back in the result.
    #[serde(default)]
    text: String,
    /// How long it takes, in milliseconds.
    #[serde(default)]
    ms: u64,
}

pub(super) fn all() -> Vec<Tool> {
    let mut slow = Tool::taking("test_slow", "A tool of the tests that takes its time.", echo);
    slow.facts.policy = Policy::Always;
    slow.facts.timeout = Duration::from_secs(5);
    let mut fail = Tool::taking("test_fail", "A tool of the tests that always fails.", fail);
    fail.facts.policy = Policy::Always;
    vec![
        Tool::taking("test_gated", "A tool of the tests that asks first.", echo),
        slow,
        fail,
        Tool::in_browser::<Anything>("test_client", "A tool of the tests that the browser runs."),
    ]
}

async fn echo(_: Scene, input: Anything) -> Result<Output, Broken> {
    tokio::time::sleep(Duration::from_millis(input.ms)).await;
    Ok(Output { value: json!({ "echo": input.text }), sources: Vec::new() })
}

async fn fail(_: Scene, input: Anything) -> Result<Output, Broken> {
    tokio::time::sleep(Duration::from_millis(input.ms)).await;
    let why = if input.text.is_empty() { "The tool of the tests failed." } else { &input.text };
    Err(Broken::Refused(why.to_owned()))
}
