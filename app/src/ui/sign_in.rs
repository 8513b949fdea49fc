//! Sign in and register. Plain forms: they work before, and without, scripts.

use leptos::prelude::*;
use leptos_meta::Title;
use leptos_router::hooks::use_query_map;
use server_fn::ServerFn;
use server_fn::error::ServerFnUrlError;

use super::widgets::Icon;
use crate::api::account::{Login, Register};
use crate::model::error::AppError;

/// The error of a form: from its action, or from the address when the form was sent without scripts.
pub fn form_error<F>(action: ServerAction<F>) -> Signal<String>
where
    F: ServerFn<Error = AppError> + Clone + Send + Sync + 'static,
    F::Output: Clone + Send + Sync + 'static,
    F::Error: Clone + Send + Sync + 'static,
{
    let query = use_query_map();
    Signal::derive(move || match action.value().get() {
        Some(Err(error)) => error.to_string(),
        Some(Ok(_)) => String::new(),
        None => query.with(|query| {
            let mine = query.get_str("__path").is_some_and(|path| path == F::PATH);
            let error = query.get_str("__err").filter(|_| mine).map(ServerFnUrlError::<AppError>::decode_err);
            error.map(|error| error.to_string()).unwrap_or_default()
        }),
    })
}

/// `/login`
#[component]
pub fn LoginPage() -> impl IntoView {
    let action = ServerAction::<Login>::new();
    let error = form_error(action);
    view! {
        <Title text="Sign in" />
        <main id="main" class="card-page">
            <p class="card-brand">
                <Icon name="logo" />
                "ChatGXY"
            </p>
            <section class="card">
                <h1>"Sign in"</h1>
                <ActionForm action attr:class="form">
                    <p class="form-error" role="alert">{error}</p>
                    <label class="field">
                        <span>"Email"</span>
                        <input class="input" type="email" name="email" autocomplete="username" required />
                    </label>
                    <label class="field">
                        <span>"Password"</span>
                        <input class="input" type="password" name="password" autocomplete="current-password" required />
                    </label>
                    <button class="button" data-kind="primary" aria-busy=move || action.pending().get().to_string()>
                        "Sign in"
                    </button>
                </ActionForm>
                <p class="card-foot">"No account? " <a href="/register">"Create one"</a></p>
            </section>
        </main>
    }
}

/// `/register`
#[component]
pub fn RegisterPage() -> impl IntoView {
    let action = ServerAction::<Register>::new();
    let error = form_error(action);
    view! {
        <Title text="Create an account" />
        <main id="main" class="card-page">
            <p class="card-brand">
                <Icon name="logo" />
                "ChatGXY"
            </p>
            <section class="card">
                <h1>"Create an account"</h1>
                <ActionForm action attr:class="form">
                    <p class="form-error" role="alert">{error}</p>
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
                    <button class="button" data-kind="primary" aria-busy=move || action.pending().get().to_string()>
                        "Create account"
                    </button>
                </ActionForm>
                <p class="card-foot">"Have an account? " <a href="/login">"Sign in"</a></p>
            </section>
        </main>
    }
}
