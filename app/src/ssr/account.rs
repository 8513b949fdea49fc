//! The use cases of accounts: register, sign in and out, change the password, keys for programs.
//!
//! Passwords are hashed with argon2id, two at a time and outside the threads that serve requests: each takes 19 MiB and tens of
//! milliseconds. An unknown email costs the same work as a wrong password, so time tells nobody who has an account.

use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use argon2::Argon2;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use governor::clock::{Clock, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use tokio::sync::{Semaphore, watch};

use super::audit::{self, Act, Actor};
use super::auth::{self, Proof, Token};
use super::clock;
use super::config::Registration;
use super::db::users::NewAccount;
use super::db::{Db, keys, storable};
use crate::model::error::AppError;
use crate::model::user::{ApiKey, Password, Scope, User};

/// Passwords hashed at once.
const HASHING: usize = 2;
/// Longest email, in bytes.
const EMAIL_MAX: usize = 254;
/// Longest username, in bytes.
const USERNAME_MAX: usize = 255;
/// Longest name of a key, in characters.
const KEY_NAME_CHARS: usize = 100;
/// Most keys of one person.
const KEYS_MAX: usize = 100;
/// What every key begins with, so that scanners for leaked secrets know it.
const KEY_PREFIX: &str = "chatgxy_";
/// How much of a key is kept in the clear, to tell keys apart.
const KEY_SHOWN: usize = 16;
/// A throttle forgets who has been quiet when it holds more than this.
const THROTTLE_KEYS: usize = 4096;

/// Accounts, with what guards them. Cheap to clone.
#[derive(Clone)]
pub struct Accounts {
    db: Db,
    registration: Registration,
    guard: Arc<Guard>,
}

struct Guard {
    /// Bumped when a session or a key ends; the number itself means nothing.
    endings: watch::Sender<u64>,
    hashing: Arc<Semaphore>,
    /// Tries at one account from one address: whoever guesses does not keep its owner out.
    by_email: DefaultKeyedRateLimiter<(IpAddr, String)>,
    /// Tries at one account from everywhere.
    by_email_anywhere: DefaultKeyedRateLimiter<String>,
    by_address: DefaultKeyedRateLimiter<IpAddr>,
    /// Who came through a proxy, from where, and is in the audit log already.
    noted: DefaultKeyedRateLimiter<(IpAddr, i64)>,
}

/// A browser that has just signed in.
#[derive(Clone, Debug)]
pub struct SignedIn {
    /// Who.
    pub user: User,
    /// The secret for the browser's cookie.
    pub session: Token,
}

/// An account that the operator, or an administrator, makes.
#[derive(Debug)]
pub struct NewUser {
    /// What the person signs in with.
    pub email: String,
    /// What programs call the person.
    pub username: Option<String>,
    /// The first password.
    pub password: Password,
    /// May see and change other accounts.
    pub admin: bool,
}

/// A key that has just been made; the secret is shown this once.
#[derive(Clone, Debug)]
pub struct NewKey {
    /// The key as it can be shown again.
    pub key: ApiKey,
    /// The secret.
    pub secret: Token,
}

impl Accounts {
    /// The accounts of a store.
    pub fn new(db: Db, registration: Registration) -> Self {
        let guard = Guard {
            endings: watch::channel(0).0,
            hashing: Arc::new(Semaphore::new(HASHING)),
            by_email: RateLimiter::keyed(quota(10, Duration::from_secs(30))),
            by_email_anywhere: RateLimiter::keyed(quota(200, Duration::from_secs(5))),
            by_address: RateLimiter::keyed(quota(60, Duration::from_secs(1))),
            noted: RateLimiter::keyed(quota(1, Duration::from_mins(10))),
        };
        Self { db, registration, guard: Arc::new(guard) }
    }

    /// Whether anyone may make an account.
    pub fn registration_open(&self) -> bool {
        self.registration == Registration::Open
    }

    /// Makes an account and signs its owner in. `from` is the address of the person's machine.
    pub async fn register(&self, from: IpAddr, address: &str, password: Password) -> Result<SignedIn, AppError> {
        if !self.registration_open() {
            return Err(AppError::Forbidden { reason: "Registration is closed. Ask the operator of this server for an account.".into() });
        }
        self.guard.admit_address(from)?;
        let user = self.make(address, None, password, false).await?;
        self.record(Act::Registered, &Actor::person(&user.email, from), "").await?;
        let session = auth::start_session(&self.db, &user).await?;
        Ok(SignedIn { user, session })
    }

    /// Makes an account; the operator's way, which works when registration is closed. The first account is an administrator.
    pub async fn add(&self, by: &Actor, new: NewUser) -> Result<User, AppError> {
        let username = new.username.as_deref().map(checked_username).transpose()?;
        let user = self.make(&new.email, username.as_deref(), new.password, new.admin).await?;
        self.record(Act::AccountMade, by, &user.email).await?;
        Ok(user)
    }

    async fn make(&self, address: &str, username: Option<&str>, password: Password, admin: bool) -> Result<User, AppError> {
        let email = checked_email(address)?;
        let hash = self.hash(checked_password(password, "password")?).await?;
        let new = NewAccount { email: &email, username, password_hash: Some(&hash), admin, now: clock::now() };
        let reason = match username {
            Some(_) => "There is an account with this email or username already.",
            None => "There is an account with this email already. Sign in instead.",
        };
        self.db.insert_user(&new).await?.ok_or_else(|| AppError::Conflict { reason: reason.into() })
    }

    /// Wakes when a session or a key may have ended.
    pub fn endings(&self) -> watch::Receiver<u64> {
        self.guard.endings.subscribe()
    }

    fn something_ended(&self) {
        self.guard.endings.send_modify(|n| *n += 1);
    }

    /// Whether what somebody proved themselves with is still good.
    pub async fn still_good(&self, proof: &Proof) -> Result<bool, AppError> {
        Ok(match proof {
            Proof::Session(hash) => self.db.session(hash, clock::now()).await?.is_some(),
            Proof::Key(hash) => self.db.key_owner(hash).await?.is_some(),
            Proof::Proxy => true,
        })
    }

    async fn record(&self, act: Act, by: &Actor, subject: &str) -> Result<(), AppError> {
        audit::record(&self.db, act, by, subject).await
    }

    /// Signs a browser in, with a new session; the one it had before (`old`) ends.
    pub async fn sign_in(&self, from: IpAddr, address: &str, password: Password, old: Option<&Token>) -> Result<SignedIn, AppError> {
        self.guard.admit_address(from)?;
        let address = email(address).ok_or_else(wrong_credentials)?;
        self.guard.admit_email(from, &address)?;
        let account = self.db.account_by_email(&address).await?;
        let hash = account.as_ref().and_then(|account| account.password_hash.clone());
        let right = self.verify(password, hash.clone()).await?;
        let Some(account) = account.as_ref().filter(|_| right) else {
            let subject = account.map(|account| account.user().email).unwrap_or_default();
            self.record(Act::SignInFailed, &Actor::nobody(from), &subject).await?;
            return Err(wrong_credentials());
        };
        let user = account.user();
        let session = auth::start_session(&self.db, &user).await?;
        // The password may have been changed while it was being checked: then this session must not outlive the others.
        let now = self.db.account_by_id(user.id).await?;
        if now.and_then(|account| account.password_hash) != hash {
            self.db.delete_session(&session.hash()).await?;
            return Err(wrong_credentials());
        }
        if let Some(old) = old {
            self.db.delete_session(&old.hash()).await?;
            self.something_ended();
        }
        self.record(Act::SignedIn, &Actor::person(&user.email, from), "").await?;
        Ok(SignedIn { user, session })
    }

    /// Ends a session, at once.
    pub async fn sign_out(&self, from: IpAddr, session: &Token) -> Result<(), AppError> {
        let ended = self.db.delete_session(&session.hash()).await?;
        self.something_ended();
        match ended {
            Some(email) => self.record(Act::SignedOut, &Actor::person(&email, from), "").await,
            None => Ok(()),
        }
    }

    /// Replaces the password. Every session of the person ends at once, on every device; the browser that asked gets a new one.
    pub async fn change_password(&self, from: IpAddr, user: &User, current: Password, new: Password) -> Result<Token, AppError> {
        self.guard.admit_email(from, &user.email)?;
        let new = checked_password(new, "new")?;
        let account = self.db.account_by_id(user.id).await?.ok_or(AppError::NotSignedIn)?;
        if !self.verify(current, account.password_hash).await? {
            return Err(AppError::invalid("current", "The current password is wrong."));
        }
        let hash = self.hash(new).await?;
        self.db.set_password(user.id, &hash).await?;
        self.something_ended();
        self.record(Act::PasswordChanged, &Actor::person(&user.email, from), "").await?;
        auth::start_session(&self.db, user).await
    }

    /// A person's keys, oldest first.
    pub async fn keys(&self, user: &User) -> Result<Vec<ApiKey>, AppError> {
        self.db.keys(user.id).await
    }

    /// Makes a key for a person.
    pub async fn create_key(&self, by: &Actor, user: &User, name: &str, scope: Scope) -> Result<NewKey, AppError> {
        let name = storable(name.trim()).into_owned();
        if name.is_empty() || name.chars().count() > KEY_NAME_CHARS {
            return Err(AppError::invalid("name", format!("Give the key a name of 1 to {KEY_NAME_CHARS} characters.")));
        }
        if self.db.keys(user.id).await?.len() >= KEYS_MAX {
            return Err(AppError::Conflict { reason: format!("You have {KEYS_MAX} keys already. Revoke one first.") });
        }
        let (secret, created_at) = (Token::random(KEY_PREFIX), clock::now());
        let prefix = key_prefix(secret.expose()).to_owned();
        let hash = secret.hash();
        let new = keys::NewKey { user: user.id, name: &name, prefix: &prefix, hash: &hash, scope, now: created_at };
        let id = self.db.insert_key(&new).await?;
        self.record(Act::KeyMade, by, &format!("{prefix} ({}) for {}", scope.name(), user.email)).await?;
        Ok(NewKey { key: ApiKey { id, name, prefix, scope, created_at, used_at: None }, secret })
    }

    /// Revokes a key, at once.
    pub async fn revoke_key(&self, from: IpAddr, user: &User, key: i64) -> Result<(), AppError> {
        let prefix = self.db.delete_key(user.id, key).await?.ok_or_else(|| AppError::not_found("The key"))?;
        self.something_ended();
        self.record(Act::KeyRevoked, &Actor::person(&user.email, from), &prefix).await
    }

    /// Revokes the keys that begin so; the operator's way. Gives how many.
    pub async fn revoke_keys(&self, beginning: &str) -> Result<usize, AppError> {
        let gone = self.db.delete_keys_by_prefix(key_prefix(beginning)).await?;
        for prefix in &gone {
            self.record(Act::KeyRevoked, &Actor::command_line(), prefix).await?;
        }
        Ok(gone.len())
    }

    /// The account of a person that a trusted proxy vouches for; made when it is the first time.
    pub async fn of_proxy(&self, from: IpAddr, address: &str) -> Result<User, AppError> {
        let user = match self.db.account_by_email(address).await? {
            Some(account) => account.user(),
            None => {
                let new = NewAccount { email: address, username: None, password_hash: None, admin: false, now: clock::now() };
                match self.db.insert_user(&new).await? {
                    Some(user) => user,
                    // Two first requests at once: the other one made it.
                    None => self.db.account_by_email(address).await?.ok_or(AppError::Unavailable)?.user(),
                }
            }
        };
        // Asked of the throttle first: not every request of the day needs a look into the store.
        if admit(&self.guard.noted, &(network(from), user.id.0)).is_ok() {
            self.record(Act::CameByProxy, &Actor::person(&user.email, from), "").await?;
        }
        Ok(user)
    }

    async fn hash(&self, password: Password) -> Result<String, AppError> {
        let hash = self.in_turn(move || Argon2::default().hash_password(password.expose().as_bytes())).await?;
        Ok(hash.map_err(|error| internal(&error))?.to_string())
    }

    /// Whether the password is the one of the hash; without a hash the same work, and no.
    async fn verify(&self, password: Password, hash: Option<String>) -> Result<bool, AppError> {
        if !Password::CHARS.contains(&password.expose().chars().count()) {
            return Ok(false);
        }
        let work = move || match hash {
            Some(hash) => Argon2::default().verify_password(password.expose().as_bytes(), hash.as_str()).is_ok(),
            None => Argon2::default().hash_password(password.expose().as_bytes()).is_err(),
        };
        self.in_turn(work).await
    }

    /// Runs heavy work on a thread of its own when its turn comes. The turn ends with the work, even if nobody waits for it any more.
    async fn in_turn<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, AppError> {
        let permit = self.guard.hashing.clone().acquire_owned().await.map_err(|_| AppError::Unavailable)?;
        let done = tokio::task::spawn_blocking(move || {
            let done = work();
            drop(permit);
            done
        });
        done.await.map_err(|error| internal(&error))
    }
}

impl Guard {
    fn admit_address(&self, from: IpAddr) -> Result<(), AppError> {
        admit(&self.by_address, &network(from))
    }

    fn admit_email(&self, from: IpAddr, email: &String) -> Result<(), AppError> {
        admit(&self.by_email, &(network(from), email.clone()))?;
        admit(&self.by_email_anywhere, email)
    }
}

/// Lets one more through, or says how long to wait.
pub fn admit<K: Clone + Eq + std::hash::Hash>(throttle: &DefaultKeyedRateLimiter<K>, key: &K) -> Result<(), AppError> {
    if throttle.len() > THROTTLE_KEYS {
        throttle.retain_recent();
    }
    throttle.check_key(key).map_err(|refused| {
        let wait = refused.wait_time_from(DefaultClock::default().now());
        AppError::TooMany { retry_after_s: wait.as_secs() + 1 }
    })
}

fn quota(burst: u32, period: Duration) -> Quota {
    let burst = NonZeroU32::new(burst).unwrap_or(NonZeroU32::MIN);
    Quota::with_period(period).unwrap_or(Quota::per_second(NonZeroU32::MIN)).allow_burst(burst)
}

/// Whom an address stands for: one machine, or with IPv6 the network that one customer gets.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX))),
        v4 @ IpAddr::V4(_) => v4,
    }
}

/// How an email is stored and compared; `None` for what cannot be one. Only mail itself can tell whether it exists.
pub fn email(text: &str) -> Option<String> {
    let text = text.trim().to_lowercase();
    let (name, host) = text.rsplit_once('@')?;
    let fits = text.len() <= EMAIL_MAX
        && !name.is_empty()
        && !host.is_empty()
        && !text.chars().any(|c| c.is_whitespace() || c.is_control())
        && !host.starts_with('.')
        && !host.ends_with('.');
    fits.then_some(text)
}

fn checked_email(text: &str) -> Result<String, AppError> {
    email(text)
        .ok_or_else(|| AppError::invalid("email", format!("Write an email address like name@example.org, {EMAIL_MAX} characters at most.")))
}

/// Names as the original allows them.
fn checked_username(text: &str) -> Result<String, AppError> {
    let name = text.trim().to_lowercase();
    let fits = (1..=USERNAME_MAX).contains(&name.len()) && name.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
    let allowed = format!("A username has 1 to {USERNAME_MAX} letters a to z, digits, dots, dashes and underscores.");
    if fits { Ok(name) } else { Err(AppError::invalid("username", allowed)) }
}

fn checked_password(password: Password, field: &str) -> Result<Password, AppError> {
    if Password::CHARS.contains(&password.expose().chars().count()) {
        return Ok(password);
    }
    let (least, most) = (Password::CHARS.start(), Password::CHARS.end());
    Err(AppError::invalid(field, format!("A password has {least} to {most} characters.")))
}

/// The part of a key that is kept in the clear; the operator may name a key by it or by the whole.
pub fn key_prefix(key: &str) -> &str {
    key.get(..KEY_SHOWN).unwrap_or(key)
}

fn wrong_credentials() -> AppError {
    AppError::invalid("password", "The email or the password is wrong.")
}

fn internal(error: &dyn std::error::Error) -> AppError {
    let id = uuid::Uuid::new_v4().simple().to_string();
    tracing::error!(error_id = %id, %error, "hashing a password failed");
    AppError::Internal { id }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_email_is_trimmed_and_lower_case() {
        assert_eq!(email(" Ada@Example.ORG ").as_deref(), Some("ada@example.org"));
        assert_eq!(email("\"a@b\"@example.org").as_deref(), Some("\"a@b\"@example.org"));
        let long = format!("{}@example.org", "a".repeat(EMAIL_MAX));
        for bad in ["", "ada", "@example.org", "ada@", "a b@example.org", "ada@example.org\0", "ada@.org", "ada@example.", &long] {
            assert_eq!(email(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_username_is_lower_case_and_plain() {
        assert_eq!(checked_username(" Ada.L-1_x "), Ok("ada.l-1_x".into()));
        for bad in ["", "a b", "é", "a/b", &"a".repeat(USERNAME_MAX + 1)] {
            assert!(checked_username(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn an_ipv6_customer_is_one_address_for_the_throttle() {
        let network = |text: &str| network(text.parse().unwrap()).to_string();
        assert_eq!(network("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(network("::ffff:10.0.0.1"), "10.0.0.1");
        assert_eq!(network("10.0.0.1"), "10.0.0.1");
    }

    #[test]
    fn a_throttle_lets_a_burst_through_then_says_how_long_to_wait() {
        let throttle = RateLimiter::keyed(quota(10, Duration::from_secs(30)));
        let refused: Vec<_> = (0..12).filter_map(|_| admit(&throttle, &"ada".to_owned()).err()).collect();
        assert_eq!(refused, [AppError::TooMany { retry_after_s: 30 }, AppError::TooMany { retry_after_s: 30 }]);
        assert_eq!(admit(&throttle, &"bob".to_owned()), Ok(()));
    }
}
