//! The HTTP edge: from [`Config`] to a server that answers, and its orderly end.
//!
//! No SQL and no domain rule is here: handlers parse, call a use case of `app::ssr`, and reply.

mod ai_sdk;
mod assets;
mod functions;
mod guard;
mod image;
mod listen;
mod log;
mod metrics;
pub mod rest;
mod router;
mod sse;

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use app::ssr::AppState;
use app::ssr::account::Accounts;
use app::ssr::agents::settings::{AgentSettings, Chosen};
use app::ssr::agents::{Registry, catalogue};
use app::ssr::config::Config;
use app::ssr::db::Db;
use app::ssr::engine::Engine;
use app::ssr::tools::{Toolbox, mcp};
use axum::Router;
use leptos::config::LeptosOptions;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// How long connections may stay open after the last turn has ended.
const GOODBYE: Duration = Duration::from_secs(3);

/// How long the head of a request may take.
const HEAD_TIME: Duration = Duration::from_secs(30);
/// How long a client may read nothing of what is sent to it.
const UNREAD_TIME: Duration = Duration::from_secs(30);

/// A server that is ready to listen.
pub struct Server {
    state: AppState,
    router: Router,
    /// The model that was chosen, and why, for people.
    model: String,
    /// Held as long as the server runs.
    lock: Option<File>,
}

/// Serves until `shutdown` is ready, then ends in order: no new connections, running answers finished or interrupted and stored,
/// streams ended, the store closed.
///
/// # Errors
/// A text for the operator.
pub async fn serve(config: Config, listener: TcpListener, shutdown: impl Future<Output = ()>) -> Result<(), String> {
    Server::start(config).await?.run(listener, shutdown).await
}

/// Opens the store, in a data directory that is made when it is missing.
///
/// # Errors
/// A text for the operator.
pub async fn open_store(config: &Config) -> Result<Db, String> {
    make_private_dir(&config.data_dir)?;
    Db::open(config.database.expose()).await
}

impl Server {
    /// Opens the store, ends what an earlier server left running, and connects the model.
    ///
    /// # Errors
    /// A text for the operator.
    pub async fn start(config: Config) -> Result<Self, String> {
        let site = assets::site()?;
        make_private_dir(&config.data_dir)?;
        let lock = config.database.sqlite_file().map(|file| lock_beside(&file)).transpose()?;
        let chosen = config.model.choose().await?;
        let model = chosen.describe();
        let db = open_store(&config).await?;
        catalogue::provide(&db).await.map_err(|error| error.to_string())?;
        let registry = Registry::new(chosen.model, config.context_tokens, db.clone()).with(&own_models(&config)?);
        let servers = mcp::Servers::connect(config.tool_servers.clone()).await;
        let tools = Toolbox::new(&registry.consultable(), servers, config.test_tools);
        let engine = Engine::start(db.clone(), registry, tools, config.times, config.caps).await.map_err(|error| error.to_string())?;
        let accounts = Accounts::new(db.clone(), config.registration);
        let leptos_options = LeptosOptions::builder().output_name("chatgxy").build();
        let state = AppState { leptos_options, db, engine, config: Arc::new(config), accounts, site };
        let forms = functions::Forms::of(&state.db, state.config.clone()).await.map_err(|error| error.to_string())?;
        Ok(Self { router: router::router(&state, forms), state, model, lock })
    }

    /// What it runs on.
    pub fn state(&self) -> &AppState {
        &self.state
    }

    /// The model that answers, and why it is this one, for people.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Answers requests until `shutdown` is ready, then ends in order.
    ///
    /// # Errors
    /// A text for the operator.
    pub async fn run(self, listener: TcpListener, shutdown: impl Future<Output = ()>) -> Result<(), String> {
        let closing = CancellationToken::new();
        let config = &self.state.config;
        let limits = listen::Limits {
            connections: config.connections,
            an_address: config.connections_an_address,
            proxies: config.trusted_proxies.clone(),
            head: HEAD_TIME,
            unread: UNREAD_TIME,
        };
        let mut serving = tokio::spawn(listen::serve(listener, self.router, limits, closing.clone()));
        let ended = tokio::select! {
            ended = &mut serving => Some(ended),
            () = shutdown => None,
        };
        tracing::info!("shutting down");
        closing.cancel();
        self.state.engine.close().await;
        let ended = match ended {
            Some(ended) => Some(ended),
            None => tokio::time::timeout(GOODBYE, &mut serving).await.ok(),
        };
        serving.abort();
        self.state.db.close().await;
        drop(self.lock);
        match ended {
            Some(Err(error)) => Err(format!("the server broke: {error}")),
            Some(Ok(())) | None => Ok(()),
        }
    }
}

/// What the operator chose for single agents, with their models connected.
fn own_models(config: &Config) -> Result<Vec<Chosen>, String> {
    let connect = |settings: &AgentSettings| {
        let model = settings.model.as_deref().map(|name| config.model.another(name)).transpose();
        model.map(|model| (settings.clone(), model)).map_err(|error| format!("CHATGXY_AGENTS: {}: {error}", settings.agent))
    };
    config.agents.iter().map(connect).collect()
}

/// Makes sure that a SQLite file has one server: turns that run in it are taken for lost when a server starts.
fn lock_beside(database: &Path) -> Result<File, String> {
    let mut name = database.as_os_str().to_owned();
    name.push(".lock");
    let path = PathBuf::from(name);
    let cannot = |error: io::Error| format!("cannot use the lock file {}: {error}", path.display());
    let file = File::options().create(true).truncate(false).write(true).open(&path).map_err(cannot)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            let dir = path.parent().unwrap_or(Path::new(".")).display();
            Err(format!("another chatgxy uses this data directory ({dir})"))
        }
        Err(TryLockError::Error(error)) => Err(cannot(error)),
    }
}

/// What is kept is private to the user that runs the server.
fn make_private_dir(dir: &Path) -> Result<(), String> {
    if dir.is_dir() {
        return Ok(());
    }
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir).map_err(|error| format!("cannot make the data directory {}: {error}", dir.display()))
}
