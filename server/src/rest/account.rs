//! Who calls, and for administrators the accounts.

use app::model::error::AppError;
use app::model::ids::UserId;
use app::model::user::{Password, Scope, User};
use app::ssr::account::{Accounts, NewUser};
use app::ssr::audit::Actor;
use app::ssr::auth::{AccountOwner, Administrator, Client, CurrentUser};
use app::ssr::db::Db;
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::input::{Body, Named, Params};

/// The version of the server.
#[derive(Serialize, ToSchema)]
pub struct Version {
    /// Major and minor.
    version_major: &'static str,
    /// The rest.
    version_minor: &'static str,
}

/// The version of the server; needs no account.
#[utoipa::path(get, path = "/api/version", tag = "server", security(()),
    responses((status = 200, description = "The version", body = Version)))]
pub async fn version() -> Json<Version> {
    let (version_major, version_minor) = version_of_server();
    Json(Version { version_major, version_minor })
}

/// Major with minor, and the rest.
pub fn version_of_server() -> (&'static str, &'static str) {
    let version = env!("CARGO_PKG_VERSION");
    version.rsplit_once('.').unwrap_or((version, ""))
}

/// A person.
#[derive(Serialize, ToSchema)]
pub struct Person {
    id: i64,
    email: String,
    /// The name they were given, else the part of the email before the `@`.
    username: String,
    /// May see and change other accounts.
    admin: bool,
    is_admin: bool,
}

impl From<User> for Person {
    fn from(user: User) -> Self {
        Self { id: user.id.0, username: user.username, admin: user.admin, is_admin: user.admin, email: user.email }
    }
}

/// The person who calls, or `null`.
#[utoipa::path(get, path = "/api/whoami", tag = "account", security((), ("key" = []), ("session" = [])),
    responses((status = 200, description = "The person, or null", body = Option<Person>)))]
pub async fn whoami(user: Result<CurrentUser, AppError>) -> Result<Json<Option<Person>>, AppError> {
    match user {
        Ok(CurrentUser(user)) => Ok(Json(Some(user.into()))),
        Err(AppError::NotSignedIn) => Ok(Json(None)),
        Err(error) => Err(error),
    }
}

/// The person who calls.
#[utoipa::path(get, path = "/api/users/current", tag = "account", responses((status = 200, description = "The person", body = Person)))]
pub async fn current(CurrentUser(user): CurrentUser) -> Json<Person> {
    Json(user.into())
}

/// All accounts for an administrator, else the caller alone.
#[utoipa::path(get, path = "/api/users", tag = "account", responses((status = 200, description = "The accounts", body = Vec<Person>)))]
pub async fn list(State(db): State<Db>, CurrentUser(user): CurrentUser) -> Result<Json<Vec<Person>>, AppError> {
    let users = if user.admin { db.users().await? } else { vec![user] };
    Ok(Json(users.into_iter().map(Person::from).collect()))
}

/// A new account.
#[derive(Deserialize, ToSchema)]
pub struct NewPerson {
    /// What the person signs in with.
    email: Option<String>,
    /// The same, as the original's programs send it.
    remote_user_email: Option<String>,
    /// What programs call the person.
    username: Option<String>,
    /// 8 to 200 characters.
    #[schema(value_type = String)]
    password: Password,
}

/// Makes an account; for administrators.
#[utoipa::path(post, path = "/api/users", tag = "account", request_body = NewPerson,
    responses((status = 200, description = "The account", body = Person)))]
pub async fn add(
    State(accounts): State<Accounts>,
    Administrator(admin): Administrator,
    client: Client,
    Body(new): Body<NewPerson>,
) -> Result<Json<Person>, AppError> {
    let email = new.email.or(new.remote_user_email).ok_or_else(|| AppError::invalid("email", "The email is missing."))?;
    let new = NewUser { email, username: new.username, password: new.password, admin: false };
    Ok(Json(accounts.add(&Actor::person(&admin.email, client.ip), new).await?.into()))
}

/// What the new key may do.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct KeyQuery {
    /// `read`, `chat` or `admin`; default `admin`: all that the owner may.
    scope: Option<String>,
}

/// Makes an API key for an account; for its owner and for administrators. The key is shown this once.
#[utoipa::path(post, path = "/api/users/{id}/api_key", tag = "account",
    params(("id" = String, Path, description = "Number of the account"), KeyQuery),
    responses((status = 200, description = "The key", body = String)))]
pub async fn make_key(
    State(db): State<Db>,
    State(accounts): State<Accounts>,
    AccountOwner(caller): AccountOwner,
    client: Client,
    Named(id): Named,
    Params(params): Params<KeyQuery>,
) -> Result<Json<String>, AppError> {
    let scope = params.scope.map_or(Some(Scope::Admin), |name| Scope::parse(&name));
    let scope = scope.ok_or_else(|| AppError::invalid("scope", "The scope is read, chat or admin."))?;
    let nobody = || AppError::not_found("The account");
    let id = UserId(id.parse().map_err(|_| nobody())?);
    if caller.id != id && !caller.admin {
        return Err(nobody());
    }
    let owner = db.account_by_id(id).await?.ok_or_else(nobody)?.user();
    let made = accounts.create_key(&Actor::person(&caller.email, client.ip), &owner, "API", scope).await?;
    Ok(Json(made.secret.expose().to_owned()))
}
