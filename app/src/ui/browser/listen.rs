//! Listeners on the whole page: buttons inside rendered Markdown, and keyboard shortcuts.

/// Starts them, once, with the app; also the clock.
pub fn install() {
    super::clock::provide();
    #[cfg(feature = "hydrate")]
    leptos::prelude::Effect::new(|_| {
        let document = leptos::prelude::document();
        on(&document, "click", on_click);
        on(&document, "keydown", on_key);
        super::tabs::leave_with_others();
    });
}

/// Listens until the surrounding component goes.
#[cfg(feature = "hydrate")]
pub fn on<E>(target: &web_sys::EventTarget, name: &'static str, handler: impl FnMut(E) + 'static)
where
    E: wasm_bindgen::convert::FromWasmAbi + 'static,
{
    use leptos::prelude::*;
    use wasm_bindgen::JsCast;
    use wasm_bindgen::closure::Closure;
    let closure = Closure::<dyn FnMut(E)>::new(handler);
    let _ = target.add_event_listener_with_callback(name, closure.as_ref().unchecked_ref());
    let held = StoredValue::new_local((target.clone(), closure));
    on_cleanup(move || {
        held.try_with_value(|(target, closure)| {
            let _ = target.remove_event_listener_with_callback(name, closure.as_ref().unchecked_ref());
        });
    });
}

#[cfg(feature = "hydrate")]
fn on_click(event: web_sys::Event) {
    use wasm_bindgen::JsCast;
    let Some(target) = event.target().and_then(|target| target.dyn_into::<web_sys::Element>().ok()) else { return };
    if let Ok(Some(button)) = target.closest(".code-copy") {
        copy_code(&button);
    } else if let Ok(Some(link)) = target.closest(".image-link")
        && load_image(&link)
    {
        event.prevent_default();
    }
}

#[cfg(feature = "hydrate")]
fn copy_code(button: &web_sys::Element) {
    let code = button.closest("figure").ok().flatten().and_then(|figure| figure.query_selector("code").ok().flatten());
    let Some(code) = code else { return };
    super::clipboard::copy(code.text_content().unwrap_or_default());
    let _ = button.set_attribute("data-done", "true");
    button.set_text_content(Some("Copied"));
    let button = button.clone();
    leptos::prelude::set_timeout(
        move || {
            let _ = button.remove_attribute("data-done");
            button.set_text_content(Some("Copy"));
        },
        std::time::Duration::from_secs(2),
    );
}

/// Puts the image in a frame of its own, whose policy allows that one host and nothing else.
#[cfg(feature = "hydrate")]
fn load_image(link: &web_sys::Element) -> bool {
    let Some(url) = link.get_attribute("href") else { return false };
    let Ok(frame) = leptos::prelude::document().create_element("iframe") else { return false };
    let title = link.query_selector(".image-alt").ok().flatten().and_then(|alt| alt.text_content()).unwrap_or_default();
    let title = if title.is_empty() { "Image".to_owned() } else { title };
    let source = format!("/image?src={}", js_sys::encode_uri_component(&url));
    let set = [("class", "image-frame"), ("sandbox", ""), ("title", title.as_str()), ("src", source.as_str())];
    if set.iter().any(|(name, value)| frame.set_attribute(name, value).is_err()) {
        return false;
    }
    link.replace_with_with_node_1(&frame).is_ok()
}

#[cfg(feature = "hydrate")]
fn on_key(event: web_sys::KeyboardEvent) {
    let command = event.ctrl_key() || event.meta_key();
    let key = event.key();
    if command && event.shift_key() && key.eq_ignore_ascii_case("o") {
        if click("a[href='/chatgxy/new']") {
            event.prevent_default();
        }
    } else if key == "Escape" && !event.default_prevented() {
        // An open dialog takes Esc for itself.
        let modal = leptos::prelude::document().query_selector("dialog[open]").ok().flatten().is_some();
        if !modal && !click(".shell[data-history=open] .scrim") {
            click(".composer [data-kind=stop]:not([hidden])");
        }
    }
}

/// Clicks the first element that fits.
#[cfg(feature = "hydrate")]
fn click(selector: &str) -> bool {
    use wasm_bindgen::JsCast;
    let found = leptos::prelude::document().query_selector(selector).ok().flatten();
    match found.and_then(|element| element.dyn_into::<web_sys::HtmlElement>().ok()) {
        Some(element) => {
            element.click();
            true
        }
        None => false,
    }
}
