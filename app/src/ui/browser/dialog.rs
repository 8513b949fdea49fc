//! Modal dialogs: the browser's own, with its focus trap and Esc.

use leptos::html::Dialog;
use leptos::prelude::*;

/// Shows a dialog above everything.
pub fn open(dialog: NodeRef<Dialog>) {
    if let Some(element) = dialog.get_untracked() {
        #[cfg(feature = "hydrate")]
        let _ = element.show_modal();
        #[cfg(not(feature = "hydrate"))]
        drop(element);
    }
}

/// Closes it.
pub fn close(dialog: NodeRef<Dialog>) {
    if let Some(element) = dialog.get_untracked() {
        #[cfg(feature = "hydrate")]
        element.close();
        #[cfg(not(feature = "hydrate"))]
        drop(element);
    }
}

/// Keeps a form from being sent unless the person says yes.
#[allow(unused_variables, reason = "the server asks nobody")]
pub fn confirm(event: &leptos::ev::SubmitEvent, question: &str) {
    #[cfg(feature = "hydrate")]
    if !leptos::prelude::window().confirm_with_message(question).unwrap_or(true) {
        event.prevent_default();
    }
}
