//! The list of conversations: by day of the person's own zone, loading on, deleting with a way back.

use leptos::html;
use leptos::prelude::*;
use leptos::task::spawn_local;
use leptos_router::hooks::use_navigate;

use super::page::NEW;
use crate::api::chat::{clear_history, delete_exchange, read_history, restore_deleted};
use crate::model::exchange::{ExchangeSummary, History, HistoryCursor};
use crate::model::ids::Millis;
use crate::ui::browser::{clock, dialog, scroll, storage, tabs};
use crate::ui::widgets::{Icon, Notes, Time};

/// The lines that are loaded, and where the next ones begin.
#[derive(Clone, Copy)]
pub struct HistoryList {
    lines: RwSignal<Vec<ExchangeSummary>>,
    next: RwSignal<Option<HistoryCursor>>,
    loading: RwSignal<bool>,
}

impl HistoryList {
    /// An empty list.
    pub fn provide() -> Self {
        Self { lines: RwSignal::new(Vec::new()), next: RwSignal::new(None), loading: RwSignal::new(false) }
    }

    /// The first page, as it came with the document.
    pub fn start(self, first: History) {
        self.lines.set(first.lines);
        self.next.set(first.next);
    }

    /// Asks for the first page again, after something changed; older lines that are loaded stay.
    pub fn refresh(self) {
        spawn_local(async move {
            let Ok(fresh) = read_history(None).await else { return };
            let Some(cursor) = fresh.next else {
                self.start(fresh);
                return;
            };
            let is_older = |line: &ExchangeSummary| (line.updated_at, line.id) < (cursor.updated_at, cursor.id);
            let known: Vec<_> = fresh.lines.iter().map(|line| line.id).collect();
            self.lines.update(|lines| {
                let older: Vec<_> = lines.drain(..).filter(|line| is_older(line) && !known.contains(&line.id)).collect();
                if older.is_empty() {
                    self.next.set(Some(cursor));
                }
                *lines = fresh.lines;
                lines.extend(older);
            });
        });
    }

    fn load_more(self, notes: Notes) {
        let Some(cursor) = self.next.get_untracked() else { return };
        if self.loading.get_untracked() {
            return;
        }
        self.loading.set(true);
        spawn_local(async move {
            match read_history(Some(cursor)).await {
                Ok(page) => {
                    self.lines.update(|lines| {
                        let new = |line: &ExchangeSummary| !lines.iter().any(|known| known.id == line.id);
                        let fresh: Vec<_> = page.lines.into_iter().filter(new).collect();
                        lines.extend(fresh);
                    });
                    self.next.set(page.next);
                }
                Err(error) => notes.show(error.to_string()),
            }
            self.loading.set(false);
        });
    }
}

/// The panel.
#[component]
pub fn HistoryPanel(list: HistoryList, name: Signal<String>, panel: RwSignal<storage::HistoryPanel>) -> impl IntoView {
    let notes = expect_context::<Notes>();
    let groups = Memo::new(move |_| {
        let now = clock::now();
        let mut groups: Vec<(&'static str, Vec<ExchangeSummary>)> = Vec::new();
        list.lines.with(|lines| {
            for line in lines {
                let day = clock::day_group(now, line.updated_at);
                match groups.last_mut() {
                    Some((open, of_day)) if *open == day => of_day.push(line.clone()),
                    _ => groups.push((day, vec![line.clone()])),
                }
            }
        });
        groups
    });
    let empty = Memo::new(move |_| list.lines.with(Vec::is_empty));
    let sentinel = NodeRef::<html::Button>::new();
    scroll::when_seen(sentinel, move || list.load_more(notes));
    view! {
        <aside class="history" id="history" aria-label="Conversations">
            <header class="history-head">
                <h2>"Conversations"</h2>
                <a class="button" data-kind="primary" href="/chatgxy/new" on:click=move |_| storage::settle_history_panel(panel)>
                    <Icon name="plus" />
                    "New"
                </a>
                <a
                    class="icon-button"
                    href="#main"
                    aria-label="Hide conversations"
                    title="Hide conversations"
                    on:click=move |event| {
                        event.prevent_default();
                        storage::set_history_panel(panel, storage::HistoryPanel::Closed);
                    }
                >
                    <Icon name="sidebar" />
                </a>
            </header>
            <nav class="history-list" aria-label="Conversation list">
                <For each=move || groups.get() key=|(day, lines)| (*day, lines.iter().map(line_key).collect::<Vec<_>>()) let((day, lines))>
                    <section class="history-group">
                        <h3>{day}</h3>
                        <ul>
                            {lines.into_iter().map(|line| view! { <Line line name list panel /> }).collect_view()}
                        </ul>
                    </section>
                </For>
                <p class="history-empty" hidden=move || !empty.get()>
                    "No conversations yet."
                </p>
                <button
                    type="button"
                    class="button"
                    data-kind="quiet"
                    node_ref=sentinel
                    hidden=move || list.next.get().is_none()
                    on:click=move |_| list.load_more(notes)
                >
                    "Show older"
                </button>
            </nav>
            <Foot list name empty=empty.into() />
        </aside>
    }
}

/// A line is drawn anew when any of this changes.
fn line_key(line: &ExchangeSummary) -> (i64, Millis, i64, String) {
    (line.id.0, line.updated_at, line.turn_count, line.title.clone())
}

#[component]
fn Line(line: ExchangeSummary, name: Signal<String>, list: HistoryList, panel: RwSignal<storage::HistoryPanel>) -> impl IntoView {
    let notes = expect_context::<Notes>();
    let uuid = StoredValue::new(line.uuid.to_string());
    let current = Memo::new(move |_| uuid.with_value(|uuid| name.with(|name| name == uuid)));
    let label = format!("Delete conversation: {}", line.title.chars().take(80).collect::<String>());
    let turns = if line.turn_count == 1 { "1 turn".to_owned() } else { format!("{} turns", line.turn_count) };
    let go = use_navigate();
    let delete = move |_| {
        let go = go.clone();
        // The line itself may be drawn anew meanwhile.
        let uuid = uuid.get_value();
        spawn_local(async move {
            match delete_exchange(uuid.clone()).await {
                Ok(deleted_at) => {
                    list.lines.update(|lines| lines.retain(|other| other.uuid.as_str() != uuid));
                    let back = name.try_get_untracked().is_some_and(|name| name == uuid).then(|| format!("/chatgxy/{uuid}"));
                    if back.is_some() {
                        go(&format!("/chatgxy/{NEW}"), leptos_router::NavigateOptions::default());
                    }
                    tabs::tell();
                    let back = back.map(|path| Callback::new(move |()| go(&path, leptos_router::NavigateOptions::default())));
                    notes.show_undo("Conversation deleted", restore(list, notes, deleted_at, back));
                }
                Err(error) => notes.show(error.to_string()),
            }
        });
    };
    view! {
        <li class="history-item" data-current=move || current.get().to_string()>
            <a
                href=format!("/chatgxy/{}", line.uuid)
                aria-current=move || current.get().then_some("page")
                title=line.title.clone()
                on:click=move |_| storage::settle_history_panel(panel)
            >
                <Icon name=line.agent.icon() />
                <span class="history-title">{line.title.clone()}</span>
                <span class="history-meta">
                    <Time at=line.updated_at relative=true />
                    <span class="count">{turns}</span>
                </span>
            </a>
            <button type="button" class="icon-button" aria-label=label title="Delete conversation" on:click=delete>
                <Icon name="trash" />
            </button>
        </li>
    }
}

/// Takes back what was deleted, and goes `back` to where it was seen.
fn restore(list: HistoryList, notes: Notes, deleted_at: Millis, back: Option<Callback<()>>) -> Callback<()> {
    Callback::new(move |()| {
        spawn_local(async move {
            match restore_deleted(deleted_at).await {
                Ok(()) => {
                    list.refresh();
                    tabs::tell();
                    notes.announce("Restored");
                    if let Some(back) = back {
                        back.run(());
                    }
                }
                Err(error) => notes.show(error.to_string()),
            }
        });
    })
}

/// Clear history, after a question.
#[component]
fn Foot(list: HistoryList, name: Signal<String>, empty: Signal<bool>) -> impl IntoView {
    let notes = expect_context::<Notes>();
    let ask = NodeRef::<html::Dialog>::new();
    let go = use_navigate();
    let clear = move |_| {
        dialog::close(ask);
        let go = go.clone();
        spawn_local(async move {
            match clear_history().await {
                Ok(deleted_at) => {
                    list.start(History::default());
                    if name.with_untracked(|name| name != NEW) {
                        go(&format!("/chatgxy/{NEW}"), leptos_router::NavigateOptions::default());
                    }
                    tabs::tell();
                    notes.show_undo("History cleared", restore(list, notes, deleted_at, None));
                }
                Err(error) => notes.show(error.to_string()),
            }
        });
    };
    view! {
        <footer class="history-foot" hidden=move || empty.get()>
            <button type="button" class="button" data-kind="quiet" on:click=move |_| dialog::open(ask)>
                <Icon name="trash" />
                "Clear history"
            </button>
        </footer>
        <dialog class="dialog" aria-labelledby="clear-title" node_ref=ask>
            <h2 id="clear-title">"Clear history?"</h2>
            <p>"All your conversations are deleted, and answers that are being written are stopped. You can undo this for 30 seconds."</p>
            <div class="dialog-actions">
                <button type="button" class="button" on:click=move |_| dialog::close(ask)>
                    "Cancel"
                </button>
                <button type="button" class="button" data-kind="danger" on:click=clear>
                    "Clear history"
                </button>
            </div>
        </dialog>
    }
}
