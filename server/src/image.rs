//! One image of another site, inside a frame of its own.
//!
//! # Why a frame
//! Pages may load nothing from elsewhere, whatever an answer says. When a person asks for an image, the page embeds this document,
//! whose own policy allows exactly that host and nothing else.

use app::model::error::AppError;
use app::ssr::auth::CurrentUser;
use axum::extract::Query;
use axum::extract::rejection::QueryRejection;
use axum::http::header::{CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_FRAME_OPTIONS};
use axum::http::{HeaderMap, Uri};
use axum::response::{Html, IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;

const STYLE: &str = "html,body{margin:0}img{display:block;max-inline-size:100%;block-size:auto}";

/// Which image.
#[derive(Deserialize)]
pub struct Wanted {
    src: String,
}

/// `GET /image?src=URL`: the document that shows it.
pub async fn frame(_: CurrentUser, headers: HeaderMap, wanted: Result<Query<Wanted>, QueryRejection>) -> Result<Response, AppError> {
    let unusable = || AppError::invalid("src", "An image is an http or https URL with a plain host.");
    // As a page of its own it would show anyone's picture under our address.
    if headers.get("sec-fetch-dest").is_some_and(|dest| dest != "iframe") {
        return Err(AppError::Forbidden { reason: "Images are shown inside the chat only.".into() });
    }
    let Query(Wanted { src }) = wanted.map_err(|_| unusable())?;
    let host = origin(&src).ok_or_else(unusable)?;
    let nonce = URL_SAFE_NO_PAD.encode(rand::random::<[u8; 16]>());
    let policy = format!(
        "default-src 'none'; img-src {host}; style-src 'nonce-{nonce}'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'; sandbox"
    );
    let page = format!(
        "<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>Image</title><style nonce=\"{nonce}\">{STYLE}</style></head>\
         <body><img src=\"{}\" alt=\"\" referrerpolicy=\"no-referrer\"></body></html>",
        escaped(&src)
    );
    let headers = [(CONTENT_SECURITY_POLICY, policy), (REFERRER_POLICY, "no-referrer".into()), (X_FRAME_OPTIONS, "SAMEORIGIN".into())];
    Ok((headers, Html(page)).into_response())
}

/// Scheme, host and port, made only of what cannot say more than that in a policy.
fn origin(src: &str) -> Option<String> {
    let uri: Uri = src.parse().ok()?;
    let scheme = uri.scheme_str().filter(|scheme| ["http", "https"].contains(scheme))?;
    let authority = uri.authority()?.as_str();
    let plain = authority.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._:".contains(&b));
    plain.then(|| format!("{scheme}://{authority}"))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_plain_host_gets_into_the_policy() {
        assert_eq!(origin("https://a.example:8443/x.png?y=1").as_deref(), Some("https://a.example:8443"));
        for bad in
            ["javascript:alert(1)", "/x.png", "data:image/png;base64,AA", "https://a;script-src *", "https://u@a/x", "https://*/x", ""]
        {
            assert_eq!(origin(bad), None, "{bad}");
        }
    }

    #[test]
    fn an_address_cannot_leave_its_attribute() {
        assert_eq!(escaped("https://a/?x=1&y=\"><script>"), "https://a/?x=1&amp;y=&quot;&gt;&lt;script&gt;");
    }
}
