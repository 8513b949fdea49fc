//! Against a real OpenAI-compatible server process over HTTP (a scripted one).

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use app::model::event::{End, Failure, Interruption};
use serde_json::Value;

use crate::common::Engine;
use crate::server::{Server, Setting};

pub struct Upstream {
    child: Child,
    base: String,
}

impl Upstream {
    pub fn start() -> Self {
        let mut program = std::env::current_exe().unwrap();
        program.pop();
        program.pop();
        let program = program.join("examples/scripted_model");
        let mut child = Command::new(&program)
            .args(["--port", "0"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}; cargo test builds it with the tests", program.display()));
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let base = format!("http://{}", line.trim().trim_start_matches("listening on "));
        Self { child, base }
    }

    pub fn setting(&self, scenario: &str) -> Setting {
        Setting::on(Engine::Sqlite)
            .with("CHATGXY_MODEL", format!("openai:{scenario}"))
            .with("CHATGXY_MODEL_BASE_URL", format!("{}/v1", self.base))
            .with("CHATGXY_MODEL_API_KEY", "sk-secret-of-the-operator")
            .with("CHATGXY_MODEL_FIRST_TOKEN_TIMEOUT_S", "2")
            .with("CHATGXY_MODEL_IDLE_TIMEOUT_S", "2")
    }

    pub async fn stats(&self) -> Value {
        reqwest::get(format!("{}/stats", self.base)).await.unwrap().json().await.unwrap()
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn an_answer_comes_through_byte_for_byte() {
    let upstream = Upstream::start();
    for scenario in ["hello", "unicode"] {
        let server = Server::start(upstream.setting(scenario)).await;
        let ada = server.person("ada@x.org");
        let turn = ada.ask("chat", "anything").await;
        assert_eq!(turn.end(), Some(End::Answered), "{scenario}");
        assert!(turn.has_text() && !turn.text().contains('\u{fffd}'), "{:?}", turn.text());
        assert_eq!(turn.model.as_deref(), Some(scenario));
        assert_eq!(ada.turns("chat").await[0].turn, turn);
    }
}

#[tokio::test]
async fn each_way_to_fail_is_named_and_the_providers_words_and_our_key_stay_out() {
    let upstream = Upstream::start();
    let table = [
        ("cut", Failure::Cut),
        ("e429", Failure::RateLimited),
        ("e500", Failure::Upstream),
        ("empty", Failure::Empty),
        ("html", Failure::NotAModel),
        ("hang", Failure::TimedOut),
    ];
    for (scenario, why) in table {
        let server = Server::start(upstream.setting(scenario)).await;
        let ada = server.person("ada@x.org");
        let turn = ada.ask("chat", "my private question").await;
        assert_eq!(turn.end(), Some(End::Failed(why)), "{scenario}");
        let (page, log) = (ada.call("chat/conversation", &[("name", "chat")]).await.text().await.unwrap(), server.log());
        for secret in ["sk-secret", "my private question"] {
            assert!(!log.contains(secret), "{scenario}: the log holds {secret}");
        }
        assert!(!page.contains("sk-secret"));
    }
}

#[tokio::test]
async fn stop_ends_the_providers_call_within_a_second() {
    let upstream = Upstream::start();
    let server = Server::start(upstream.setting("slow")).await;
    let ada = server.person("ada@x.org");
    let turn = ada.send("chat", "anything").await;
    let mut reader = ada.follow(&turn, 0).await;
    reader.until_text(10).await;
    assert_eq!(upstream.stats().await["open"], 1);
    let begun = Instant::now();
    ada.call("chat/stop", &[("turn", turn.id.as_str())]).await;
    while upstream.stats().await["open"] != 0 {
        assert!(begun.elapsed() < Duration::from_secs(1), "the provider still answers");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let ended = reader.finish().await.turn;
    assert_eq!(ended.end(), Some(End::Interrupted(Interruption::ByUser)));
    assert_eq!(upstream.stats().await["cancelled"], 1);
}

#[tokio::test]
async fn a_failed_call_is_tried_three_times_and_no_more() {
    let upstream = Upstream::start();
    let server = Server::start(upstream.setting("e500")).await;
    server.person("ada@x.org").ask("chat", "anything").await;
    assert_eq!(upstream.stats().await["requests"], 3);
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_tried_once_more_and_never_doubled() {
    let upstream = Upstream::start();
    let server = Server::start(upstream.setting("cut")).await;
    let turn = server.person("ada@x.org").ask("chat", "anything").await;
    assert_eq!(upstream.stats().await["requests"], 2);
    let words: Vec<String> = turn.text().split_whitespace().map(str::to_owned).collect();
    assert!(!words.is_empty() && turn.resets == 1, "{turn:?}");
    assert_eq!(turn.parts.iter().filter(|part| matches!(part, app::model::part::Part::Text { .. })).count(), 1, "{turn:?}");
}
