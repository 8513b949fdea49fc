//! Tools for a task, from the catalogue and from nowhere else.

use std::fmt::Write;

use serde::Deserialize;
use serde_json::{Map, json};

use super::catalogue::Tool;
use super::quote;
use super::structured::Words;
use crate::model::agent::{Confidence, Reply, Suggestion};

/// How many tools of the catalogue the model chooses from.
pub const FOUND: usize = 15;
/// How many of them an answer names.
const NAMED: usize = 4;

#[derive(Deserialize)]
struct Choice {
    tools: Vec<Named>,
    #[serde(default)]
    guidance: String,
    #[serde(default)]
    confidence: Confidence,
}

#[derive(Deserialize)]
struct Named {
    id: String,
    #[serde(default)]
    why: String,
}

/// The tools as the model is shown them.
pub fn listed(tools: &[Tool]) -> String {
    let lines = tools.iter().fold(String::new(), |mut all, tool| {
        let _ = writeln!(
            all,
            "- id: {} | name: {} | purpose: {} | takes: {} | gives: {}",
            tool.id,
            tool.name,
            tool.purpose,
            tool.inputs.join(", "),
            tool.outputs.join(", ")
        );
        all
    });
    quote::data("tools found in the catalogue", &lines)
}

/// Reads the model's choice among `tools`; one that is not among them does not exist.
pub fn read(tools: &[Tool], said: &str) -> Result<Words, String> {
    let choice: Choice = serde_json::from_str(said).map_err(|error| format!("{error}."))?;
    let unknown: Vec<&str> =
        choice.tools.iter().map(|named| named.id.as_str()).filter(|id| tools.iter().all(|tool| tool.id != *id)).collect();
    if !unknown.is_empty() {
        return Err(format!("These ids are not in the list: {}.", unknown.join(", ")));
    }
    if choice.tools.is_empty() && choice.guidance.trim().is_empty() {
        return Err("There is neither a tool nor guidance.".into());
    }
    let mut chosen: Vec<(&Tool, &str)> = Vec::new();
    for named in &choice.tools {
        if let Some(tool) = tools.iter().find(|tool| tool.id == named.id)
            && chosen.iter().all(|(known, _)| known.id != tool.id)
        {
            chosen.push((tool, named.why.trim()));
        }
    }
    chosen.truncate(NAMED);
    Ok(words(&chosen, choice.guidance.trim(), choice.confidence))
}

/// What was found, when the model gave no usable choice.
pub fn fallback(tools: &[Tool]) -> Words {
    let found: Vec<(&Tool, &str)> = tools.iter().take(NAMED).map(|tool| (tool, "")).collect();
    words(&found, "These come closest in the catalogue; the model gave no further advice.", Confidence::Low)
}

/// What is answered when the catalogue has nothing.
pub fn nothing_found() -> Words {
    let text = "Nothing in the tool catalogue of this server matches that question. Name the task (for example *trim adapters*, *join \
                two tables*) or the data format, and I will look again.";
    let suggestion = Suggestion {
        action_type: "refine_query".into(),
        description: "Which tool fits this task and this data format: ".into(),
        parameters: Map::new(),
        confidence: Confidence::Medium,
        priority: 1,
    };
    Words { text: text.into(), reply: Reply { suggestions: vec![suggestion], ..super::unsure() } }
}

fn words(chosen: &[(&Tool, &str)], guidance: &str, confidence: Confidence) -> Words {
    let mut text = String::new();
    for (tool, why) in chosen {
        let name = escaped(&tool.name);
        let name = if tool.homepage.is_empty() { name } else { format!("[{name}](<{}>)", tool.homepage.replace(['<', '>', '\\'], "")) };
        let _ = write!(text, "- **{name}** (`{}`): {}", tool.id.replace('`', ""), escaped(&tool.purpose));
        if !why.is_empty() {
            let _ = write!(text, " *{}*", escaped(why));
        }
        if !tool.inputs.is_empty() && !tool.outputs.is_empty() {
            let _ = write!(text, "\n  Takes {}; gives {}.", escaped(&tool.inputs.join(", ")), escaped(&tool.outputs.join(", ")));
        }
        text.push('\n');
    }
    if !guidance.is_empty() {
        let gap = if text.is_empty() { "" } else { "\n" };
        let _ = writeln!(text, "{gap}{guidance}");
    }
    let linked = chosen.iter().filter(|(tool, _)| !tool.homepage.is_empty());
    let suggestions = linked.enumerate().map(|(index, (tool, _))| Suggestion {
        action_type: "view_external".into(),
        description: format!("Home page of {}", tool.name),
        parameters: Map::from_iter([("url".to_owned(), json!(tool.homepage))]),
        confidence,
        priority: if index == 0 { 1 } else { 2 },
    });
    let ids: Vec<&str> = chosen.iter().map(|(tool, _)| tool.id.as_str()).collect();
    let metadata = Map::from_iter([("tools".to_owned(), json!(ids))]);
    Words { text, reply: Reply { confidence, suggestions: suggestions.collect(), metadata, ..Reply::default() } }
}

/// Words of the catalogue or the model as plain text in Markdown.
fn escaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.split_whitespace().collect::<Vec<_>>().join(" ").chars() {
        if matches!(c, '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '~' | '|' | '$') {
            plain.push('\\');
        }
        plain.push(c);
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(id: &str) -> Tool {
        Tool {
            id: id.into(),
            name: id.into(),
            purpose: "Trims reads.".into(),
            operations: vec!["trimming".into()],
            inputs: vec!["fastq".into()],
            outputs: vec!["fastq".into(), "html".into()],
            homepage: format!("https://example.org/{id}"),
        }
    }

    #[test]
    fn a_choice_becomes_a_list_with_links() {
        let said = r#"{"tools": [{"id": "fastp", "why": "It finds *adapters* itself."}, {"id": "fastp"}], "guidance": "Check the report.", "confidence": "high"}"#;
        let Words { text, reply } = read(&[tool("fastp"), tool("cutadapt")], said).unwrap();
        assert_eq!(
            text,
            "- **[fastp](<https://example.org/fastp>)** (`fastp`): Trims reads. *It finds \\*adapters\\* itself.*\n  Takes fastq; gives fastq, html.\n\
             \nCheck the report.\n"
        );
        assert_eq!(reply.metadata["tools"], json!(["fastp"]));
        assert_eq!((reply.suggestions.len(), reply.confidence), (1, Confidence::High));
    }

    #[test]
    fn a_tool_that_is_not_in_the_catalogue_is_never_recommended() {
        let said = r#"{"tools": [{"id": "magictrim", "why": "Best."}], "guidance": "x"}"#;
        assert!(read(&[tool("fastp")], said).err().unwrap().contains("magictrim"));
        let text = fallback(&[tool("fastp")]).text;
        assert!(text.contains("fastp") && !text.contains("magictrim"));
        assert!(read(&[], r#"{"tools": [], "guidance": ""}"#).is_err());
        assert!(read(&[], r#"{"tools": [], "guidance": "There is none."}"#).unwrap().text.contains("There is none."));
    }
}
