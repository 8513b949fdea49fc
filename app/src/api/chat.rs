//! Server functions of the chat.

use leptos::prelude::*;
use leptos::server;
use serde::{Deserialize, Serialize};

use crate::model::error::AppError;
use crate::model::exchange::{Conversation, History, HistoryCursor, TurnView};
use crate::model::ids::{ExchangeUuid, Millis};
use crate::model::user::User;

/// A question that is stored and being answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sent {
    /// Name of the conversation.
    pub exchange: ExchangeUuid,
    /// The turn as it begins.
    pub view: TurnView,
}

/// An agent that a person can pick.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentChoice {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
}

/// What the chat page needs to know of the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatSetup {
    /// Who is signed in.
    pub user: User,
    /// The model that answers.
    pub model: String,
    /// It only pretends.
    pub demo: bool,
    /// The agents to pick from, `auto` not among them.
    pub agents: Vec<AgentChoice>,
    /// The first page of the history.
    pub history: History,
}

/// Stores a question and starts to answer it. Without an exchange it makes one; without a prompt id too (plain forms).
#[server(prefix = "/api/fn", endpoint = "chat/send", output = crate::api::Answer)]
pub async fn send_question(
    #[server(default)] exchange: Option<String>,
    #[server(default)] prompt_id: Option<String>,
    query: String,
    #[server(default)] agent: Option<String>,
) -> Result<Sent, AppError> {
    use crate::ssr::web;
    web::answer(async {
        let (state, user) = web::signed_in().await?;
        let ask = crate::ssr::chat::Ask { exchange, prompt_id, query, agent, ..Default::default() };
        let asked = crate::ssr::chat::ask(&state.db, &state.engine, user.id, ask).await?;
        web::send_forms_to(&format!("/chatgxy/{}", asked.uuid));
        Ok(Sent { exchange: asked.uuid, view: asked.turn.into() })
    })
    .await
}

/// Answers the latest question again.
#[server(prefix = "/api/fn", endpoint = "chat/retry", output = crate::api::Answer)]
pub async fn retry(turn: String) -> Result<TurnView, AppError> {
    use crate::ssr::web;
    web::answer(async {
        let (state, user) = web::signed_in().await?;
        let id = crate::ssr::chat::turn_id(&turn)?;
        Ok(state.engine.retry(user.id, &id).await?.0.into())
    })
    .await
}

/// Stops a turn; one that is over stays as it is.
#[server(prefix = "/api/fn", endpoint = "chat/stop", output = crate::api::Answer)]
pub async fn stop(turn: String) -> Result<(), AppError> {
    use crate::ssr::web;
    web::answer(async {
        let (state, user) = web::signed_in().await?;
        state.engine.stop(user.id, &crate::ssr::chat::turn_id(&turn)?).await
    })
    .await
}

/// What somebody does with a call of a tool. `act`: `allow`, `always` (and in this conversation it asks no more) or `deny`, with the question
/// as `key` and a reason as `value`; `claim`, `ran` or `failed`, with the tab as `key` and the output (JSON) or the reason as `value`.
/// `false`: another tab runs it.
#[server(prefix = "/api/fn", endpoint = "chat/tool", output = crate::api::Answer)]
pub async fn use_tool(
    turn: String,
    call: String,
    act: String,
    #[server(default)] key: Option<String>,
    #[server(default)] value: Option<String>,
) -> Result<bool, AppError> {
    use crate::ssr::chat::{CallAnswer, answer_call, claim_call, home_of};
    use crate::ssr::web;
    web::answer(async {
        let (state, user) = web::signed_in().await?;
        let (key, value) = (key.unwrap_or_default(), value.unwrap_or_default());
        let answer = match act.as_str() {
            "claim" => return claim_call(&state.engine, user.id, &turn, &call, &key).await,
            "allow" | "always" => CallAnswer::Allow { approval: key, always: act == "always" },
            "deny" => CallAnswer::Deny { approval: key, reason: value },
            "failed" => CallAnswer::Ran { outcome: Err(value), tab: Some(key) },
            "ran" => {
                let output = serde_json::from_str(&value).map_err(|_| AppError::invalid("value", "The output is no JSON."))?;
                CallAnswer::Ran { outcome: Ok(output), tab: Some(key) }
            }
            _ => return Err(AppError::invalid("act", "That is nothing that can be done with a tool.")),
        };
        answer_call(&state.db, &state.engine, user.id, &turn, &call, answer).await?;
        web::send_forms_to(&format!("/chatgxy/{}", home_of(&state.db, user.id, &turn).await?));
        Ok(true)
    })
    .await
}

/// A stretch of a conversation.
#[server(prefix = "/api/fn", endpoint = "chat/conversation", output = crate::api::Answer)]
pub async fn read_conversation(name: String, #[server(default)] before: Option<i64>) -> Result<Conversation, AppError> {
    use crate::ssr::web;
    web::answer(async {
        let (state, user) = web::signed_in().await?;
        crate::ssr::chat::conversation(&state.db, &state.engine, user.id, &name, before).await
    })
    .await
}

/// A page of the history.
#[server(prefix = "/api/fn", endpoint = "chat/history", input = server_fn::codec::Json, output = crate::api::Answer)]
pub async fn read_history(before: Option<HistoryCursor>) -> Result<History, AppError> {
    use crate::ssr::web;
    web::answer(async {
        let (state, user) = web::signed_in().await?;
        crate::ssr::chat::history(&state.db, user.id, before).await
    })
    .await
}

/// Moves a conversation to the bin; gives the key to take it back.
#[server(prefix = "/api/fn", endpoint = "chat/delete", output = crate::api::Answer)]
pub async fn delete_exchange(name: String) -> Result<Millis, AppError> {
    use crate::ssr::web;
    web::answer(async {
        let (state, user) = web::signed_in().await?;
        crate::ssr::chat::delete(&state.db, &state.engine, user.id, &name).await
    })
    .await
}

/// Moves all general conversations to the bin; gives the key to take them back.
#[server(prefix = "/api/fn", endpoint = "chat/clear", output = crate::api::Answer)]
pub async fn clear_history() -> Result<Millis, AppError> {
    use crate::ssr::web;
    web::answer(async {
        let (state, user) = web::signed_in().await?;
        Ok(crate::ssr::chat::clear_history(&state.db, &state.engine, user.id).await?.deleted_at)
    })
    .await
}

/// Takes back what was deleted at that time.
#[server(prefix = "/api/fn", endpoint = "chat/restore", output = crate::api::Answer)]
pub async fn restore_deleted(deleted_at: Millis) -> Result<(), AppError> {
    use crate::ssr::web;
    web::answer(async {
        let (state, user) = web::signed_in().await?;
        crate::ssr::chat::restore(&state.db, user.id, deleted_at).await
    })
    .await
}

/// Keeps what the person thought of an answer; without `good` it is forgotten.
#[server(prefix = "/api/fn", endpoint = "chat/feedback", output = crate::api::Answer)]
pub async fn give_feedback(
    turn: String,
    #[server(default)] good: Option<bool>,
    #[server(default)] reason: Option<String>,
) -> Result<(), AppError> {
    use crate::ssr::web;
    web::answer(async {
        let (state, user) = web::signed_in().await?;
        crate::ssr::chat::set_feedback(&state.db, user.id, &turn, good, reason).await
    })
    .await
}

/// What the chat page needs to know of the server.
#[server(prefix = "/api/fn", endpoint = "chat/setup", output = crate::api::Answer)]
pub async fn read_setup() -> Result<ChatSetup, AppError> {
    use crate::ssr::web;
    web::answer(async {
        let (state, user) = web::signed_in().await?;
        let registry = state.engine.registry();
        let choice = |listed: crate::ssr::agents::Listed| AgentChoice {
            name: listed.agent.name.to_owned(),
            description: listed.agent.description.to_owned(),
        };
        Ok(ChatSetup {
            model: registry.model().name().to_owned(),
            demo: registry.model().is_demo(),
            agents: registry.agents().into_iter().map(choice).collect(),
            history: crate::ssr::chat::history(&state.db, user.id, None).await?,
            user,
        })
    })
    .await
}
