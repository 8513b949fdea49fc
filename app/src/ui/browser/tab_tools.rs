//! What a person, or this tab, does with calls of tools. Their HTML comes from the server; here its forms and buttons are brought to life.
//!
//! A tab runs a call only after the server has given it to that tab, so that of several one does; it holds on to the call as long as it
//! shows it.

use leptos::prelude::*;

use crate::ui::chat::live::LiveTurn;
use crate::ui::widgets::Notes;

/// Sends the answers that are given on this page, and puts what a card suggests into the composer.
#[allow(unused_variables, reason = "the server is no browser")]
pub fn install(notes: Notes, filled: RwSignal<Option<String>>) {
    #[cfg(feature = "hydrate")]
    Effect::new(move |_| tab::listen(notes, filled));
}

/// Says that a turn asks, and runs what it wants from this tab.
#[allow(unused_variables, reason = "the server is no browser")]
pub fn attend(live: &LiveTurn, notes: Notes) {
    #[cfg(feature = "hydrate")]
    {
        let live = live.clone();
        let known = StoredValue::new_local(Vec::<String>::new());
        let wanted = {
            let turn = live.turn.clone();
            Memo::new(move |_| turn.with(tab::wanted))
        };
        Effect::new(move |_| {
            for want in wanted.get() {
                if known.with_value(|known| !known.contains(&want.key)) {
                    known.update_value(|known| known.push(want.key.clone()));
                    tab::begin(&live, want, notes);
                }
            }
        });
    }
}

#[cfg(feature = "hydrate")]
mod tab {
    use std::sync::LazyLock;
    use std::time::Duration;

    use leptos::prelude::*;
    use leptos::task::spawn_local;
    use serde_json::Value;
    use wasm_bindgen::JsCast;
    use web_sys::{Element, HtmlElement, HtmlInputElement, HtmlTextAreaElement};

    use crate::api::chat::use_tool;
    use crate::model::part::{ToolCall, ToolState};
    use crate::model::turn::Turn;
    use crate::ui::browser::{clipboard, field, ids, listen};
    use crate::ui::chat::live::LiveTurn;
    use crate::ui::widgets::Notes;

    /// This tab, until it is closed or loaded anew.
    static TAB: LazyLock<String> = LazyLock::new(ids::new);
    /// How often a tab says that it still has a call.
    const HOLD: Duration = Duration::from_secs(30);

    /// A call that wants somebody.
    #[derive(Clone, PartialEq)]
    pub struct Want {
        /// The call, and what it wants.
        pub key: String,
        call: String,
        /// Whether a person is asked, else this tab has to do it.
        asks: bool,
    }

    pub fn wanted(turn: &Turn) -> Vec<Want> {
        let want = |call: &&ToolCall| match &call.state {
            ToolState::Asking { .. } => Some(Want { key: call.call.clone() + "?", call: String::new(), asks: true }),
            ToolState::Waiting { .. } => Some(Want { key: call.call.clone(), call: call.call.clone(), asks: false }),
            _ => None,
        };
        turn.every_call().iter().filter_map(want).collect()
    }

    pub fn begin(live: &LiveTurn, want: Want, notes: Notes) {
        if want.asks {
            // Which one the question itself says: it has the focus next.
            notes.announce("A tool needs your permission");
            // After the HTML, and after everything else that takes the focus when a page begins.
            set_timeout(|| _ = focus_question(), Duration::from_millis(100));
        } else {
            claim(live.clone(), want.call, notes);
        }
    }

    /// Unless the person is writing.
    fn focus_question() -> Option<()> {
        let area: HtmlTextAreaElement = document().query_selector(".composer textarea").ok()??.dyn_into().ok()?;
        if !area.value().trim().is_empty() {
            return None;
        }
        let form: HtmlElement = document().query_selector(".tool-ask").ok()??.dyn_into().ok()?;
        form.focus().ok()
    }

    pub fn listen(notes: Notes, filled: RwSignal<Option<String>>) {
        listen::on(&document(), "click", move |event: web_sys::Event| {
            let target = event.target().and_then(|target| target.dyn_into::<Element>().ok());
            let button = target.and_then(|target| target.closest(".tool-ask button, .tool-run, [data-fill]").ok().flatten());
            let Some(button) = button else { return };
            if let Some(text) = button.get_attribute("data-fill") {
                filled.set(Some(text));
                return;
            }
            match button.closest("form") {
                Ok(Some(form)) => {
                    event.prevent_default();
                    answer(&form, &button, notes);
                }
                _ => again(&button, notes),
            }
        });
    }

    fn answer(form: &Element, button: &Element, notes: Notes) {
        let field_of = |name: &str| {
            let found = form.query_selector(&format!("[name={name}]")).ok().flatten();
            found.and_then(|field| field.dyn_into::<HtmlInputElement>().ok()).map(|field| field.value()).unwrap_or_default()
        };
        let act = button.get_attribute("value").unwrap_or_default();
        let [turn, call, key, value] = ["turn", "call", "key", "value"].map(field_of);
        let form = form.clone();
        if form.get_attribute("aria-busy").is_some() {
            return;
        }
        let _ = form.set_attribute("aria-busy", "true");
        spawn_local(async move {
            let answered = use_tool(turn, call, act, Some(key), Some(value)).await;
            let _ = form.remove_attribute("aria-busy");
            match answered {
                // The button is gone, and the focus must not be.
                Ok(_) => field::focus_composer(),
                Err(error) => notes.show(error.to_string()),
            }
        });
    }

    std::thread_local! {
        /// The calls that this page shows and may run, by their ids.
        static JOBS: std::cell::RefCell<Vec<(String, LiveTurn)>> = const { std::cell::RefCell::new(Vec::new()) };
    }

    fn again(button: &Element, notes: Notes) {
        let call = button.get_attribute("data-call").unwrap_or_default();
        let live = JOBS.with_borrow(|jobs| jobs.iter().find(|(id, _)| *id == call).map(|(_, live)| live.clone()));
        if let Some(live) = live {
            claim(live, call, notes);
        }
    }

    /// Asks for the call, and runs it if this tab gets it.
    fn claim(live: LiveTurn, call: String, notes: Notes) {
        JOBS.with_borrow_mut(|jobs| jobs.push((call.clone(), live.clone())));
        spawn_local(async move {
            let turn = live.id.to_string();
            match use_tool(turn, call.clone(), "claim".into(), Some(TAB.clone()), None).await {
                Ok(true) => carry_out(live, call, notes).await,
                Ok(false) => {}
                Err(error) => notes.show(error.to_string()),
            }
        });
    }

    /// Does what the call says and tells the server what came of it.
    async fn carry_out(live: LiveTurn, call: String, notes: Notes) {
        let known = live.turn.with_untracked(|turn| turn.find(&call).map(|(_, call)| (call.name.clone(), call.state.input().cloned())));
        let Some((name, input)) = known else { return };
        let argument = input.as_ref().and_then(|input| input.get("text")).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (act, value) = match name.as_str() {
            "copy_to_clipboard" if clipboard::try_copy(&argument).await.is_err() => {
                notes.show("Your browser wants a click before it copies: press the button at the tool.");
                return hold(&live, call);
            }
            // The browser's own JSON: ours would be more for everybody to load.
            "copy_to_clipboard" => ("ran", format!("{{\"copied_characters\":{}}}", argument.chars().count())),
            "test_client" => {
                ("ran", format!("{{\"ran\":{}}}", js_sys::JSON::stringify(&argument.into()).map_or_else(|_| "null".into(), String::from)))
            }
            other => ("failed", format!("This version of the page does not know the tool {other}.")),
        };
        if let Err(error) = use_tool(live.id.to_string(), call, act.into(), Some(TAB.clone()), Some(value)).await {
            notes.show(error.to_string());
        }
    }

    /// Says now and then that this tab still has the call, while it shows it.
    fn hold(live: &LiveTurn, call: String) {
        let live = live.clone();
        let still = move || {
            let waits = live.turn.try_with_untracked(|turn| wanted(turn).iter().any(|want| want.key == call)).unwrap_or(false);
            if waits && !document().hidden() {
                let (turn, call) = (live.id.to_string(), call.clone());
                spawn_local(async move { drop(use_tool(turn, call, "claim".into(), Some(TAB.clone()), None).await) });
            }
            waits
        };
        later(still);
    }

    fn later(still: impl Fn() -> bool + 'static) {
        set_timeout(
            move || {
                if still() {
                    later(still);
                }
            },
            HOLD,
        );
    }
}
