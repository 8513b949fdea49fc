//! The browser's half: one function that brings the page to life.

use wasm_bindgen::prelude::wasm_bindgen;

/// Takes over the page that the server rendered.
#[wasm_bindgen]
pub fn hydrate() {
    console_error_panic_hook::set_once();
    leptos::mount::hydrate_body(app::ui::App);
}
