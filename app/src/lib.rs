//! ChatGXY: chats with agents for scientists, durable from the first key press.
//!
//! # Bird's eye
//! ```text
//! model  <-  api  <-  ui  <-  frontend        api bodies -> ssr; server -> ui::{shell, App}
//! model  <-  ssr  <-  server
//! ```
//! - [`model`] is pure: a [`model::turn::Turn`] and the one function that changes it, run by the engine, by replay and by the browser.
//! - [`ssr`] is the server's half: use cases, all SQL, the engine that runs turns, agents, models, the Markdown renderer.
//! - [`api`] is what the browser calls; [`ui`] is what it shows.
//!
//! # Invariants
//! - A question is stored, with the right to answer it, before any model is called.
//! - One conversation has at most one live turn; the database refuses a second.
//! - An ended turn has no open call and never changes. Its end is shown only once it is durable.
//! - A turn runs in its own task: no request, tab or reader can stop it but by Stop.
//! - A turn that waits for somebody is a row and no task; whoever answers, in whichever process, takes it up by compare-and-set.
//! - A tool runs after it is stored that it runs, and never twice: what a crash cut off has an unknown outcome.
//! - From a client only decisions and outputs of browser tools are taken; all else of a turn is the store's.
//! - Every query that reads a person's data names the person.
//! - Markdown and calls of tools become HTML on the server only; the browser never turns text into markup.

#![recursion_limit = "256"]

pub mod api;
pub mod model;
#[cfg(feature = "ssr")]
pub mod ssr;
pub mod ui;
