//! Times in the person's own zone and words. The server, and the page until it is alive, show UTC.

use leptos::prelude::*;

use crate::model::ids::Millis;

/// A time as shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// "2 min", "14:05", "Mon 14:05" or "12 Mar 2026".
    pub short: String,
    /// The whole of it, for the tooltip.
    pub full: String,
}

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
#[cfg(feature = "hydrate")]
const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];

/// Milliseconds of the browser's clock, once the page is alive.
#[derive(Clone, Copy)]
struct Ticking(RwSignal<Option<Millis>>);

/// Makes the clock that all times on the page follow.
pub fn provide() {
    let now = RwSignal::new(None);
    provide_context(Ticking(now));
    #[cfg(feature = "hydrate")]
    Effect::new(move |_| {
        let tick = move || now.set(Some(browser_now()));
        tick();
        // Lives as long as the page.
        let _ = set_interval_with_handle(tick, std::time::Duration::from_secs(20));
    });
}

#[cfg(feature = "hydrate")]
#[expect(clippy::cast_possible_truncation, reason = "the clock's milliseconds fit for 285,000 years")]
fn browser_now() -> Millis {
    js_sys::Date::now() as Millis
}

/// The time now; `None` until the page is alive. Tracked: changes every 20 s.
pub fn now() -> Option<Millis> {
    use_context::<Ticking>().and_then(|Ticking(now)| now.get())
}

/// How to show a time.
pub fn shown(at: Signal<Millis>, relative: bool) -> Memo<Shown> {
    let ticking = use_context::<Ticking>();
    Memo::new(move |_| {
        let now = ticking.and_then(|Ticking(now)| now.get());
        match now {
            Some(now) => local(at.get(), now, relative),
            None => utc(at.get()),
        }
    })
}

fn utc(at: Millis) -> Shown {
    let (year, month, day, minutes, _) = civil(at);
    let month = MONTHS[month - 1];
    let text = format!("{day} {month} {year}, {:02}:{:02} UTC", minutes / 60, minutes % 60);
    Shown { short: text.clone(), full: text }
}

#[cfg(not(feature = "hydrate"))]
fn local(at: Millis, _now: Millis, _relative: bool) -> Shown {
    utc(at)
}

#[cfg(feature = "hydrate")]
fn local(at: Millis, now: Millis, relative: bool) -> Shown {
    #[expect(clippy::cast_precision_loss, reason = "milliseconds of this age are exact in a double")]
    let date = js_sys::Date::new(&wasm_bindgen::JsValue::from_f64(at as f64));
    let month = MONTHS.get(date.get_month() as usize).copied().unwrap_or_default();
    let weekday = DAYS.get(date.get_day() as usize).copied().unwrap_or_default();
    let clock = format!("{:02}:{:02}", date.get_hours(), date.get_minutes());
    let day = format!("{} {month} {}", date.get_date(), date.get_full_year());
    let ago = days_ago(at, now);
    let short = match (now - at) / 60_000 {
        ..1 if relative => "now".to_owned(),
        minutes @ 1..60 if relative => format!("{minutes} min"),
        _ if ago <= 0 => clock.clone(),
        _ if ago < 7 => format!("{weekday} {clock}"),
        _ => day.clone(),
    };
    Shown { short, full: format!("{weekday} {day}, {clock}") }
}

/// Whole days of the person's calendar between a time and now.
#[cfg(feature = "hydrate")]
fn days_ago(at: Millis, now: Millis) -> i64 {
    #[expect(clippy::cast_precision_loss, reason = "milliseconds of this age are exact in a double")]
    let offset_of = |time: Millis| -js_sys::Date::new(&wasm_bindgen::JsValue::from_f64(time as f64)).get_timezone_offset();
    // Each time with the offset of its own day, so that a change of the clocks moves nothing to another day.
    #[expect(clippy::cast_possible_truncation, reason = "an offset is at most 840 minutes")]
    let local_day = |time: Millis| (time + offset_of(time) as i64 * 60_000).div_euclid(86_400_000);
    local_day(now) - local_day(at)
}

#[cfg(not(feature = "hydrate"))]
fn days_ago(at: Millis, now: Millis) -> i64 {
    now.div_euclid(86_400_000) - at.div_euclid(86_400_000)
}

/// The heading of the history under which a time belongs.
pub fn day_group(now: Option<Millis>, at: Millis) -> &'static str {
    let Some(now) = now else { return "Recent" };
    match days_ago(at, now) {
        ..=0 => "Today",
        1 => "Yesterday",
        2..=6 => "Previous 7 days",
        7..=29 => "Previous 30 days",
        _ => "Older",
    }
}

/// For `datetime` attributes: `2026-12-01T14:05:09Z`.
pub fn iso(at: Millis) -> String {
    let (year, month, day, minutes, seconds) = civil(at);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{seconds:02}Z", minutes / 60, minutes % 60)
}

/// Year, month from 1, day from 1, minutes of the day and seconds, in UTC (days to civil date after Howard Hinnant's
/// `civil_from_days`).
#[expect(clippy::cast_sign_loss, clippy::cast_possible_truncation, reason = "a month is 1 to 12")]
fn civil(at: Millis) -> (i64, usize, i64, i64, i64) {
    let (days, ms) = (at.div_euclid(86_400_000), at.rem_euclid(86_400_000));
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let day_of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month as usize, day, ms / 60_000, ms / 1_000 % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_utc() {
        let table = [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399_999, "2000-02-28T23:59:59Z"),
            (951_868_799_000, "2000-02-29T23:59:59Z"),
            (1_796_047_509_000, "2026-11-30T14:05:09Z"),
            (-1, "1969-12-31T23:59:59Z"),
        ];
        for (at, text) in table {
            assert_eq!(iso(at), text);
        }
        assert_eq!(utc(1_796_047_509_000).short, "30 Nov 2026, 14:05 UTC");
    }

    #[test]
    fn the_history_is_grouped_by_calendar_days() {
        let day = 86_400_000;
        let now = 100 * day + 1;
        let table = [(0, "Today"), (2, "Yesterday"), (day + 2, "Previous 7 days"), (7 * day, "Previous 30 days"), (31 * day, "Older")];
        for (ago, group) in table {
            assert_eq!(day_group(Some(now), now - ago), group, "{ago}");
        }
        assert_eq!(day_group(None, now), "Recent");
    }
}
