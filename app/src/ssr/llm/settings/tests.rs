use std::collections::HashMap;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

fn read(vars: &[(&str, &str)]) -> Result<ModelSettings, String> {
    let vars: HashMap<String, String> = vars.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    ModelSettings::from_vars(&|name| vars.get(name).cloned())
}

fn endpoint(vars: &[(&str, &str)]) -> Endpoint {
    let settings = read(vars).unwrap();
    let Some(Choice::Remote { provider, model }) = &settings.choice else { panic!("no remote model") };
    settings.endpoint(*provider, model).unwrap()
}

/// Answers one request for the list of models.
async fn ollama_with(body: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        let (mut peer, _) = listener.accept().await.unwrap();
        let mut request = [0; 1024];
        let _ = peer.read(&mut request).await.unwrap();
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
        peer.write_all(head.as_bytes()).await.unwrap();
        peer.write_all(body.as_bytes()).await.unwrap();
    });
    address
}

#[test]
fn every_form_of_the_model_is_read() {
    let cases = [
        ("openai:gpt-5-mini", Provider::OpenAi, "gpt-5-mini"),
        ("anthropic:claude-haiku-4-5", Provider::Anthropic, "claude-haiku-4-5"),
        ("gemini:gemini-flash-latest", Provider::Gemini, "gemini-flash-latest"),
        ("ollama:qwen3:0.6b", Provider::Ollama, "qwen3:0.6b"),
    ];
    for (value, provider, model) in cases {
        let settings = read(&[(MODEL, value), (API_KEY, "k")]).unwrap();
        assert_eq!(settings.choice, Some(Choice::Remote { provider, model: model.to_owned() }));
    }
    assert_eq!(read(&[(MODEL, " static ")]).unwrap().choice, Some(Choice::Static));
    assert_eq!(read(&[(MODEL, "")]).unwrap().choice, None);
}

#[test]
fn a_wrong_value_names_the_variable_and_what_is_allowed() {
    let cases: [(&[(&str, &str)], &str); 12] = [
        (&[(MODEL, "gpt-5")], "CHATGXY_MODEL=gpt-5: expected one of static, openai:NAME"),
        (&[(MODEL, "openai:")], "CHATGXY_MODEL=openai:: expected one of"),
        (&[(MODEL, "mistral:x")], "CHATGXY_MODEL=mistral:x: expected one of"),
        (&[(MODEL, "gemini:x")], "CHATGXY_MODEL=gemini:x needs a key: set CHATGXY_MODEL_API_KEY or GEMINI_API_KEY"),
        (&[(MODEL, "static"), (BASE_URL, "nowhere")], "CHATGXY_MODEL_BASE_URL: it is not a URL"),
        (&[(MODEL, "static"), (BASE_URL, "ftp://a")], "CHATGXY_MODEL_BASE_URL: only http and https"),
        (&[(MODEL, "static"), (BASE_URL, "http://a:b@c")], "CHATGXY_MODEL_BASE_URL: a user name or password"),
        (&[(MODEL, "static"), (BASE_URL, "http://a?key=b")], "CHATGXY_MODEL_BASE_URL: a query"),
        (&[(BASE_URL, "http://a/v1")], "CHATGXY_MODEL_BASE_URL is set but CHATGXY_MODEL is not"),
        (&[(IDLE_TIMEOUT, "0")], "CHATGXY_MODEL_IDLE_TIMEOUT_S=0: expected a whole number of seconds from 1"),
        (&[(CONNECT_TIMEOUT, "ten")], "CHATGXY_MODEL_CONNECT_TIMEOUT_S=ten: expected"),
        (&[(MODEL, "ollama:x"), (OLLAMA_HOST, "ftp://a")], "OLLAMA_HOST=ftp://a: expected a host"),
    ];
    for (vars, message) in cases {
        let error = read(vars).unwrap_err();
        assert!(error.starts_with(message), "{vars:?}: {error}");
    }
}

#[test]
fn a_key_is_never_in_an_error_or_in_debug_text() {
    let error = read(&[(MODEL, "openai:x"), (API_KEY, "sk secret")]).unwrap_err();
    assert!(error.starts_with("CHATGXY_MODEL_API_KEY: ") && !error.contains("secret"), "{error}");
    let settings = read(&[(MODEL, "openai:x"), (API_KEY, "sk-secret"), ("GEMINI_API_KEY", "AIza-secret")]).unwrap();
    assert!(!format!("{settings:?}").contains("secret"));
}

#[test]
fn a_well_known_key_goes_only_to_its_own_provider() {
    let own = endpoint(&[(MODEL, "openai:x"), ("OPENAI_API_KEY", "sk-1")]);
    assert_eq!(own.key, Some(Secret::new("sk-1")));
    let elsewhere = endpoint(&[(MODEL, "openai:x"), ("OPENAI_API_KEY", "sk-1"), (BASE_URL, "http://127.0.0.1:1/v1/")]);
    assert_eq!((elsewhere.key, elsewhere.base_url.as_deref()), (None, Some("http://127.0.0.1:1/v1")));
    let given = endpoint(&[(MODEL, "openai:x"), (API_KEY, "sk-2"), (BASE_URL, "http://127.0.0.1:1/v1")]);
    assert_eq!(given.key, Some(Secret::new("sk-2")));
    assert!(read(&[(MODEL, "openai:x"), ("ANTHROPIC_API_KEY", "sk-3")]).is_err());
}

#[test]
fn limits_have_defaults_and_overrides() {
    assert_eq!(read(&[]).unwrap().limits, Limits::DEFAULT);
    let limits = read(&[(CONNECT_TIMEOUT, "1"), (FIRST_TOKEN_TIMEOUT, "120"), (IDLE_TIMEOUT, "3")]).unwrap().limits;
    let s = Duration::from_secs;
    assert_eq!(limits, Limits { connect: s(1), first_token: s(120), idle: s(3) });
}

#[test]
fn ollama_hosts_are_read_as_ollama_reads_them() {
    let cases = [
        ("127.0.0.1", "http://127.0.0.1:11434"),
        ("0.0.0.0:8000", "http://127.0.0.1:8000"),
        ("[::]:8000", "http://[::1]:8000"),
        (":8000", "http://127.0.0.1:8000"),
        ("box.lan:80", "http://box.lan"),
        ("https://ollama.example.org/", "https://ollama.example.org"),
    ];
    for (host, address) in cases {
        assert_eq!(ollama::address(host).as_deref(), Ok(address), "{host}");
    }
    assert_eq!(endpoint(&[(MODEL, "ollama:m"), (OLLAMA_HOST, "box.lan")]).base_url.as_deref(), Some("http://box.lan:11434"));
    assert!(read(&[(MODEL, "static"), (OLLAMA_HOST, "::::")]).is_ok(), "not ours, and not used");
}

#[tokio::test]
async fn without_a_name_rules_come_before_keys_and_keys_before_ollama() {
    let rules = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(rules.path(), "fallback: {content: hi}").unwrap();
    let path = rules.path().to_str().unwrap();
    let chosen = read(&[(RULES, path), ("OPENAI_API_KEY", "k")]).unwrap().choose().await.unwrap();
    assert_eq!((chosen.model.name(), chosen.model.is_demo()), ("static", false));
    assert_eq!(chosen.describe(), format!("the static rules of {path}, because CHATGXY_STATIC_RULES is set"));

    let chosen = read(&[("GEMINI_API_KEY", "k"), ("ANTHROPIC_API_KEY", "k")]).unwrap().choose().await.unwrap();
    assert_eq!(chosen.describe(), "claude-haiku-4-5 (Anthropic), because ANTHROPIC_API_KEY is set");
    assert_eq!(chosen.model.name(), "claude-haiku-4-5");
}

#[tokio::test]
async fn a_local_ollama_is_found_with_its_first_model_that_can_chat() {
    let host = ollama_with(r#"{"models":[{"name":"nomic-embed-text:latest"},{"name":"qwen3:0.6b","size":1}]}"#).await;
    let chosen = read(&[(OLLAMA_HOST, &host)]).unwrap().choose().await.unwrap();
    assert_eq!(chosen.model.name(), "qwen3:0.6b");
    assert!(!chosen.model.is_demo());
    assert!(chosen.describe().starts_with(&format!("qwen3:0.6b (Ollama at http://{host}), because a local Ollama answers")));
}

#[tokio::test]
async fn with_nothing_at_all_the_demo_answers() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let empty = ollama_with(r#"{"models":[]}"#).await;
    for host in [silent.local_addr().unwrap().to_string(), empty, "127.0.0.1:1".to_owned()] {
        let started = std::time::Instant::now();
        let chosen = read(&[(OLLAMA_HOST, &host)]).unwrap().choose().await.unwrap();
        assert!(chosen.model.is_demo(), "{host}");
        assert!(chosen.describe().contains("no Ollama answers"), "{}", chosen.describe());
        assert!(started.elapsed() < Duration::from_secs(2), "looking for Ollama must not slow the start");
    }
}

#[tokio::test]
async fn a_rules_file_that_cannot_be_used_is_a_clear_error() {
    let missing = read(&[(RULES, "/nowhere/rules.yml")]).unwrap();
    let error = connect(&missing).await.err().unwrap();
    assert!(error.starts_with("CHATGXY_STATIC_RULES=/nowhere/rules.yml: "), "{error}");

    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "rules: [{response: {content: a}, tools: 1}]").unwrap();
    let wrong = read(&[(RULES, file.path().to_str().unwrap())]).unwrap();
    let error = connect(&wrong).await.err().unwrap();
    assert!(error.contains(": rule 1: unknown field `tools`"), "{error}");
}
