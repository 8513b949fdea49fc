//! `/account`: the model that answers, password, API keys, sign out.

use leptos::either::Either;
use leptos::prelude::*;
use leptos_meta::Title;

use super::browser::{clipboard, online, storage};
use super::sign_in::form_error;
use super::widgets::{Icon, Notes, NotesView, Rail, Time};
use crate::api::account::{AccountView, ChangePassword, CreateKey, Logout, ModelStatus, RevokeKey, account};
use crate::model::user::{ApiKey, User};

/// How to name a model, by provider.
const EXAMPLES: [(&str, &str); 5] = [
    ("OpenAI", "CHATGXY_MODEL=openai:gpt-5-mini CHATGXY_MODEL_API_KEY=…"),
    ("Anthropic", "CHATGXY_MODEL=anthropic:claude-sonnet-4-5 CHATGXY_MODEL_API_KEY=…"),
    ("Gemini", "CHATGXY_MODEL=gemini:gemini-2.5-flash CHATGXY_MODEL_API_KEY=…"),
    ("Ollama", "CHATGXY_MODEL=ollama:llama3.2"),
    ("Any compatible server", "CHATGXY_MODEL=openai:NAME CHATGXY_MODEL_BASE_URL=http://127.0.0.1:8080/v1"),
];

/// The page.
#[component]
pub fn AccountPage(user: User) -> impl IntoView {
    let notes = Notes::provide();
    let create = ServerAction::<CreateKey>::new();
    let revoke = ServerAction::<RevokeKey>::new();
    let view = Resource::new_blocking(move || (create.version().get(), revoke.version().get()), |_| account());
    view! {
        <Title text="Account" />
        <div class="shell" data-history="closed">
            <Rail />
            <main id="main" class="settings" tabindex="-1">
                <div class="settings-inner">
                    <h1>"Account"</h1>
                    <p class="settings-lead">{user.email.clone()}</p>
                    <Transition fallback=|| {
                        view! {
                            <div class="skeleton" aria-hidden="true">
                                <i></i>
                                <i></i>
                                <i></i>
                            </div>
                        }
                    }>
                        {move || Suspend::new(async move {
                            match view.await {
                                Ok(AccountView { keys, model, .. }) => {
                                    Either::Left(
                                        view! {
                                            <ModelCard model />
                                            <PasswordCard />
                                            <KeysCard keys create revoke />
                                        },
                                    )
                                }
                                Err(error) => Either::Right(view! { <p class="form-error" role="alert">{error.to_string()}</p> }),
                            }
                        })}
                    </Transition>
                    <SignOutCard />
                </div>
            </main>
            <NotesView notes online=online::signal() />
        </div>
    }
}

#[component]
fn ModelCard(model: ModelStatus) -> impl IntoView {
    let answers = if model.demo { "A demo model with canned answers".to_owned() } else { model.name };
    view! {
        <section class="card" id="model" aria-labelledby="model-heading">
            <h2 id="model-heading">"Model"</h2>
            <p>
                {if model.demo {
                    "No model is connected, so a demo answers. Whoever runs this server connects a real one by these settings, then starts it again."
                } else {
                    "This model answers. Whoever runs this server can connect another one by these settings."
                }}
            </p>
            <dl class="facts">
                <div>
                    <dt>"Answers"</dt>
                    <dd>{answers}</dd>
                </div>
            </dl>
            <div class="table-scroll" tabindex="0" role="region" aria-label="Settings by provider">
                <table class="table">
                    <thead>
                        <tr>
                            <th scope="col">"Provider"</th>
                            <th scope="col">"Settings"</th>
                        </tr>
                    </thead>
                    <tbody>
                        {EXAMPLES
                            .map(|(provider, setting)| {
                                view! {
                                    <tr>
                                        <td>{provider}</td>
                                        <td>
                                            <code>{setting}</code>
                                        </td>
                                    </tr>
                                }
                            })}
                    </tbody>
                </table>
            </div>
        </section>
    }
}

#[component]
fn PasswordCard() -> impl IntoView {
    let action = ServerAction::<ChangePassword>::new();
    let error = form_error(action);
    let done = move || if matches!(action.value().get(), Some(Ok(()))) { "Password changed. Other devices are signed out." } else { "" };
    view! {
        <section class="card" aria-labelledby="password-heading">
            <h2 id="password-heading">"Password"</h2>
            <p>"Changing it signs out every other device at once."</p>
            <ActionForm action attr:class="form">
                <p class="form-error" role="alert">{error}</p>
                <label class="field">
                    <span>"Current password"</span>
                    <input class="input" type="password" name="current" autocomplete="current-password" required />
                </label>
                <label class="field">
                    <span>"New password"</span>
                    <input class="input" type="password" name="new" autocomplete="new-password" minlength="8" maxlength="200" required />
                </label>
                <div class="form-actions">
                    <button class="button" data-kind="primary">"Change password"</button>
                    <p class="form-done" role="status">{done}</p>
                </div>
            </ActionForm>
        </section>
    }
}

#[component]
fn KeysCard(keys: Vec<ApiKey>, create: ServerAction<CreateKey>, revoke: ServerAction<RevokeKey>) -> impl IntoView {
    let error = form_error(create);
    let secret = Signal::derive(move || match create.value().get() {
        Some(Ok(created)) => Some(created.secret),
        _ => None,
    });
    let empty = keys.is_empty();
    let rows = keys
        .into_iter()
        .map(|key| view! { <KeyRow key revoke /> })
        .collect_view();
    view! {
        <section class="card" aria-labelledby="keys-heading">
            <h2 id="keys-heading">"API keys"</h2>
            <p>"Programs send a key as the header " <code>"x-api-key"</code> " and act as you."</p>
            <ActionForm action=create attr:class="form" attr:data-inline="true">
                <label class="field">
                    <span>"Name"</span>
                    <input class="input" name="name" maxlength="100" placeholder="What the key is for" required />
                </label>
                <button class="button">"Create key"</button>
            </ActionForm>
            <p class="form-error" role="alert">{error}</p>
            <output class="new-key">
                {move || {
                    secret
                        .get()
                        .map(|secret| {
                            let copied = secret.clone();
                            view! {
                                <p>"Copy it now: it is shown once."</p>
                                <code>{secret}</code>
                                <button type="button" class="button" on:click=move |_| clipboard::copy(copied.clone())>
                                    <Icon name="copy" />
                                    "Copy"
                                </button>
                            }
                        })
                }}
            </output>
            {if empty {
                Either::Left(view! { <p class="history-empty">"No keys yet."</p> })
            } else {
                Either::Right(
                    view! {
                        <div class="table-scroll" tabindex="0" role="region" aria-label="Your API keys">
                            <table class="table">
                                <thead>
                                    <tr>
                                        <th scope="col">"Name"</th>
                                        <th scope="col">"Begins with"</th>
                                        <th scope="col">"Created"</th>
                                        <th scope="col">"Last used"</th>
                                        <th scope="col">
                                            <span class="sr-only">"Actions"</span>
                                        </th>
                                    </tr>
                                </thead>
                                <tbody>{rows}</tbody>
                            </table>
                        </div>
                    },
                )
            }}
        </section>
    }
}

#[component]
fn KeyRow(key: ApiKey, revoke: ServerAction<RevokeKey>) -> impl IntoView {
    let used = match key.used_at {
        Some(at) => Either::Left(view! { <Time at relative=true /> }),
        None => Either::Right("never"),
    };
    let label = format!("Delete key: {}", key.name);
    view! {
        <tr>
            <td>{key.name}</td>
            <td>
                <code>{key.prefix}</code>
            </td>
            <td>
                <Time at=key.created_at relative=true />
            </td>
            <td>{used}</td>
            <td>
                <ActionForm action=revoke>
                    <input type="hidden" name="id" value=key.id.to_string() />
                    <button class="icon-button" aria-label=label.clone() title=label>
                        <Icon name="trash" />
                    </button>
                </ActionForm>
            </td>
        </tr>
    }
}

#[component]
fn SignOutCard() -> impl IntoView {
    let action = ServerAction::<Logout>::new();
    view! {
        <section class="card" aria-labelledby="sign-out-heading">
            <h2 id="sign-out-heading">"Sign out"</h2>
            <p>"Ends this session and forgets what this browser kept of your drafts."</p>
            <ActionForm action on:submit=move |_| storage::forget()>
                <button class="button">
                    <Icon name="sign-out" />
                    "Sign out"
                </button>
            </ActionForm>
        </section>
    }
}
