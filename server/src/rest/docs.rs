//! The description of the API, and a page to try it.

use app::ssr::AppState;
use axum::extract::Request;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_SECURITY_POLICY;
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::get;
use axum::{Json, Router};
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, SecurityScheme};
use utoipa::openapi::{Components, Content, OpenApi, PathItem, Ref, RefOr, Response as Described};
use utoipa::{Modify, OpenApi as Derive, ToSchema};
use utoipa_swagger_ui::{Config, SwaggerUi};

use super::ErrorBody;

const DESCRIPTION: &str = "/api/openapi.json";

/// What is not said by a handler.
#[derive(Derive)]
#[openapi(
    info(title = "ChatGXY", description = "Chats with agents for scientists: durable turns, in the shapes of Galaxy's chat API and of the AI SDK."),
    components(schemas(ErrorBody)),
    modifiers(&Credentials),
    security(("key" = []), ("session" = [])),
    tags(
        (name = "chat", description = "Conversations"),
        (name = "agents", description = "Who answers"),
        (name = "account", description = "Who calls, and the accounts"),
        (name = "server", description = "The server itself"),
    )
)]
pub struct Description;

struct Credentials;

impl Modify for Credentials {
    fn modify(&self, description: &mut OpenApi) {
        let components = description.components.get_or_insert_with(Components::new);
        let key = ApiKeyValue::with_description("x-api-key", "An API key, from the account page or `chatgxy key add`");
        components.add_security_scheme("key", SecurityScheme::ApiKey(ApiKey::Header(key)));
        let session = ApiKeyValue::with_description("chatgxy_session", "The session of a signed-in browser");
        components.add_security_scheme("session", SecurityScheme::ApiKey(ApiKey::Cookie(session)));
    }
}

/// Adds what holds for every operation: an error has one shape.
pub fn finished(mut description: OpenApi) -> OpenApi {
    for item in description.paths.paths.values_mut() {
        for operation in operations(item) {
            let mut error = Described::new(
                "What went wrong: 400 bad input, 401 no credentials, 403 not allowed, 404 unknown or someone else's, 409 busy, 413 too large, 429 too many (with `Retry-After`)",
            );
            error.content.insert("application/json".into(), RefOr::T(Content::new(Some(Ref::from_schema_name(ErrorBody::name())))));
            operation.responses.responses.insert("default".into(), RefOr::T(error));
        }
    }
    description
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [&mut item.get, &mut item.put, &mut item.post, &mut item.delete, &mut item.patch].into_iter().filter_map(Option::as_mut)
}

/// `/api/openapi.json`, and `/api/docs`.
pub fn routes(description: OpenApi) -> Router<AppState> {
    let description = finished(description);
    let page = Router::<AppState>::from(SwaggerUi::new("/api/docs").config(Config::from(DESCRIPTION).try_it_out_enabled(true)))
        .layer(middleware::from_fn(own_policy));
    Router::new().route(DESCRIPTION, get(move || async move { Json(description) })).merge(page)
}

/// The page's scripts and styles are files of this server; it may call nothing else.
async fn own_policy(request: Request, next: Next) -> Response {
    let policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                  frame-ancestors 'none'; base-uri 'none'; form-action 'none'";
    let mut response = next.run(request).await;
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    response
}
