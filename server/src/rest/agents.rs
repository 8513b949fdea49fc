//! The agents, and one answer without a conversation.

use std::time::Instant;

use app::model::agent::AgentType;
use app::model::error::AppError;
use app::model::event::{End, Failure};
use app::ssr::auth::CurrentUser;
use app::ssr::chat;
use app::ssr::db::message::AgentResponse;
use app::ssr::engine::Engine;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::chat::context;
use super::input::Body;
use super::shapes::AgentResponseShape;

/// The agents that can be asked.
#[derive(Serialize, ToSchema)]
pub struct AgentList {
    agents: Vec<AgentEntry>,
    total_count: usize,
}

/// An agent.
#[derive(Serialize, ToSchema)]
pub struct AgentEntry {
    agent_type: &'static str,
    name: String,
    description: &'static str,
    enabled: bool,
    model: String,
    specialties: &'static [&'static str],
}

/// The agents that can be asked.
#[utoipa::path(get, path = "/api/ai/agents", tag = "agents", responses((status = 200, description = "The agents", body = AgentList)))]
pub async fn list(State(engine): State<Engine>, _user: CurrentUser) -> Json<AgentList> {
    let entry = |listed: app::ssr::agents::Listed| AgentEntry {
        agent_type: listed.agent.name,
        name: AgentType::parse(listed.agent.name).map_or_else(String::new, |agent| agent.label().to_owned()),
        description: listed.agent.description,
        enabled: true,
        model: listed.model,
        specialties: listed.agent.specialties,
    };
    let agents: Vec<_> = engine.registry().agents().into_iter().map(entry).collect();
    Json(AgentList { total_count: agents.len(), agents })
}

/// A question without a conversation.
#[derive(Deserialize, ToSchema)]
pub struct Question {
    /// The question.
    query: String,
    /// The agent; `auto` lets the server choose.
    #[schema(default = "auto")]
    agent_type: Option<String>,
    /// Facts about where the person is.
    #[schema(value_type = Option<Object>)]
    context: Option<Value>,
}

/// An answer without a conversation.
#[derive(Serialize, ToSchema)]
pub struct Answer {
    #[schema(value_type = AgentResponseShape)]
    response: AgentResponse,
    /// Seconds.
    processing_time: f64,
}

/// Answers without storing anything.
#[utoipa::path(post, path = "/api/ai/agents/query", tag = "agents", request_body = Question,
    responses((status = 200, description = "The answer", body = Answer)))]
pub async fn query(State(engine): State<Engine>, CurrentUser(user): CurrentUser, Body(body): Body<Question>) -> Result<Response, AppError> {
    let started = Instant::now();
    let agent = chat::agent_type(body.agent_type.as_deref())?;
    let turn = chat::answer_once(&engine, user.id, agent, &body.query, body.context.map(context).unwrap_or_default()).await?;
    if let Some(End::Failed(failure)) = turn.end() {
        let status = if failure == Failure::TimedOut { StatusCode::GATEWAY_TIMEOUT } else { StatusCode::BAD_GATEWAY };
        let (what, advice) = failure.explain();
        let body = json!({ "err_msg": format!("{what} {advice}"), "err_code": u32::from(status.as_u16()) * 1_000 + 1 });
        return Ok((status, Json(body)).into_response());
    }
    Ok(Json(Answer { response: AgentResponse::of(&turn), processing_time: started.elapsed().as_secs_f64() }).into_response())
}

/// What clients ask before they show anything.
#[derive(Serialize, ToSchema)]
pub struct Configuration {
    /// Whether a model is connected; the demo of a first run is none.
    llm_api_configured: bool,
    /// `static` for rules from a file, else `default`.
    llm_registry_type: &'static str,
    /// Always false: there is no PDF export.
    markdown_to_pdf_available: bool,
    version_major: &'static str,
}

/// What clients ask before they show anything; needs no account.
#[utoipa::path(get, path = "/api/configuration", tag = "server", security(()),
    responses((status = 200, description = "The configuration", body = Configuration)))]
pub async fn configuration(State(engine): State<Engine>) -> Json<Configuration> {
    let model = engine.registry().model();
    Json(Configuration {
        llm_api_configured: !model.is_demo(),
        llm_registry_type: if model.speaks_for_agents() { "static" } else { "default" },
        markdown_to_pdf_available: false,
        version_major: super::account::version_of_server().0,
    })
}
