//! What a call of a tool gave, for the model and the person.

use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::Value;

use crate::ssr::tools::Broken;

/// Longest result, as JSON, in bytes.
const RESULT_BYTES: usize = 256 * 1024;
/// Longest reason why a tool gave nothing, in characters.
const REASON_CHARS: usize = 4_000;
/// Room for the note that a result was cut, in bytes.
const NOTE_BYTES: usize = 100;

/// The result of a tool: its structured content, else its texts, one a line. `Refused` when the tool says that it failed.
pub(super) fn outcome(result: CallToolResult) -> Result<Value, Broken> {
    let structured = result.structured_content.filter(|value| !value.is_null());
    if result.is_error == Some(true) {
        let texts = texts(result.content);
        return Err(refused(&if texts.is_empty() { structured.map(|value| value.to_string()).unwrap_or_default() } else { texts }));
    }
    Ok(short(structured.unwrap_or_else(|| Value::String(texts(result.content)))))
}

/// A tool that says no, in its own words, if it has any.
pub(super) fn refused(why: &str) -> Broken {
    let why = why.trim();
    Broken::Refused(if why.is_empty() { "The tool failed and does not say why.".to_owned() } else { cut(why, REASON_CHARS) })
}

/// A text of at most so many characters; `…` ends one that was longer.
pub(super) fn cut(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        None => text.to_owned(),
        Some(_) => text.chars().take(chars.saturating_sub(1)).chain(['…']).collect(),
    }
}

fn texts(content: Vec<ContentBlock>) -> String {
    content.into_iter().map(text).collect::<Vec<_>>().join("\n")
}

fn text(block: ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => text.text,
        ContentBlock::Image(image) => note(&image.mime_type, &image.data),
        ContentBlock::Audio(audio) => note(&audio.mime_type, &audio.data),
        ContentBlock::ResourceLink(link) => link.uri,
        ContentBlock::Resource(resource) => match resource.resource {
            ResourceContents::TextResourceContents { text, .. } => text,
            ResourceContents::BlobResourceContents { mime_type, blob, .. } => note(mime_type.as_deref().unwrap_or("data"), &blob),
            _ => "[something else]".to_owned(),
        },
        _ => "[something else]".to_owned(),
    }
}

/// Stands for data that no model reads as text; they come in base64.
fn note(kind: &str, base64: &str) -> String {
    let bytes = base64.trim_end_matches('=').len() * 3 / 4;
    format!("[{}, {bytes} bytes]", cut(kind, 100))
}

/// A result as it may be kept: one that is too long becomes a text that says so, no longer than allowed, itself as JSON.
fn short(value: Value) -> Value {
    let json = value.to_string();
    let whole = json.len();
    if whole <= RESULT_BYTES {
        return value;
    }
    let text = match value {
        Value::String(text) => text,
        _ => json,
    };
    let mut room = RESULT_BYTES - NOTE_BYTES;
    let kept = text.chars().map_while(|letter| {
        room = room.checked_sub(width(letter))?;
        Some(letter)
    });
    Value::String(kept.collect::<String>() + &format!("… (cut: the whole result has {whole} bytes)"))
}

/// How many bytes a character takes inside a JSON text.
fn width(letter: char) -> usize {
    match letter {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..='\u{1f}' => 6,
        _ => letter.len_utf8(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn given(result: &Value) -> Result<Value, Broken> {
        outcome(serde_json::from_value(result.clone()).unwrap())
    }

    #[test]
    fn results_become_values() {
        let many = json!([
            { "type": "text", "text": "one" },
            { "type": "text", "text": "two" },
            { "type": "image", "mimeType": "image/png", "data": "AAAAAA==" },
            { "type": "audio", "mimeType": "audio/wav", "data": "AAAA" },
            { "type": "resource", "resource": { "uri": "file:///a", "text": "inside" } },
            { "type": "resource", "resource": { "uri": "file:///b", "blob": "AAA=" } },
            { "type": "resource_link", "uri": "file:///c", "name": "c" },
        ]);
        let as_text = "one\ntwo\n[image/png, 4 bytes]\n[audio/wav, 3 bytes]\ninside\n[data, 2 bytes]\nfile:///c";
        let texts = json!([{ "type": "text", "text": "no such file" }]);
        let said = |why: &str| Err(Broken::Refused(why.to_owned()));
        let table = [
            (json!({ "content": many }), Ok(json!(as_text))),
            (json!({ "content": [] }), Ok(json!(""))),
            (json!({ "content": texts, "structuredContent": { "sum": 3 } }), Ok(json!({ "sum": 3 }))),
            (json!({ "content": texts, "structuredContent": null }), Ok(json!("no such file"))),
            (json!({ "content": texts, "isError": false }), Ok(json!("no such file"))),
            (json!({ "content": texts, "isError": true }), said("no such file")),
            (json!({ "content": [], "structuredContent": { "code": 7 }, "isError": true }), said("{\"code\":7}")),
            (json!({ "content": [], "isError": true }), said("The tool failed and does not say why.")),
        ];
        for (result, expected) in table {
            assert_eq!(given(&result), expected, "{result}");
        }
    }

    #[test]
    fn long_results_are_cut() {
        let long = "é".repeat(5_000);
        let Err(Broken::Refused(why)) = given(&json!({ "content": [{ "type": "text", "text": long }], "isError": true })) else { panic!() };
        assert!(why.chars().count() == 4_000 && why.ends_with("é…"));
        for letter in ["a", "é", "\"", "\n", "\u{1}", "🦀"] {
            let text = letter.repeat(RESULT_BYTES);
            let plain = json!({ "content": [{ "type": "text", "text": text }] });
            for result in [plain, json!({ "content": [], "structuredContent": { "a": [text] } })] {
                let value = given(&result).unwrap();
                let length = value.to_string().len();
                assert!((RESULT_BYTES - 200..=RESULT_BYTES).contains(&length), "{letter:?}: {length}");
                assert!(value.as_str().unwrap().ends_with(" bytes)"), "{letter:?}");
            }
        }
        let fits = json!("a".repeat(RESULT_BYTES - 2));
        assert_eq!(given(&json!({ "content": [], "structuredContent": fits })), Ok(fits));
    }
}
