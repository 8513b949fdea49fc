//! Text fields whose text belongs to the browser until the page is alive: what is typed before that is kept.

use leptos::html::{Input, Textarea};
use leptos::prelude::*;

/// The text of a composer, kept per conversation.
#[allow(unused_variables, reason = "the server keeps no drafts")]
pub fn draft(area: NodeRef<Textarea>, name: String) -> RwSignal<String> {
    let text = RwSignal::new(String::new());
    #[cfg(feature = "hydrate")]
    {
        let keeper = super::storage::drafts();
        let stored = keeper.text(&name);
        Effect::new(move |_| {
            let Some(element) = area.get() else { return };
            let typed = element.value();
            let begin = if typed.is_empty() { stored.clone() } else { typed };
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

/// Replaces the text.
pub fn write(area: NodeRef<Textarea>, text: RwSignal<String>, new: &str) {
    text.set(new.to_owned());
    #[cfg(feature = "hydrate")]
    if let Some(element) = area.get_untracked() {
        element.set_value(new);
        grow(&element);
    }
    #[cfg(not(feature = "hydrate"))]
    let _ = area;
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
