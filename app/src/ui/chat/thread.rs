//! One conversation: its turns, the way back to earlier ones, the welcome of an empty one.

use leptos::html;
use leptos::prelude::*;
use leptos::task::spawn_local;
use leptos_meta::Title;
use leptos_router::hooks::use_query_map;

use super::composer::Composer;
use super::history::HistoryList;
use super::live::LiveTurn;
use super::page::{ChatHead, NEW};
use super::turn::TurnArticle;
use crate::api::chat::{ChatSetup, read_conversation};
use crate::model::exchange::{Conversation, TurnView};
use crate::model::ids::TurnId;
use crate::model::turn::TurnState;
use crate::ui::browser::{scroll, storage, tab_tools, tabs};
use crate::ui::widgets::{Icon, Notes};

/// What the parts of a conversation share.
#[derive(Clone, Copy)]
pub struct Thread {
    /// Its name in the address; [`NEW`] before the first question.
    pub name: StoredValue<String>,
    /// The turns on screen, oldest first.
    pub turns: RwSignal<Vec<LiveTurn>>,
    /// How many turns come before the first one on screen.
    offset: RwSignal<i64>,
    /// Notes and announcements.
    pub notes: Notes,
    /// The history beside it.
    pub list: HistoryList,
    /// What a card or an example put into the composer.
    pub filled: RwSignal<Option<String>>,
    /// What a click says in the person's place; sent at once.
    pub chosen: RwSignal<Option<String>>,
}

impl Thread {
    /// Puts a turn that has just begun on screen.
    pub fn push(self, view: TurnView) {
        self.turns.update(|turns| {
            if turns.iter().all(|turn| turn.id != view.turn.id) {
                turns.push(LiveTurn::new(view));
            }
        });
    }

    /// Puts another attempt in the place of the latest turn.
    pub fn replace_last(self, view: TurnView) {
        self.turns.update(|turns| {
            turns.pop();
            turns.push(LiveTurn::new(view));
        });
    }

    /// The turn that is being answered, if any. Tracks the turns and their states.
    pub fn live(self) -> Option<LiveTurn> {
        self.turns.with(|turns| turns.last().filter(|last| last.turn.with(|turn| turn.state == TurnState::Running)).cloned())
    }

    /// Takes over what happened in another tab or while this one was hidden.
    fn sync(self) {
        let name = self.name.get_value();
        if name == NEW {
            return;
        }
        spawn_local(async move {
            let Ok(fresh) = read_conversation(name, None).await else { return };
            self.merge(fresh);
        });
    }

    fn merge(self, fresh: Conversation) {
        let Some(first) = fresh.turns.first().map(|view| view.turn.row) else { return };
        // Nothing to do for a conversation that was left meanwhile.
        let Some(mut mine) = self.turns.try_get_untracked() else { return };
        let is_known =
            |live: &LiveTurn| live.turn.with_untracked(|turn| turn.row) < first || fresh.turns.iter().any(|view| view.turn.id == live.id);
        let before = mine.len();
        mine.retain(is_known);
        let mut changed = mine.len() != before;
        for view in fresh.turns {
            match mine.iter().find(|live| live.id == view.turn.id) {
                // A turn that runs has its own stream.
                Some(live) => {
                    if view.turn.is_ended() {
                        live.replace(view);
                    }
                }
                None => {
                    mine.push(LiveTurn::new(view));
                    changed = true;
                }
            }
        }
        if changed {
            self.turns.set(mine);
        }
    }

    fn load_earlier(self, view: NodeRef<html::Div>) {
        let (name, before) = (self.name.get_value(), self.turns.with_untracked(|turns| first_row(turns)));
        spawn_local(async move {
            match read_conversation(name, before).await {
                Ok(page) => {
                    scroll::hold_place(view);
                    self.offset.set(page.earlier);
                    self.turns.update(|turns| {
                        let mut all: Vec<_> = page.turns.into_iter().map(LiveTurn::new).collect();
                        all.append(turns);
                        *turns = all;
                    });
                }
                Err(error) => self.notes.show(error.to_string()),
            }
        });
    }
}

fn first_row(turns: &[LiveTurn]) -> Option<i64> {
    turns.first().map(|live| live.turn.with_untracked(|turn| turn.row.0))
}

/// The main column.
#[component]
pub fn ConversationView(
    name: String,
    loaded: Option<Conversation>,
    setup: ChatSetup,
    notes: Notes,
    list: HistoryList,
    panel: RwSignal<storage::HistoryPanel>,
) -> impl IntoView {
    let (summary, turns, earlier) = match loaded {
        Some(loaded) => (Some(loaded.summary), loaded.turns, loaded.earlier),
        None => (None, Vec::new(), 0),
    };
    let title = summary.map_or_else(|| "New conversation".to_owned(), |summary| summary.title);
    let turns: Vec<_> = turns.into_iter().map(LiveTurn::new).collect();
    // Without scripts, earlier turns are pages of their own.
    let latest = use_query_map().with_untracked(|query| query.get_str("before").is_some()).then(|| format!("/chatgxy/{name}"));
    let thread = Thread {
        name: StoredValue::new(name),
        turns: RwSignal::new(turns),
        offset: RwSignal::new(earlier),
        notes,
        list,
        filled: RwSignal::new(None),
        chosen: RwSignal::new(None),
    };
    provide_context(thread);
    tabs::on_news(move || {
        thread.sync();
        list.refresh();
    });
    tab_tools::install(notes, thread.filled);
    storage::settle_history_panel(panel);
    let empty = Memo::new(move |_| thread.turns.with(Vec::is_empty));
    let (outer, inner) = (NodeRef::<html::Div>::new(), NodeRef::<html::Div>::new());
    let stick = scroll::stick_to_bottom(outer, inner);
    // Turns are numbered from the start of the conversation, so that a name stays the same when earlier ones come in.
    let number = move |id: &TurnId| {
        let place = thread.turns.with_untracked(|turns| turns.iter().position(|turn| turn.id == *id));
        thread.offset.get_untracked() + place.and_then(|place| i64::try_from(place).ok()).unwrap_or(0) + 1
    };
    let demo = setup.demo;
    view! {
        <Title text=title.clone() />
        <main id="main" class="chat" data-empty=move || empty.get().to_string() tabindex="-1">
            <ChatHead title />
            <div class="thread" role="log" aria-label="Conversation" aria-live="off" tabindex="0" node_ref=outer>
                <div class="thread-inner" node_ref=inner>
                    <a
                        class="button earlier"
                        data-kind="quiet"
                        hidden=move || thread.offset.get() == 0
                        href=move || format!("?before={}", thread.turns.with(|turns| first_row(turns).unwrap_or_default()))
                        on:click=move |event| {
                            event.prevent_default();
                            thread.load_earlier(outer);
                        }
                    >
                        "Show earlier turns"
                    </a>
                    <For each=move || thread.turns.get() key=|live| live.id.clone() let:live>
                        {
                            let number = number(&live.id);
                            view! { <TurnArticle live number thread /> }
                        }
                    </For>
                    {latest
                        .map(|href| {
                            view! {
                                <a class="button earlier" data-kind="quiet" href=href rel="external">
                                    "Show latest turns"
                                </a>
                            }
                        })}
                    {move || empty.get().then(|| view! { <Welcome thread demo /> })}
                </div>
                <button type="button" class="button jump" hidden=move || stick.at_bottom.get() on:click=move |_| stick.jump.run(())>
                    <Icon name="arrow-down" />
                    "Jump to latest"
                </button>
            </div>
            <Composer thread setup jump=stick.jump />
        </main>
    }
}

const EXAMPLES: [(&str, &str); 4] = [
    ("tool", "Which tool should I use to trim adapters from paired-end reads?"),
    ("bug", "My job failed with \"cannot allocate memory\". What can I do?"),
    ("book", "Explain how RNA-seq differential expression works, step by step."),
    ("search", "How do I join two tabular files on their first column?"),
];

/// What an empty conversation shows.
#[component]
fn Welcome(thread: Thread, demo: bool) -> impl IntoView {
    view! {
        <section class="welcome">
            <h2>"What are you working on?"</h2>
            <p>"Ask about tools, workflows, errors or your data. Every question and answer is kept."</p>
            <ul class="examples">
                {EXAMPLES
                    .map(|(icon, question)| {
                        view! {
                            <li>
                                <button type="button" class="example" on:click=move |_| thread.filled.set(Some(question.to_owned()))>
                                    <Icon name=icon />
                                    <span>{question}</span>
                                </button>
                            </li>
                        }
                    })}
            </ul>
            {demo
                .then(|| {
                    view! {
                        <p class="demo-note">
                            "A demo model answers. " <a href="/account#model">"Connect a real one"</a>
                        </p>
                    }
                })}
        </section>
    }
}
