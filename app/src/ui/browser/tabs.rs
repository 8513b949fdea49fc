//! Other tabs of the same browser, and coming back to this one. Only hints: the truth is asked from the server.

#[cfg(feature = "hydrate")]
thread_local! {
    /// One for both directions: a channel does not hear what it says itself.
    static CHANNEL: Option<web_sys::BroadcastChannel> = web_sys::BroadcastChannel::new("chatgxy").ok();
}

/// Tells other tabs that something changed.
pub fn tell() {
    #[cfg(feature = "hydrate")]
    post(&wasm_bindgen::JsValue::TRUE);
}

/// Tells other tabs that the person signs out.
pub fn tell_gone() {
    #[cfg(feature = "hydrate")]
    post(&wasm_bindgen::JsValue::NULL);
}

#[cfg(feature = "hydrate")]
fn post(news: &wasm_bindgen::JsValue) {
    CHANNEL.with(|channel| {
        if let Some(channel) = channel {
            let _ = channel.post_message(news);
        }
    });
}

/// Leaves the page, and forgets the person's words, when another tab signs out.
#[cfg(feature = "hydrate")]
pub fn leave_with_others() {
    CHANNEL.with(|channel| {
        if let Some(channel) = channel {
            super::listen::on(channel, "message", |event: web_sys::MessageEvent| {
                if event.data().is_null() {
                    super::storage::forget();
                    let _ = leptos::prelude::window().location().replace("/login");
                }
            });
        }
    });
}

/// Calls back when another tab changed something while this one is seen, and when this one is seen again.
#[allow(unused_variables, reason = "the server has no tabs")]
pub fn on_news(news: impl Fn() + Clone + 'static) {
    #[cfg(feature = "hydrate")]
    {
        use leptos::prelude::*;
        Effect::new(move |_| {
            let look = {
                let news = news.clone();
                move || {
                    if !document().hidden() {
                        news();
                    }
                }
            };
            let seen = look.clone();
            super::listen::on(&document(), "visibilitychange", move |_: leptos::ev::Event| seen());
            CHANNEL.with(|channel| {
                if let Some(channel) = channel {
                    let told = look.clone();
                    super::listen::on(channel, "message", move |event: web_sys::MessageEvent| {
                        // That the person signs out is not for those who ask the server.
                        if !event.data().is_null() {
                            told();
                        }
                    });
                }
            });
        });
    }
}
