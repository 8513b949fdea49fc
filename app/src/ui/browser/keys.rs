//! What a key press means.

use leptos::ev::KeyboardEvent;

/// Whether it sends: Enter, but not with Shift, and not the Enter that confirms an input method's text. Safari ends the composition
/// first and then reports that key with code 229.
pub fn is_send(event: &KeyboardEvent) -> bool {
    event.key() == "Enter" && !event.shift_key() && !event.is_composing() && event.key_code() != 229
}
