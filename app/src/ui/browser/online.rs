//! Whether the browser has a connection.

use leptos::prelude::*;

/// `true` on the server and until the browser says otherwise.
pub fn signal() -> Signal<bool> {
    let online = RwSignal::new(true);
    #[cfg(feature = "hydrate")]
    Effect::new(move |_| {
        let look = move |_: leptos::ev::Event| online.set(window().navigator().on_line());
        super::listen::on(&window(), "online", look);
        super::listen::on(&window(), "offline", look);
    });
    online.into()
}
