//! The screens.
//!
//! State has few homes and nothing lives in two: the URL (which conversation), resources (what the server said), one
//! [`chat::live::LiveTurn`] for each turn on screen, the composer's text, and what the browser keeps ([`browser::storage`]).
//! All else is derived. `web_sys` and effects are in [`browser`] only.

mod account;
mod app;
mod browser;
mod chat;
pub mod shell;
mod sign_in;
mod widgets;

pub use app::App;
