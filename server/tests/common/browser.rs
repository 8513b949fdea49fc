//! Somebody at a browser: one cookie, requests as a page's script or as a plain form sends them.

use std::sync::{Arc, Mutex};

use reqwest::header::{ACCEPT, CONTENT_TYPE, COOKIE, LOCATION, REFERER, SET_COOKIE};
use reqwest::{Method, RequestBuilder, Response, Url};
use serde_json::Value;

/// A browser without a screen. A clone shares its cookie.
#[derive(Clone)]
pub struct Browser {
    pub base: String,
    pub http: reqwest::Client,
    cookie: Arc<Mutex<Option<String>>>,
}

impl Browser {
    pub fn new(base: &str) -> Self {
        let http = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
        Self { base: base.to_owned(), http, cookie: Arc::default() }
    }

    /// The cookie, name and value.
    pub fn cookie(&self) -> Option<String> {
        self.cookie.lock().unwrap().clone()
    }

    /// Another browser that holds a cookie.
    pub fn with_cookie(&self, cookie: Option<String>) -> Self {
        Self { cookie: Arc::new(Mutex::new(cookie)), ..self.clone() }
    }

    /// A request with the cookie, to be completed.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.base));
        match self.cookie() {
            Some(cookie) => request.header(COOKIE, cookie),
            None => request,
        }
    }

    /// Sends it, and keeps the cookie that comes back.
    pub async fn send(&self, request: RequestBuilder) -> Response {
        let answer = request.send().await.unwrap();
        for header in answer.headers().get_all(SET_COOKIE) {
            let (pair, rest) = header.to_str().unwrap().split_once(';').unwrap();
            *self.cookie.lock().unwrap() = (!rest.contains("Max-Age=0")).then(|| pair.to_owned());
        }
        answer
    }

    pub async fn get(&self, path: &str) -> Response {
        self.send(self.request(Method::GET, path)).await
    }

    /// A page, as a browser asks for it.
    pub async fn page(&self, path: &str) -> Response {
        self.send(self.request(Method::GET, path).header(ACCEPT, "text/html")).await
    }

    /// A server function, to be completed and sent.
    pub fn function(&self, name: &str, fields: &[(&str, &str)]) -> RequestBuilder {
        let request = self.request(Method::POST, &format!("/api/fn/{name}"));
        request.header(CONTENT_TYPE, "application/x-www-form-urlencoded").body(encoded(fields))
    }

    /// A server function, called as the page's script does.
    pub async fn call(&self, name: &str, fields: &[(&str, &str)]) -> Response {
        self.send(self.function(name, fields)).await
    }

    /// A form of a page, sent without scripts; gives where it leads.
    pub async fn submit(&self, page: &str, name: &str, fields: &[(&str, &str)]) -> String {
        let form = self.function(name, fields).header(ACCEPT, "text/html,application/xhtml+xml");
        let answer = self.send(form.header(REFERER, format!("{}{page}", self.base)).header("origin", &self.base)).await;
        assert_eq!(answer.status(), 302);
        let to = answer.headers()[LOCATION].to_str().unwrap();
        to.strip_prefix(&self.base).unwrap_or(to).to_owned()
    }

    /// A question, asked as a program does.
    pub async fn ask(&self, body: Value) -> Response {
        self.send(self.request(Method::POST, "/api/chat").header(CONTENT_TYPE, "application/json").body(body.to_string())).await
    }

    /// Who the server takes this browser for.
    pub async fn viewer(&self) -> Option<String> {
        let viewer = json(self.get("/api/whoami").await).await;
        viewer.get("email").and_then(Value::as_str).map(str::to_owned)
    }
}

/// Fields as a form or a query string.
pub fn encoded(fields: &[(&str, &str)]) -> String {
    let mut url = Url::parse("http://x").unwrap();
    url.query_pairs_mut().extend_pairs(fields);
    url.query().unwrap_or_default().to_owned()
}

pub async fn json(answer: Response) -> Value {
    let text = answer.text().await.unwrap();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

pub async fn text(answer: Response) -> String {
    answer.text().await.unwrap()
}
