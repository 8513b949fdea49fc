//! The router: answers, hands over, or asks back.

use std::fmt::Write;

use async_stream::stream;
use futures::StreamExt;
use serde_json::{Map, json};

use super::decision::Decision;
use super::{Job, Kind, Registry};
use crate::model::agent::{AgentType, Confidence, Reply};
use crate::model::event::Finish;
use crate::ssr::llm::{Chunk, ChunkStream};

/// The instructions, with the specialists there are.
pub fn prompt(registry: &Registry) -> String {
    let seats = registry.seats.iter();
    let prompt = seats.clone().find(|seat| seat.agent.kind == Kind::Router).map_or("", |seat| seat.agent.prompt);
    let specialists = seats.filter(|seat| seat.enabled && seat.agent.kind != Kind::Router).fold(String::new(), |mut list, seat| {
        let _ = writeln!(list, "- {}: {}", seat.agent.name, seat.agent.description);
        list
    });
    prompt.replace("{{specialists}}", specialists.trim_end())
}

/// The router's own words as they come, or what follows from its decision. What may be a decision is held back until that is clear.
pub fn answer(registry: Registry, job: Job) -> ChunkStream {
    stream! {
        let mut call = registry.specialist(&Job { agent: AgentType::router(), ..job.clone() });
        let mut held = Some(String::new());
        let mut called = false;
        while let Some(item) = call.next().await {
            match (item, held.as_mut()) {
                (Ok(Chunk::Text(text)), Some(beginning)) => {
                    beginning.push_str(&text);
                    if !Decision::may_be(beginning) {
                        let text = std::mem::take(beginning);
                        held = None;
                        yield Ok(Chunk::Text(text));
                    }
                }
                (Ok(Chunk::Finish(finish)), Some(whole)) => {
                    match Decision::parse(whole).filter(|_| !called) {
                        Some(Decision::HandOff { agent, reason }) if is_specialist(&registry, &agent) => {
                            let target = Job { agent: agent.clone(), ..job.clone() };
                            yield Ok(Chunk::Reply(handed_over(&agent, &reason)));
                            yield Ok(Chunk::Step(registry.model_of(&agent).to_owned()));
                            let mut specialist = registry.specialist(&target);
                            while let Some(item) = specialist.next().await {
                                yield item;
                            }
                        }
                        Some(Decision::Clarify { question, options }) => {
                            yield Ok(Chunk::Reply(asked_back(&options)));
                            yield Ok(Chunk::Text(question));
                            yield Ok(Chunk::Finish(Finish::Stop));
                        }
                        Some(Decision::HandOff { .. }) => {
                            yield Ok(Chunk::Text("I could not decide who should answer this. Please say a little more about what you need.".into()));
                            yield Ok(Chunk::Finish(Finish::Stop));
                        }
                        None => {
                            if !whole.is_empty() {
                                yield Ok(Chunk::Text(std::mem::take(whole)));
                            }
                            yield Ok(Chunk::Finish(finish));
                        }
                    }
                    return;
                }
                (Err(fault), Some(beginning)) => {
                    // What came is kept, unless it was only the machinery's.
                    if !beginning.trim_start().starts_with('{') && !beginning.trim().is_empty() {
                        yield Ok(Chunk::Text(std::mem::take(beginning)));
                    }
                    yield Err(fault);
                    return;
                }
                (other, _) => {
                    called |= matches!(other, Ok(Chunk::Called { .. }));
                    yield other;
                }
            }
        }
    }
    .boxed()
}

fn is_specialist(registry: &Registry, agent: &AgentType) -> bool {
    registry.seats.iter().any(|seat| seat.enabled && seat.agent.kind != Kind::Router && seat.agent.name == agent.as_str())
}

fn handed_over(agent: &AgentType, reason: &str) -> Reply {
    let info = json!({ "source_agent": AgentType::ROUTER, "target_agent": agent, "reason": reason });
    Reply { agent_type: Some(agent.clone()), metadata: Map::from_iter([("handoff_info".to_owned(), info)]), ..Reply::default() }
}

fn asked_back(options: &[String]) -> Reply {
    Reply {
        agent_type: AgentType::parse(AgentType::CLARIFICATION),
        confidence: Confidence::Medium,
        metadata: Map::from_iter([("options".to_owned(), json!(options))]),
        ..Reply::default()
    }
}
