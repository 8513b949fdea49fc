//! `/account`: the model that answers, password, API keys, sign out.

use leptos::either::{Either, EitherOf3};
use leptos::html;
use leptos::prelude::*;
use leptos::task::spawn_local;
use leptos_meta::Title;
use leptos_router::components::Redirect;
use leptos_router::hooks::use_query_map;
use server_fn::ServerFn;

use super::browser::{clipboard, dialog, field, online, storage, tabs};
use super::sign_in::form_error;
use super::widgets::{FormError, Icon, Notes, NotesView, Rail, Time};
use crate::api::account::{AccountView, ChangePassword, Logout, ModelStatus, RevokeKey, account, create_key};
use crate::model::error::AppError;
use crate::model::user::{ApiKey, Scope};

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
pub fn AccountPage() -> impl IntoView {
    let notes = Notes::provide();
    let view = Resource::new_blocking(|| (), |()| account());
    view! {
        <Title text="Account" />
        <div class="shell" data-history="closed">
            <Rail />
            <main id="main" class="settings" tabindex="-1">
                <div class="settings-inner">
                    <h1>"Account"</h1>
                    <Suspense fallback=|| {
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
                                Ok(AccountView { user, keys, model }) => {
                                    EitherOf3::A(
                                        view! {
                                            <p class="settings-lead">{user.email}</p>
                                            <ModelCard model />
                                            <PasswordCard />
                                            <KeysCard keys notes />
                                            <SignOutCard />
                                        },
                                    )
                                }
                                Err(AppError::NotSignedIn) => EitherOf3::B(view! { <Redirect path="/login" /> }),
                                Err(error) => EitherOf3::C(view! { <p class="form-error" role="alert">{error.to_string()}</p> }),
                            }
                        })}
                    </Suspense>
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
    let done = use_query_map().with_untracked(|query| query.get_str("changed").is_some());
    view! {
        <section class="card" aria-labelledby="password-heading">
            <h2 id="password-heading">"Password"</h2>
            <p>"Changing it signs out every other device at once."</p>
            <form class="form" method="post" action=ChangePassword::PATH>
                <FormError text={form_error::<ChangePassword>()} />
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
                    <p class="form-done" role="status">{done.then_some("Password changed. Other devices are signed out.")}</p>
                </div>
            </form>
        </section>
    }
}

#[component]
fn KeysCard(keys: Vec<ApiKey>, notes: Notes) -> impl IntoView {
    let error = RwSignal::new(String::new());
    let secret = RwSignal::new(None::<String>);
    let keys = RwSignal::new(keys);
    let name = NodeRef::<html::Input>::new();
    let scope = RwSignal::new(Scope::Chat.name().to_owned());
    let create = move |event: leptos::ev::SubmitEvent| {
        event.prevent_default();
        spawn_local(async move {
            let scope = Scope::parse(&scope.get_untracked());
            match create_key(field::value(name), scope).await {
                Ok(created) => {
                    error.set(String::new());
                    secret.set(Some(created.secret));
                    field::clear(name);
                    keys.update(|keys| keys.push(created.key));
                    notes.announce("Key created. Copy it now: it is shown once.");
                }
                Err(why) => error.set(why.to_string()),
            }
        });
    };
    view! {
        <section class="card" aria-labelledby="keys-heading">
            <h2 id="keys-heading">"API keys"</h2>
            <p>"Programs send a key as the header " <code>"x-api-key"</code> " and act as you, within the permission of the key."</p>
            <noscript>
                <p>"A new key is shown once, by script: switch JavaScript on to make one, or ask whoever runs this server."</p>
            </noscript>
            <form class="form" data-inline="true" on:submit=create>
                <label class="field needs-script">
                    <span>"Name"</span>
                    <input class="input" name="name" maxlength="100" placeholder="What the key is for" required node_ref=name />
                </label>
                <label class="field">
                    <span>"Permission"</span>
                    <select class="input" autocomplete="off" on:change:target=move |event| scope.set(event.target().value())>
                        {[Scope::Chat, Scope::Read, Scope::Admin].map(|scope| view! { <option value=scope.name()>{may(scope)}</option> })}
                    </select>
                </label>
                <button class="button">"Create key"</button>
            </form>
            <FormError text=error />
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
            {move || if keys.with(Vec::is_empty) {
                Either::Left(view! { <p class="history-empty">"No keys yet."</p> })
            } else {
                Either::Right(
                    view! {
                        <div class="table-scroll" tabindex="0" role="region" aria-label="Your API keys">
                            <table class="table keys">
                                <thead>
                                    <tr>
                                        <th scope="col">"Name"</th>
                                        <th scope="col">"Begins with"</th>
                                        <th scope="col">"Permission"</th>
                                        <th scope="col">"Created"</th>
                                        <th scope="col">"Last used"</th>
                                        <th scope="col">
                                            <span class="sr-only">"Actions"</span>
                                        </th>
                                    </tr>
                                </thead>
                                <tbody>
                                    <For each=move || keys.get() key=|key| key.id let:key>
                                        <KeyRow key />
                                    </For>
                                </tbody>
                            </table>
                        </div>
                    },
                )
            }}
        </section>
    }
}

/// What a key may do, for people.
fn may(scope: Scope) -> &'static str {
    match scope {
        Scope::Read => "Read only",
        Scope::Chat => "Read and chat",
        Scope::Admin => "All that I may",
    }
}

#[component]
fn KeyRow(key: ApiKey) -> impl IntoView {
    let used = match key.used_at {
        Some(at) => Either::Left(view! { <Time at relative=true /> }),
        None => Either::Right("never"),
    };
    let label = format!("Delete key: {}", key.name);
    let question = format!("Delete the key “{}”? Programs that use it stop working at once.", key.name);
    view! {
        <tr>
            <td>{key.name}</td>
            <td>
                <code>{key.prefix}</code>
            </td>
            <td>{may(key.scope)}</td>
            <td>
                <Time at=key.created_at relative=true />
            </td>
            <td>{used}</td>
            <td>
                <form method="post" action=RevokeKey::PATH on:submit=move |event| dialog::confirm(&event, &question)>
                    <input type="hidden" name="id" value=key.id.to_string() />
                    <button class="icon-button" aria-label=label.clone() title=label>
                        <Icon name="trash" />
                    </button>
                </form>
            </td>
        </tr>
    }
}

/// What the browser does beside the form.
fn sign_out() {
    storage::forget();
    tabs::tell_gone();
}

#[component]
fn SignOutCard() -> impl IntoView {
    view! {
        <section class="card" aria-labelledby="sign-out-heading">
            <h2 id="sign-out-heading">"Sign out"</h2>
            <p>"Ends this session and forgets what this browser kept of your drafts."</p>
            <form method="post" action=Logout::PATH on:submit=move |_| sign_out()>
                <button class="button">
                    <Icon name="sign-out" />
                    "Sign out"
                </button>
            </form>
        </section>
    }
}
