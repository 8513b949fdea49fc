//! The bundled site: inside a release binary, on disk for a debug one.

use std::fmt::Write as _;
use std::sync::Arc;

use app::model::error::AppError;
use app::ssr::Site;
use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use rust_embed::{Embed, EmbeddedFile};

#[derive(Embed)]
#[folder = "$CHATGXY_SITE_DIR"]
struct Files;

/// Names below `/pkg/` change with their contents.
const FOR_EVER: &str = "public, max-age=31536000, immutable";
/// Names at the root do not.
const FOR_A_WHILE: &str = "public, max-age=300";

/// Where the pages find the client.
pub fn site() -> Result<Site, String> {
    let missing = || "the site is not bundled: run `make site`, then build and start again".to_owned();
    let manifest = Files::get("site.json").ok_or_else(missing)?;
    let manifest: serde_json::Value = serde_json::from_slice(&manifest.data).map_err(|_| missing())?;
    let pkg = manifest.get("pkg").and_then(|pkg| pkg.as_str()).ok_or_else(missing)?;
    Ok(Site { pkg: Arc::from(pkg) })
}

/// A file of the client.
pub async fn pkg(request: Request) -> Response {
    let path = request.uri().path();
    file(path, request.headers(), FOR_EVER).unwrap_or_else(|| AppError::not_found("The file").into_response())
}

/// A file at the site's root, if there is one of that name.
pub fn public(path: &str, headers: &HeaderMap) -> Option<Response> {
    file(path, headers, FOR_A_WHILE)
}

fn file(path: &str, headers: &HeaderMap, cache: &'static str) -> Option<Response> {
    let path = path.strip_prefix('/')?;
    let kind = content_type(path).filter(|_| path != "site.json" && is_plain(path))?;
    let whole = Files::get(path)?;
    let (encoding, served) = compressed(path, headers).map_or((None, whole), |(encoding, small)| (Some(encoding), small));
    let tag = etag(&served);
    let unchanged = headers.get(IF_NONE_MATCH).and_then(|tags| tags.to_str().ok()).is_some_and(|tags| tags.contains(&tag));
    let mut response = if unchanged { StatusCode::NOT_MODIFIED.into_response() } else { Body::from(served.data).into_response() };
    let out = response.headers_mut();
    out.insert(CACHE_CONTROL, HeaderValue::from_static(cache));
    out.insert(VARY, HeaderValue::from_static("accept-encoding"));
    out.insert(ETAG, HeaderValue::from_str(&tag).ok()?);
    if !unchanged {
        out.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        if let Some(encoding) = encoding {
            out.insert(CONTENT_ENCODING, HeaderValue::from_static(encoding));
        }
    }
    Some(response)
}

/// Names of the site are plain; anything else is an attempt to get out of it.
fn is_plain(path: &str) -> bool {
    path.split('/').all(|part| !part.is_empty() && !part.starts_with('.'))
        && path.bytes().all(|b| b.is_ascii_alphanumeric() || b"/._-".contains(&b))
}

fn content_type(path: &str) -> Option<&'static str> {
    Some(match path.rsplit_once('.')?.1 {
        "js" => "text/javascript; charset=utf-8",
        "wasm" => "application/wasm",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "json" | "webmanifest" => "application/json",
        "txt" => "text/plain; charset=utf-8",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        _ => return None,
    })
}

/// The smallest form of a file that the client can read and that was made when the site was bundled.
fn compressed(path: &str, headers: &HeaderMap) -> Option<(&'static str, EmbeddedFile)> {
    let accepted = headers.get(ACCEPT_ENCODING)?.to_str().ok()?;
    [("br", "br"), ("gzip", "gz")].into_iter().find_map(|(encoding, suffix)| {
        accepts(accepted, encoding).then(|| Files::get(&format!("{path}.{suffix}"))).flatten().map(|small| (encoding, small))
    })
}

fn accepts(list: &str, encoding: &str) -> bool {
    list.split(',').any(|item| {
        let (name, weight) = item.split_once(';').unwrap_or((item, ""));
        let refused = weight.trim().strip_prefix("q=").is_some_and(|weight| weight.parse() == Ok(0.0_f32));
        name.trim().eq_ignore_ascii_case(encoding) && !refused
    })
}

fn etag(file: &EmbeddedFile) -> String {
    let hash = file.metadata.sha256_hash();
    let mut tag = String::from("\"");
    for byte in &hash[..16] {
        let _ = write!(tag, "{byte:02x}");
    }
    tag.push('"');
    tag
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_encoding_with_weight_zero_is_refused() {
        for (list, expected) in [("gzip, br", true), ("br;q=0.5", true), ("br;q=0", false), ("gzip", false), ("BR", true), ("", false)] {
            assert_eq!(accepts(list, "br"), expected, "{list}");
        }
    }

    #[test]
    fn only_plain_names_of_known_kinds_are_looked_for() {
        for bad in ["../site.js", "a//b.js", ".env.js", "%2e%2e/x.js", "a\\b.js", "pkg/../site.js", ""] {
            assert!(!is_plain(bad), "{bad}");
        }
        assert_eq!(content_type("icons.svg.br"), None);
        assert_eq!(content_type("site"), None);
    }
}
