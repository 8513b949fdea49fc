//! Following the end of a conversation, but only while the person is there.

use leptos::html::{Button, Div};
use leptos::prelude::*;

/// How near the end, in pixels, counts as "at the end".
#[cfg(feature = "hydrate")]
const NEAR: i32 = 64;

/// Where the view is.
#[derive(Clone, Copy)]
pub struct Stick {
    /// The end is in view.
    pub at_bottom: RwSignal<bool>,
    /// Goes to the end and follows it from then on.
    pub jump: Callback<()>,
}

/// Keeps the end of `inner` in view while the person has not scrolled away from it.
#[allow(unused_variables, reason = "nothing scrolls on the server")]
pub fn stick_to_bottom(outer: NodeRef<Div>, inner: NodeRef<Div>) -> Stick {
    let at_bottom = RwSignal::new(true);
    let jump = Callback::new(move |()| {
        at_bottom.set(true);
        #[cfg(feature = "hydrate")]
        request_animation_frame(move || to_end(outer));
    });
    #[cfg(feature = "hydrate")]
    Effect::new(move |_| {
        use wasm_bindgen::JsCast;
        use wasm_bindgen::closure::Closure;
        let (Some(view), Some(content)) = (outer.get(), inner.get()) else { return };
        to_end(outer);
        let seen = view.clone();
        let look = move |_: leptos::ev::Event| {
            let near = seen.scroll_height() - seen.scroll_top() - seen.client_height() <= NEAR;
            if at_bottom.try_get_untracked().is_some_and(|was| was != near) {
                at_bottom.set(near);
            }
        };
        super::listen::on(&view, "scroll", look);
        let grown = Closure::<dyn FnMut()>::new(move || {
            if at_bottom.try_get_untracked() == Some(true) {
                to_end(outer);
            }
        });
        if let Ok(observer) = web_sys::ResizeObserver::new(grown.as_ref().unchecked_ref()) {
            observer.observe(&content);
            observer.observe(&view);
            let held = StoredValue::new_local((observer, grown));
            on_cleanup(move || {
                let _ = held.try_with_value(|(observer, _)| observer.disconnect());
            });
        }
    });
    Stick { at_bottom, jump }
}

/// Lets more come in above without moving what is seen: called right before it is put in.
pub fn hold_place(outer: NodeRef<Div>) {
    #[cfg(feature = "hydrate")]
    if let Some(view) = outer.try_get_untracked().flatten() {
        let below = view.scroll_height() - view.scroll_top();
        request_animation_frame(move || view.set_scroll_top(view.scroll_height() - below));
    }
    #[cfg(not(feature = "hydrate"))]
    let _ = outer;
}

#[cfg(feature = "hydrate")]
fn to_end(outer: NodeRef<Div>) {
    if let Some(view) = outer.try_get_untracked().flatten() {
        // What an empty conversation shows is read from its beginning.
        let empty = view.query_selector(".turn").is_ok_and(|turn| turn.is_none());
        view.set_scroll_top(if empty { 0 } else { view.scroll_height() });
    }
}

/// Calls back each time the element comes into view.
#[allow(unused_variables, reason = "nothing is seen on the server")]
pub fn when_seen(element: NodeRef<Button>, seen: impl Fn() + Clone + 'static) {
    #[cfg(feature = "hydrate")]
    Effect::new(move |_| {
        use wasm_bindgen::JsCast;
        use wasm_bindgen::closure::Closure;
        let Some(target) = element.get() else { return };
        let seen = seen.clone();
        let look = Closure::<dyn FnMut(js_sys::Array)>::new(move |entries: js_sys::Array| {
            let entries = entries.iter().filter_map(|entry| entry.dyn_into::<web_sys::IntersectionObserverEntry>().ok());
            if entries.into_iter().any(|entry| entry.is_intersecting()) {
                seen();
            }
        });
        if let Ok(observer) = web_sys::IntersectionObserver::new(look.as_ref().unchecked_ref()) {
            observer.observe(&target);
            let held = StoredValue::new_local((observer, look));
            on_cleanup(move || {
                let _ = held.try_with_value(|(observer, _)| observer.disconnect());
            });
        }
    });
}
