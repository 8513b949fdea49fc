//! Places where the tests make the server die or dawdle, in debug builds only: `CHATGXY_TEST_FAULTS` lists `PLACE=abort` and
//! `PLACE=delay:MILLISECONDS` with commas between.

/// A place that the tests can name.
#[cfg(debug_assertions)]
pub async fn point(place: &str) {
    static FAULTS: std::sync::LazyLock<String> = std::sync::LazyLock::new(|| std::env::var(super::config::TEST_FAULTS).unwrap_or_default());
    if FAULTS.is_empty() {
        return;
    }
    for fault in FAULTS.split(',') {
        match fault.split_once('=') {
            Some((named, "abort")) if named == place => std::process::abort(),
            Some((named, delay)) if named == place => {
                let millis = delay.strip_prefix("delay:").and_then(|millis| millis.parse().ok()).unwrap_or(0);
                tokio::time::sleep(std::time::Duration::from_millis(millis)).await;
            }
            _ => {}
        }
    }
}

/// Nothing: this is no test.
#[cfg(not(debug_assertions))]
pub async fn point(_: &str) {}
