//! The tools that agents call: what each takes, who may call it, whether a person is asked first, where it runs.
//!
//! A tool gets a [`Scene`], never more: it acts for the person who asked, in the conversation that was asked in. What a model calls is
//! looked at here before anything happens ([`Toolbox::judge`]); what it may not do goes back to it as an error.

pub mod mcp;
mod own;
mod test;

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use jsonschema::Validator;
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::db::Db;
use super::engine::decide::{Output, Verdict};
use super::llm::Offer;
use crate::model::agent::AgentType;
use crate::model::error::AppError;
use crate::model::ids::{ExchangeId, UserId};
use crate::model::part::{CONSULT, Runner, ToolError};

/// How deep agents may consult each other: the one that answers, one that it consults, and one that that consults.
const DEPTH: usize = 2;
/// Longest result that is kept, as JSON, in bytes.
const OUTPUT_BYTES: usize = 256 * 1024;
/// Mistakes in the arguments that are told to the model at once.
const MISTAKES: usize = 3;

/// The tools that run in the browser.
pub const IN_BROWSER: [&str; 2] = ["copy_to_clipboard", "test_client"];

/// Whether a person is asked before a tool runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// No: it only reads what is the person's own.
    Always,
    /// Yes, unless the person said "always allow here".
    Ask,
    /// It does not run at all.
    Never,
}

/// The tools that an agent may call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kit {
    /// All there are.
    All,
    /// These.
    Only(&'static [&'static str]),
}

/// Where and for whom a tool runs. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Scene {
    /// The store.
    pub db: Db,
    /// The person who asked.
    pub user: UserId,
    /// The conversation.
    pub exchange: ExchangeId,
}

/// Why a tool gave nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Broken {
    /// It says so, in words for the model and the person.
    Refused(String),
    /// The connection to it broke: what it did is unknown.
    Connection,
}

impl From<AppError> for Broken {
    fn from(error: AppError) -> Self {
        match error {
            AppError::Unavailable => Self::Connection,
            other => Self::Refused(other.to_string()),
        }
    }
}

type Run = Box<dyn Fn(Scene, Value) -> BoxFuture<'static, Result<Output, Broken>> + Send + Sync>;

/// What is known of a tool.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Its name, unique, for the model.
    pub name: String,
    /// What it does and when to call it, for the model.
    pub description: String,
    /// JSON Schema of its arguments.
    pub schema: Value,
    /// Where it runs.
    pub runner: Runner,
    /// Whether a person is asked first.
    pub policy: Policy,
    /// How long it may run.
    pub timeout: Duration,
    /// Whether running it twice does no more than once: it is tried again when its connection breaks.
    pub idempotent: bool,
}

/// A tool of this server.
struct Tool {
    facts: Facts,
    validator: Option<Validator>,
    /// None: the browser, or the engine itself, runs it.
    run: Option<Run>,
}

impl Tool {
    fn new(name: &str, description: &str, schema: Value) -> Self {
        let validator = jsonschema::validator_for(&schema).ok();
        let facts = Facts {
            name: name.to_owned(),
            description: description.to_owned(),
            schema,
            runner: Runner::Server,
            policy: Policy::Ask,
            timeout: Duration::from_secs(30),
            idempotent: false,
        };
        Self { facts, validator, run: None }
    }

    /// One that takes `T`, and asks first unless told otherwise.
    fn taking<T: JsonSchema + DeserializeOwned + Send + 'static, F>(
        name: &str,
        description: &str,
        run: impl Fn(Scene, T) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<Output, Broken>> + Send + 'static,
    {
        let mut tool = Self::new(name, description, schema_of::<T>());
        tool.run = Some(Box::new(move |scene, input| match serde_json::from_value(input) {
            Ok(input) => Box::pin(run(scene, input)),
            Err(error) => Box::pin(async move { Err(Broken::Refused(error.to_string())) }),
        }));
        tool
    }

    /// One that runs in the browser, at once.
    fn in_browser<T: JsonSchema>(name: &str, description: &str) -> Self {
        let mut tool = Self::new(name, description, schema_of::<T>());
        tool.facts.runner = Runner::Browser;
        tool.facts.policy = Policy::Always;
        tool
    }

    /// One that only reads: it runs at once, and again if need be.
    fn reads(mut self) -> Self {
        self.facts.policy = Policy::Always;
        self.facts.idempotent = true;
        self
    }
}

/// The schema of a type as models are given it.
fn schema_of<T: JsonSchema>() -> Value {
    let mut schema = schemars::schema_for!(T).to_value();
    if let Some(object) = schema.as_object_mut() {
        // Of no use to a model, and refused by some providers.
        object.remove("$schema");
        object.remove("title");
    }
    schema
}

/// All tools. Cheap to clone.
#[derive(Clone)]
pub struct Toolbox {
    own: Arc<[Tool]>,
    servers: mcp::Servers,
    testing: bool,
}

impl Toolbox {
    /// The tools of this server and those of others. `consultable`: the agents that others may consult, with what each is for. `testing`
    /// adds the tools of the tests, and counts what runs.
    pub fn new(consultable: &[(&str, &str)], servers: mcp::Servers, testing: bool) -> Self {
        let mut own = own::all();
        if !consultable.is_empty() {
            own.push(consult(consultable));
        }
        if testing {
            own.extend(test::all());
        }
        Self { own: own.into(), servers, testing }
    }

    /// Whether the tools of the tests are among them.
    pub fn is_testing(&self) -> bool {
        self.testing
    }

    /// What an agent may call. `depth`: how many agents stand between it and the person.
    pub fn offered(&self, kit: Kit, depth: usize) -> Vec<Offer> {
        let own = self.own.iter().map(|tool| tool.facts.clone());
        own.chain(self.servers.tools().into_iter().map(facts_of_mcp)).filter(|facts| self.is_for(facts, kit, depth)).map(offer).collect()
    }

    fn is_for(&self, facts: &Facts, kit: Kit, depth: usize) -> bool {
        let in_kit = match kit {
            Kit::All => true,
            Kit::Only(names) => names.contains(&facts.name.as_str()) || (self.testing && facts.name.starts_with(test::PREFIX)),
        };
        in_kit && facts.policy != Policy::Never && (facts.name != CONSULT || depth < DEPTH)
    }

    /// What is to be done with a call. `granted`: the tools that need not be asked for. `agents`: those that lead to the one that calls,
    /// itself last.
    pub fn judge(&self, kit: Kit, agents: &[AgentType], name: &str, input: &Value, granted: &[String]) -> Verdict {
        let depth = agents.len().saturating_sub(1);
        let known = self.own.iter().find(|tool| tool.facts.name == name);
        let facts = match known {
            Some(tool) => Some(tool.facts.clone()),
            None => self.servers.tools().into_iter().find(|tool| tool.name == name).map(facts_of_mcp),
        };
        let Some(facts) = facts.filter(|facts| self.is_for(facts, kit, depth)) else {
            let names: Vec<String> = self.offered(kit, depth).into_iter().map(|offer| offer.name).collect();
            return Verdict::Refuse(format!("There is no tool \"{name}\". There are: {}.", names.join(", ")));
        };
        let wrong = match known {
            Some(tool) => tool.validator.as_ref().and_then(|validator| mistakes(validator, input)),
            None => jsonschema::validator_for(&facts.schema).ok().and_then(|validator| mistakes(&validator, input)),
        };
        if let Some(wrong) = wrong {
            return Verdict::Refuse(wrong);
        }
        if name == CONSULT && agents.iter().any(|agent| Some(agent.as_str()) == input["agent"].as_str()) {
            return Verdict::Refuse("That agent is asking already; consult another one, or answer yourself.".to_owned());
        }
        match (facts.policy, facts.runner) {
            (Policy::Ask, runner) if !granted.iter().any(|tool| tool == name) => Verdict::Ask(runner),
            (_, Runner::Server) => Verdict::Run,
            (_, Runner::Browser) => Verdict::Browser,
        }
    }

    /// Whether a person may be asked for a tool, or not any more.
    pub fn can_ask(&self, name: &str) -> bool {
        let own = self.own.iter().find(|tool| tool.facts.name == name).map(|tool| tool.facts.policy);
        own.or_else(|| self.servers.tools().into_iter().find(|tool| tool.name == name).map(|tool| tool.policy)) == Some(Policy::Ask)
    }

    /// Runs a call that was judged, within its time. Dropping the future cancels it.
    pub async fn run(&self, scene: Scene, name: &str, input: Value) -> Result<Output, ToolError> {
        if self.testing
            && let Err(error) = scene.db.note_test_run(scene.exchange, name).await
        {
            return Err(ToolError::Refused(error.to_string()));
        }
        let (idempotent, timeout) = match self.own.iter().find(|tool| tool.facts.name == name) {
            Some(tool) => (tool.facts.idempotent, tool.facts.timeout),
            None => self
                .servers
                .tools()
                .into_iter()
                .find(|tool| tool.name == name)
                .map_or((false, Duration::from_mins(1)), |tool| (tool.idempotent, tool.timeout)),
        };
        let tries = async {
            let first = self.run_once(scene.clone(), name, input.clone()).await;
            if first == Err(Broken::Connection) && idempotent { self.run_once(scene, name, input).await } else { first }
        };
        match tokio::time::timeout(timeout, tries).await {
            Ok(Ok(output)) => Ok(Output { value: short(output.value), ..output }),
            Ok(Err(Broken::Refused(why))) => Err(ToolError::Refused(why)),
            Ok(Err(Broken::Connection)) => Err(ToolError::OutcomeUnknown),
            Err(_) => Err(ToolError::TimedOut(timeout.as_secs())),
        }
    }

    async fn run_once(&self, scene: Scene, name: &str, input: Value) -> Result<Output, Broken> {
        match self.own.iter().find(|tool| tool.facts.name == name) {
            Some(Tool { run: Some(run), .. }) => run(scene, input).await,
            Some(_) => Err(Broken::Refused("This tool does not run on the server.".to_owned())),
            None => {
                let Value::Object(input) = input else { return Err(Broken::Refused("The arguments are no object.".to_owned())) };
                let value = self.servers.call(name, input).await?;
                Ok(Output { value, sources: Vec::new() })
            }
        }
    }
}

fn offer(facts: Facts) -> Offer {
    Offer { name: facts.name, description: facts.description, schema: facts.schema }
}

fn facts_of_mcp(tool: mcp::McpTool) -> Facts {
    let mcp::McpTool { name, title, description, schema, policy, timeout, idempotent } = tool;
    let description = if description.is_empty() { title } else { description };
    Facts { name, description, schema, runner: Runner::Server, policy, timeout, idempotent }
}

/// What is wrong with the arguments, in words for the model.
fn mistakes(validator: &Validator, input: &Value) -> Option<String> {
    let wrong = validator.iter_errors(input).take(MISTAKES).fold(String::new(), |mut all, error| {
        let path = error.instance_path().to_string();
        let place = if path.is_empty() { "arguments".to_owned() } else { path };
        let _ = write!(all, " {place}: {error}.");
        all
    });
    (!wrong.is_empty()).then(|| format!("These arguments do not fit the tool.{wrong}"))
}

/// A result as it is kept.
fn short(value: Value) -> Value {
    let text = value.to_string();
    if text.len() <= OUTPUT_BYTES {
        return value;
    }
    let end = text.floor_char_boundary(OUTPUT_BYTES);
    Value::String(format!("{}… (cut: the whole result has {} bytes)", &text[..end], text.len()))
}

/// The tool by which an agent asks another one. The engine runs it: the other agent's steps are part of the turn.
fn consult(consultable: &[(&str, &str)]) -> Tool {
    let agents: Vec<&str> = consultable.iter().map(|(name, _)| *name).collect();
    let list = consultable.iter().fold(String::new(), |mut all, (name, purpose)| {
        let _ = write!(all, " {name}: {purpose}");
        all
    });
    let schema = json!({
        "type": "object",
        "properties": {
            "agent": { "type": "string", "enum": agents, "description": "Which agent." },
            "question": { "type": "string", "minLength": 1, "maxLength": 20_000,
                "description": "What it should answer, with all that it needs to know: it sees nothing of this conversation." },
        },
        "required": ["agent", "question"],
        "additionalProperties": false,
    });
    let description = format!("Asks a specialist and gives its answer. For a part of the question that one of them knows better.{list}");
    let mut tool = Tool::new(CONSULT, &description, schema);
    tool.facts.policy = Policy::Always;
    tool
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toolbox() -> Toolbox {
        Toolbox::new(&[("error_analysis", "Explains errors."), ("custom_tool", "Writes tools.")], mcp::Servers::default(), true)
    }

    fn agents(names: &[&str]) -> Vec<AgentType> {
        names.iter().filter_map(|name| AgentType::parse(name)).collect()
    }

    fn judge(names: &[&str], tool: &str, input: Value, granted: &[&str]) -> Verdict {
        let granted: Vec<String> = granted.iter().map(ToString::to_string).collect();
        toolbox().judge(Kit::All, &agents(names), tool, &input, &granted)
    }

    fn refusal(verdict: Verdict) -> String {
        match verdict {
            Verdict::Refuse(why) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_kind_of_call_is_judged() {
        let router = &["router"][..];
        assert_eq!(judge(router, "search_tools", json!({"query": "trim"}), &[]), Verdict::Run);
        assert_eq!(judge(router, "list_conversations", json!({}), &[]), Verdict::Run);
        assert_eq!(judge(router, "rename_exchange", json!({"title": "x"}), &[]), Verdict::Ask(Runner::Server));
        assert_eq!(judge(router, "rename_exchange", json!({"title": "x"}), &["rename_exchange"]), Verdict::Run);
        assert_eq!(judge(router, "copy_to_clipboard", json!({"text": "x"}), &[]), Verdict::Browser);
        assert_eq!(judge(router, CONSULT, json!({"agent": "custom_tool", "question": "?"}), &[]), Verdict::Run);
    }

    #[test]
    fn what_cannot_run_is_refused_in_words_that_help() {
        let router = &["router"][..];
        assert!(refusal(judge(router, "fly", json!({}), &[])).contains("\"fly\". There are: search_tools"));
        for input in [json!({}), json!({"query": 5}), json!("trim"), json!({"query": "x", "other": 1}), json!({"query": ""})] {
            let why = refusal(judge(router, "search_tools", input.clone(), &[]));
            assert!(why.starts_with("These arguments do not fit the tool."), "{input}: {why}");
        }
        assert!(refusal(judge(router, CONSULT, json!({"agent": "router", "question": "?"}), &[])).contains("agent"));
        let asking_itself = judge(&["router", "error_analysis"], CONSULT, json!({"agent": "error_analysis", "question": "?"}), &[]);
        assert!(refusal(asking_itself).contains("already"));
        let too_deep = judge(&["router", "error_analysis", "custom_tool"], CONSULT, json!({"agent": "custom_tool", "question": "?"}), &[]);
        assert!(refusal(too_deep).contains("There is no tool"));
    }

    #[test]
    fn an_agent_is_offered_its_kit_only() {
        let names = |kit, depth| toolbox().offered(kit, depth).into_iter().map(|offer| offer.name).collect::<Vec<_>>();
        assert!(names(Kit::All, 0).contains(&CONSULT.to_owned()));
        assert!(!names(Kit::All, 2).contains(&CONSULT.to_owned()));
        let few = names(Kit::Only(&["search_tools"]), 1);
        assert!(few.contains(&"search_tools".to_owned()) && !few.contains(&"rename_exchange".to_owned()));
    }

    #[test]
    fn every_schema_is_an_object_that_takes_nothing_unknown() {
        for offer in toolbox().offered(Kit::All, 0) {
            assert_eq!(offer.schema["type"], "object", "{}", offer.name);
            assert_eq!(offer.schema["additionalProperties"], false, "{}", offer.name);
            assert!(offer.description.len() > 20, "{}", offer.name);
        }
    }

    #[test]
    fn a_result_that_is_too_long_says_that_it_was_cut() {
        assert_eq!(short(json!({"a": 1})), json!({"a": 1}));
        let cut = short(json!("ü".repeat(OUTPUT_BYTES)));
        assert!(cut.as_str().unwrap().ends_with("bytes)") && cut.to_string().len() < OUTPUT_BYTES + 200);
    }
}
