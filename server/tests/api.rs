//! The API for programs: each address, its shapes, its refusals. Through the real router.

#![allow(clippy::unwrap_used, reason = "a test may stop")]

mod common;

use app::ssr::db::Db;
use axum::http::Method;
use common::{Browser, Engine, Setting, TestApp, json};
use serde_json::{Value, json};

const RULES: &str = r#"
rules:
  - {match: {query: "^cut"}, response: {content: "This much came."}, stream: {chunk_chars: 4, fail: cut}}
  - {match: {query: "^late"}, response: {content: "x"}, stream: {fail: hang, after_chars: 0}}
  - {match: {agent_type: custom_tool}, response: {content: "A tool.", agent_type: custom_tool, metadata: {tool_id: line-counter}}}
fallback: {content: "I do not know.", suggestions: [{action_type: view_external, description: "Read on", parameters: {url: "https://example.org"}}]}
"#;

async fn app() -> TestApp {
    TestApp::set(Engine::Sqlite, Setting::default().rules(RULES)).await
}

async fn ask(ada: &Browser, body: Value) -> Value {
    let answer = ada.send(ada.request(Method::POST, "/api/chat").json(&body)).await;
    assert_eq!(answer.status(), 200);
    json(answer).await
}

async fn call(ada: &Browser, method: Method, path: &str, body: Option<Value>) -> (u16, Value) {
    let mut request = ada.request(method, path);
    if let Some(body) = body {
        request = request.json(&body);
    }
    let answer = ada.send(request).await;
    let status = answer.status().as_u16();
    let text = common::text(answer).await;
    (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

#[tokio::test]
async fn a_question_gets_an_answer_in_the_originals_shape() {
    let app = app().await;
    let ada = app.person("ada@x.org").await;
    let reply = ask(&ada, json!({"query": "why"})).await;
    let keys: Vec<_> = reply.as_object().unwrap().keys().cloned().collect();
    let mut expected = ["response", "error_code", "error_message", "agent_response", "exchange_id", "processing_time"];
    expected.sort_unstable();
    let mut found = keys.clone();
    found.sort();
    assert_eq!(found, expected);
    assert_eq!((&reply["response"], &reply["error_code"], &reply["error_message"]), (&json!("I do not know."), &json!(0), &json!("")));
    assert_eq!(reply["agent_response"]["agent_type"], "router");
    assert_eq!(reply["agent_response"]["metadata"]["static_backend"], true);
}

#[tokio::test]
async fn an_unknown_agent_is_answered_by_the_router_which_says_so() {
    let app = app().await;
    let ada = app.person("ada@x.org").await;
    let (status, reply) = call(&ada, Method::POST, "/api/chat?agent_type=nobody", Some(json!({"query": "why"}))).await;
    assert_eq!(status, 200);
    let metadata = &reply["agent_response"]["metadata"];
    assert_eq!((&metadata["fallback"], &metadata["original_agent_type"]), (&json!(true), &json!("nobody")));
    let (_, reply) = call(&ada, Method::POST, "/api/chat?agent_type=custom_tool", Some(json!({"query": "make one"}))).await;
    assert_eq!(reply["agent_response"]["metadata"]["tool_id"], "line-counter");
    let (status, _) = call(&ada, Method::POST, "/api/chat?agent_type=No%20Such", Some(json!({"query": "why"}))).await;
    assert_eq!(status, 400);
}

#[tokio::test]
async fn a_failed_model_is_502_and_the_question_is_stored() {
    let app = app().await;
    let ada = app.person("ada@x.org").await;
    let (status, reply) = call(&ada, Method::POST, "/api/chat", Some(json!({"query": "cut here"}))).await;
    assert_eq!((status, &reply["error_code"], &reply["response"]), (502, &json!(502), &json!("This much came.")));
    assert!(reply["agent_response"].is_null());
    let exchange = reply["exchange_id"].as_i64().unwrap();
    let (_, messages) = call(&ada, Method::GET, &format!("/api/chat/exchange/{exchange}/messages"), None).await;
    assert_eq!((&messages[0]["content"], &messages[1]["content"]), (&json!("cut here"), &json!("This much came.")));
}

#[tokio::test]
async fn regenerate_answers_the_latest_question_again_and_may_change_it() {
    let app = app().await;
    let ada = app.person("ada@x.org").await;
    let exchange = ask(&ada, json!({"query": "one"})).await["exchange_id"].clone();
    ask(&ada, json!({"query": "two", "exchange_id": exchange})).await;
    ask(&ada, json!({"regenerate": true, "exchange_id": exchange})).await;
    ask(&ada, json!({"regenerate": true, "exchange_id": exchange, "query": "three"})).await;
    let (_, messages) = call(&ada, Method::GET, &format!("/api/chat/exchange/{exchange}/messages"), None).await;
    let said: Vec<_> =
        messages.as_array().unwrap().iter().filter(|side| side["role"] == "user").map(|side| side["content"].clone()).collect();
    assert_eq!(said, ["one", "three"]);
}

#[tokio::test]
async fn the_history_is_paged_and_one_bad_row_breaks_nothing() {
    let app = app().await;
    let ada = app.person("ada@x.org").await;
    let mut ids = Vec::new();
    for number in 0..5 {
        ids.push(ask(&ada, json!({"query": format!("question {number}")})).await["exchange_id"].as_i64().unwrap());
    }
    let Db::Sqlite { writer, .. } = app.store().await else { unreachable!() };
    sqlx::query("update chat_exchange_message set message = 'not json' where chat_exchange_id = 3").execute(&writer).await.unwrap();
    let (_, first) = call(&ada, Method::GET, "/api/chat/history?limit=3", None).await;
    let listed = |page: &Value| page.as_array().unwrap().iter().map(|line| line["id"].as_i64().unwrap()).collect::<Vec<_>>();
    assert_eq!(listed(&first), [ids[4], ids[3], ids[2]]);
    assert_eq!(first[2]["response"], "not json", "what is there is shown");
    let (_, rest) = call(&ada, Method::GET, &format!("/api/chat/history?limit=3&before={}", ids[2]), None).await;
    assert_eq!(listed(&rest), [ids[1], ids[0]]);
    for bad in ["limit=0", "limit=1001", "limit=x"] {
        assert_eq!(call(&ada, Method::GET, &format!("/api/chat/history?{bad}"), None).await.0, 400, "{bad}");
    }
    assert_eq!(call(&ada, Method::GET, "/api/chat/history?before=999", None).await.0, 404);
}

#[tokio::test]
async fn feedback_is_kept_for_the_latest_answer_or_the_one_named() {
    let app = app().await;
    let ada = app.person("ada@x.org").await;
    let exchange = ask(&ada, json!({"query": "one"})).await["exchange_id"].clone();
    ask(&ada, json!({"query": "two", "exchange_id": exchange})).await;
    let path = format!("/api/chat/exchange/{exchange}/feedback");
    let shown = async || call(&ada, Method::GET, &format!("/api/chat/exchange/{exchange}/messages"), None).await.1;
    assert_eq!(call(&ada, Method::PUT, &path, Some(json!(1))).await, (200, json!({"message": "Feedback saved", "feedback": 1})));
    assert_eq!((shown().await[1]["feedback"].clone(), shown().await[3]["feedback"].clone()), (Value::Null, json!(1)));
    let turn = shown().await[1]["turn"].as_str().unwrap().to_owned();
    let with_reason = json!({"feedback": 0, "reason": "wrong tool"});
    assert_eq!(call(&ada, Method::PUT, &format!("{path}?turn={turn}"), Some(with_reason)).await.0, 200);
    assert_eq!(shown().await[1]["feedback"], 0);
    assert_eq!(call(&ada, Method::PUT, &format!("{path}?turn={turn}"), Some(json!(null))).await.0, 200);
    assert_eq!(shown().await[1]["feedback"], Value::Null);
    for bad in [json!(2), json!(-1), json!("1"), json!([]), json!({"reason": 3})] {
        assert_eq!(call(&ada, Method::PUT, &path, Some(bad.clone())).await.0, 400, "{bad}");
    }
    assert_eq!(call(&ada, Method::PUT, &format!("{path}?turn=nothing"), Some(json!(1))).await.0, 404);
}

#[tokio::test]
async fn deleting_says_how_much_and_passes_over_what_is_not_there() {
    let app = app().await;
    let ada = app.person("ada@x.org").await;
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.push(ask(&ada, json!({"query": "q"})).await["exchange_id"].clone());
    }
    let one = format!("/api/chat/exchange/{}", ids[0]);
    assert_eq!(call(&ada, Method::DELETE, &one, None).await, (200, json!({"message": "Deleted"})));
    assert_eq!(call(&ada, Method::DELETE, &one, None).await.0, 404);
    let batch = json!({"ids": [ids[0], ids[1], "no-such", 999]});
    assert_eq!(call(&ada, Method::PUT, "/api/chat/exchanges/batch/delete", Some(batch)).await.1, json!({"message": "Deleted 1 exchanges"}));
    let cleared = call(&ada, Method::DELETE, "/api/chat/history", None).await.1;
    assert_eq!(cleared, json!({"message": "Cleared 2 chat exchanges with 2 messages"}));
    assert_eq!(call(&ada, Method::GET, "/api/chat/history", None).await.1, json!([]));
}

#[tokio::test]
async fn what_is_someone_elses_is_404_at_every_address() {
    let app = app().await;
    let (ada, bob) = (app.person("ada@x.org").await, app.person("bob@x.org").await);
    let exchange = ask(&ada, json!({"query": "mine"})).await["exchange_id"].clone();
    for (method, path, body) in [
        (Method::GET, format!("/api/chat/exchange/{exchange}/messages"), None),
        (Method::PUT, format!("/api/chat/exchange/{exchange}/feedback"), Some(json!(1))),
        (Method::DELETE, format!("/api/chat/exchange/{exchange}"), None),
        (Method::POST, "/api/chat".to_owned(), Some(json!({"query": "q", "exchange_id": exchange}))),
        (Method::POST, "/api/chat".to_owned(), Some(json!({"regenerate": true, "exchange_id": exchange}))),
        (Method::GET, format!("/api/chat/{exchange}/messages"), None),
        (Method::POST, format!("/api/chat/{exchange}/stop"), None),
    ] {
        let (status, error) = call(&bob, method.clone(), &path, body).await;
        assert_eq!((status, &error["err_code"]), (404, &json!(404_001)), "{method} {path}");
    }
    let (_, messages) = call(&ada, Method::GET, &format!("/api/chat/exchange/{exchange}/messages"), None).await;
    assert_eq!(messages.as_array().unwrap().len(), 2, "and nothing came of it");
}

#[tokio::test]
async fn agents_are_listed_and_answer_without_a_conversation() {
    let app = app().await;
    let ada = app.person("ada@x.org").await;
    let (_, agents) = call(&ada, Method::GET, "/api/ai/agents", None).await;
    let names: Vec<_> = agents["agents"].as_array().unwrap().iter().map(|agent| agent["agent_type"].clone()).collect();
    assert_eq!(names, ["router", "error_analysis", "tool_recommendation", "custom_tool"]);
    assert_eq!(agents["total_count"], 4);
    let body = json!({"query": "why", "agent_type": "custom_tool"});
    let (status, answer) = call(&ada, Method::POST, "/api/ai/agents/query", Some(body)).await;
    assert_eq!((status, &answer["response"]["content"]), (200, &json!("A tool.")));
    assert_eq!(call(&ada, Method::POST, "/api/ai/agents/query", Some(json!({"query": "cut"}))).await.0, 502);
    assert_eq!(call(&ada, Method::GET, "/api/chat/history", None).await.1, json!([]), "nothing is stored");
    let (_, configuration) = call(&ada, Method::GET, "/api/configuration", None).await;
    assert_eq!((&configuration["llm_api_configured"], &configuration["llm_registry_type"]), (&json!(true), &json!("static")));
}

#[tokio::test]
async fn administrators_make_accounts_and_keys_and_nobody_else_does() {
    let app = app().await;
    let (ada, bob) = (app.person("ada@x.org").await, app.person("bob@x.org").await);
    let new = json!({"email": "eve@x.org", "password": "a long password", "username": "eve"});
    assert_eq!(call(&bob, Method::POST, "/api/users", Some(new.clone())).await.0, 403);
    let (status, eve) = call(&ada, Method::POST, "/api/users", Some(new)).await;
    assert_eq!((status, &eve["email"]), (200, &json!("eve@x.org")));
    let (status, key) = call(&ada, Method::POST, &format!("/api/users/{}/api_key", eve["id"]), None).await;
    assert!(status == 200 && key.as_str().unwrap().starts_with("chatgxy_"));
    assert_eq!(call(&bob, Method::POST, &format!("/api/users/{}/api_key", eve["id"]), None).await.0, 404);
    assert_eq!(call(&ada, Method::GET, "/api/users", None).await.1.as_array().unwrap().len(), 3);
    assert_eq!(call(&bob, Method::GET, "/api/users", None).await.1.as_array().unwrap().len(), 1);
    assert_eq!(call(&bob, Method::GET, "/api/users/current", None).await.1["email"], "bob@x.org");
}

#[tokio::test]
async fn the_server_says_how_it_is() {
    let app = app().await;
    let stranger = app.browser();
    for (path, status) in [("/healthz", 200), ("/readyz", 200), ("/metrics", 200), ("/api/version", 200), ("/api/users/current", 401)] {
        assert_eq!(stranger.get(path).await.status(), status, "{path}");
    }
    let text = common::text(stranger.get("/metrics").await).await;
    assert!(text.contains("chatgxy_http_requests_total{method=\"GET\",path=\"/api/version\",status=\"200\"} 1"), "{text}");
}

#[tokio::test]
async fn the_description_names_every_address_and_the_page_shows_it() {
    let app = app().await;
    let stranger = app.browser();
    let description = json(stranger.get("/api/openapi.json").await).await;
    assert_eq!(description["openapi"].as_str().unwrap().get(..3), Some("3.1"));
    for path in ["/api/chat", "/api/chat/history", "/api/chat/{exchange_id}/stream", "/api/ai/agents", "/api/users"] {
        assert!(description["paths"][path].is_object(), "{path}");
    }
    for (path, item) in description["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            assert!(operation["responses"]["default"].is_object(), "{method} {path} says what an error is");
            assert!(!operation["description"].as_str().or(operation["summary"].as_str()).unwrap_or_default().is_empty(), "{method} {path}");
        }
    }
    let page = stranger.get("/api/docs/").await;
    assert_eq!(page.status(), 200);
    assert!(!page.headers()["content-security-policy"].to_str().unwrap().contains("unsafe"));
}

#[tokio::test]
async fn who_asks_too_often_or_too_much_is_told_when_to_come_back() {
    let setting = Setting::default().rules(RULES).with("CHATGXY_TURNS_AT_ONCE", "1").with("CHATGXY_REQUESTS_A_MINUTE", "30");
    let app = TestApp::set(Engine::Sqlite, setting).await;
    let ada = app.person("ada@x.org").await;
    ada.call("chat/send", &[("query", "late")]).await;
    let (status, error) = call(&ada, Method::POST, "/api/chat", Some(json!({"query": "another"}))).await;
    assert_eq!((status, &error["err_code"]), (429, &json!(429_002)));
    let mut refused = None;
    for _ in 0..40 {
        let answer = ada.get("/api/whoami").await;
        if answer.status() == 429 {
            refused = Some(answer);
            break;
        }
    }
    let wait: u64 = refused.expect("a limit").headers()["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=60).contains(&wait), "{wait}");
    assert_eq!(app.browser().get("/healthz").await.status(), 200, "others go on");
}
