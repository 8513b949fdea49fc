//! The command line.

use std::io::{self, IsTerminal, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use app::model::user::{Password, Scope};
use app::ssr::account::{Accounts, NewUser, email};
use app::ssr::agents::catalogue;
use app::ssr::audit::{self, Act, Actor};
use app::ssr::config::Config;
use clap::{Parser, Subcommand};
use server::{Server, open_store};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

#[derive(Parser)]
#[command(
    name = "chatgxy",
    version,
    about = "ChatGXY: chat with agents for scientists",
    after_help = "Settings are environment variables, see README.md."
)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Serve, after bringing the tables up to date (the default)
    Serve,
    /// Bring the tables up to date
    Migrate,
    /// Accounts
    #[command(subcommand)]
    User(UserCommand),
    /// API keys
    #[command(subcommand)]
    Key(KeyCommand),
    /// The catalogue of tools that agents recommend
    #[command(subcommand)]
    Tools(ToolsCommand),
    /// Who signed in, used a key, or acted for others: time, act, who, on what, from where
    Audit {
        /// How many, the newest
        #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(i64).range(1..))]
        limit: i64,
    },
}

#[derive(Subcommand)]
enum UserCommand {
    /// Make an account
    Add {
        /// What the person signs in with
        email: String,
        /// Read the password from standard input
        #[arg(long, required = true)]
        password_stdin: bool,
        /// Make an administrator
        #[arg(long)]
        admin: bool,
        /// What programs call the person; default: the part of the email before the @
        #[arg(long)]
        username: Option<String>,
    },
    /// List the accounts
    List,
}

#[derive(Subcommand)]
enum KeyCommand {
    /// Make an API key for an account and print it, this once
    Add {
        /// Whose key
        email: String,
        /// What it may do: read, chat (ask as well) or admin (all that the owner may)
        #[arg(long, default_value = "admin", value_parser = ["read", "chat", "admin"])]
        scope: String,
    },
    /// Revoke a key by its first characters, or the whole of it
    Revoke {
        /// How the key begins
        prefix: String,
    },
}

#[derive(Subcommand)]
enum ToolsCommand {
    /// Replace the catalogue by the tools of a file: JSON Lines, or the JSON of a Galaxy server's /api/tools
    Import {
        /// The file
        file: PathBuf,
    },
}

/// Why nothing was done.
pub enum Failed {
    /// A setting is wrong.
    Settings(String),
    /// Something else.
    Work(String),
}

impl From<String> for Failed {
    fn from(text: String) -> Self {
        Self::Work(text)
    }
}

/// Does what the command line says.
pub async fn run() -> Result<(), Failed> {
    let arguments = Arguments::parse();
    let vars = std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.to_string_lossy().into_owned())));
    let config = Config::from_vars(vars).map_err(Failed::Settings)?;
    let command = arguments.command.unwrap_or(Command::Serve);
    // A command says what it did; only a server tells its log.
    start_log(if matches!(command, Command::Serve) { &config.log } else { "warn" })?;
    match command {
        Command::Serve => serve(config).await?,
        Command::Migrate => {
            let db = open_store(&config).await?;
            print(&format!("{}: the tables are up to date", db.engine()))?;
            db.close().await;
        }
        Command::User(command) => user(&config, command).await?,
        Command::Key(command) => key(&config, command).await?,
        Command::Tools(ToolsCommand::Import { file }) => import_tools(&config, &file).await?,
        Command::Audit { limit } => audit(&config, limit).await?,
    }
    Ok(())
}

/// Lines for people at a terminal, JSON for machines.
fn start_log(filter: &str) -> Result<(), Failed> {
    // The SDK for other tools logs addresses and answers by itself, whatever is chosen: they may hold secrets.
    let filter = EnvFilter::try_new(format!("{filter},rmcp=off")).map_err(|error| Failed::Settings(format!("CHATGXY_LOG: {error}")))?;
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    if io::stderr().is_terminal() {
        log.compact().init();
    } else {
        log.json().init();
    }
    Ok(())
}

async fn serve(config: Config) -> Result<(), String> {
    // Each connection is an open file. Where it may not be raised, the limit stays what it is.
    let _ = rlimit::increase_nofile_limit(u64::MAX);
    let listener =
        TcpListener::bind(config.addr).await.map_err(|error| format!("cannot listen on {} (CHATGXY_ADDR): {error}", config.addr))?;
    let addr = listener.local_addr().map_err(|error| error.to_string())?;
    let server = Server::start(config).await?;
    print(&banner(&server, addr))?;
    server.run(listener, stopped()?).await
}

/// What an operator wants to know: the address, where the data lies, what answers and how to change that.
fn banner(server: &Server, addr: SocketAddr) -> String {
    let state = server.state();
    let shown = if addr.ip().is_unspecified() { SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), addr.port()) } else { addr };
    let dir = state.config.data_dir.canonicalize().unwrap_or_else(|_| state.config.data_dir.clone());
    let data = match state.config.database.sqlite_file() {
        Some(file) => format!("{} (SQLite)", file.canonicalize().unwrap_or(file).display()),
        None => format!("PostgreSQL by DATABASE_URL; {}", dir.display()),
    };
    let demo = state.engine.registry().model().is_demo();
    format!(
        "ChatGXY {} serves http://{shown}\n  data   {data}\n  model  {}\n  To connect {}: set CHATGXY_MODEL to openai:NAME, anthropic:NAME, \
         gemini:NAME or ollama:NAME,\n  CHATGXY_MODEL_API_KEY to its key and, for another address, CHATGXY_MODEL_BASE_URL; then start again.",
        env!("CARGO_PKG_VERSION"),
        server.model(),
        if demo { "a real model" } else { "another" },
    )
}

/// Ready when the process is asked to stop.
fn stopped() -> Result<impl Future<Output = ()>, String> {
    let cannot = |error: io::Error| format!("cannot listen for signals: {error}");
    let mut terminate = signal(SignalKind::terminate()).map_err(cannot)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(cannot)?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

async fn user(config: &Config, command: UserCommand) -> Result<(), String> {
    let db = open_store(config).await?;
    let accounts = Accounts::new(db.clone(), config.registration);
    match command {
        UserCommand::Add { email, password_stdin: _, admin, username } => {
            let mut password = String::new();
            io::stdin().read_to_string(&mut password).map_err(|error| format!("cannot read the password: {error}"))?;
            let password = password.strip_suffix('\n').unwrap_or(&password);
            let password = Password::from(password.strip_suffix('\r').unwrap_or(password).to_owned());
            let new = NewUser { email, username, password, admin };
            let user = accounts.add(&Actor::command_line(), new).await.map_err(|error| error.to_string())?;
            print(&format!("{} can sign in{}", user.email, if user.admin { " as an administrator" } else { "" }))?;
        }
        UserCommand::List => {
            for user in db.users().await.map_err(|error| error.to_string())? {
                print(&format!("{}\t{}\t{}", user.id, user.email, if user.admin { "admin" } else { "user" }))?;
            }
        }
    }
    db.close().await;
    Ok(())
}

async fn key(config: &Config, command: KeyCommand) -> Result<(), String> {
    let db = open_store(config).await?;
    let accounts = Accounts::new(db.clone(), config.registration);
    match command {
        KeyCommand::Add { email: address, scope } => {
            let known = match email(&address) {
                Some(address) => db.account_by_email(&address).await.map_err(|error| error.to_string())?,
                None => None,
            };
            let user = known.ok_or_else(|| format!("there is no account {address}"))?.user();
            let scope = Scope::parse(&scope).ok_or("the scope is read, chat or admin")?;
            let made =
                accounts.create_key(&Actor::command_line(), &user, "command line", scope).await.map_err(|error| error.to_string())?;
            print(made.secret.expose())?;
        }
        KeyCommand::Revoke { prefix } => {
            let revoked = accounts.revoke_keys(&prefix).await.map_err(|error| error.to_string())?;
            if revoked == 0 {
                return Err(
                    "there is no key that begins so; a key is named by its first 16 characters, as the account page and `audit` show them"
                        .to_owned(),
                );
            }
            print("revoked")?;
        }
    }
    db.close().await;
    Ok(())
}

async fn import_tools(config: &Config, file: &Path) -> Result<(), String> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    let db = open_store(config).await?;
    let imported = catalogue::import(&db, &text).await.map_err(|error| format!("{}: {error}", file.display()));
    if imported.is_ok() {
        audit::record(&db, Act::ToolsImported, &Actor::command_line(), "").await.map_err(|error| error.to_string())?;
    }
    db.close().await;
    let count = imported?;
    print(&format!("{count} tool{} imported; agents recommend these and no others", if count == 1 { "" } else { "s" }))
}

/// One line a row, fields with tabs between. Nothing in a field can pass for another row.
async fn audit(config: &Config, limit: i64) -> Result<(), String> {
    let db = open_store(config).await?;
    let rows = db.audit(limit).await.map_err(|error| error.to_string())?;
    db.close().await;
    for row in rows {
        let plain = |text: &str| if text.is_empty() { "-".to_owned() } else { text.replace(char::is_control, " ") };
        let at = jiff::Timestamp::from_millisecond(row.at).map(|at| format!("{at:.0}")).unwrap_or_default();
        print(&[at, row.act, plain(&row.actor), plain(&row.subject), plain(&row.address)].join("\t"))?;
    }
    Ok(())
}

fn print(text: &str) -> Result<(), String> {
    writeln!(io::stdout(), "{text}").map_err(|error| format!("cannot print: {error}"))
}
