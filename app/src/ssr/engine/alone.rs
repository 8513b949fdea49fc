//! An answer that is stored nowhere: for programs that ask without a conversation.

use futures::StreamExt;

use super::decide::{Effect, Input, Rules, decide};
use crate::model::agent::AgentType;
use crate::model::event::Failure;
use crate::model::ids::{PromptId, TurnId, TurnRow};
use crate::model::turn::{Prompt, Turn};
use crate::ssr::agents::{Job, Registry};
use crate::ssr::clock;
use crate::ssr::llm::{Chunk, ChunkStream};

/// Lives a turn to its end in memory. Dropping the future cancels the model's call.
pub async fn alone(registry: &Registry, asked: AgentType, question: String, mut job: Job) -> Turn {
    let prompt = Prompt { id: PromptId::from(uuid::Uuid::now_v7()), text: question };
    let mut turn = Turn::asked(TurnId::from(uuid::Uuid::now_v7()), TurnRow(0), prompt, asked, 1, clock::now());
    let route = registry.route(&turn.asked);
    job.agent = route.agent.clone();
    let model = registry.model_of(&route.agent).to_owned();
    let rules = Rules { steps: 1, approval_ms: 0, browser_ms: 0, model_of: &|agent| registry.model_of(agent).to_owned() };
    let mut input = Input::Begin { agent: route.agent, unknown: route.unknown, model };
    let (mut call, mut tries): (Option<ChunkStream>, u32) = (None, 0);
    loop {
        let (events, effects) = decide(&turn, clock::now(), &rules, input);
        for event in events {
            let _ = turn.apply(turn.seq + 1, &event);
        }
        if turn.is_ended() {
            return turn;
        }
        for effect in effects {
            if let Effect::CallModel { after, .. } = effect {
                tokio::time::sleep(after).await;
                tries += 1;
                if tries > 1 {
                    let (events, _) = decide(&turn, clock::now(), &rules, Input::Again { agent: Vec::new() });
                    for event in events {
                        let _ = turn.apply(turn.seq + 1, &event);
                    }
                }
                call = Some(registry.answer(&job));
            }
        }
        let heard = match &mut call {
            Some(call) => call.next().await,
            None => None,
        };
        let agent = Vec::new();
        input = match heard {
            // No tool was offered, so whatever is called does not exist.
            Some(Ok(Chunk::Calling { .. } | Chunk::Arguments { .. } | Chunk::Called { .. } | Chunk::Memo(_))) => continue_with_nothing(),
            Some(Ok(Chunk::Finish(finish))) => Input::Finished { agent, finish, verdicts: Vec::new() },
            Some(Ok(chunk)) => Input::Heard { agent, chunk },
            Some(Err(fault)) => Input::Fault { agent, fault, tries },
            None => Input::Fault { agent, fault: Failure::Cut.into(), tries },
        };
    }
}

/// An input of which nothing follows.
fn continue_with_nothing() -> Input {
    Input::Expire
}
