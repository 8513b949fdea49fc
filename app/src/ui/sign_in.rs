//! Sign in and register. Plain forms that load the next page whole: they work without scripts, and nothing of one person's stay is
//! left in memory for the next.

use leptos::prelude::*;
use leptos_meta::Title;
use leptos_router::hooks::use_query_map;
use server_fn::ServerFn;
use server_fn::error::ServerFnUrlError;

use super::widgets::{FormError, Icon};
use crate::api::account::{Login, Register};
use crate::model::error::AppError;

/// What went wrong with a form, from the address of the page that the server sent it back to.
pub fn form_error<F: ServerFn>() -> String {
    use_query_map().with_untracked(|query| {
        let mine = query.get_str("__path").is_some_and(|path| path == F::PATH);
        let error = query.get_str("__err").filter(|_| mine).map(ServerFnUrlError::<AppError>::decode_err);
        error.map(|error| error.to_string()).unwrap_or_default()
    })
}

/// Where the person was going, for the form to pass on.
#[component]
fn Next() -> impl IntoView {
    let next = use_query_map().with_untracked(|query| query.get_str("next").unwrap_or_default().to_owned());
    view! { <input type="hidden" name="next" value=next /> }
}

/// `/login`
#[component]
pub fn LoginPage() -> impl IntoView {
    view! {
        <Title text="Sign in" />
        <main id="main" class="card-page">
            <p class="card-brand">
                <Icon name="logo" />
                "ChatGXY"
            </p>
            <section class="card">
                <h1>"Sign in"</h1>
                <form class="form" method="post" action=Login::PATH>
                    <FormError text={form_error::<Login>()} />
                    <Next />
                    <label class="field">
                        <span>"Email"</span>
                        <input class="input" type="email" name="email" autocomplete="username" required />
                    </label>
                    <label class="field">
                        <span>"Password"</span>
                        <input class="input" type="password" name="password" autocomplete="current-password" required />
                    </label>
                    <button class="button" data-kind="primary">"Sign in"</button>
                </form>
                <p class="card-foot">"No account? " <a href="/register">"Create one"</a></p>
            </section>
        </main>
    }
}

/// `/register`
#[component]
pub fn RegisterPage() -> impl IntoView {
    view! {
        <Title text="Create an account" />
        <main id="main" class="card-page">
            <p class="card-brand">
                <Icon name="logo" />
                "ChatGXY"
            </p>
            <section class="card">
                <h1>"Create an account"</h1>
                <form class="form" method="post" action=Register::PATH>
                    <FormError text={form_error::<Register>()} />
                    <label class="field">
                        <span>"Email"</span>
                        <input class="input" type="email" name="email" autocomplete="username" maxlength="254" required />
                    </label>
                    <label class="field">
                        <span>"Password"</span>
                        <input
                            class="input"
                            type="password"
                            name="password"
                            autocomplete="new-password"
                            minlength="8"
                            maxlength="200"
                            aria-describedby="password-hint"
                            required
                        />
                        <small id="password-hint">"At least 8 characters."</small>
                    </label>
                    <button class="button" data-kind="primary">"Create account"</button>
                </form>
                <p class="card-foot">"Have an account? " <a href="/login">"Sign in"</a></p>
            </section>
        </main>
    }
}
