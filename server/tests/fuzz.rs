//! Made-up input on every way in that reads more than a name: whatever comes, the answer is no 5xx and the server goes on.
//! `make fuzz` does the same from the API's own description.

#![allow(clippy::unwrap_used, reason = "a test may stop")]

mod common;

use common::{Browser, TestApp};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use reqwest::header::CONTENT_TYPE;
use reqwest::{Method, RequestBuilder};
use serde_json::{Map, Value, json};

const CASES: usize = 150;

/// JSON of any shape, with the names that the readers look for.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        prop::sample::select(vec!["user", "assistant", "text", "submit-message", "regenerate-message", "auto", "router", "1"])
            .prop_map(Value::from),
    ];
    let name = prop::sample::select(vec![
        "query",
        "context",
        "exchange_id",
        "page_id",
        "regenerate",
        "id",
        "messages",
        "message",
        "trigger",
        "messageId",
        "role",
        "parts",
        "type",
        "text",
        "metadata",
        "agent_type",
        "feedback",
        "reason",
        "ids",
        "email",
        "password",
        "username",
    ]);
    leaf.prop_recursive(4, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((name.clone(), inner), 0..8).prop_map(|fields| fields
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect::<Map<_, _>>()
                .into()),
        ]
    })
}

/// Some of what a strategy makes, the same in every run.
fn samples<T: Clone + std::fmt::Debug>(strategy: impl Strategy<Value = T>) -> Vec<T> {
    let mut runner = TestRunner::new_with_rng(
        Config::default(),
        proptest::test_runner::TestRng::deterministic_rng(prop::test_runner::RngAlgorithm::ChaCha),
    );
    (0..CASES).map(|_| strategy.new_tree(&mut runner).unwrap().current()).collect()
}

async fn holds(app: &TestApp, browser: &Browser, requests: Vec<(String, RequestBuilder)>) {
    assert!(!requests.is_empty());
    for (what, request) in requests {
        // What no client can send (a header with a line break) is no case.
        let Ok(answer) = request.send().await.map_err(|error| assert!(error.is_builder(), "{what}: {error}")) else { continue };
        let status = answer.status().as_u16();
        assert!(status < 500, "{status} for {what}: {}", answer.text().await.unwrap_or_default());
    }
    assert_eq!(browser.viewer().await.as_deref(), Some("ada@example.org"));
    assert_eq!(app.browser().get("/readyz").await.status(), 200);
}

#[tokio::test]
async fn no_body_breaks_the_api() {
    let app = TestApp::start().await;
    let ada = app.person("ada@example.org").await;
    let mut requests = Vec::new();
    for (n, body) in samples(any_json()).into_iter().enumerate() {
        let (method, path) = [
            (Method::POST, "/api/chat"),
            (Method::POST, "/api/chat?agent_type=error_analysis"),
            (Method::POST, "/api/ai/agents/query"),
            (Method::PUT, "/api/chat/exchange/1/feedback"),
            (Method::PUT, "/api/chat/exchanges/batch/delete"),
            (Method::POST, "/api/users"),
        ][n % 6]
            .clone();
        // Each is tried as it is, and beside what makes it a request of a known kind.
        let mut bodies = vec![body.clone()];
        if path.starts_with("/api/chat") {
            bodies.push(json!({"query": "hi", "context": body, "exchange_id": body}));
            bodies.push(json!({"id": "fuzz", "message": {"id": "m", "role": "user", "parts": body}}));
            bodies.push(json!({"id": "fuzz", "messages": body, "trigger": "submit-message"}));
        }
        for body in bodies {
            let text = body.to_string();
            let request = ada.request(method.clone(), path).header(CONTENT_TYPE, "application/json").body(text.clone());
            requests.push((format!("{method} {path} {text}"), request));
        }
    }
    holds(&app, &ada, requests).await;
}

#[tokio::test]
async fn no_text_in_an_address_a_header_or_a_form_breaks_the_server() {
    let app = TestApp::start().await;
    let ada = app.person("ada@example.org").await;
    ada.ask(json!({"query": "hi", "exchange_id": null})).await;
    let mut requests = Vec::new();
    for text in samples(any::<String>()) {
        let coded = common::encoded(&[("x", &text)])[2..].to_owned();
        for path in [
            format!("/image?src=https://{coded}"),
            format!("/image?src={coded}"),
            format!("/api/chat/history?limit={coded}"),
            format!("/api/chat/history?before={coded}"),
            format!("/api/chat/exchange/{coded}/messages"),
            format!("/api/chat/{coded}/stream"),
            format!("/chatgxy/{coded}"),
            format!("/chatgxy/new?before={coded}"),
            format!("/chatgxy/turns/{coded}/events?after={coded}"),
            format!("/pkg/{coded}"),
            format!("/{coded}"),
        ] {
            requests.push((path.clone(), ada.request(Method::GET, &path)));
        }
        for header in ["last-event-id", "x-api-key", "cookie", "x-forwarded-for", "accept", "origin", "run-as", "if-none-match"] {
            let request = ada.http.get(format!("{}/chatgxy/turns/x/events", ada.base)).header(header, text.clone());
            requests.push((format!("{header}: {text:?}"), request));
        }
        for (name, field) in [
            ("chat/send", "query"),
            ("chat/send", "exchange"),
            ("chat/conversation", "name"),
            ("chat/feedback", "good"),
            ("account/create-key", "name"),
        ] {
            requests.push((format!("{name} {field}={text:?}"), ada.function(name, &[(field, &text), ("turn", &text)])));
        }
    }
    holds(&app, &ada, requests).await;
}
