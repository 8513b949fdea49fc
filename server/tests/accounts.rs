//! What is promised of accounts, through the real router, on both databases where the database matters.

#![allow(clippy::unwrap_used, clippy::similar_names, reason = "a test may stop, and speaks plainly")]

mod common;

use std::time::{SystemTime, UNIX_EPOCH};

use app::ssr::auth::Token;
use common::{Engine, Setting, TestApp, json, text};
use reqwest::Method;
use reqwest::header::{ACCEPT, REFERER, RETRY_AFTER, SET_COOKIE};
use serde_json::json;

const ENGINES: [Engine; 2] = [Engine::Sqlite, Engine::Postgres];
const HOUR: i64 = 60 * 60 * 1000;

fn now() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

fn credentials<'a>(email: &'a str, password: &'a str) -> [(&'a str, &'a str); 2] {
    [("email", email), ("password", password)]
}

#[tokio::test]
async fn registering_signs_in_and_the_first_account_is_an_administrator() {
    for engine in ENGINES {
        let app = TestApp::on(engine).await;
        let ada = app.person(" Ada@Example.org ").await;
        let bob = app.person("bob@example.org").await;
        let viewer = |browser: common::Browser| async move { json(browser.get("/api/whoami").await).await };
        let person = |id: i64, name: &str, admin: bool| json!({"id": id, "email": format!("{name}@example.org"), "username": name, "admin": admin, "is_admin": admin});
        assert_eq!(viewer(ada).await, person(1, "ada", true));
        assert_eq!(viewer(bob).await, person(2, "bob", false));
        assert_eq!(app.browser().viewer().await, None);
    }
}

#[tokio::test]
async fn an_email_is_taken_once_whatever_its_case() {
    for engine in ENGINES {
        let app = TestApp::on(engine).await;
        app.person("ada@example.org").await;
        let other = app.browser();
        let answer = other.call("account/register", &credentials("ADA@example.org", "another password")).await;
        assert_eq!(answer.status(), 409);
        assert!(text(answer).await.contains("There is an account with this email already"));
        assert_eq!(other.cookie(), None);
    }
}

#[tokio::test]
async fn a_bad_email_or_password_is_a_clear_400_with_nothing_stored() {
    let app = TestApp::start().await;
    let long = "x".repeat(201);
    let table = [
        ("ada", "correct horse", "Write an email address"),
        ("", "correct horse", "Write an email address"),
        ("ada@example.org", "short", "A password has 8 to 200 characters"),
        ("ada@example.org", &long, "A password has 8 to 200 characters"),
    ];
    for (email, password, words) in table {
        let answer = app.browser().call("account/register", &credentials(email, password)).await;
        assert_eq!(answer.status(), 400, "{email} {password}");
        assert!(text(answer).await.contains(words));
    }
    assert!(app.store().await.users().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_password_may_be_any_text() {
    let app = TestApp::start().await;
    for (email, password) in [("a@x.org", "\0\0\0\0\0\0\0\0"), ("b@x.org", "日本語のパスワード"), ("c@x.org", "  spaces  ")] {
        assert_eq!(app.browser().call("account/register", &credentials(email, password)).await.status(), 200);
        assert_eq!(app.browser().call("account/login", &credentials(email, password)).await.status(), 200, "{password:?}");
        assert_eq!(
            app.browser().call("account/login", &credentials(email, password.trim_end())).await.status() == 200,
            password == password.trim_end()
        );
    }
}

#[tokio::test]
async fn closed_registration_is_refused_with_a_reason() {
    let app = TestApp::set(Engine::Sqlite, Setting::default().with("CHATGXY_REGISTRATION", "closed")).await;
    let answer = app.browser().call("account/register", &credentials("ada@example.org", "correct horse")).await;
    assert_eq!(answer.status(), 403);
    assert!(text(answer).await.contains("Registration is closed"));
    assert!(app.store().await.users().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_wrong_password_and_an_unknown_email_look_the_same() {
    let app = TestApp::start().await;
    app.person("ada@example.org").await;
    let mut answers = Vec::new();
    for email in ["ada@example.org", "nobody@example.org"] {
        let browser = app.browser();
        let answer = browser.call("account/login", &credentials(email, "wrong password")).await;
        answers.push((answer.status(), text(answer).await));
        assert_eq!(browser.cookie(), None);
    }
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[0].0, 400);
}

#[tokio::test]
async fn signing_in_gives_a_new_session_and_ends_the_one_before() {
    let app = TestApp::start().await;
    let ada = app.person("ada@example.org").await;
    let before = ada.cookie();
    assert_eq!(ada.call("account/login", &credentials("ada@example.org", "correct horse")).await.status(), 200);
    assert_ne!(ada.cookie(), before);
    assert_eq!(ada.viewer().await.as_deref(), Some("ada@example.org"));
    assert_eq!(ada.with_cookie(before).viewer().await, None);
}

#[tokio::test]
async fn s8_an_old_cookie_is_dead_at_once_after_signing_out() {
    for engine in ENGINES {
        let app = TestApp::on(engine).await;
        let ada = app.person("ada@example.org").await;
        let thief = ada.with_cookie(ada.cookie());
        assert_eq!(ada.call("account/logout", &[]).await.status(), 200);
        assert_eq!(ada.cookie(), None, "the browser forgets it");
        assert_eq!(thief.viewer().await, None, "and it opens nothing any more");
        assert_eq!(thief.get("/api/chat/history").await.status(), 401);
    }
}

#[tokio::test]
async fn s8_a_password_change_signs_out_every_other_device_at_once() {
    for engine in ENGINES {
        let app = TestApp::on(engine).await;
        let laptop = app.person("ada@example.org").await;
        let phone = app.browser();
        phone.call("account/login", &credentials("ada@example.org", "correct horse")).await;
        let stolen = laptop.with_cookie(laptop.cookie());
        let answer = laptop.call("account/password", &[("current", "correct horse"), ("new", "battery staple")]).await;
        assert_eq!(answer.status(), 200);
        assert_eq!(laptop.viewer().await.as_deref(), Some("ada@example.org"), "the device that asked stays");
        assert_eq!((phone.viewer().await, stolen.viewer().await), (None, None));
        assert_eq!(phone.call("account/login", &credentials("ada@example.org", "correct horse")).await.status(), 400);
        assert_eq!(phone.call("account/login", &credentials("ada@example.org", "battery staple")).await.status(), 200);
    }
}

#[tokio::test]
async fn a_password_changes_only_by_who_knows_it() {
    let app = TestApp::start().await;
    let ada = app.person("ada@example.org").await;
    for (current, new, words) in [("wrong password", "battery staple", "current password is wrong"), ("correct horse", "short", "8 to 200")]
    {
        let answer = ada.call("account/password", &[("current", current), ("new", new)]).await;
        assert_eq!(answer.status(), 400);
        assert!(text(answer).await.contains(words));
    }
    assert_eq!(app.browser().call("account/password", &[("current", "x"), ("new", "battery staple")]).await.status(), 401);
    assert_eq!(app.browser().call("account/login", &credentials("ada@example.org", "correct horse")).await.status(), 200);
}

#[tokio::test]
async fn a_session_lives_as_long_as_it_is_used_within_thirty_days() {
    let app = TestApp::start().await;
    let ada = app.person("ada@example.org").await;
    let store = app.store().await;
    let user = store.users().await.unwrap()[0].id;
    let (used, unused) = (Token::random(""), Token::random(""));
    store.insert_session(&used.hash(), user, now() - 2 * HOUR, now() + HOUR).await.unwrap();
    store.insert_session(&unused.hash(), user, now() - 31 * 24 * HOUR, now() - 1).await.unwrap();
    let cookie = |token: &Token| Some(format!("chatgxy_session={}", token.expose()));
    assert_eq!(ada.with_cookie(cookie(&unused)).viewer().await, None);
    assert_eq!(ada.with_cookie(cookie(&used)).viewer().await.as_deref(), Some("ada@example.org"));
    let later = now() + 29 * 24 * HOUR;
    assert!(store.session(&used.hash(), later).await.unwrap().is_some(), "its use prolonged it");
}

#[tokio::test]
async fn the_session_cookie_is_out_of_reach_of_scripts_and_other_sites() {
    let plain = TestApp::start().await;
    let secure = TestApp::set(Engine::Sqlite, Setting::default().with("CHATGXY_PUBLIC_URL", "https://chat.example.org")).await;
    for (app, name, secure) in [(plain, "chatgxy_session", false), (secure, "__Host-chatgxy_session", true)] {
        let ada = app.browser();
        let answer = ada.call("account/register", &credentials("ada@example.org", "correct horse")).await;
        let cookie = answer.headers()[SET_COOKIE].to_str().unwrap().to_owned();
        assert!(cookie.starts_with(&format!("{name}=")), "{cookie}");
        assert!(["HttpOnly", "SameSite=Lax", "Path=/"].iter().all(|part| cookie.contains(part)) && !cookie.contains("Domain"));
        assert_eq!(cookie.contains("Secure"), secure);
        assert_eq!(ada.viewer().await.as_deref(), Some("ada@example.org"));
    }
}

#[tokio::test]
async fn an_api_key_is_shown_once_and_works_until_it_is_revoked() {
    for engine in ENGINES {
        let app = TestApp::on(engine).await;
        let ada = app.person("ada@example.org").await;
        let made = json(ada.call("account/create-key", &[("name", " laptop ")]).await).await;
        let secret = made["secret"].as_str().unwrap();
        assert_eq!((secret.len(), &secret[..8]), (51, "chatgxy_"));
        assert_eq!(made["key"]["prefix"], secret[..16]);

        let program = app.browser();
        let history = || program.request(Method::GET, "/api/chat/history").header("x-api-key", secret);
        assert_eq!(program.send(history()).await.status(), 200);
        let page = text(ada.call("account/view", &[]).await).await;
        assert!(page.contains("laptop") && !page.contains(secret), "the list cannot show it again");
        let view: serde_json::Value = serde_json::from_str(&page).unwrap();
        assert!(view["keys"][0]["used_at"].as_i64().is_some_and(|at| now() - at < HOUR));

        let id = made["key"]["id"].to_string();
        let bob = app.person("bob@example.org").await;
        assert_eq!(bob.call("account/revoke-key", &[("id", &id)]).await.status(), 404, "not by someone else");
        assert_eq!(program.send(history()).await.status(), 200);
        assert_eq!(ada.call("account/revoke-key", &[("id", &id)]).await.status(), 200);
        assert_eq!(program.send(history()).await.status(), 401, "dead at once");
        assert_eq!(ada.call("account/revoke-key", &[("id", &id)]).await.status(), 404);
    }
}

#[tokio::test]
async fn a_key_needs_a_name_and_an_account() {
    let app = TestApp::start().await;
    let ada = app.person("ada@example.org").await;
    for name in ["", "  ", &"n".repeat(101)] {
        assert_eq!(ada.call("account/create-key", &[("name", name)]).await.status(), 400);
    }
    assert_eq!(app.browser().call("account/create-key", &[("name", "x")]).await.status(), 401);
}

#[tokio::test]
async fn a_wrong_key_is_refused_even_beside_a_good_cookie() {
    let app = TestApp::start().await;
    let ada = app.person("ada@example.org").await;
    let request = || ada.request(Method::GET, "/api/chat/history");
    assert_eq!(ada.send(request()).await.status(), 200);
    for key in ["", "chatgxy_", "chatgxy_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"] {
        assert_eq!(ada.send(request().header("x-api-key", key)).await.status(), 401, "{key}");
    }
}

#[tokio::test]
async fn what_belongs_to_someone_else_is_not_found() {
    for engine in ENGINES {
        let app = TestApp::on(engine).await;
        let (ada, bob) = (app.person("ada@example.org").await, app.person("bob@example.org").await);
        let sent = json(ada.call("chat/send", &[("exchange", "adas-chat"), ("query", "a secret")]).await).await;
        let turn = sent["view"]["turn"]["id"].as_str().unwrap();
        let number = json(ada.get("/api/chat/history").await).await[0]["id"].to_string();
        for path in [
            "/api/chat/exchange/adas-chat/messages".to_owned(),
            format!("/api/chat/exchange/{number}/messages"),
            format!("/chatgxy/turns/{turn}/events"),
        ] {
            assert_eq!(bob.get(&path).await.status(), 404, "{engine:?} {path}");
            assert_eq!(ada.get(&path).await.status(), 200, "{engine:?} {path}");
            assert_eq!(app.browser().get(&path).await.status(), 401, "{engine:?} {path}");
        }
        for exchange in ["adas-chat", &number] {
            assert_eq!(bob.ask(json!({"query": "hi", "exchange_id": exchange})).await.status(), 404);
            assert_eq!(bob.call("chat/conversation", &[("name", exchange)]).await.status(), 404);
            assert_eq!(bob.call("chat/delete", &[("name", exchange)]).await.status(), 404);
        }
        assert_eq!(bob.call("chat/stop", &[("turn", turn)]).await.status(), 404);
        assert_eq!(bob.call("chat/feedback", &[("turn", turn), ("good", "true")]).await.status(), 404);
        assert_eq!(json(bob.get("/api/chat/history").await).await, json!([]));
    }
}

#[tokio::test]
async fn a_trusted_proxy_signs_people_in_by_header() {
    let setting = Setting::default().with("CHATGXY_TRUSTED_PROXIES", "127.0.0.0/8").with("CHATGXY_PROXY_USER_HEADER", "x-remote-user");
    for engine in ENGINES {
        let app = TestApp::set(engine, setting.clone()).await;
        let browser = app.browser();
        let ask = |email: &'static str| browser.send(browser.request(reqwest::Method::GET, "/api/whoami").header("x-remote-user", email));
        assert_eq!(json(ask("Ada@Example.org").await).await["email"], "ada@example.org");
        assert_eq!(json(ask("ada@example.org").await).await["id"], 1, "the account is made once");
        let wrong = browser.request(reqwest::Method::GET, "/api/chat/history").header("x-remote-user", "not an email");
        assert_eq!(browser.send(wrong).await.status(), 401);
        assert_eq!(browser.viewer().await, None, "no session is left behind");
        let login = app.browser().call("account/login", &credentials("ada@example.org", "")).await;
        assert_eq!(login.status(), 400, "it has no password to sign in with");
    }
}

#[tokio::test]
async fn the_proxys_header_is_ignored_from_anyone_else_and_by_default() {
    let elsewhere = Setting::default().with("CHATGXY_TRUSTED_PROXIES", "10.0.0.1").with("CHATGXY_PROXY_USER_HEADER", "x-remote-user");
    for setting in [elsewhere, Setting::default().with("CHATGXY_TRUSTED_PROXIES", "127.0.0.1"), Setting::default()] {
        let app = TestApp::set(Engine::Sqlite, setting).await;
        let browser = app.browser();
        let answer = browser.send(browser.request(reqwest::Method::GET, "/api/whoami").header("x-remote-user", "ada@example.org")).await;
        assert_eq!(json(answer).await, serde_json::Value::Null);
        assert!(app.store().await.users().await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn behind_a_trusted_proxy_https_makes_the_cookie_secure() {
    for (trusted, expected) in [("127.0.0.1", "__Host-chatgxy_session="), ("10.0.0.1", "chatgxy_session=")] {
        let app = TestApp::set(Engine::Sqlite, Setting::default().with("CHATGXY_TRUSTED_PROXIES", trusted)).await;
        let browser = app.browser();
        let form = browser.function("account/register", &credentials("ada@example.org", "correct horse"));
        browser.send(form.header("x-forwarded-proto", "https")).await;
        assert!(browser.cookie().is_some_and(|cookie| cookie.starts_with(expected)), "{trusted}");
    }
}

#[tokio::test]
async fn guessing_the_password_of_an_email_is_slowed_down() {
    let app = TestApp::start().await;
    let ada = app.person("ada@example.org").await;
    let mut statuses = Vec::new();
    for _ in 0..11 {
        statuses.push(app.browser().call("account/login", &credentials("ada@example.org", "wrong password")).await.status().as_u16());
    }
    assert_eq!(statuses, [[400; 10].as_slice(), &[429]].concat());
    let answer = app.browser().call("account/login", &credentials(" ADA@example.org", "correct horse")).await;
    assert_eq!(answer.status(), 429, "not even the right one, however it is written");
    let wait: u64 = answer.headers()[RETRY_AFTER].to_str().unwrap().parse().unwrap();
    assert!((1..=31).contains(&wait));
    assert!(text(answer).await.contains("retry_after_s"));
    assert_eq!(ada.viewer().await.as_deref(), Some("ada@example.org"), "who is signed in stays so");
    assert_eq!(ada.call("account/password", &[("current", "guess"), ("new", "battery staple")]).await.status(), 429);
}

#[tokio::test]
async fn guessing_from_one_address_is_slowed_down_and_the_address_cannot_be_made_up() {
    let app = TestApp::start().await;
    let browser = app.browser();
    let mut refused = 0;
    for n in 0..64 {
        // No email at all costs no hashing, so this is fast; the throttle comes first.
        let form = browser.function("account/login", &credentials("nobody", "x"));
        let answer = browser.send(form.header("x-forwarded-for", format!("192.0.2.{n}"))).await;
        refused += u32::from(answer.status() == 429);
    }
    assert!(refused >= 1, "{refused}");
}

#[tokio::test]
async fn behind_a_proxy_that_changes_the_host_a_failed_form_still_leads_back() {
    let app = TestApp::set(Engine::Sqlite, Setting::default().with("CHATGXY_PUBLIC_URL", "https://chat.example.org")).await;
    let browser = app.browser();
    for (referer, back) in [("https://chat.example.org/login", true), ("https://evil.example/login", false)] {
        let form = browser.function("account/login", &credentials("ada@example.org", "wrong one")).header(ACCEPT, "text/html");
        let answer = browser.send(form.header(REFERER, referer)).await;
        let location = answer.headers()["location"].to_str().unwrap().to_owned();
        assert_eq!((location.starts_with("/login?"), location == "/"), (back, !back), "{referer} {location}");
    }
}

#[tokio::test]
async fn whoever_guesses_does_not_keep_the_owner_out() {
    let app = TestApp::set(Engine::Sqlite, Setting::default().with("CHATGXY_TRUSTED_PROXIES", "127.0.0.1")).await;
    app.person("ada@example.org").await;
    let browser = app.browser();
    let login = async |from: &'static str, password: &str| {
        let form = browser.function("account/login", &credentials("ada@example.org", password));
        browser.send(form.header("x-forwarded-for", from)).await.status().as_u16()
    };
    for _ in 0..10 {
        assert_eq!(login("192.0.2.1", "a wrong password").await, 400);
    }
    assert_eq!(login("192.0.2.1", "correct horse").await, 429);
    assert_eq!(login("192.0.2.2", "correct horse").await, 200, "from her own address she comes in");
}

#[tokio::test]
async fn after_the_sign_in_comes_the_page_that_was_wanted() {
    let app = TestApp::start().await;
    app.person("ada@example.org").await;
    for (next, to) in [("/account", "/account"), ("//evil.example", "/chatgxy"), ("", "/chatgxy")] {
        let browser = app.browser();
        let fields = [("email", "ada@example.org"), ("password", "correct horse"), ("next", next)];
        assert_eq!(browser.submit("/login", "account/login", &fields).await, to);
    }
    let html = text(app.browser().page("/login?next=/account").await).await;
    assert!(html.contains("name=\"next\"") && html.contains("value=\"/account\""), "{html}");
}

#[tokio::test]
async fn forms_work_without_scripts() {
    let app = TestApp::start().await;
    let ada = app.browser();
    assert_eq!(ada.submit("/register", "account/register", &credentials("ada@example.org", "correct horse")).await, "/chatgxy");
    assert_eq!(ada.viewer().await.as_deref(), Some("ada@example.org"));
    assert_eq!(ada.submit("/account", "account/logout", &[]).await, "/login");
    assert_eq!(ada.viewer().await, None);
    assert_eq!(ada.submit("/login", "account/login", &credentials("ada@example.org", "correct horse")).await, "/chatgxy");
    assert_eq!(ada.viewer().await.as_deref(), Some("ada@example.org"));
}

#[tokio::test]
async fn a_form_that_fails_leads_back_to_its_page_which_says_why_and_no_password_is_in_the_address() {
    let app = TestApp::start().await;
    app.person("ada@example.org").await;
    let eve = app.browser();
    let mut back = "/login".to_owned();
    for _ in 0..2 {
        back = eve.submit(&back, "account/login", &credentials("ada@example.org", "wrong password")).await;
        assert!(back.starts_with("/login?") && !back.contains("wrong") && !back.contains("ada"), "{back}");
    }
    assert!(text(eve.page(&back).await).await.contains("The email or the password is wrong."));
    let back = eve.submit("/register", "account/register", &credentials("ada@example.org", "other password")).await;
    assert!(back.starts_with("/register?") && !back.contains("other"), "{back}");
    assert!(text(eve.page(&back).await).await.contains("There is an account with this email already"));
}

#[tokio::test]
async fn a_form_without_its_fields_is_a_clear_error_too() {
    let app = TestApp::start().await;
    let eve = app.browser();
    let back = eve.submit("/login", "account/login", &[("email", "ada@example.org")]).await;
    assert!(text(eve.page(&back).await).await.contains("could not be read"));
    let answer = eve.send(eve.function("account/login", &[]).header(ACCEPT, "*/*").header(REFERER, "/login")).await;
    assert_eq!(answer.status(), 400);
}
