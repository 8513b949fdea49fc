//! Which model answers: read from the environment, checked at start, connected once.

mod ollama;
mod secret;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rig_reqwest::reqwest::Url;

pub use self::ollama::DEFAULT_ADDRESS as OLLAMA_ADDRESS;
pub use self::secret::Secret;
use super::Model;
use super::remote::RemoteModel;
pub use super::remote::{Endpoint, Limits, Provider};
use super::static_rules::StaticModel;

const MODEL: &str = "CHATGXY_MODEL";
const BASE_URL: &str = "CHATGXY_MODEL_BASE_URL";
const API_KEY: &str = "CHATGXY_MODEL_API_KEY";
const RULES: &str = "CHATGXY_STATIC_RULES";
const CONNECT_TIMEOUT: &str = "CHATGXY_MODEL_CONNECT_TIMEOUT_S";
const FIRST_TOKEN_TIMEOUT: &str = "CHATGXY_MODEL_FIRST_TOKEN_TIMEOUT_S";
const IDLE_TIMEOUT: &str = "CHATGXY_MODEL_IDLE_TIMEOUT_S";
const OLLAMA_HOST: &str = "OLLAMA_HOST";

/// The names of the environment that belong to this module.
pub const ENV_NAMES: [&str; 7] = [MODEL, BASE_URL, API_KEY, RULES, CONNECT_TIMEOUT, FIRST_TOKEN_TIMEOUT, IDLE_TIMEOUT];

/// The model behind an `OPENAI_API_KEY`.
pub const DEFAULT_OPENAI_MODEL: &str = "gpt-5-mini";
/// The model behind an `ANTHROPIC_API_KEY`.
pub const DEFAULT_ANTHROPIC_MODEL: &str = "claude-haiku-4-5";
/// The model behind a `GEMINI_API_KEY`.
pub const DEFAULT_GEMINI_MODEL: &str = "gemini-flash-latest";

/// Keys that people have in their environment anyway, in the order in which one is taken.
const WELL_KNOWN: [(&str, Provider, &str); 3] = [
    ("OPENAI_API_KEY", Provider::OpenAi, DEFAULT_OPENAI_MODEL),
    ("ANTHROPIC_API_KEY", Provider::Anthropic, DEFAULT_ANTHROPIC_MODEL),
    ("GEMINI_API_KEY", Provider::Gemini, DEFAULT_GEMINI_MODEL),
];

/// What was configured about the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelSettings {
    /// The model by name; without it one is looked for.
    pub choice: Option<Choice>,
    /// Where the provider's API is, when not at its own address.
    pub base_url: Option<String>,
    /// The key for it.
    pub api_key: Option<Secret>,
    /// The file of static rules; without it the embedded demo rules.
    pub rules: Option<PathBuf>,
    /// Well-known keys that are set, in the order in which one is taken.
    pub well_known: Vec<(Provider, Secret)>,
    /// The address of the local Ollama.
    pub ollama: String,
    /// How long to wait for what.
    pub limits: Limits,
}

/// A model by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Static rules.
    Static,
    /// A provider's model.
    Remote {
        /// Whose.
        provider: Provider,
        /// Its name there.
        model: String,
    },
}

/// The connected model, and how it came to be this one.
pub struct Chosen {
    /// The model.
    pub model: Arc<dyn Model>,
    /// The model and where it is, for people.
    pub label: String,
    /// Why this one, as the end of a sentence.
    pub why: String,
}

impl Chosen {
    /// One line for the start banner.
    pub fn describe(&self) -> String {
        format!("{}, because {}", self.label, self.why)
    }
}

/// Connects the model that the settings ask for.
pub async fn connect(settings: &ModelSettings) -> Result<Arc<dyn Model>, String> {
    settings.choose().await.map(|chosen| chosen.model)
}

impl ModelSettings {
    /// Reads the settings; `get` looks up a variable. An empty value counts as unset.
    pub fn from_vars(get: &dyn Fn(&str) -> Option<String>) -> Result<Self, String> {
        let get = |name: &str| get(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
        let choice = get(MODEL).map(|value| choice(&value)).transpose()?;
        let base_url = get(BASE_URL).map(|value| base_url(&value)).transpose()?;
        let api_key = get(API_KEY).map(|value| key(API_KEY, value)).transpose()?;
        let rules = get(RULES).map(PathBuf::from);
        if choice.is_none() && rules.is_none() {
            for (name, set) in [(BASE_URL, base_url.is_some()), (API_KEY, api_key.is_some())] {
                if set {
                    return Err(format!("{name} is set but {MODEL} is not: set {MODEL} too, to one of {ALLOWED}"));
                }
            }
        }
        let mut well_known = Vec::new();
        for (name, provider, _) in WELL_KNOWN {
            if let Some(value) = get(name) {
                well_known.push((provider, key(name, value)?));
            }
        }
        // The variable is Ollama's own: a value that we cannot read matters only where it would be used.
        let ollama_asked =
            matches!(&choice, Some(Choice::Remote { provider: Provider::Ollama, .. })) || (choice.is_none() && rules.is_none());
        let ollama = get(OLLAMA_HOST).filter(|_| ollama_asked).map(|host| ollama::address(&host)).transpose()?;
        let settings = Self {
            choice,
            base_url,
            api_key,
            rules,
            well_known,
            ollama: ollama.unwrap_or_else(|| OLLAMA_ADDRESS.to_owned()),
            limits: Limits {
                connect: seconds(CONNECT_TIMEOUT, get(CONNECT_TIMEOUT))?.unwrap_or(Limits::DEFAULT.connect),
                first_token: seconds(FIRST_TOKEN_TIMEOUT, get(FIRST_TOKEN_TIMEOUT))?.unwrap_or(Limits::DEFAULT.first_token),
                idle: seconds(IDLE_TIMEOUT, get(IDLE_TIMEOUT))?.unwrap_or(Limits::DEFAULT.idle),
            },
        };
        if let Some(Choice::Remote { provider, model }) = &settings.choice {
            settings.endpoint(*provider, model)?;
        }
        Ok(settings)
    }

    /// Connects the model and says why it is this one. Looks for a local Ollama only when nothing else decides.
    pub async fn choose(&self) -> Result<Chosen, String> {
        match &self.choice {
            Some(Choice::Static) => self.fixed(format!("{MODEL} is static")),
            Some(Choice::Remote { provider, model }) => self.remote(self.endpoint(*provider, model)?, format!("{MODEL} asks for it")),
            None if self.rules.is_some() => self.fixed(format!("{RULES} is set")),
            None => self.found().await,
        }
    }

    /// Connects another model beside the chosen one, named like `CHATGXY_MODEL`. Address and key of the chosen one are for its own
    /// provider only; for another, the well-known key is taken.
    pub fn another(&self, name: &str) -> Result<Arc<dyn Model>, String> {
        let other = choice(name).map_err(|error| error.replace(MODEL, "model"))?;
        let Choice::Remote { provider, model } = &other else { return self.fixed(String::new()).map(|chosen| chosen.model) };
        let same = matches!(&self.choice, Some(Choice::Remote { provider: own, .. }) if own == provider);
        let mut settings = self.clone();
        if !same {
            (settings.base_url, settings.api_key) = (None, None);
        }
        let endpoint = settings.endpoint(*provider, model).map_err(|error| error.replace(MODEL, "model"))?;
        self.remote(endpoint, String::new()).map(|chosen| chosen.model)
    }

    async fn found(&self) -> Result<Chosen, String> {
        for (name, provider, model) in WELL_KNOWN {
            if let Some(key) = self.well_known_key(provider) {
                let endpoint = Endpoint { provider, model: model.to_owned(), base_url: None, key: Some(key.clone()) };
                return self.remote(endpoint, format!("{name} is set"));
            }
        }
        if let Some(model) = ollama::first_model(&self.ollama).await {
            let endpoint = Endpoint { provider: Provider::Ollama, model, base_url: Some(self.ollama.clone()), key: None };
            return self.remote(endpoint, format!("a local Ollama answers and {MODEL} is not set"));
        }
        self.fixed(format!("{MODEL} is not set, no provider's key is known and no Ollama answers at {}", self.ollama))
    }

    fn fixed(&self, why: String) -> Result<Chosen, String> {
        let Some(path) = &self.rules else {
            let model = StaticModel::embedded().map_err(|error| format!("the embedded demo rules: {error}"))?;
            return Ok(Chosen { model: Arc::new(model), label: "the demo model".to_owned(), why });
        };
        let wrong = |error: String| format!("{RULES}={}: {error}", path.display());
        let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
        let model = StaticModel::from_yaml(&text).map_err(wrong)?;
        Ok(Chosen { model: Arc::new(model), label: format!("the static rules of {}", path.display()), why })
    }

    fn remote(&self, endpoint: Endpoint, why: String) -> Result<Chosen, String> {
        let place = endpoint.base_url.as_ref().map(|url| format!(" at {url}")).unwrap_or_default();
        let label = format!("{} ({}{place})", endpoint.model, endpoint.provider.label());
        Ok(Chosen { model: Arc::new(RemoteModel::new(endpoint, self.limits)?), label, why })
    }

    fn endpoint(&self, provider: Provider, model: &str) -> Result<Endpoint, String> {
        let base_url = match provider {
            Provider::Ollama => Some(self.base_url.clone().unwrap_or_else(|| self.ollama.clone())),
            _ => self.base_url.clone(),
        };
        // A well-known key belongs to its provider: it must not travel to another address.
        let key = match (&self.api_key, &base_url) {
            (Some(key), _) => Some(key.clone()),
            (None, None) => Some(self.well_known_key(provider).cloned().ok_or_else(|| no_key(provider, model))?),
            (None, Some(_)) => None,
        };
        Ok(Endpoint { provider, model: model.to_owned(), base_url, key })
    }

    fn well_known_key(&self, provider: Provider) -> Option<&Secret> {
        self.well_known.iter().find(|(owner, _)| *owner == provider).map(|(_, key)| key)
    }
}

const ALLOWED: &str = "static, openai:NAME, anthropic:NAME, gemini:NAME, ollama:NAME";

fn choice(value: &str) -> Result<Choice, String> {
    if value == "static" {
        return Ok(Choice::Static);
    }
    let known = value.split_once(':').and_then(|(provider, model)| Some((Provider::parse(provider)?, model.trim())));
    match known {
        Some((provider, model)) if !model.is_empty() => Ok(Choice::Remote { provider, model: model.to_owned() }),
        _ => Err(format!("{MODEL}={value}: expected one of {ALLOWED}")),
    }
}

fn base_url(value: &str) -> Result<String, String> {
    let wrong = |what: &str| format!("{BASE_URL}: {what}; expected for example http://127.0.0.1:8080/v1");
    let url = Url::parse(value).map_err(|_| wrong("it is not a URL"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(wrong("only http and https are allowed"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(wrong(&format!("a user name or password is not allowed, use {API_KEY}")));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(wrong("a query or fragment is not allowed"));
    }
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

fn key(name: &str, value: String) -> Result<Secret, String> {
    if value.bytes().all(|byte| byte.is_ascii_graphic()) {
        Ok(Secret::new(value))
    } else {
        Err(format!("{name}: a key holds only visible ASCII characters, without spaces"))
    }
}

fn no_key(provider: Provider, model: &str) -> String {
    let own = WELL_KNOWN.iter().find(|(_, owner, _)| *owner == provider).map_or("", |(name, ..)| *name);
    format!("{MODEL}={}:{model} needs a key: set {API_KEY} or {own} (or {BASE_URL}, for a server of your own)", provider.name())
}

fn seconds(name: &str, value: Option<String>) -> Result<Option<Duration>, String> {
    let Some(value) = value else { return Ok(None) };
    match value.parse::<u32>() {
        Ok(seconds) if seconds > 0 => Ok(Some(Duration::from_secs(seconds.into()))),
        _ => Err(format!("{name}={value}: expected a whole number of seconds from 1")),
    }
}
