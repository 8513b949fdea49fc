//! What an attacker found once: races with the bin, full disks, ends of sessions, ids used twice.

use std::process::Command;
use std::time::{Duration, Instant};

use reqwest::StatusCode;

use crate::common::Engine;
use crate::server::{Server, Setting};

const LONG: Duration = Duration::from_secs(20);

#[tokio::test]
async fn nothing_goes_on_running_in_a_deleted_conversation() {
    for engine in [Engine::Sqlite, Engine::Postgres] {
        let server = Server::start(Setting::on(engine).with("CHATGXY_TURNS_AT_ONCE", "3")).await;
        let ada = server.person("ada@x.org");
        for round in 0..12 {
            let chat = format!("chat{round}");
            ada.ask(&chat, "quick").await;
            let (sent, gone) = tokio::join!(ada.try_send(&chat, "p2", "slow"), async {
                if round % 2 == 0 { ada.call("chat/delete", &[("name", &chat)]).await } else { ada.call("chat/clear", &[]).await }
            });
            assert_eq!(gone.status(), StatusCode::OK);
            assert!([StatusCode::OK, StatusCode::NOT_FOUND].contains(&sent.status()), "{engine:?} {}", sent.status());
        }
        // Were any of them still running, this would be one too many.
        assert_eq!(ada.ask("last", "quick").await.text(), "A quick answer.");
    }
}

#[tokio::test]
async fn a_disk_that_was_full_is_written_again_without_a_restart() {
    let server = Server::start(Setting { files_may_fail: true, ..Setting::on(Engine::Sqlite) }).await;
    let ada = server.person("ada@x.org");
    ada.ask("chat", "quick").await;
    let limit = |size: &str| {
        let limited = Command::new("prlimit").args(["--pid", &server.pid().to_string(), &format!("--fsize={size}:unlimited")]).status();
        assert!(limited.unwrap().success());
    };
    // Not one more byte: the files are larger than that already.
    limit("4096");
    let refused = ada.try_send("chat", "p2", "quick").await;
    assert_eq!(refused.status(), StatusCode::INSUFFICIENT_STORAGE, "{}", refused.text().await.unwrap());
    assert_eq!(ada.get("/readyz").await.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(ada.turns("chat").await.len(), 1, "what is stored can be read, and nothing else is");
    limit("unlimited");
    assert_eq!(ada.get("/readyz").await.status(), StatusCode::OK);
    assert_eq!(ada.ask("chat", "quick").await.text(), "A quick answer.");
}

#[tokio::test]
async fn a_stream_ends_with_the_key_of_its_reader() {
    for engine in [Engine::Sqlite, Engine::Postgres] {
        let server = Server::start(Setting::on(engine)).await;
        let ada = server.person("ada@x.org");
        let turn = ada.send("chat", "slow").await;
        let mut reader = ada.follow(&turn, 0).await;
        reader.until_text(20).await;
        server.revoke(&ada);
        // The command line is another process: it is noticed within the interval of the check.
        let begun = Instant::now();
        while reader.next().await.is_some() {
            assert!(begun.elapsed() < LONG, "{engine:?}");
        }
        assert_eq!(ada.get("/api/chat/history").await.status(), StatusCode::UNAUTHORIZED);
    }
}

#[tokio::test]
async fn sending_again_is_answered_even_at_the_cap_and_an_id_has_one_text() {
    for engine in [Engine::Sqlite, Engine::Postgres] {
        let server = Server::start(Setting::on(engine).with("CHATGXY_TURNS_AT_ONCE", "1")).await;
        let ada = server.person("ada@x.org");
        let first = ada.try_send("chat", "p1", "hang").await;
        assert_eq!(first.status(), StatusCode::OK);
        assert_eq!(ada.try_send("other", "p2", "hang").await.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(ada.try_send("chat", "p1", "hang").await.status(), StatusCode::OK, "{engine:?}: it is stored already");
        assert_eq!(ada.try_send("chat", "p1", "hang on").await.status(), StatusCode::CONFLICT, "{engine:?}: these words are not");
        assert_eq!(ada.turns("chat").await.len(), 1);
    }
}
