//! Failing and stopping: what came is kept, the reason is shown, and it can be tried again.

use std::time::{Duration, Instant};

use app::model::event::{End, Failure, Finish, Interruption};
use app::model::exchange::TurnView;
use app::model::turn::TurnState;
use reqwest::StatusCode;

use crate::common::Engine;
use crate::server::{Server, Setting};

#[tokio::test]
async fn a_failure_keeps_question_and_partial_text_and_names_its_kind() {
    let server = Server::start(Setting::on(Engine::Sqlite).with("CHATGXY_MODEL_IDLE_TIMEOUT_S", "1")).await;
    let ada = server.person("ada@x.org");
    let table = [
        ("cut", Failure::Cut, "This much came befor"),
        ("error", Failure::Upstream, "This much came befor"),
        ("empty", Failure::Empty, ""),
        ("limited", Failure::RateLimited, ""),
        ("fault", Failure::Upstream, ""),
    ];
    for (question, why, text) in table {
        let turn = ada.ask(question, question).await;
        assert_eq!((turn.end(), turn.text().as_str()), (Some(End::Failed(why)), text), "{question}");
        let stored = ada.turns(question).await.pop().unwrap().turn;
        assert_eq!(stored.prompt.text, question);
        assert_eq!(stored, turn);
    }
}

#[tokio::test]
async fn an_answer_at_its_length_limit_is_an_answer_that_says_so() {
    let server = Server::start(Setting::on(Engine::Sqlite)).await;
    let ada = server.person("ada@x.org");
    let turn = ada.ask("chat", "length").await;
    assert!(matches!(turn.state, TurnState::Ended { end: End::Answered, finish: Some(Finish::Length), .. }));
}

#[tokio::test]
async fn a_retry_asks_the_same_question_again_in_the_same_place() {
    for engine in [Engine::Sqlite, Engine::Postgres] {
        let server = Server::start(Setting::on(engine)).await;
        let ada = server.person("ada@x.org");
        ada.ask("chat", "quick").await;
        let failed = ada.ask("chat", "cut").await;
        let again = ada.call("chat/retry", &[("turn", failed.id.as_str())]).await;
        assert_eq!(again.status(), StatusCode::OK);
        let again: TurnView = again.json().await.unwrap();
        assert_eq!((&again.turn.prompt, again.turn.attempt), (&failed.prompt, 2));
        ada.follow(&again.turn, 0).await.finish().await;
        let ids: Vec<_> = ada.turns("chat").await.into_iter().map(|view| view.turn.id).collect();
        assert_eq!((ids.len(), &ids[1]), (2, &again.turn.id));
        assert_eq!(ada.call("chat/retry", &[("turn", failed.id.as_str())]).await.status(), StatusCode::CONFLICT);
        assert_eq!(ada.call("chat/retry", &[("turn", ids[0].as_str())]).await.status(), StatusCode::CONFLICT);
    }
}

#[tokio::test]
async fn two_retries_at_once_make_one_attempt() {
    for engine in [Engine::Sqlite, Engine::Postgres] {
        let server = Server::start(Setting::on(engine)).await;
        let ada = server.person("ada@x.org");
        let failed = ada.ask("chat", "cut").await;
        let fields = [("turn", failed.id.as_str())];
        let (one, two) = tokio::join!(ada.call("chat/retry", &fields), ada.call("chat/retry", &fields));
        let mut statuses = [one.status(), two.status()];
        statuses.sort();
        assert_eq!(statuses, [StatusCode::OK, StatusCode::CONFLICT]);
        assert_eq!(ada.turns("chat").await.len(), 1);
    }
}

#[tokio::test]
async fn stop_ends_it_within_a_second_in_every_phase_and_keeps_the_text() {
    let server = Server::start(Setting::on(Engine::Sqlite)).await;
    let ada = server.person("ada@x.org");
    for (question, bytes) in [("mute", 0), ("hang", 20), ("slow", 60)] {
        let turn = ada.send(question, question).await;
        let mut reader = ada.follow(&turn, 0).await;
        reader.until_text(bytes).await;
        let begun = Instant::now();
        for _ in 0..2 {
            assert_eq!(ada.call("chat/stop", &[("turn", turn.id.as_str())]).await.status(), StatusCode::OK, "stop is idempotent");
        }
        let had = reader.view.turn.text();
        let ended = reader.finish().await.turn;
        assert!(begun.elapsed() < Duration::from_secs(1), "{question}: {:?}", begun.elapsed());
        assert_eq!(ended.end(), Some(End::Interrupted(Interruption::ByUser)));
        assert!(ended.text().starts_with(&had));
        assert_eq!(ada.turns(question).await.pop().unwrap().turn, ended);
        assert_eq!(ada.ask(question, "quick").await.end(), Some(End::Answered), "the conversation goes on");
    }
}

#[tokio::test]
async fn two_thousand_pieces_survive_a_stop_whole() {
    let server = Server::start(Setting::on(Engine::Sqlite)).await;
    let ada = server.person("ada@x.org");
    let turn = ada.send("chat", "letters").await;
    let mut reader = ada.follow(&turn, 0).await;
    reader.until_text(2_000).await;
    ada.call("chat/stop", &[("turn", turn.id.as_str())]).await;
    let ended = reader.finish().await.turn;
    assert!(ended.text().len() >= 2_000);
    assert_eq!(ada.turns("chat").await[0].turn, ended);
}
