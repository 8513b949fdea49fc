//! Mends what the framework answers for server functions: arguments that could not be read would be a fault of ours; a form that failed
//! would be sent back to whatever page says it sent it; and what went wrong, which comes in the address, could be anybody's words. So the
//! server signs these, and shows no others.

use std::sync::Arc;

use app::model::error::AppError;
use app::ssr::auth::hex;
use app::ssr::config::Config;
use app::ssr::db::Db;
use axum::body::{Body, to_bytes};
use axum::extract::{Query, Request, State};
use axum::http::header::{HOST, LOCATION};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use sha2::{Digest, Sha256};

/// The header by which a server function says that it failed.
const FAILED: &str = "serverfnerror";
/// An error is a few words.
const ERROR_BYTES: usize = 64 * 1024;
/// What the framework puts the form and what went wrong with it into, and our signature of that.
const FORM: &str = "__path";
const ERROR: &str = "__err";
const SIGNATURE: &str = "__sig";

/// What forms need when they fail: a secret to sign with, and the address that people use. Cheap to clone.
#[derive(Clone)]
pub struct Forms {
    secret: Arc<str>,
    config: Arc<Config>,
}

impl Forms {
    /// With a secret that all servers of one store share.
    pub async fn of(db: &Db, config: Arc<Config>) -> Result<Self, AppError> {
        let fresh: [u8; 32] = rand::random();
        Ok(Self { secret: db.setting_or("form_secret", &hex(&fresh)).await?.into(), config })
    }

    /// Hashed twice, so that nobody can sign a longer text by its beginning.
    fn sign(&self, error: &str) -> String {
        let inner = Sha256::new().chain_update(self.secret.as_bytes()).chain_update(error).finalize();
        hex(&Sha256::new().chain_update(self.secret.as_bytes()).chain_update(inner).finalize())
    }
}

fn pairs(uri: &Uri) -> Vec<(String, String)> {
    Query::<Vec<(String, String)>>::try_from_uri(uri).map(|Query(pairs)| pairs).unwrap_or_default()
}

fn value<'a>(pairs: &'a [(String, String)], name: &str) -> Option<&'a str> {
    pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

/// Gives a failed server function the status of its error, and a redirect an address of this site.
pub async fn mend(State(forms): State<Forms>, request: Request, next: Next) -> Response {
    let uri = request.uri().clone();
    if request.method().is_safe() && is_forged(&forms, &uri) {
        return Redirect::to(uri.path()).into_response();
    }
    let host = request.headers().get(HOST).cloned();
    let mut response = next.run(request).await;
    let host = host.as_ref().and_then(|host| host.to_str().ok());
    let public = forms.config.public_url.as_ref().map(|url| url.authority.as_str());
    mend_location(&forms, &[host, public], response.headers_mut());
    if response.status() != StatusCode::INTERNAL_SERVER_ERROR || !response.headers().contains_key(FAILED) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let bytes = to_bytes(body, ERROR_BYTES).await.unwrap_or_default();
    let status = serde_json::from_slice(&bytes).ok().and_then(|error: AppError| StatusCode::from_u16(error.status()).ok());
    parts.status = status.unwrap_or(parts.status);
    Response::from_parts(parts, Body::from(bytes))
}

/// Whether an address says that something went wrong which this server did not say.
fn is_forged(forms: &Forms, uri: &Uri) -> bool {
    if !uri.query().is_some_and(|query| query.contains(ERROR) || query.contains('%')) {
        return false;
    }
    let pairs = pairs(uri);
    let mut errors = pairs.iter().filter(|(name, _)| name == ERROR);
    match (errors.next(), errors.next()) {
        (None, _) => false,
        (Some((_, error)), None) => value(&pairs, SIGNATURE) != Some(&forms.sign(error)),
        (Some(_), Some(_)) => true,
    }
}

fn mend_location(forms: &Forms, hosts: &[Option<&str>], headers: &mut HeaderMap) {
    let Some(location) = headers.get(LOCATION).and_then(|location| location.to_str().ok()) else { return };
    let mut clean = on_this_site(location, hosts).unwrap_or("/").trim_end_matches('?').to_owned();
    if let Some((path, query)) = clean.split_once('?')
        && query.contains(ERROR)
    {
        // The page that it came from may have said something, too; the framework adds the new behind it.
        let last = |name: &str| query.rsplit('&').find(|pair| pair.split_once('=').is_some_and(|(key, _)| key == name));
        let ours = [FORM, ERROR, SIGNATURE];
        let rest = query.split('&').filter(|pair| !pair.split_once('=').is_some_and(|(key, _)| ours.contains(&key)));
        let said: Vec<&str> = rest.chain(last(FORM)).chain(last(ERROR)).collect();
        let said = format!("{path}?{}", said.join("&"));
        let signature = said.parse::<Uri>().ok().and_then(|uri| value(&pairs(&uri), ERROR).map(|error| forms.sign(error)));
        clean = signature.map_or_else(|| path.to_owned(), |signature| format!("{said}&{SIGNATURE}={signature}"));
    }
    if let Ok(clean) = HeaderValue::from_str(&clean) {
        headers.insert(LOCATION, clean);
    }
}

/// The part of an address behind the host, if the host is one of ours: the one that was asked, or behind a proxy that changes that
/// the one that people use.
fn on_this_site<'a>(location: &'a str, hosts: &[Option<&str>]) -> Option<&'a str> {
    let rest = match location.strip_prefix("http://").or(location.strip_prefix("https://")) {
        Some(absolute) => {
            let (host, _) = absolute.split_once('/')?;
            hosts.iter().flatten().any(|own| own.eq_ignore_ascii_case(host)).then(|| &absolute[host.len()..])?
        }
        None => location,
    };
    (rest.starts_with('/') && !rest.starts_with("//") && !rest.contains('\\')).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_this_site_are_kept() {
        let hosts = [Some("127.0.0.1:3000"), Some("chat.example.org"), None];
        for (location, kept) in [
            ("/login?x=1", Some("/login?x=1")),
            ("https://chat.example.org/login?x=1", Some("/login?x=1")),
            ("http://chat.example.org/", Some("/")),
            ("http://127.0.0.1:3000/account", Some("/account")),
            ("https://chat.example.org@evil.example/", None),
            ("https://chat.example.org.evil/", None),
            ("https://chat.example.org", None),
            ("https://evil.example/login", None),
            ("//evil.example/", None),
            ("/\\evil.example/", None),
            ("javascript:alert(1)", None),
            ("", None),
        ] {
            assert_eq!(on_this_site(location, &hosts), kept, "{location}");
        }
    }

    #[test]
    fn an_error_is_signed_and_no_other_is_shown() {
        let forms = |secret: &str| Forms { secret: secret.into(), config: Arc::new(Config::from_vars(std::iter::empty()).unwrap()) };
        let ours = forms("secret");
        let mut headers = HeaderMap::new();
        headers.insert(LOCATION, HeaderValue::from_static("/login?__path=%2Fx&__err=YWJj%3D"));
        mend_location(&ours, &[], &mut headers);
        let address = headers[LOCATION].to_str().unwrap().to_owned();
        let forged = |address: &str| is_forged(&ours, &address.parse().unwrap());
        assert!(!forged(&address) && !forged("/login") && !forged("/login?q=%41"), "{address}");
        assert!(forged("/login?__err=YWJj%3D") && forged("/login?%5F_err=YWJj"));
        assert!(forged(&address.replace("YWJj", "YWJk")) && forged(&format!("{address}&__err=x")));
        headers.insert(LOCATION, HeaderValue::from_str(&format!("{address}&__path=%2Fx&__err=YWJk")).unwrap());
        mend_location(&ours, &[], &mut headers);
        let again = headers[LOCATION].to_str().unwrap();
        assert!(!forged(again) && again.matches('=').count() == 3 && again.contains("__err=YWJk&"), "{again}");
        assert!(is_forged(&forms("another"), &address.parse().unwrap()));
    }
}
