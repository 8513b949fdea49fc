use std::sync::Arc;

use std::time::{Duration, Instant};

use futures::StreamExt;
use proptest::prelude::*;
use serde_json::json;

use super::StaticModel;
use crate::model::agent::{AgentType, Confidence};
use crate::model::event::{Failure, Finish, Usage};
use crate::ssr::llm::{Chunk, Fault, Message, Model, Request};

fn ask(question: &str) -> Request {
    Request {
        agent: AgentType::router(),
        system: String::new(),
        messages: vec![Message::User(question.to_owned())],
        context: serde_json::Map::new(),
        temperature: None,
        max_tokens: None,
        tools: Arc::from([]),
    }
}

fn rules(yaml: &str) -> StaticModel {
    StaticModel::from_yaml(yaml).unwrap()
}

async fn play(model: &StaticModel, request: Request) -> Vec<Result<Chunk, Fault>> {
    model.stream(request).collect().await
}

fn text(items: &[Result<Chunk, Fault>]) -> String {
    items.iter().filter_map(|item| if let Ok(Chunk::Text(text)) = item { Some(text.as_str()) } else { None }).collect()
}

async fn says(model: &StaticModel, request: Request) -> String {
    text(&play(model, request).await)
}

fn error(yaml: &str) -> String {
    StaticModel::from_yaml(yaml).err().expect("an error")
}

#[tokio::test]
async fn the_first_rule_whose_every_condition_holds_answers() {
    let model = rules(
        r#"
rules:
  - match: {agent_type: history, query: "."}
    response: {content: "wrong agent"}
  - match: {query: "(?i)slow", context: {page_title: "^Notes", size: "^12$"}}
    response: {content: "on the page"}
  - match: {query: "(?i)SLOW"}
    response: {content: "slow"}
  - match: {agent_type: router}
    response: {content: "router"}
fallback: {content: "nothing fits"}
"#,
    );
    assert_eq!(says(&model, ask("it is slow")).await, "slow");
    assert_eq!(says(&model, ask("other")).await, "router");

    let mut on_page = ask("why so Slow?");
    on_page.context = json!({"page_title": "Notes of May", "size": 12}).as_object().unwrap().clone();
    assert_eq!(says(&model, on_page.clone()).await, "on the page");
    on_page.context.insert("size".to_owned(), json!(120));
    assert_eq!(says(&model, on_page).await, "slow");

    let other = Request { agent: AgentType::parse("clarification").unwrap(), ..ask("x") };
    assert_eq!(says(&model, other).await, "nothing fits");
}

#[tokio::test]
async fn the_query_is_the_last_question_and_not_an_earlier_one() {
    let model = rules("rules: [{match: {query: first}, response: {content: matched}}]\nfallback: {content: no}");
    let mut request = ask("first");
    request.messages.push(Message::Assistant("first".to_owned()));
    request.messages.push(Message::User("second".to_owned()));
    assert_eq!(says(&model, request).await, "no");
}

#[tokio::test]
async fn without_stream_the_whole_answer_comes_at_once_with_what_it_carries() {
    let model = rules(
        r#"
defaults: {confidence: low}
rules:
  - match: {query: "sure"}
    response:
      content: "Zwölf!"
      agent_type: error_analysis
      confidence: high
      reasoning: "because"
      metadata: {kind: x}
      suggestions: [{action_type: view_external, description: "Look", parameters: {url: "https://example.org"}, priority: 2}]
fallback: {content: "?"}
"#,
    );
    let items = play(&model, ask("sure?")).await;
    let [Ok(Chunk::Text(content)), Ok(Chunk::Reply(reply)), Ok(Chunk::Tokens(usage)), Ok(Chunk::Finish(finish))] = &items[..] else {
        panic!("{items:?}")
    };
    assert_eq!(content, "Zwölf!");
    assert_eq!(reply.agent_type, AgentType::parse("error_analysis"));
    assert_eq!(reply.confidence, Confidence::High);
    assert_eq!(reply.reasoning.as_deref(), Some("because"));
    assert_eq!(json!(reply.metadata), json!({"kind": "x", "static_backend": true}));
    assert_eq!(reply.suggestions[0].parameters["url"], "https://example.org");
    assert_eq!((reply.suggestions[0].priority, reply.suggestions[0].confidence), (2, Confidence::Medium));
    assert_eq!(*usage, Usage { input: 2, output: 2 });
    assert_eq!(*finish, Finish::Stop);

    let items = play(&model, ask("other")).await;
    assert!(matches!(&items[1], Ok(Chunk::Reply(reply)) if reply.confidence == Confidence::Low), "the default");
}

#[tokio::test]
async fn pieces_count_characters_and_come_in_time() {
    let model = rules(
        r#"
rules:
  - response: {content: "añ🧬bc"}
    stream: {chunk_chars: 2, delay_ms: 20, first_delay_ms: 60, thinking: "hmm"}
"#,
    );
    let start = Instant::now();
    let mut stream = model.stream(ask("x"));
    let mut seen = Vec::new();
    while let Some(item) = stream.next().await {
        if let Chunk::Text(text) | Chunk::Reasoning(text) = item.unwrap() {
            seen.push((text, start.elapsed()));
        }
    }
    let expected = [("hm", 60), ("m", 80), ("añ", 100), ("🧬b", 120), ("c", 140)];
    assert_eq!(seen.iter().map(|(text, _)| text.as_str()).collect::<Vec<_>>(), expected.map(|(text, _)| text));
    for ((_, at), (text, earliest)) in seen.iter().zip(expected) {
        assert!(*at >= Duration::from_millis(earliest), "{text} came after {at:?}");
    }
}

#[tokio::test]
async fn every_way_to_fail_ends_as_its_real_counterpart_does() {
    let with = |stream: &str| rules(&format!("rules: [{{response: {{content: \"one two three\"}}, stream: {stream}}}]"));
    let cases = [
        ("{fail: cut, after_chars: 3}", "one", Err(Failure::Cut)),
        ("{fail: cut}", "one two three", Err(Failure::Cut)),
        ("{fail: error, after_chars: 0}", "", Err(Failure::Upstream)),
        ("{fail: http_429}", "", Err(Failure::RateLimited)),
        ("{fail: http_500, after_chars: 0}", "", Err(Failure::Upstream)),
        ("{fail: empty}", "", Ok(Finish::Stop)),
        ("{fail: length, after_chars: 7, chunk_chars: 2}", "one two", Ok(Finish::Length)),
    ];
    for (stream, content, end) in cases {
        let items = play(&with(stream), ask("x")).await;
        assert_eq!(text(&items), content, "{stream}");
        assert!(items.iter().all(|item| !matches!(item, Ok(Chunk::Text(text)) if text.is_empty())), "{stream}");
        let last = match items.last().unwrap() {
            Ok(Chunk::Finish(finish)) => Ok(*finish),
            Err(fault) => Err(fault.failure),
            other => panic!("{stream}: {other:?}"),
        };
        assert_eq!(last, end, "{stream}");
        let ends = items.iter().filter(|item| matches!(item, Err(_) | Ok(Chunk::Finish(_)))).count();
        assert_eq!(ends, 1, "{stream}");
    }

    let mut hanging = with("{fail: hang, after_chars: 3}").stream(ask("x"));
    assert_eq!(hanging.next().await, Some(Ok(Chunk::Text("one".to_owned()))));
    assert!(tokio::time::timeout(Duration::from_millis(100), hanging.next()).await.is_err());
}

#[test]
fn a_wrong_rule_is_named_by_its_number_and_what_is_wrong() {
    let second = |rule: &str| error(&format!("rules:\n  - response: {{content: a}}\n  - {rule}"));
    let cases = [
        ("{response: {content: a}, tool_calls: []}", "rule 2: unknown field `tool_calls`"),
        ("{match: {qery: a}, response: {content: a}}", "rule 2: unknown field `qery`"),
        ("{response: {content: a}, stream: {chunk_char: 1}}", "rule 2: unknown field `chunk_char`"),
        ("{response: {content: a}, stream: {chunk_chars: 0}}", "rule 2: stream.chunk_chars: expected 1 or more"),
        ("{response: {content: a}, stream: {fail: explode}}", "rule 2: unknown variant `explode`"),
        ("{response: {content: a}, stream: {after_chars: 3}}", "rule 2: stream.after_chars: needs stream.fail"),
        ("{response: {content: a}, stream: {fail: empty, after_chars: 3}}", "rule 2: stream.after_chars: this kind"),
        ("{match: {query: \"(\"}, response: {content: a}}", "rule 2: match.query: regex parse error"),
        ("{match: {context: {page: \"[\"}}, response: {content: a}}", "rule 2: match.context.page: regex parse error"),
        ("{match: {agent_type: \"A b\"}, response: {content: a}}", "rule 2: match.agent_type: `A b` is not"),
        ("{response: {confidence: high}}", "rule 2: response.content is missing"),
        ("{match: {query: a}}", "rule 2: missing field `response`"),
    ];
    for (rule, message) in cases {
        let error = second(rule);
        assert!(error.starts_with(message), "{rule}: {error}");
    }
    assert!(error("rules: []\nfallback: {contnt: a}").starts_with("fallback: unknown field `contnt`"));
    assert!(error("ruls: []").contains("unknown field `ruls`"));
    assert!(error("defaults: {confidence: some}").contains("unknown variant `some`"));
}

#[test]
fn the_embedded_rules_say_that_they_are_a_demo_and_how_to_connect_a_model() {
    let demo = StaticModel::embedded().unwrap();
    assert!(demo.is_demo());
    assert_eq!(demo.name(), "demo");
    let unknown = &demo.answer(&ask("xyzzy")).content;
    for needed in ["demo model", "CHATGXY_MODEL=openai:", "Ollama", "CHATGXY_MODEL_BASE_URL"] {
        assert!(unknown.contains(needed), "{needed} is missing in {unknown}");
    }
    let answers = ["Hello!", "What can you do?", "Which tool aligns reads?", "My job failed", "show me markdown", "Tell me more"]
        .map(|question| demo.answer(&ask(question)).content.as_str());
    let different: std::collections::HashSet<_> = answers.into_iter().chain([unknown.as_str()]).collect();
    assert_eq!(different.len(), answers.len() + 1, "every kind of question has its own answer");

    let cards = &demo.answer(&ask("Which tool aligns reads?")).reply.suggestions;
    assert!(cards.len() > 1);
    for card in demo.rules.iter().flat_map(|rule| &rule.answers).flat_map(|answer| &answer.reply.suggestions) {
        assert!(card.action_type != "view_external" || card.parameters["url"].as_str().unwrap().starts_with("https://"));
    }
    assert!(demo.rules.iter().flat_map(|rule| &rule.answers).all(|answer| answer.pace.chunk_chars == Some(12)), "all of them stream");
}

#[test]
fn a_given_file_is_not_the_demo() {
    let model = rules("fallback: {content: a}");
    assert!(!model.is_demo());
    assert_eq!(model.name(), "static");
}

proptest! {
    #[test]
    fn no_file_breaks_the_reader(text in any::<String>(), pattern in any::<String>(), number in any::<i64>()) {
        let _ = StaticModel::from_yaml(&text);
        let rule = format!("{{match: {{query: {pattern:?}}}, response: {{content: {text:?}}}, stream: {{chunk_chars: {number}, delay_ms: {number}}}}}");
        let _ = StaticModel::from_yaml(&format!("rules: [{rule}]\nfallback: {{content: x}}"));
    }
}
