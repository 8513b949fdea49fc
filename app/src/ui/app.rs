//! Routes. A page whose data is refused for want of a session sends its reader to the sign-in.

use leptos::prelude::*;
use leptos_meta::{Title, provide_meta_context};
use leptos_router::components::{Route, Router, Routes};
use leptos_router::{SsrMode, path};

use super::account::AccountPage;
use super::browser;
use super::chat::page::ChatPage;
use super::sign_in::{LoginPage, RegisterPage};
use super::widgets::Icon;

/// The app.
#[component]
pub fn App() -> impl IntoView {
    provide_meta_context();
    browser::listen::install();
    view! {
        <Title formatter=|title: String| if title.is_empty() { "ChatGXY".to_owned() } else { format!("{} · ChatGXY", in_head(title)) } />
        // Not for the router: the browser itself moves the focus along.
        <a class="skip" href="#main" rel="external">
            "Skip to content"
        </a>
        <Router>
            <Routes fallback=|| view! { <NotFound /> }>
                <Route path=path!("/chatgxy/:exchange") view=ChatPage ssr=SsrMode::Async />
                <Route path=path!("/account") view=AccountPage ssr=SsrMode::Async />
                <Route path=path!("/login") view=LoginPage ssr=SsrMode::Async />
                <Route path=path!("/register") view=RegisterPage ssr=SsrMode::Async />
            </Routes>
        </Router>
    }
}

/// A title as the page's head takes it: the framework writes it into the HTML as it is.
fn in_head(title: String) -> String {
    if cfg!(feature = "ssr") { title.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;") } else { title }
}

/// A page that does not exist.
#[component]
fn NotFound() -> impl IntoView {
    view! {
        <Title text="Not found" />
        <main id="main" class="card-page">
            <Blank title="There is no such page" text="The address may be mistyped, or the page has moved.".to_owned() />
        </main>
    }
}

/// In place of something that cannot be shown.
#[component]
pub fn Blank(title: &'static str, text: String) -> impl IntoView {
    view! {
        <section class="blank">
            <Icon name="search" />
            <h1>{title}</h1>
            <p>{text}</p>
            <p>
                <a class="button" href="/chatgxy" rel="external">
                    "Go to conversations"
                </a>
            </p>
        </section>
    }
}
