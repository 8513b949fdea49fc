//! `/chatgxy`: the shell around history and conversation.

use leptos::either::{Either, EitherOf4};
use leptos::prelude::*;
use leptos_meta::Title;
use leptos_router::components::Redirect;
use leptos_router::hooks::{use_params_map, use_query_map};

use super::history::{HistoryList, HistoryPanel};
use super::thread::ConversationView;
use crate::api::chat::{read_conversation, read_setup};
use crate::model::error::AppError;
use crate::ui::app::Blank;
use crate::ui::browser::{online, storage};
use crate::ui::widgets::{Icon, Notes, NotesView, Rail};

/// The page without a conversation in its address that means "a new one".
pub const NEW: &str = "new";

/// `/chatgxy/{exchange}`
#[component]
pub fn ChatPage() -> impl IntoView {
    let notes = Notes::provide();
    let drafts = storage::provide_drafts();
    let params = use_params_map();
    let query = use_query_map();
    let name = Memo::new(move |_| params.with(|params| params.get("exchange").unwrap_or_default()));
    let setup = Resource::new_blocking(|| (), |()| read_setup());
    let loaded = Resource::new_blocking(
        move || name.get(),
        move |name| {
            let before = query.with_untracked(|query| query.get_str("before").and_then(|text| text.parse().ok()));
            async move { if name == NEW { Ok(None) } else { read_conversation(name, before).await.map(Some) } }
        },
    );
    let list = HistoryList::provide();
    let panel = storage::history_panel();
    view! {
        <div class="shell" data-history=move || panel.get().name()>
            <Rail />
            <Suspense fallback=|| ()>
                {move || Suspend::new(async move {
                    match setup.await {
                        Ok(setup) => {
                            list.start(setup.history);
                            Either::Left(view! { <HistoryPanel list name=name.into() panel /> })
                        }
                        Err(error) => {
                            Either::Right(
                                view! {
                                    <aside class="history" id="history" aria-label="Conversations">
                                        <p class="history-empty">{error.to_string()}</p>
                                    </aside>
                                },
                            )
                        }
                    }
                })}
            </Suspense>
            <a class="scrim" href="#main" tabindex="-1" aria-hidden="true" on:click=move |event| {
                event.prevent_default();
                storage::set_history_panel(panel, storage::HistoryPanel::Closed);
            }></a>
            <Transition fallback=|| view! { <Loading /> }>
                {move || Suspend::new(async move {
                    let loaded = loaded.await;
                    let setup = setup.await;
                    let name = name.get_untracked();
                    match (loaded, setup) {
                        (Ok(loaded), Ok(setup)) => {
                            drafts.belong_to(setup.user.id);
                            EitherOf4::A(view! { <ConversationView name loaded setup notes list panel /> })
                        }
                        (_, Err(AppError::NotSignedIn)) | (Err(AppError::NotSignedIn), _) => {
                            EitherOf4::B(view! { <Redirect path="/login" /> })
                        }
                        (Err(AppError::NotFound { .. }), _) => {
                            EitherOf4::C(
                                view! {
                                    <Title text="Not found" />
                                    <Missing
                                        title="This conversation is not here"
                                        text="It was deleted, or it belongs to another account.".to_owned()
                                    />
                                },
                            )
                        }
                        (Err(error), _) | (_, Err(error)) => {
                            EitherOf4::D(view! { <Missing title="This conversation could not be loaded" text=error.to_string() /> })
                        }
                    }
                })}
            </Transition>
            <NotesView notes online=online::signal() />
        </div>
    }
}

#[component]
fn Missing(title: &'static str, text: String) -> impl IntoView {
    view! {
        <main id="main" class="chat" data-empty="true" tabindex="-1">
            <ChatHead title=String::new() />
            <div class="thread" tabindex="0">
                <div class="thread-inner">
                    <Blank title text />
                </div>
            </div>
        </main>
    }
}

#[component]
fn Loading() -> impl IntoView {
    view! {
        <main id="main" class="chat" data-empty="false" tabindex="-1" aria-busy="true">
            <ChatHead title=String::new() />
            <div class="thread">
                <div class="thread-inner">
                    <div class="skeleton" aria-hidden="true">
                        <i></i>
                        <i></i>
                        <i></i>
                    </div>
                </div>
            </div>
        </main>
    }
}

/// The line above a conversation.
#[component]
pub fn ChatHead(title: String) -> impl IntoView {
    let panel = storage::history_panel();
    view! {
        <header class="chat-head">
            <a
                class="icon-button history-show"
                href="#history"
                aria-label="Show conversations"
                title="Show conversations"
                on:click=move |event| {
                    event.prevent_default();
                    storage::set_history_panel(panel, storage::HistoryPanel::Open);
                }
            >
                <Icon name="sidebar" />
            </a>
            {if title.is_empty() {
                Either::Left(view! { <span class="chat-title"></span> })
            } else {
                Either::Right(
                    view! {
                        <h1 class="chat-title" title=title.clone()>
                            {title.clone()}
                        </h1>
                    },
                )
            }}
            <a class="icon-button new-chat" href="/chatgxy/new" aria-label="New conversation" title="New conversation">
                <Icon name="plus" />
            </a>
        </header>
    }
}
