//! Sending: stored first, once, in order, for the person alone.

use app::model::error::AppError;
use app::model::event::End;
use reqwest::StatusCode;

use crate::common::Engine;
use crate::server::{Server, Setting};

const ENGINES: [Engine; 2] = [Engine::Sqlite, Engine::Postgres];

#[tokio::test]
async fn a_conversation_is_asked_answered_and_found_again() {
    for engine in ENGINES {
        let server = Server::start(Setting::on(engine)).await;
        let ada = server.person("ada@x.org");
        let turn = ada.ask("chat", "quick one").await;
        assert_eq!((turn.end(), turn.text().as_str()), (Some(End::Answered), "A quick answer."));
        assert_eq!((turn.agent().as_str(), turn.model.as_deref()), ("router", Some("static")));
        assert!(turn.usage.output > 0 && turn.took_ms().is_some());
        ada.ask("chat", "think about it").await;
        let found = ada.conversation("chat").await;
        assert_eq!((found.summary.title.as_str(), found.summary.turn_count, found.earlier), ("quick one", 2, 0));
        let texts: Vec<_> = found.turns.iter().map(|view| view.turn.text()).collect();
        assert_eq!(texts, ["A quick answer.", "So be it."]);
        assert_eq!(found.turns[0].turn.reply.suggestions[0].description, "Read on");
    }
}

#[tokio::test]
async fn a_second_question_to_a_busy_conversation_is_refused_and_leaves_no_row() {
    for engine in ENGINES {
        let server = Server::start(Setting::on(engine)).await;
        let ada = server.person("ada@x.org");
        let first = ada.send("chat", "slow").await;
        let second = ada.try_send("chat", "p2", "quick").await;
        assert_eq!(second.status(), StatusCode::CONFLICT);
        assert_eq!(second.json::<AppError>().await.unwrap(), AppError::busy());
        assert_eq!(ada.turns("chat").await.len(), 1);
        assert_eq!(ada.call("chat/stop", &[("turn", first.id.as_str())]).await.status(), StatusCode::OK);
        assert_eq!(ada.try_send("chat", "p2", "quick").await.status(), StatusCode::OK);
    }
}

#[tokio::test]
async fn the_same_prompt_twice_makes_one_turn_and_equal_words_make_two() {
    let server = Server::start(Setting::on(Engine::Sqlite)).await;
    let ada = server.person("ada@x.org");
    ada.ask("chat", "quick").await;
    for _ in 0..2 {
        assert_eq!(ada.try_send("chat", "same", "quick").await.status(), StatusCode::OK);
        let turns = ada.turns("chat").await;
        let last = turns.last().unwrap().turn.clone();
        ada.follow(&last, 0).await.finish().await;
    }
    assert_eq!(ada.turns("chat").await.len(), 2, "dedupe goes by id, not by text");
}

#[tokio::test]
async fn ten_sends_at_once_make_one_turn() {
    for engine in ENGINES {
        let server = Server::start(Setting::on(engine)).await;
        let ada = server.person("ada@x.org");
        let sends = (0..10).map(|n| {
            let ada = ada.clone();
            async move { ada.try_send("chat", &format!("p{n}"), "slow").await.status() }
        });
        let mut statuses = futures::future::join_all(sends).await;
        statuses.sort();
        assert_eq!(statuses[0], StatusCode::OK);
        assert!(statuses[1..].iter().all(|status| *status == StatusCode::CONFLICT), "{statuses:?}");
        assert_eq!(ada.turns("chat").await.len(), 1);
    }
}

#[tokio::test]
async fn what_cannot_be_asked_says_why_and_stores_nothing() {
    let server = Server::start(Setting::on(Engine::Sqlite)).await;
    let ada = server.person("ada@x.org");
    let long = "x".repeat(200_001);
    let table: [(&str, &str, &str); 8] = [
        ("chat", "p1", ""),
        ("chat", "p1", "  \n\u{a0} "),
        ("chat", "p1", &long),
        ("no spaces", "p1", "quick"),
        ("new", "p1", "quick"),
        ("../etc", "p1", "quick"),
        ("chat", "not an id", "quick"),
        (&long, "p1", "quick"),
    ];
    for (exchange, prompt, query) in table {
        let answer = ada.try_send(exchange, prompt, query).await;
        assert_eq!(answer.status(), StatusCode::BAD_REQUEST, "{}", &exchange[..exchange.len().min(20)]);
        assert!(matches!(answer.json::<AppError>().await.unwrap(), AppError::Invalid { .. }));
    }
    assert_eq!(ada.try_send("999999", "p1", "quick").await.status(), StatusCode::NOT_FOUND, "a number must exist");
    let history = ada.get("/api/chat/history").await.json::<serde_json::Value>().await.unwrap();
    assert_eq!(history, serde_json::json!([]));
}

#[tokio::test]
async fn any_text_is_kept_but_for_nul() {
    for engine in ENGINES {
        let server = Server::start(Setting::on(engine)).await;
        let ada = server.person("ada@x.org");
        let odd = "quick \u{202e}abc\u{0}def \\u0000 'quoted' \"q\" ; drop table chat_exchange; \u{1F469}\u{200D}\u{1F52C}\r\n\tz\u{7f}";
        ada.ask("chat", odd).await;
        assert_eq!(ada.turns("chat").await[0].turn.prompt.text, odd.replace('\0', ""));
    }
}

#[tokio::test]
async fn someone_elses_turn_is_as_if_it_were_not_there() {
    for engine in ENGINES {
        let server = Server::start(Setting::on(engine)).await;
        let (ada, bob) = (server.person("ada@x.org"), server.person("bob@x.org"));
        let turn = ada.send("chat", "slow").await;
        let id = turn.id.as_str();
        let calls: [(&str, &[(&str, &str)]); 6] = [
            ("chat/conversation", &[("name", "chat")]),
            ("chat/stop", &[("turn", id)]),
            ("chat/retry", &[("turn", id)]),
            ("chat/delete", &[("name", "chat")]),
            ("chat/feedback", &[("turn", id), ("good", "true")]),
            ("chat/send", &[("exchange", "chat"), ("query", "quick")]),
        ];
        for (function, fields) in calls {
            assert_eq!(bob.call(function, fields).await.status(), StatusCode::NOT_FOUND, "{function}");
        }
        assert_eq!(bob.get(&format!("/chatgxy/turns/{id}/events")).await.status(), StatusCode::NOT_FOUND);
        assert_eq!(ada.turns("chat").await[0].turn.state_name(), "running", "and nothing happened to it");
        let nobody = reqwest::get(format!("{}/chatgxy/turns/{id}/events", server.base)).await.unwrap();
        assert_eq!(nobody.status(), StatusCode::UNAUTHORIZED);
    }
}

#[tokio::test]
async fn feedback_is_kept_per_turn() {
    let server = Server::start(Setting::on(Engine::Sqlite)).await;
    let ada = server.person("ada@x.org");
    ada.ask("chat", "quick one").await;
    let second = ada.ask("chat", "quick two").await;
    let fields = [("turn", second.id.as_str()), ("good", "false"), ("reason", "wrong tool")];
    assert_eq!(ada.call("chat/feedback", &fields).await.status(), StatusCode::OK);
    let turns = ada.turns("chat").await;
    assert_eq!(turns[0].turn.feedback, None);
    let kept = turns[1].turn.feedback.clone().unwrap();
    assert_eq!((kept.good, kept.reason.as_deref()), (false, Some("wrong tool")));
    let long = "x".repeat(1_001);
    let fields = [("turn", second.id.as_str()), ("good", "false"), ("reason", long.as_str())];
    assert_eq!(ada.call("chat/feedback", &fields).await.status(), StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn deleting_a_conversation_stops_its_answer_and_can_be_undone() {
    let server = Server::start(Setting::on(Engine::Sqlite)).await;
    let ada = server.person("ada@x.org");
    let turn = ada.send("chat", "slow").await;
    let reader = ada.follow(&turn, 0).await;
    let deleted_at: i64 = ada.call("chat/delete", &[("name", "chat")]).await.json().await.unwrap();
    assert_eq!(reader.finish().await.turn.state_name(), "interrupted");
    assert_eq!(ada.call("chat/conversation", &[("name", "chat")]).await.status(), StatusCode::NOT_FOUND);
    let key = deleted_at.to_string();
    assert_eq!(ada.call("chat/restore", &[("deleted_at", key.as_str())]).await.status(), StatusCode::OK);
    assert_eq!(ada.turns("chat").await.len(), 1);
}

#[tokio::test]
async fn a_long_conversation_is_read_in_windows() {
    let server = Server::start(Setting::on(Engine::Sqlite)).await;
    let ada = server.person("ada@x.org");
    for n in 0..35 {
        ada.ask("chat", &format!("quick {n}")).await;
    }
    let last = ada.conversation("chat").await;
    assert_eq!((last.turns.len(), last.earlier, last.summary.turn_count), (30, 5, 35));
    let before = last.turns[0].turn.row.to_string();
    let rest = ada.call("chat/conversation", &[("name", "chat"), ("before", before.as_str())]).await;
    let rest: app::model::exchange::Conversation = rest.json().await.unwrap();
    let questions: Vec<_> = rest.turns.iter().map(|view| view.turn.prompt.text.clone()).collect();
    assert_eq!((questions, rest.earlier), ((0..5).map(|n| format!("quick {n}")).collect(), 0));
}
