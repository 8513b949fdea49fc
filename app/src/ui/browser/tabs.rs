//! Other tabs of the same browser, and coming back to this one. Only hints: the truth is asked from the server.

#[cfg(feature = "hydrate")]
thread_local! {
    /// One for both directions: a channel does not hear what it says itself.
    static CHANNEL: Option<web_sys::BroadcastChannel> = web_sys::BroadcastChannel::new("chatgxy").ok();
}

/// Tells other tabs that something changed.
pub fn tell() {
    #[cfg(feature = "hydrate")]
    CHANNEL.with(|channel| {
        if let Some(channel) = channel {
            let _ = channel.post_message(&wasm_bindgen::JsValue::TRUE);
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
            let listen = |target: &web_sys::EventTarget, name| {
                let news = news.clone();
                super::listen::on(target, name, move |_: leptos::ev::Event| {
                    if !document().hidden() {
                        news();
                    }
                });
            };
            listen(&document(), "visibilitychange");
            CHANNEL.with(|channel| {
                if let Some(channel) = channel {
                    listen(channel, "message");
                }
            });
        });
    }
}
