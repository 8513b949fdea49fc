//! A server that speaks chat completions over real HTTP and plays the scenario that the model's name asks for:
//! `hello`, `slow`, `unicode`, `hang`, `cut`, `empty`, `html`, `e429`, `e500`, and `agents`, which answers as its instructions ask.
//! `GET /stats` tells what it saw.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use futures::stream::{self, BoxStream, StreamExt};
use serde_json::{Value, json};

/// Time between two words of `slow`.
const PAUSE: Duration = Duration::from_millis(50);

#[derive(Default)]
struct Counts {
    requests: AtomicUsize,
    open: AtomicUsize,
    cancelled: AtomicUsize,
    last: Mutex<Value>,
}

/// Lives as long as one streamed answer; one that is dropped before its end was cancelled by the client.
struct Open {
    counts: Arc<Counts>,
    ended: bool,
}

impl Open {
    fn new(counts: Arc<Counts>) -> Self {
        counts.open.fetch_add(1, Ordering::SeqCst);
        Self { counts, ended: false }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.counts.open.fetch_sub(1, Ordering::SeqCst);
        if !self.ended {
            self.counts.cancelled.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// The whole text that a scenario answers with; what comes before it breaks or hangs, for those that do.
pub fn answer(scenario: &str) -> String {
    match scenario {
        "hello" => "Hello from the scripted model.".to_owned(),
        "slow" => (1..=200).map(|number| format!("word{number}")).collect::<Vec<_>>().join(" "),
        "unicode" => "naïve – 日本語 – e\u{301} – 👩‍🔬 – \u{a0}end".to_owned(),
        "hang" => "This much comes, ".to_owned(),
        "cut" => "This breaks off in the ".to_owned(),
        _ => String::new(),
    }
}

/// The server, without a listener. Base URL for a client: `http://ADDRESS/v1`.
pub fn router() -> Router {
    Router::new()
        .route("/v1/chat/completions", post(complete))
        .route("/v1/models", get(models))
        .route("/stats", get(stats))
        .with_state(Arc::new(Counts::default()))
}

async fn stats(State(counts): State<Arc<Counts>>) -> Json<Value> {
    let read = |count: &AtomicUsize| count.load(Ordering::SeqCst);
    Json(json!({
        "requests": read(&counts.requests),
        "open": read(&counts.open),
        "cancelled": read(&counts.cancelled),
        "last": *counts.last.lock().unwrap_or_else(PoisonError::into_inner),
    }))
}

async fn models() -> Json<Value> {
    let names = ["hello", "slow", "unicode", "hang", "cut", "empty", "html", "e429", "e500", "agents"];
    Json(json!({"object": "list", "data": names.map(|id| json!({"id": id, "object": "model"}))}))
}

async fn complete(State(counts): State<Arc<Counts>>, Json(request): Json<Value>) -> Response {
    counts.requests.fetch_add(1, Ordering::SeqCst);
    let scenario = request["model"].as_str().unwrap_or_default().to_owned();
    let said = if scenario == "agents" { as_an_agent(&request) } else { String::new() };
    *counts.last.lock().unwrap_or_else(PoisonError::into_inner) = request;
    let error = |status: StatusCode, code: &str| {
        (status, Json(json!({"error": {"message": "scripted error", "type": code, "code": code}}))).into_response()
    };
    let text = answer(&scenario);
    match scenario.as_str() {
        "html" => ([(header::CONTENT_TYPE, "text/html")], "<!doctype html><title>Not a model</title>").into_response(),
        "e429" => {
            let mut refused = error(StatusCode::TOO_MANY_REQUESTS, "rate_limit_exceeded");
            refused.headers_mut().insert(header::RETRY_AFTER, 1.into());
            refused
        }
        "e500" => error(StatusCode::INTERNAL_SERVER_ERROR, "server_error"),
        "hello" | "slow" => {
            let pause = if scenario == "slow" { PAUSE } else { Duration::ZERO };
            let words: Vec<Bytes> = text.split_inclusive(' ').map(delta).chain([finish(&text)]).collect();
            streamed(counts, stream::iter(words).then(move |word| async move { pause_then(pause, word).await }).boxed())
        }
        "unicode" => {
            // Every byte by itself, so that characters are split over packets.
            let bytes = [delta(&text), finish(&text)].concat();
            streamed(counts, stream::iter(bytes).then(|byte| pause_then(Duration::ZERO, vec![byte].into())).boxed())
        }
        "agents" => {
            // In small pieces, as models speak.
            let mut pieces: Vec<io::Result<Bytes>> =
                said.chars().collect::<Vec<_>>().chunks(3).map(|piece| Ok(delta(&piece.iter().collect::<String>()))).collect();
            pieces.push(Ok(finish(&said)));
            streamed(counts, stream::iter(pieces).boxed())
        }
        "empty" => streamed(counts, stream::iter([Ok(finish(""))]).boxed()),
        "hang" => streamed(counts, stream::iter([Ok(delta(&text))]).chain(stream::pending()).boxed()),
        "cut" => {
            let broken = stream::once(async {
                // The text must be on its way before the connection breaks.
                tokio::time::sleep(PAUSE).await;
                Err(io::Error::other("scripted cut"))
            });
            streamed(counts, stream::iter([Ok(delta(&text))]).chain(broken).boxed())
        }
        _ => error(StatusCode::NOT_FOUND, "model_not_found"),
    }
}

/// What a model would say to these instructions and this question.
fn as_an_agent(request: &Value) -> String {
    let text = |message: &Value| match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        _ => String::new(),
    };
    let messages = request["messages"].as_array().cloned().unwrap_or_default();
    let (system, last) = (messages.first().map(text).unwrap_or_default(), messages.last().map(text).unwrap_or_default());
    let corrected = last.contains("That cannot be used");
    let mut asked = messages.iter().rev().filter(|message| message["role"] == "user").map(text);
    let question = asked.find(|text| !text.contains("That cannot be used")).unwrap_or_default();
    if system.contains("Specialists can answer instead of you") {
        let decision = [
            ("trim", r#"{"hand_off": "tool_recommendation", "reason": "a tool is wanted"}"#),
            ("log", "```json\n{\"hand_off\": \"error_analysis\"}\n```"),
            ("vague", r#"{"clarify": "Which data?", "options": ["DNA", "RNA"]}"#),
            ("nobody", r#"{"hand_off": "nobody"}"#),
            ("braces", "{ is how a block begins."),
        ];
        return decision.iter().find(|(word, _)| question.contains(word)).map_or("Plain words.", |(_, said)| said).to_owned();
    }
    if system.contains("recommend analysis tools") {
        let invented = question.contains("stubborn") || (question.contains("careless") && !corrected);
        return if invented {
            r#"{"tools": [{"id": "magictrim", "why": "Best."}]}"#
        } else {
            r#"{"tools": [{"id": "fastp", "why": "It finds adapters itself."}], "guidance": "Look at the report.", "confidence": "high"}"#
        }
        .to_owned();
    }
    if system.contains("why a computation failed") {
        return r#"{"category": "resources", "likely_cause": "Out of memory.", "steps": ["Ask for more."], "requires_admin": true, "confidence": "high"}"#.to_owned();
    }
    "class: GalaxyUserTool\nid: line-counter\nname: Count lines\nversion: \"0.1.0\"\ncontainer: busybox:1.37\nshell_command: wc -l < '$(inputs.file.path)' > n.txt\n\
     inputs:\n  - {name: file, type: data}\noutputs:\n  - {name: n, type: data, from_work_dir: n.txt}\n"
        .to_owned()
}

async fn pause_then(pause: Duration, bytes: Bytes) -> io::Result<Bytes> {
    if pause.is_zero() {
        tokio::task::yield_now().await;
    } else {
        tokio::time::sleep(pause).await;
    }
    Ok(bytes)
}

fn streamed(counts: Arc<Counts>, pieces: BoxStream<'static, io::Result<Bytes>>) -> Response {
    let open = Open::new(counts);
    let counted = stream::unfold((pieces, open), |(mut pieces, mut open)| async move {
        let piece = pieces.next().await;
        open.ended = !matches!(piece, Some(Ok(_)));
        Some((piece?, (pieces, open)))
    });
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(counted)).into_response()
}

fn delta(text: &str) -> Bytes {
    event(&json!({"choices": [{"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": null}]}))
}

fn finish(text: &str) -> Bytes {
    let output = text.split_whitespace().count();
    let end = event(&json!({
        "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 7, "completion_tokens": output, "total_tokens": output + 7},
    }));
    [end.as_ref(), b"data: [DONE]\n\n"].concat().into()
}

fn event(extra: &Value) -> Bytes {
    let mut chunk = json!({"id": "scripted", "object": "chat.completion.chunk", "created": 1, "model": "scripted"});
    for (name, value) in extra.as_object().into_iter().flatten() {
        chunk[name] = value.clone();
    }
    format!("data: {chunk}\n\n").into()
}
