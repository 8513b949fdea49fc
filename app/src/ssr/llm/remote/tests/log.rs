//! Keeps every log line of this thread.

use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Metadata, Subscriber};

type Lines = Arc<Mutex<Vec<String>>>;

struct Capture(Lines);

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, "{field}={value:?} ").unwrap();
    }
}

impl Capture {
    fn keep(&self, record: impl FnOnce(&mut Text)) {
        let mut text = Text(String::new());
        record(&mut text);
        self.0.lock().unwrap().push(text.0);
    }
}

impl Subscriber for Capture {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.keep(|text| span.record(text));
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, values: &Record<'_>) {
        self.keep(|text| values.record(text));
    }
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        self.keep(|text| event.record(text));
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// The lines, for as long as the guard lives.
pub fn capture() -> (Lines, DefaultGuard) {
    let lines = Lines::default();
    let guard = tracing::subscriber::set_default(Capture(lines.clone()));
    (lines, guard)
}
