//! What the tests share.

#![allow(dead_code, unused_imports, reason = "each test program uses its own part")]

mod browser;
mod database;
mod test_app;

pub use browser::{Browser, encoded, json, text};
pub use database::{Engine, fresh_database, fresh_url};
pub use test_app::{Setting, TestApp, program};
