//! The other protocols, and what must not leak from any of them.

use futures::StreamExt;
use serde_json::{Value, json};

use super::wire::{Wire, delta, event, head, sse};
use super::{LIMITS, ask, body_of, collect, log, model_with, write};
use crate::model::event::{Finish, Usage};
use crate::ssr::llm::remote::Provider;
use crate::ssr::llm::{Chunk, Model};

#[tokio::test]
async fn anthropic_answers() {
    let frames = [
        json!({"type": "message_start", "message": {"id": "x", "type": "message", "role": "assistant", "model": "m", "content": [],
            "stop_reason": null, "stop_sequence": null, "usage": {"input_tokens": 5, "output_tokens": 1}}}),
        json!({"type": "ping"}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hmm"}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "sig"}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "Hi"}}),
        json!({"type": "content_block_stop", "index": 1}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": null}, "usage": {"output_tokens": 4}}),
        json!({"type": "message_stop"}),
    ];
    let body = frames.iter().map(|frame| format!("event: {}\n{}", frame["type"].as_str().unwrap(), event(frame)));
    let wire = Wire::new(vec![sse(), write(body.collect::<String>())]).await;
    let items = collect(&model_with(Provider::Anthropic, &wire.url, LIMITS)).await;
    let expected = [
        Ok(Chunk::Reasoning("hmm".to_owned())),
        Ok(Chunk::Text("Hi".to_owned())),
        Ok(Chunk::Tokens(Usage { input: 5, output: 4 })),
        Ok(Chunk::Finish(Finish::Stop)),
    ];
    assert_eq!(items, expected);
    let request = wire.requests().remove(0);
    assert!(request.starts_with("POST /v1/messages "), "{request}");
    assert!(request.to_lowercase().contains("x-api-key: secretkey123\r\n"), "{request}");
    assert!(body_of(&request)["max_tokens"].is_u64(), "a model that the library does not know has a limit too");
}

#[tokio::test]
async fn gemini_answers_and_its_key_is_in_no_address_error_or_log() {
    let frame = |text: &str, finish: Value| {
        event(&json!({"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": finish, "index": 0}],
            "usageMetadata": {"promptTokenCount": 5, "candidatesTokenCount": 2, "totalTokenCount": 7},
            "modelVersion": "m", "responseId": "r"}))
    };
    let wire = Wire::new(vec![sse(), write(frame("Hel", Value::Null)), write(frame("lo", json!("STOP")))]).await;
    let items = collect(&model_with(Provider::Gemini, &wire.url, LIMITS)).await;
    let expected = [
        Ok(Chunk::Text("Hel".to_owned())),
        Ok(Chunk::Text("lo".to_owned())),
        Ok(Chunk::Tokens(Usage { input: 5, output: 2 })),
        Ok(Chunk::Finish(Finish::Stop)),
    ];
    assert_eq!(items, expected);
    let request = wire.requests().remove(0);
    let (line, headers) = request.split_once("\r\n").unwrap();
    assert_eq!(line, "POST /v1beta/models/m:streamGenerateContent?alt=sse HTTP/1.1");
    assert!(headers.to_lowercase().contains("x-goog-api-key: secretkey123\r\n"), "{request}");
}

#[tokio::test]
async fn no_log_line_holds_a_key_a_question_or_the_words_of_a_provider() {
    let (lines, _guard) = log::capture();
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = event(&json!({"error": {"message": "SECRETWORDS", "type": "server_error"}}));
    for provider in Provider::ALL {
        let wire = Wire::new(vec![sse(), write(delta("SECRETANSWER")), write(error.clone())]).await;
        for url in [wire.url.clone(), format!("http://{closed}")] {
            let model = model_with(provider, &url, LIMITS);
            let items: Vec<_> = model.stream(ask("SECRETQUESTION")).collect().await;
            assert!(!format!("{items:?}").contains("SECRETKEY"));
            assert!(matches!(items.last(), Some(Err(_))));
        }
    }
    let lines = lines.lock().unwrap().join("\n");
    assert!(lines.contains("a call of the model failed"), "the log is captured: {lines}");
    assert!(!lines.contains("SECRET"), "{lines}");
}

#[tokio::test]
async fn ollama_answers() {
    let line = |text: &str| {
        format!(
            "{}\n",
            json!({"model": "m", "created_at": "2026-01-01T00:00:00Z",
        "message": {"role": "assistant", "content": text}, "done": false})
        )
    };
    let last = json!({"model": "m", "created_at": "2026-01-01T00:00:00Z", "message": {"role": "assistant", "content": ""},
        "done": true, "done_reason": "stop", "prompt_eval_count": 5, "eval_count": 2});
    let wire = Wire::new(vec![
        head("200 OK", "content-type: application/x-ndjson\r\n"),
        write(line("Hel") + &line("lo")),
        write(format!("{last}\n")),
    ])
    .await;
    let items = collect(&model_with(Provider::Ollama, &wire.url, LIMITS)).await;
    let expected = [
        Ok(Chunk::Text("Hel".to_owned())),
        Ok(Chunk::Text("lo".to_owned())),
        Ok(Chunk::Tokens(Usage { input: 5, output: 2 })),
        Ok(Chunk::Finish(Finish::Stop)),
    ];
    assert_eq!(items, expected);
    assert!(wire.requests()[0].starts_with("POST /api/chat "));
}
