//! The direction rules of the architecture, as stated in `app/src/lib.rs`: rules that nothing checks rot.

#![allow(clippy::unwrap_used, reason = "a test may stop")]

use std::fs;
use std::path::{Path, PathBuf};

/// Every Rust file below `dir`, with its path from the repository's root and its text up to the tests at its foot.
fn sources(dir: &str) -> Vec<(String, String)> {
    fn collect(dir: &Path, into: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display())) {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(&path, into);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                into.push(path);
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut paths = Vec::new();
    collect(&root.join(dir), &mut paths);
    assert!(!paths.is_empty(), "{dir} has no source files");
    let mut files = Vec::new();
    for path in paths {
        let text = fs::read_to_string(&path).unwrap();
        let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default().to_owned();
        let name = path.strip_prefix(&root).unwrap().to_string_lossy().replace('\\', "/");
        if !name.ends_with("/tests.rs") {
            files.push((name, text));
        }
    }
    files
}

/// Lines below `dir`, but in files that `allowed` accepts, that hold one of `words` outside comments.
fn offences(dir: &str, words: &[&str], allowed: impl Fn(&str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for (name, text) in sources(dir).into_iter().filter(|(name, _)| !allowed(name)) {
        for (number, line) in text.lines().enumerate() {
            let code = if line.trim_start().starts_with("//") { "" } else { line };
            if words.iter().any(|word| code.contains(word)) {
                found.push(format!("{name}:{}: {}", number + 1, line.trim()));
            }
        }
    }
    found
}

const NOTHING: [&str; 0] = [];

#[test]
fn the_model_is_pure() {
    let ours = ["crate::api", "crate::ui", "crate::ssr", "leptos", "cfg(feature"];
    let world = ["std::time", "SystemTime", "Instant", "rand::", "new_v4", "now_v7", "std::fs", "std::net", "tokio", "async "];
    assert_eq!(offences("app/src/model", &[&ours[..], &world[..]].concat(), |_| false), NOTHING);
}

#[test]
fn layers_name_only_what_is_below_them() {
    assert_eq!(offences("app/src/ssr", &["crate::ui", "crate::api"], |_| false), NOTHING);
    assert_eq!(offences("app/src/ui", &["crate::ssr"], |_| false), NOTHING);
    assert_eq!(offences("app/src/api", &["crate::ui"], |_| false), NOTHING);
    assert_eq!(offences("frontend/src", &["app::ssr", "app::api", "app::model"], |_| false), NOTHING);
}

#[test]
fn the_browser_is_touched_in_one_place() {
    let browser = |name: &str| name.starts_with("app/src/ui/browser/");
    assert_eq!(offences("app/src/ui", &["web_sys::", "js_sys::", "Effect::new", "cfg(feature"], browser), NOTHING);
}

#[test]
fn sql_is_in_one_place() {
    let sql = ["\"select ", "insert into", "delete from", "sqlx::query", "begin immediate"];
    let db = |name: &str| name.starts_with("app/src/ssr/db/");
    assert_eq!(offences("app/src", &sql, db), NOTHING);
    assert_eq!(offences("server/src", &sql, |_| false), NOTHING);
}

#[test]
fn the_provider_client_is_named_in_one_place() {
    let remote = |name: &str| name.starts_with("app/src/ssr/llm/remote");
    assert_eq!(offences("app/src", &["rig::", "rig_core::"], remote), NOTHING);
}

#[test]
fn both_engines_have_the_same_migrations() {
    let names = |engine: &str| {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../migrations").join(engine);
        let mut names: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert!(!names("sqlite").is_empty());
    assert_eq!(names("sqlite"), names("postgres"));
}
