//! Routes, and who may see them.

use leptos::either::Either;
use leptos::prelude::*;
use leptos_meta::{Title, provide_meta_context};
use leptos_router::components::{Redirect, Route, Router, Routes};
use leptos_router::{SsrMode, path};

use super::account::AccountPage;
use super::browser;
use super::chat::page::{ChatPage, LatestChat};
use super::sign_in::{LoginPage, RegisterPage};
use super::widgets::Icon;
use crate::api::account::viewer;
use crate::model::user::User;

/// The app.
#[component]
pub fn App() -> impl IntoView {
    provide_meta_context();
    browser::listen::install();
    view! {
        <Title formatter=|title: String| if title.is_empty() { "ChatGXY".to_owned() } else { format!("{title} · ChatGXY") } />
        <a class="skip" href="#main">
            "Skip to content"
        </a>
        <Router>
            <Routes fallback=|| view! { <NotFound /> }>
                <Route path=path!("") view=|| view! { <Redirect path="/chatgxy" /> } ssr=SsrMode::Async />
                <Route path=path!("/chatgxy") view=|| view! { <SignedIn view=|_| view! { <LatestChat /> }.into_any() /> } ssr=SsrMode::Async />
                <Route
                    path=path!("/chatgxy/:exchange")
                    view=|| view! { <SignedIn view=|user| view! { <ChatPage user /> }.into_any() /> }
                    ssr=SsrMode::Async
                />
                <Route
                    path=path!("/account")
                    view=|| view! { <SignedIn view=|user| view! { <AccountPage user /> }.into_any() /> }
                    ssr=SsrMode::Async
                />
                <Route path=path!("/login") view=LoginPage ssr=SsrMode::Async />
                <Route path=path!("/register") view=RegisterPage ssr=SsrMode::Async />
            </Routes>
        </Router>
    }
}

/// Shows a page to a signed-in person; sends anyone else to the sign-in.
#[component]
fn SignedIn(view: fn(User) -> AnyView) -> impl IntoView {
    let viewer = Resource::new_blocking(|| (), |()| viewer());
    view! {
        <Suspense fallback=|| ()>
            {move || Suspend::new(async move {
                match viewer.await {
                    Ok(Some(user)) => Either::Left(view(user)),
                    Ok(None) => Either::Right(view! { <Redirect path="/login" /> }.into_any()),
                    Err(error) => {
                        Either::Right(
                            view! {
                                <main id="main" class="card-page">
                                    <Blank title="This page could not be loaded" text=error.to_string() />
                                </main>
                            }
                                .into_any(),
                        )
                    }
                }
            })}
        </Suspense>
    }
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
            <h2>{title}</h2>
            <p>{text}</p>
            <p>
                <a class="button" href="/chatgxy">
                    "Go to conversations"
                </a>
            </p>
        </section>
    }
}
