//! The HTML document around the app.

use std::sync::Arc;

use leptos::nonce::use_nonce;
use leptos::prelude::*;
use leptos_meta::MetaTags;

use super::App;

/// Where the client's files are, for example `/pkg/1a2b3c`; the name changes with their content.
#[derive(Clone, Debug)]
pub struct Assets {
    /// The folder, without a slash at its end.
    pub pkg: Arc<str>,
}

/// Applies the chosen theme before anything is painted.
const THEME: &str = "try{const t=localStorage.getItem('chatgxy-theme');if(t==='\"dark\"')document.documentElement.dataset.theme='dark';\
     if(t==='\"light\"')document.documentElement.dataset.theme='light'}catch{}";

/// The whole page as the server sends it.
pub fn shell() -> impl IntoView {
    let Assets { pkg } = expect_context::<Assets>();
    let nonce = use_nonce();
    let boot = format!("import('{pkg}/chatgxy.js').then(m=>m.default({{module_or_path:'{pkg}/chatgxy_bg.wasm'}}).then(()=>m.hydrate()))");
    view! {
        <!DOCTYPE html>
        <html lang="en">
            <head>
                <meta charset="utf-8" />
                <meta
                    name="viewport"
                    content="width=device-width, initial-scale=1, viewport-fit=cover, interactive-widget=resizes-content"
                />
                <meta name="color-scheme" content="light dark" />
                <meta name="robots" content="noindex" />
                <link rel="icon" type="image/svg+xml" href="/favicon.svg" />
                <link rel="stylesheet" href=format!("{pkg}/chatgxy.css") />
                <link rel="modulepreload" href=format!("{pkg}/chatgxy.js") />
                <link rel="preload" href=format!("{pkg}/chatgxy_bg.wasm") r#as="fetch" r#type="application/wasm" crossorigin="anonymous" />
                <script nonce=nonce.clone() inner_html=THEME></script>
                <script type="module" nonce=nonce inner_html=boot></script>
                <MetaTags />
            </head>
            <body>
                <App />
            </body>
        </html>
    }
}
