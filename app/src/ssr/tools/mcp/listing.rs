//! What a server lists, as it is offered here.

use std::borrow::Cow;

use rmcp::model::{JsonObject, PaginatedRequestParams, Tool};
use rmcp::{Peer, RoleClient, ServiceError};
use serde_json::{Value, json};

use super::McpTool;
use super::naming::names;
use super::outcome::cut;
use super::settings::ServerSettings;

/// Most tools that are taken from one server.
const TOOLS: usize = 200;
/// Longest description of a tool, in characters.
const DESCRIPTION_CHARS: usize = 2_000;
/// Longest title of a tool, in characters.
const TITLE_CHARS: usize = 200;

/// A tool of a server.
pub(super) struct Listed {
    /// Its name there.
    pub own: Cow<'static, str>,
    /// What it is here.
    pub tool: McpTool,
}

/// Asks a server for its tools, page by page, until there are enough.
pub(super) async fn list(peer: &Peer<RoleClient>) -> Result<Vec<Tool>, ServiceError> {
    let mut tools = Vec::new();
    let mut cursor = None;
    // No more pages than tools: a page may be empty, but not for ever.
    for _ in 0..TOOLS {
        let page = peer.list_tools(Some(PaginatedRequestParams::default().with_cursor(cursor))).await?;
        tools.extend(page.tools);
        cursor = page.next_cursor.filter(|cursor| !cursor.is_empty());
        if cursor.is_none() || tools.len() >= TOOLS {
            break;
        }
    }
    tools.truncate(TOOLS);
    Ok(tools)
}

/// The tools of a server as models, people and the engine see them.
pub(super) fn offered(settings: &ServerSettings, tools: Vec<Tool>) -> Vec<Listed> {
    let own: Vec<&str> = tools.iter().map(|tool| tool.name.as_ref()).collect();
    let names = names(&settings.name, &own);
    names.into_iter().zip(tools).map(|(name, tool)| listed(settings, name, tool)).collect()
}

fn listed(settings: &ServerSettings, name: String, tool: Tool) -> Listed {
    let (title, idempotent) = match tool.annotations {
        Some(hints) => (hints.title, hints.read_only_hint == Some(true) || hints.idempotent_hint == Some(true)),
        None => (None, false),
    };
    let title = [tool.title, title].into_iter().flatten().find(|title| !title.trim().is_empty());
    let offered = McpTool {
        name,
        title: cut(title.as_deref().unwrap_or(&tool.name), TITLE_CHARS),
        description: cut(tool.description.as_deref().unwrap_or_default(), DESCRIPTION_CHARS),
        schema: schema(&tool.input_schema),
        policy: settings.policy(&tool.name),
        timeout: settings.timeout,
        idempotent,
    };
    Listed { own: tool.name, tool: offered }
}

/// The schema of an object, whatever the server gave: arguments are nothing else.
fn schema(given: &JsonObject) -> Value {
    match given.get("type") {
        Some(kind) if kind == "object" => Value::Object(given.clone()),
        Some(_) => json!({ "type": "object" }),
        None => {
            let mut schema = given.clone();
            schema.insert("type".to_owned(), json!("object"));
            Value::Object(schema)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::settings::read;
    use super::*;
    use crate::ssr::tools::Policy;

    #[test]
    fn tools_are_offered_as_the_operator_allows() {
        let settings = read("s: {command: [x], timeout_s: 5, tools: {'odd name!': always, delete: never}}").unwrap().remove(0);
        let properties = json!({ "type": "object", "properties": { "a": { "type": "number" } } });
        let tools = json!([
            { "name": "odd name!", "title": " ", "description": "d".repeat(3_000), "inputSchema": properties,
                "annotations": { "title": "Odd", "readOnlyHint": true } },
            { "name": "delete", "title": "Delete it", "inputSchema": { "type": "string" }, "annotations": { "idempotentHint": true } },
            { "name": "plain", "inputSchema": { "properties": {} }, "annotations": { "readOnlyHint": false } },
        ]);
        let offered = offered(&settings, serde_json::from_value(tools).unwrap());
        let own: Vec<&str> = offered.iter().map(|listed| listed.own.as_ref()).collect();
        let [odd, delete, plain] = offered.iter().map(|listed| &listed.tool).collect::<Vec<_>>()[..] else { panic!("{own:?}") };
        assert_eq!(own, ["odd name!", "delete", "plain"]);
        assert_eq!((odd.name.as_str(), odd.title.as_str(), odd.policy, odd.idempotent), ("mcp_s_odd_name_", "Odd", Policy::Always, true));
        assert_eq!((odd.description.chars().count(), odd.timeout), (2_000, Duration::from_secs(5)));
        assert_eq!(odd.schema, properties);
        assert_eq!((delete.title.as_str(), delete.policy, delete.idempotent), ("Delete it", Policy::Never, true));
        assert_eq!(delete.schema, json!({ "type": "object" }));
        assert_eq!((plain.title.as_str(), plain.policy, plain.idempotent), ("plain", Policy::Ask, false));
        assert_eq!(plain.schema, json!({ "type": "object", "properties": {} }));
    }
}
