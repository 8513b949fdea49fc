//! Who calls. One function for pages, server functions, REST and streams: [`current_user`].
//!
//! In this order: an API key (a wrong one is refused even beside a good cookie), the header of a trusted proxy, the session cookie.
//! A key may do no more than its scope; with the scope `admin` an administrator's key acts for others by the header `run-as`.

use std::borrow::Cow;
use std::convert::Infallible;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{ConnectInfo, FromRef, FromRequestParts, Query};
use axum::http::HeaderMap;
use axum::http::header::COOKIE;
use axum::http::request::Parts;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use cookie::{Cookie, SameSite};
use sha2::{Digest, Sha256};

use super::account::{self, Accounts};
use super::audit::{self, Act, Actor};
use super::config::Config;
use super::db::Db;
use crate::model::error::AppError;
use crate::model::ids::{Millis, UserId};
use crate::model::user::{Scope, User};
use crate::ssr::clock;

/// A session ends when it was not used for this long.
const SESSION: Millis = 30 * 24 * 60 * 60 * 1000;
/// A session in use is prolonged this often; more often would be a write per request.
const PROLONG: Millis = 60 * 60 * 1000;
/// The use of a key is noted this often.
const TOUCH: Millis = 60 * 1000;
/// How long a browser keeps the cookie; the session behind it is what ends.
const COOKIE_DAYS: i64 = 400;
/// The header that carries an API key.
const API_KEY: &str = "x-api-key";
/// The header by which an administrator's key acts for another person, by the number of the account.
const RUN_AS: &str = "run-as";

/// The secret of a signed-in browser, or of an API key. Only its hash is stored.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// 32 random bytes as text, after a prefix.
    pub fn random(prefix: &str) -> Self {
        let bytes: [u8; 32] = rand::random();
        Self(format!("{prefix}{}", URL_SAFE_NO_PAD.encode(bytes)))
    }

    /// What is stored: enough to know it again, not to make it. A plain hash does, since nobody can guess 32 random bytes.
    pub fn hash(&self) -> String {
        hash(&self.0)
    }

    /// The secret itself, for the one who owns it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

fn hash(secret: &str) -> String {
    hex(&Sha256::digest(secret.as_bytes()))
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut hex, byte| {
        use fmt::Write as _;
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// What is known about the other end of a request, forwarding headers believed only from trusted proxies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client {
    /// The address of the person's machine.
    pub ip: IpAddr,
    /// Whether the person's browser speaks HTTPS.
    pub https: bool,
    /// Whether the request came through a trusted proxy.
    pub by_proxy: bool,
}

impl Client {
    /// Reads the peer and its forwarding headers.
    pub fn of(config: &Config, parts: &Parts) -> Self {
        let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| peer.ip().to_canonical());
        let always_https = config.public_url.as_ref().is_some_and(|url| url.https);
        let Some(peer) = peer.filter(|peer| config.trusts(*peer)) else {
            let ip = peer.unwrap_or(IpAddr::from([0, 0, 0, 0]));
            return Self { ip, https: always_https, by_proxy: false };
        };
        let proto = parts.headers.get("x-forwarded-proto").and_then(|value| value.to_str().ok());
        let https = proto.and_then(|list| list.split(',').next()).is_some_and(|first| first.trim().eq_ignore_ascii_case("https"));
        Self { ip: forwarded_for(config, peer, &parts.headers), https: https || always_https, by_proxy: true }
    }

    /// The name of the session cookie. The prefix makes browsers refuse it from anyone but this host over HTTPS.
    fn cookie_name(self) -> &'static str {
        if self.https { "__Host-chatgxy_session" } else { "chatgxy_session" }
    }

    /// The session of this browser, if it has one.
    pub fn session(self, headers: &HeaderMap) -> Option<Token> {
        let lists = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs = lists.flat_map(|list| list.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.find(|(name, _)| *name == self.cookie_name()).map(|(_, value)| Token(value.to_owned()))
    }

    /// The `Set-Cookie` that signs this browser in.
    pub fn sign_in_cookie(self, session: &Token) -> String {
        self.cookie(session.expose()).max_age(cookie::time::Duration::days(COOKIE_DAYS)).build().to_string()
    }

    /// The `Set-Cookie` that makes this browser forget its session.
    pub fn sign_out_cookie(self) -> String {
        self.cookie("").max_age(cookie::time::Duration::ZERO).build().to_string()
    }

    fn cookie(self, value: &str) -> cookie::CookieBuilder<'_> {
        Cookie::build((self.cookie_name(), value)).path("/").http_only(true).same_site(SameSite::Lax).secure(self.https)
    }
}

/// The nearest address that no trusted proxy of ours stands behind: each proxy appends whom it heard from, so the list is read from
/// its end, and what an untrusted client wrote before that is never believed.
fn forwarded_for(config: &Config, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
    let lists: Vec<&str> = headers.get_all("x-forwarded-for").iter().filter_map(|value| value.to_str().ok()).collect();
    let mut nearest = peer;
    for hop in lists.iter().flat_map(|list| list.split(',')).rev() {
        if !config.trusts(nearest) {
            break;
        }
        let hop = hop.trim();
        let address = hop.parse().or_else(|_| hop.parse().map(|address: SocketAddr| address.ip()));
        let Ok(address) = address else { break };
        nearest = IpAddr::to_canonical(&address);
    }
    nearest
}

/// Who calls, and how much of what that person may do.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The person; an administrator only if the key allows it.
    pub user: User,
    /// The key's scope; everything for a browser.
    pub scope: Scope,
    /// How they prove it.
    pub proof: Proof,
}

/// How somebody proves who they are; only hashes of secrets.
#[derive(Clone, Debug)]
pub enum Proof {
    /// A session.
    Session(String),
    /// An API key.
    Key(String),
    /// A trusted proxy says so.
    Proxy,
}

/// Who calls; `None` for a browser that is not signed in.
///
/// # Errors
/// [`AppError::NotSignedIn`] for a key or a proxy's header that names nobody, [`AppError::Forbidden`] for a key that may not do that.
pub async fn caller<S>(state: &S, parts: &Parts) -> Result<Option<Caller>, AppError>
where
    Db: FromRef<S>,
    Arc<Config>: FromRef<S>,
    Accounts: FromRef<S>,
{
    let (db, config) = (Db::from_ref(state), Arc::<Config>::from_ref(state));
    let client = Client::of(&config, parts);
    if let Some(key) = key_of(&config, parts) {
        return of_key(&db, &key?, client, parts).await.map(Some);
    }
    let whole = |user, proof| Caller { user, scope: Scope::Admin, proof };
    let named = config.proxy_user_header.as_ref().filter(|_| client.by_proxy).and_then(|name| parts.headers.get(name));
    if let Some(email) = named {
        let email = email.to_str().ok().and_then(account::email).ok_or(AppError::NotSignedIn)?;
        return Accounts::from_ref(state).of_proxy(client.ip, &email).await.map(|user| Some(whole(user, Proof::Proxy)));
    }
    match client.session(&parts.headers) {
        Some(session) => Ok(user_of_session(&db, &session).await?.map(|user| whole(user, Proof::Session(session.hash())))),
        None => Ok(None),
    }
}

/// The person who calls, see [`caller`].
pub async fn current_user<S>(state: &S, parts: &Parts) -> Result<Option<User>, AppError>
where
    Db: FromRef<S>,
    Arc<Config>: FromRef<S>,
    Accounts: FromRef<S>,
{
    Ok(caller(state, parts).await?.map(|caller| caller.user))
}

/// The key of a request. In the query only where the operator allows it, as addresses end in logs.
fn key_of<'a>(config: &Config, parts: &'a Parts) -> Option<Result<Cow<'a, str>, AppError>> {
    if let Some(key) = parts.headers.get(API_KEY) {
        return Some(key.to_str().map(Cow::Borrowed).map_err(|_| AppError::NotSignedIn));
    }
    if !config.key_in_query {
        return None;
    }
    let Query(pairs) = Query::<Vec<(String, String)>>::try_from_uri(&parts.uri).ok()?;
    pairs.into_iter().find(|(name, _)| name == "key").map(|(_, key)| Ok(Cow::Owned(key)))
}

async fn of_key(db: &Db, key: &str, client: Client, parts: &Parts) -> Result<Caller, AppError> {
    let hash = hash(key);
    let owner = db.key_owner(&hash).await?.ok_or(AppError::NotSignedIn)?;
    let (mut user, scope, now) = (owner.user(), owner.scope(), clock::now());
    if owner.used_at.is_none_or(|used_at| now - used_at >= TOUCH) {
        audit::record(db, Act::KeyUsed, &Actor::person(&user.email, client.ip), &owner.prefix).await?;
        db.touch_key(owner.key_id, now).await?;
    }
    if scope == Scope::Read && !parts.method.is_safe() {
        return Err(AppError::Forbidden { reason: "This key may only read. Use one with the scope chat.".into() });
    }
    if let Some(other) = parts.headers.get(RUN_AS) {
        if !user.admin {
            return Err(AppError::Forbidden { reason: "Only an administrator's key with the scope admin may act for others.".into() });
        }
        let nobody = || AppError::invalid(RUN_AS, "The header run-as must be the number of an account.");
        let id = other.to_str().ok().and_then(|id| id.parse().ok()).ok_or_else(nobody)?;
        let other = db.account_by_id(UserId(id)).await?.ok_or_else(nobody)?.user();
        audit::record(db, Act::ActedAs, &Actor::person(&user.email, client.ip), &other.email).await?;
        user = other;
    }
    Ok(Caller { user, scope, proof: Proof::Key(hash) })
}

async fn user_of_session(db: &Db, session: &Token) -> Result<Option<User>, AppError> {
    let (hash, now) = (session.hash(), clock::now());
    let Some(row) = db.session(&hash, now).await? else { return Ok(None) };
    if now - row.seen_at >= PROLONG {
        db.extend_session(&hash, now, now + SESSION).await?;
    }
    Ok(Some(row.user()))
}

/// Starts a session; the token is for the browser alone.
pub(super) async fn start_session(db: &Db, user: &User) -> Result<Token, AppError> {
    let (session, now) = (Token::random(""), clock::now());
    db.insert_session(&session.hash(), user.id, now, now + SESSION).await?;
    Ok(session)
}

/// Lets handlers take what somebody may be as an argument.
macro_rules! from_caller {
    ($kind:ty, $of:expr) => {
        impl<S> FromRequestParts<S> for $kind
        where
            S: Send + Sync,
            Db: FromRef<S>,
            Arc<Config>: FromRef<S>,
            Accounts: FromRef<S>,
        {
            type Rejection = AppError;

            async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, AppError> {
                caller(state, parts).await?.ok_or(AppError::NotSignedIn).and_then($of)
            }
        }
    };
}

from_caller!(Caller, Ok);

/// The signed-in person, as an argument of a handler; refused with 401 when there is none.
#[derive(Clone, Debug)]
pub struct CurrentUser(pub User);

from_caller!(CurrentUser, |caller| Ok(Self(caller.user)));

/// The signed-in person with the right to change the account itself: a browser, or a key with the scope `admin`.
#[derive(Clone, Debug)]
pub struct AccountOwner(pub User);

impl AccountOwner {
    /// Refuses a narrower key.
    pub fn of(caller: Caller) -> Result<Self, AppError> {
        if caller.scope == Scope::Admin {
            return Ok(Self(caller.user));
        }
        Err(AppError::Forbidden { reason: "This key may not change accounts or keys. Use one with the scope admin, or a browser.".into() })
    }
}

from_caller!(AccountOwner, Self::of);

/// A signed-in administrator, as an argument of a handler; anybody else is refused.
#[derive(Clone, Debug)]
pub struct Administrator(pub User);

from_caller!(Administrator, |caller| {
    let admin = Some(caller.user).filter(|user| user.admin);
    admin.map(Self).ok_or_else(|| AppError::Forbidden { reason: "Only administrators may do that.".into() })
});

/// The other end, as an argument of a handler.
impl<S> FromRequestParts<S> for Client
where
    S: Send + Sync,
    Arc<Config>: FromRef<S>,
{
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        Ok(Self::of(&Arc::<Config>::from_ref(state), parts))
    }
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;

    fn config(vars: &[(&str, &str)]) -> Config {
        let vars = vars.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Config::from_vars(vars).unwrap()
    }

    fn request(peer: &str, headers: &[(&str, &str)]) -> Parts {
        let mut request = Request::builder();
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (mut parts, ()) = request.body(()).unwrap().into_parts();
        parts.extensions.insert(ConnectInfo(SocketAddr::new(peer.parse().unwrap(), 1234)));
        parts
    }

    #[test]
    fn forwarding_headers_are_believed_from_trusted_proxies_only_and_from_the_end() {
        let config = config(&[("CHATGXY_TRUSTED_PROXIES", "10.0.0.0/8")]);
        let table = [
            ("9.9.9.9", "1.1.1.1", "9.9.9.9", false),
            ("10.0.0.1", "1.1.1.1", "1.1.1.1", true),
            ("10.0.0.1", "6.6.6.6, 1.1.1.1", "1.1.1.1", true),
            ("10.0.0.1", "6.6.6.6, 1.1.1.1, 10.0.0.2", "1.1.1.1", true),
            ("10.0.0.1", "[2001:db8::1]:443", "2001:db8::1", true),
            ("10.0.0.1", "1.1.1.1, unknown", "10.0.0.1", true),
            ("::ffff:10.0.0.1", "1.1.1.1:80", "1.1.1.1", true),
        ];
        for (peer, list, ip, by_proxy) in table {
            let parts = request(peer, &[("x-forwarded-for", list), ("x-forwarded-proto", "https")]);
            let expected = Client { ip: ip.parse().unwrap(), https: by_proxy, by_proxy };
            assert_eq!(Client::of(&config, &parts), expected, "{peer} {list}");
        }
    }

    #[test]
    fn the_cookie_is_bound_to_the_host_under_https() {
        let plain = Client { ip: IpAddr::from([127, 0, 0, 1]), https: false, by_proxy: false };
        let secure = Client { https: true, ..plain };
        let session = Token("t".into());
        assert_eq!(plain.sign_in_cookie(&session), "chatgxy_session=t; HttpOnly; SameSite=Lax; Path=/; Max-Age=34560000");
        assert_eq!(secure.sign_in_cookie(&session), "__Host-chatgxy_session=t; HttpOnly; SameSite=Lax; Secure; Path=/; Max-Age=34560000");
        assert_eq!(plain.sign_out_cookie(), "chatgxy_session=; HttpOnly; SameSite=Lax; Path=/; Max-Age=0");
        let headers = request("1.1.1.1", &[("cookie", "a=b; chatgxy_session=plain"), ("cookie", "__Host-chatgxy_session=s")]).headers;
        assert_eq!(plain.session(&headers), Some(Token("plain".into())));
        assert_eq!(secure.session(&headers), Some(Token("s".into())));
    }

    #[test]
    fn a_token_is_long_random_and_never_printed() {
        let (one, other) = (Token::random("chatgxy_"), Token::random("chatgxy_"));
        assert_ne!(one, other);
        assert_eq!((one.expose().len(), one.hash().len()), ("chatgxy_".len() + 43, 64));
        assert_eq!(format!("{one:?}"), "Token(…)");
        assert_eq!(hash("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
