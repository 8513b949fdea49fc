//! All settings, read once at the start from environment variables. A wrong value or an unknown name is an error that says which,
//! and what is allowed; all errors are reported together, one per line.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use axum::http::uri::Authority;
use axum::http::{HeaderName, Uri};
use ipnet::IpNet;
use sqlx::sqlite::SqliteConnectOptions;

use super::agents::settings::AgentSettings;
use super::engine::{Caps, Times};
use super::llm::settings::ModelSettings;
use super::tools::mcp::ServerSettings;

/// Our variables, with what each may be. `DATABASE_URL` and the providers' own key variables are read beside them.
const KNOWN: &[(&str, &str)] = &[
    ("CHATGXY_ADDR", "an address and a port, for example 127.0.0.1:3000"),
    ("CHATGXY_DATA_DIR", "a directory"),
    ("CHATGXY_MODEL", "static, openai:NAME, anthropic:NAME, gemini:NAME or ollama:NAME"),
    ("CHATGXY_MODEL_BASE_URL", "an http or https URL"),
    ("CHATGXY_MODEL_API_KEY", "the provider's key"),
    ("CHATGXY_MODEL_CONNECT_TIMEOUT_S", "seconds, 1 or more"),
    ("CHATGXY_MODEL_FIRST_TOKEN_TIMEOUT_S", "seconds, 1 or more"),
    ("CHATGXY_MODEL_IDLE_TIMEOUT_S", "seconds, 1 or more"),
    ("CHATGXY_STATIC_RULES", "a YAML file"),
    ("CHATGXY_REGISTRATION", "open or closed"),
    ("CHATGXY_LOG", "error, warn, info, debug, trace or off, or a list like info,server=debug"),
    ("CHATGXY_PUBLIC_URL", "the address people use, for example https://chat.example.org, without a path"),
    ("CHATGXY_TRUSTED_PROXIES", "addresses or ranges with commas between, for example 10.0.0.5,192.168.0.0/16"),
    ("CHATGXY_PROXY_USER_HEADER", "the name of a header, with CHATGXY_TRUSTED_PROXIES"),
    ("CHATGXY_KEY_IN_QUERY", "0 or 1"),
    ("CHATGXY_CONTEXT_TOKENS", "a number from 1000 to 2000000"),
    ("CHATGXY_AGENTS", "a YAML file"),
    ("CHATGXY_STEPS", "a number from 1 to 100"),
    ("CHATGXY_APPROVAL_S", "seconds, 1 to 31536000"),
    ("CHATGXY_BROWSER_TOOL_S", "seconds, 1 to 86400"),
    ("CHATGXY_MCP", "a YAML file"),
    (TEST_TOOLS, "0 or 1"),
    ("CHATGXY_TURNS_AT_ONCE", "a number from 1 to 1000000"),
    ("CHATGXY_TOKENS_A_DAY", "a number from 1 to 1000000000000"),
    ("CHATGXY_REQUESTS_A_MINUTE", "a number from 1 to 100000000"),
    ("CHATGXY_CONNECTIONS", "a number from 1 to 1000000"),
    ("CHATGXY_CONNECTIONS_AN_ADDRESS", "a number from 1 to 1000000"),
    ("CHATGXY_LEASE_S", "seconds, 1 to 3600"),
    ("CHATGXY_DRAIN_S", "seconds, 0 to 600"),
];

/// Adds the tools of the tests.
const TEST_TOOLS: &str = "CHATGXY_TEST_TOOLS";
/// Where the tests make the server die or dawdle; known to debug builds only.
pub const TEST_FAULTS: &str = "CHATGXY_TEST_FAULTS";
/// The file by which the tests set the clock; known to debug builds only.
pub const TEST_CLOCK: &str = "CHATGXY_TEST_CLOCK";

/// What the operator chose.
#[derive(Debug)]
pub struct Config {
    /// Where to listen (`CHATGXY_ADDR`, default `127.0.0.1:3000`).
    pub addr: SocketAddr,
    /// Where what the server keeps lies (`CHATGXY_DATA_DIR`, default `./data`); made when it is missing.
    pub data_dir: PathBuf,
    /// The store (`DATABASE_URL`, default `chatgxy.db` in the data directory).
    pub database: DatabaseUrl,
    /// Who answers (`CHATGXY_MODEL`, `CHATGXY_MODEL_BASE_URL`, `CHATGXY_MODEL_API_KEY`, `CHATGXY_STATIC_RULES`, the three
    /// `CHATGXY_MODEL_…_TIMEOUT_S`, and the providers' own variables).
    pub model: ModelSettings,
    /// Who may make an account (`CHATGXY_REGISTRATION`, default `open`).
    pub registration: Registration,
    /// What is logged (`CHATGXY_LOG`, default `info`).
    pub log: String,
    /// The address people use (`CHATGXY_PUBLIC_URL`), when a proxy changes `Host` or ends HTTPS. With `https` cookies are always
    /// secure ones.
    pub public_url: Option<PublicUrl>,
    /// Whose `X-Forwarded-For` and `X-Forwarded-Proto` are believed (`CHATGXY_TRUSTED_PROXIES`, default none).
    pub trusted_proxies: Vec<IpNet>,
    /// The header by which a trusted proxy signs people in by their email (`CHATGXY_PROXY_USER_HEADER`, default off). The proxy
    /// must remove it from what clients send.
    pub proxy_user_header: Option<HeaderName>,
    /// Whether a key may come as `?key=` too, for clients that know no other way (`CHATGXY_KEY_IN_QUERY=1`, default 0): addresses
    /// end in logs and histories.
    pub key_in_query: bool,
    /// About how many tokens of a conversation a model is shown (`CHATGXY_CONTEXT_TOKENS`, default 16000).
    pub context_tokens: usize,
    /// What was chosen for single agents (`CHATGXY_AGENTS`, a YAML file, see [`super::agents::settings`]).
    pub agents: Vec<AgentSettings>,
    /// The servers of other tools (`CHATGXY_MCP`, a YAML file, see [`super::tools::mcp`]).
    pub tool_servers: Vec<ServerSettings>,
    /// Whether the tools of the tests are there (`CHATGXY_TEST_TOOLS=1`, default 0). Not for people.
    pub test_tools: bool,
    /// What one person may use (`CHATGXY_TURNS_AT_ONCE`, default 8; `CHATGXY_TOKENS_A_DAY`, default 2,000,000), and how many steps an
    /// agent takes at most (`CHATGXY_STEPS`, default 10).
    pub caps: Caps,
    /// Requests that one person, by session or key, may make (`CHATGXY_REQUESTS_A_MINUTE`, default 600); one address three times that.
    pub requests_a_minute: u32,
    /// Connections at once (`CHATGXY_CONNECTIONS`, default 4096).
    pub connections: usize,
    /// Connections at once from one address that is no trusted proxy's (`CHATGXY_CONNECTIONS_AN_ADDRESS`, default 256).
    pub connections_an_address: usize,
    /// When turns count as lost (`CHATGXY_LEASE_S`, default 30), how long a shutdown waits for answers (`CHATGXY_DRAIN_S`, default 5),
    /// how long a person is asked (`CHATGXY_APPROVAL_S`, default a day), and how long a tab is waited for (`CHATGXY_BROWSER_TOOL_S`,
    /// default 120).
    pub times: Times,
}

/// The URL of the store. It may hold a password, so it is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct DatabaseUrl(String);

impl DatabaseUrl {
    /// The URL itself.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// The file, if it is SQLite's.
    pub fn sqlite_file(&self) -> Option<PathBuf> {
        let options = SqliteConnectOptions::from_str(&self.0).ok()?;
        self.0.starts_with("sqlite:").then(|| options.get_filename().to_path_buf())
    }

    fn in_dir(dir: &Path) -> Self {
        let dir = dir.to_string_lossy().replace('%', "%25").replace('?', "%3F");
        Self(format!("sqlite://{}/chatgxy.db", dir.trim_end_matches('/')))
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DatabaseUrl(…)")
    }
}

/// Who may make an account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Registration {
    /// Everyone who can reach the server.
    #[default]
    Open,
    /// The operator, with `chatgxy user add`.
    Closed,
}

/// The address people use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicUrl {
    /// Whether it is `https`.
    pub https: bool,
    /// Host, and port when it is not the usual one.
    pub authority: Authority,
}

impl Config {
    /// Reads the variables of a process.
    ///
    /// # Errors
    /// One line for each wrong value and each unknown name that begins with `CHATGXY_`.
    pub fn from_vars(vars: impl Iterator<Item = (String, String)>) -> Result<Self, String> {
        // An empty value is as good as none: that is how compose files and shells say "not set".
        let vars: BTreeMap<String, String> =
            vars.map(|(name, value)| (name, value.trim().to_owned())).filter(|(_, value)| !value.is_empty()).collect();
        let mut errors: Vec<String> = vars.keys().filter_map(|name| unknown(name)).collect();
        let mut read = Reader { vars: &vars, errors: &mut errors };

        let addr = read.value("CHATGXY_ADDR", address).unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 3000)));
        let data_dir = vars.get("CHATGXY_DATA_DIR").map_or_else(|| PathBuf::from("./data"), PathBuf::from);
        let database = read.value("DATABASE_URL", database_url).unwrap_or_else(|| DatabaseUrl::in_dir(&data_dir));
        let registration = read.value("CHATGXY_REGISTRATION", registration).unwrap_or_default();
        let log = read.value("CHATGXY_LOG", log_filter).unwrap_or_else(|| "info".to_owned());
        let public_url = read.value("CHATGXY_PUBLIC_URL", public_url);
        let trusted_proxies = read.value("CHATGXY_TRUSTED_PROXIES", ranges).unwrap_or_default();
        let proxy_user_header = read.value("CHATGXY_PROXY_USER_HEADER", |text| text.parse().ok());
        let key_in_query = read.number("CHATGXY_KEY_IN_QUERY", 0, 1) == Some(1);
        let context_tokens = read.number("CHATGXY_CONTEXT_TOKENS", 1_000, 2_000_000).unwrap_or(16_000);
        let count = |number: Option<u64>, default: i64| number.map_or(default, |number| i64::try_from(number).unwrap_or(i64::MAX));
        let caps = Caps {
            turns_at_once: count(read.number("CHATGXY_TURNS_AT_ONCE", 1, 1_000_000), 8),
            tokens_a_day: count(read.number("CHATGXY_TOKENS_A_DAY", 1, 1_000_000_000_000), 2_000_000),
            steps: read.number("CHATGXY_STEPS", 1, 100).and_then(|steps| u32::try_from(steps).ok()).unwrap_or(10),
        };
        let requests_a_minute = read.number("CHATGXY_REQUESTS_A_MINUTE", 1, 100_000_000).unwrap_or(600);
        let connections = read.number("CHATGXY_CONNECTIONS", 1, 1_000_000).unwrap_or(4_096);
        let connections_an_address = read.number("CHATGXY_CONNECTIONS_AN_ADDRESS", 1, 1_000_000).unwrap_or(256);
        let lease = read.number("CHATGXY_LEASE_S", 1, 3_600).map_or(Times::default().lease, Duration::from_secs);
        let drain = read.number("CHATGXY_DRAIN_S", 0, 600).map_or(Times::default().drain, Duration::from_secs);
        let approval = read.number("CHATGXY_APPROVAL_S", 1, 31_536_000).map_or(Times::default().approval, Duration::from_secs);
        let browser = read.number("CHATGXY_BROWSER_TOOL_S", 1, 86_400).map_or(Times::default().browser, Duration::from_secs);
        let test_tools = read.number(TEST_TOOLS, 0, 1) == Some(1);
        if vars.contains_key("CHATGXY_PROXY_USER_HEADER") && !vars.contains_key("CHATGXY_TRUSTED_PROXIES") {
            errors.push("CHATGXY_PROXY_USER_HEADER needs CHATGXY_TRUSTED_PROXIES: without it anyone could sign in as anyone".into());
        }
        let model = ModelSettings::from_vars(&|name| vars.get(name).cloned()).map_err(|error| errors.push(error)).ok();
        let agents = vars.get("CHATGXY_AGENTS").map_or(Ok(Vec::new()), |path| agents(path));
        let agents = agents.unwrap_or_else(|error| {
            errors.push(format!("CHATGXY_AGENTS: {error}"));
            Vec::new()
        });
        let tool_servers = vars.get("CHATGXY_MCP").map_or(Ok(Vec::new()), |path| tool_servers(path));
        let tool_servers = tool_servers.unwrap_or_else(|error| {
            errors.push(format!("CHATGXY_MCP: {error}"));
            Vec::new()
        });
        let (Some(model), true) = (model, errors.is_empty()) else { return Err(errors.join("\n")) };
        Ok(Self {
            addr,
            data_dir,
            database,
            model,
            registration,
            log,
            public_url,
            trusted_proxies,
            proxy_user_header,
            key_in_query,
            context_tokens: usize::try_from(context_tokens).unwrap_or(usize::MAX),
            agents,
            tool_servers,
            test_tools,
            caps,
            requests_a_minute: u32::try_from(requests_a_minute).unwrap_or(u32::MAX),
            connections: usize::try_from(connections).unwrap_or(usize::MAX),
            connections_an_address: usize::try_from(connections_an_address).unwrap_or(usize::MAX),
            times: Times { lease, renew: lease / 3, drain, approval, browser },
        })
    }

    /// Whether a peer's forwarding headers are believed.
    pub fn trusts(&self, peer: IpAddr) -> bool {
        let peer = peer.to_canonical();
        self.trusted_proxies.iter().any(|range| range.contains(&peer))
    }
}

struct Reader<'a> {
    vars: &'a BTreeMap<String, String>,
    errors: &'a mut Vec<String>,
}

impl Reader<'_> {
    /// The value of a variable, if it is set; when it is wrong, that is noted.
    fn value<T>(&mut self, name: &str, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
        let text = self.vars.get(name)?;
        let value = parse(text);
        if value.is_none() {
            // The value of this one may hold a password.
            let shown = if name == "DATABASE_URL" { "this value".to_owned() } else { format!("{text:?}") };
            self.errors.push(format!("{name}: {shown} is not allowed; allowed is {}", allowed(name)));
        }
        value
    }

    fn number(&mut self, name: &str, least: u64, most: u64) -> Option<u64> {
        self.value(name, |text| text.parse().ok().filter(|number| (least..=most).contains(number)))
    }
}

fn allowed(name: &str) -> &'static str {
    let known = KNOWN.iter().find(|(known, _)| *known == name);
    known.map_or("sqlite://FILE or postgres://USER:PASSWORD@HOST/NAME", |(_, allowed)| allowed)
}

/// The error for a name that we would have to know, and do not.
fn unknown(name: &str) -> Option<String> {
    let of_tests = cfg!(debug_assertions) && [TEST_FAULTS, TEST_CLOCK].contains(&name);
    if !name.starts_with("CHATGXY_") || of_tests || KNOWN.iter().any(|(known, _)| *known == name) {
        return None;
    }
    let (nearest, _) = KNOWN.iter().min_by_key(|(known, _)| distance(known, name))?;
    let all: Vec<&str> = KNOWN.iter().map(|(known, _)| *known).collect();
    Some(format!("{name} is not known; did you mean {nearest}? Known are {}", all.join(", ")))
}

/// How many letters must be put in, taken out or replaced to make one name the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, right) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(left != *right);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

fn agents(path: &str) -> Result<Vec<AgentSettings>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    super::agents::settings::read(&text).map_err(|error| format!("{path}: {error}"))
}

fn tool_servers(path: &str) -> Result<Vec<ServerSettings>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    super::tools::mcp::read(&text).map_err(|error| format!("{path}: {error}"))
}

fn address(text: &str) -> Option<SocketAddr> {
    let text = text.strip_prefix("localhost:").map_or_else(|| text.to_owned(), |port| format!("127.0.0.1:{port}"));
    text.parse().ok()
}

fn database_url(text: &str) -> Option<DatabaseUrl> {
    let known = ["sqlite:", "postgres://", "postgresql://"].iter().any(|scheme| text.starts_with(scheme));
    known.then(|| DatabaseUrl(text.to_owned()))
}

fn registration(text: &str) -> Option<Registration> {
    match text {
        "open" => Some(Registration::Open),
        "closed" => Some(Registration::Closed),
        _ => None,
    }
}

fn log_filter(text: &str) -> Option<String> {
    let is_level = |level: &str| ["off", "error", "warn", "info", "debug", "trace"].contains(&level);
    let is_target = |target: &str| !target.is_empty() && target.bytes().all(|b| b.is_ascii_alphanumeric() || b"_:-".contains(&b));
    let fits = text.split(',').map(str::trim).all(|part| match part.split_once('=') {
        Some((target, level)) => is_target(target) && is_level(level),
        None => is_level(part),
    });
    fits.then(|| text.to_owned())
}

fn public_url(text: &str) -> Option<PublicUrl> {
    let uri: Uri = text.parse().ok()?;
    let https = match uri.scheme_str()? {
        "https" => true,
        "http" => false,
        _ => return None,
    };
    let authority = uri.authority()?.clone();
    let bare = uri.path() == "/" && uri.query().is_none() && !authority.as_str().contains('@');
    bare.then_some(PublicUrl { https, authority })
}

fn ranges(text: &str) -> Option<Vec<IpNet>> {
    let range = |part: &str| part.parse::<IpNet>().ok().or_else(|| part.parse::<IpAddr>().ok().map(IpNet::from));
    text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(vars: &[(&str, &str)]) -> Result<Config, String> {
        Config::from_vars(vars.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())))
    }

    fn errors(vars: &[(&str, &str)]) -> String {
        read(vars).unwrap_err()
    }

    #[test]
    fn nothing_set_gives_the_documented_defaults() {
        let config = read(&[("PATH", "/bin"), ("CHATGXY_ADDR", " ")]).unwrap();
        assert_eq!(config.addr.to_string(), "127.0.0.1:3000");
        assert_eq!(config.data_dir, PathBuf::from("./data"));
        assert_eq!(config.database.expose(), "sqlite://./data/chatgxy.db");
        assert_eq!(config.registration, Registration::Open);
        assert_eq!((config.log.as_str(), config.context_tokens), ("info", 16_000));
        assert_eq!((config.public_url, config.proxy_user_header), (None, None));
        assert_eq!((config.times.lease, config.times.drain), (Duration::from_secs(30), Duration::from_secs(5)));
        assert!(config.trusted_proxies.is_empty());
    }

    #[test]
    fn every_variable_of_the_model_is_known() {
        for name in crate::ssr::llm::settings::ENV_NAMES {
            assert_eq!(unknown(name), None);
        }
    }

    #[test]
    fn the_database_lies_in_the_data_directory_whatever_its_name() {
        let config = read(&[("CHATGXY_DATA_DIR", "/srv/50% off?/")]).unwrap();
        assert_eq!(config.database.sqlite_file(), Some(PathBuf::from("/srv/50% off?/chatgxy.db")));
    }

    #[test]
    fn the_database_url_is_never_printed() {
        let config = read(&[("DATABASE_URL", "postgres://me:hidden@db/x")]).unwrap();
        assert_eq!(format!("{:?}", config.database), "DatabaseUrl(…)");
        assert_eq!(config.database.sqlite_file(), None);
        assert!(!errors(&[("DATABASE_URL", "mysql://me:hidden@db/x")]).contains("hidden"));
    }

    #[test]
    fn an_unknown_name_is_an_error_that_names_it_the_nearest_and_all() {
        let error = errors(&[("CHATGXY_ADR", "127.0.0.1:1")]);
        assert!(error.starts_with("CHATGXY_ADR is not known; did you mean CHATGXY_ADDR? Known are CHATGXY_ADDR, CHATGXY_DATA_DIR,"));
    }

    #[test]
    fn all_wrong_values_are_reported_at_once_one_per_line_with_what_is_allowed() {
        let error = errors(&[
            ("CHATGXY_ADDR", "here"),
            ("CHATGXY_REGISTRATION", "maybe"),
            ("CHATGXY_LOG", "loud"),
            ("CHATGXY_PUBLIC_URL", "https://chat.example.org/path"),
            ("CHATGXY_TRUSTED_PROXIES", "10.0.0.0/99"),
            ("CHATGXY_KEY_IN_QUERY", "yes"),
            ("CHATGXY_CONTEXT_TOKENS", "12"),
            ("CHATGXY_CONNECTIONS", "0"),
            ("CHATGXY_CONNECTIONS_AN_ADDRESS", "many"),
            ("CHATGXY_LEASE_S", "-1"),
            ("CHATGXY_DRAIN_S", "soon"),
            ("DATABASE_URL", "mysql://x"),
        ]);
        for name in [
            "CHATGXY_ADDR: \"here\" is not allowed; allowed is an address and a port, for example 127.0.0.1:3000",
            "CHATGXY_REGISTRATION: \"maybe\" is not allowed; allowed is open or closed",
            "DATABASE_URL: this value is not allowed; allowed is sqlite://FILE or postgres://USER:PASSWORD@HOST/NAME",
        ] {
            assert!(error.lines().any(|line| line == name), "{name}\n{error}");
        }
        assert_eq!(error.lines().count(), 12, "{error}");
    }

    #[test]
    fn a_header_that_signs_people_in_needs_a_trusted_proxy() {
        let header = ("CHATGXY_PROXY_USER_HEADER", "x-remote-user");
        assert!(errors(&[header]).starts_with("CHATGXY_PROXY_USER_HEADER needs CHATGXY_TRUSTED_PROXIES"));
        let config = read(&[header, ("CHATGXY_TRUSTED_PROXIES", "10.0.0.5, fd00::/8")]).unwrap();
        for (peer, trusted) in [("10.0.0.5", true), ("::ffff:10.0.0.5", true), ("10.0.0.6", false), ("fd12::1", true), ("::1", false)] {
            assert_eq!(config.trusts(peer.parse().unwrap()), trusted, "{peer}");
        }
    }

    #[test]
    fn a_public_url_is_a_scheme_and_a_host() {
        let url = read(&[("CHATGXY_PUBLIC_URL", "https://chat.example.org/")]).unwrap().public_url.unwrap();
        assert_eq!((url.https, url.authority.as_str()), (true, "chat.example.org"));
        for bad in ["chat.example.org", "ftp://x", "https://a@b", "https://x/?q"] {
            assert!(errors(&[("CHATGXY_PUBLIC_URL", bad)]).contains("without a path"), "{bad}");
        }
    }
}
