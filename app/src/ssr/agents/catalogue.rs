//! The tools that agents may recommend: a starter list inside the binary, or what the operator imported.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::model::error::AppError;
use crate::ssr::db::Db;

/// About a hundred widely used tools, one JSON object a line.
const STARTER: &str = include_str!("catalogue.jsonl");
/// Words of a question that are searched for at most.
const TERMS: usize = 24;
/// Words that say nothing about a tool.
const COMMON: &[&str] = &[
    "a",
    "an",
    "and",
    "any",
    "are",
    "best",
    "can",
    "could",
    "data",
    "do",
    "does",
    "file",
    "files",
    "for",
    "from",
    "get",
    "good",
    "have",
    "how",
    "in",
    "into",
    "is",
    "it",
    "me",
    "my",
    "need",
    "of",
    "on",
    "or",
    "please",
    "recommend",
    "should",
    "some",
    "suggest",
    "that",
    "the",
    "there",
    "these",
    "this",
    "to",
    "tool",
    "tools",
    "use",
    "using",
    "want",
    "what",
    "when",
    "which",
    "with",
    "would",
    "you",
];

/// A tool of the catalogue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    /// Its name for programs, unique.
    pub id: String,
    /// Its name for people.
    pub name: String,
    /// What it does and when one takes it.
    pub purpose: String,
    /// What people would search for.
    #[serde(default)]
    pub operations: Vec<String>,
    /// Formats it reads.
    #[serde(default)]
    pub inputs: Vec<String>,
    /// Formats it writes.
    #[serde(default)]
    pub outputs: Vec<String>,
    /// Its home page, `https`; empty when unknown.
    #[serde(default)]
    pub homepage: String,
}

/// Makes sure that the store holds the starter list of this version, unless the operator imported another.
pub async fn provide(db: &Db) -> Result<(), AppError> {
    let digest: [u8; 32] = Sha256::digest(STARTER.as_bytes()).into();
    let version = format!("starter {:02x}{:02x}{:02x}{:02x}", digest[0], digest[1], digest[2], digest[3]);
    match db.setting("catalogue").await? {
        Some(present) if present == version || !present.starts_with("starter ") => Ok(()),
        _ => db.replace_tools(&starter(), &version).await,
    }
}

fn starter() -> Vec<Tool> {
    STARTER.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Replaces the catalogue by the tools of a file; gives how many.
///
/// # Errors
/// A text for the operator, which says what the file should hold.
pub async fn import(db: &Db, text: &str) -> Result<usize, String> {
    let tools = read(text)?;
    db.replace_tools(&tools, "imported").await.map_err(|error| error.to_string())?;
    Ok(tools.len())
}

/// Reads JSON Lines, or the JSON that a Galaxy server's tool list gives.
pub fn read(text: &str) -> Result<Vec<Tool>, String> {
    let mut tools = Vec::new();
    if let Ok(whole) = serde_json::from_str::<Value>(text) {
        collect(&whole, 0, &mut tools);
    } else {
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let value: Value = serde_json::from_str(line).map_err(|error| format!("line {} is no JSON: {error}", number + 1))?;
            let tool = tool(&value)
                .ok_or_else(|| format!("line {} is no tool: it needs `id`, `name` and `purpose` or `description`", number + 1))?;
            tools.push(tool);
        }
    }
    let mut seen = HashSet::new();
    tools.retain(|tool| seen.insert(tool.id.clone()));
    if tools.is_empty() {
        return Err("there is no tool in that file: it takes JSON Lines with `id`, `name`, `purpose`, `operations`, `inputs`, `outputs`, \
                    `homepage`, or the JSON of a Galaxy server's /api/tools"
            .into());
    }
    Ok(tools)
}

/// Galaxy lists tools, or sections that hold them.
fn collect(value: &Value, depth: usize, tools: &mut Vec<Tool>) {
    if depth > 8 {
        return;
    }
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect(item, depth + 1, tools)),
        Value::Object(object) => {
            if let Some(inner) = object.get("elems").or_else(|| object.get("tools")) {
                collect(inner, depth + 1, tools);
            } else if let Some(tool) = tool(value) {
                tools.push(tool);
            }
        }
        _ => {}
    }
}

fn tool(value: &Value) -> Option<Tool> {
    let text = |name: &str| {
        value.get(name).and_then(Value::as_str).map(|text| text.replace('\0', " ").trim().to_owned()).filter(|text| !text.is_empty())
    };
    let list = |name: &str| -> Vec<String> {
        let items = value.get(name).and_then(Value::as_array);
        items.map(|items| items.iter().filter_map(Value::as_str).map(|item| item.replace('\0', " ")).collect()).unwrap_or_default()
    };
    let name = text("name")?;
    let purpose = text("purpose").or_else(|| text("description")).unwrap_or_else(|| name.clone());
    let mut operations = list("operations");
    operations.extend(text("panel_section_name"));
    let homepage = text("homepage").filter(|url| url.starts_with("https://") || url.starts_with("http://")).unwrap_or_default();
    Some(Tool { id: text("id")?, name, purpose, operations, inputs: list("inputs"), outputs: list("outputs"), homepage })
}

/// The tools that fit a question best, best first.
pub async fn search(db: &Db, question: &str, limit: usize) -> Result<Vec<Tool>, AppError> {
    let terms = terms(question);
    if terms.is_empty() { Ok(Vec::new()) } else { db.search_tools(&terms, limit).await }
}

/// The words of a question that may tell tools apart: letters and digits only, in lower case.
fn terms(question: &str) -> Vec<String> {
    let mut seen = HashSet::new();
    let words = question.split(|c: char| !c.is_alphanumeric()).map(str::to_lowercase);
    words.filter(|word| word.chars().count() > 1 && !COMMON.contains(&word.as_str()) && seen.insert(word.clone())).take(TERMS).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_starter_list_is_whole() {
        let tools = starter();
        assert_eq!(tools.len(), STARTER.lines().count());
        assert!(tools.len() >= 100);
        let mut ids = HashSet::new();
        for tool in &tools {
            assert!(ids.insert(&tool.id), "{} is there twice", tool.id);
            assert!(tool.homepage.starts_with("https://"), "{}", tool.id);
            assert!(
                !tool.purpose.is_empty() && !tool.operations.is_empty() && !tool.inputs.is_empty() && !tool.outputs.is_empty(),
                "{}",
                tool.id
            );
        }
    }

    #[test]
    fn lines_and_a_galaxy_list_are_read() {
        let lines = "{\"id\": \"a\", \"name\": \"A\", \"purpose\": \"x\"}\n\n{\"id\": \"b\", \"name\": \"B\"}\n{\"id\": \"a\", \"name\": \"again\"}\n";
        let read_ids = |text: &str| read(text).map(|tools| tools.into_iter().map(|tool| tool.id).collect::<Vec<_>>());
        assert_eq!(read_ids(lines).unwrap(), ["a", "b"]);
        let galaxy = r#"[{"model_class": "ToolSection", "name": "Text", "elems": [{"id": "cut1", "name": "Cut", "description": "columns",
            "panel_section_name": "Text"}, {"model_class": "ToolSectionLabel", "text": "x"}]}, {"id": "up1", "name": "Upload", "homepage": "javascript:x"}]"#;
        assert_eq!(read_ids(galaxy).unwrap(), ["cut1", "up1"]);
        let tools = read(galaxy).unwrap();
        assert_eq!((tools[0].purpose.as_str(), tools[0].operations[0].as_str(), tools[1].homepage.as_str()), ("columns", "Text", ""));
        assert!(read("{\"id\": \"a\", \"name\": \"A\"}\n{broken").unwrap_err().starts_with("line 2"));
        assert!(read("").is_err());
        assert!(read("[]").is_err());
    }

    #[test]
    fn only_telling_words_are_searched_for() {
        assert_eq!(terms("Which tool should I use to trim adapters (FASTQ)?"), ["trim", "adapters", "fastq"]);
        assert_eq!(terms("the of a"), Vec::<String>::new());
        assert_eq!(terms(&"word1 word2 ".repeat(50)).len(), 2);
    }

    proptest! {
        #[test]
        fn no_file_breaks_the_reader(text in any::<String>()) {
            let _ = read(&text);
        }

        #[test]
        fn terms_hold_nothing_but_letters_and_digits(text in any::<String>()) {
            let terms = terms(&text);
            prop_assert!(terms.len() <= TERMS && terms.iter().all(|term| term.chars().all(char::is_alphanumeric)), "{:?}", terms);
        }
    }
}
