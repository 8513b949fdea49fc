//! The original's chat API beside ours, field by field. Every difference is in a table with its reason, and none that is not.
//!
//! `chat.json` holds the original's operations (version 26.1) as shapes: the query, the body and the answer of each.

#![allow(clippy::unwrap_used, reason = "a test may stop")]

#[path = "../common/mod.rs"]
mod common;

use std::collections::BTreeSet;

use common::{TestApp, json};
use serde_json::Value;

/// What is different: lines that begin so, and why. `-` is the original's, `+` is ours.
const DIFFERENT: &[(&str, &str)] = &[
    ("- GET /api/chat/page/{page_id}/history", "comes with pages"),
    ("- GET /api/chat/{workflow_id}/generate_report", "this server runs no workflows"),
    ("- PUT /api/chat/{job_id}/feedback", "this server runs no jobs; feedback goes to the exchange"),
    ("- POST /api/chat query job_id", "this server runs no jobs"),
    ("- POST /api/ai/agents/custom-tool", "deprecated by the original: POST /api/chat?agent_type=custom_tool"),
    ("- POST /api/ai/agents/error-analysis", "deprecated by the original: POST /api/chat?agent_type=error_analysis"),
    ("- POST /api/chat body.entity_context", "mentions of datasets and histories come with these; sent now, it is ignored"),
    ("+ DELETE /api/chat/exchange/{exchange_id} response.message", "the one text of an object that the original does not describe"),
    ("+ DELETE /api/chat/history response.message", "the one text of an object that the original does not describe"),
    ("+ PUT /api/chat/exchanges/batch/delete response.message", "the one text of an object that the original does not describe"),
    ("+ PUT /api/chat/exchange/{exchange_id}/feedback response", "the fields of an object that the original does not describe"),
    (
        "- GET /api/chat/history response[].id: string",
        "the number of the exchange, as in what the original's server sends and its page expects",
    ),
    ("+ GET /api/chat/history response[].id: integer", "see above"),
    ("- POST /api/chat response.exchange_id: string", "the same number"),
    ("+ POST /api/chat response.exchange_id: integer", "see above"),
    ("+ POST /api/chat body.exchange_id: integer", "the number is taken as such, too"),
    ("+ POST /api/chat body.page_id: integer", "the number is taken as such, too"),
    ("+ PUT /api/chat/exchanges/batch/delete body.ids[]: integer", "the number is taken as such, too"),
    ("- POST /api/chat body.query: string", "required in one of the two kinds of body, absent from the other"),
    ("+ POST /api/chat body.query: string?", "see above"),
    ("+ POST /api/chat body.id: string", "the other kind of body: the AI SDK's"),
    ("+ POST /api/chat body.message", "the AI SDK's body"),
    ("+ POST /api/chat body.trigger", "the AI SDK's body"),
    ("+ POST /api/chat body.context: object", "facts may be sent as they are, too"),
    ("- POST /api/chat query query: string?", "may be left out, but not be null: an address has no null"),
    ("+ POST /api/chat query query: string", "see above"),
    ("- GET /api/ai/agents response.agents[].model: string?", "every agent has a model"),
    ("+ GET /api/ai/agents response.agents[].model: string", "see above"),
    ("- POST /api/ai/agents/query response.processing_time: number?", "always known"),
    ("+ POST /api/ai/agents/query response.processing_time: number", "see above"),
    ("+ GET /api/chat/exchange/{exchange_id}/messages response[].", "the fields of an object that the original does not describe"),
    ("+ GET /api/chat/history query before", "the way to older conversations"),
    ("+ GET /api/chat/history response[].title", "shown by our history"),
    ("+ GET /api/chat/history response[].updated_at", "what the history is ordered by"),
    ("+ GET /api/chat/{exchange_id}/messages", "for AI SDK clients"),
    ("+ GET /api/chat/{exchange_id}/stream", "for AI SDK clients"),
    ("+ POST /api/chat/{exchange_id}/stop", "for AI SDK clients"),
    ("+ PUT /api/chat/{exchange_id}/calls/{call_id}", "the original has no tools that wait for somebody"),
    ("- PUT /api/chat/exchange/{exchange_id}/feedback body: integer", "may be null, too: feedback is taken back"),
    ("+ PUT /api/chat/exchange/{exchange_id}/feedback body", "null, or an object with a reason"),
    ("+ PUT /api/chat/exchange/{exchange_id}/feedback query turn", "which answer of the conversation"),
];

const METHODS: [&str; 4] = ["get", "put", "post", "delete"];

/// One line for each field: which operation, where, its path and its kind; `?` when it may be left out or be null.
fn lines_of(operation: &str, place: &str, path: &str, shape: &Value, root: &Value, lines: &mut BTreeSet<String>) {
    let (choices, nullable) = plain(shape, root);
    let mark = if nullable { "?" } else { "" };
    for shape in choices {
        let kind = shape["type"].as_str().unwrap_or("any");
        lines.insert(format!("{operation} {place}{path}: {kind}{mark}"));
        if kind == "array" {
            lines_of(operation, place, &format!("{path}[]"), &shape["items"], root, lines);
        }
        for (name, field) in shape["properties"].as_object().into_iter().flatten() {
            let required = shape["required"].as_array().into_iter().flatten().any(|required| required == name.as_str());
            // What need not be sent is as good as null. What is always sent in an answer may still be null.
            let field =
                if required || place == "response" { field.clone() } else { serde_json::json!({"anyOf": [field, {"type": "null"}]}) };
            lines_of(operation, place, &format!("{path}.{name}"), &field, root, lines);
        }
    }
}

/// What a shape may be, references followed, and whether it may be null.
fn plain(shape: &Value, root: &Value) -> (Vec<Value>, bool) {
    if let Some(name) = shape["$ref"].as_str() {
        return plain(root.pointer(name.trim_start_matches('#')).unwrap(), root);
    }
    if shape["type"] == "null" {
        return (Vec::new(), true);
    }
    if let Some(choices) = shape["anyOf"].as_array().or(shape["oneOf"].as_array()) {
        let choices = choices.iter().map(|choice| plain(choice, root));
        return choices.fold((Vec::new(), false), |(all, null), (more, also_null)| ([all, more].concat(), null || also_null));
    }
    let mut shape = shape.clone();
    let mut nullable = shape["nullable"] == true;
    if let Some(kinds) = shape["type"].as_array().cloned() {
        nullable |= kinds.iter().any(|kind| kind == "null");
        shape["type"] = kinds.into_iter().find(|kind| kind != "null").unwrap();
    }
    (vec![shape], nullable)
}

fn originals() -> BTreeSet<String> {
    let original: Value = serde_json::from_str(include_str!("chat.json")).unwrap();
    let mut lines = BTreeSet::new();
    for (operation, shapes) in original.as_object().unwrap() {
        lines.insert(operation.clone());
        for (name, shape) in shapes["query"].as_object().into_iter().flatten() {
            lines_of(operation, "query ", name, shape, &original, &mut lines);
        }
        for place in ["body", "response"] {
            if let Some(shape) = shapes.get(place) {
                lines_of(operation, place, "", shape, &original, &mut lines);
            }
        }
    }
    lines
}

fn ours(description: &Value) -> BTreeSet<String> {
    let mut lines = BTreeSet::new();
    for (path, item) in description["paths"].as_object().unwrap() {
        if !path.starts_with("/api/chat") && !path.starts_with("/api/ai") {
            continue;
        }
        for method in METHODS {
            let Some(operation) = item.get(method) else { continue };
            let name = format!("{} {path}", method.to_uppercase());
            lines.insert(name.clone());
            for parameter in operation["parameters"].as_array().into_iter().flatten().filter(|parameter| parameter["in"] == "query") {
                lines_of(&name, "query ", parameter["name"].as_str().unwrap(), &parameter["schema"], description, &mut lines);
            }
            let json = |place: &Value| place["content"]["application/json"]["schema"].clone();
            for (place, shape) in [("body", json(&operation["requestBody"])), ("response", json(&operation["responses"]["200"]))] {
                if !shape.is_null() {
                    lines_of(&name, place, "", &shape, description, &mut lines);
                }
            }
        }
    }
    lines
}

#[tokio::test]
async fn every_difference_from_the_originals_api_has_its_reason() {
    let app = TestApp::start().await;
    let ours = ours(&json(app.browser().get("/api/openapi.json").await).await);
    let originals = originals();
    assert!(originals.len() > 60 && ours.intersection(&originals).count() > 40, "the two can be compared");
    let missing = originals.difference(&ours).map(|line| format!("- {line}"));
    let differences: Vec<String> = missing.chain(ours.difference(&originals).map(|line| format!("+ {line}"))).collect();
    let unexplained: Vec<&String> = differences.iter().filter(|line| !DIFFERENT.iter().any(|(begin, _)| line.starts_with(begin))).collect();
    assert!(
        unexplained.is_empty(),
        "differences without a reason:\n{}",
        unexplained.iter().map(|line| line.as_str()).collect::<Vec<_>>().join("\n")
    );
    let stale: Vec<&str> =
        DIFFERENT.iter().map(|(begin, _)| *begin).filter(|begin| !differences.iter().any(|line| line.starts_with(begin))).collect();
    assert!(stale.is_empty(), "reasons without a difference: {stale:?}");
}
