//! What the tests share.

#![allow(dead_code, reason = "each test program uses its own part")]

mod database;

pub use database::{Engine, fresh_database, fresh_url};
