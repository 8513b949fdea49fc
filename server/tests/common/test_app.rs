//! A server in this process, through the real router on a port of its own.

use std::path::Path;
use std::process::Command;

use app::ssr::config::Config;
use app::ssr::db::Db;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::{Browser, Engine, fresh_url};

/// How to start a server.
#[derive(Clone, Default)]
pub struct Setting {
    vars: Vec<(&'static str, String)>,
    rules: Option<&'static str>,
}

impl Setting {
    /// Sets one environment variable.
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.vars.push((name, value.into()));
        self
    }

    /// Answers by these static rules.
    pub fn rules(mut self, yaml: &'static str) -> Self {
        self.rules = Some(yaml);
        self
    }
}

const RULES: &str = "fallback: {content: \"I do not know.\"}\n";

/// A running server. Its data goes when it is dropped.
pub struct TestApp {
    pub base: String,
    url: String,
    stop: Option<oneshot::Sender<()>>,
    served: JoinHandle<Result<(), String>>,
    _dir: tempfile::TempDir,
}

impl TestApp {
    /// On SQLite, as it comes.
    pub async fn start() -> Self {
        Self::on(Engine::Sqlite).await
    }

    /// On that engine, as it comes.
    pub async fn on(engine: Engine) -> Self {
        Self::set(engine, Setting::default()).await
    }

    /// On that engine, with settings.
    pub async fn set(engine: Engine, setting: Setting) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let rules = dir.path().join("rules.yml");
        std::fs::write(&rules, setting.rules.unwrap_or(RULES)).unwrap();
        let url = match engine {
            Engine::Sqlite => format!("sqlite://{}/chatgxy.db", dir.path().display()),
            Engine::Postgres => fresh_url().await,
        };
        let mut vars = vec![
            ("CHATGXY_DATA_DIR", dir.path().display().to_string()),
            ("DATABASE_URL", url.clone()),
            ("CHATGXY_MODEL", "static".to_owned()),
            ("CHATGXY_REQUESTS_A_MINUTE", "1000000".to_owned()),
            ("CHATGXY_STATIC_RULES", rules.display().to_string()),
        ];
        vars.extend(setting.vars);
        let config = Config::from_vars(vars.into_iter().map(|(name, value)| (name.to_owned(), value))).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let (stop, stopped) = oneshot::channel();
        let shutdown = async move { drop(stopped.await) };
        let served = tokio::spawn(server::serve(config, listener, shutdown));
        let app = Self { base, url, stop: Some(stop), served, _dir: dir };
        app.wait_until_up().await;
        app
    }

    async fn wait_until_up(&self) {
        let healthz = format!("{}/healthz", self.base);
        // The port is bound, so the first request waits for the server; it fails only when the server did not start.
        if let Err(error) = reqwest::get(healthz).await {
            panic!("the server did not start: {error}");
        }
    }

    /// Somebody new at a browser of their own.
    pub fn browser(&self) -> Browser {
        Browser::new(&self.base)
    }

    /// Somebody with an account, signed in.
    pub async fn person(&self, email: &str) -> Browser {
        let browser = self.browser();
        let answer = browser.call("account/register", &[("email", email), ("password", "correct horse")]).await;
        assert_eq!(answer.status(), 200, "{}", answer.text().await.unwrap());
        browser
    }

    /// A second view of the store.
    pub async fn store(&self) -> Db {
        Db::open(&self.url).await.unwrap()
    }

    /// Ends the server in order.
    pub async fn stop(mut self) -> Result<(), String> {
        drop(self.stop.take());
        (&mut self.served).await.unwrap()
    }
}

impl Drop for TestApp {
    fn drop(&mut self) {
        self.served.abort();
    }
}

/// The real program, with nothing of this process's own settings.
pub fn program(data: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_chatgxy"));
    for (name, _) in std::env::vars() {
        if name.starts_with("CHATGXY_") || name.ends_with("_API_KEY") || name == "DATABASE_URL" {
            command.env_remove(name);
        }
    }
    command.env("CHATGXY_ADDR", "127.0.0.1:0").env("CHATGXY_DATA_DIR", data).env("CHATGXY_MODEL", "static");
    command
}
