//! Who may do what: scopes of keys, acting for others, names for programs, and the log of it.

#![allow(clippy::unwrap_used, reason = "a test may stop")]

mod common;

use std::io::Write;
use std::process::{Output, Stdio};

use common::{Browser, Engine, Setting, TestApp, json, program, text};
use reqwest::Method;
use reqwest::header::CONTENT_TYPE;
use serde_json::{Value, json};

const ENGINES: [Engine; 2] = [Engine::Sqlite, Engine::Postgres];

/// A program with its own key.
struct Keyed {
    program: Browser,
    key: String,
}

impl Keyed {
    async fn of(app: &TestApp, person: &Browser, scope: &str) -> Self {
        let made = json(person.call("account/create-key", &[("name", scope), ("scope", scope)]).await).await;
        assert_eq!(made["key"]["scope"], scope);
        Self { program: app.browser(), key: made["secret"].as_str().unwrap().to_owned() }
    }

    async fn send(&self, method: Method, path: &str, body: Option<Value>, headers: &[(&str, &str)]) -> (u16, Value) {
        let mut request = self.program.request(method, path).header("x-api-key", &self.key);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(body) = body {
            request = request.header(CONTENT_TYPE, "application/json").body(body.to_string());
        }
        let answer = self.program.send(request).await;
        (answer.status().as_u16(), serde_json::from_str(&text(answer).await).unwrap_or(Value::Null))
    }

    async fn call(&self, name: &str, fields: &[(&str, &str)]) -> u16 {
        self.program.send(self.program.function(name, fields).header("x-api-key", &self.key)).await.status().as_u16()
    }
}

#[tokio::test]
async fn a_key_may_do_no_more_than_its_scope() {
    for engine in ENGINES {
        let app = TestApp::on(engine).await;
        let ada = app.person("ada@example.org").await;
        let (read, chat, admin) =
            (Keyed::of(&app, &ada, "read").await, Keyed::of(&app, &ada, "chat").await, Keyed::of(&app, &ada, "admin").await);
        let ask = json!({"query": "Why?"});
        let person = json!({"email": "bob@example.org", "password": "correct horse"});
        for (method, path, body, allowed) in [
            (Method::GET, "/api/chat/history", None, [200, 200, 200]),
            (Method::GET, "/api/whoami", None, [200, 200, 200]),
            (Method::POST, "/api/chat", Some(ask), [403, 200, 200]),
            (Method::DELETE, "/api/chat/history", None, [403, 200, 200]),
            (Method::POST, "/api/users", Some(person), [403, 403, 200]),
            (Method::POST, "/api/users/1/api_key", None, [403, 403, 200]),
            (Method::POST, "/api/users/2/api_key", None, [403, 403, 200]),
        ] {
            for (key, status) in [&read, &chat, &admin].into_iter().zip(allowed) {
                let (found, answer) = key.send(method.clone(), path, body.clone(), &[]).await;
                assert_eq!(found, status, "{engine:?} {method} {path} {answer}");
                assert!(found != 403 || answer["err_code"] == 403_002, "{answer}");
            }
        }
        let calls: [(&str, &[(&str, &str)]); 4] = [
            ("account/create-key", &[("name", "more"), ("scope", "admin")]),
            ("account/password", &[("current", "correct horse"), ("new", "battery staple")]),
            ("account/revoke-key", &[("id", "1")]),
            ("account/view", &[]),
        ];
        for (name, fields) in calls {
            assert_eq!([read.call(name, fields).await, chat.call(name, fields).await], [403, 403], "{name}");
        }
        let (_, all) = admin.send(Method::GET, "/api/users", None, &[]).await;
        let (_, own) = chat.send(Method::GET, "/api/users", None, &[]).await;
        assert_eq!((all.as_array().unwrap().len(), own.as_array().unwrap().len()), (2, 1));
        assert_eq!(ada.viewer().await.as_deref(), Some("ada@example.org"), "the password is the old one");
    }
}

#[tokio::test]
async fn a_scope_that_is_none_is_refused() {
    let app = TestApp::start().await;
    let ada = app.person("ada@example.org").await;
    assert_eq!(ada.call("account/create-key", &[("name", "x"), ("scope", "all")]).await.status(), 400);
    let made = ada.send(ada.request(Method::POST, "/api/users/1/api_key?scope=all")).await;
    assert_eq!((made.status().as_u16(), json(made).await["err_msg"].clone()), (400, json!("The scope is read, chat or admin.")));
    let unsaid = json(ada.call("account/create-key", &[("name", "x")]).await).await;
    assert_eq!(unsaid["key"]["scope"], "chat", "the one that most programs need");
}

#[tokio::test]
async fn an_administrators_key_acts_for_others_and_no_other_key_does() {
    let app = TestApp::start().await;
    let (ada, bob) = (app.person("ada@example.org").await, app.person("bob@example.org").await);
    let (admin, chat, bobs) =
        (Keyed::of(&app, &ada, "admin").await, Keyed::of(&app, &ada, "chat").await, Keyed::of(&app, &bob, "admin").await);
    let (status, answer) = admin.send(Method::POST, "/api/chat", Some(json!({"query": "For Bob?"})), &[("run-as", "2")]).await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(json(bob.get("/api/chat/history").await).await[0]["query"], "For Bob?");
    assert_eq!(json(ada.get("/api/chat/history").await).await, json!([]));
    assert_eq!(admin.send(Method::GET, "/api/whoami", None, &[("run-as", "2")]).await.1["admin"], false);
    for (key, id, status) in [(&admin, "3", 400), (&admin, "x", 400), (&admin, "", 400), (&chat, "2", 403), (&bobs, "1", 403)] {
        assert_eq!(key.send(Method::GET, "/api/chat/history", None, &[("run-as", id)]).await.0, status, "{id}");
    }
    let by_cookie = json(ada.send(ada.request(Method::GET, "/api/whoami").header("run-as", "2")).await).await;
    assert_eq!(by_cookie["email"], "ada@example.org", "a browser acts for nobody else");
    let acted = app.store().await.audit(100).await.unwrap().into_iter().filter(|row| row.act == "acted-as").collect::<Vec<_>>();
    assert_eq!(acted.len(), 1, "once a day");
    assert_eq!((acted[0].actor.as_str(), acted[0].subject.as_str()), ("ada@example.org", "bob@example.org"));
}

#[tokio::test]
async fn a_key_in_the_query_is_taken_only_where_the_operator_allows_it() {
    for (setting, status) in [(Setting::default(), 401), (Setting::default().with("CHATGXY_KEY_IN_QUERY", "1"), 200)] {
        let app = TestApp::set(Engine::Sqlite, setting).await;
        let key = Keyed::of(&app, &app.person("ada@example.org").await, "read").await.key;
        assert_eq!(app.browser().get(&format!("/api/chat/history?limit=5&key={key}")).await.status(), status);
        assert_eq!(app.browser().get("/api/chat/history?key=wrong").await.status(), 401);
    }
}

#[tokio::test]
async fn an_account_is_made_as_the_originals_programs_ask_for_it() {
    for engine in ENGINES {
        let app = TestApp::on(engine).await;
        let admin = Keyed::of(&app, &app.person("ada@example.org").await, "admin").await;
        let add = async |body: Value| admin.send(Method::POST, "/api/users", Some(body), &[]).await;
        let both =
            json!({"remote_user_email": "bob@example.org", "email": "bob@example.org", "password": "correct horse", "username": "Bob-1"});
        let (status, made) = add(both.clone()).await;
        assert_eq!((status, &made["email"], &made["username"]), (200, &json!("bob@example.org"), &json!("bob-1")));
        let (status, made) = add(json!({"remote_user_email": "eve@example.org", "password": "correct horse"})).await;
        assert_eq!((status, &made["username"]), (200, &json!("eve")));
        assert_eq!(add(both).await.0, 409);
        assert_eq!(add(json!({"email": "dan@example.org", "password": "correct horse", "username": "bob-1"})).await.0, 409, "{engine:?}");
        for bad in [
            json!({"password": "correct horse"}),
            json!({"email": "x@x.org"}),
            json!({"email": "x@x.org", "password": "correct horse", "username": "a b"}),
        ] {
            assert_eq!(add(bad.clone()).await.0, 400, "{bad}");
        }
    }
}

fn run(data: &std::path::Path, args: &[&str], input: &str) -> Output {
    let mut child = program(data).args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

#[tokio::test]
async fn who_signed_in_used_a_key_or_made_an_account_is_in_the_log() {
    for engine in ENGINES {
        let app = TestApp::on(engine).await;
        let ada = app.person("ada@example.org").await;
        let stranger = app.browser();
        for (email, password) in [("ada@example.org", "a wrong one"), ("my secret password@example.org", "x")] {
            stranger.call("account/login", &[("email", email), ("password", password)]).await;
        }
        ada.call("account/login", &[("email", "ada@example.org"), ("password", "correct horse")]).await;
        let admin = Keyed::of(&app, &ada, "admin").await;
        for _ in 0..3 {
            admin.send(Method::GET, "/api/whoami", None, &[]).await;
        }
        admin.send(Method::POST, "/api/users", Some(json!({"email": "bob@example.org", "password": "correct horse"})), &[]).await;
        ada.call("account/revoke-key", &[("id", "1")]).await;
        ada.call("account/password", &[("current", "correct horse"), ("new", "battery staple")]).await;
        ada.call("account/logout", &[]).await;

        let mut log = app.store().await.audit(100).await.unwrap();
        log.reverse();
        let acts: Vec<_> = log.iter().map(|row| (row.act.as_str(), row.actor.as_str())).collect();
        let me = "ada@example.org";
        assert_eq!(
            acts,
            [
                ("registered", me),
                ("sign-in-failed", ""),
                ("signed-in", me),
                ("key-made", me),
                ("key-used", me),
                ("account-made", me),
                ("key-revoked", me),
                ("password-changed", me),
                ("signed-out", me)
            ],
            "{engine:?}"
        );
        assert!(log.iter().all(|row| row.address == "127.0.0.1"), "{log:?}");
        assert_eq!((log[1].subject.as_str(), log[5].subject.as_str()), (me, "bob@example.org"));
        assert_eq!(log[4].subject, admin.key[..16], "a key by its first characters");
        let whole = format!("{log:?}");
        assert!(!whole.contains("secret") && !whole.contains(&admin.key) && !whole.contains("horse"), "{whole}");
    }
}

#[test]
fn the_operator_reads_the_log_and_is_in_it() {
    let data = tempfile::tempdir().unwrap();
    run(data.path(), &["user", "add", "ada@example.org", "--password-stdin", "--username", "Ada"], "correct horse");
    let key = String::from_utf8(run(data.path(), &["key", "add", "ada@example.org", "--scope", "read"], "").stdout).unwrap();
    run(data.path(), &["key", "revoke", key.trim()], "");
    let printed = String::from_utf8(run(data.path(), &["audit"], "").stdout).unwrap();
    let lines: Vec<Vec<&str>> = printed.lines().map(|line| line.split('\t').collect()).collect();
    assert!(lines.iter().all(|line| line.len() == 5 && line[0].ends_with('Z') && line[2] == "command line" && line[4] == "-"), "{printed}");
    let acts: Vec<_> = lines.iter().map(|line| (line[1], line[3].split(' ').next().unwrap())).collect();
    assert_eq!(acts, [("key-revoked", &key[..16]), ("key-made", &key[..16]), ("account-made", "ada@example.org")]);
    assert_eq!(String::from_utf8(run(data.path(), &["audit", "--limit", "1"], "").stdout).unwrap().lines().count(), 1);
    assert!(!run(data.path(), &["audit", "--limit", "0"], "").status.success());
    assert!(!run(data.path(), &["key", "add", "ada@example.org", "--scope", "all"], "").status.success());
}
