//! Where questions are written. What is written is never lost: it stays until the server has it, and per conversation.

use leptos::html;
use leptos::prelude::*;
use leptos::task::spawn_local;
use leptos_router::NavigateOptions;
use leptos_router::hooks::use_navigate;

use super::page::NEW;
use super::thread::Thread;
use crate::api::chat::{ChatSetup, Retry, SendQuestion, Stop, send_question, stop};
use crate::model::agent::AgentType;
use crate::model::error::AppError;
use crate::ui::browser::{field, ids, keys, storage, tabs};
use crate::ui::sign_in::form_error;
use crate::ui::widgets::{FormError, Icon};

/// A question on its way: the ids stay the same when it is sent again, so that a lost answer never makes it twice.
#[derive(Clone, PartialEq)]
struct Outgoing {
    text: String,
    exchange: String,
    prompt_id: String,
}

/// The form under a conversation.
#[component]
pub fn Composer(thread: Thread, setup: ChatSetup, jump: Callback<()>) -> impl IntoView {
    let name = thread.name.get_value();
    let area = NodeRef::<html::Textarea>::new();
    let text = field::draft(area, name.clone());
    // Forms say in the address what went wrong with them.
    let error = RwSignal::new([form_error::<SendQuestion>(), form_error::<Stop>(), form_error::<Retry>()].concat());
    // Where to sign in again, when that is what is missing.
    let gone = RwSignal::new(false);
    let sending = RwSignal::new(false);
    let agent = RwSignal::new(AgentType::AUTO.to_owned());
    let outgoing = StoredValue::new(None::<Outgoing>);
    let live = Memo::new(move |_| thread.live().map(|live| live.id));
    let early = RwSignal::new(false);
    let shown = Signal::derive(move || {
        if early.get() && live.get().is_some() {
            "An answer is still being written. Send this when it is done, or stop it first.".to_owned()
        } else {
            error.get()
        }
    });
    let go = use_navigate();
    let drafts = storage::drafts();

    let submit = move || {
        let question = text.get_untracked();
        if question.trim().is_empty() || sending.get_untracked() {
            return;
        }
        if live.get_untracked().is_some() {
            early.set(true);
            return;
        }
        early.set(false);
        let same = outgoing.get_value().filter(|old| old.text == question);
        let name = thread.name.get_value();
        let out = same.unwrap_or_else(|| Outgoing {
            text: question,
            exchange: if name == NEW { ids::new() } else { name.clone() },
            prompt_id: ids::new(),
        });
        outgoing.set_value(Some(out.clone()));
        error.set(String::new());
        gone.set(false);
        sending.set(true);
        let go = go.clone();
        spawn_local(async move {
            let Outgoing { text: question, exchange, prompt_id } = out;
            let sent = send_question(Some(exchange), Some(prompt_id), question.clone(), Some(agent.get_untracked())).await;
            sending.try_set(false);
            match sent {
                Ok(sent) => {
                    outgoing.try_set_value(None);
                    // What was typed meanwhile stays, with its conversation.
                    let rest = Some(drafts.text(&name)).filter(|now| *now != question).unwrap_or_default();
                    drafts.keep(&name, "");
                    drafts.keep(sent.exchange.as_str(), &rest);
                    tabs::tell();
                    thread.list.refresh();
                    // Whoever has gone to another conversation stays there.
                    if text.try_get_untracked().is_none() {
                        return;
                    }
                    thread.notes.announce("Generating");
                    if name == NEW {
                        go(&format!("/chatgxy/{}", sent.exchange), NavigateOptions::default());
                    } else {
                        if rest.is_empty() {
                            field::write(area, text, "");
                        }
                        thread.push(sent.view);
                        jump.run(());
                    }
                }
                Err(why) => {
                    gone.try_set(why == AppError::NotSignedIn);
                    error.try_set(format!("Not sent: {why} Your text is still here."));
                }
            }
        });
    };
    let halt = move |event: leptos::ev::MouseEvent| {
        event.prevent_default();
        let Some(id) = live.get_untracked() else { return };
        spawn_local(async move {
            match stop(id.to_string()).await {
                // The button is gone, and the focus must not be.
                Ok(()) => field::focus_composer(),
                Err(why) => drop(error.try_set(why.to_string())),
            }
        });
    };
    field::fill_from(area, text, thread.filled);
    field::send_from(area, text, thread.chosen, submit.clone());
    let on_key = {
        let submit = submit.clone();
        move |event: leptos::ev::KeyboardEvent| {
            if keys::is_send(&event) {
                event.prevent_default();
                submit();
            }
        }
    };
    let sign_in = format!("/login?next=/chatgxy/{name}");
    let exchange = if name == NEW { String::new() } else { name };
    view! {
        <form
            class="composer"
            aria-label="Message"
            method="post"
            action="/api/fn/chat/send"
            data-live=move || live.get().is_some().to_string()
            on:submit=move |event| {
                event.prevent_default();
                submit();
            }
        >
            <FormError text=shown class="composer-error" />
            <p class="composer-sign-in" hidden=move || !gone.get()>
                <a class="button" href=sign_in rel="external">
                    "Sign in"
                </a>
            </p>
            <p class="composer-wait">"An answer is being written. This page loads itself again until it is there; then you can write."</p>
            <input type="hidden" name="exchange" value=exchange />
            <div class="composer-box">
                <textarea
                    node_ref=area
                    name="query"
                    aria-label="Message"
                    rows="1"
                    required
                    placeholder="Ask about tools, workflows, errors or your data"
                    on:keydown=on_key
                ></textarea>
                <div class="composer-bar">
                    <label class="agent-picker">
                        <span class="sr-only">"Agent"</span>
                        <select name="agent" on:change:target=move |event| agent.set(event.target().value())>
                            <option value=AgentType::AUTO>"Auto"</option>
                            {setup
                                .agents
                                .into_iter()
                                .map(|choice| {
                                    let label = AgentType::parse(&choice.name).map_or_else(String::new, |agent| agent.label().to_owned());
                                    view! {
                                        <option value=choice.name title=choice.description>
                                            {label}
                                        </option>
                                    }
                                })
                                .collect_view()}
                        </select>
                        <Icon name="chevron-down" />
                    </label>
                    <span class="composer-hint">"Enter sends, Shift+Enter for a new line"</span>
                    // Sends the form elsewhere where no script runs.
                    <button
                        class="button"
                        data-kind="stop"
                        formaction="/api/fn/chat/stop"
                        formnovalidate
                        name="turn"
                        value=move || live.get().map_or_else(String::new, |id| id.to_string())
                        hidden=move || live.get().is_none()
                        on:click=halt
                    >
                        <Icon name="stop" />
                        "Stop"
                    </button>
                    <button
                        class="button"
                        data-kind="primary"
                        type="submit"
                        hidden=move || live.get().is_some()
                        aria-busy=move || sending.get().to_string()
                    >
                        <Icon name="send" />
                        "Send"
                    </button>
                </div>
            </div>
        </form>
    }
}
