//! Other tabs of the same browser, and coming back to this one. Only hints: the truth is asked from the server.

#[cfg(feature = "hydrate")]
const CHANNEL: &str = "chatgxy";

/// Tells other tabs that something changed.
pub fn tell() {
    #[cfg(feature = "hydrate")]
    if let Ok(channel) = web_sys::BroadcastChannel::new(CHANNEL) {
        let _ = channel.post_message(&wasm_bindgen::JsValue::TRUE);
        channel.close();
    }
}

/// Calls back when another tab changed something while this one is seen, and when this one is seen again.
#[allow(unused_variables, reason = "the server has no tabs")]
pub fn on_news(news: impl Fn() + Clone + 'static) {
    #[cfg(feature = "hydrate")]
    {
        use leptos::prelude::*;
        use wasm_bindgen::JsCast;
        use wasm_bindgen::closure::Closure;
        Effect::new(move |_| {
            let seen = news.clone();
            super::listen::on(&document(), "visibilitychange", move |_: leptos::ev::Event| {
                if !document().hidden() {
                    seen();
                }
            });
            let heard = news.clone();
            let hear = Closure::<dyn FnMut()>::new(move || {
                if !document().hidden() {
                    heard();
                }
            });
            if let Ok(channel) = web_sys::BroadcastChannel::new(CHANNEL) {
                channel.set_onmessage(Some(hear.as_ref().unchecked_ref()));
                let held = StoredValue::new_local((channel, hear));
                on_cleanup(move || {
                    let _ = held.try_with_value(|(channel, _)| channel.close());
                });
            }
        });
    }
}
