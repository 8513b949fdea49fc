//! What a failed call was, in our words. The provider's own words are looked at here and go no further.

use std::time::{Duration, SystemTime};

use rig_core::ProviderResponseError;
use rig_core::error::ProviderError;
use rig_core::http_client;
use rig_reqwest::reqwest;
use serde_json::Value;

use crate::model::event::Failure;
use crate::ssr::llm::Fault;

/// The fault that `error` is. `started` tells whether anything of the answer had come.
pub(super) fn of(error: &ProviderError, started: bool) -> Fault {
    match error {
        ProviderError::Http(error) => transport(error).into(),
        ProviderError::ProviderResponse(reply)
        | ProviderError::InvalidAuthentication(reply)
        | ProviderError::CacheExpired { response: reply, .. } => {
            Fault { failure: refusal(reply), retry_after: retry_after(reply, SystemTime::now()) }
        }
        ProviderError::Truncated => Failure::Cut.into(),
        ProviderError::Json(_) if !started => Failure::NotAModel.into(),
        ProviderError::Url(_) | ProviderError::Request(_) | ProviderError::UnsupportedOption(_) => Failure::Internal.into(),
        _ => Failure::Upstream.into(),
    }
}

fn transport(error: &http_client::Error) -> Failure {
    let http_client::Error::Instance(inner) = error else {
        return match error {
            http_client::Error::StreamEnded => Failure::Cut,
            http_client::Error::InvalidContentType(_) => Failure::NotAModel,
            _ => Failure::Internal,
        };
    };
    match inner.downcast_ref::<reqwest::Error>() {
        Some(error) if error.is_connect() => Failure::Unreachable,
        Some(error) if error.is_timeout() => Failure::TimedOut,
        Some(error) if error.is_builder() => Failure::Internal,
        _ => Failure::Cut,
    }
}

/// What a reply means that is not an answer, by its status, or by its code when it came inside of a stream.
fn refusal(reply: &ProviderResponseError) -> Failure {
    if reply.refusal {
        return Failure::Filtered;
    }
    let body: Value = serde_json::from_str(&reply.body).unwrap_or_default();
    let code = reply.machine_code().unwrap_or_default();
    let status = match reply.status.map(|status| status.as_u16()) {
        Some(200) | None => body["error"]["code"].as_u64().and_then(|code| u16::try_from(code).ok()).unwrap_or(0),
        Some(status) => status,
    };
    match status {
        401..=403 => Failure::KeyRefused,
        404 | 405 if body["error"].is_null() && body["object"] != "error" => Failure::NotAModel,
        408 => Failure::TimedOut,
        413 => Failure::TooLong,
        // The account is used up: trying again does not help, only the operator can.
        429 if code == "insufficient_quota" => Failure::KeyRefused,
        429 => Failure::RateLimited,
        400..=499 if says_too_long(&code, &reply.body) => Failure::TooLong,
        400..=499 if reply.body.contains("API_KEY_INVALID") => Failure::KeyRefused,
        400..=499 => Failure::Rejected,
        500..=599 => Failure::Upstream,
        0 => by_code(&code, &reply.body),
        _ => Failure::NotAModel,
    }
}

fn by_code(code: &str, body: &str) -> Failure {
    match code {
        "rate_limit_error" | "rate_limit_exceeded" | "RESOURCE_EXHAUSTED" => Failure::RateLimited,
        "authentication_error" | "permission_error" | "billing_error" | "invalid_api_key" | "insufficient_quota" => Failure::KeyRefused,
        "request_too_large" => Failure::TooLong,
        _ if says_too_long(code, body) => Failure::TooLong,
        "invalid_request_error" | "invalid_request" | "INVALID_ARGUMENT" | "not_found_error" => Failure::Rejected,
        "content_filter" | "content_policy_violation" => Failure::Filtered,
        _ => Failure::Upstream,
    }
}

/// Few have a code for it; the others say it in words that have not changed in years.
fn says_too_long(code: &str, body: &str) -> bool {
    const CODES: [&str; 3] = ["context_length_exceeded", "exceed_context_size_error", "string_above_max_length"];
    const WORDS: [&str; 5] = [
        "prompt is too long",
        "maximum context length",
        "available context size",
        "exceeds the maximum number of tokens",
        "exceed context limit",
    ];
    CODES.contains(&code) || {
        let body = body.to_ascii_lowercase();
        WORDS.iter().any(|words| body.contains(words))
    }
}

/// How long the provider asks us to wait: `Retry-After` in seconds or as a date.
fn retry_after(reply: &ProviderResponseError, now: SystemTime) -> Option<Duration> {
    let text = reply.headers.as_ref()?.get("retry-after")?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = jiff::fmt::rfc2822::parse(text).ok()?;
    let at = SystemTime::UNIX_EPOCH + Duration::from_secs(date.timestamp().as_second().try_into().ok()?);
    Some(at.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use rig_core::http_client::{HeaderMap, HeaderValue, StatusCode};

    use super::*;

    fn reply(status: u16, body: &str) -> ProviderResponseError {
        ProviderResponseError::new(StatusCode::from_u16(status).unwrap(), body)
    }

    #[test]
    fn every_refusal_has_its_kind() {
        let unknown_model = r#"{"error":{"message":"The model `x` does not exist","code":"model_not_found"}}"#;
        let cases = [
            (reply(401, ""), Failure::KeyRefused),
            (reply(403, "{}"), Failure::KeyRefused),
            (reply(402, "{}"), Failure::KeyRefused),
            (reply(404, unknown_model), Failure::Rejected),
            (reply(404, r#"{"object":"error","message":"The model does not exist"}"#), Failure::Rejected),
            (reply(404, "<h1>Not Found</h1>"), Failure::NotAModel),
            (reply(404, r#"{"detail":"Not Found"}"#), Failure::NotAModel),
            (reply(302, ""), Failure::NotAModel),
            (reply(204, ""), Failure::NotAModel),
            (reply(408, ""), Failure::TimedOut),
            (reply(413, ""), Failure::TooLong),
            (reply(422, "{}"), Failure::Rejected),
            (reply(429, "slow down"), Failure::RateLimited),
            (reply(429, r#"{"error":{"code":"insufficient_quota"}}"#), Failure::KeyRefused),
            (reply(500, ""), Failure::Upstream),
            (reply(529, r#"{"error":{"type":"overloaded_error"}}"#), Failure::Upstream),
            (reply(400, r#"{"error":{"code":"context_length_exceeded","message":"…"}}"#), Failure::TooLong),
            (reply(400, r#"{"error":{"code":400,"type":"exceed_context_size_error"}}"#), Failure::TooLong),
            (reply(400, r#"{"error":{"type":"invalid_request_error","message":"prompt is too long: 9 > 8"}}"#), Failure::TooLong),
            (reply(400, r#"{"error":{"status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}"#), Failure::KeyRefused),
            (reply(400, r#"{"error":{"type":"invalid_request_error","message":"temperature"}}"#), Failure::Rejected),
        ];
        for (reply, failure) in cases {
            assert_eq!(refusal(&reply), failure, "{} {}", reply.status.unwrap(), reply.body);
        }
    }

    #[test]
    fn an_error_inside_of_a_stream_is_told_by_its_code() {
        let cases = [
            (r#"{"type":"error","error":{"type":"overloaded_error"}}"#, Failure::Upstream),
            (r#"{"error":{"type":"rate_limit_error"}}"#, Failure::RateLimited),
            (r#"{"error":{"code":429,"message":"slow"}}"#, Failure::RateLimited),
            (r#"{"error":{"code":502}}"#, Failure::Upstream),
            (r#"{"error":{"type":"authentication_error"}}"#, Failure::KeyRefused),
            (r#"{"error":{"type":"invalid_request_error","message":"maximum context length is 8"}}"#, Failure::TooLong),
            (r#"{"error":{"type":"invalid_request_error"}}"#, Failure::Rejected),
            (r#"{"error":"no memory left"}"#, Failure::Upstream),
        ];
        for (body, failure) in cases {
            assert_eq!(refusal(&ProviderResponseError::without_status(body)), failure, "{body}");
            assert_eq!(refusal(&reply(200, body)), failure, "{body}");
        }
        assert_eq!(refusal(&ProviderResponseError::without_status("").with_refusal(true)), Failure::Filtered);
    }

    #[test]
    fn the_time_to_wait_is_read_in_both_forms() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        let cases = [
            ("7", Some(Duration::from_secs(7))),
            ("0.5", Some(Duration::from_millis(500))),
            ("Sun, 06 Nov 1994 08:50:07 GMT", Some(Duration::from_secs(30))),
            ("Sun, 06 Nov 1994 08:00:00 GMT", Some(Duration::ZERO)),
            ("-1", None),
            ("NaN", None),
            ("soon", None),
        ];
        for (text, wait) in cases {
            let mut headers = HeaderMap::new();
            headers.insert("retry-after", HeaderValue::from_static(text));
            assert_eq!(retry_after(&reply(429, "").with_headers(Some(headers)), now), wait, "{text}");
        }
        assert_eq!(retry_after(&reply(429, ""), now), None);
    }
}
