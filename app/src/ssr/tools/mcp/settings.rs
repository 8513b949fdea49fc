//! Which tool servers there are: the operator's YAML file.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::time::Duration;

use rig_reqwest::reqwest::Url;
use rig_reqwest::reqwest::header::{HeaderName, HeaderValue};
use serde::Deserialize;
use serde_yaml_ng::{Mapping, Value};

use crate::ssr::tools::Policy;

/// Longest name of a server, in characters.
const NAME_CHARS: usize = 20;
/// How long a call may take without another setting, in seconds.
const TIMEOUT_S: u64 = 60;
/// How long it may be allowed to take, in seconds.
const LONGEST_TIMEOUT_S: u64 = 600;
/// Stands for all tools that have no policy of their own.
const REST: &str = "*";
/// Headers that the protocol sets.
const TAKEN_HEADERS: [&str; 5] = ["accept", "content-type", "last-event-id", "mcp-protocol-version", "mcp-session-id"];

/// One server of tools, as the operator described it. `Debug` shows nothing of how it is reached: that is full of secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerSettings {
    /// Its name: part of the names of its tools.
    pub name: String,
    pub(super) place: Place,
    pub(super) timeout: Duration,
    policies: BTreeMap<String, Policy>,
}

/// How a server is reached. Has no `Debug`, lest one of its secrets gets into a log.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// A program of this machine, by its standard input and output.
    Program {
        /// It and its arguments.
        command: Vec<String>,
        /// What is added to its environment.
        env: Vec<(String, String)>,
    },
    /// An address, by streamable HTTP.
    Address {
        /// `http` or `https`.
        url: String,
        /// Sent with every request.
        headers: HashMap<HeaderName, HeaderValue>,
    },
}

impl ServerSettings {
    /// The policy of one of its tools, by the tool's own name.
    pub(super) fn policy(&self, tool: &str) -> Policy {
        self.policies.get(tool).or_else(|| self.policies.get(REST)).copied().unwrap_or(Policy::Ask)
    }
}

impl fmt::Debug for ServerSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("ServerSettings");
        shown.field("name", &self.name).field("timeout", &self.timeout).field("policies", &self.policies).finish_non_exhaustive()
    }
}

/// An entry as it stands in the file. What may be a secret is taken as it comes: serde would repeat a wrong value in its error.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    command: Option<Value>,
    env: Option<Value>,
    url: Option<Value>,
    headers: Option<Value>,
    timeout_s: Option<Value>,
    #[serde(default)]
    tools: BTreeMap<String, Policy>,
}

/// Reads the file, in its order. An empty file names no server. The error says which server and what is allowed, never a secret.
pub fn read(yaml: &str) -> Result<Vec<ServerSettings>, String> {
    let entries = match serde_yaml_ng::from_str(yaml).map_err(|error| error.to_string())? {
        Value::Null => Mapping::new(),
        Value::Mapping(entries) => entries,
        _ => return Err("the file is a map: the name of each server, and how it is reached".to_owned()),
    };
    let servers = entries.into_iter().map(server).collect::<Result<Vec<_>, _>>()?;
    for server in &servers {
        // Else a tool `b_c` of `a` and a tool `c` of `a_b` would have one name.
        let inner = servers.iter().find(|other| server.name.strip_prefix(&other.name).is_some_and(|rest| rest.starts_with('_')));
        if let Some(other) = inner {
            return Err(format!("{}: its name may not begin with {}_, as the tools of that other server do", server.name, other.name));
        }
    }
    Ok(servers)
}

fn server((name, entry): (Value, Value)) -> Result<ServerSettings, String> {
    let allowed = |letter: u8| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == b'_';
    let name = match name {
        Value::String(name) if (1..=NAME_CHARS).contains(&name.len()) && name.bytes().all(allowed) => name,
        Value::String(name) => {
            return Err(format!("\"{name}\" cannot be the name of a server: it has 1 to {NAME_CHARS} lower-case letters, digits and _"));
        }
        _ => return Err(format!("the name of a server is a text of 1 to {NAME_CHARS} lower-case letters, digits and _")),
    };
    let (place, timeout, policies) = described(entry).map_err(|why| format!("{name}: {why}"))?;
    Ok(ServerSettings { name, place, timeout, policies })
}

fn described(entry: Value) -> Result<(Place, Duration, BTreeMap<String, Policy>), String> {
    if !entry.is_mapping() {
        return Err("expected a map with command or url".to_owned());
    }
    let entry: Entry = serde_yaml_ng::from_value(entry).map_err(|error| error.to_string())?;
    let place = match (entry.command, entry.url) {
        (Some(command), None) if entry.headers.is_none() => Place::Program { command: program(command)?, env: environment(entry.env)? },
        (None, Some(url)) if entry.env.is_none() => Place::Address { url: address(&url)?, headers: headers(entry.headers)? },
        (Some(_), None) => return Err("headers go with url; a command has env".to_owned()),
        (None, Some(_)) => return Err("env goes with command; a url has headers".to_owned()),
        _ => return Err("either command (a program of this machine) or url (http or https), not both".to_owned()),
    };
    let seconds = entry.timeout_s.map_or(Some(TIMEOUT_S), |seconds| seconds.as_u64());
    let seconds = seconds.filter(|seconds| (1..=LONGEST_TIMEOUT_S).contains(seconds));
    let seconds = seconds.ok_or_else(|| format!("timeout_s is a whole number of seconds from 1 to {LONGEST_TIMEOUT_S}"))?;
    Ok((place, Duration::from_secs(seconds), entry.tools))
}

fn program(value: Value) -> Result<Vec<String>, String> {
    let command: Option<Vec<String>> = match value {
        Value::Sequence(parts) => parts.into_iter().map(text).collect(),
        _ => None,
    };
    let command = command.filter(|command| command.first().is_some_and(|program| !program.is_empty()));
    command.ok_or_else(|| "command is a list of texts: a program, then its arguments (numbers in quotes)".to_owned())
}

fn environment(value: Option<Value>) -> Result<Vec<(String, String)>, String> {
    let pairs = texts("env", value)?;
    for (name, value) in &pairs {
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            return Err(format!("env: \"{}\" is a name without =, and neither it nor its value has a zero byte", name.escape_debug()));
        }
    }
    Ok(pairs)
}

fn address(value: &Value) -> Result<String, String> {
    let url = value.as_str().and_then(|text| Url::parse(text).ok()).filter(|url| matches!(url.scheme(), "http" | "https"));
    let url = url.ok_or("url is an address that begins with http:// or https://")?;
    if !url.username().is_empty() || url.password().is_some() || url.fragment().is_some() {
        return Err("url has no user, password or fragment: a password goes into headers".to_owned());
    }
    Ok(url.into())
}

fn headers(value: Option<Value>) -> Result<HashMap<HeaderName, HeaderValue>, String> {
    let header = |(name, value): (String, String)| {
        let parsed: HeaderName = name.parse().map_err(|_| format!("headers: \"{}\" is no name of a header", name.escape_debug()))?;
        if TAKEN_HEADERS.contains(&parsed.as_str()) {
            return Err(format!("headers: {parsed} is set by the protocol; any but {} may be given", TAKEN_HEADERS.join(", ")));
        }
        let value: Result<HeaderValue, _> = value.parse();
        let mut value = value.map_err(|_| format!("headers: {parsed} holds only visible ASCII characters and spaces"))?;
        value.set_sensitive(true);
        Ok((parsed, value))
    };
    texts("headers", value)?.into_iter().map(header).collect()
}

fn texts(field: &str, value: Option<Value>) -> Result<Vec<(String, String)>, String> {
    let pairs = match value {
        None => Mapping::new(),
        Some(Value::Mapping(pairs)) => pairs,
        Some(_) => return Err(format!("{field} is a map of names and texts")),
    };
    let pair = |(name, value)| {
        let name = text(name).ok_or_else(|| format!("{field} is a map of names and texts"))?;
        let value = text(value).ok_or_else(|| format!("{field}: {} is a text; put it in quotes", name.escape_debug()))?;
        Ok((name, value))
    };
    pairs.into_iter().map(pair).collect()
}

fn text(value: Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BOTH: &str = "
files:
  command: [mcp-server-files, /data]
  env: {TOKEN: abc-secret}
web:
  url: https://tools.example.org/mcp?key=url-secret
  headers: {authorization: Bearer head-secret}
  timeout_s: 600
  tools: {search: always, delete: never, '*': always}
";

    #[test]
    fn settings_are_read() {
        let servers = read(BOTH).unwrap();
        let [files, web] = &servers[..] else { panic!("{servers:?}") };
        assert_eq!((files.name.as_str(), files.timeout.as_secs()), ("files", 60));
        assert_eq!((web.name.as_str(), web.timeout.as_secs()), ("web", 600));
        assert_eq!(["search", "delete", "else"].map(|tool| files.policy(tool)), [Policy::Ask; 3]);
        assert_eq!(["search", "delete", "else"].map(|tool| web.policy(tool)), [Policy::Always, Policy::Never, Policy::Always]);
        assert!(matches!(&files.place, Place::Program { command, env } if command.len() == 2 && env[0].1 == "abc-secret"));
        assert!(matches!(&web.place, Place::Address { headers, .. } if headers.values().eq(["Bearer head-secret"])));
        assert_eq!(read("# none yet\n").unwrap(), Vec::new());
    }

    #[test]
    fn wrong_settings_are_named_without_secrets() {
        let table = [
            ("- files", "the file is a map"),
            ("abc-secret", "the file is a map"),
            ("a: {command: [x]}\na: {command: [x]}", "duplicate"),
            ("Files: {command: [x]}", "\"Files\" cannot be the name"),
            ("a_name_of_21_letters_: {command: [x]}", "1 to 20"),
            ("'': {command: [x]}", "1 to 20"),
            ("7: {command: [x]}", "1 to 20"),
            ("a: {command: [x]}\na_b: {command: [x]}", "a_b: its name may not begin with a_"),
            ("a: abc-secret", "a: expected a map"),
            ("a: {}", "a: either command"),
            ("a: {command: [x], url: 'http://y'}", "a: either command"),
            ("a: {command: x abc-secret}", "a: command is a list"),
            ("a: {command: []}", "a: command is a list"),
            ("a: {command: [x, 5]}", "a: command is a list"),
            ("a: {command: [x], headers: {b: c}}", "a: headers go with url"),
            ("a: {command: [x], env: abc-secret}", "a: env is a map"),
            ("a: {command: [x], env: {TOKEN: [abc-secret]}}", "a: env: TOKEN is a text"),
            ("a: {command: [x], env: {A=B: abc-secret}}", "a: env: \"A=B\""),
            ("a: {url: 'http://y', env: {b: c}}", "a: env goes with command"),
            ("a: {url: abc-secret}", "a: url is an address"),
            ("a: {url: 'ftp://abc-secret'}", "a: url is an address"),
            ("a: {url: 'http://me:abc-secret@y'}", "a: url has no user"),
            ("a: {url: 'http://y', headers: abc-secret}", "a: headers is a map"),
            ("a: {url: 'http://y', headers: {authorization: 123456}}", "a: headers: authorization is a text"),
            ("a: {url: 'http://y', headers: {b c: abc-secret}}", "a: headers: \"b c\" is no name"),
            ("a: {url: 'http://y', headers: {b: \"abc-secret\\n\"}}", "a: headers: b holds only"),
            ("a: {url: 'http://y', headers: {Accept: abc-secret}}", "a: headers: accept is set"),
            ("a: {command: [x], timeout_s: 0}", "a: timeout_s is a whole number of seconds from 1 to 600"),
            ("a: {command: [x], timeout_s: 601}", "a: timeout_s"),
            ("a: {command: [x], timeout_s: soon}", "a: timeout_s"),
            ("a: {command: [x], tools: {search: maybe}}", "expected one of `always`, `ask`, `never`"),
            ("a: {command: [x], colour: red}", "unknown field `colour`, expected one of `command`"),
        ];
        for (yaml, why) in table {
            let error = read(yaml).unwrap_err();
            assert!(error.contains(why), "{yaml}: {error}");
            assert!(!error.contains("abc-secret") && !error.contains("123456"), "{yaml}: {error}");
        }
    }

    #[test]
    fn debug_shows_no_secret() {
        let shown = format!("{:?}", read(BOTH).unwrap());
        assert!(shown.contains("files") && !shown.contains("secret"), "{shown}");
    }

    proptest! {
        #[test]
        fn no_file_breaks_the_reader(text in any::<String>(), value in any::<String>(), number in any::<f64>()) {
            let _ = read(&text);
            let _ = read(&format!("{value:?}: {{command: [{value:?}], env: {{{value:?}: {value:?}}}, timeout_s: {number}}}"));
            let _ = read(&format!("a: {{url: {value:?}, headers: {{{value:?}: {value:?}}}, tools: {{{value:?}: ask}}}}"));
        }
    }
}
