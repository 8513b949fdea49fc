//! Turns that call tools, on real processes: what a person allows, what a browser runs, what a consulted agent does, and what becomes of all
//! that when the process dies at any moment.

use std::time::{Duration, Instant};

use app::model::event::{End, Interruption};
use app::model::part::{Part, ToolCall, ToolState};
use app::model::turn::{Turn, TurnState};
use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::common::Engine;
use crate::server::{Person, Server, Setting};

const ENGINES: [Engine; 2] = [Engine::Sqlite, Engine::Postgres];

fn with_tools(engine: Engine) -> Setting {
    Setting::on(engine).with("CHATGXY_TEST_TOOLS", "1").with("CHATGXY_LEASE_S", "1")
}

impl Person {
    /// Does something with a call, as the page does.
    async fn act(&self, turn: &Turn, call: &str, act: &str, key: &str, value: &str) -> reqwest::Response {
        self.call("chat/tool", &[("turn", turn.id.as_str()), ("call", call), ("act", act), ("key", key), ("value", value)]).await
    }

    async fn allow(&self, turn: &Turn, call: &str) -> StatusCode {
        self.act(turn, call, "allow", &format!("ask-{call}"), "").await.status()
    }

    pub async fn allow_at(&self, server: &Server, turn: &Turn, call: &str) -> StatusCode {
        self.at(server).allow(turn, call).await
    }

    pub async fn runs(&self, exchange: &str) -> i64 {
        let answer: Value = self.get(&format!("/api/chat/{exchange}/execs")).await.json().await.unwrap();
        answer["count"].as_i64().unwrap()
    }

    /// Sends a question and waits until its turn waits for somebody.
    pub async fn ask_until_paused(&self, exchange: &str, query: &str) -> Turn {
        let turn = self.send(exchange, query).await;
        self.until(&turn, |turn| turn.state == TurnState::Paused).await
    }

    /// Follows a turn until that is true of it.
    pub async fn until(&self, turn: &Turn, holds: impl Fn(&Turn) -> bool) -> Turn {
        let mut reader = self.follow(turn, 0).await;
        while !holds(&reader.view.turn) {
            assert!(reader.next().await.is_some(), "it ended early: {:?}", reader.view.turn);
        }
        reader.view.turn
    }

    /// What is stored says the same as what was seen, and nothing is left open.
    async fn settled(&self, exchange: &str) -> Turn {
        let turn = self.turns(exchange).await.pop().unwrap().turn;
        assert!(turn.is_ended() && turn.every_call().iter().all(|call| !call.state.is_open()), "{turn:?}");
        let stream = self.get(&format!("/api/chat/{exchange}/stream")).await;
        assert_eq!(stream.status(), StatusCode::NO_CONTENT);
        turn
    }
}

fn names(turn: &Turn) -> Vec<(String, &'static str)> {
    turn.every_call().iter().map(|call| (call.name.clone(), call.state.name())).collect()
}

fn ids(turn: &Turn) -> Vec<String> {
    turn.every_call().iter().map(|call| call.call.clone()).collect()
}

fn only(turn: &Turn) -> ToolCall {
    let [call] = &turn.every_call()[..] else { panic!("{turn:?}") };
    (*call).clone()
}

fn why_failed(call: &ToolCall) -> String {
    match &call.state {
        ToolState::Failed { error, .. } => error.to_string(),
        ToolState::Denied { reason, .. } => reason.clone(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_tool_runs_between_two_steps_and_its_sources_are_kept() {
    for engine in ENGINES {
        let server = Server::start(with_tools(engine)).await;
        let ada = server.person("ada@x.org");
        let turn = ada.ask("chat", "search").await;
        assert_eq!((turn.end(), names(&turn)), (Some(End::Answered), vec![("search_tools".to_owned(), "done")]));
        assert!(turn.text().starts_with("Let me look.\n\nFound: {\"tools\":[{"), "{}", turn.text());
        assert!(!turn.sources().is_empty());
        let view = ada.turns("chat").await.pop().unwrap();
        assert_eq!(view.turn, turn, "stored equals streamed");
        let html = view.html.concat().concat();
        assert!(html.contains("data-tool=\"search_tools\"") && html.contains("aria-label=\"Sources\""), "{html}");
        assert_eq!(ada.runs("chat").await, 1);
    }
}

#[tokio::test]
async fn tools_of_one_step_run_side_by_side() {
    let server = Server::start(with_tools(Engine::Sqlite)).await;
    let ada = server.person("ada@x.org");
    let begun = Instant::now();
    let turn = ada.ask("chat", "both of a second").await;
    assert!(begun.elapsed() < Duration::from_millis(1_900), "two of a second each took {:?}", begun.elapsed());
    assert_eq!((turn.end(), names(&turn).len(), ada.runs("chat").await), (Some(End::Answered), 2, 2));
}

#[tokio::test]
async fn bad_calls_go_back_to_the_model_and_are_shown() {
    let server = Server::start(with_tools(Engine::Sqlite)).await;
    let ada = server.person("ada@x.org");
    let turn = ada.ask("chat", "bad calls").await;
    let whys: Vec<String> = turn.every_call().into_iter().map(why_failed).collect();
    assert!(whys[0].contains("no JSON") && whys[1].contains("There is no tool \"fly\"") && whys[2].contains("do not fit"), "{whys:?}");
    assert!(whys[3].contains("failed on purpose"), "{whys:?}");
    assert!(turn.text().contains("no tool \"fly\""), "the model was told: {}", turn.text());
    assert_eq!((turn.end(), ada.runs("chat").await), (Some(End::Answered), 1));
}

#[tokio::test]
async fn the_last_step_is_noticed() {
    let server = Server::start(with_tools(Engine::Sqlite).with("CHATGXY_STEPS", "3")).await;
    let ada = server.person("ada@x.org");
    let turn = ada.ask("chat", "loop").await;
    assert!(matches!(turn.parts.last(), Some(Part::Notice(notice)) if notice.to_string().contains("all of its 3 steps")));
    assert_eq!((turn.end(), ada.runs("chat").await), (Some(End::Answered), 3));
}

#[tokio::test]
async fn a_person_allows_or_denies_and_a_second_answer_is_told_what_was_decided() {
    for engine in ENGINES {
        let server = Server::start(with_tools(engine)).await;
        let (ada, eve) = (server.person("ada@x.org"), server.person("eve@x.org"));
        let paused = ada.ask_until_paused("chat", "gated").await;
        let call = only(&paused).call;
        assert_eq!((names(&paused)[0].1, ada.runs("chat").await), ("asking", 0), "nothing runs before it is allowed");
        assert_eq!(eve.allow(&paused, &call).await, StatusCode::NOT_FOUND);
        assert_eq!(ada.act(&paused, &call, "allow", "ask-else", "").await.status(), StatusCode::NOT_FOUND);
        assert_eq!(ada.act(&paused, "nobody", "allow", "ask-nobody", "").await.status(), StatusCode::NOT_FOUND);
        assert_eq!(ada.act(&paused, &call, "ran", "tab", "\"forged\"").await.status(), StatusCode::NOT_FOUND);
        // Two tabs answer at once: whatever wins, both end up with it.
        let key = format!("ask-{call}");
        let (yes, no) = tokio::join!(ada.allow(&paused, &call), ada.act(&paused, &call, "deny", &key, "no"));
        let ended = ada.follow(&paused, 0).await.finish().await.turn;
        let won = names(&ended)[0].1;
        match won {
            "done" => assert_eq!((yes, no.status(), ada.runs("chat").await), (StatusCode::OK, StatusCode::CONFLICT, 1)),
            "denied" => assert_eq!((yes, no.status(), ada.runs("chat").await), (StatusCode::CONFLICT, StatusCode::OK, 0)),
            other => panic!("{other}"),
        }
        assert_eq!(ended.end(), Some(End::Answered));
        let again = if won == "done" { "allow" } else { "deny" };
        assert_eq!(ada.act(&paused, &call, again, &key, "").await.status(), StatusCode::OK, "the same answer again is fine");
        assert_eq!(ada.settled("chat").await, ended);
    }
}

#[tokio::test]
async fn two_questions_of_one_step_are_answered_one_by_one() {
    let server = Server::start(with_tools(Engine::Sqlite)).await;
    let ada = server.person("ada@x.org");
    let paused = ada.ask_until_paused("chat", "two gated").await;
    let calls = ids(&paused);
    assert_eq!(ada.allow(&paused, &calls[1]).await, StatusCode::OK);
    let between = ada.until(&paused, |turn| turn.state == TurnState::Paused && names(turn)[1].1 == "done").await;
    assert_eq!(names(&between)[0].1, "asking");
    let denied = ada.act(&paused, &calls[0], "deny", &format!("ask-{}", calls[0]), "not this").await;
    assert_eq!(denied.status(), StatusCode::OK);
    let ended = ada.follow(&paused, 0).await.finish().await.turn;
    assert_eq!((ended.end(), ada.runs("chat").await), (Some(End::Answered), 1));
    assert!(ended.text().contains("not this"), "the model hears why: {}", ended.text());
}

#[tokio::test]
async fn always_allow_holds_in_this_conversation_only() {
    let server = Server::start(with_tools(Engine::Sqlite)).await;
    let ada = server.person("ada@x.org");
    let paused = ada.ask_until_paused("chat", "gated").await;
    let call = only(&paused).call;
    assert_eq!(ada.act(&paused, &call, "always", &format!("ask-{call}"), "").await.status(), StatusCode::OK);
    ada.follow(&paused, 0).await.finish().await;
    assert_eq!(ada.ask("chat", "gated once more").await.end(), Some(End::Answered), "it asks no more");
    assert_eq!(ada.ask_until_paused("other", "gated").await.state, TurnState::Paused, "elsewhere it does");
}

#[tokio::test]
async fn a_pause_survives_a_crash_and_a_restart_and_the_tool_runs_once() {
    for engine in ENGINES {
        let mut server = Server::start(with_tools(engine)).await;
        let ada = server.person("ada@x.org");
        let paused = ada.ask_until_paused("chat", "gated").await;
        server.kill();
        server.restart();
        let ada = ada.at(&server);
        assert_eq!(ada.turns("chat").await.pop().unwrap().turn, paused, "it waits as before");
        assert_eq!(ada.get("/api/chat/chat/stream").await.status(), StatusCode::NO_CONTENT, "nothing runs");
        let waiting = ada.follow(&paused, 0).await;
        assert_eq!(ada.allow(&paused, &only(&paused).call).await, StatusCode::OK);
        let ended = waiting.finish().await.turn;
        assert_eq!((ended.end(), ada.runs("chat").await), (Some(End::Answered), 1), "{engine:?}");
        assert_eq!(ada.settled("chat").await, ended);
    }
}

#[tokio::test]
async fn a_new_message_takes_the_place_of_an_answer() {
    for engine in ENGINES {
        let server = Server::start(with_tools(engine)).await;
        let ada = server.person("ada@x.org");
        let paused = ada.ask_until_paused("chat", "gated").await;
        let watching = ada.follow(&paused, 0).await;
        assert_eq!(ada.ask("chat", "quick").await.end(), Some(End::Answered));
        let ended = watching.finish().await.turn;
        assert_eq!(ended.end(), Some(End::Interrupted(Interruption::Superseded)), "who watches is told");
        assert_eq!(why_failed(&only(&ended)), "A new message came instead of an answer.");
        assert_eq!(ada.allow(&paused, &only(&paused).call).await, StatusCode::CONFLICT);
        assert_eq!(ada.runs("chat").await, 0);
    }
}

#[tokio::test]
async fn what_nobody_answers_is_given_up_by_a_set_clock() {
    for (query, after_s, early_s) in [("gated", 24 * 60 * 60 + 1, 24 * 60 * 60 - 60), ("browser", 121, 100)] {
        let clock = tempfile::NamedTempFile::new().unwrap();
        let setting = with_tools(Engine::Sqlite).with("CHATGXY_TEST_CLOCK", clock.path().to_str().unwrap());
        let server = Server::start(setting).await;
        let ada = server.person("ada@x.org");
        let paused = ada.ask_until_paused("chat", query).await;
        std::fs::write(clock.path(), (early_s * 1_000).to_string()).unwrap();
        assert_eq!(ada.turns("chat").await.pop().unwrap().turn.state, TurnState::Paused, "not before its time");
        let watching = ada.follow(&paused, 0).await;
        std::fs::write(clock.path(), (after_s * 1_000).to_string()).unwrap();
        let read = ada.settled("chat").await;
        assert_eq!(read.end(), Some(End::Interrupted(Interruption::Expired)), "whoever reads it settles it");
        assert_eq!(why_failed(&only(&read)), "Nobody answered in time.");
        assert_eq!(watching.finish().await.turn, read, "who watches is told");
        assert_eq!((ada.allow(&paused, &only(&paused).call).await, ada.runs("chat").await), (StatusCode::CONFLICT, 0), "too late");
        assert_eq!(ada.ask("chat", "quick").await.end(), Some(End::Answered));
    }
}

#[tokio::test]
async fn a_browser_tool_is_run_by_the_tab_that_gets_it() {
    for engine in ENGINES {
        let server = Server::start(with_tools(engine)).await;
        let ada = server.person("ada@x.org");
        let paused = ada.ask_until_paused("chat", "browser").await;
        let call = only(&paused).call;
        let claim = async |tab: &str| ada.act(&paused, &call, "claim", tab, "").await.json::<bool>().await.unwrap();
        let (one, two) = tokio::join!(claim("one"), claim("two"));
        assert!(one != two, "exactly one tab has it");
        let (winner, loser) = if one { ("one", "two") } else { ("two", "one") };
        assert!(claim(winner).await, "and keeps it");
        assert_eq!(ada.act(&paused, &call, "ran", loser, "1").await.status(), StatusCode::CONFLICT);
        assert_eq!(ada.act(&paused, &call, "ran", winner, "{not json").await.status(), StatusCode::BAD_REQUEST);
        assert_eq!(ada.act(&paused, &call, "ran", winner, "{\"ran\":\"here\"}").await.status(), StatusCode::OK);
        let ended = ada.follow(&paused, 0).await.finish().await.turn;
        assert!(ended.text().contains("{\"ran\":\"here\"}"), "{}", ended.text());
        assert_eq!((ended.end(), ada.runs("chat").await), (Some(End::Answered), 0), "the server runs nothing");
    }
}

#[tokio::test]
async fn a_nested_agent_asks_and_its_answer_cascades_also_after_a_restart() {
    for engine in ENGINES {
        let mut server = Server::start(with_tools(engine)).await;
        let ada = server.person("ada@x.org");
        let paused = ada.ask_until_paused("chat", "consult").await;
        let expected = [("consult_agent", "running"), ("consult_agent", "running"), ("test_gated", "asking")];
        assert_eq!(names(&paused), expected.map(|(name, state)| (name.to_owned(), state)));
        let html = ada.turns("chat").await.pop().unwrap().html.concat().concat();
        assert!(html.contains("Asked by Router › Error analysis › Custom tool"), "{html}");
        server.kill();
        server.restart();
        let ada = ada.at(&server);
        assert_eq!(ada.allow(&paused, &ids(&paused)[2]).await, StatusCode::OK);
        let ended = ada.follow(&paused, 0).await.finish().await.turn;
        assert_eq!((ended.end(), names(&ended).iter().all(|(_, state)| *state == "done")), (Some(End::Answered), true), "{ended:?}");
        assert!(ended.text().contains("INNER") && !ended.text().contains("secret of the inner agent"), "{}", ended.text());
        assert_eq!((ada.runs("chat").await, ada.settled("chat").await), (1, ended));
    }
}

#[tokio::test]
async fn stop_reaches_a_running_tool() {
    let server = Server::start(with_tools(Engine::Sqlite)).await;
    let ada = server.person("ada@x.org");
    let turn = ada.send("chat", "long tool").await;
    ada.until(&turn, |turn| turn.every_call().iter().any(|call| call.state.name() == "running")).await;
    let begun = Instant::now();
    assert_eq!(ada.call("chat/stop", &[("turn", turn.id.as_str())]).await.status(), StatusCode::OK);
    assert!(begun.elapsed() < Duration::from_secs(2));
    assert_eq!(why_failed(&only(&ada.settled("chat").await)), "Stopped by the user.");
}

#[tokio::test]
async fn a_tool_that_takes_too_long_is_given_up() {
    let server = Server::start(with_tools(Engine::Sqlite)).await;
    let ada = server.person("ada@x.org");
    let turn = ada.ask("chat", "endless tool").await;
    assert!(why_failed(&only(&turn)).contains("did not finish within 5 s"), "{turn:?}");
    assert_eq!(turn.end(), Some(End::Answered));
}

#[tokio::test]
async fn tools_of_another_program_ask_first_and_one_that_dies_is_no_harm() {
    let dir = tempfile::tempdir().unwrap();
    let (settings, runs) = (dir.path().join("mcp.yml"), dir.path().join("runs"));
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_chatgxy")).with_file_name("examples").join("scripted_mcp");
    let yaml = format!(
        "things:\n  command: [{:?}, {:?}]\n  tools: {{echo: always, fail: always, die: always}}\n",
        program.to_str().unwrap(),
        runs.to_str().unwrap()
    );
    std::fs::write(&settings, yaml).unwrap();
    let server = Server::start(with_tools(Engine::Sqlite).with("CHATGXY_MCP", settings.to_str().unwrap())).await;
    let ada = server.person("ada@x.org");
    let turn = ada.ask("chat", "things").await;
    let all = names(&turn);
    assert_eq!(all.iter().map(|(_, state)| *state).collect::<Vec<_>>(), ["done", "failed", "failed"], "{turn:?}");
    assert!(turn.text().contains("hello from outside"), "{}", turn.text());
    let asked = ada.ask_until_paused("other", "add things").await;
    assert_eq!(ada.allow(&asked, &only(&asked).call).await, StatusCode::OK);
    let ended = ada.follow(&asked, 0).await.finish().await.turn;
    assert_eq!((ended.end(), names(&ended)[0].1), (Some(End::Answered), "done"), "it is there again, or never went: {ended:?}");
    let ran = std::fs::read_to_string(&runs).unwrap();
    assert_eq!(ran.lines().filter(|line| line.starts_with("add")).count(), 1, "{ran}");
}

/// The process dies at a named point of a tool's life.
#[tokio::test]
async fn a_crash_at_any_point_runs_no_tool_twice_and_leaves_nothing_open() {
    // What is known afterwards, and how often the tool ran.
    let points = [("before-claim", "gated", 0), ("after-claim", "gated", 0), ("after-tool", "gated", 1), ("after-take-up", "gated", 0)];
    for engine in ENGINES {
        for (point, query, runs) in points {
            let faults = format!("{point}=abort");
            let mut server = Server::start(with_tools(engine).with("CHATGXY_TEST_FAULTS", faults)).await;
            let ada = server.person("ada@x.org");
            let paused = ada.ask_until_paused("chat", query).await;
            let call = only(&paused).call;
            let _ = ada
                .http
                .put(format!("{}/api/chat/chat/calls/{call}", ada.base))
                .header("x-api-key", &ada.key)
                .json(&json!({"approved": true}))
                .send()
                .await;
            server.wait();
            server.restart_with(|setting| setting.vars.retain(|(name, _)| *name != "CHATGXY_TEST_FAULTS"));
            let ada = ada.at(&server);
            let ended = ada.follow(&paused, 0).await.finish().await.turn;
            assert_eq!(ended.end(), Some(End::Interrupted(Interruption::Lost)), "{engine:?} {point}");
            assert!(why_failed(&only(&ended)).contains("what it did is unknown"), "{engine:?} {point}: {ended:?}");
            assert_eq!((ada.runs("chat").await, ada.settled("chat").await), (runs, ended), "{engine:?} {point}");
            assert_eq!(ada.ask("chat", "quick").await.end(), Some(End::Answered), "the next message works");
        }
    }
}

/// The process dies at ten moments of a turn with tools, a hundred times in all.
#[tokio::test]
async fn a_hundred_kills_run_no_tool_twice() {
    let mut server = Server::start(with_tools(Engine::Sqlite)).await;
    let ada = server.person("ada@x.org");
    for run in 0..100_u64 {
        let ada = ada.at(&server);
        let chat = format!("chat{run}");
        let turn = ada.send(&chat, "both at once").await;
        tokio::time::sleep(Duration::from_millis(run % 10 * 12)).await;
        server.kill();
        server.restart();
        let ada = ada.at(&server);
        let ended = ada.follow(&turn, 0).await.finish().await.turn;
        assert!(ada.runs(&chat).await <= i64::try_from(ended.every_call().len()).unwrap(), "run {run}");
        assert_eq!(ada.settled(&chat).await, ended, "run {run}");
        if run % 10 == 9 {
            assert_eq!(ada.ask(&chat, "quick").await.end(), Some(End::Answered), "run {run}");
        }
    }
}
