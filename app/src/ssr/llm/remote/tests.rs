mod log;
mod providers;
mod wire;

use std::sync::Arc;

use std::time::{Duration, Instant};

use futures::StreamExt;
use serde_json::{Value, json};

use self::wire::{Act, Wire, delta, done, event, head, sse};
use super::{Endpoint, Limits, Provider, RemoteModel, spoken};
use crate::model::agent::AgentType;
use crate::model::event::{Failure, Finish, Usage};
use crate::ssr::llm::settings::Secret;
use crate::ssr::llm::{Chunk, Fault, Message, Model, Request};

const LIMITS: Limits = Limits { connect: Duration::from_secs(2), first_token: Duration::from_secs(5), idle: Duration::from_secs(5) };
const QUICK: Limits = Limits { connect: Duration::from_secs(2), first_token: Duration::from_millis(300), idle: Duration::from_millis(300) };

fn model_with(provider: Provider, url: &str, limits: Limits) -> RemoteModel {
    let endpoint = Endpoint { provider, model: "m".to_owned(), base_url: Some(url.to_owned()), key: Some(Secret::new("SECRETKEY123")) };
    RemoteModel::new(endpoint, limits).unwrap()
}

fn openai(wire: &Wire) -> RemoteModel {
    model_with(Provider::OpenAi, &wire.url, LIMITS)
}

fn ask(question: &str) -> Request {
    Request {
        agent: AgentType::router(),
        system: "Be brief.".to_owned(),
        messages: vec![Message::User("earlier".to_owned()), Message::Assistant("answer".to_owned()), Message::User(question.to_owned())],
        context: serde_json::Map::new(),
        temperature: None,
        max_tokens: None,
        tools: Arc::from([]),
    }
}

async fn collect(model: &RemoteModel) -> Vec<Result<Chunk, Fault>> {
    let items: Vec<_> = model.stream(ask("now?")).collect().await;
    let ends = items.iter().filter(|item| matches!(item, Err(_) | Ok(Chunk::Finish(_)))).count();
    assert_eq!(ends, 1, "exactly one end: {items:?}");
    assert!(matches!(items.last(), Some(Err(_) | Ok(Chunk::Finish(_)))), "the end is last: {items:?}");
    items
}

/// The text, the thinking and the end of a call.
async fn outcome(model: &RemoteModel) -> (String, String, Result<Finish, Failure>) {
    let (mut text, mut thinking, mut end) = (String::new(), String::new(), Err(Failure::Internal));
    for item in collect(model).await {
        match item {
            Ok(Chunk::Text(piece)) => {
                assert!(!piece.is_empty());
                text += &piece;
            }
            Ok(Chunk::Reasoning(piece)) => {
                assert!(!piece.is_empty());
                thinking += &piece;
            }
            Ok(Chunk::Finish(finish)) => end = Ok(finish),
            Ok(_) => {}
            Err(fault) => end = Err(fault.failure),
        }
    }
    (text, thinking, end)
}

async fn fails(acts: Vec<Act>) -> (String, Failure) {
    let wire = Wire::new(acts).await;
    let (text, _, end) = outcome(&openai(&wire)).await;
    assert_eq!(wire.requests().len(), 1, "a model never retries");
    (text, end.expect_err("a fault"))
}

fn write(text: impl Into<String>) -> Act {
    Act::Write(text.into())
}

fn body_of(request: &str) -> Value {
    serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap()
}

#[tokio::test]
async fn text_usage_and_finish_come_as_they_were_sent() {
    let pieces = ["Hello", ",\u{a0}\r\n ", "wörld ", "👩‍🔬", "\n\n"];
    let wire = Wire::new(vec![sse(), write(pieces.map(delta).concat()), write(done())]).await;
    let items = collect(&openai(&wire)).await;
    let expected = pieces
        .map(|piece| Ok(Chunk::Text(piece.to_owned())))
        .into_iter()
        .chain([Ok(Chunk::Tokens(Usage { input: 5, output: 2 })), Ok(Chunk::Finish(Finish::Stop))]);
    assert_eq!(items, expected.collect::<Vec<_>>());

    let request = &wire.requests()[0];
    assert!(request.starts_with("POST /chat/completions "), "{request}");
    assert!(request.to_lowercase().contains("authorization: bearer secretkey123\r\n"), "{request}");
    let body = body_of(request);
    assert_eq!((&body["model"], &body["stream"]), (&json!("m"), &json!(true)));
    let expected = json!([
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "earlier"},
        {"role": "assistant", "content": "answer"},
        {"role": "user", "content": "now?"},
    ]);
    assert_eq!(body["messages"], expected);
}

#[tokio::test]
async fn a_server_without_a_key_gets_no_authorization() {
    let wire = Wire::new(vec![sse(), write(delta("a")), write(done())]).await;
    let endpoint = Endpoint { provider: Provider::OpenAi, model: "m".to_owned(), base_url: Some(format!("{}/v1", wire.url)), key: None };
    let model = RemoteModel::new(endpoint, LIMITS).unwrap();
    assert_eq!(outcome(&model).await.2, Ok(Finish::Stop));
    let request = wire.requests().remove(0);
    assert!(request.starts_with("POST /v1/chat/completions "));
    assert!(!request.to_lowercase().contains("authorization"));
}

#[tokio::test]
async fn characters_split_over_packets_stay_whole() {
    let text = "naïve 日本語 👩‍🔬 \u{301}";
    let wire = Wire::new(vec![sse(), Act::Drip(format!(": ping\n\n{}{}", delta(text), done()))]).await;
    assert_eq!(outcome(&openai(&wire)).await, (text.to_owned(), String::new(), Ok(Finish::Stop)));
}

#[tokio::test]
async fn thinking_is_told_from_text() {
    let think = event(&json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
        "choices": [{"index": 0, "delta": {"reasoning_content": "hmm"}, "finish_reason": null}]}));
    let wire = Wire::new(vec![sse(), write(think + &delta("so") + &done())]).await;
    assert_eq!(outcome(&openai(&wire)).await, ("so".to_owned(), "hmm".to_owned(), Ok(Finish::Stop)));
}

#[tokio::test]
async fn a_broken_stream_is_never_taken_for_a_whole_one() {
    let chunked = || head("200 OK", "content-type: text/event-stream\r\ntransfer-encoding: chunked\r\n");
    let first = delta("half");
    let torn = vec![chunked(), write(format!("{:x}\r\n{first}\r\n", first.len()))];
    assert_eq!(fails(torn).await, ("half".to_owned(), Failure::Cut));
    assert_eq!(fails(vec![sse(), write(first)]).await, ("half".to_owned(), Failure::Cut), "a clean end without a finish");
    assert_eq!(fails(vec![sse()]).await, (String::new(), Failure::Cut));
    assert_eq!(fails(vec![]).await, (String::new(), Failure::Cut), "closed without a word");
}

#[tokio::test]
async fn an_error_inside_of_the_stream_ends_it() {
    let frame = |error: Value| vec![sse(), write(delta("half")), write(event(&json!({"error": error}))), write(done())];
    let (text, failure) = fails(frame(json!({"message": "SECRET prompt text", "type": "server_error"}))).await;
    assert_eq!((text.as_str(), failure), ("half", Failure::Upstream));
    let (_, failure) = fails(frame(json!({"message": "slow", "code": 429}))).await;
    assert_eq!(failure, Failure::RateLimited);
}

#[tokio::test]
async fn refusals_are_told_apart_by_status() {
    let refuse = |status: &str, body: &str| {
        vec![head(status, &format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len())), write(body)]
    };
    let known = r#"{"error":{"message":"no","code":"model_not_found"}}"#;
    let long = r#"{"error":{"message":"no","code":"context_length_exceeded"}}"#;
    let cases = [
        ("500 Internal Server Error", "{}", Failure::Upstream),
        ("401 Unauthorized", "{}", Failure::KeyRefused),
        ("403 Forbidden", "{}", Failure::KeyRefused),
        ("404 Not Found", known, Failure::Rejected),
        ("400 Bad Request", long, Failure::TooLong),
        ("400 Bad Request", "{}", Failure::Rejected),
        ("413 Payload Too Large", "{}", Failure::TooLong),
    ];
    for (status, body, failure) in cases {
        assert_eq!(fails(refuse(status, body)).await, (String::new(), failure), "{status} {body}");
    }
}

#[tokio::test]
async fn too_many_requests_says_how_long_to_wait() {
    let wire = Wire::new(vec![head("429 Too Many Requests", "retry-after: 7\r\ncontent-length: 2\r\n"), write("{}")]).await;
    let items = collect(&openai(&wire)).await;
    let wait = Some(Duration::from_secs(7));
    assert_eq!(items, [Err(Fault { failure: Failure::RateLimited, retry_after: wait })]);
}

#[tokio::test]
async fn what_is_not_a_model_api_is_named_so() {
    let page = || vec![head("200 OK", "content-type: text/html\r\n"), write("<!doctype html><p>Welcome")];
    assert_eq!(fails(page()).await, (String::new(), Failure::NotAModel));
    let moved = vec![head("302 Found", "location: http://127.0.0.1:1/elsewhere\r\ncontent-length: 0\r\n")];
    assert_eq!(fails(moved).await, (String::new(), Failure::NotAModel), "a redirect is not followed");
    for provider in [Provider::Anthropic, Provider::Gemini, Provider::Ollama] {
        let wire = Wire::new(page()).await;
        let end = outcome(&model_with(provider, &wire.url, LIMITS)).await.2;
        assert_eq!(end, Err(Failure::NotAModel), "{provider:?}");
    }
}

#[tokio::test]
async fn nobody_at_the_address_is_unreachable() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let end = outcome(&model_with(Provider::OpenAi, &format!("http://{closed}"), LIMITS)).await.2;
    assert_eq!(end, Err(Failure::Unreachable));
}

#[tokio::test]
async fn a_stalled_first_token_times_out_even_when_the_server_pings() {
    let ping = [write(": ping\n\n"), Act::Pause(Duration::from_millis(100))];
    let acts = [sse()].into_iter().chain(ping.into_iter().cycle().take(40)).chain([Act::Hold]).collect();
    for acts in [acts, vec![Act::Hold], vec![sse(), Act::Hold]] {
        let wire = Wire::new(acts).await;
        let start = Instant::now();
        let (text, _, end) = outcome(&model_with(Provider::OpenAi, &wire.url, QUICK)).await;
        assert_eq!((text.as_str(), end), ("", Err(Failure::TimedOut)));
        assert!((250..1500).contains(&start.elapsed().as_millis()), "{:?}", start.elapsed());
    }
}

#[tokio::test]
async fn a_stream_that_falls_silent_times_out_and_keeps_its_text() {
    let wire = Wire::new(vec![sse(), write(delta("half")), Act::Hold]).await;
    let (text, _, end) = outcome(&model_with(Provider::OpenAi, &wire.url, QUICK)).await;
    assert_eq!((text.as_str(), end), ("half", Err(Failure::TimedOut)));
    wire.closed().await;
}

#[tokio::test]
async fn a_slow_stream_that_keeps_coming_is_left_alone() {
    let slow = (0..6).flat_map(|_| [write(delta("x")), Act::Pause(Duration::from_millis(150))]);
    let wire = Wire::new([sse()].into_iter().chain(slow).chain([write(done())]).collect()).await;
    let (text, _, end) = outcome(&model_with(Provider::OpenAi, &wire.url, QUICK)).await;
    assert_eq!((text.as_str(), end), ("xxxxxx", Ok(Finish::Stop)));
}

#[tokio::test]
async fn the_end_does_not_wait_for_the_connection_to_close() {
    let wire = Wire::new(vec![sse(), write(delta("a")), write(done()), Act::Hold]).await;
    let start = Instant::now();
    assert_eq!(outcome(&openai(&wire)).await.2, Ok(Finish::Stop));
    assert!(start.elapsed() < Duration::from_secs(2));
}

#[tokio::test]
async fn dropping_the_stream_closes_the_connection() {
    let wire = Wire::new(vec![sse(), write(delta("half")), Act::Hold]).await;
    let mut stream = openai(&wire).stream(ask("x"));
    assert_eq!(stream.next().await, Some(Ok(Chunk::Text("half".to_owned()))));
    drop(stream);
    wire.closed().await;

    let wire = Wire::new(vec![Act::Hold]).await;
    let model = openai(&wire);
    let mut before_headers = model.stream(ask("x"));
    assert!(tokio::time::timeout(Duration::from_millis(100), before_headers.next()).await.is_err());
    drop(before_headers);
    wire.closed().await;
}

#[tokio::test]
async fn nothing_happens_before_the_first_poll() {
    let wire = Wire::new(vec![Act::Hold]).await;
    let stream = openai(&wire).stream(ask("x"));
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(wire.requests().is_empty());
    drop(stream);
}

#[test]
fn a_conversation_with_gaps_is_sent_with_each_side_in_turn() {
    let user = |text: &str| Message::User(text.to_owned());
    let assistant = |text: &str| Message::Assistant(text.to_owned());
    let gaps = vec![user("a"), assistant(" \n"), user("b"), assistant("c"), user("d")];
    assert_eq!(spoken(gaps), [user("a\n\nb"), assistant("c"), user("d")]);
}
