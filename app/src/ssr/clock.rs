//! The one place that reads the clock.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::model::ids::Millis;

/// Milliseconds since 1970, UTC.
pub fn now() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX)
}
