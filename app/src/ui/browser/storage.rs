//! What the browser keeps. All of it is optional: with storage full, blocked or corrupt the page works from memory.
//!
//! Choices of looks (theme, panel) are kept for the browser; drafts, which are a person's words, only for the tab and under the
//! person's id, and they are forgotten at sign-out.

use std::collections::BTreeMap;

use leptos::prelude::*;

use crate::model::ids::UserId;

#[cfg(feature = "hydrate")]
const THEME: &str = "chatgxy-theme";
#[cfg(feature = "hydrate")]
const PANEL: &str = "chatgxy-history";
#[cfg(feature = "hydrate")]
const DRAFTS: &str = "chatgxy-drafts";

/// What is kept for the browser; `None` where that is switched off.
#[cfg(feature = "hydrate")]
fn local() -> Option<web_sys::Storage> {
    window().local_storage().ok().flatten()
}

/// What is kept for the tab; `None` where that is switched off.
#[cfg(feature = "hydrate")]
fn session() -> Option<web_sys::Storage> {
    window().session_storage().ok().flatten()
}

#[cfg(feature = "hydrate")]
fn get<T: serde::de::DeserializeOwned>(storage: Option<web_sys::Storage>, name: &str) -> Option<T> {
    let text = storage?.get_item(name).ok().flatten()?;
    serde_json::from_str(&text).ok()
}

#[cfg(feature = "hydrate")]
fn set<T: serde::Serialize + ?Sized>(storage: Option<web_sys::Storage>, name: &str, value: &T) {
    if let (Some(storage), Ok(text)) = (storage, serde_json::to_string(value)) {
        let _ = storage.set_item(name, &text);
    }
}

/// Light or dark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Theme {
    /// As the system says.
    System,
    /// Always light.
    Light,
    /// Always dark.
    Dark,
}

impl Theme {
    /// The word in storage, page and tooltip.
    pub fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }

    /// The one after it.
    pub fn next(self) -> Self {
        match self {
            Self::System => Self::Light,
            Self::Light => Self::Dark,
            Self::Dark => Self::System,
        }
    }
}

/// The chosen theme.
pub fn theme() -> RwSignal<Theme> {
    let theme = RwSignal::new(Theme::System);
    #[cfg(feature = "hydrate")]
    Effect::new(move |_| {
        let kept = get::<String>(local(), THEME).unwrap_or_default();
        let kept = [Theme::Light, Theme::Dark].into_iter().find(|theme| theme.name() == kept);
        if let Some(kept) = kept {
            theme.set(kept);
        }
    });
    theme
}

/// Chooses a theme.
pub fn set_theme(signal: RwSignal<Theme>, theme: Theme) {
    signal.set(theme);
    #[cfg(feature = "hydrate")]
    {
        set(local(), THEME, theme.name());
        if let Some(root) = document().document_element() {
            let _ = match theme {
                Theme::System => root.remove_attribute("data-theme"),
                Theme::Light | Theme::Dark => root.set_attribute("data-theme", theme.name()),
            };
        }
    }
}

/// Whether the history is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistoryPanel {
    /// By the width of the window.
    Auto,
    /// Shown, on a narrow window above the conversation.
    Open,
    /// Hidden.
    Closed,
}

impl HistoryPanel {
    /// The word in page and storage.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Open => "open",
            Self::Closed => "closed",
        }
    }
}

#[derive(Clone, Copy)]
struct Panel(RwSignal<HistoryPanel>);

/// The state of the history panel, one for the page.
pub fn history_panel() -> RwSignal<HistoryPanel> {
    if let Some(Panel(panel)) = use_context() {
        return panel;
    }
    let panel = RwSignal::new(HistoryPanel::Auto);
    provide_context(Panel(panel));
    #[cfg(feature = "hydrate")]
    Effect::new(move |_| {
        if get::<String>(local(), PANEL).is_some_and(|kept| kept == HistoryPanel::Closed.name()) {
            panel.set(HistoryPanel::Closed);
        }
    });
    panel
}

/// Shows or hides the panel, and remembers it.
pub fn set_history_panel(signal: RwSignal<HistoryPanel>, panel: HistoryPanel) {
    signal.set(panel);
    #[cfg(feature = "hydrate")]
    set(local(), PANEL, panel.name());
}

/// After a conversation was chosen: a panel above it goes, a column beside it stays.
pub fn settle_history_panel(signal: RwSignal<HistoryPanel>) {
    if signal.get_untracked() == HistoryPanel::Open {
        signal.set(HistoryPanel::Auto);
    }
}

/// Unsent text by conversation, of one person.
#[derive(Clone, Copy)]
pub struct Drafts {
    kept: StoredValue<Option<(UserId, BTreeMap<String, String>)>>,
}

/// Makes a place for drafts that the components below find.
pub fn provide_drafts() -> Drafts {
    let drafts = Drafts { kept: StoredValue::new(None) };
    provide_context(drafts);
    drafts
}

/// The drafts of the page.
pub fn drafts() -> Drafts {
    expect_context::<Drafts>()
}

#[allow(unused_variables, clippy::unused_self, reason = "the server keeps no drafts")]
impl Drafts {
    /// Whose page it is: brings back what this tab kept of that person, and nothing of anyone else.
    pub fn belong_to(self, user: UserId) {
        #[cfg(feature = "hydrate")]
        self.kept.update_value(|kept| {
            if kept.as_ref().is_none_or(|(owner, _)| *owner != user) {
                let stored = get::<(UserId, BTreeMap<String, String>)>(session(), DRAFTS);
                *kept = Some(stored.filter(|(owner, _)| *owner == user).unwrap_or((user, BTreeMap::new())));
            }
        });
    }

    /// The unsent text of a conversation.
    pub fn text(self, name: &str) -> String {
        let text = |kept: &Option<(UserId, BTreeMap<String, String>)>| kept.as_ref().and_then(|(_, texts)| texts.get(name).cloned());
        self.kept.try_with_value(text).flatten().unwrap_or_default()
    }

    /// Keeps the unsent text of a conversation; an empty one is forgotten.
    pub fn keep(self, name: &str, text: &str) {
        #[cfg(feature = "hydrate")]
        self.kept.try_update_value(|kept| {
            let Some((_, texts)) = kept else { return };
            if text.is_empty() {
                texts.remove(name);
            } else {
                texts.insert(name.to_owned(), text.to_owned());
            }
            set(session(), DRAFTS, kept);
        });
    }
}

/// Forgets every word of the person.
pub fn forget() {
    #[cfg(feature = "hydrate")]
    if let Some(storage) = session() {
        let _ = storage.remove_item(DRAFTS);
    }
}
