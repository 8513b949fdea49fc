//! What keeps other sites, and other people at the same machine, out.

use std::sync::Arc;

use app::model::error::AppError;
use app::ssr::auth::Client;
use app::ssr::config::Config;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, HOST, HeaderName, HeaderValue, ORIGIN, REFERRER_POLICY,
    STRICT_TRANSPORT_SECURITY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, Uri};
use axum::middleware::Next;
use axum::response::Response;

/// Longest body of a request.
const BODY_BYTES: usize = 2 * 1024 * 1024;

/// For everything that is not a page: it may do nothing at all.
const BARE_POLICY: &str = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// The policy of a page: its own scripts by nonce and what they load, everything else from this origin only.
pub fn page_policy(nonce: &str) -> (HeaderName, HeaderValue) {
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{nonce}' 'strict-dynamic' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self' data:; \
         connect-src 'self'; frame-src 'self'; font-src 'none'; manifest-src 'self'; object-src 'none'; base-uri 'none'; \
         form-action 'self'; frame-ancestors 'none'"
    );
    (CONTENT_SECURITY_POLICY, HeaderValue::from_str(&policy).unwrap_or(HeaderValue::from_static(BARE_POLICY)))
}

/// Refuses what another site makes a browser send. Cookies alone do not tell: they come along, and signing somebody in as somebody
/// else needs none.
pub async fn refuse_other_sites(State(config): State<Arc<Config>>, request: Request, next: Next) -> Result<Response, AppError> {
    if request.method().is_safe() || comes_from_here(&config, request.headers(), request.uri()) {
        return Ok(next.run(request).await);
    }
    Err(AppError::Forbidden { reason: "This request came from another site. Open this page directly and try again.".into() })
}

/// Browsers say where a request comes from, by `Sec-Fetch-Site` or, over plain HTTP, by `Origin`; who says nothing is no browser.
fn comes_from_here(config: &Config, headers: &HeaderMap, uri: &Uri) -> bool {
    if let Some(site) = headers.get("sec-fetch-site") {
        return site == "same-origin" || site == "none";
    }
    let Some(origin) = headers.get(ORIGIN) else { return true };
    let Some((_, origin)) = origin.to_str().ok().and_then(|origin| origin.split_once("://")) else { return false };
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).or_else(|| uri.authority().map(axum::http::uri::Authority::as_str));
    let public = config.public_url.as_ref().map(|url| url.authority.as_str());
    [host, public].into_iter().flatten().any(|own| own.eq_ignore_ascii_case(origin))
}

/// Reads the body, so that one that is too large is refused in the same way everywhere.
pub async fn limit_body(request: Request, next: Next) -> Result<Response, AppError> {
    let too_large = || AppError::TooLarge { limit: "2 MB".into() };
    let (parts, body) = request.into_parts();
    let announced = parts.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    if announced.is_some_and(|length: usize| length > BODY_BYTES) {
        return Err(too_large());
    }
    let bytes = to_bytes(body, BODY_BYTES).await.map_err(|_| too_large())?;
    Ok(next.run(Request::from_parts(parts, Body::from(bytes))).await)
}

/// Adds the headers that every response has; a handler that knows better has set its own.
pub async fn add_headers(State(config): State<Arc<Config>>, client: Client, request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let https = client.https || config.public_url.as_ref().is_some_and(|url| url.https);
    let headers = response.headers_mut();
    let mut add = |name: HeaderName, value: &'static str| {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    };
    // Private until a handler says otherwise: nothing of a person stays in a cache for the next one.
    add(CACHE_CONTROL, "no-store");
    add(CONTENT_SECURITY_POLICY, BARE_POLICY);
    add(X_CONTENT_TYPE_OPTIONS, "nosniff");
    add(X_FRAME_OPTIONS, "DENY");
    add(REFERRER_POLICY, "same-origin");
    add(HeaderName::from_static("cross-origin-opener-policy"), "same-origin");
    add(HeaderName::from_static("cross-origin-resource-policy"), "same-origin");
    add(HeaderName::from_static("permissions-policy"), "camera=(), geolocation=(), microphone=(), payment=(), usb=()");
    if https {
        add(STRICT_TRANSPORT_SECURITY, "max-age=31536000");
    }
    response
}
