//! The agents: who answers, with which instructions, seeing how much of the conversation.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::llm::{Message, Model, Request};
use crate::model::agent::AgentType;
use crate::model::turn::Turn;

/// One agent.
#[derive(Debug)]
pub struct Agent {
    /// Its name as stored and sent.
    pub name: &'static str,
    /// What it is for, one sentence, for people.
    pub description: &'static str,
    prompt: &'static str,
}

/// All agents, the fallback first.
const AGENTS: &[Agent] = &[Agent {
    name: AgentType::ROUTER,
    description: "Answers questions about tools, workflows, errors and data.",
    prompt: include_str!("prompts/router.md"),
}];

/// The agents and the model behind them.
#[derive(Clone)]
pub struct Registry {
    model: Arc<dyn Model>,
    context_tokens: usize,
}

/// Who answers a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The agent.
    pub agent: AgentType,
    /// The agent that was asked for and does not exist.
    pub unknown: Option<AgentType>,
}

impl Registry {
    /// `context_tokens`: about how many tokens of the conversation a model is shown.
    pub fn new(model: Arc<dyn Model>, context_tokens: usize) -> Self {
        Self { model, context_tokens }
    }

    /// The model that answers.
    pub fn model(&self) -> &Arc<dyn Model> {
        &self.model
    }

    /// The agents a person can pick, `auto` not among them.
    pub fn agents(&self) -> &'static [Agent] {
        AGENTS
    }

    /// Who answers when `asked` is asked: itself, or the router for `auto` and for unknown names.
    pub fn route(&self, asked: &AgentType) -> Route {
        let known = AGENTS.iter().any(|agent| agent.name == asked.as_str());
        if known {
            return Route { agent: asked.clone(), unknown: None };
        }
        let unknown = (asked.as_str() != AgentType::AUTO).then(|| asked.clone());
        Route { agent: AgentType::router(), unknown }
    }

    /// The call for a question: instructions, as much of the earlier turns as fits, the question.
    pub fn request(&self, agent: &AgentType, earlier: &[Turn], question: &str, context: Map<String, Value>) -> Request {
        let system = AGENTS.iter().find(|known| known.name == agent.as_str()).unwrap_or(&AGENTS[0]).prompt;
        let room = self.context_tokens.saturating_sub(tokens(system) + tokens(question));
        let mut messages = conversation(earlier, room);
        messages.push(Message::User(question.to_owned()));
        Request { agent: agent.clone(), system: system.to_owned(), messages, context }
    }
}

/// The latest turns that fit into `room` tokens, as messages. A turn goes in whole or not at all; one without any text of an answer
/// still shows its question, so that "as I asked before" makes sense.
fn conversation(earlier: &[Turn], room: usize) -> Vec<Message> {
    let mut left = room;
    let mut first = earlier.len();
    for (index, turn) in earlier.iter().enumerate().rev() {
        let cost = tokens(&turn.prompt.text) + tokens(&turn.text());
        if cost > left {
            break;
        }
        left -= cost;
        first = index;
    }
    let mut messages = Vec::new();
    for turn in &earlier[first..] {
        messages.push(Message::User(turn.prompt.text.clone()));
        if turn.has_text() {
            messages.push(Message::Assistant(turn.text()));
        }
    }
    messages
}

/// About how many tokens a text is: four bytes of ASCII, or one other character, each. Errs on the high side for most languages.
fn tokens(text: &str) -> usize {
    let other = text.chars().filter(|c| !c.is_ascii()).count();
    let ascii = text.bytes().filter(u8::is_ascii).count();
    ascii.div_ceil(4) + other
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::event::{End, Failure, TurnEvent};
    use crate::model::ids::{PromptId, TurnId, TurnRow};
    use crate::model::turn::Prompt;

    fn turn(question: &str, answer: &str) -> Turn {
        let prompt = Prompt { id: PromptId::parse("p").unwrap(), text: question.into() };
        let mut turn = Turn::asked(TurnId::parse("t").unwrap(), TurnRow(1), prompt, AgentType::auto(), 1, 0);
        if !answer.is_empty() {
            turn.apply(1, &TurnEvent::TextGrew { text: answer.into() }).unwrap();
        }
        let how = if answer.is_empty() { End::Failed(Failure::Cut) } else { End::Answered };
        turn.apply(turn.seq + 1, &TurnEvent::Ended { at: 0, how, finish: None }).unwrap();
        turn
    }

    fn user(text: &str) -> Message {
        Message::User(text.into())
    }

    fn assistant(text: &str) -> Message {
        Message::Assistant(text.into())
    }

    #[test]
    fn the_whole_conversation_is_sent_in_order() {
        let turns = [turn("one", "1"), turn("two", "2")];
        let messages = conversation(&turns, 1_000);
        assert_eq!(messages, [user("one"), assistant("1"), user("two"), assistant("2")]);
    }

    #[test]
    fn what_does_not_fit_is_dropped_oldest_first_and_whole() {
        let turns = [turn("old old old old", "1"), turn("new", "2")];
        assert_eq!(conversation(&turns, 3), [user("new"), assistant("2")]);
        assert_eq!(conversation(&turns, 0), []);
    }

    #[test]
    fn an_unanswered_question_is_still_shown() {
        assert_eq!(conversation(&[turn("why", ""), turn("so", "1")], 100), [user("why"), user("so"), assistant("1")]);
    }

    #[test]
    fn tokens_count_other_scripts_by_character() {
        assert_eq!((tokens(""), tokens("abcd"), tokens("abcde"), tokens("日本語")), (0, 1, 2, 3));
    }
}
