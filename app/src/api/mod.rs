//! What the browser calls: server functions, each a few lines over one use case.
//!
//! They answer [`AppError`] with its status; a plain form (JavaScript off) is sent back to the page it came from instead.

#![allow(missing_docs, reason = "the server macro makes a struct of each function's arguments")]

pub mod account;
pub mod chat;

use serde::Serialize;
use serde::de::DeserializeOwned;
use server_fn::codec::Post;
use server_fn::error::{FromServerFnError, ServerFnErrorErr};
use server_fn::{Bytes, ContentType, Decodes, Encodes, Format, FormatType};

use crate::model::error::AppError;

/// JSON, read as text like everything else that the client reads: from bytes, the client would hold each reader of a type twice.
pub struct TextJson;

/// How server functions answer.
pub type Answer = Post<TextJson>;

impl ContentType for TextJson {
    const CONTENT_TYPE: &'static str = "application/json";
}

impl FormatType for TextJson {
    const FORMAT_TYPE: Format = Format::Text;
}

impl<T: Serialize> Encodes<T> for TextJson {
    type Error = serde_json::Error;

    fn encode(output: &T) -> Result<Bytes, Self::Error> {
        serde_json::to_string(output).map(Bytes::from)
    }
}

impl<T: DeserializeOwned> Decodes<T> for TextJson {
    type Error = serde_json::Error;

    fn decode(bytes: Bytes) -> Result<T, Self::Error> {
        // What is no text is no JSON either.
        serde_json::from_str(std::str::from_utf8(&bytes).unwrap_or_default())
    }
}

/// What went wrong on the way. The transport's own words stay out: they may quote the answer of something in between.
impl FromServerFnError for AppError {
    type Encoder = TextJson;

    fn from_server_fn_error(error: ServerFnErrorErr) -> Self {
        match error {
            ServerFnErrorErr::Args(_) | ServerFnErrorErr::MissingArg(_) | ServerFnErrorErr::Deserialization(_) => {
                Self::invalid("request", "The request could not be read. Reload the page and try again.")
            }
            ServerFnErrorErr::Request(_) | ServerFnErrorErr::Response(_) => Self::Transport,
            _ => Self::Unavailable,
        }
    }
}
