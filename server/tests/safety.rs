//! What keeps people safe from the first day, through the real router.

#![allow(clippy::unwrap_used, reason = "a test may stop")]

mod common;

use std::io::Read;
use std::process::Stdio;
use std::time::Duration;

use common::{Browser, Engine, Setting, TestApp, encoded, json, program, text};
use reqwest::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderMap,
    IF_NONE_MATCH, STRICT_TRANSPORT_SECURITY,
};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// One of every kind of state change.
fn changes(browser: &Browser) -> Vec<RequestBuilder> {
    let credentials = [("email", "eve@example.org"), ("password", "correct horse")];
    let json = |path: &str, body: &'static str| browser.request(Method::POST, path).header(CONTENT_TYPE, "application/json").body(body);
    vec![
        browser.function("account/register", &credentials),
        browser.function("account/login", &credentials),
        browser.function("account/logout", &[]),
        browser.function("account/password", &[("current", "correct horse"), ("new", "battery staple")]),
        browser.function("account/create-key", &[("name", "x")]),
        browser.function("chat/send", &[("query", "hi")]),
        browser.function("chat/clear", &[]),
        json("/api/chat", r#"{"query":"hi"}"#),
        browser.request(Method::PUT, "/api/chat"),
        browser.request(Method::DELETE, "/api/chat/history"),
    ]
}

#[tokio::test]
async fn s10_every_state_change_that_another_site_causes_is_refused() {
    let app = TestApp::start().await;
    let ada = app.person("ada@example.org").await;
    let foreign = [
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
        ("origin", "https://evil.example"),
        ("origin", "null"),
        ("origin", "http://127.0.0.1:1"),
    ];
    for (name, value) in foreign {
        for request in changes(&ada) {
            let answer = ada.send(request.header(name, value)).await;
            assert_eq!(answer.status(), 403, "{name}: {value} {}", answer.url());
            let answer = json(answer).await;
            assert_eq!(answer["err_code"], 403_002);
        }
    }
    assert_eq!(ada.viewer().await.as_deref(), Some("ada@example.org"), "nobody signed out, nobody signed in");
    assert_eq!(app.store().await.users().await.unwrap().len(), 1);
    assert_eq!(json(ada.get("/api/chat/history").await).await, json!([]));
}

#[tokio::test]
async fn s10_what_this_site_or_a_program_sends_passes() {
    let setting = Setting::default().with("CHATGXY_PUBLIC_URL", "http://chat.example.org:8080");
    let app = TestApp::set(Engine::Sqlite, setting).await;
    let ada = app.person("ada@example.org").await;
    let here = app.base.clone();
    let own = [
        ("sec-fetch-site", "same-origin"),
        ("sec-fetch-site", "none"),
        ("origin", here.as_str()),
        ("origin", "http://chat.example.org:8080"),
        ("x-no-browser", "1"),
    ];
    for (name, value) in own {
        let answer = ada.send(ada.function("account/create-key", &[("name", "x")]).header(name, value)).await;
        assert_eq!(answer.status(), 200, "{name}: {value}");
    }
}

#[tokio::test]
async fn reading_from_another_site_changes_nothing_and_is_allowed() {
    let app = TestApp::start().await;
    let ada = app.person("ada@example.org").await;
    let link = ada.request(Method::GET, "/chatgxy/new").header("sec-fetch-site", "cross-site").header("accept", "text/html");
    assert_eq!(ada.send(link).await.status(), 200);
}

#[tokio::test]
async fn a_page_runs_only_scripts_that_carry_the_nonce_of_its_policy() {
    let app = TestApp::start().await;
    let ada = app.person("ada@example.org").await;
    let mut seen = Vec::new();
    for path in ["/login", "/register", "/chatgxy/new", "/account", "/no/such/page"] {
        let page = ada.page(path).await;
        let policy = page.headers()[CONTENT_SECURITY_POLICY].to_str().unwrap().to_owned();
        let nonce = policy.split("'nonce-").nth(1).unwrap().split('\'').next().unwrap().to_owned();
        assert!(nonce.len() >= 22 && !policy.contains("unsafe-inline") && !policy.contains("'unsafe-eval'"), "{policy}");
        for part in [
            "default-src 'none'",
            "'strict-dynamic'",
            "base-uri 'none'",
            "frame-ancestors 'none'",
            "img-src 'self' data:",
            "form-action 'self'",
        ] {
            assert!(policy.contains(part), "{part}");
        }
        let html = text(page).await;
        let scripts: Vec<&str> = html.split("<script").skip(1).map(|rest| rest.split('>').next().unwrap()).collect();
        assert!(!scripts.is_empty());
        for script in scripts {
            assert!(script.contains(&format!("nonce=\"{nonce}\"")), "{path}: <script{script}>");
        }
        assert!(!html.contains("<style") && !html.contains(" style=") && !html.contains(" onclick="), "{path}");
        seen.push(nonce);
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 5, "a nonce is used once");
}

#[tokio::test]
async fn every_response_carries_the_safety_headers() {
    let app = TestApp::start().await;
    let ada = app.person("ada@example.org").await;
    for path in ["/login", "/chatgxy/new", "/api/chat/history", "/api/nothing", "/favicon.svg", "/healthz", "/pkg/none.js", "/image?src=x"]
    {
        let answer = ada.get(path).await;
        let headers = answer.headers();
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "same-origin"),
            ("cross-origin-opener-policy", "same-origin"),
            ("cross-origin-resource-policy", "same-origin"),
            ("x-frame-options", "DENY"),
        ] {
            assert_eq!(headers[name], value, "{path} {name}");
        }
        assert!(headers[CONTENT_SECURITY_POLICY].to_str().unwrap().contains("default-src 'none'"));
        assert!(headers.contains_key("permissions-policy") && headers.contains_key("x-request-id"));
        assert!(!headers.contains_key(STRICT_TRANSPORT_SECURITY), "not over plain HTTP");
    }
    let refused = ada.send(ada.function("account/logout", &[]).header("origin", "null")).await;
    assert_eq!(refused.headers()["x-content-type-options"], "nosniff", "refusals too");
}

#[tokio::test]
async fn https_is_required_from_then_on_when_people_come_by_https() {
    let app = TestApp::set(Engine::Sqlite, Setting::default().with("CHATGXY_PUBLIC_URL", "https://chat.example.org")).await;
    let answer = app.browser().get("/login").await;
    assert!(answer.headers()[STRICT_TRANSPORT_SECURITY].to_str().unwrap().starts_with("max-age="));
}

#[tokio::test]
async fn s1_nothing_private_may_be_kept_by_a_cache() {
    let app = TestApp::start().await;
    let ada = app.person("ada@example.org").await;
    let sent = json(ada.call("chat/send", &[("exchange", "chat"), ("query", "hi")]).await).await;
    let events = format!("/chatgxy/turns/{}/events", sent["view"]["turn"]["id"].as_str().unwrap());
    let paths = [
        "/",
        "/chatgxy",
        "/chatgxy/chat",
        "/chatgxy/new",
        "/account",
        "/login",
        "/api/chat/history",
        "/api/chat/exchange/chat/messages",
        &events,
    ];
    for path in paths {
        let answer = ada.page(path).await;
        let cache = answer.headers()[CACHE_CONTROL].to_str().unwrap();
        assert!(cache.split(", ").any(|part| part == "no-store"), "{path}: {cache}");
    }
    for (name, fields) in [("account/view", [].as_slice()), ("chat/conversation", &[("name", "chat")]), ("account/logout", &[])] {
        assert_eq!(ada.call(name, fields).await.headers()[CACHE_CONTROL], "no-store", "{name}");
    }
    assert_eq!(app.browser().page("/chatgxy").await.headers()[CACHE_CONTROL], "no-store", "the way to the sign-in too");
}

#[tokio::test]
async fn s1_after_signing_out_no_page_shows_anything() {
    let app = TestApp::start().await;
    let ada = app.person("ada@example.org").await;
    ada.call("chat/send", &[("exchange", "chat"), ("query", "a secret question")]).await;
    assert!(text(ada.page("/chatgxy/chat").await).await.contains("a secret question"));
    ada.call("account/logout", &[]).await;
    for (path, to) in [("/chatgxy", "/login"), ("/chatgxy/chat", "/login?next=/chatgxy/chat"), ("/account", "/login?next=/account")] {
        let answer = ada.page(path).await;
        assert!(answer.status().is_redirection(), "{path}");
        assert_eq!(answer.headers()["location"], to);
        assert!(!text(answer).await.contains("a secret question"));
    }
}

#[tokio::test]
async fn the_stream_is_neither_kept_nor_held_back_nor_compressed() {
    let app = TestApp::start().await;
    let ada = app.person("ada@example.org").await;
    let sent = json(ada.call("chat/send", &[("query", "hi")]).await).await;
    let path = format!("/chatgxy/turns/{}/events", sent["view"]["turn"]["id"].as_str().unwrap());
    let answer = ada.send(ada.request(Method::GET, &path).header(ACCEPT_ENCODING, "br, gzip")).await;
    let headers = answer.headers().clone();
    assert_eq!(headers[CONTENT_TYPE], "text/event-stream");
    assert_eq!(headers[CACHE_CONTROL], "no-store, no-transform");
    assert_eq!(headers["x-accel-buffering"], "no");
    assert!(!headers.contains_key(CONTENT_ENCODING));
    let messages = text(answer).await;
    assert_eq!(messages.matches(r#""frame":"end""#).count() + messages.matches(r#"data: "end""#).count(), 1, "{messages}");
    assert_eq!(ada.get(&format!("{path}?after=x")).await.status(), 400);
}

async fn pkg_of(browser: &Browser) -> String {
    let html = text(browser.page("/login").await).await;
    let start = html.find("/pkg/").unwrap();
    html[start..].split('/').take(3).collect::<Vec<_>>().join("/")
}

#[tokio::test]
async fn the_client_is_served_small_with_its_kind_and_kept_for_ever() {
    let app = TestApp::start().await;
    let browser = app.browser();
    let pkg = pkg_of(&browser).await;
    for (file, kind) in [
        ("chatgxy.js", "text/javascript; charset=utf-8"),
        ("chatgxy_bg.wasm", "application/wasm"),
        ("chatgxy.css", "text/css; charset=utf-8"),
    ] {
        let path = format!("{pkg}/{file}");
        let plain = browser.get(&path).await;
        assert_eq!((plain.status().as_u16(), &plain.headers()[CONTENT_TYPE]), (200, &kind.parse().unwrap()), "{path}");
        assert_eq!(plain.headers()[CACHE_CONTROL], "public, max-age=31536000, immutable");
        let whole = plain.bytes().await.unwrap().len();
        for encoding in ["br", "gzip"] {
            let small = browser.send(browser.request(Method::GET, &path).header(ACCEPT_ENCODING, encoding)).await;
            assert_eq!(
                (&small.headers()[CONTENT_ENCODING], &small.headers()["vary"]),
                (&encoding.parse().unwrap(), &"accept-encoding".parse().unwrap())
            );
            assert!(small.bytes().await.unwrap().len() < whole);
        }
        let head = browser.send(browser.request(Method::HEAD, &path)).await;
        assert_eq!((head.status().as_u16(), head.headers()[CONTENT_LENGTH].to_str().unwrap()), (200, whole.to_string().as_str()));
        assert!(head.bytes().await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn other_public_files_are_asked_for_again_and_not_sent_again() {
    let app = TestApp::start().await;
    let browser = app.browser();
    let first = browser.get("/favicon.svg").await;
    assert_eq!(
        (&first.headers()[CONTENT_TYPE], &first.headers()[CACHE_CONTROL]),
        (&"image/svg+xml".parse().unwrap(), &"public, max-age=300".parse().unwrap())
    );
    let again = browser.request(Method::GET, "/favicon.svg").header(IF_NONE_MATCH, &first.headers()[ETAG]);
    let again = browser.send(again).await;
    assert_eq!(again.status(), 304);
    assert!(again.bytes().await.unwrap().is_empty());
}

/// What a server answers to a path as it is, since clients tidy paths up.
async fn raw(app: &TestApp, path: &str) -> String {
    let mut stream = tokio::net::TcpStream::connect(app.base.strip_prefix("http://").unwrap()).await.unwrap();
    stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn nothing_but_the_files_of_the_site_is_served() {
    let app = TestApp::start().await;
    let browser = app.browser();
    let pkg = pkg_of(&browser).await;
    let outside = [
        "/../Cargo.toml".to_owned(),
        "/pkg/../../../../etc/passwd".to_owned(),
        "/pkg/..%2f..%2f..%2fetc/passwd".to_owned(),
        "/%2e%2e/site.stamp".to_owned(),
        "/pkg//etc/passwd".to_owned(),
        "/site.json".to_owned(),
        "/pkg/x/..\\site.json".to_owned(),
        "/favicon.svg.br".to_owned(),
        format!("{pkg}/../../site.json"),
        format!("{pkg}/"),
        pkg,
    ];
    for path in outside {
        let answer = raw(&app, &path).await;
        assert!(answer.starts_with("HTTP/1.1 404"), "{path}: {answer}");
    }
}

#[tokio::test]
async fn an_unknown_path_of_the_api_is_404_and_a_wrong_method_405_in_json() {
    let app = TestApp::start().await;
    let ada = app.person("ada@example.org").await;
    for path in ["/api/nothing", "/api/fn/nothing", "/api/chat/none/of/this"] {
        for method in [Method::GET, Method::POST, Method::DELETE] {
            let answer = ada.send(ada.request(method, path)).await;
            assert_eq!(answer.status(), 404, "{path}");
            assert_eq!(json(answer).await["err_code"], 404_001);
        }
    }
    let answer = ada.send(ada.request(Method::PATCH, "/api/chat/history")).await;
    assert_eq!(answer.status(), 405);
    assert_eq!(json(answer).await["err_code"], 405_001);
}

#[tokio::test]
async fn bad_input_is_a_clear_400_with_nothing_stored() {
    let app = TestApp::start().await;
    let ada = app.person("ada@example.org").await;
    let bodies = [
        ("application/json", "{\"query\":"),
        ("application/json", "[]"),
        ("application/json", "{\"query\": 7}"),
        ("application/json", "{}"),
        ("application/json", "{\"query\": \"  \"}"),
        ("application/json", "{\"query\": \"hi\", \"exchange_id\": {}}"),
        ("application/json", "{\"query\": \"hi\", \"exchange_id\": \"a b\"}"),
        ("application/json", "\u{FFFD}"),
        ("text/plain", "{\"query\": \"hi\"}"),
        ("application/x-www-form-urlencoded", "query=hi"),
    ];
    for (kind, body) in bodies {
        let answer = ada.send(ada.request(Method::POST, "/api/chat").header(CONTENT_TYPE, kind).body(body)).await;
        assert_eq!(answer.status(), 400, "{kind} {body}");
        let error: Value = json(answer).await;
        assert!(error["err_msg"].as_str().is_some_and(|text| !text.is_empty()) && error["err_code"] == 400_008, "{error}");
    }
    for path in ["/api/chat?agent_type=No%20Agent", "/api/chat?agent_type=a&agent_type=b"] {
        let answer = ada.send(ada.request(Method::POST, path).header(CONTENT_TYPE, "application/json").body(r#"{"query":"hi"}"#)).await;
        assert_eq!(answer.status(), 400, "{path}");
    }
    for path in ["/api/chat/history?limit=0", "/api/chat/history?limit=x", "/api/chat/history?limit=-1", "/api/chat/history?limit=100000"] {
        assert_eq!(ada.get(path).await.status(), 400, "{path}");
    }
    for (name, fields) in [("chat/send", [].as_slice()), ("chat/send", &[("query", " ")]), ("account/revoke-key", &[("id", "x")])] {
        assert_eq!(ada.call(name, fields).await.status(), 400, "{name} {fields:?}");
    }
    assert_eq!(json(ada.get("/api/chat/history").await).await, json!([]));
}

#[tokio::test]
async fn a_body_over_2_mb_is_413_whether_it_is_announced_or_not() {
    let app = TestApp::start().await;
    let ada = app.person("ada@example.org").await;
    let query = "x".repeat(2 * 1024 * 1024);
    let body = json!({ "query": query }).to_string();
    let announced = ada.request(Method::POST, "/api/chat").header(CONTENT_TYPE, "application/json").body(body.clone());
    let pieces = futures::stream::iter(vec![Ok::<_, std::io::Error>(body)]);
    let streamed = ada.request(Method::POST, "/api/chat").header(CONTENT_TYPE, "application/json").body(reqwest::Body::wrap_stream(pieces));
    for request in [announced, streamed, ada.function("chat/send", &[("query", &query)])] {
        let answer = ada.send(request).await;
        assert_eq!(answer.status(), 413);
        assert_eq!(json(answer).await["err_code"], 413_001);
    }
    assert_eq!(json(ada.get("/api/chat/history").await).await, json!([]));
}

#[tokio::test]
async fn an_image_of_another_site_is_shown_in_a_frame_that_may_load_that_host_only() {
    let app = TestApp::start().await;
    let ada = app.person("ada@example.org").await;
    let path = "/image?src=https%3A%2F%2Fimages.example%2Fa.png%3Fx%3D1%26y%3D%2522";
    let frame = ada.send(ada.request(Method::GET, path).header("sec-fetch-dest", "iframe")).await;
    assert_eq!(frame.status(), 200);
    let policy = frame.headers()[CONTENT_SECURITY_POLICY].to_str().unwrap().to_owned();
    assert!(policy.contains("img-src https://images.example;") && policy.contains("default-src 'none'"), "{policy}");
    assert!(policy.contains("frame-ancestors 'self'") && policy.contains("sandbox"));
    assert_eq!(frame.headers()["referrer-policy"], "no-referrer");
    assert!(text(frame).await.contains("<img src=\"https://images.example/a.png?x=1&amp;y=%22\""));

    let alone = ada.send(ada.request(Method::GET, path).header("sec-fetch-dest", "document")).await;
    assert_eq!(alone.status(), 403, "not as a page of its own");
    assert_eq!(app.browser().get(path).await.status(), 401);
    for src in ["", "javascript:alert(1)", "data:text/html,x", "https://a;script-src *", "//evil.example/x", "https://*/x"] {
        let answer = ada.get(&format!("/image?{}", encoded(&[("src", src)]))).await;
        assert_eq!(answer.status(), 400, "{src}");
    }
    assert_eq!(ada.get("/image").await.status(), 400);
}

#[tokio::test]
async fn secrets_and_words_of_people_are_never_logged() {
    let data = tempfile::tempdir().unwrap();
    let mut child = program(data.path()).env("CHATGXY_LOG", "debug").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = child.stderr.take().unwrap();
    let log = std::thread::spawn(move || {
        let mut log = String::new();
        stderr.read_to_string(&mut log).unwrap();
        log
    });
    let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut out, &mut line).unwrap();
    let base = format!("http://{}", line.trim().rsplit_once("http://").unwrap().1);

    let ada = Browser::new(&base);
    ada.call("account/register", &[("email", "ada@example.org"), ("password", "very-secret-password")]).await;
    let cookie = ada.cookie().unwrap();
    let key = json(ada.call("account/create-key", &[("name", "name-of-the-key")]).await).await["secret"].as_str().unwrap().to_owned();
    ada.send(ada.request(Method::GET, "/api/chat/history?secret=in-the-query").header("x-api-key", &key)).await;
    ada.ask(json!({"query": "a-question-of-ada"})).await;
    ada.submit("/login", "account/login", &[("email", "ada@example.org"), ("password", "wrong-secret-password")]).await;
    ada.get("/path-nobody-knows/of-ada").await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    child.kill().unwrap();
    child.wait().unwrap();

    let log = log.join().unwrap();
    assert!(log.contains("/api/chat/history") && log.contains("request_id"), "requests are logged: {log}");
    let token = cookie.split_once('=').unwrap().1;
    for secret in [
        "very-secret-password",
        "wrong-secret-password",
        token,
        &key,
        "in-the-query",
        "a-question-of-ada",
        "of-ada",
        "ada@example.org",
        "name-of-the-key",
    ] {
        assert!(!log.contains(secret), "{secret} is in the log: {log}");
    }
}

#[tokio::test]
async fn a_shutdown_ends_open_streams_and_then_the_server() {
    let rules =
        "rules:\n  - {match: {query: hang}, response: {content: x}, stream: {fail: hang, after_chars: 0}}\nfallback: {content: y}\n";
    let setting = Setting::default().rules(rules).with("CHATGXY_DRAIN_S", "0");
    let app = TestApp::set(Engine::Sqlite, setting).await;
    let ada = app.person("ada@example.org").await;
    let sent = json(ada.call("chat/send", &[("query", "hang")]).await).await;
    let path = format!("/chatgxy/turns/{}/events", sent["view"]["turn"]["id"].as_str().unwrap());
    let stream = ada.get(&path).await;
    let headers: HeaderMap = stream.headers().clone();
    assert_eq!(headers[CONTENT_TYPE], "text/event-stream");
    let reading = tokio::spawn(text(stream));
    assert_eq!(app.stop().await, Ok(()));
    let messages = reading.await.unwrap();
    assert!(messages.contains("shutdown") && messages.contains(r#""frame":"end""#) | messages.contains(r#"data: "end""#), "{messages}");
}

#[tokio::test]
async fn a_title_is_text_in_the_head_of_the_page() {
    let app = TestApp::start().await;
    let ada = app.person("ada@example.org").await;
    let title = "</title><meta http-equiv=refresh content=\"0;url=https://evil.example\"> & <b>";
    ada.call("chat/send", &[("exchange", "chat"), ("query", title)]).await;
    let html = text(ada.page("/chatgxy/chat").await).await;
    assert!(!html.contains("<meta http-equiv=refresh"), "{html}");
    assert!(html.contains("<title>&lt;/title&gt;&lt;meta") && html.contains("&amp; &lt;b&gt; · ChatGXY</title>"), "{html}");
}

#[tokio::test]
async fn no_link_puts_words_on_the_sign_in_page() {
    let app = TestApp::start().await;
    let eve = app.browser();
    // {"forbidden":{"reason":"Call 555"}}
    let forged = "/login?__path=%2Fapi%2Ffn%2Faccount%2Flogin&__err=eyJmb3JiaWRkZW4iOnsicmVhc29uIjoiQ2FsbCA1NTUifX0%3D";
    let answer = eve.page(forged).await;
    assert_eq!((answer.status().as_u16(), &answer.headers()["location"]), (303, &"/login".parse().unwrap()));
    let said = eve.submit("/login", "account/login", &[("email", "ada@example.org"), ("password", "wrong one")]).await;
    assert!(text(eve.page(&said).await).await.contains("The email or the password is wrong."), "{said}");
    let elsewhere = eve.function("account/login", &[("email", "x"), ("password", "y")]).header("accept", "text/html");
    for referer in ["https://evil.example/login", "//evil.example", "javascript:alert(1)"] {
        let answer = eve.send(elsewhere.try_clone().unwrap().header("referer", referer)).await;
        let location = answer.headers()["location"].to_str().unwrap().to_owned();
        assert!(location.starts_with('/') && !location.starts_with("//"), "{referer} {location}");
    }
}

#[tokio::test]
async fn signing_out_ends_the_streams_of_the_session_and_no_others() {
    let app = TestApp::set(Engine::Sqlite, Setting::default().rules(SLOW)).await;
    let ada = app.person("ada@example.org").await;
    let phone = app.browser();
    phone.call("account/login", &[("email", "ada@example.org"), ("password", "correct horse")]).await;
    let sent = json(ada.call("chat/send", &[("exchange", "chat"), ("query", "slow")]).await).await;
    let path = format!("/chatgxy/turns/{}/events?after=0", sent["view"]["turn"]["id"].as_str().unwrap());
    let (mut here, mut there) = (ada.get(&path).await, phone.get(&path).await);
    assert!(here.chunk().await.unwrap().is_some() && there.chunk().await.unwrap().is_some());
    ada.call("account/logout", &[]).await;
    let ended = async { while here.chunk().await.unwrap().is_some() {} };
    tokio::time::timeout(Duration::from_secs(5), ended).await.expect("the stream ends with the session");
    assert!(there.chunk().await.unwrap().is_some(), "another device reads on");
    assert_eq!(app.browser().get(&path).await.status(), 401);
}

const SLOW: &str = r#"
rules:
  - {match: {query: "^slow"}, response: {content: "a b c d e f g h i j k l m n o p q r s t u v w x y z a b c d e f g h i j k l m n o p q r s t u v w x y z"}, stream: {chunk_chars: 2, delay_ms: 300}}
fallback: {content: "x"}
"#;

#[tokio::test]
async fn anothers_running_answer_is_not_found_by_number_either() {
    let app = TestApp::start().await;
    let (ada, bob) = (app.person("ada@example.org").await, app.person("bob@example.org").await);
    ada.call("chat/send", &[("exchange", "chat"), ("query", "hi")]).await;
    for name in ["1", "chat"] {
        assert_eq!(bob.get(&format!("/api/chat/{name}/stream")).await.status(), 404, "{name}");
    }
    assert_eq!(bob.get("/api/chat/99/stream").await.status(), 204);
}
