//! What is promised of a turn, from Send to rest, shown on real server processes over HTTP.

#![allow(clippy::unwrap_used, reason = "a test may stop")]

mod agents;
#[path = "../common/mod.rs"]
mod common;
mod crash;
mod fail;
mod faults;
mod send;
mod server;
mod several;
mod stream;
mod tools;
mod upstream;
