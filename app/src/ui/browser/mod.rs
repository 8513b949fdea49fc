//! All that touches the browser: the only `web_sys`, the only effects, the only `cfg` in a body.
//!
//! Everything here exists on the server too and does nothing there, so that views need not know where they run. What depends on
//! the browser (time zone, storage, connection) shows its server value until the page is alive: hydration never disagrees.

pub mod clipboard;
pub mod clock;
pub mod dialog;
pub mod field;
pub mod ids;
pub mod keys;
pub mod listen;
pub mod online;
pub mod scroll;
pub mod storage;
pub mod tab_tools;
pub mod tabs;
pub mod turn_stream;
