//! Crashes and shutdowns: at most a tick of text is lost, nothing spins, the next question works.

use std::time::{Duration, Instant};

use app::model::event::{End, Interruption};

use crate::common::Engine;
use crate::server::{Server, Setting};

/// A tick is 40 ms and the promise 60 ms. Here the disk syncs for other tests too, and a reader is woken late: that may add up to this.
const LOST_AT_MOST: Duration = Duration::from_millis(300);

#[tokio::test]
async fn kill_9_in_mid_answer_loses_at_most_the_last_tick() {
    for engine in [Engine::Sqlite, Engine::Postgres] {
        let mut server = Server::start(Setting::on(engine).with("CHATGXY_LEASE_S", "1")).await;
        let ada = server.person("ada@x.org");
        for round in 0..3 {
            let name = format!("chat{round}");
            let ada = ada.at(&server);
            let turn = ada.send(&name, "letters").await;
            let mut reader = ada.follow(&turn, 0).await;
            reader.until_text(80 + 50 * round).await;
            server.kill();
            let killed = Instant::now();
            let safe = reader.grew.iter().rev().find(|(at, _)| killed.duration_since(*at) > LOST_AT_MOST).map_or(0, |(_, length)| *length);
            server.restart();
            let ada = ada.at(&server);
            let ended = ada.follow(&turn, 0).await.finish().await.turn;
            assert_eq!(ended.end(), Some(End::Interrupted(Interruption::Lost)), "{engine:?}");
            let (kept, sent) = (ended.text(), reader.view.turn.text());
            assert!(kept.len() >= safe, "{engine:?}: {} of {safe} bytes kept", kept.len());
            assert!(kept.starts_with(&sent[..kept.len().min(sent.len())]));
            let mut page = ada.turns(&name).await;
            assert_eq!(page.pop().unwrap().turn, ended);
            let retry = ada.call("chat/retry", &[("turn", turn.id.as_str())]).await;
            assert!(retry.status().is_success(), "it can be tried again");
            assert_eq!(ada.ask(&format!("next{round}"), "quick").await.end(), Some(End::Answered));
        }
    }
}

#[tokio::test]
async fn kill_9_before_the_first_word_keeps_the_question() {
    let mut server = Server::start(Setting::on(Engine::Sqlite)).await;
    let ada = server.person("ada@x.org");
    let turn = ada.send("chat", "mute please").await;
    server.kill();
    server.restart();
    let ada = ada.at(&server);
    let found = ada.turns("chat").await.pop().unwrap().turn;
    assert_eq!((&found.id, found.prompt.text.as_str()), (&turn.id, "mute please"));
    assert_eq!(found.end(), Some(End::Interrupted(Interruption::Lost)));
    assert_eq!(ada.ask("chat", "quick").await.end(), Some(End::Answered));
}

#[tokio::test]
async fn sigterm_lets_a_short_answer_finish() {
    let mut server = Server::start(Setting::on(Engine::Sqlite).with("CHATGXY_DRAIN_S", "10")).await;
    let ada = server.person("ada@x.org");
    let turn = ada.send("chat", "short stream").await;
    let mut reader = ada.follow(&turn, 0).await;
    reader.until_text(3).await;
    let reading = tokio::spawn(reader.finish());
    let (server, code, took) = tokio::task::spawn_blocking(move || {
        let (code, took) = server.terminate();
        server.restart();
        (server, code, took)
    })
    .await
    .unwrap();
    let ada = ada.at(&server);
    assert_eq!(code, Some(0));
    assert!(took < Duration::from_secs(8), "{took:?}");
    assert_eq!(reading.await.unwrap().turn.end(), Some(End::Answered), "the reader saw the end");
    assert_eq!(ada.turns("chat").await[0].turn.text(), "one two three four five six seven eight");
}

#[tokio::test]
async fn sigterm_interrupts_a_long_answer_cleanly() {
    for engine in [Engine::Sqlite, Engine::Postgres] {
        let mut server = Server::start(Setting::on(engine).with("CHATGXY_DRAIN_S", "1")).await;
        let ada = server.person("ada@x.org");
        let turn = ada.send("chat", "slow").await;
        let mut reader = ada.follow(&turn, 0).await;
        reader.until_text(30).await;
        let reading = tokio::spawn(reader.finish());
        let (server, code, took) = tokio::task::spawn_blocking(move || {
            let (code, took) = server.terminate();
            server.restart();
            (server, code, took)
        })
        .await
        .unwrap();
        assert_eq!(code, Some(0), "{}", server.log());
        assert!(took < Duration::from_secs(6), "{took:?}");
        let seen = reading.await.unwrap().turn;
        assert_eq!(seen.end(), Some(End::Interrupted(Interruption::Shutdown)));
        assert_eq!(ada.at(&server).turns("chat").await[0].turn, seen, "not a word is lost");
    }
}

#[tokio::test]
async fn a_data_folder_has_one_server() {
    let server = Server::start(Setting::on(Engine::Sqlite)).await;
    let second = server.start_beside();
    assert!(!second.status.success());
    assert!(String::from_utf8_lossy(&second.stderr).contains("another chatgxy"), "{second:?}");
}
