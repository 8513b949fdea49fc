//! Calls of tools to HTML: one quiet line that opens, a question to the person, or something that a tab must do; and what a consulted
//! agent did, inside of its call.
//!
//! Made here like all HTML of an answer, so that the browser need not know how a call looks. Its forms work without scripts; with them
//! the page sends the same fields ([`crate::ui::browser::tab_tools`]).

use std::fmt::Write;

use serde_json::Value;

use super::escape;
use crate::model::agent::AgentType;
use crate::model::part::{Notice, Part, ToolCall, ToolState};
use crate::model::turn::Turn;

/// Longest value that is shown, in characters.
const SHOWN_CHARS: usize = 20_000;
/// Longest hint beside a tool's name, in characters.
const BRIEF_CHARS: usize = 120;

/// A call of a turn, with all that is inside of it.
pub fn call(turn: &Turn, call: &ToolCall) -> String {
    let mut out = String::with_capacity(1_024);
    section(&mut out, turn, &[turn.agent().clone()], call);
    out
}

/// A notice of ours.
pub fn notice(notice: Notice) -> String {
    let mut out = String::from("<p class=\"turn-note\">");
    icon(&mut out, "info");
    escape(&mut out, &notice.to_string());
    out + "</p>"
}

/// Where the facts of an answer come from, numbered; nothing when there is nothing.
pub fn sources(turn: &Turn) -> Option<String> {
    let sources = turn.sources();
    if sources.is_empty() {
        return None;
    }
    let mut out = String::from("<nav class=\"sources\" aria-label=\"Sources\"><p class=\"tool-part\">Sources</p><ol>");
    for source in sources {
        out.push_str("<li>");
        let is_web = source.url.starts_with("https://") || source.url.starts_with("http://");
        if is_web {
            out.push_str("<a target=\"_blank\" rel=\"noopener noreferrer nofollow\" href=\"");
            escape(&mut out, &source.url);
            out.push_str("\">");
        }
        escape(&mut out, &source.title);
        if is_web {
            out.push_str("</a> ");
            text_in(&mut out, "span", "source-host", source.url.split('/').nth(2).unwrap_or_default());
        }
        out.push_str("</li>");
    }
    Some(out + "</ol></nav>")
}

fn section(out: &mut String, turn: &Turn, agents: &[AgentType], call: &ToolCall) {
    let label = call.label();
    let _ = write!(out, "<section class=\"tool\" data-state=\"{}\" data-tool=\"", call.state.name());
    escape(out, &call.name);
    out.push_str("\" aria-label=\"Tool: ");
    escape(out, &label);
    out.push_str("\">");
    match &call.state {
        ToolState::Asking { input, approval, .. } => question(out, turn, agents, call, input, approval),
        state => card(out, call, state, &label),
    }
    if let ToolState::Waiting { tab, .. } = &call.state {
        let text = if tab.is_some() { "A tab of your browser does this." } else { "Your browser has to do this." };
        let _ = write!(out, "<div class=\"tool-wait\"><p>{text}</p><button type=\"button\" class=\"button tool-run\" data-call=\"");
        escape(out, &call.call);
        out.push_str("\">Do it in this tab</button></div>");
    }
    if !call.inner.is_empty() {
        strip(out, turn, agents, call);
    }
    out.push_str("</section>");
}

pub(super) fn icon(out: &mut String, name: &str) {
    let _ = write!(out, "<svg class=\"icon\" aria-hidden=\"true\"><use href=\"/icons.svg#{name}\"></use></svg>");
}

/// The symbol of the icon sprite for a tool.
fn symbol(name: &str) -> &'static str {
    match name {
        "consult_agent" => "robot",
        "search_tools" => "search",
        "list_conversations" | "get_conversation" => "history-clock",
        "rename_exchange" => "chat",
        "copy_to_clipboard" => "copy",
        _ => "tool",
    }
}

/// How far it is, in a word; its sign stands beside the colour.
fn word(state: &ToolState) -> &'static str {
    match state {
        ToolState::Streaming { .. } | ToolState::Ready { .. } => "Is being called",
        ToolState::Asking { .. } => "Asks",
        ToolState::Running { .. } => "Running",
        ToolState::Waiting { .. } => "Waiting",
        ToolState::Done { .. } => "✓ Done",
        ToolState::Failed { .. } => "! Failed",
        ToolState::Denied { .. } => "✕ Denied",
    }
}

fn cut(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// A value for people: a text as it is, everything else as indented JSON.
fn readable(value: &Value) -> String {
    match value {
        Value::String(text) => cut(text, SHOWN_CHARS),
        other => cut(&serde_json::to_string_pretty(other).unwrap_or_default(), SHOWN_CHARS),
    }
}

/// The argument that says most, in one line.
fn brief(call: &ToolCall) -> String {
    let text = match call.state.input() {
        Some(Value::Object(fields)) if call.consults() => fields.get("question").and_then(Value::as_str),
        Some(Value::Object(fields)) => fields.values().find_map(Value::as_str),
        _ => None,
    };
    cut(&text.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" "), BRIEF_CHARS)
}

fn card(out: &mut String, call: &ToolCall, state: &ToolState, label: &str) {
    out.push_str("<details class=\"tool-card\"><summary>");
    icon(out, symbol(&call.name));
    text_in(out, "span", "tool-title", label);
    let brief = brief(call);
    if !brief.is_empty() {
        text_in(out, "span", "tool-brief", &brief);
    }
    text_in(out, "span", "tool-state", word(state));
    out.push_str("</summary><div class=\"tool-body\"><p class=\"tool-part\">Input</p>");
    match state {
        ToolState::Streaming { raw } => output(out, &cut(raw, SHOWN_CHARS)),
        other => values(out, other.input().unwrap_or(&Value::Null)),
    }
    match state {
        ToolState::Done { output: value, .. } => {
            out.push_str("<p class=\"tool-part\">Output</p>");
            output(out, &readable(value));
        }
        ToolState::Failed { error, .. } => text_in(out, "p", "tool-error", &error.to_string()),
        ToolState::Denied { reason, .. } if reason.is_empty() => text_in(out, "p", "tool-error", "You denied this."),
        ToolState::Denied { reason, .. } => text_in(out, "p", "tool-error", &format!("Denied: {reason}")),
        _ => {}
    }
    out.push_str("</div></details>");
}

pub(super) fn text_in(out: &mut String, tag: &str, class: &str, text: &str) {
    let _ = write!(out, "<{tag} class=\"{class}\">");
    escape(out, text);
    let _ = write!(out, "</{tag}>");
}

fn output(out: &mut String, text: &str) {
    out.push_str("<pre class=\"tool-output\" tabindex=\"0\">");
    escape(out, text);
    out.push_str("</pre>");
}

/// The arguments by name; what is no object has none.
fn values(out: &mut String, input: &Value) {
    let value = |out: &mut String, name: &str, value: &Value| {
        out.push_str("<dt>");
        escape(out, &name.replace('_', " "));
        let text = readable(value);
        // What may scroll must be reachable by keys.
        out.push_str(if text.len() > 120 || text.contains('\n') { "</dt><dd tabindex=\"0\">" } else { "</dt><dd>" });
        escape(out, &text);
        out.push_str("</dd>");
    };
    match input {
        Value::Object(fields) if fields.is_empty() => text_in(out, "p", "tool-empty", "Nothing"),
        Value::Null => text_in(out, "p", "tool-empty", "Nothing"),
        Value::Object(fields) => {
            out.push_str("<dl class=\"tool-values\">");
            fields.iter().for_each(|(name, field)| value(out, name, field));
            out.push_str("</dl>");
        }
        other => {
            out.push_str("<dl class=\"tool-values\">");
            value(out, "arguments", other);
            out.push_str("</dl>");
        }
    }
}

/// The question whether a tool may run.
fn question(out: &mut String, turn: &Turn, agents: &[AgentType], call: &ToolCall, input: &Value, approval: &str) {
    out.push_str("<form class=\"tool-ask\" tabindex=\"-1\" method=\"post\" action=\"/api/fn/chat/tool\"><p class=\"tool-question\">");
    icon(out, symbol(&call.name));
    text_in(out, "strong", "tool-title", &call.label());
    out.push_str("<span> needs your permission.</span></p>");
    let path: Vec<&str> = agents.iter().map(AgentType::label).collect();
    text_in(out, "p", "tool-path", &format!("Asked by {}", path.join(" › ")));
    values(out, input);
    for (name, value) in [("turn", turn.id.as_str()), ("call", &call.call), ("key", approval)] {
        let _ = write!(out, "<input type=\"hidden\" name=\"{name}\" value=\"");
        escape(out, value);
        out.push_str("\">");
    }
    // The first button is the one that Enter presses in the field of the reason: it must not allow anything.
    out.push_str(
        "<button class=\"sr-only\" name=\"act\" value=\"deny\" tabindex=\"-1\" aria-hidden=\"true\">Deny</button>\
         <div class=\"tool-buttons\"><button class=\"button\" data-kind=\"primary\" name=\"act\" value=\"allow\">Allow</button>\
         <button class=\"button\" name=\"act\" value=\"always\">Always allow here</button>\
         <label class=\"tool-reason\"><span class=\"sr-only\">Reason</span>\
         <input name=\"value\" maxlength=\"1000\" placeholder=\"Reason (optional)\" autocomplete=\"off\"></label>\
         <button class=\"button\" name=\"act\" value=\"deny\">Deny</button></div></form>",
    );
}

/// What a consulted agent did.
fn strip(out: &mut String, turn: &Turn, agents: &[AgentType], call: &ToolCall) {
    let agent = call.argument("agent").and_then(AgentType::parse).unwrap_or_else(AgentType::router);
    let open = if call.state.is_open() { " open" } else { "" };
    let _ = write!(out, "<details class=\"agent-strip\"{open}><summary>");
    icon(out, agent.icon());
    text_in(out, "span", "agent-name", agent.label());
    text_in(out, "span", "agent-task", &brief(call));
    out.push_str("</summary><div class=\"agent-parts\">");
    let agents: Vec<AgentType> = agents.iter().cloned().chain([agent]).collect();
    for part in &call.inner {
        match part {
            Part::Tool(inner) => section(out, turn, &agents, inner),
            Part::Text { text } => text_in(out, "p", "agent-text", text),
            Part::Notice(notice) => text_in(out, "p", "turn-note", &notice.to_string()),
            Part::Reasoning { .. } | Part::StepStart | Part::Unknown(_) => {}
        }
    }
    out.push_str("</div></details>");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::ids::{PromptId, TurnId, TurnRow};
    use crate::model::part::{CONSULT, Runner, ToolError};
    use crate::model::turn::Prompt;

    fn turn() -> Turn {
        let prompt = Prompt { id: PromptId::parse("p").unwrap(), text: "why".into() };
        Turn::asked(TurnId::parse("t").unwrap(), TurnRow(1), prompt, AgentType::router(), 1, 0)
    }

    fn html(name: &str, state: ToolState, inner: Vec<Part>) -> String {
        call(&turn(), &ToolCall { call: "c".into(), name: name.into(), state, at: 1, inner })
    }

    #[test]
    fn every_state_has_its_view() {
        let input = json!({"query": "trim", "limit": 3});
        let approval = None;
        let table = [
            (ToolState::Streaming { raw: "{\"query\": \"tr".into() }, vec!["data-state=\"streaming\"", "Is being called", "tr</pre>"]),
            (ToolState::Ready { input: input.clone() }, vec!["data-state=\"ready\"", "<dd>trim</dd>"]),
            (ToolState::Running { input: input.clone(), approval: None }, vec!["Running", "<dt>limit</dt><dd>3</dd>"]),
            (
                ToolState::Waiting { input: input.clone(), approval: None, tab: None, until: 1 },
                vec!["Waiting</span>", "data-call=\"c\"", "Your browser has to do this."],
            ),
            (
                ToolState::Asking { input: input.clone(), runner: Runner::Server, approval: "q".into(), until: 1 },
                vec!["needs your permission", "name=\"key\" value=\"q\"", "value=\"always\"", "Asked by Router", "value=\"deny\""],
            ),
            (
                ToolState::Done { input: input.clone(), output: json!([1]), approval: None, sources: Vec::new() },
                vec!["✓ Done", "<p class=\"tool-part\">Output</p>", "[\n  1\n]"],
            ),
            (ToolState::Failed { input: json!({}), error: ToolError::TimedOut(3), approval }, vec!["! Failed", "within 3 s", "Nothing"]),
            (ToolState::Denied { input, approval: "q".into(), reason: "not now".into() }, vec!["✕ Denied", "Denied: not now"]),
        ];
        for (state, expected) in table {
            let html = html("search_tools", state, Vec::new());
            for words in expected {
                assert!(html.contains(words), "{words}: {html}");
            }
        }
    }

    #[test]
    fn hostile_names_and_values_are_text() {
        let evil = "\"><script>alert(1)</script>";
        let state = ToolState::Done { input: json!({evil: evil}), output: json!(evil), approval: None, sources: Vec::new() };
        let html = html(evil, state, Vec::new());
        assert!(!html.contains("<script"), "{html}");
        assert_eq!(html.matches("<section").count(), 1);
    }

    #[test]
    fn sources_are_numbered_once_each_and_only_web_addresses_are_links() {
        use crate::model::event::TurnEvent;
        use crate::model::part::Source;
        let source = |title: &str, url: &str| Source { title: title.into(), url: url.into() };
        let sources =
            vec![source("<b>", "https://a.org/x?y=\"z"), source("Evil", "javascript:alert(1)"), source("Again", "https://a.org/x?y=\"z")];
        let state = ToolState::Done { input: json!({}), output: json!(1), approval: None, sources };
        let mut turn = turn();
        assert_eq!(super::sources(&turn), None);
        for event in [TurnEvent::ToolCalled { call: "c".into(), name: "x".into() }, TurnEvent::ToolChanged { call: "c".into(), state }] {
            turn.apply(turn.seq + 1, &event).unwrap();
        }
        let html = super::sources(&turn).unwrap();
        assert_eq!((html.matches("<li>").count(), html.matches("<a ").count()), (2, 1), "{html}");
        assert!(html.contains("&lt;b&gt;</a> <span class=\"source-host\">a.org</span>") && !html.contains("javascript"));
    }

    #[test]
    fn a_nested_question_says_who_asks() {
        let asking = ToolState::Asking { input: json!({}), runner: Runner::Server, approval: "q".into(), until: 1 };
        let inner = ToolCall { call: "d".into(), name: "rename_exchange".into(), state: asking, at: 2, inner: Vec::new() };
        let consulting = ToolState::Running { input: json!({"agent": "error_analysis", "question": "Why?"}), approval: None };
        let html = html(CONSULT, consulting, vec![Part::Text { text: "Hm.".into() }, Part::Tool(inner)]);
        assert!(html.contains("Asked by Router › Error analysis") && html.contains("agent-text\">Hm.") && html.contains("strip\" open"));
    }
}
