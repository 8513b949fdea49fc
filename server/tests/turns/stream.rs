//! Following a turn: every reader ends with the same words, however it came.

use std::time::Duration;

use app::model::exchange::TurnView;
use app::model::frame::Frame;
use reqwest::StatusCode;

use crate::common::Engine;
use crate::server::{Reader, Server, Setting};

#[tokio::test]
async fn prefix_and_tail_are_what_an_undisturbed_reader_has() {
    for question in ["slow", "markdown", "letters"] {
        let server = Server::start(Setting::on(Engine::Sqlite)).await;
        let ada = server.person("ada@x.org");
        let turn = ada.send("chat", question).await;
        let undisturbed = tokio::spawn(ada.follow(&turn, 0).await.finish());
        let mut early = ada.follow(&turn, 0).await;
        early.until_text(40).await;
        // A reload: the page as the server renders it now, then the stream from there.
        let page = ada.turns("chat").await.pop().unwrap();
        assert!(page.turn.text().len() >= 40 && !page.turn.is_ended());
        let mut late = ada.follow(&page.turn, page.turn.seq).await;
        late.view = page;
        let (late, early, undisturbed) = (late.finish().await, early.finish().await, undisturbed.await.unwrap());
        let stored = ada.turns("chat").await.pop().unwrap();
        for view in [&late, &early, &undisturbed] {
            assert_eq!((&view.turn, &view.html), (&stored.turn, &stored.html), "{question}");
        }
    }
}

#[tokio::test]
async fn a_reconnect_goes_on_after_its_last_event_id_and_an_overlap_is_harmless() {
    let server = Server::start(Setting::on(Engine::Sqlite)).await;
    let ada = server.person("ada@x.org");
    let turn = ada.send("chat", "slow").await;
    let mut first = ada.follow(&turn, 0).await;
    first.until_text(60).await;
    let (seen, last_id) = (first.view.clone(), first.last_id.unwrap());
    drop(first);
    let url = format!("{}/chatgxy/turns/{}/events?after=0", ada.base, turn.id);
    let answer = ada.http.get(&url).header("x-api-key", &ada.key).header("last-event-id", last_id.to_string()).send().await.unwrap();
    let mut again = Reader::new(answer, seen);
    // HTML is not in the event log: a reader who comes back is given what it looks like now.
    let events = loop {
        match again.next().await.expect("more") {
            Frame::Html { .. } => {}
            other => break other,
        }
    };
    assert!(matches!(events, Frame::Events { first, .. } if first == last_id + 1), "{events:?}");
    let whole = again.finish().await;
    let mut overlap = ada.follow(&turn, 0).await;
    overlap.view = TurnView { turn: whole.turn.clone(), html: Vec::new() };
    assert_eq!(overlap.finish().await.turn, whole.turn);
}

#[tokio::test]
async fn a_reader_who_knows_more_than_the_server_is_given_the_whole_turn() {
    let server = Server::start(Setting::on(Engine::Sqlite)).await;
    let ada = server.person("ada@x.org");
    let turn = ada.send("chat", "slow").await;
    let mut reader = ada.follow(&turn, 0).await;
    reader.until_text(20).await;
    let answer = ada.get(&format!("/chatgxy/turns/{}/events?after=99999", turn.id)).await;
    let mut ahead = Reader::new(answer, TurnView { turn: turn.clone(), html: Vec::new() });
    assert!(matches!(ahead.next().await, Some(Frame::Snapshot { .. })));
    assert_eq!(ahead.finish().await.turn, reader.finish().await.turn);
}

#[tokio::test]
async fn a_turn_that_is_over_is_given_whole_with_its_one_end() {
    let server = Server::start(Setting::on(Engine::Sqlite)).await;
    let ada = server.person("ada@x.org");
    let turn = ada.ask("chat", "markdown").await;
    for after in [0, 3, 10_000] {
        let view = ada.follow(&turn, after).await.finish().await;
        assert_eq!(view.turn, turn);
        assert!(view.html.iter().flatten().any(|block| block.contains("<h1>")), "{:?}", view.html);
    }
}

#[tokio::test]
async fn closing_every_reader_stops_nothing() {
    let server = Server::start(Setting::on(Engine::Sqlite)).await;
    let ada = server.person("ada@x.org");
    let turn = ada.send("chat", "short stream").await;
    let mut reader = ada.follow(&turn, 0).await;
    reader.until_text(3).await;
    drop(reader);
    let whole = ada.follow(&turn, 0).await.finish().await;
    assert_eq!(whole.turn.text(), "one two three four five six seven eight");
}

#[tokio::test]
async fn a_reader_who_does_not_read_holds_nothing_back() {
    let server = Server::start(Setting::on(Engine::Sqlite)).await;
    let ada = server.person("ada@x.org");
    let turn = ada.send("chat", "letters").await;
    let idle = ada.get(&format!("/chatgxy/turns/{}/events", turn.id)).await;
    let other = ada.send("other", "letters").await;
    let (one, two) = tokio::join!(ada.follow(&turn, 0), ada.follow(&other, 0));
    let (one, two) = tokio::join!(one.finish(), two.finish());
    assert_eq!(one.turn.text(), two.turn.text());
    drop(idle);
}

#[tokio::test]
async fn twelve_readers_of_one_turn_see_the_same() {
    let server = Server::start(Setting::on(Engine::Sqlite)).await;
    let ada = server.person("ada@x.org");
    let turn = ada.send("chat", "markdown").await;
    let readers = futures::future::join_all((0..12).map(|_| async { ada.follow(&turn, 0).await.finish().await })).await;
    assert!(readers.windows(2).all(|pair| pair[0] == pair[1]));
}

#[tokio::test]
async fn the_stream_is_not_cached_buffered_or_compressed() {
    let server = Server::start(Setting::on(Engine::Sqlite)).await;
    let ada = server.person("ada@x.org");
    let turn = ada.ask("chat", "quick").await;
    let answer = ada
        .http
        .get(format!("{}/chatgxy/turns/{}/events", ada.base, turn.id))
        .header("x-api-key", &ada.key)
        .header("accept-encoding", "gzip, br")
        .send()
        .await
        .unwrap();
    let header = |name: &str| answer.headers().get(name).map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default();
    assert!(header("content-type").starts_with("text/event-stream"));
    assert!(header("cache-control").contains("no-store"));
    assert_eq!((header("x-accel-buffering").as_str(), header("content-encoding").as_str()), ("no", ""));
}

#[tokio::test]
async fn garbage_in_the_address_of_a_stream_is_a_4xx() {
    let server = Server::start(Setting::on(Engine::Sqlite)).await;
    let ada = server.person("ada@x.org");
    for path in ["/chatgxy/turns/nope/events", "/chatgxy/turns/%00/events", "/chatgxy/turns/a%2Fb/events"] {
        assert_eq!(ada.get(path).await.status(), StatusCode::NOT_FOUND, "{path}");
    }
    let turn = ada.ask("chat", "quick").await;
    for after in ["-1", "x", "99999999999999999999999"] {
        let status = ada.get(&format!("/chatgxy/turns/{}/events?after={after}", turn.id)).await.status();
        assert!(status.is_client_error() || status == StatusCode::OK, "{after}: {status}");
    }
}

#[tokio::test]
async fn a_thousand_kilobytes_arrive_whole() {
    let server = Server::start(Setting::on(Engine::Sqlite)).await;
    let ada = server.person("ada@x.org");
    let turn = tokio::time::timeout(Duration::from_secs(20), ada.ask("chat", "huge")).await.unwrap();
    assert_eq!(turn.text().len(), 1 << 20);
    assert_eq!(ada.turns("chat").await[0].turn.text().len(), 1 << 20);
}
