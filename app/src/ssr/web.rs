//! What the server functions share: who calls, and how an answer becomes a response.

use axum::http::header::{ACCEPT, SET_COOKIE};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, StatusCode};
use leptos::prelude::{expect_context, use_context};
use leptos_axum::ResponseOptions;

use super::AppState;
use super::auth::{self, Client, Token};
use crate::model::error::AppError;
use crate::model::user::User;

/// The state of the server, from the context of the running request.
pub fn state() -> AppState {
    expect_context::<AppState>()
}

/// The state and the person who calls.
pub async fn signed_in() -> Result<(AppState, User), AppError> {
    // Both before the first await: a page that is abandoned takes its context with it.
    let (Some(state), Some(parts)) = (use_context::<AppState>(), use_context::<Parts>()) else {
        return Err(AppError::Unavailable);
    };
    let user = auth::current_user(&state, &parts).await?.ok_or(AppError::NotSignedIn)?;
    Ok((state, user))
}

/// The state and the person who calls, with the right to change the account itself.
pub async fn account_owner() -> Result<(AppState, User), AppError> {
    let (Some(state), Some(parts)) = (use_context::<AppState>(), use_context::<Parts>()) else {
        return Err(AppError::Unavailable);
    };
    let caller = auth::caller(&state, &parts).await?.ok_or(AppError::NotSignedIn)?;
    Ok((state, auth::AccountOwner::of(caller)?.0))
}

/// The other end of the running request.
pub fn client() -> Client {
    Client::of(&state().config, &expect_context::<Parts>())
}

/// The session that the browser's cookie names.
pub fn session() -> Option<Token> {
    client().session(&expect_context::<Parts>().headers)
}

/// Gives the browser another session, or with `None` lets it forget the one it has.
pub fn set_session(session: Option<&Token>) {
    let cookie = session.map_or_else(|| client().sign_out_cookie(), |session| client().sign_in_cookie(session));
    if let (Some(response), Ok(cookie)) = (use_context::<ResponseOptions>(), HeaderValue::from_str(&cookie)) {
        response.append_header(SET_COOKIE, cookie);
    }
}

/// A path, unless a browser would take it for another site's address, or for that of a form.
pub fn own_path(path: &str) -> Option<&str> {
    let known =
        ["/chatgxy", "/account"].iter().any(|page| path.strip_prefix(page).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')));
    (known && path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/-_".contains(&byte))).then_some(path)
}

/// Runs a use case and gives its error the right status. A plain form is redirected and a page shows the error itself, so their
/// statuses are left alone, but for a page about nothing: that is a 404 to machines too.
pub async fn answer<T>(work: impl Future<Output = Result<T, AppError>>) -> Result<T, AppError> {
    // Read before the first await, like all of the context.
    let (response, by_script, is_form) = (use_context::<ResponseOptions>(), !accepts_html(), is_form());
    let outcome = work.await;
    if let (Err(error), Some(response)) = (&outcome, response)
        && (by_script || (!is_form && matches!(error, AppError::NotFound { .. })))
    {
        if let Ok(status) = StatusCode::from_u16(error.status()) {
            response.set_status(status);
        }
        if let Some(seconds) = error.retry_after_s() {
            response.insert_header(axum::http::header::RETRY_AFTER, seconds.into());
        }
    }
    outcome
}

/// After this call a plain form shows that page; a call by script just gets its answer.
pub fn send_forms_to(path: &str) {
    if is_form() {
        leptos_axum::redirect(path);
    }
}

/// Whether a plain form was sent.
fn is_form() -> bool {
    accepts_html() && use_context::<Parts>().is_some_and(|parts| parts.method == Method::POST)
}

/// Whether a browser asks for something to show, not a script for data.
fn accepts_html() -> bool {
    use_context::<Parts>().is_some_and(|parts| {
        parts.headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).is_some_and(|accept| accept.contains("text/html"))
    })
}

#[cfg(test)]
mod tests {
    use super::own_path;

    #[test]
    fn only_a_page_of_this_site_comes_after_the_sign_in() {
        for good in ["/chatgxy", "/chatgxy/new", "/chatgxy/a-b_c", "/account"] {
            assert_eq!(own_path(good), Some(good));
        }
        for bad in [
            "",
            "/",
            "//evil.example",
            "/\\evil",
            "https://evil.example",
            "/chatgxyz",
            "/account?x",
            "/chatgxy/\r\nx",
            "/login",
            "javascript:x",
        ] {
            assert_eq!(own_path(bad), None, "{bad}");
        }
    }
}
