//! Figures for Prometheus. Paths are those of the routes, so no name of a conversation or person gets into a label.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use app::ssr::engine::Figures;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Upper bounds of the buckets, in seconds.
const SECONDS: [f64; 10] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.25, 1.0, 5.0, 30.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Request {
    method: String,
    path: String,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Path {
    path: String,
}

/// What is counted at the edge. Cheap to clone.
#[derive(Clone)]
pub struct Metrics {
    requests: Family<Request, Counter>,
    seconds: Family<Path, Histogram, fn() -> Histogram>,
    registry: Arc<Registry>,
}

impl Metrics {
    /// Nothing counted yet.
    pub fn new() -> Self {
        let requests = Family::default();
        let seconds: Family<Path, Histogram, fn() -> Histogram> = Family::new_with_constructor(|| Histogram::new(SECONDS));
        let mut registry = Registry::with_prefix("chatgxy");
        registry.register("http_requests", "Requests answered", requests.clone());
        registry.register("http_request_seconds", "Time until the response began", seconds.clone());
        Self { requests, seconds, registry: Arc::new(registry) }
    }

    /// Counts one request.
    pub fn count(&self, method: &str, path: &str, status: u16, took: Duration) {
        let (method, path) = (method.to_owned(), path.to_owned());
        self.seconds.get_or_create(&Path { path: path.clone() }).observe(took.as_secs_f64());
        self.requests.get_or_create(&Request { method, path, status }).inc();
    }

    /// All figures in Prometheus' text format.
    pub fn text(&self, figures: &Figures) -> String {
        let mut text = String::new();
        let _ = encode(&mut text, &self.registry);
        let end = text.rfind("# EOF").unwrap_or(text.len());
        text.truncate(end);
        let counts = [
            ("turns_answered_total", "counter", "Turns that ended with an answer", figures.answered),
            ("turns_failed_total", "counter", "Turns that ended with a failure", figures.failed),
            ("turns_interrupted_total", "counter", "Turns that were stopped or lost", figures.interrupted),
            ("input_tokens_total", "counter", "Tokens sent to models", figures.input_tokens),
            ("output_tokens_total", "counter", "Tokens that models answered", figures.output_tokens),
            ("turns_live", "gauge", "Turns that run in this process", figures.live),
        ];
        for (name, kind, help, value) in counts {
            let family = name.strip_suffix("_total").unwrap_or(name);
            let _ = writeln!(text, "# HELP chatgxy_{family} {help}.\n# TYPE chatgxy_{family} {kind}\nchatgxy_{name} {value}");
        }
        text.push_str("# EOF\n");
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_named_and_end_once() {
        let metrics = Metrics::new();
        metrics.count("GET", "/api/chat/history", 200, Duration::from_millis(2));
        let text = metrics.text(&Figures { answered: 3, live: 1, ..Figures::default() });
        assert!(text.contains("chatgxy_http_requests_total{method=\"GET\",path=\"/api/chat/history\",status=\"200\"} 1\n"), "{text}");
        assert!(text.contains("chatgxy_turns_answered_total 3\n") && text.contains("chatgxy_turns_live 1\n"));
        assert_eq!(text.matches("# EOF").count(), 1);
        assert!(text.ends_with("# EOF\n"));
    }
}
