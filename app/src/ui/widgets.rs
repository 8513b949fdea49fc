//! Small pieces that every screen uses.

use leptos::prelude::*;
use leptos_router::hooks::use_location;

use super::browser::{clock, storage};
use crate::model::ids::Millis;

/// A symbol of the sprite; never without a name beside it.
#[component]
pub fn Icon(#[prop(into)] name: Signal<&'static str>) -> impl IntoView {
    view! {
        <svg class="icon" aria-hidden="true">
            <use href=move || format!("/icons.svg#{}", name.get())></use>
        </svg>
    }
}

/// A point in time: UTC from the server, in the person's own zone and words once the page is alive.
#[component]
pub fn Time(
    #[prop(into)] at: Signal<Millis>,
    /// "2 min" in place of "14:05".
    #[prop(optional)]
    relative: bool,
) -> impl IntoView {
    let shown = clock::shown(at, relative);
    view! {
        <time datetime=move || clock::iso(at.get()) title=move || shown.get().full>
            {move || shown.get().short}
        </time>
    }
}

/// The navigation between the parts of the product.
#[component]
pub fn Rail() -> impl IntoView {
    let path = use_location().pathname;
    let current = move |prefix: &'static str| path.with(|path| path.starts_with(prefix)).then_some("page");
    let theme = storage::theme();
    let theme_icon = Signal::derive(move || match theme.get() {
        storage::Theme::System => "theme",
        storage::Theme::Light => "sun",
        storage::Theme::Dark => "moon",
    });
    view! {
        <nav class="rail" aria-label="Main">
            <a class="rail-link brand" href="/chatgxy" rel="external" aria-label="ChatGXY">
                <Icon name="logo" />
            </a>
            <a class="rail-link" href="/chatgxy" rel="external" aria-current=move || current("/chatgxy") title="Chat">
                <Icon name="chat" />
                <span>"Chat"</span>
            </a>
            <a class="rail-link account" href="/account" aria-current=move || current("/account") title="Account">
                <Icon name="account" />
                <span>"Account"</span>
            </a>
            <button
                type="button"
                class="rail-link theme"
                title=move || format!("Theme: {}", theme.get().name())
                on:click=move |_| storage::set_theme(theme, theme.get_untracked().next())
            >
                <Icon name=theme_icon />
                <span>"Theme"</span>
            </button>
        </nav>
    }
}

/// The one voice for screen readers, and the notes that float over the page.
#[derive(Clone, Copy)]
pub struct Notes {
    announced: RwSignal<String>,
    toasts: RwSignal<Vec<Toast>>,
}

#[derive(Clone)]
struct Toast {
    id: u64,
    text: String,
    undo: Option<Callback<()>>,
}

/// How long a note with an Undo stays.
const UNDO_MS: u64 = 30_000;
/// How long a plain note stays.
const NOTE_MS: u64 = 8_000;

impl Notes {
    /// Makes them and lets the components below find them.
    pub fn provide() -> Self {
        let notes = Self { announced: RwSignal::new(String::new()), toasts: RwSignal::new(Vec::new()) };
        provide_context(notes);
        notes
    }

    /// Says something to screen readers, politely.
    pub fn announce(self, text: &str) {
        self.announced.set(text.to_owned());
    }

    /// Shows a note for a while.
    pub fn show(self, text: impl Into<String>) {
        self.push(text.into(), None);
    }

    /// Shows a note with a way back for 30 s.
    pub fn show_undo(self, text: impl Into<String>, undo: Callback<()>) {
        self.push(text.into(), Some(undo));
    }

    fn push(self, text: String, undo: Option<Callback<()>>) {
        let stay = if undo.is_some() { UNDO_MS } else { NOTE_MS };
        let next = |all: &Vec<Toast>| all.last().map_or(0, |last| last.id + 1);
        // Without a page there is nobody to tell.
        let Some(id) = self.toasts.try_with_untracked(next) else { return };
        self.toasts.update(|all| all.push(Toast { id, text, undo }));
        set_timeout(move || self.dismiss(id), std::time::Duration::from_millis(stay));
    }

    fn dismiss(self, id: u64) {
        self.toasts.try_update(|all| all.retain(|toast| toast.id != id));
    }
}

/// Where [`Notes`] are shown.
#[component]
pub fn NotesView(notes: Notes, online: Signal<bool>) -> impl IntoView {
    view! {
        <div class="announcer sr-only" role="status" aria-live="polite">
            {move || notes.announced.get()}
        </div>
        <div class="toasts" role="status">
            <For each=move || notes.toasts.get() key=|toast| toast.id let:toast>
                <ToastView notes toast />
            </For>
        </div>
        <div class="offline" role="status">
            {move || {
                (!online.get())
                    .then(|| {
                        view! {
                            <Icon name="offline" />
                            <span>"You are offline. What you write stays here; send it when you are back."</span>
                        }
                    })
            }}
        </div>
    }
}

#[component]
fn ToastView(notes: Notes, toast: Toast) -> impl IntoView {
    let Toast { id, text, undo } = toast;
    let undo = undo.map(|undo| {
        let click = move |_| {
            notes.dismiss(id);
            undo.run(());
        };
        view! {
            <button type="button" class="button" on:click=click>
                "Undo"
            </button>
        }
    });
    view! {
        <div class="toast">
            <p>{text}</p>
            {undo}
            <button type="button" class="icon-button" aria-label="Dismiss" title="Dismiss" on:click=move |_| notes.dismiss(id)>
                <Icon name="close" />
            </button>
        </div>
    }
}

/// What went wrong, said at once; not there while nothing did.
#[component]
pub fn FormError(#[prop(into)] text: Signal<String>, #[prop(default = "form-error")] class: &'static str) -> impl IntoView {
    view! {
        <p class=class role="alert" hidden=move || text.with(String::is_empty)>
            {move || text.get()}
        </p>
    }
}
