//! What an answer carries beside its parts, to HTML: where its facts come from, and what to do next.

use std::fmt::Write;

use super::escape;
use super::tool::{icon, sources, text_in};
use crate::model::agent::Suggestion;
use crate::model::turn::Turn;

/// Sources and suggestions of an answer that is over; nothing when there are none.
pub fn tail(turn: &Turn) -> Option<String> {
    if !turn.is_ended() {
        return None;
    }
    let mut out = sources(turn).unwrap_or_default();
    let mut all: Vec<&Suggestion> = turn.reply.suggestions.iter().collect();
    all.sort_by_key(|suggestion| suggestion.priority);
    if !all.is_empty() {
        out.push_str("<ul class=\"suggestions\" aria-label=\"Suggestions\">");
        for suggestion in all {
            card(&mut out, suggestion);
        }
        out.push_str("</ul>");
    }
    (!out.is_empty()).then_some(out)
}

/// Name and icon of what a card does.
fn action(kind: &str) -> (&'static str, &'static str) {
    match kind {
        "tool_run" => ("Run a tool", "tool"),
        "save_tool" => ("Save the tool", "wrench"),
        "contact_support" => ("Ask for support", "user"),
        "view_external" => ("Open a page", "link"),
        "documentation" => ("Read the documentation", "book"),
        "workflow_import" => ("Import a workflow", "pages"),
        "refine_query" => ("Ask more exactly", "search"),
        _ => ("Suggestion", "lightbulb"),
    }
}

/// A card: saves a file, opens a page, or puts its text into the composer.
fn card(out: &mut String, suggestion: &Suggestion) {
    let (title, symbol) = action(&suggestion.action_type);
    let text_of = |name: &str| suggestion.parameters.get(name).and_then(|value| value.as_str());
    let file = text_of("tool_yaml").filter(|_| suggestion.action_type == "save_tool");
    // A suggestion comes from a model: only plain web addresses become links.
    let url = text_of("url").filter(|url| url.starts_with("https://") || url.starts_with("http://"));
    let description = &suggestion.description;
    out.push_str("<li>");
    let tag = match (file, url) {
        (Some(file), _) => {
            let _ = write!(out, "<a href=\"{}\" download=\"", as_file(file));
            escape(out, description);
            "a"
        }
        (None, Some(url)) => {
            out.push_str("<a target=\"_blank\" rel=\"noopener noreferrer nofollow\" href=\"");
            escape(out, url);
            "a"
        }
        (None, None) => {
            out.push_str("<button type=\"button\" data-fill=\"");
            escape(out, description);
            "button"
        }
    };
    let _ = write!(out, "\" class=\"action-card\" data-priority=\"{}\">", suggestion.priority.clamp(1, 3));
    icon(out, symbol);
    text_in(out, "span", "action-title", description);
    text_in(out, "span", "action-detail", title);
    if file.is_none() && url.is_some() {
        icon(out, "external");
    }
    let _ = write!(out, "</{tag}></li>");
}

/// A text as the address of a file to save.
fn as_file(text: &str) -> String {
    text.bytes().fold("data:application/yaml;charset=utf-8,".to_owned(), |mut all, byte| {
        if byte.is_ascii_alphanumeric() {
            all.push(char::from(byte));
        } else {
            let _ = write!(all, "%{byte:02X}");
        }
        all
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::agent::{AgentType, Reply};
    use crate::model::event::{End, TurnEvent};
    use crate::model::ids::{PromptId, TurnId, TurnRow};
    use crate::model::turn::Prompt;

    fn html(suggestions: serde_json::Value) -> String {
        let prompt = Prompt { id: PromptId::parse("p").unwrap(), text: "why".into() };
        let mut turn = Turn::asked(TurnId::parse("t").unwrap(), TurnRow(1), prompt, AgentType::router(), 1, 0);
        let reply = Reply { suggestions: serde_json::from_value(suggestions).unwrap(), ..Reply::default() };
        turn.apply(1, &TurnEvent::Replied { reply }).unwrap();
        assert_eq!(tail(&turn), None, "not before the end");
        turn.apply(2, &TurnEvent::Ended { at: 1, how: End::Answered, finish: None }).unwrap();
        tail(&turn).unwrap_or_default()
    }

    #[test]
    fn each_kind_of_suggestion_has_its_card_the_most_useful_first() {
        let html = html(json!([
            {"action_type": "refine_query", "description": "Ask \"more\"", "priority": 2},
            {"action_type": "view_external", "description": "Page", "parameters": {"url": "https://a.org/?a=1&b=\"2\""}, "priority": 1},
            {"action_type": "save_tool", "description": "x.yml", "parameters": {"tool_yaml": "a: ü\n"}, "priority": 3},
            {"action_type": "unknown", "description": "Evil", "parameters": {"url": "javascript:alert(1)"}, "priority": 9},
        ]));
        let order: Vec<usize> =
            ["href=\"https://a.org/?a=1&amp;b=&quot;2&quot;\"", "data-fill=\"Ask &quot;more&quot;\"", "download=\"x.yml\"", "Evil"]
                .map(|words| html.find(words).unwrap_or_else(|| panic!("{words}: {html}")))
                .to_vec();
        assert!(order.is_sorted(), "{html}");
        assert!(html.contains("data:application/yaml;charset=utf-8,a%3A%20%C3%BC%0A") && !html.contains("javascript:"), "{html}");
    }

    #[test]
    fn nothing_to_say_is_nothing() {
        assert_eq!(html(json!([])), "");
    }
}
