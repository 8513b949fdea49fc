//! What comes in: query strings and bodies, whose faults are errors in our own shape.

use app::model::error::AppError;
use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use utoipa::ToSchema;

/// Programs may name things by number or by text.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum Name {
    /// The row.
    Number(i64),
    /// The row as text, or the uuid.
    Text(String),
}

impl Name {
    /// The name as the use cases take it.
    pub fn into_text(self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Text(text) => text,
        }
    }
}

/// The query string of a request.
pub struct Params<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Params<T> {
    type Rejection = AppError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, AppError> {
        let read: Result<Query<T>, QueryRejection> = Query::from_request_parts(parts, state).await;
        read.map(|Query(value)| Self(value)).map_err(|error| AppError::invalid("query", error.body_text()))
    }
}

/// A name in the path, or several. Anything that is none is simply not there.
pub struct Named<T = String>(pub T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Named<T> {
    type Rejection = AppError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, AppError> {
        let read: Result<Path<T>, _> = Path::from_request_parts(parts, state).await;
        read.map(|Path(name)| Self(name)).map_err(|_| AppError::not_found("This address"))
    }
}

/// The JSON body of a request.
pub struct Body<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = AppError;

    async fn from_request(request: Request, state: &S) -> Result<Self, AppError> {
        let read: Result<Json<T>, JsonRejection> = Json::from_request(request, state).await;
        read.map(|Json(value)| Self(value)).map_err(|error| AppError::invalid("body", error.body_text()))
    }
}

/// The JSON body of a request, which may be empty.
pub struct OptionalBody<T>(pub T);

impl<T: DeserializeOwned + Default, S: Send + Sync> FromRequest<S> for OptionalBody<T> {
    type Rejection = AppError;

    async fn from_request(request: Request, state: &S) -> Result<Self, AppError> {
        if axum::body::HttpBody::size_hint(request.body()).exact() == Some(0) {
            return Ok(Self(T::default()));
        }
        Body::from_request(request, state).await.map(|Body(value)| Self(value))
    }
}
