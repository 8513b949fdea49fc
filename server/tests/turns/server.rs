//! A real server process on a port of its own, and people who talk to it over HTTP.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use app::api::chat::Sent;
use app::model::exchange::{Conversation, TurnView};
use app::model::frame::Frame;
use app::model::turn::Turn;
use futures::StreamExt;
use reqwest::{Response, StatusCode};

use crate::common::{Engine, fresh_url};

/// Rules for every kind of answer that the tests need; the question names the rule.
pub const RULES: &str = r#"
rules:
  - {match: {query: "^quick"}, response: {content: "A quick answer.", suggestions: [{action_type: view_external, description: "Read on", parameters: {url: "https://example.org"}}]}}
  - {match: {query: "^letters"}, response: {content: "LETTERS"}, stream: {chunk_chars: 1, delay_ms: 4}}
  - {match: {query: "^slow"}, response: {content: "SLOW"}, stream: {chunk_chars: 9, delay_ms: 50}}
  - {match: {query: "^short stream"}, response: {content: "one two three four five six seven eight"}, stream: {chunk_chars: 5, delay_ms: 100}}
  - {match: {query: "^markdown"}, response: {content: "MARKDOWN"}, stream: {chunk_chars: 7, delay_ms: 20}}
  - {match: {query: "^think"}, response: {content: "So be it."}, stream: {thinking: "Let me see.", chunk_chars: 3, delay_ms: 5}}
  - {match: {query: "^cut"}, response: {content: "This much came before the line broke."}, stream: {chunk_chars: 5, delay_ms: 5, fail: cut, after_chars: 20}}
  - {match: {query: "^error"}, response: {content: "This much came before the fault."}, stream: {chunk_chars: 5, delay_ms: 5, fail: error, after_chars: 20}}
  - {match: {query: "^hang"}, response: {content: "This much came, then silence."}, stream: {chunk_chars: 5, delay_ms: 5, fail: hang, after_chars: 20}}
  - {match: {query: "^mute"}, response: {content: "never seen"}, stream: {fail: hang, after_chars: 0}}
  - {match: {query: "^empty"}, response: {content: "x"}, stream: {fail: empty}}
  - {match: {query: "^length"}, response: {content: "This answer is cut at its limit."}, stream: {chunk_chars: 5, delay_ms: 5, fail: length, after_chars: 20}}
  - {match: {query: "^limited"}, response: {content: "x"}, stream: {fail: http_429}}
  - {match: {query: "^fault"}, response: {content: "x"}, stream: {fail: http_500}}
  - {match: {query: "^huge"}, response: {content: "HUGE"}}
  - match: {query: "^search"}
    response: {content: "Let me look.", tool_calls: [{name: search_tools, input: {query: "trim adapters", limit: 3}}]}
    then: [{response: {content: "Found: {{results}}"}}]
  - match: {query: "^both at once"}
    response: {content: "Both.", tool_calls: [{name: test_slow, input: {ms: 40, text: a}}, {name: test_slow, input: {ms: 60, text: b}}]}
    stream: {chunk_chars: 2, delay_ms: 3}
    then: [{response: {content: "{{results}}"}, stream: {chunk_chars: 4, delay_ms: 4}}]
  - match: {query: "^both of a second"}
    response: {tool_calls: [{name: test_slow, input: {ms: 1000, text: a}}, {name: test_slow, input: {ms: 1000, text: b}}]}
    then: [{response: {content: "{{results}}"}}]
  - match: {query: "^bad calls"}
    response: {tool_calls: [{name: test_slow, arguments: "{bad"}, {name: fly}, {name: search_tools, input: {query: 5}}, {name: test_fail, input: {text: "failed on purpose"}}]}
    then: [{response: {content: "{{results}}"}}]
  - {match: {query: "^loop"}, response: {tool_calls: [{name: test_slow, input: {ms: 1}}]}}
  - {match: {query: "^long tool"}, response: {tool_calls: [{name: test_slow, input: {ms: 4500}}]}}
  - match: {query: "^endless tool"}
    response: {tool_calls: [{name: test_slow, input: {ms: 60000}}]}
    then: [{response: {content: "{{results}}"}}]
  - match: {query: "^gated"}
    response: {tool_calls: [{name: test_gated, input: {text: hi}}]}
    then: [{response: {content: "Result: {{results}}"}}]
  - match: {query: "^two gated"}
    response: {content: "May I?", tool_calls: [{name: test_gated, input: {text: one}}, {name: test_gated, input: {text: two}}]}
    then: [{response: {content: "Result: {{results}}"}}]
  - match: {query: "^mixed"}
    response: {tool_calls: [{name: test_slow, input: {ms: 1500}}, {name: test_gated, input: {text: hi}}]}
    then: [{response: {content: "Result: {{results}}"}}]
  - match: {query: "^things"}
    response: {tool_calls: [{name: mcp_things_echo, input: {text: "hello from outside"}}, {name: mcp_things_fail, input: {}}, {name: mcp_things_echo, input: {text: 5}}]}
    then: [{response: {content: "{{results}}"}}]
  - match: {query: "^add things"}
    response: {tool_calls: [{name: mcp_things_add, input: {a: 2, b: 3}}]}
    then: [{response: {content: "{{results}}"}}]
  - match: {query: "^browser"}
    response: {tool_calls: [{name: test_client, input: {text: there}}]}
    then: [{response: {content: "Result: {{results}}"}}]
  - match: {agent_type: custom_tool, query: "^innermost"}
    response: {content: "secret of the inner agent", tool_calls: [{name: test_gated, input: {text: deep}}]}
    then: [{response: {content: "INNERMOST"}}]
  - match: {agent_type: error_analysis, query: "^inner"}
    response: {tool_calls: [{name: consult_agent, input: {agent: custom_tool, question: "innermost question"}}]}
    then: [{response: {content: "INNER with {{results}}"}}]
  - match: {query: "^consult"}
    response: {content: "I ask.", tool_calls: [{name: consult_agent, input: {agent: error_analysis, question: "inner question"}}]}
    then: [{response: {content: "Result: {{results}}"}}]
fallback: {content: "I do not know."}
"#;

/// The rules with their long texts filled in.
pub fn rules() -> String {
    let letters: String = ('a'..='z').cycle().take(2_500).collect();
    let slow = "Fluß 日本 \u{1F30A} und weiter. ".repeat(40);
    let markdown = "# Title\\n\\nSome *text* with `code`.\\n\\n- one\\n- two\\n\\n```python\\nprint(1)\\n```\\n\\n| a | b |\\n|---|---|\\n| 1 | 2 |\\n\\nThe end.\\n";
    RULES
        .replace("LETTERS", &letters)
        .replace("SLOW", &slow)
        .replace("MARKDOWN", markdown)
        .replace("HUGE", &"0123456789abcde ".repeat(65_536))
}

/// How to start a server.
#[derive(Clone)]
pub struct Setting {
    pub engine: Engine,
    pub vars: Vec<(&'static str, String)>,
    /// The program is started with the signal ignored that a file too large would kill it with, so that it sees an error as of a full disk.
    pub files_may_fail: bool,
}

impl Setting {
    pub fn on(engine: Engine) -> Self {
        Self { engine, vars: Vec::new(), files_may_fail: false }
    }

    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.vars.push((name, value.into()));
        self
    }
}

/// A running server. Killed when dropped; its data stays as long as this value.
pub struct Server {
    child: Child,
    pub base: String,
    dir: tempfile::TempDir,
    url: String,
    setting: Setting,
    log: Arc<Mutex<String>>,
}

impl Server {
    pub async fn start(setting: Setting) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("rules.yml"), rules()).unwrap();
        let url = match setting.engine {
            Engine::Sqlite => format!("sqlite://{}/chatgxy.db", dir.path().display()),
            Engine::Postgres => fresh_url().await,
        };
        let (child, base, log) = spawn(dir.path(), &url, &setting);
        Self { child, base, dir, url, setting, log }
    }

    /// Starts again on the same data.
    pub fn restart(&mut self) {
        let (child, base, log) = spawn(self.dir.path(), &self.url, &self.setting);
        (self.child, self.base, self.log) = (child, base, log);
    }

    /// Waits until the process has died by itself.
    pub fn wait(&mut self) {
        self.child.wait().unwrap();
    }

    /// Starts again on the same data, set otherwise.
    pub fn restart_with(&mut self, change: impl FnOnce(&mut Setting)) {
        change(&mut self.setting);
        self.restart();
    }

    /// Another server on the same store.
    pub fn beside(&self, setting: Setting) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("rules.yml"), rules()).unwrap();
        let url = self.url.clone();
        let (child, base, log) = spawn(dir.path(), &url, &setting);
        Self { child, base, dir, url, setting, log }
    }

    /// As the power would.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// As an operator would; gives the exit code and how long it took.
    pub fn terminate(&mut self) -> (Option<i32>, Duration) {
        let begun = Instant::now();
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        let code = self.child.wait().unwrap().code();
        (code, begun.elapsed())
    }

    /// Another server on the same data, which should not come up.
    pub fn start_beside(&self) -> std::process::Output {
        command(self.dir.path(), &self.url, &self.setting).output().unwrap()
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends a person's key from the command line.
    pub fn revoke(&self, person: &Person) {
        self.cli(&["key", "revoke", &person.key], "");
    }

    pub fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// A new account with an API key.
    pub fn person(&self, email: &str) -> Person {
        self.cli(&["user", "add", email, "--password-stdin"], "correct horse battery");
        let key = self.cli(&["key", "add", email], "");
        let key = key.split_whitespace().find(|word| word.starts_with("chatgxy_")).expect("a key").to_owned();
        Person { base: self.base.clone(), key, http: reqwest::Client::new() }
    }

    fn cli(&self, args: &[&str], input: &str) -> String {
        let mut child = command(self.dir.path(), &self.url, &self.setting)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let out = child.wait_with_output().unwrap();
        assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- server log ---\n{}", self.log());
        }
    }
}

fn command(dir: &Path, url: &str, setting: &Setting) -> Command {
    let program = env!("CARGO_BIN_EXE_chatgxy");
    let mut command = Command::new(if setting.files_may_fail { "sh" } else { program });
    if setting.files_may_fail {
        command.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\"", program]);
    }
    for (name, _) in std::env::vars() {
        if name.starts_with("CHATGXY_") || name.ends_with("_API_KEY") {
            command.env_remove(name);
        }
    }
    command
        .env("CHATGXY_ADDR", "127.0.0.1:0")
        .env("CHATGXY_DATA_DIR", dir)
        .env("DATABASE_URL", url)
        .env("CHATGXY_STATIC_RULES", dir.join("rules.yml"))
        .env("CHATGXY_REQUESTS_A_MINUTE", "1000000")
        .env("CHATGXY_TURNS_AT_ONCE", "1000")
        .env("CHATGXY_LOG", "info");
    for (name, value) in &setting.vars {
        command.env(name, value);
        if *name == "CHATGXY_MODEL" {
            command.env_remove("CHATGXY_STATIC_RULES");
        }
    }
    command
}

fn spawn(dir: &Path, url: &str, setting: &Setting) -> (Child, String, Arc<Mutex<String>>) {
    let mut child = command(dir, url, setting).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let log = Arc::new(Mutex::new(String::new()));
    let (found, address) = std::sync::mpsc::channel();
    let (out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    for stream in [Box::new(out) as Box<dyn std::io::Read + Send>, Box::new(err)] {
        let (log, found) = (log.clone(), found.clone());
        std::thread::spawn(move || {
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                if let Some((_, rest)) = line.split_once("http://127.0.0.1:") {
                    let port: String = rest.chars().take_while(char::is_ascii_digit).collect();
                    let _ = found.send(format!("http://127.0.0.1:{port}"));
                }
                let mut log = log.lock().unwrap();
                log.push_str(&line);
                log.push('\n');
            }
        });
    }
    let base = address.recv_timeout(Duration::from_secs(20)).unwrap_or_else(|_| panic!("not up:\n{}", log.lock().unwrap()));
    (child, base, log)
}

/// Somebody with an API key.
#[derive(Clone)]
pub struct Person {
    pub base: String,
    pub key: String,
    pub http: reqwest::Client,
}

impl Person {
    /// The same person on a server that was started again.
    pub fn at(&self, server: &Server) -> Self {
        Self { base: server.base.clone(), ..self.clone() }
    }

    pub async fn call(&self, function: &str, fields: &[(&str, &str)]) -> Response {
        let body = serde_urlencoded(fields);
        self.http
            .post(format!("{}/api/fn/{function}", self.base))
            .header("x-api-key", &self.key)
            .header("content-type", "application/x-www-form-urlencoded")
            .body(body)
            .send()
            .await
            .unwrap()
    }

    pub async fn get(&self, path: &str) -> Response {
        self.http.get(format!("{}{path}", self.base)).header("x-api-key", &self.key).send().await.unwrap()
    }

    pub async fn try_send(&self, exchange: &str, prompt_id: &str, query: &str) -> Response {
        self.call("chat/send", &[("exchange", exchange), ("prompt_id", prompt_id), ("query", query), ("agent", "auto")]).await
    }

    /// Sends a question and gives the turn as it begins.
    pub async fn send(&self, exchange: &str, query: &str) -> Turn {
        let answer = self.try_send(exchange, &uuid::Uuid::new_v4().to_string(), query).await;
        assert_eq!(answer.status(), StatusCode::OK, "{}", answer.text().await.unwrap());
        answer.json::<Sent>().await.unwrap().view.turn
    }

    /// Sends a question and waits for the end of its answer.
    pub async fn ask(&self, exchange: &str, query: &str) -> Turn {
        let turn = self.send(exchange, query).await;
        self.follow(&turn, 0).await.finish().await.turn
    }

    pub async fn conversation(&self, exchange: &str) -> Conversation {
        let answer = self.call("chat/conversation", &[("name", exchange)]).await;
        assert_eq!(answer.status(), StatusCode::OK, "{}", answer.text().await.unwrap());
        answer.json().await.unwrap()
    }

    /// The turns of a conversation with the HTML.
    pub async fn turns(&self, exchange: &str) -> Vec<TurnView> {
        self.conversation(exchange).await.turns
    }

    /// Opens the stream of a turn after `after`.
    pub async fn follow(&self, turn: &Turn, after: u64) -> Reader {
        let answer = self.get(&format!("/chatgxy/turns/{}/events?after={after}", turn.id)).await;
        assert_eq!(answer.status(), StatusCode::OK, "{}", answer.text().await.unwrap());
        let mut turn = turn.clone();
        if after == 0 {
            turn = Turn::asked(turn.id, turn.row, turn.prompt, turn.asked, turn.attempt, turn.started_at);
        }
        Reader::new(answer, TurnView { turn, html: Vec::new() })
    }
}

fn serde_urlencoded(fields: &[(&str, &str)]) -> String {
    let mut url = reqwest::Url::parse("http://x").unwrap();
    url.query_pairs_mut().extend_pairs(fields);
    url.query().unwrap_or_default().to_owned()
}

/// Somebody who follows a turn the way our page does.
pub struct Reader {
    frames: std::pin::Pin<Box<dyn futures::Stream<Item = (Option<u64>, Frame)> + Send>>,
    pub view: TurnView,
    /// The `id:` of the last message that had one.
    pub last_id: Option<u64>,
    /// Ends seen.
    pub ends: usize,
    /// When each length of the text was reached.
    pub grew: Vec<(Instant, usize)>,
}

impl Reader {
    pub fn new(answer: Response, view: TurnView) -> Self {
        let bytes = answer.bytes_stream();
        let frames = futures::stream::unfold((Box::pin(bytes), Vec::new()), |(mut bytes, mut buffer)| async move {
            loop {
                if let Some(end) = buffer.windows(2).position(|pair| pair == b"\n\n") {
                    let message: Vec<u8> = buffer.drain(..end + 2).collect();
                    let message = String::from_utf8(message).expect("whole messages are UTF-8");
                    let field = |name: &str| message.lines().find_map(|line| line.strip_prefix(name)).map(str::trim_start);
                    let Some(data) = field("data:") else { continue };
                    let id = field("id:").map(|id| id.parse().unwrap());
                    return Some(((id, serde_json::from_str(data).unwrap()), (bytes, buffer)));
                }
                match bytes.next().await {
                    Some(Ok(more)) => buffer.extend_from_slice(&more),
                    Some(Err(_)) | None => return None,
                }
            }
        });
        Self { frames: Box::pin(frames), view, last_id: None, ends: 0, grew: Vec::new() }
    }

    /// Takes the next frame; `None` when the stream is over.
    pub async fn next(&mut self) -> Option<Frame> {
        let (id, frame) = tokio::time::timeout(Duration::from_secs(30), self.frames.next()).await.expect("a frame in 30 s")?;
        if id.is_some() {
            self.last_id = id;
        }
        match frame.clone() {
            Frame::Snapshot { view } => self.view = *view,
            Frame::Events { first, events } => {
                for (seq, event) in (first..).zip(&events) {
                    self.view.turn.apply(seq, event).expect("events without gaps");
                }
                self.grew.push((Instant::now(), self.view.turn.text().len()));
            }
            Frame::Html { part, block, blocks, html } => {
                if self.view.html.len() <= part {
                    self.view.html.resize_with(part + 1, Vec::new);
                }
                let list = &mut self.view.html[part];
                list.resize_with(blocks.max(block + 1), String::new);
                list[block] = html;
                list.truncate(blocks);
            }
            Frame::End => self.ends += 1,
        }
        Some(frame)
    }

    /// Reads on until the text holds at least so many bytes.
    pub async fn until_text(&mut self, bytes: usize) {
        while self.view.turn.text().len() < bytes {
            assert!(self.next().await.is_some(), "the stream ended early: {:?}", self.view.turn);
        }
    }

    /// Reads to the end, which comes exactly once and last.
    pub async fn finish(mut self) -> TurnView {
        while self.next().await.is_some() {}
        assert_eq!(self.ends, 1, "exactly one end");
        assert!(self.view.turn.is_ended());
        if self.view.html.len() < self.view.turn.parts.len() {
            self.view.html.resize_with(self.view.turn.parts.len(), Vec::new);
        }
        self.view
    }
}
