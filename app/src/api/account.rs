//! Server functions of accounts.

use leptos::server;
use serde::{Deserialize, Serialize};

use crate::model::error::AppError;
use crate::model::user::{ApiKey, Password, Scope, User};

/// What the account page shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountView {
    /// The signed-in person.
    pub user: User,
    /// Their keys, oldest first.
    pub keys: Vec<ApiKey>,
    /// What answers.
    pub model: ModelStatus,
}

/// What people may know of the server's settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelStatus {
    /// The model that answers.
    pub name: String,
    /// It only pretends.
    pub demo: bool,
    /// Whether anyone may make an account.
    pub registration_open: bool,
}

/// A key that has just been made.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreatedKey {
    /// The key as it can be shown again.
    pub key: ApiKey,
    /// The whole key, shown this once.
    pub secret: String,
}

impl std::fmt::Debug for CreatedKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CreatedKey").field("key", &self.key).finish_non_exhaustive()
    }
}

/// Signs this browser in, with a new session; a form then shows `next`, a path of this site.
#[server(prefix = "/api/fn", endpoint = "account/login", output = crate::api::Answer)]
pub async fn login(email: String, password: Password, #[server(default)] next: String) -> Result<(), AppError> {
    use crate::ssr::web;
    web::answer(async {
        let (accounts, client) = (web::state().accounts, web::client());
        let signed_in = accounts.sign_in(client.ip, &email, password, web::session().as_ref()).await?;
        web::set_session(Some(&signed_in.session));
        leptos_axum::redirect(web::own_path(&next).unwrap_or("/chatgxy"));
        Ok(())
    })
    .await
}

/// Makes an account and signs this browser in.
#[server(prefix = "/api/fn", endpoint = "account/register", output = crate::api::Answer)]
pub async fn register(email: String, password: Password) -> Result<(), AppError> {
    use crate::ssr::web;
    web::answer(async {
        let signed_in = web::state().accounts.register(web::client().ip, &email, password).await?;
        web::set_session(Some(&signed_in.session));
        leptos_axum::redirect("/chatgxy");
        Ok(())
    })
    .await
}

/// Ends this browser's session, at once.
#[server(prefix = "/api/fn", endpoint = "account/logout", output = crate::api::Answer)]
pub async fn logout() -> Result<(), AppError> {
    use crate::ssr::web;
    web::answer(async {
        if let Some(session) = web::session() {
            web::state().accounts.sign_out(web::client().ip, &session).await?;
        }
        web::set_session(None);
        leptos_axum::redirect("/login");
        Ok(())
    })
    .await
}

/// Replaces the password; every other session ends at once.
#[server(prefix = "/api/fn", endpoint = "account/password", output = crate::api::Answer)]
pub async fn change_password(current: Password, new: Password) -> Result<(), AppError> {
    use crate::ssr::web;
    web::answer(async {
        let ip = web::client().ip;
        let (state, user) = web::account_owner().await?;
        let session = state.accounts.change_password(ip, &user, current, new).await?;
        web::set_session(Some(&session));
        web::send_forms_to("/account?changed=1");
        Ok(())
    })
    .await
}

/// What the account page shows.
#[server(prefix = "/api/fn", endpoint = "account/view", output = crate::api::Answer)]
pub async fn account() -> Result<AccountView, AppError> {
    use crate::ssr::web;
    web::answer(async {
        let (state, user) = web::account_owner().await?;
        let model = state.engine.registry().model();
        let registration_open = state.accounts.registration_open();
        let model = ModelStatus { name: model.name().to_owned(), demo: model.is_demo(), registration_open };
        Ok(AccountView { keys: state.accounts.keys(&user).await?, user, model })
    })
    .await
}

/// Makes an API key; one for chatting, when its scope is not said.
#[server(prefix = "/api/fn", endpoint = "account/create-key", output = crate::api::Answer)]
pub async fn create_key(name: String, #[server(default)] scope: Option<Scope>) -> Result<CreatedKey, AppError> {
    use crate::ssr::audit::Actor;
    use crate::ssr::web;
    web::answer(async {
        let ip = web::client().ip;
        let (state, user) = web::account_owner().await?;
        let made = state.accounts.create_key(&Actor::person(&user.email, ip), &user, &name, scope.unwrap_or(Scope::Chat)).await?;
        Ok(CreatedKey { key: made.key, secret: made.secret.expose().to_owned() })
    })
    .await
}

/// Revokes an API key, at once.
#[server(prefix = "/api/fn", endpoint = "account/revoke-key", output = crate::api::Answer)]
pub async fn revoke_key(id: i64) -> Result<(), AppError> {
    use crate::ssr::web;
    web::answer(async {
        let ip = web::client().ip;
        let (state, user) = web::account_owner().await?;
        state.accounts.revoke_key(ip, &user, id).await?;
        web::send_forms_to("/account");
        Ok(())
    })
    .await
}
