//! The tools of this server: over the catalogue, over the person's own conversations, and one for the browser.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Broken, Scene, Tool};
use crate::model::exchange::ExchangeSummary;
use crate::model::ids::Millis;
use crate::model::part::Source;
use crate::model::turn::Turn;
use crate::ssr::agents::catalogue;
use crate::ssr::engine::decide::Output;

/// Tools of the catalogue that are given at once, unless asked otherwise.
const FOUND: usize = 8;
/// Conversations that are looked through.
const LOOKED_THROUGH: usize = 500;
/// Conversations that are given at once, unless asked otherwise.
const LISTED: usize = 20;
/// Turns of a conversation that are given at once, unless asked otherwise.
const TURNS: usize = 20;
/// Characters of a question or an answer that are given.
const CHARS: usize = 4_000;

/// What `search_tools` takes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SearchTools {
    /// The task, the operation or the data format, in a few words.
    #[schemars(length(min = 1, max = 500))]
    query: String,
    /// How many tools at most.
    #[schemars(range(min = 1, max = 20))]
    limit: Option<usize>,
}

/// What `list_conversations` takes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListConversations {
    /// Words that the title holds; without it all conversations.
    #[schemars(length(max = 200))]
    query: Option<String>,
    /// How many at most, latest first.
    #[schemars(range(min = 1, max = 50))]
    limit: Option<usize>,
}

/// What `get_conversation` takes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GetConversation {
    /// Its id, from `list_conversations`.
    #[schemars(length(min = 1, max = 64))]
    id: String,
    /// How many of its last turns.
    #[schemars(range(min = 1, max = 50))]
    last: Option<usize>,
}

/// What `rename_exchange` takes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RenameExchange {
    /// The new title, one line.
    #[schemars(length(min = 1, max = 300))]
    title: String,
}

/// What `copy_to_clipboard` takes.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[allow(dead_code, reason = "only its schema is used: the browser reads it")]
struct CopyToClipboard {
    /// The text.
    #[schemars(length(min = 1, max = 100_000))]
    text: String,
}

/// All of them.
pub(super) fn all() -> Vec<Tool> {
    vec![
        Tool::taking(
            "search_tools",
            "Searches the catalogue of analysis tools of this server by full text. Name a tool to the person only when it is in the catalogue.",
            search_tools,
        )
        .reads(),
        Tool::taking(
            "list_conversations",
            "Lists the person's own earlier conversations on this server, latest first, with their ids and titles.",
            list_conversations,
        )
        .reads(),
        Tool::taking(
            "get_conversation",
            "Reads one of the person's own conversations: its last questions and answers, oldest first.",
            get_conversation,
        )
        .reads(),
        Tool::taking("rename_exchange", "Gives the conversation that you are in another title.", rename_exchange),
        Tool::in_browser::<CopyToClipboard>("copy_to_clipboard", "Copies a text to the clipboard of the person's browser."),
    ]
}

async fn search_tools(scene: Scene, input: SearchTools) -> Result<Output, Broken> {
    let found = catalogue::search(&scene.db, &input.query, input.limit.unwrap_or(FOUND)).await?;
    let is_web = |url: &str| url.starts_with("https://") || url.starts_with("http://");
    let sources = found.iter().filter(|tool| is_web(&tool.homepage));
    let sources = sources.map(|tool| Source { title: tool.name.clone(), url: tool.homepage.clone() }).collect();
    Ok(Output { value: json!({ "tools": found }), sources })
}

async fn list_conversations(scene: Scene, input: ListConversations) -> Result<Output, Broken> {
    let history = scene.db.history(scene.user, None, LOOKED_THROUGH).await?;
    let words = input.query.unwrap_or_default().to_lowercase();
    let fits = |line: &&ExchangeSummary| {
        let title = line.title.to_lowercase();
        words.split_whitespace().all(|word| title.contains(word))
    };
    let fitting: Vec<&ExchangeSummary> = history.lines.iter().filter(fits).collect();
    let listed: Vec<Value> = fitting.iter().take(input.limit.unwrap_or(LISTED)).map(|line| about(line)).collect();
    Ok(Output { value: json!({ "conversations": listed, "matching": fitting.len() }), sources: Vec::new() })
}

async fn get_conversation(scene: Scene, input: GetConversation) -> Result<Output, Broken> {
    let found = scene.db.exchange(scene.user, &input.id).await?;
    let Some(summary) = found else {
        return Err(Broken::Refused("There is no conversation with this id. list_conversations gives the ids.".to_owned()));
    };
    let (turns, earlier) = scene.db.turns(summary.id, None, input.last.unwrap_or(TURNS)).await?;
    let said = |turn: &Turn| json!({ "question": cut(&turn.prompt.text), "answer": cut(&turn.text()), "state": turn.state_name() });
    let turns: Vec<Value> = turns.iter().map(said).collect();
    Ok(Output { value: json!({ "conversation": about(&summary), "turns": turns, "earlier_turns": earlier }), sources: Vec::new() })
}

async fn rename_exchange(scene: Scene, input: RenameExchange) -> Result<Output, Broken> {
    let title = ExchangeSummary::title_of(&crate::ssr::db::storable(&input.title));
    if title.is_empty() {
        return Err(Broken::Refused("The title is empty.".to_owned()));
    }
    if !scene.db.rename(scene.user, scene.exchange, &title).await? {
        return Err(Broken::Refused("The conversation is not there any more.".to_owned()));
    }
    Ok(Output { value: json!({ "title": title }), sources: Vec::new() })
}

fn about(line: &ExchangeSummary) -> Value {
    json!({ "id": line.uuid, "title": line.title, "turns": line.turn_count, "updated_at": time(line.updated_at) })
}

fn time(at: Millis) -> String {
    jiff::Timestamp::from_millisecond(at).map_or_else(|_| String::new(), |at| format!("{at:.0}"))
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
