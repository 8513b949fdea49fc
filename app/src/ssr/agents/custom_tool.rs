//! A tool definition, checked before anyone is offered it.

use std::collections::HashSet;
use std::fmt::Write;

use serde::Deserialize;
use serde_json::{Map, json};

use super::structured::Words;
use crate::model::agent::{Confidence, Reply, Suggestion};

/// Longest definition, in bytes.
const BYTES: usize = 32_768;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Definition {
    class: String,
    id: String,
    name: String,
    version: String,
    #[serde(default)]
    description: String,
    container: String,
    shell_command: String,
    #[serde(default)]
    inputs: Vec<Input>,
    outputs: Vec<Output>,
    #[serde(default)]
    help: String,
}

#[derive(Deserialize)]
struct Input {
    name: String,
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize)]
struct Output {
    name: String,
    #[serde(rename = "type")]
    kind: String,
    from_work_dir: Option<String>,
}

/// Reads and checks the model's definition.
pub fn read(said: &str) -> Result<Words, String> {
    if let Some(why) = said.trim().strip_prefix("Cannot:") {
        return Ok(Words { text: format!("This cannot be done by one command. {}", why.trim()), reply: super::unsure() });
    }
    if said.len() > BYTES {
        return Err(format!("The definition is longer than {BYTES} bytes."));
    }
    let tool: Definition = serde_yaml_ng::from_str(said).map_err(|error| format!("{error}."))?;
    check(&tool)?;
    let yaml = said.trim();
    let mut text = format!("**{}**", one_line(&tool.name));
    if !tool.description.trim().is_empty() {
        let _ = write!(text, ": {}", one_line(&tool.description));
    }
    let _ = writeln!(text, "\n\n{fence}yaml\n{yaml}\n{fence}", fence = fence(yaml));
    if !tool.help.trim().is_empty() {
        let _ = writeln!(text, "\n{}", tool.help.trim());
    }
    let facts = [("tool_id", &tool.id), ("tool_name", &tool.name)].map(|(key, value)| (key.to_owned(), json!(value)));
    let mut metadata = Map::from_iter(facts);
    metadata.insert("tool_yaml".into(), json!(yaml));
    let suggestion = Suggestion {
        action_type: "save_tool".into(),
        description: format!("{}.yml", tool.id),
        parameters: Map::from_iter([("tool_id".to_owned(), json!(tool.id)), ("tool_yaml".to_owned(), json!(yaml))]),
        confidence: Confidence::High,
        priority: 1,
    };
    Ok(Words { text, reply: Reply { confidence: Confidence::High, suggestions: vec![suggestion], metadata, ..Reply::default() } })
}

/// What is answered when no definition came that could be used.
pub fn fallback(said: &str) -> Words {
    let said = said.trim();
    let text = format!(
        "The model gave no usable tool definition. This is what it wrote; it has not been checked.\n\n{fence}text\n{said}\n{fence}\n",
        fence = fence(said)
    );
    Words { text, reply: super::unsure() }
}

fn check(tool: &Definition) -> Result<(), String> {
    if tool.class != "GalaxyUserTool" {
        return Err("`class` must be GalaxyUserTool.".into());
    }
    let id_fits = (3..=60).contains(&tool.id.len())
        && tool.id.starts_with(|c: char| c.is_ascii_lowercase())
        && tool.id.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    if !id_fits {
        return Err("`id` must be 3 to 60 lower-case letters, digits and `-`, beginning with a letter.".into());
    }
    for (field, value) in [("name", &tool.name), ("version", &tool.version), ("shell_command", &tool.shell_command)] {
        if value.trim().is_empty() {
            return Err(format!("`{field}` is empty."));
        }
    }
    let tagged = tool.container.rsplit_once(':').is_some_and(|(image, tag)| !image.is_empty() && !tag.is_empty() && !tag.contains('/'));
    if !tagged || tool.container.contains(char::is_whitespace) {
        return Err("`container` must be an image with a fixed tag.".into());
    }
    let mut names = HashSet::new();
    for input in &tool.inputs {
        if !["data", "text", "integer", "float", "boolean", "select"].contains(&input.kind.as_str()) {
            return Err(format!("Input `{}` has the unknown type `{}`.", input.name, input.kind));
        }
        if !is_name(&input.name) || !names.insert(input.name.as_str()) {
            return Err(format!("Input `{}`: names are unique, of letters, digits and `_`.", input.name));
        }
    }
    for reference in references(&tool.shell_command) {
        if !names.contains(reference) {
            return Err(format!("The command refers to the input `{reference}`, which does not exist."));
        }
    }
    if tool.outputs.is_empty() {
        return Err("There are no outputs.".into());
    }
    for output in &tool.outputs {
        if output.kind != "data" {
            return Err(format!("Output `{}` must be of type data.", output.name));
        }
        let inside = |path: &String| !path.trim().is_empty() && !path.starts_with('/') && path.split('/').all(|step| step != "..");
        if !output.from_work_dir.as_ref().is_some_and(inside) {
            return Err(format!("Output `{}` needs `from_work_dir`, a path inside the working directory.", output.name));
        }
    }
    Ok(())
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The names behind `$(inputs.` in a command.
fn references(command: &str) -> impl Iterator<Item = &str> {
    command.split("$(inputs.").skip(1).map(|rest| {
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
        &rest[..end]
    })
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn fence(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    "`".repeat(longest.max(2) + 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GOOD: &str = "class: GalaxyUserTool\nid: line-counter\nname: Count lines\nversion: \"0.1.0\"\ndescription: Counts the lines of a file.\n\
        container: busybox:1.37\nshell_command: wc -l < '$(inputs.file.path)' > count.txt\ninputs:\n  - {name: file, type: data, format: txt, label: File}\n\
        outputs:\n  - {name: count, type: data, format: txt, from_work_dir: count.txt}\nhelp: Give it a file.\n";

    #[test]
    fn a_good_definition_is_offered() {
        let Words { text, reply } = read(GOOD).unwrap();
        assert!(text.starts_with("**Count lines**: Counts the lines of a file.\n\n```yaml\nclass: GalaxyUserTool\n"), "{text}");
        assert_eq!((reply.metadata["tool_id"].as_str(), reply.suggestions[0].action_type.as_str()), (Some("line-counter"), "save_tool"));
        assert_eq!(reply.suggestions[0].parameters["tool_yaml"], json!(GOOD.trim()));
    }

    #[test]
    fn a_wrong_definition_is_refused_with_a_reason() {
        let table = [
            ("class: GalaxyUserTool", "class: Other", "class"),
            ("id: line-counter", "id: Line Counter", "`id`"),
            ("busybox:1.37", "busybox", "container"),
            ("inputs.file.path", "inputs.other.path", "`other`"),
            ("from_work_dir: count.txt", "from_work_dir: ../count.txt", "working directory"),
            ("type: data, format: txt, label", "type: file, format: txt, label", "unknown type"),
            ("help: Give", "more: Give", "unknown field"),
            ("name: Count lines", "name: \" \"", "`name`"),
        ];
        for (good, bad, why) in table {
            assert!(GOOD.contains(good));
            let error = read(&GOOD.replace(good, bad)).err().unwrap();
            assert!(error.contains(why), "{bad}: {error}");
        }
        for bad in ["", "- a", "just words", "{"] {
            assert!(read(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_refusal_is_an_answer() {
        assert_eq!(read("Cannot: it needs a database.").unwrap().text, "This cannot be done by one command. it needs a database.");
    }

    proptest! {
        /// Cut, doubled and mixed definitions come nearer to the checks than random text does.
        #[test]
        fn no_definition_breaks_the_reader(text in any::<String>(), cut in 0..GOOD.len(), more in "[\\PC\n]{0,40}") {
            let _ = read(&text);
            let _ = read(&format!("{}{more}{}", &GOOD[..cut], &GOOD[cut..]));
            let _ = fallback(&text);
        }
    }
}
