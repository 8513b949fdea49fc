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
