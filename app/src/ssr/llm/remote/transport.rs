//! The HTTP client behind the library, and what must be changed in its requests before they are sent.

use std::time::Duration;

use axum::body::Bytes;
use rig_core::http_client::{self, HeaderValue, HttpClientExt, LazyBody, MultipartForm, Request, Response, StreamingResponse, Uri};
use rig_core::wasm_compat::WasmCompatSend;
use rig_reqwest::ReqwestClient;
use rig_reqwest::reqwest::redirect::Policy;
use rig_reqwest::reqwest::{Client, Url};
use serde_json::Value;

use super::{Limits, Provider};
use crate::ssr::llm::settings::Secret;

/// Beyond our own limits: a connection that a cancelled timer forgot does not stay for ever.
const BACKSTOP: Duration = Duration::from_secs(30);

/// Sends what the library built.
#[derive(Clone)]
pub(super) struct Transport {
    http: ReqwestClient,
    change: Change,
}

#[derive(Clone)]
enum Change {
    Nothing,
    /// The library writes texts as lists of parts, which strict servers do not take.
    PlainTexts,
    /// The library writes Gemini's key into the address, from where it would get into errors and logs.
    KeyIntoHeader(HeaderValue),
}

impl Transport {
    pub(super) fn new(provider: Provider, base_url: Option<&str>, key: Option<&Secret>, limits: Limits) -> Result<Self, String> {
        let http = builder(base_url.unwrap_or("https://"), limits.connect)
            .read_timeout(limits.first_token.max(limits.idle) + BACKSTOP)
            .build()
            .map_err(|_| NO_CLIENT.to_owned())?;
        let change = match (provider, key) {
            (Provider::OpenAi, _) => Change::PlainTexts,
            (Provider::Gemini, Some(key)) => {
                let mut value = HeaderValue::from_str(key.expose()).map_err(|_| "the key is not usable as a header")?;
                value.set_sensitive(true);
                Change::KeyIntoHeader(value)
            }
            _ => Change::Nothing,
        };
        Ok(Self { http: http.into(), change })
    }

    fn change(&self, request: Request<Bytes>) -> Request<Bytes> {
        let (mut parts, mut body) = request.into_parts();
        match &self.change {
            Change::Nothing => {}
            Change::PlainTexts => body = plain_texts(body),
            Change::KeyIntoHeader(key) => {
                parts.uri = without_key(parts.uri);
                parts.headers.insert("x-goog-api-key", key.clone());
            }
        }
        Request::from_parts(parts, body)
    }
}

const NO_CLIENT: &str =
    "the HTTPS client cannot start, most likely because this machine has no certificates: install the package ca-certificates";

/// A client for one address without a key, for a short look.
pub(in crate::ssr::llm) fn plain_client(address: &str, patience: Duration) -> Result<Client, String> {
    builder(address, patience).build().map_err(|_| NO_CLIENT.to_owned())
}

fn builder(address: &str, connect: Duration) -> rig_reqwest::reqwest::ClientBuilder {
    let mut builder = Client::builder()
        .user_agent(concat!("chatgxy/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(connect)
        // A model API never redirects; following would carry keys to another place.
        .redirect(Policy::none());
    if let Ok(url) = Url::parse(address) {
        if url.scheme() == "http" {
            // A bare machine has no certificates, and without HTTPS needs none.
            builder = builder.tls_certs_only([]);
        }
        if url.host_str().is_some_and(|host| host == "localhost" || host.starts_with("127.") || host == "[::1]") {
            builder = builder.no_proxy();
        }
    }
    builder
}

fn without_key(uri: Uri) -> Uri {
    let text = uri.to_string();
    let Some((path, query)) = text.split_once('?') else { return uri };
    let kept: Vec<&str> = query.split('&').filter(|pair| !pair.starts_with("key=")).collect();
    let text = if kept.is_empty() { path.to_owned() } else { format!("{path}?{}", kept.join("&")) };
    text.parse().unwrap_or(uri)
}

fn plain_texts(body: Bytes) -> Bytes {
    let Ok(mut json) = serde_json::from_slice::<Value>(&body) else { return body };
    let Some(messages) = json["messages"].as_array_mut() else { return body };
    for message in messages {
        let texts = message["content"].as_array().and_then(|parts| {
            let texts = parts.iter().map(|part| part["text"].as_str().filter(|_| part["type"] == "text"));
            texts.collect::<Option<Vec<_>>>()
        });
        if let Some(texts) = texts {
            message["content"] = texts.join("\n\n").into();
        }
    }
    serde_json::to_vec(&json).map_or(body, Bytes::from)
}

impl HttpClientExt for Transport {
    fn send<T, U>(&self, request: Request<T>) -> impl Future<Output = http_client::Result<Response<LazyBody<U>>>> + WasmCompatSend + 'static
    where
        T: Into<Bytes> + WasmCompatSend,
        U: From<Bytes> + WasmCompatSend + 'static,
    {
        self.http.send(self.change(request.map(Into::into)))
    }

    fn send_multipart<U>(
        &self,
        request: Request<MultipartForm>,
    ) -> impl Future<Output = http_client::Result<Response<LazyBody<U>>>> + WasmCompatSend + 'static
    where
        U: From<Bytes> + WasmCompatSend + 'static,
    {
        self.http.send_multipart(request)
    }

    fn send_streaming<T>(&self, request: Request<T>) -> impl Future<Output = http_client::Result<StreamingResponse>> + WasmCompatSend
    where
        T: Into<Bytes> + WasmCompatSend,
    {
        self.http.send_streaming(self.change(request.map(Into::into)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_are_sent_plainly_and_other_parts_as_they_are() {
        let picture = json!([{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": "x"}}]);
        let body = json!({"model": "m", "messages": [
            {"role": "system", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
            {"role": "user", "content": "c"},
            {"role": "user", "content": picture},
        ]});
        let changed: Value = serde_json::from_slice(&plain_texts(body.to_string().into())).unwrap();
        assert_eq!(changed["messages"][0]["content"], "a\n\nb");
        assert_eq!(changed["messages"][1], body["messages"][1]);
        assert_eq!(changed["messages"][2], body["messages"][2]);
        assert_eq!(plain_texts(Bytes::from_static(b"not json")), "not json");
    }

    #[test]
    fn the_key_is_taken_out_of_the_address() {
        let cases = [
            ("https://a/b?alt=sse&key=", "https://a/b?alt=sse"),
            ("https://a/b?key=x", "https://a/b"),
            ("https://a/b?monkey=x&key=y&c=d", "https://a/b?monkey=x&c=d"),
            ("https://a/b", "https://a/b"),
        ];
        for (before, after) in cases {
            assert_eq!(without_key(before.parse().unwrap()), after.parse::<Uri>().unwrap());
        }
    }
}
