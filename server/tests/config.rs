//! The command line and the settings, on the real program.

#![allow(clippy::unwrap_used, reason = "a test may stop")]

mod common;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Output, Stdio};

use common::{Browser, program};
use reqwest::Method;

fn run(data: &Path, args: &[&str], vars: &[(&str, &str)], input: &str) -> Output {
    let mut command = program(data);
    command.args(args).envs(vars.iter().copied()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A program that does not read may be gone already.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn said(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn all_wrong_settings_are_named_at_once_and_nothing_is_made() {
    let data = tempfile::tempdir().unwrap();
    let vars =
        [("CHATGXY_ADR", "127.0.0.1:1"), ("CHATGXY_REGISTRATION", "perhaps"), ("CHATGXY_MODEL", "gpt-5"), ("DATABASE_URL", "mysql://x")];
    let out = run(&data.path().join("none"), &[], &vars, "");
    assert_eq!(out.status.code(), Some(2));
    let errors = said(&out.stderr);
    assert_eq!(errors.lines().count(), 4, "{errors}");
    for words in ["CHATGXY_ADR is not known; did you mean CHATGXY_ADDR?", "open or closed", "openai:NAME", "postgres://"] {
        assert!(errors.contains(words), "{words}: {errors}");
    }
    assert!(!data.path().join("none").exists());
}

#[test]
fn help_and_version_say_what_there_is() {
    let data = tempfile::tempdir().unwrap();
    assert_eq!(said(&run(data.path(), &["--version"], &[], "").stdout), format!("chatgxy {}\n", env!("CARGO_PKG_VERSION")));
    let help = said(&run(data.path(), &["--help"], &[], "").stdout);
    assert!(["serve", "migrate", "user", "key"].iter().all(|command| help.contains(command)), "{help}");
    assert_eq!(run(data.path(), &["dance"], &[], "").status.code(), Some(2));
}

#[tokio::test]
async fn an_operator_makes_accounts_and_keys_while_the_server_runs() {
    let data = tempfile::tempdir().unwrap();
    let closed = [("CHATGXY_REGISTRATION", "closed")];
    let mut server = program(data.path()).envs(closed).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut banner = BufReader::new(server.stdout.take().unwrap()).lines();
    let first = banner.next().unwrap().unwrap();
    let base = format!("http://{}", first.rsplit_once("http://").unwrap().1);

    let command = |args: &[&str], input: &str| run(data.path(), args, &closed, input);
    assert_eq!(command(&["migrate"], "").status.code(), Some(0));
    assert!(command(&["user", "add", "Ada@Example.org", "--password-stdin"], "correct horse\n").status.success());
    assert!(command(&["user", "add", "bob@example.org", "--password-stdin", "--admin"], "battery staple").status.success());
    let taken = command(&["user", "add", "ada@example.org", "--password-stdin"], "correct horse\n");
    assert_eq!((taken.status.code(), said(&taken.stderr).contains("already")), (Some(1), true));
    assert_eq!(said(&command(&["user", "list"], "").stdout), "1\tada@example.org\tadmin\n2\tbob@example.org\tadmin\n");
    assert_eq!(command(&["user", "add", "eve@example.org"], "").status.code(), Some(2), "the password comes by standard input only");

    let browser = Browser::new(&base);
    assert_eq!(browser.call("account/login", &[("email", "ada@example.org"), ("password", "correct horse")]).await.status(), 200);
    let key = said(&command(&["key", "add", "ada@example.org"], "").stdout).trim().to_owned();
    let asked = || browser.http.request(Method::GET, format!("{base}/api/chat/history")).header("x-api-key", &key).send();
    assert_eq!(asked().await.unwrap().status(), 200);
    assert!(command(&["key", "revoke", &key[..16]], "").status.success());
    assert_eq!(asked().await.unwrap().status(), 401);
    assert_eq!(command(&["key", "revoke", &key[..16]], "").status.code(), Some(1));
    assert_eq!(command(&["key", "add", "nobody@example.org"], "").status.code(), Some(1));
    server.kill().unwrap();
    server.wait().unwrap();
}

#[test]
fn the_start_says_where_it_is_where_the_data_lies_and_what_answers() {
    let data = tempfile::tempdir().unwrap();
    let dir = data.path().join("new/place");
    let mut server = program(&dir).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let banner: Vec<String> = BufReader::new(server.stdout.take().unwrap()).lines().take(5).map(Result::unwrap).collect();
    let banner = banner.join("\n");
    let words = [
        "http://127.0.0.1:",
        &dir.canonicalize().unwrap().display().to_string(),
        "SQLite",
        "demo",
        "To connect a real model: set CHATGXY_MODEL",
    ];
    for words in words {
        assert!(banner.contains(words), "{words}: {banner}");
    }

    let second = run(&dir, &[], &[], "");
    assert_eq!(second.status.code(), Some(1));
    assert!(said(&second.stderr).contains("another chatgxy uses this data directory"));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(&dir).unwrap().permissions().mode() & 0o777, 0o700, "the data is the operator's own");
    }
    server.kill().unwrap();
    server.wait().unwrap();
}

#[test]
fn a_port_that_is_taken_is_named_with_its_setting() {
    let data = tempfile::tempdir().unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap().to_string();
    let out = run(data.path(), &["serve"], &[("CHATGXY_ADDR", &addr)], "");
    assert_eq!(out.status.code(), Some(1));
    assert!(said(&out.stderr).contains(&format!("cannot listen on {addr} (CHATGXY_ADDR)")));
}

#[test]
fn a_database_that_cannot_be_reached_is_said_without_its_password() {
    let data = tempfile::tempdir().unwrap();
    let out = run(data.path(), &["migrate"], &[("DATABASE_URL", "postgres://ada:very-secret@127.0.0.1:1/none")], "");
    assert_eq!(out.status.code(), Some(1));
    let error = said(&out.stderr);
    assert!(error.contains("PostgreSQL") && !error.contains("very-secret"), "{error}");
}
