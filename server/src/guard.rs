//! What keeps other sites, and other people at the same machine, out.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use app::model::error::AppError;
use app::ssr::auth::{self, Client};
use app::ssr::config::Config;
use app::ssr::{AppState, account, web};
use axum::body::Body;
use axum::extract::{FromRef, MatchedPath, Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, HOST, HeaderName, HeaderValue, ORIGIN, REFERRER_POLICY,
    STRICT_TRANSPORT_SECURITY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use futures::StreamExt;
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

/// Longest body of a request.
const BODY_BYTES: usize = 2 * 1024 * 1024;
/// How much of a longer one is read before the connection is given up.
const DRAINED_BYTES: usize = 16 * 1024 * 1024;
/// How long a body may take.
const BODY_TIME: Duration = Duration::from_secs(30);

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

/// Reads the body, so that one that is too large, or does not come, is refused in the same way everywhere.
pub async fn limit_body(request: Request, next: Next) -> Result<Response, AppError> {
    let (parts, body) = request.into_parts();
    let announced = parts.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    let mut taken = Vec::with_capacity(announced.unwrap_or(0).min(BODY_BYTES));
    let mut stream = body.into_data_stream();
    let read = async {
        let mut size = 0;
        while let Some(piece) = stream.next().await {
            let piece = piece.map_err(|_| AppError::invalid("body", "The body broke off."))?;
            size += piece.len();
            if size > DRAINED_BYTES {
                break;
            }
            // One that is too large is read on for a while: a client that is still sending does not hear a refusal.
            if size <= BODY_BYTES {
                taken.extend_from_slice(&piece);
            }
        }
        Ok::<_, AppError>(size)
    };
    let size = match tokio::time::timeout(BODY_TIME, read).await {
        Ok(size) => size?,
        Err(_) => return Err(AppError::invalid("body", format!("The body did not come within {} s.", BODY_TIME.as_secs()))),
    };
    if size > BODY_BYTES {
        return Err(AppError::TooLarge { limit: "2 MB".into() });
    }
    Ok(next.run(Request::from_parts(parts, Body::from(taken))).await)
}

/// How long an answer may take to begin.
pub const ANSWER_TIME: Duration = Duration::from_secs(15);

/// What waits for a model: it has time limits of its own.
const WAITING: [&str; 2] = ["/api/chat", "/api/ai/agents/query"];

/// Lets nobody wait longer than `patience` ([`ANSWER_TIME`]).
pub async fn limit_time(
    State(patience): State<Duration>,
    path: Option<MatchedPath>,
    request: Request,
    next: Next,
) -> Result<Response, AppError> {
    let path = path.as_ref().map_or("-", MatchedPath::as_str);
    if WAITING.contains(&path) {
        return Ok(next.run(request).await);
    }
    tokio::time::timeout(patience, next.run(request)).await.map_err(|_| {
        tracing::error!(path, "an answer took too long");
        AppError::Unavailable
    })
}

/// Sends strangers to the sign-in without rendering what they may not see.
pub async fn pages(State(state): State<AppState>, request: Request, next: Next) -> Result<Response, AppError> {
    let path = request.uri().path();
    let private = path == "/account" || (path.starts_with("/chatgxy/") && !path.starts_with("/chatgxy/turns/"));
    let (parts, body) = request.into_parts();
    if private && parts.method.is_safe() && auth::current_user(&state, &parts).await?.is_none() {
        let next = web::own_path(parts.uri.path()).map_or_else(|| "/login".to_owned(), |path| format!("/login?next={path}"));
        return Ok(Redirect::to(&next).into_response());
    }
    Ok(next.run(Request::from_parts(parts, body)).await)
}

/// How often one address, and one person, may ask. Cheap to clone.
#[derive(Clone, FromRef)]
pub struct Throttle {
    config: Arc<Config>,
    limits: Arc<Limits>,
}

struct Limits {
    by_address: DefaultKeyedRateLimiter<IpAddr>,
    by_person: DefaultKeyedRateLimiter<u64>,
}

impl Throttle {
    /// The operator's number for one person; three times that for one address, where several may sit behind one router.
    pub fn new(config: Arc<Config>) -> Self {
        let quota = |count: u32| Quota::per_minute(NonZeroU32::new(count).unwrap_or(NonZeroU32::MIN));
        let by_address = RateLimiter::keyed(quota(config.requests_a_minute.saturating_mul(3)));
        let by_person = RateLimiter::keyed(quota(config.requests_a_minute));
        Self { config, limits: Arc::new(Limits { by_address, by_person }) }
    }
}

/// Refuses whoever asks too often. The client's own files are not counted: they are few, and kept by the browser.
pub async fn slow_down(State(throttle): State<Throttle>, client: Client, request: Request, next: Next) -> Result<Response, AppError> {
    if !request.uri().path().starts_with("/pkg/") {
        account::admit(&throttle.limits.by_address, &account::network(client.ip))?;
        let headers = request.headers();
        let key = headers.get("x-api-key").map(|key| key.as_bytes().to_vec());
        // Told apart by what they prove themselves with; whether that is right is seen later.
        if let Some(proof) = key.or_else(|| client.session(headers).map(|session| session.expose().as_bytes().to_vec())) {
            let mut hash = DefaultHasher::new();
            proof.hash(&mut hash);
            account::admit(&throttle.limits.by_person, &hash.finish())?;
        }
    }
    Ok(next.run(request).await)
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

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;
    use axum::routing::get;
    use axum::{Router, middleware};
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn an_answer_that_does_not_begin_is_given_up_unless_a_model_is_waited_for() {
        let slowly = || async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            "at last"
        };
        let router = Router::new()
            .route("/page", get(slowly))
            .route("/quick", get(|| async { "at once" }))
            .route(WAITING[0], get(slowly))
            .route(WAITING[1], get(slowly))
            .layer(middleware::from_fn_with_state(Duration::from_millis(30), limit_time));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let server = tokio::spawn(async { axum::serve(listener, router).await });
        let status = async |path: &str| reqwest::get(format!("{base}{path}")).await.unwrap().status();
        assert_eq!(status("/page").await, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(status("/quick").await, StatusCode::OK);
        for path in WAITING {
            assert_eq!(status(path).await, StatusCode::OK, "{path}");
        }
        server.abort();
    }
}
