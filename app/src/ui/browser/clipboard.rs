//! Copying.

/// Puts text on the clipboard and says whether it is there: a browser may want a click first.
#[cfg(feature = "hydrate")]
pub async fn try_copy(text: &str) -> Result<(), ()> {
    use wasm_bindgen::JsValue;
    let navigator = leptos::prelude::window().navigator();
    let modern = js_sys::Reflect::get(&navigator, &JsValue::from_str("clipboard")).is_ok_and(|found| found.is_object());
    if !modern {
        copy(text.to_owned());
        return Ok(());
    }
    let written = js_sys::futures::JsFuture::from(navigator.clipboard().write_text(text));
    written.await.map(drop).map_err(drop)
}

/// Puts text on the clipboard; also on plain HTTP, where the modern interface is missing.
#[allow(unused_variables, reason = "the server has no clipboard")]
pub fn copy(text: String) {
    #[cfg(feature = "hydrate")]
    {
        use wasm_bindgen::{JsCast, JsValue};
        let navigator = leptos::prelude::window().navigator();
        let modern = js_sys::Reflect::get(&navigator, &JsValue::from_str("clipboard")).is_ok_and(|found| found.is_object());
        if modern {
            // A refusal leaves the clipboard as it was, which is all there is to say.
            let _ = navigator.clipboard().write_text(&text);
            return;
        }
        let document = leptos::prelude::document();
        let (Some(body), Ok(element)) = (document.body(), document.create_element("textarea")) else { return };
        let area: web_sys::HtmlTextAreaElement = element.unchecked_into();
        area.set_value(&text);
        area.set_class_name("sr-only");
        if body.append_child(&area).is_ok() {
            area.select();
            let document: web_sys::HtmlDocument = document.unchecked_into();
            let _ = document.exec_command("copy");
            area.remove();
        }
    }
}
