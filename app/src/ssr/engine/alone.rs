//! An answer that is stored nowhere: for programs that ask without a conversation.

use futures::StreamExt;

use super::decide::{Effect, Input, decide};
use crate::model::agent::AgentType;
use crate::model::event::Failure;
use crate::model::ids::{PromptId, TurnId, TurnRow};
use crate::model::turn::{Prompt, Turn};
use crate::ssr::agents::{Job, Registry};
use crate::ssr::clock;
use crate::ssr::llm::ChunkStream;

/// Lives a turn to its end in memory. Dropping the future cancels the model's call.
pub async fn alone(registry: &Registry, asked: AgentType, question: String, mut job: Job) -> Turn {
    let prompt = Prompt { id: PromptId::from(uuid::Uuid::now_v7()), text: question };
    let mut turn = Turn::asked(TurnId::from(uuid::Uuid::now_v7()), TurnRow(0), prompt, asked, 1, clock::now());
    let route = registry.route(&turn.asked);
    job.agent = route.agent.clone();
    let model = registry.model_of(&route.agent).to_owned();
    let mut input = Input::Begin { agent: route.agent, unknown: route.unknown, model };
    let (mut call, mut tries): (Option<ChunkStream>, u32) = (None, 0);
    loop {
        let (events, effects) = decide(&turn, clock::now(), input);
        for event in events {
            let _ = turn.apply(turn.seq + 1, &event);
        }
        if turn.is_ended() {
            return turn;
        }
        for effect in effects {
            match effect {
                Effect::AbortModel => call = None,
                Effect::CallModel { after } => {
                    tokio::time::sleep(after).await;
                    tries += 1;
                    call = Some(registry.answer(&job));
                }
            }
        }
        let heard = match &mut call {
            Some(call) => call.next().await,
            None => None,
        };
        input = match heard {
            Some(Ok(chunk)) => Input::Chunk(chunk),
            Some(Err(fault)) => Input::Fault { fault, tries },
            None => Input::Fault { fault: Failure::Cut.into(), tries },
        };
    }
}
