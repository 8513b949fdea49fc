//! Several server processes on one PostgreSQL: a turn runs in one of them, and can be asked, followed, answered and stopped by all.

use std::process::Command;
use std::time::{Duration, Instant};

use app::model::event::{End, Interruption};
use app::model::turn::TurnState;
use reqwest::StatusCode;

use crate::common::Engine;
use crate::server::{Server, Setting};

fn setting() -> Setting {
    Setting::on(Engine::Postgres).with("CHATGXY_TEST_TOOLS", "1").with("CHATGXY_LEASE_S", "2")
}

#[tokio::test]
async fn what_one_process_writes_another_shows_word_by_word() {
    let a = Server::start(setting()).await;
    let b = a.beside(setting());
    let ada = a.person("ada@x.org");
    let turn = ada.send("chat", "slow").await;
    let mut there = ada.at(&b).follow(&turn, 0).await;
    let mut steps = 0;
    while there.view.turn.text().len() < 400 {
        assert!(there.next().await.is_some(), "{:?}", there.view.turn);
        steps += 1;
    }
    assert!(steps > 8, "it comes in pieces, not at the end: {steps}");
    let (here, there) = tokio::join!(async { ada.follow(&turn, 0).await.finish().await }, there.finish());
    assert_eq!(here, there, "both show the same, HTML included");
    assert_eq!(ada.at(&b).turns("chat").await.pop().unwrap(), here);
}

#[tokio::test]
async fn a_turn_is_stopped_from_another_process() {
    let a = Server::start(setting()).await;
    let b = a.beside(setting());
    let ada = a.person("ada@x.org");
    let turn = ada.send("chat", "slow").await;
    ada.follow(&turn, 0).await.until_text(20).await;
    let begun = Instant::now();
    assert_eq!(ada.at(&b).call("chat/stop", &[("turn", turn.id.as_str())]).await.status(), StatusCode::OK);
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    let ended = ada.follow(&turn, 0).await.finish().await.turn;
    assert_eq!(ended.end(), Some(End::Interrupted(Interruption::ByUser)));
    let busy = ada.at(&b).try_send("chat", "p2", "quick").await;
    assert_eq!(busy.status(), StatusCode::OK, "the conversation is free again");
}

#[tokio::test]
async fn a_question_is_answered_in_another_process_which_runs_the_turn_on() {
    let mut a = Server::start(setting()).await;
    let b = a.beside(setting());
    let ada = a.person("ada@x.org");
    let paused = ada.ask_until_paused("chat", "gated").await;
    let (here, there) = (ada.follow(&paused, 0).await, ada.at(&b).follow(&paused, 0).await);
    let call = paused.every_call()[0].call.clone();
    let (one, two) = tokio::join!(ada.allow_at(&a, &paused, &call), ada.allow_at(&b, &paused, &call));
    assert_eq!((one, two), (StatusCode::OK, StatusCode::OK), "the same answer twice is one answer");
    let (here, there) = tokio::join!(here.finish(), there.finish());
    assert_eq!((here.turn.end(), &here.turn), (Some(End::Answered), &there.turn));
    assert_eq!(ada.runs("chat").await, 1);
    // The process that asked is gone; the other one takes the answer all the same.
    let paused = ada.ask_until_paused("chat", "gated again").await;
    a.kill();
    let call = paused.every_call()[0].call.clone();
    assert_eq!(ada.allow_at(&b, &paused, &call).await, StatusCode::OK);
    assert_eq!(ada.at(&b).follow(&paused, 0).await.finish().await.turn.end(), Some(End::Answered));
}

#[tokio::test]
async fn an_answer_finds_its_way_to_the_process_that_still_runs_the_turn() {
    let a = Server::start(setting()).await;
    let b = a.beside(setting());
    let ada = a.person("ada@x.org");
    let turn = ada.send("chat", "mixed").await;
    let asking = |turn: &app::model::turn::Turn| turn.every_call().iter().any(|call| call.state.name() == "asking");
    let mixed = ada.until(&turn, asking).await;
    assert_eq!(mixed.state, TurnState::Running, "the other tool runs for a while");
    let call = mixed.every_call().into_iter().find(|call| call.state.name() == "asking").unwrap().call.clone();
    assert_eq!(ada.allow_at(&b, &mixed, &call).await, StatusCode::OK);
    let ended = ada.follow(&turn, 0).await.finish().await.turn;
    assert_eq!((ended.end(), ada.runs("chat").await), (Some(End::Answered), 2));
}

#[tokio::test]
async fn the_turns_of_a_process_that_dies_are_ended_by_another() {
    let mut a = Server::start(setting()).await;
    let b = a.beside(setting());
    let ada = a.person("ada@x.org");
    let turn = ada.send("chat", "hang").await;
    let mut there = ada.at(&b).follow(&turn, 0).await;
    there.until_text(20).await;
    a.kill();
    let killed = Instant::now();
    let ended = there.finish().await.turn;
    assert_eq!((ended.end(), ended.text().as_str()), (Some(End::Interrupted(Interruption::Lost)), "This much came, then"));
    assert!(killed.elapsed() < Duration::from_secs(6), "{:?}", killed.elapsed());
    assert_eq!(ada.at(&b).ask("chat", "quick").await.end(), Some(End::Answered));
}

#[tokio::test]
async fn a_process_that_stalls_and_comes_back_is_refused() {
    let a = Server::start(setting()).await;
    let b = a.beside(setting());
    let ada = a.person("ada@x.org");
    let turn = ada.send("chat", "slow").await;
    ada.follow(&turn, 0).await.until_text(60).await;
    let signal = |name: &str| assert!(Command::new("kill").args([name, &a.pid().to_string()]).status().unwrap().success());
    let mut here = ada.follow(&turn, 0).await;
    here.until_text(60).await;
    signal("-STOP");
    let taken = ada.at(&b).follow(&turn, 0).await.finish().await.turn;
    assert_eq!(taken.end(), Some(End::Interrupted(Interruption::Lost)));
    signal("-CONT");
    let back = here.finish().await.turn;
    assert_eq!(back.end(), Some(End::Interrupted(Interruption::Lost)), "its reader is told what became of the turn");
    assert_eq!(ada.turns("chat").await.pop().unwrap().turn, taken, "nothing that it wrote late is kept");
    assert_eq!(ada.ask("chat", "quick").await.end(), Some(End::Answered));
}
