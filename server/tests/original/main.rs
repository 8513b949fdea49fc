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
const DIFFERENT: &[(&str, &str)] = &[];

const METHODS: [&str; 4] = ["get", "put", "post", "delete"];

/// One line for each field: which operation, where, its path and its kind; `?` when it may be left out or be null.
fn lines_of(operation: &str, place: &str, path: &str, shape: &Value, root: &Value, lines: &mut BTreeSet<String>) {
    let (shape, nullable) = plain(shape, root);
    let kind = shape["type"].as_str().unwrap_or("any");
    let mark = if nullable { "?" } else { "" };
    lines.insert(format!("{operation} {place}{path}: {kind}{mark}"));
    if kind == "array" {
        lines_of(operation, place, &format!("{path}[]"), &shape["items"], root, lines);
    }
    for (name, field) in shape["properties"].as_object().into_iter().flatten() {
        let required = shape["required"].as_array().into_iter().flatten().any(|required| required == name.as_str());
        let mut field = plain(field, root);
        // A field that is always sent may still be null; one that need not be sent is as good as null.
        field.1 |= !required && place == "body";
        let mut shape = field.0.clone();
        if field.1 {
            shape["nullable"] = true.into();
        }
        lines_of(operation, place, &format!("{path}.{name}"), &shape, root, lines);
    }
}

/// Follows references, and takes "this or null" for this.
fn plain(shape: &Value, root: &Value) -> (Value, bool) {
    if let Some(name) = shape["$ref"].as_str() {
        return plain(root.pointer(name.trim_start_matches('#')).unwrap(), root);
    }
    for key in ["anyOf", "oneOf"] {
        if let Some(choices) = shape[key].as_array() {
            let rest: Vec<&Value> = choices.iter().filter(|choice| choice["type"] != "null").collect();
            if rest.len() < choices.len() || rest.len() == 1 {
                let (shape, nullable) = plain(rest[0], root);
                return (shape, nullable || rest.len() < choices.len());
            }
        }
    }
    let mut shape = shape.clone();
    let mut nullable = shape["nullable"] == true;
    if let Some(kinds) = shape["type"].as_array().cloned() {
        nullable |= kinds.iter().any(|kind| kind == "null");
        shape["type"] = kinds.into_iter().find(|kind| kind != "null").unwrap();
    }
    (shape, nullable)
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
