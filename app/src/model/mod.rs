//! The domain, pure: what a conversation, a turn and its parts are, and the only rules by which they change.
//!
//! Nothing here knows the clock, chance, storage, HTTP or Leptos; ids and the time are arguments. The engine, a replay from
//! the event log and the browser all run the same [`turn::Turn::apply`], so the three cannot drift apart.

pub mod agent;
pub mod error;
pub mod event;
pub mod exchange;
pub mod frame;
pub mod ids;
pub mod part;
mod tagged;
pub mod turn;
pub mod user;
