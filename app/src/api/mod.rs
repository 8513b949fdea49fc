//! What the browser calls: server functions, each a few lines over one use case.
//!
//! They answer [`AppError`] with its status; a plain form (JavaScript off) is sent back to the page it came from instead.

#![allow(missing_docs, reason = "the server macro makes a struct of each function's arguments")]

pub mod account;
pub mod chat;

use server_fn::codec::JsonEncoding;
use server_fn::error::{FromServerFnError, ServerFnErrorErr};

use crate::model::error::AppError;

/// What went wrong on the way. The transport's own words stay out: they may quote the answer of something in between.
impl FromServerFnError for AppError {
    type Encoder = JsonEncoding;

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
