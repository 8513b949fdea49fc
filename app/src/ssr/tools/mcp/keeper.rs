//! Keeps one server connected for as long as anyone wants its tools.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use rig_reqwest::reqwest::Client;
use rig_reqwest::reqwest::redirect::Policy as Redirects;
use rmcp::model::{ClientCapabilities, ClientConfig, Implementation, ProtocolVersion};
use rmcp::service::{ClientInitializeError, NotificationContext, RunningService};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{ClientCacheConfig, ClientHandler, Peer, RoleClient, ServiceError, ServiceExt};
use tokio::process::Command;
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::{Instant, sleep, timeout};

use super::listing::{Listed, list, offered};
use super::settings::{Place, ServerSettings};

/// How long a server may take to connect and list its tools.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long to wait before a server is tried again, at first.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
/// The same at last: each pause is twice the one before.
const LAST_PAUSE: Duration = Duration::from_mins(5);
/// How often a server that is reached by HTTP is looked after: nothing else tells that it is gone.
const ROUND: Duration = Duration::from_mins(1);
/// How long to let a server change its list before it is read anew: changes come in bursts.
const SETTLING: Duration = Duration::from_millis(200);
/// What a program gets of our own environment. Not the rest: it holds our keys.
const PASSED_ON: [&str; 12] =
    ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LC_ALL", "TZ", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR"];

/// A server as its callers see it.
pub(super) struct Link {
    /// Its name.
    pub name: String,
    live: watch::Sender<Option<Arc<Live>>>,
    look: Arc<Notify>,
}

/// A server that is connected.
pub(super) struct Live {
    /// Takes calls.
    pub peer: Peer<RoleClient>,
    /// What can be called.
    pub tools: Vec<Listed>,
}

impl Link {
    /// To a server that is not connected yet.
    pub(super) fn new(name: String) -> Self {
        Self { name, live: watch::Sender::new(None), look: Arc::default() }
    }

    /// The server, while it is connected.
    pub(super) fn live(&self) -> Option<Arc<Live>> {
        self.live.borrow().clone()
    }

    /// A call broke: see soon whether the connection did.
    pub(super) fn doubt(&self) {
        self.look.notify_one();
    }
}

type Service = RunningService<RoleClient, Listener>;

/// Connects a server again and again. `tried` is dropped when it is connected, or was not there for the first time.
pub(super) async fn keep(link: Arc<Link>, settings: ServerSettings, tried: oneshot::Sender<()>) {
    let mut tried = Some(tried);
    let mut pause = FIRST_PAUSE;
    loop {
        let opened = timeout(PATIENCE, Box::pin(open(&link, &settings))).await;
        tried.take();
        match opened.unwrap_or_else(|_| Err(format!("no answer within {} s", PATIENCE.as_secs()))) {
            Ok(service) => {
                let since = Instant::now();
                hold(&link, &settings, service).await;
                link.live.send_replace(None);
                tracing::warn!(server = link.name, "the connection to a tool server broke");
                // One that breaks again at once, time after time, is left alone for longer and longer.
                if since.elapsed() > pause {
                    pause = FIRST_PAUSE;
                }
            }
            Err(why) => tracing::warn!(server = link.name, why, "a tool server cannot be connected"),
        }
        sleep(pause).await;
        pause = (pause * 2).min(LAST_PAUSE);
    }
}

/// Connects a server and shows its tools. The error is the kind of failure and no more: the library's own can hold addresses.
async fn open(link: &Link, settings: &ServerSettings) -> Result<Service, String> {
    let listener = Listener { look: link.look.clone() };
    let service = match &settings.place {
        Place::Program { command, env } => listener.serve(program(command, env)?).await,
        Place::Address { url, headers } => {
            let config = StreamableHttpClientTransportConfig::with_uri(url.as_str()).custom_headers(headers.clone());
            listener.serve(StreamableHttpClientTransport::with_client(client(url)?, config)).await
        }
    };
    let service = service.map_err(|error| kind(&error).to_owned())?;
    // A remembered list would hide both a changed one and a broken connection.
    service.set_response_cache_config(ClientCacheConfig::disabled()).await;
    let tools = list(service.peer()).await.map_err(|_| "it does not list its tools")?;
    tracing::info!(server = link.name, tools = tools.len(), "a tool server is connected");
    link.live.send_replace(Some(Arc::new(Live { peer: service.peer().clone(), tools: offered(settings, tools) })));
    Ok(service)
}

/// Returns when the connection broke. When this is dropped, the connection is closed, and a program is ended.
async fn hold(link: &Link, settings: &ServerSettings, service: Service) {
    let peer = service.peer().clone();
    let mut ended = pin!(service.waiting());
    loop {
        tokio::select! {
            _ = &mut ended => return,
            () = link.look.notified() => sleep(SETTLING).await,
            () = sleep(ROUND), if matches!(settings.place, Place::Address { .. }) => {}
        }
        match timeout(PATIENCE, list(&peer)).await {
            Ok(Ok(tools)) => {
                link.live.send_replace(Some(Arc::new(Live { peer: peer.clone(), tools: offered(settings, tools) })));
            }
            Ok(Err(ServiceError::TransportSend(_) | ServiceError::TransportClosed)) => return,
            // It may be busy with a call.
            Ok(Err(_)) | Err(_) => tracing::warn!(server = link.name, "the tools of a server cannot be listed anew"),
        }
    }
}

fn program(command: &[String], env: &[(String, String)]) -> Result<TokioChildProcess, String> {
    let [program, arguments @ ..] = command else { return Err("no program is named".to_owned()) };
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .envs(PASSED_ON.iter().filter_map(|name| Some((name, std::env::var_os(name)?))))
        .envs(env.iter().map(|(name, value)| (name, value)))
        // The library ends it in its own task; this holds even when no task runs any more.
        .kill_on_drop(true);
    TokioChildProcess::new(command).map_err(|error| format!("its program does not start: {}", error.kind()))
}

fn client(url: &str) -> Result<Client, String> {
    let mut builder = Client::builder()
        .user_agent(concat!("chatgxy/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(PATIENCE)
        // A connection that the server closed meanwhile would leave unknown whether a call ran.
        .pool_max_idle_per_host(0)
        // Following would carry secrets to another place.
        .redirect(Redirects::none());
    if url.starts_with("http:") {
        // A bare machine has no certificates, and without HTTPS needs none.
        builder = builder.tls_certs_only([]);
    }
    builder.build().map_err(|_| "the HTTPS client does not start: most likely this machine has no certificates".to_owned())
}

fn kind(error: &ClientInitializeError) -> &'static str {
    match error {
        error if error.is_authorization_required() => "it does not take our credentials",
        ClientInitializeError::ConnectionClosed(_) => "it closed the connection",
        ClientInitializeError::TransportError { .. } => "it cannot be reached",
        ClientInitializeError::JsonRpcError(_) => "it refused",
        _ => "it does not speak the protocol",
    }
}

/// Our side of a connection: hears that the list of tools changed, and grants a server nothing.
struct Listener {
    look: Arc<Notify>,
}

impl ClientHandler for Listener {
    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.look.notify_one();
    }

    fn get_info(&self) -> ClientConfig {
        let us = Implementation::new("chatgxy", env!("CARGO_PKG_VERSION"));
        // The last version that begins as all servers know it; the library would name one that has no such beginning.
        ClientConfig::new(ClientCapabilities::default(), us).with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }
}
