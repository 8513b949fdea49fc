//! What is served where.

use app::model::error::AppError;
use app::ssr::auth::CurrentUser;
use app::ssr::{AppState, chat};
use app::ui::App;
use app::ui::shell::{Assets, shell};
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use axum::{Extension, Router, middleware};
use leptos::nonce::use_nonce;
use leptos::prelude::{provide_context, use_context};
use leptos_axum::{LeptosRoutes, ResponseOptions, generate_route_list, render_app_async_with_context};
use tower_http::CompressionLevel;
use tower_http::compression::CompressionLayer;

use crate::metrics::Metrics;
use crate::{assets, functions, guard, image, log, rest, sse};

/// Everything, from the request's first byte to the response's last.
pub fn router(state: &AppState, forms: functions::Forms) -> Router {
    let metrics = Metrics::new();
    Router::new()
        // Pages, and with them the server functions under /api/fn.
        .leptos_routes_with_context(state, generate_route_list(App), page_context(state, StatusCode::OK), shell)
        .layer(middleware::from_fn_with_state(state.clone(), guard::pages))
        .route("/", get(latest_conversation))
        .route("/chatgxy", get(latest_conversation))
        .route("/image", get(image::frame))
        .merge(rest::routes())
        .route("/pkg/{*path}", get(assets::pkg))
        .fallback(public_file_or_no_page)
        .method_not_allowed_fallback(rest::wrong_method)
        .layer(CompressionLayer::new().quality(CompressionLevel::Fastest))
        // Streams are never compressed; an idle one would hold a compressor all the same.
        .route("/chatgxy/turns/{id}/events", get(sse::events))
        // The last one is the first to see a request.
        .layer(middleware::from_fn_with_state(guard::ANSWER_TIME, guard::limit_time))
        .layer(middleware::from_fn_with_state(forms, functions::mend))
        .layer(middleware::from_fn(guard::limit_body))
        .layer(middleware::from_fn_with_state(state.clone(), guard::refuse_other_sites))
        .layer(middleware::from_fn_with_state(guard::Throttle::new(state.config.clone()), guard::slow_down))
        .layer(Extension(metrics.clone()))
        .layer(middleware::from_fn_with_state(metrics, log::one_line))
        .layer(middleware::from_fn_with_state(state.clone(), guard::add_headers))
        .with_state(state.clone())
}

/// What the components of a page find in their context, and the headers that only the renderer knows.
fn page_context(state: &AppState, status: StatusCode) -> impl Fn() + Clone + Send + Sync + 'static {
    let state = state.clone();
    move || {
        provide_context(state.clone());
        provide_context(Assets { pkg: state.site.pkg.clone() });
        if let Some(response) = use_context::<ResponseOptions>() {
            if let Some(nonce) = use_nonce() {
                let (name, value) = guard::page_policy(&nonce);
                response.insert_header(name, value);
            }
            if status != StatusCode::OK {
                response.set_status(status);
            }
        }
    }
}

/// The page to begin with: the conversation with the latest activity, else a new one; the sign-in for a stranger.
async fn latest_conversation(State(state): State<AppState>, user: Result<CurrentUser, AppError>) -> Result<Redirect, AppError> {
    match user {
        Ok(CurrentUser(user)) => {
            let latest = chat::latest(&state.db, user.id).await?;
            Ok(Redirect::to(&latest.map_or_else(|| "/chatgxy/new".to_owned(), |uuid| format!("/chatgxy/{uuid}"))))
        }
        Err(AppError::NotSignedIn) => Ok(Redirect::to("/login")),
        Err(error) => Err(error),
    }
}

/// A file of the site's root, else a page that says there is none.
async fn public_file_or_no_page(State(state): State<AppState>, request: Request) -> Response {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return rest::unknown().await.into_response();
    }
    match assets::public(request.uri().path(), request.headers()) {
        Some(file) => file,
        None => render_app_async_with_context(page_context(&state, StatusCode::NOT_FOUND), shell)(request).await,
    }
}
