//! The one place that reads the clock.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::model::ids::Millis;

/// Milliseconds since 1970, UTC.
pub fn now() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX) + set_forward()
}

/// By how much the tests have set the clock: the number, in milliseconds, in the file that `CHATGXY_TEST_CLOCK` names. Debug builds only.
#[cfg(debug_assertions)]
fn set_forward() -> Millis {
    static FILE: std::sync::LazyLock<Option<String>> = std::sync::LazyLock::new(|| std::env::var(super::config::TEST_CLOCK).ok());
    let text = FILE.as_ref().and_then(|file| std::fs::read_to_string(file).ok());
    text.and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

#[cfg(not(debug_assertions))]
fn set_forward() -> Millis {
    0
}
