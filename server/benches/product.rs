//! `make bench`: one table of what the product costs. Starts the release binary on SQLite on disk with the static model and drives it
//! over HTTP from this process, so that the server's CPU (from `/proc`) is the server's alone; then micro-benchmarks of the hot paths.
//!
//! Figures without a limit are for comparison only. A limit that is not met makes the run fail.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::cast_precision_loss, reason = "a benchmark talks and may stop")]

use std::hint::black_box;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use app::api::chat::Sent;
use app::model::agent::AgentType;
use app::model::event::TurnEvent;
use app::model::exchange::Conversation;
use app::model::frame::Frame;
use app::model::ids::{PromptId, TurnId, TurnRow};
use app::model::turn::{Prompt, Turn};
use app::ssr::llm::static_rules::StaticModel;
use app::ssr::llm::{Message, Model, Request};
use app::ssr::render;
use futures::StreamExt;

const CONNECTIONS: usize = 16;
const CRASHES: u64 = 10;
/// Live streams at once, and tokens of each, at 20 a second.
const STREAMS: usize = 1_000;
const TOKENS: usize = 200;
const RULES: &str = r#"
rules:
  - {match: {query: "^letters"}, response: {content: "LETTERS"}, stream: {chunk_chars: 1, delay_ms: 2}}
  - {match: {query: "^tokens"}, response: {content: "TOKENS"}, stream: {chunk_chars: 6, delay_ms: 50, first_delay_ms: 3000}}
  - {match: {query: "^replay"}, response: {content: "REPLAYED"}, stream: {chunk_chars: 1, delay_ms: 1, fail: hang, after_chars: 5000}}
  - {match: {query: "^cost"}, response: {content: "COST"}, stream: {chunk_chars: 4, delay_ms: 1}}
  - {match: {query: "^storm"}, response: {content: "COST"}, stream: {chunk_chars: 4, delay_ms: 1}}
  - {match: {query: "^wait"}, response: {content: "Wait."}, stream: {first_delay_ms: 600000}}
fallback: {content: "Use fastp: it trims adapters of paired reads by itself and writes a report."}
"#;

fn main() {
    let binary = binary();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut table = Table::default();
    runtime.block_on(product(&binary, &mut table));
    micro(&mut table);
    table.print();
    if table.failed {
        std::process::exit(1);
    }
}

/// `make bench` says which binary; it is the one that people get.
fn binary() -> PathBuf {
    let binary = PathBuf::from(std::env::var("CHATGXY_BENCH_BINARY").expect("CHATGXY_BENCH_BINARY names the release binary"));
    assert!(binary.is_file(), "{} does not exist; run make build", binary.display());
    binary
}

#[derive(Default)]
struct Table {
    rows: Vec<[String; 4]>,
    failed: bool,
}

impl Table {
    fn row(&mut self, what: &str, value: f64, unit: &str, limit: Option<f64>, more: String) {
        let verdict = match limit {
            None => String::new(),
            Some(limit) if value <= limit => format!("≤ {limit} {unit}, met"),
            Some(limit) => {
                self.failed = true;
                format!("≤ {limit} {unit}, NOT MET")
            }
        };
        self.rows.push([what.to_owned(), format!("{value:.3} {unit}"), verdict, more]);
    }

    /// A figure that must not be lower.
    fn at_least(&mut self, what: &str, value: f64, unit: &str, least: f64, more: String) {
        let met = value >= least;
        self.failed |= !met;
        let verdict = format!("≥ {least} {unit}, {}", if met { "met" } else { "NOT MET" });
        self.rows.push([what.to_owned(), format!("{value:.0} {unit}"), verdict, more]);
    }

    fn print(&self) {
        let width = |column: usize| self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths = [width(0), width(1), width(2)];
        println!();
        for [what, value, verdict, more] in &self.rows {
            println!("{what:<0$}  {value:>1$}  {verdict:<2$}  {more}", widths[0], widths[1], widths[2]);
        }
    }
}

struct Server {
    child: Child,
    base: String,
    /// There until the next server takes it over.
    dir: Option<tempfile::TempDir>,
}

impl Server {
    /// As the power would; gives the data that is left.
    fn kill(mut self) -> tempfile::TempDir {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.dir.take().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(binary: &Path, dir: &Path, port: u16) -> Command {
    let mut command = Command::new(binary);
    // Cargo sets one of ours when it runs this, and the server refuses what it does not know.
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("CHATGXY_")) {
        command.env_remove(name);
    }
    command
        .env("CHATGXY_ADDR", format!("127.0.0.1:{port}"))
        .env("CHATGXY_DATA_DIR", dir)
        .env("CHATGXY_STATIC_RULES", dir.join("rules.yml"))
        .env("CHATGXY_LOG", "warn")
        // One person makes all the load.
        .env("CHATGXY_REQUESTS_A_MINUTE", "100000000")
        .env("CHATGXY_TURNS_AT_ONCE", "1000000")
        .env("CHATGXY_TOKENS_A_DAY", "1000000000000")
        .env("CHATGXY_CONNECTIONS_AN_ADDRESS", "100000")
        .env_remove("DATABASE_URL")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// The rules with their texts filled in.
fn rules() -> String {
    RULES
        .replace("LETTERS", &"letters ".repeat(1_000))
        .replace("TOKENS", &"token ".repeat(TOKENS))
        .replace("REPLAYED", &"word ".repeat(2_000))
        .replace("COST", &"abc ".repeat(SPOKEN))
}

/// Starts it on a new database and waits until it answers; gives how long that took.
async fn start(binary: &Path) -> (Server, Duration) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("rules.yml"), rules()).unwrap();
    start_in(binary, dir).await
}

async fn start_in(binary: &Path, dir: tempfile::TempDir) -> (Server, Duration) {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let begun = Instant::now();
    let child = command(binary, dir.path(), port).spawn().unwrap();
    let base = format!("http://127.0.0.1:{port}");
    let server = Server { child, base, dir: Some(dir) };
    let http = reqwest::Client::new();
    while http.get(format!("{}/healthz", server.base)).send().await.is_err() {
        assert!(begun.elapsed() < Duration::from_secs(20), "the server does not come up");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    (server, begun.elapsed())
}

fn key(binary: &Path, server: &Server) -> String {
    let run = |args: &[&str], input: &str| {
        let mut child = command(binary, server.dir.as_ref().unwrap().path(), 0)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
    };
    run(&["user", "add", "bench@example.org", "--password-stdin"], "a long password");
    let out = run(&["key", "add", "bench@example.org"], "");
    out.split_whitespace().find(|word| word.starts_with("chatgxy_")).expect("a key").to_owned()
}

/// Seconds of CPU the process has used.
fn cpu(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: f64 = fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
    ticks / 100.0
}

/// Megabytes that the process holds.
fn memory(pid: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<f64>().unwrap() * 1024.0 / 1e6
}

struct Load {
    cpu_ms: f64,
    per_second: f64,
}

/// So many requests over 16 connections.
async fn load(
    server: &Server,
    key: &str,
    requests: usize,
    ask: impl Fn(&reqwest::Client, usize) -> reqwest::RequestBuilder + Send + Sync + 'static,
) -> Load {
    let (ask, next) = (Arc::new(ask), Arc::new(AtomicUsize::new(0)));
    let pid = server.child.id();
    let (before, begun) = (cpu(pid), Instant::now());
    let workers = (0..CONNECTIONS).map(|_| {
        let (ask, next, key) = (ask.clone(), next.clone(), key.to_owned());
        tokio::spawn(async move {
            let http = reqwest::Client::builder().pool_max_idle_per_host(1).build().unwrap();
            loop {
                let n = next.fetch_add(1, Ordering::Relaxed);
                if n >= requests {
                    break;
                }
                let answer = ask(&http, n).header("x-api-key", &key).send().await.unwrap();
                assert!(answer.status().is_success(), "{}", answer.status());
                black_box(answer.bytes().await.unwrap());
            }
        })
    });
    for worker in futures::future::join_all(workers).await {
        worker.unwrap();
    }
    Load { cpu_ms: (cpu(pid) - before) * 1_000.0 / requests as f64, per_second: requests as f64 / begun.elapsed().as_secs_f64() }
}

async fn product(binary: &Path, table: &mut Table) {
    let mut starts = Vec::new();
    for _ in 0..5 {
        starts.push(start(binary).await.1.as_secs_f64());
    }
    starts.sort_by(f64::total_cmp);
    table.row("start until it answers, new database", starts[2], "s", Some(0.5), "median of 5".into());

    let (server, _) = start(binary).await;
    let key = key(binary, &server);
    tokio::time::sleep(Duration::from_secs(1)).await;
    table.row("resident memory at rest", memory(server.child.id()), "MB", Some(60.0), String::new());
    first_load(&server, &key, table).await;

    // A conversation of 200 turns, and many of one.
    let http = reqwest::Client::new();
    let url = format!("{}/api/chat", server.base);
    let mut body = serde_json::json!({"query": "Which tool trims adapters?"});
    for _ in 0..200 {
        let answer = http.post(&url).header("x-api-key", &key).json(&body).send().await.unwrap();
        let answer: serde_json::Value = answer.json().await.unwrap();
        body["exchange_id"] = answer["exchange_id"].clone();
    }
    let exchange = body["exchange_id"].to_string();

    let ask = url.clone();
    let turns = load(&server, &key, 3_000, move |http, n| {
        http.post(&ask).json(&serde_json::json!({"query": format!("Which tool trims adapters? {n}")}))
    })
    .await;
    let at = || format!("at {CONNECTIONS} connections");
    table.row("one whole turn, durable, CPU", turns.cpu_ms, "ms", Some(1.5), String::new());
    table.at_least("the same, how many", turns.per_second, "/s", 600.0, at());
    let url = format!("{}/api/chat/history?limit=50", server.base);
    let history = load(&server, &key, 10_000, move |http, _| http.get(&url)).await;
    table.row("history of 50 conversations, CPU", history.cpu_ms, "ms", Some(0.5), String::new());
    table.at_least("the same, how many", history.per_second, "/s", 3_000.0, at());
    let url = format!("{}/api/chat/exchange/{exchange}/messages", server.base);
    let messages = load(&server, &key, 5_000, move |http, _| http.get(&url)).await;
    table.row("conversation of 200 turns, CPU", messages.cpu_ms, "ms", Some(0.7), format!("{:.0}/s {}", messages.per_second, at()));
    table.row("resident memory after that load", memory(server.child.id()), "MB", None, String::new());
    drop(server);
    crash(binary, table).await;
    streams(binary, table).await;
    idle(binary, table).await;
    replay(binary, table).await;
    token(binary, table).await;
    storm(binary, table).await;
}

/// Sends a question; gives its turn.
async fn send(http: &reqwest::Client, server: &Server, key: &str, exchange: &str, query: &str) -> Turn {
    let request = http.post(format!("{}/api/fn/chat/send", server.base)).header("x-api-key", key);
    let request = request.header("content-type", "application/x-www-form-urlencoded").body(format!("exchange={exchange}&query={query}"));
    request.send().await.unwrap().json::<Sent>().await.unwrap().view.turn
}

/// The stream that the page reads, from its beginning.
async fn follow(http: &reqwest::Client, server: &Server, key: &str, turn: &Turn) -> reqwest::Response {
    let events = format!("{}/chatgxy/turns/{}/events?after=0", server.base, turn.id);
    http.get(events).header("x-api-key", key).send().await.unwrap()
}

/// Many answers at once, each read by somebody: is a word lost, and how late is the latest? A provider's token is due 50 ms after the
/// one before, so whatever a reader waits beyond that is the server's doing (or this program's, which shares the machine).
async fn streams(binary: &Path, table: &mut Table) {
    let (server, _) = start(binary).await;
    let key = key(binary, &server);
    let http = reqwest::Client::new();
    let begun = Instant::now();
    let attached = futures::future::join_all((0..STREAMS).map(async |n| {
        let turn = send(&http, &server, &key, &format!("stream{n}"), "tokens").await;
        (follow(&http, &server, &key, &turn).await, turn)
    }))
    .await;
    let readers: Vec<_> = attached.into_iter().map(|(answer, turn)| tokio::spawn(gaps(answer, turn))).collect();
    let attached = begun.elapsed();
    let (before, watched) = (cpu(server.child.id()), Instant::now());
    let (mut worst, mut late) = (Duration::ZERO, 0);
    for reader in readers {
        let (text, gaps) = reader.await.unwrap();
        assert_eq!(text, "token ".repeat(TOKENS).trim_end(), "every word arrives, once, in order");
        late += gaps.iter().filter(|gap| **gap > LATE).count();
        worst = worst.max(gaps.into_iter().max().unwrap_or_default());
    }
    let busy = (cpu(server.child.id()) - before) / watched.elapsed().as_secs_f64();
    let more = format!(
        "{STREAMS} streams, {TOKENS} tokens each at 20/s; {late} later than 250 ms; {busy:.2} of {} cores; attached in {attached:.1?}",
        cores()
    );
    table.row("latest event of 1,000 live streams", worst.as_secs_f64() * 1e3, "ms late", Some(250.0), more);
}

const LATE: Duration = Duration::from_millis(250);
const DUE: Duration = Duration::from_millis(50);

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The whole text of an answer, and how much later than due each of its pieces came.
async fn gaps(answer: reqwest::Response, turn: Turn) -> (String, Vec<Duration>) {
    let grew = Arc::new(Mutex::new(Vec::new()));
    let turn = read(answer, turn, grew.clone()).await;
    let grew = grew.lock().unwrap();
    // Before the first word nothing is due, and the end is no token.
    let times: Vec<Instant> = grew.iter().filter(|(_, length)| *length > 0).map(|(at, _)| *at).collect();
    let gaps = times.windows(2).map(|pair| (pair[1] - pair[0]).saturating_sub(DUE)).collect();
    (turn.text().trim_end().to_owned(), gaps)
}

/// Events of the turn that is replayed.
const REPLAYED: usize = 5_000;

/// A reader who comes late: how long until everything so far is there.
async fn replay(binary: &Path, table: &mut Table) {
    let (server, _) = start(binary).await;
    let key = key(binary, &server);
    let http = reqwest::Client::new();
    let turn = send(&http, &server, &key, "replay", "replay").await;
    let first = follow(&http, &server, &key, &turn).await;
    until(first, turn.clone(), REPLAYED).await;
    let mut times = Vec::new();
    let mut events = 0;
    for _ in 0..9 {
        let begun = Instant::now();
        let answer = follow(&http, &server, &key, &turn).await;
        events = until(answer, turn.clone(), REPLAYED).await.seq;
        times.push(begun.elapsed());
    }
    times.sort_unstable();
    let more = format!("median of {}, {events} events, to the last byte", times.len());
    table.row("replay of a turn to a new reader", times[times.len() / 2].as_secs_f64() * 1e3, "ms", Some(50.0), more);
}

/// Answers of the row below, and tokens of each.
const ANSWERS: usize = 20;
const SPOKEN: usize = 3_000;

/// What the engine costs for each token that comes by itself, without what its source costs: the same source is read here, by nobody.
async fn token(binary: &Path, table: &mut Table) {
    let source = Arc::new(StaticModel::from_yaml(&rules()).unwrap());
    let me = std::process::id();
    let before = cpu(me);
    let reading = (0..ANSWERS).map(|_| {
        let source = source.clone();
        tokio::spawn(async move { source.stream(question("cost")).map(black_box).count().await })
    });
    let tokens: usize = futures::future::join_all(reading).await.into_iter().map(Result::unwrap).sum();
    let alone = (cpu(me) - before) / tokens as f64;
    let (server, _) = start(binary).await;
    let key = key(binary, &server);
    let http = reqwest::Client::new();
    let mut turns = Vec::new();
    let before = cpu(server.child.id());
    for n in 0..ANSWERS {
        turns.push(send(&http, &server, &key, &format!("cost{n}"), "cost").await);
    }
    tokio::time::sleep(Duration::from_millis(2 * SPOKEN as u64)).await;
    let spoken = (cpu(server.child.id()) - before) / tokens as f64;
    for turn in &turns {
        let answer = follow(&http, &server, &key, turn).await;
        assert_eq!(read(answer, turn.clone(), Arc::default()).await.text().len(), 4 * SPOKEN);
    }
    let more = format!("{ANSWERS} answers of {SPOKEN} tokens, one by one; {:.1} µs with its source", spoken * 1e6);
    table.row("engine cost of one token, CPU", (spoken - alone).max(0.0) * 1e6, "µs", Some(20.0), more);
}

fn question(words: &str) -> Request {
    Request {
        agent: AgentType::router(),
        system: String::new(),
        messages: vec![Message::User(words.into())],
        context: serde_json::Map::new(),
        temperature: None,
        max_tokens: None,
        tools: Arc::from([]),
    }
}

/// Readers that come all at once, in the middle of one answer.
const STORM: usize = 500;

async fn storm(binary: &Path, table: &mut Table) {
    let (server, _) = start(binary).await;
    let key = key(binary, &server);
    let http = reqwest::Client::new();
    let turn = send(&http, &server, &key, "storm", "storm").await;
    let begun = Instant::now();
    let readers = (0..STORM).map(|_| async {
        let answer = follow(&http, &server, &key, &turn).await;
        read(answer, turn.clone(), Arc::default()).await
    });
    let all = futures::future::join_all(readers).await;
    let lost = all.iter().filter(|seen| seen.text().len() != 4 * SPOKEN || !seen.is_ended()).count();
    let more = format!("{STORM} at once in the middle of {SPOKEN} tokens; all at the end after {:.1?}", begun.elapsed());
    table.row("readers that lost something", lost as f64, "of 500", Some(0.0), more);
}

/// Reads a turn until its text has so many bytes.
async fn until(mut answer: reqwest::Response, mut turn: Turn, bytes: usize) -> Turn {
    let mut buffer = String::new();
    while turn.text().len() < bytes {
        buffer.push_str(std::str::from_utf8(&answer.chunk().await.unwrap().unwrap()).unwrap());
        while let Some((message, rest)) = buffer.split_once("\n\n") {
            match message.lines().find_map(|line| line.strip_prefix("data:")).map(|data| serde_json::from_str(data).unwrap()) {
                Some(Frame::Events { first, events }) => {
                    (first..).zip(&events).for_each(|(seq, event)| turn.apply(seq, event).unwrap());
                }
                Some(Frame::Snapshot { view }) => turn = view.turn,
                _ => {}
            }
            buffer = rest.to_owned();
        }
    }
    turn
}

/// What a stream costs on which nothing happens.
async fn idle(binary: &Path, table: &mut Table) {
    let (server, _) = start(binary).await;
    let key = key(binary, &server);
    let http = reqwest::Client::new();
    let turn = send(&http, &server, &key, "idle", "wait").await;
    // What is made once is made by these.
    let first = open(&http, &server, &key, &turn, 100).await;
    let before = memory(server.child.id());
    let more = open(&http, &server, &key, &turn, STREAMS).await;
    let each = (memory(server.child.id()) - before) * 1e6 / 1024.0 / STREAMS as f64;
    table.row("memory of an idle stream", each, "KiB", Some(20.0), format!("{STREAMS} readers of one answer that does not come"));
    drop((first, more));
}

async fn open(http: &reqwest::Client, server: &Server, key: &str, turn: &Turn, count: usize) -> Vec<reqwest::Response> {
    let mut streams = Vec::new();
    for _ in 0..count {
        let mut answer = follow(http, server, key, turn).await;
        // The first frame: from here on the stream is idle.
        answer.chunk().await.unwrap();
        streams.push(answer);
    }
    streams
}

/// How much of an answer, in time, `kill -9` takes away: the worst of several, each killed at another moment.
async fn crash(binary: &Path, table: &mut Table) {
    let (mut server, _) = start(binary).await;
    let key = key(binary, &server);
    let mut worst = Duration::ZERO;
    for round in 0..CRASHES {
        let http = reqwest::Client::new();
        let turn = send(&http, &server, &key, &format!("chat{round}"), "letters").await;
        let answer = follow(&http, &server, &key, &turn).await;
        // When each length of the answer reached its reader.
        let grew = Arc::new(Mutex::new(Vec::new()));
        let reading = tokio::spawn(read(answer, turn, grew.clone()));
        tokio::time::sleep(Duration::from_millis(700 + 37 * round)).await;
        let dir = server.kill();
        let killed = Instant::now();
        reading.await.unwrap();
        server = start_in(binary, dir).await.0;
        let found = http.post(format!("{}/api/fn/chat/conversation", server.base)).header("x-api-key", &key);
        let found = found.header("content-type", "application/x-www-form-urlencoded").body(format!("name=chat{round}")).send().await;
        let kept = found.unwrap().json::<Conversation>().await.unwrap().turns[0].turn.text().len();
        let grew = grew.lock().unwrap();
        assert!(grew.len() > 10, "the answer had begun");
        if let Some((at, _)) = grew.iter().find(|(_, length)| *length > kept) {
            worst = worst.max(killed.duration_since(*at));
        }
    }
    let more = format!("worst of {CRASHES}, by the reader's clock");
    table.row("answer lost by kill -9 in its middle", worst.as_secs_f64() * 1e3, "ms", Some(60.0), more);
}

/// Follows a turn until its end, or until the connection breaks.
async fn read(mut answer: reqwest::Response, mut turn: Turn, grew: Arc<Mutex<Vec<(Instant, usize)>>>) -> Turn {
    let mut buffer = String::new();
    while let Ok(Some(bytes)) = answer.chunk().await {
        buffer.push_str(std::str::from_utf8(&bytes).unwrap());
        while let Some((message, rest)) = buffer.split_once("\n\n") {
            let frame = message.lines().find_map(|line| line.strip_prefix("data:")).map(|data| serde_json::from_str(data).unwrap());
            match frame {
                Some(Frame::Events { first, events }) => {
                    for (seq, event) in (first..).zip(&events) {
                        turn.apply(seq, event).unwrap();
                    }
                }
                Some(Frame::Snapshot { view }) => turn = view.turn,
                Some(Frame::Html { .. } | Frame::End) | None => {
                    buffer = rest.to_owned();
                    continue;
                }
            }
            grew.lock().unwrap().push((Instant::now(), turn.text().len()));
            buffer = rest.to_owned();
        }
    }
    turn
}

/// What a browser with an empty cache loads for the chat: page, client, style and icons, without headers (the browser tests count them too).
async fn first_load(server: &Server, key: &str, table: &mut Table) {
    let http = reqwest::Client::new();
    let get = |path: &str| http.get(format!("{}{path}", server.base)).header("x-api-key", key).header("accept", "text/html,*/*");
    let page = get("/chatgxy/new").send().await.unwrap().text().await.unwrap();
    let (_, rest) = page.split_once("/pkg/").unwrap();
    let pkg = format!("/pkg/{}", rest.split('/').next().unwrap());
    let mut bytes = 0;
    for path in ["/chatgxy/new", "/icons.svg", "/favicon.svg"] {
        bytes += get(path).header("accept-encoding", "br").send().await.unwrap().bytes().await.unwrap().len();
    }
    for file in ["chatgxy.js", "chatgxy_bg.wasm", "chatgxy.css"] {
        bytes += get(&format!("{pkg}/{file}")).header("accept-encoding", "br").send().await.unwrap().bytes().await.unwrap().len();
    }
    table.row("first load of the chat, compressed", bytes as f64 / 1e3, "kB", Some(350.0), "WASM included".into());
}

/// Nanoseconds of one call: the best of several rounds, since noise only adds.
fn time(mut call: impl FnMut()) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..20 {
        let begun = Instant::now();
        let mut calls = 0_u32;
        while begun.elapsed() < Duration::from_millis(25) {
            call();
            calls += 1;
        }
        best = best.min(begun.elapsed().as_nanos() as f64 / f64::from(calls));
    }
    best
}

fn micro(table: &mut Table) {
    let event = TurnEvent::TextGrew { text: "a few words ".into() };
    let prompt = Prompt { id: PromptId::parse("p").unwrap(), text: "why".into() };
    let turn = Turn::asked(TurnId::parse("t").unwrap(), TurnRow(1), prompt, AgentType::auto(), 1, 0);
    let apply = time(|| {
        let mut turn = turn.clone();
        for seq in 1..=1_000 {
            turn.apply(seq, &event).unwrap();
        }
        black_box(turn);
    });
    table.row("Turn::apply, one event", apply / 1e3 / 1e3, "µs", None, "1,000 events in a row".into());
    let json = serde_json::to_string(&event).unwrap();
    let parse = time(|| drop(black_box(serde_json::from_str::<TurnEvent>(&json).unwrap())));
    table.row("an event from JSON", parse / 1e3, "µs", None, String::new());
    let text = "## Steps\n\nTrim with `fastp`, then *map*.\n\n- one\n- two\n\n```bash\nfastp -i a.fq -o b.fq\n```\n\n".repeat(90);
    let cold = time({
        let mut n = 0;
        let text = text.clone();
        move || {
            n += 1;
            black_box(render::blocks(&format!("{text}{n}")));
        }
    });
    table.row("Markdown of 8 kB to HTML, first time", cold / 1e6, "ms", None, String::new());
    let warm = time(|| drop(black_box(render::blocks(&text))));
    table.row("the same again", warm / 1e6, "ms", None, "from the cache".into());
}
