//! The server's half: use cases, storage, engine, agents and models.

pub mod account;
pub mod agents;
pub mod audit;
pub mod auth;
pub mod chat;
pub mod clock;
pub mod config;
pub mod db;
pub mod engine;
pub mod fault;
pub mod llm;
pub mod render;
pub mod reply;
pub mod tools;
pub mod web;

use std::sync::Arc;

use axum::extract::FromRef;
use leptos::config::LeptosOptions;

use self::account::Accounts;
use self::config::Config;
use self::db::Db;
use self::engine::Engine;

/// What every handler and server function may use. Cheap to clone.
#[derive(Clone, FromRef)]
pub struct AppState {
    /// For the rendering of pages.
    pub leptos_options: LeptosOptions,
    /// The store.
    pub db: Db,
    /// Runs turns.
    pub engine: Engine,
    /// What the operator chose.
    pub config: Arc<Config>,
    /// Accounts and what guards them.
    pub accounts: Accounts,
    /// The client that the pages load.
    pub site: Site,
}

/// The bundled client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// Where its files are, `/pkg/` and a hash of their contents; no slash at the end.
    pub pkg: Arc<str>,
}
