//! Tools of other programs, by the Model Context Protocol. The only place that names its SDK.
//!
//! The operator's file says which servers there are (`CHATGXY_MCP`):
//! ```yaml
//! files:                                    # 1 to 20 lower-case letters, digits and _
//!   command: [mcp-server-files, /data]      # a program of this machine, or url
//!   env: {TOKEN: abc}                       # added to PATH, HOME and the like; nothing else of ours is passed on
//! web:
//!   url: https://tools.example.org/mcp      # streamable HTTP
//!   headers: {authorization: "Bearer …"}
//!   timeout_s: 60                           # for each call, 1 to 600
//!   tools: {search: always, delete: never}  # always, ask or never; "*" is for the rest, else ask
//! ```
//! A server's tools are offered while it is connected. One that is not there, or goes away, is tried again and again.
//!
//! Servers are not trusted: what they say is shortened before it reaches a model, they may ask nothing of us, and nothing of an error
//! reaches our log but its kind. What `env` and `headers` hold reaches no log and no error at all.

mod keeper;
mod listing;
mod naming;
mod outcome;
mod settings;

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use rmcp::ServiceError;
use rmcp::model::CallToolRequestParams;
use serde_json::{Map, Value};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use self::keeper::Link;
pub use self::settings::{ServerSettings, read};
pub use super::Broken;
use super::Policy;

/// The servers of tools. Cheap to clone; when the last clone is dropped their connections are closed and their programs ended.
#[derive(Clone, Default)]
pub struct Servers(Arc<Kept>);

#[derive(Default)]
struct Kept {
    links: Vec<Arc<Link>>,
    /// One task a server. They end with this.
    _keepers: JoinSet<()>,
}

/// A tool of a server.
#[derive(Clone, Debug, PartialEq)]
pub struct McpTool {
    /// `mcp_{server}_{tool}`: at most 64 characters of `[A-Za-z0-9_-]`, unique among all servers.
    pub name: String,
    /// For people, at most 200 characters.
    pub title: String,
    /// For the model, at most 2,000 characters. May be empty.
    pub description: String,
    /// JSON Schema of its arguments: always that of an object.
    pub schema: Value,
    /// Whether a person is asked first, as the operator has it.
    pub policy: Policy,
    /// How long a call may take. The caller sees to it.
    pub timeout: Duration,
    /// Whether running it twice does no more than once, as the server has it.
    pub idempotent: bool,
}

impl Servers {
    /// Connects all servers at once. Returns when each is connected or was not there within 10 seconds; from then on they are looked
    /// after in the background.
    pub async fn connect(settings: Vec<ServerSettings>) -> Self {
        let (mut links, mut keepers, mut tried) = (Vec::new(), JoinSet::new(), Vec::new());
        for settings in settings {
            let link = Arc::new(Link::new(settings.name.clone()));
            let (trying, end) = oneshot::channel();
            keepers.spawn(keeper::keep(link.clone(), settings, trying));
            links.push(link);
            tried.push(end);
        }
        join_all(tried).await;
        Self(Arc::new(Kept { links, _keepers: keepers }))
    }

    /// The tools of the servers that are connected now, in the order of the file.
    pub fn tools(&self) -> Vec<McpTool> {
        let live = self.0.links.iter().filter_map(|link| link.live());
        live.flat_map(|live| live.tools.iter().map(|listed| listed.tool.clone()).collect::<Vec<_>>()).collect()
    }

    /// Calls a tool by its name in [`Servers::tools`]. There is no limit of time; dropping the future tells the server to stop.
    ///
    /// Gives the tool's structured content or else its texts, one a line, as a JSON text; what is not text stands there as a short
    /// note. More than 256 KiB of JSON are cut.
    ///
    /// # Errors
    /// [`Broken::Refused`] with at most 4,000 characters when the tool says that it failed or did not run; [`Broken::Connection`]
    /// when the connection broke, so that nobody knows.
    pub async fn call(&self, name: &str, input: Map<String, Value>) -> Result<Value, Broken> {
        let found = self.0.links.iter().find_map(|link| {
            let live = link.live().filter(|live| !live.peer.is_transport_closed())?;
            let own = live.tools.iter().find(|listed| listed.tool.name == name)?.own.clone();
            Some((link, live.peer.clone(), own))
        });
        let Some((link, peer, own)) = found else {
            return Err(Broken::Refused(format!("{} is not connected at the moment.", outcome::cut(name, 64))));
        };
        match peer.call_tool(CallToolRequestParams::new(own).with_arguments(input)).await {
            Ok(result) => outcome::outcome(result),
            Err(ServiceError::McpError(error)) => Err(outcome::refused(&error.message)),
            Err(ServiceError::UnexpectedResponse) => Err(outcome::refused("The tool's answer cannot be read.")),
            Err(error) => {
                link.doubt();
                // Turned away at the door, it did not run.
                let outside = error.is_authorization_required();
                Err(if outside { outcome::refused("The tool's server does not take our credentials.") } else { Broken::Connection })
            }
        }
    }
}
