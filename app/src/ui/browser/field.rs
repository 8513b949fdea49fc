//! Text fields whose text belongs to the browser until the page is alive: what is typed before that is kept.

#[cfg(feature = "hydrate")]
use std::sync::atomic::{AtomicBool, Ordering};

use leptos::html::{Input, Textarea};
use leptos::prelude::*;

/// Whether a composer of this page has been alive before.
#[cfg(feature = "hydrate")]
static ALIVE: AtomicBool = AtomicBool::new(false);

/// The text of a composer, kept per conversation.
#[allow(unused_variables, reason = "the server keeps no drafts")]
pub fn draft(area: NodeRef<Textarea>, name: String) -> RwSignal<String> {
    let text = RwSignal::new(String::new());
    let keeper = super::storage::drafts();
    let stored = keeper.text(&name);
    #[cfg(feature = "hydrate")]
    {
        Effect::new(move |_| {
            let Some(element) = area.get() else { return };
            // The first one may hold what was typed before the page was alive. A later one may be the same element once more, and
            // still hold the text of another conversation.
            let typed = if ALIVE.swap(true, Ordering::Relaxed) { String::new() } else { element.value() };
            let begin = if typed.is_empty() { stored.clone() } else { typed };
            keeper.keep(&name, &begin);
            element.set_value(&begin);
            text.set(begin);
            grow(&element);
            let _ = element.focus();
            let (read, key) = (element.clone(), name.clone());
            let keep = move |_: leptos::ev::Event| {
                let now = read.value();
                keeper.keep(&key, &now);
                text.try_set(now);
                grow(&read);
            };
            super::listen::on(&element, "input", keep);
        });
    }
    text
}

/// Lets what a card or an example offers into the field, once each time.
#[allow(unused_variables, reason = "nothing is offered on the server")]
pub fn fill_from(area: NodeRef<Textarea>, text: RwSignal<String>, offered: RwSignal<Option<String>>) {
    Effect::new(move |_| {
        if let Some(question) = offered.get() {
            write(area, text, &question);
            if let Some(element) = area.get_untracked() {
                #[cfg(feature = "hydrate")]
                let _ = element.focus();
                #[cfg(not(feature = "hydrate"))]
                drop(element);
            }
            offered.set(None);
        }
    });
}

/// Writes what was chosen and sends it.
pub fn send_from(area: NodeRef<Textarea>, text: RwSignal<String>, chosen: RwSignal<Option<String>>, send: impl Fn() + 'static) {
    Effect::new(move |_| {
        if let Some(question) = chosen.get() {
            write(area, text, &question);
            send();
            chosen.set(None);
        }
    });
}

/// Replaces the text, as if it had been typed.
pub fn write(area: NodeRef<Textarea>, text: RwSignal<String>, new: &str) {
    text.set(new.to_owned());
    #[cfg(feature = "hydrate")]
    if let Some(element) = area.get_untracked() {
        element.set_value(new);
        if let Ok(input) = web_sys::Event::new("input") {
            let _ = element.dispatch_event(&input);
        }
    }
    #[cfg(not(feature = "hydrate"))]
    let _ = area;
}

/// Empties a one-line field.
pub fn clear(input: NodeRef<Input>) {
    #[cfg(feature = "hydrate")]
    if let Some(element) = input.get_untracked() {
        element.set_value("");
    }
    #[cfg(not(feature = "hydrate"))]
    let _ = input;
}

/// Brings the focus back to where people write.
pub fn focus_composer() {
    #[cfg(feature = "hydrate")]
    {
        use wasm_bindgen::JsCast;
        let found = document().query_selector(".composer textarea").ok().flatten();
        if let Some(area) = found.and_then(|element| element.dyn_into::<web_sys::HtmlElement>().ok()) {
            let _ = area.focus();
        }
    }
}

/// What stands in a one-line field.
pub fn value(input: NodeRef<Input>) -> String {
    #[cfg(feature = "hydrate")]
    return input.get_untracked().map(|element| element.value()).unwrap_or_default();
    #[cfg(not(feature = "hydrate"))]
    {
        let _ = input;
        String::new()
    }
}

/// Where the style sheet cannot size a field by its text (`field-sizing`), the script does.
#[cfg(feature = "hydrate")]
fn grow(element: &web_sys::HtmlTextAreaElement) {
    if supports_field_sizing() {
        return;
    }
    let style = web_sys::HtmlElement::style(element);
    let _ = style.set_property("height", "auto");
    let _ = style.set_property("height", &format!("{}px", element.scroll_height().min(320)));
}

#[cfg(feature = "hydrate")]
fn supports_field_sizing() -> bool {
    web_sys::css::supports_with_value("field-sizing", "content").unwrap_or(false)
}
