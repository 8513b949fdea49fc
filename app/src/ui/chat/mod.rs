//! The full-page chat.

pub mod composer;
pub mod history;
pub mod live;
pub mod page;
pub mod thread;
pub mod turn;
