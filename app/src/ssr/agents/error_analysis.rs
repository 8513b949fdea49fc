//! Why something failed and how to get past it.

use std::fmt::Write;

use serde::Deserialize;
use serde_json::{Map, json};

use super::structured::Words;
use crate::model::agent::{Confidence, Reply, Suggestion};

/// Steps and alternatives that are shown at most.
const MOST: usize = 8;

#[derive(Deserialize)]
struct Report {
    #[serde(default)]
    category: String,
    #[serde(default)]
    severity: String,
    likely_cause: String,
    #[serde(default)]
    evidence: String,
    #[serde(default)]
    steps: Vec<String>,
    #[serde(default)]
    alternatives: Vec<String>,
    #[serde(default)]
    requires_admin: bool,
    #[serde(default)]
    confidence: Confidence,
}

/// Reads the model's report.
pub fn read(said: &str) -> Result<Words, String> {
    let report: Report = serde_json::from_str(said).map_err(|error| format!("{error}."))?;
    if report.likely_cause.trim().is_empty() {
        return Err("`likely_cause` is empty.".into());
    }
    let mut text = format!("**Likely cause.** {}\n", report.likely_cause.trim());
    if !report.evidence.trim().is_empty() {
        text.push('\n');
        text.push_str(&fenced(report.evidence.trim()));
    }
    list(&mut text, "What to do", &report.steps, true);
    list(&mut text, "Alternatives", &report.alternatives, false);
    if report.requires_admin {
        text.push_str("\nThis needs a change by the administrators of the server that ran it.\n");
    }
    let mut suggestions = Vec::new();
    if report.requires_admin {
        suggestions.push(Suggestion {
            action_type: "contact_support".into(),
            description: "Ask the administrators of that server".into(),
            parameters: Map::new(),
            confidence: report.confidence,
            priority: 1,
        });
    }
    let mut metadata = Map::new();
    metadata.insert("error_category".into(), json!(report.category));
    metadata.insert("severity".into(), json!(report.severity));
    metadata.insert("requires_admin".into(), json!(report.requires_admin));
    metadata.insert("has_alternatives".into(), json!(!report.alternatives.is_empty()));
    Ok(Words { text, reply: Reply { confidence: report.confidence, suggestions, metadata, ..Reply::default() } })
}

/// The model's own words, when they are no report.
pub fn fallback(said: &str) -> Words {
    Words { text: said.trim().to_owned(), reply: super::unsure() }
}

/// A line of a log as code, whatever it holds.
fn fenced(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}text\n{text}\n{fence}\n")
}

fn list(text: &mut String, title: &str, items: &[String], numbered: bool) {
    let items: Vec<&str> = items.iter().map(|item| item.trim()).filter(|item| !item.is_empty()).take(MOST).collect();
    if items.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n**{title}**\n");
    for (index, item) in items.iter().enumerate() {
        let mark = if numbered { format!("{}.", index + 1) } else { "-".to_owned() };
        let indent = " ".repeat(mark.len() + 1);
        let _ = writeln!(text, "{mark} {}", item.replace('\n', &format!("\n{indent}")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_becomes_markdown_and_facts() {
        let said = r#"{"category": "resources", "severity": "high", "likely_cause": "Out of memory.", "evidence": "Killed ```x```",
            "steps": ["Ask for 32 GB.", "Sort by name\nfirst."], "alternatives": [], "requires_admin": true, "confidence": "high"}"#;
        let Words { text, reply } = read(said).unwrap();
        assert_eq!(
            text,
            "**Likely cause.** Out of memory.\n\n````text\nKilled ```x```\n````\n\n**What to do**\n\n1. Ask for 32 GB.\n2. Sort by name\n   first.\n\
             \nThis needs a change by the administrators of the server that ran it.\n"
        );
        assert_eq!((reply.confidence, reply.suggestions[0].action_type.as_str()), (Confidence::High, "contact_support"));
        assert_eq!(reply.metadata["error_category"], "resources");
    }

    #[test]
    fn what_is_no_report_is_said_so() {
        for bad in ["", "Out of memory.", "[]", r#"{"likely_cause": " "}"#, r#"{"likely_cause": 3}"#] {
            assert!(read(bad).is_err(), "{bad:?}");
        }
        assert_eq!(fallback(" Out of memory. ").text, "Out of memory.");
    }
}
