//! One turn: the question, the answer as far as it came, how it ended, what to do next.

use leptos::either::Either;
use leptos::prelude::*;
use leptos::task::spawn_local;

use super::live::LiveTurn;
use super::thread::Thread;
use server_fn::ServerFn;

use crate::api::chat::{SendQuestion, give_feedback, retry};
use crate::model::agent::AgentType;
use crate::model::event::{End, Finish, Interruption};
use crate::model::part::Part;
use crate::model::turn::{Feedback, Turn, TurnState};
use crate::ui::browser::{clipboard, field, tab_tools, tabs, turn_stream};
use crate::ui::widgets::{Icon, Time};

/// What a part is, as far as its view is concerned.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Text,
    Reasoning,
    /// Drawn by the server as a whole.
    Drawn,
}

fn kinds(turn: &Turn) -> Vec<(usize, Kind)> {
    let kind = |(index, part): (usize, &Part)| match part {
        Part::Text { .. } => Some((index, Kind::Text)),
        Part::Reasoning { .. } => Some((index, Kind::Reasoning)),
        Part::Tool(_) | Part::Notice(_) => Some((index, Kind::Drawn)),
        Part::StepStart | Part::Unknown(_) => None,
    };
    // Sources and suggestions, if there are any.
    let tail = turn.is_ended().then_some((turn.parts.len(), Kind::Drawn));
    turn.parts.iter().enumerate().filter_map(kind).chain(tail).collect()
}

/// Whether a model works and nothing shows it yet.
fn is_silent(turn: &Turn) -> bool {
    turn.state == TurnState::Running
        && match turn.parts.last() {
            Some(Part::Text { text }) => text.trim().is_empty(),
            Some(Part::Tool(call)) => !call.state.is_open(),
            _ => true,
        }
}

/// Where no script follows the answer, the page itself comes again until it is there.
const RELOAD: &str = r#"<meta http-equiv="refresh" content="2">"#;

/// The turn.
#[component]
pub fn TurnArticle(live: LiveTurn, number: i64, thread: Thread) -> impl IntoView {
    let turn = live.turn.clone();
    let id = live.id.clone();
    turn_stream::follow(&live, move |how| {
        thread.notes.announce(match how {
            Some(End::Answered) => "Answer complete",
            Some(End::Interrupted(Interruption::ByUser)) => "Answer stopped",
            _ => "Answer incomplete",
        });
        thread.list.refresh();
        tabs::tell();
    });
    tab_tools::attend(&live, thread.notes);
    let prompt = turn.with_untracked(|turn| turn.prompt.text.clone());
    let running = turn.with_untracked(|turn| turn.state == TurnState::Running);
    let asked_at = turn.with_untracked(|turn| turn.started_at);
    let long = prompt.chars().count() > 1_200 || prompt.lines().count() > 16;
    let state = {
        let turn = turn.clone();
        Memo::new(move |_| turn.with(Turn::state_name))
    };
    view! {
        <article class="turn" data-state=move || state.get() id=format!("turn-{id}") aria-label=format!("Turn {number}")>
            <div class="prompt">
                <p class="prompt-text">{prompt}</p>
                {long
                    .then(|| {
                        view! {
                            <label class="prompt-more">
                                <input type="checkbox" />
                                <span>"Show whole message"</span>
                            </label>
                        }
                    })}
                <Time at=asked_at />
            </div>
            <Answer live thread />
            {running.then(|| view! { <noscript inner_html=RELOAD></noscript> })}
        </article>
    }
}

#[component]
fn Answer(live: LiveTurn, thread: Thread) -> impl IntoView {
    let turn = live.turn.clone();
    let (agent, model, parts, waiting, busy) = {
        let (a, b, c, d, e) = (turn.clone(), turn.clone(), turn.clone(), turn.clone(), turn.clone());
        (
            Memo::new(move |_| a.with(|turn| turn.agent().clone())),
            Memo::new(move |_| b.with(|turn| turn.model.clone())),
            Memo::new(move |_| c.with(kinds)),
            Memo::new(move |_| d.with(is_silent)),
            Memo::new(move |_| e.with(|turn| !turn.is_ended() && matches!(turn.parts.last(), Some(Part::Reasoning { .. })))),
        )
    };
    let icon = Signal::derive(move || agent.get().icon());
    let of_part = live.clone();
    view! {
        <div class="answer">
            <header class="answer-head">
                <Icon name=icon />
                <span class="agent-name">{move || agent.get().label().to_owned()}</span>
                <span class="model-name" title=move || model.get().unwrap_or_default()>
                    {move || model.get().unwrap_or_default()}
                </span>
            </header>
            <For each=move || parts.get() key=|part| *part let((index, kind))>
                {match kind {
                    Kind::Reasoning => Either::Left(view! { <ReasoningPart turn=of_part.turn.clone() index busy=busy.into() /> }),
                    Kind::Text => Either::Right(view! { <Blocks live=of_part.clone() index class="prose" /> }),
                    Kind::Drawn => Either::Right(view! { <Blocks live=of_part.clone() index class="drawn" /> }),
                }}
            </For>
            <div class="waiting skeleton" aria-hidden="true" hidden=move || !waiting.get()>
                <i></i>
                <i></i>
                <i></i>
            </div>
            <EndNotice live=live.clone() thread />
            <Options live=live.clone() thread />
            <Foot live thread />
        </div>
    }
}

/// A part whose HTML comes from the server: text (`prose`), or `drawn` as a whole: a call of a tool, a notice, sources and suggestions.
#[component]
fn Blocks(live: LiveTurn, index: usize, class: &'static str) -> impl IntoView {
    let blocks = live.blocks(index);
    view! {
        <div class=class>
            <For each=move || blocks.get().into_iter().enumerate() key=|(place, _)| *place let((_, block))>
                <div class="block" inner_html=move || block.get()></div>
            </For>
        </div>
    }
}

#[component]
fn ReasoningPart(turn: ArcRwSignal<Turn>, index: usize, busy: Signal<bool>) -> impl IntoView {
    let text = Memo::new(move |_| {
        turn.with(|turn| match turn.parts.get(index) {
            Some(Part::Reasoning { text }) => text.clone(),
            _ => String::new(),
        })
    });
    view! {
        <details class="reasoning" data-busy=move || busy.get().to_string()>
            <summary>
                <Icon name="reasoning" />
                "Reasoning"
            </summary>
            <p>{move || text.get()}</p>
        </details>
    }
}

/// What a notice says: kind, icon, what happened, what to do, whether it can be tried again.
fn notice(turn: &Turn) -> Option<(&'static str, &'static str, &'static str, String, bool)> {
    let TurnState::Ended { end, finish, .. } = turn.state else { return None };
    let kept = if turn.has_text() { "What came is kept." } else { "Your question is kept." };
    match end {
        End::Answered => match finish {
            Some(Finish::Length) => {
                Some(("info", "info", "The answer reached the length limit.", "Ask to continue for the rest.".into(), false))
            }
            Some(Finish::ContentFilter) => Some(("info", "info", "The provider withheld the rest.", "What came is kept.".into(), true)),
            _ => None,
        },
        End::Failed(failure) => {
            let (what, advice) = failure.explain();
            Some(("failed", "error", what, format!("{kept} {advice}"), true))
        }
        End::Interrupted(Interruption::ByUser) => Some(("stopped", "stop", "Stopped by you.", kept.into(), true)),
        End::Interrupted(Interruption::Shutdown) => {
            Some(("interrupted", "warning", "The server was restarted.", format!("{kept} Retry to get a whole answer."), true))
        }
        End::Interrupted(Interruption::Expired) => {
            Some(("interrupted", "info", "Nobody answered in time.", format!("{kept} Retry to be asked again."), true))
        }
        End::Interrupted(Interruption::Superseded) => {
            Some(("stopped", "info", "You went on without an answer.", "The tool did not run.".into(), false))
        }
        End::Interrupted(Interruption::Lost) => {
            Some(("interrupted", "warning", "The answer was interrupted.", format!("{kept} Retry to get a whole answer."), true))
        }
    }
}

/// Whether this is the latest turn: only that one can be tried again.
fn is_last(thread: Thread, live: &LiveTurn) -> Memo<bool> {
    let id = live.id.clone();
    Memo::new(move |_| thread.turns.with(|turns| turns.last().is_some_and(|last| last.id == id)))
}

fn try_again(thread: Thread, id: String) {
    spawn_local(async move {
        match retry(id).await {
            Ok(view) => {
                thread.replace_last(view);
                field::focus_composer();
                thread.notes.announce("Generating");
                tabs::tell();
            }
            Err(error) => thread.notes.show(error.to_string()),
        }
    });
}

#[component]
fn EndNotice(live: LiveTurn, thread: Thread) -> impl IntoView {
    let last = is_last(thread, &live);
    let turn = live.turn.clone();
    let id = StoredValue::new(live.id.to_string());
    let notice = Memo::new(move |_| turn.with(notice));
    move || {
        notice.get().map(|(kind, icon, what, advice, again)| {
            view! {
                <div class="notice" data-kind=kind role="note">
                    <Icon name=icon />
                    <p>
                        <strong>{what}</strong>
                        " "
                        {advice}
                    </p>
                    <form
                        method="post"
                        action="/api/fn/chat/retry"
                        hidden=move || !(again && last.get())
                        on:submit=move |event| {
                            event.prevent_default();
                            try_again(thread, id.get_value());
                        }
                    >
                        <input type="hidden" name="turn" value=id.get_value() />
                        <button class="button">
                            <Icon name="retry" />
                            "Retry"
                        </button>
                    </form>
                </div>
            }
        })
    }
}

/// The meanings to choose from, when the agent asked back.
#[component]
fn Options(live: LiveTurn, thread: Thread) -> impl IntoView {
    let last = is_last(thread, &live);
    let turn = live.turn;
    let options = Memo::new(move |_| {
        turn.with(
            |turn| if turn.is_ended() && turn.agent().as_str() == AgentType::CLARIFICATION { turn.reply.options() } else { Vec::new() },
        )
    });
    move || {
        let all = options.get();
        (!all.is_empty()).then(|| {
            // A form each, so that it works without scripts too.
            let option = move |text: String| {
                let answer = text.clone();
                view! {
                    <li>
                        <form
                            method="post"
                            action=SendQuestion::PATH
                            on:submit=move |event| {
                                event.prevent_default();
                                thread.chosen.set(Some(answer.clone()));
                            }
                        >
                            <input type="hidden" name="exchange" value=thread.name.get_value() />
                            <input type="hidden" name="query" value=text.clone() />
                            <button class="button" disabled=move || !last.get()>
                                {text}
                            </button>
                        </form>
                    </li>
                }
            };
            view! {
                <ul class="options" aria-label="Options">
                    {all.into_iter().map(option).collect_view()}
                </ul>
            }
        })
    }
}

#[component]
fn Foot(live: LiveTurn, thread: Thread) -> impl IntoView {
    let last = is_last(thread, &live);
    let id = StoredValue::new(live.id.to_string());
    let turn = live.turn.clone();
    let (tokens, took, ended_at, feedback) = {
        let (a, b, c, d) = (turn.clone(), turn.clone(), turn.clone(), turn.clone());
        (
            Memo::new(move |_| a.with(|turn| turn.usage.input.saturating_add(turn.usage.output))),
            Memo::new(move |_| b.with(Turn::took_ms)),
            Signal::derive(move || {
                c.with(|turn| match turn.state {
                    TurnState::Ended { when, .. } => when,
                    TurnState::Running | TurnState::Paused => turn.started_at,
                })
            }),
            Memo::new(move |_| d.with(|turn| turn.feedback.clone())),
        )
    };
    let copied = RwSignal::new(false);
    let asking = RwSignal::new(false);
    let thanks = RwSignal::new(false);
    let copy = {
        let turn = turn.clone();
        move |_| {
            clipboard::copy(turn.with_untracked(Turn::text));
            copied.set(true);
            thread.notes.announce("Copied");
            set_timeout(
                move || {
                    copied.try_set(false);
                },
                std::time::Duration::from_secs(2),
            );
        }
    };
    // Shown at once, taken back when the server does not have it. One request at a time: two could overtake each other.
    let sending = StoredValue::new(false);
    let rate = {
        let turn = turn.clone();
        move |next: Option<Feedback>| {
            let mut stored = turn.with_untracked(|turn| turn.feedback.clone());
            turn.update(|turn| turn.feedback = next);
            if sending.get_value() {
                return;
            }
            sending.set_value(true);
            let turn = turn.clone();
            spawn_local(async move {
                while let Some(wanted) = turn.try_with_untracked(|turn| turn.feedback.clone()).filter(|wanted| *wanted != stored) {
                    let (good, reason) = (wanted.as_ref().map(|f| f.good), wanted.as_ref().and_then(|f| f.reason.clone()));
                    match give_feedback(id.get_value(), good, reason).await {
                        Ok(()) => stored = wanted,
                        Err(error) => {
                            turn.try_update(|turn| turn.feedback.clone_from(&stored));
                            thread.notes.show(format!("Your rating was not stored. {error}"));
                        }
                    }
                }
                sending.try_set_value(false);
            });
        }
    };
    let toggle = {
        let rate = rate.clone();
        move |good: bool| {
            let is_set = feedback.get_untracked().is_some_and(|old| old.good == good);
            rate((!is_set).then_some(Feedback { good, reason: None }));
            asking.set(!is_set && !good);
            thanks.set(false);
        }
    };
    let toggle_down = toggle.clone();
    let pressed = move |good: bool| feedback.get().is_some_and(|feedback| feedback.good == good).to_string();
    let reason = NodeRef::<leptos::html::Input>::new();
    let explain = move |event: leptos::ev::SubmitEvent| {
        event.prevent_default();
        let text = field::value(reason);
        if !text.trim().is_empty() {
            rate(Some(Feedback { good: false, reason: Some(text) }));
            thanks.set(true);
        }
        asking.set(false);
        field::focus_composer();
    };
    // The notice above has one already.
    let offered = {
        let turn = turn.clone();
        Memo::new(move |_| !turn.with(|turn| notice(turn).is_some_and(|(.., again)| again)))
    };
    view! {
        <footer class="answer-foot">
            <button type="button" class="icon-button" aria-label="Copy answer" title="Copy answer" data-done=move || copied.get().to_string() on:click=copy>
                <Icon name=Signal::derive(move || if copied.get() { "check" } else { "copy" }) />
            </button>
            <button
                type="button"
                class="icon-button"
                aria-label="Good answer"
                title="Good answer"
                aria-pressed=move || pressed(true)
                on:click=move |_| toggle(true)
            >
                <Icon name="thumb-up" />
            </button>
            <button
                type="button"
                class="icon-button"
                aria-label="Bad answer"
                title="Bad answer"
                aria-pressed=move || pressed(false)
                on:click=move |_| toggle_down(false)
            >
                <Icon name="thumb-down" />
            </button>
            <button
                type="button"
                class="icon-button"
                aria-label="Retry"
                title="Retry"
                hidden=move || !(last.get() && offered.get())
                on:click=move |_| try_again(thread, id.get_value())
            >
                <Icon name="retry" />
            </button>
            <span class="answer-meta">
                <span hidden=move || tokens.get() == 0>{move || format!("{} tokens", tokens.get())}</span>
                <span hidden=move || took.get().is_none()>{move || took.get().map_or_else(String::new, seconds)}</span>
                <Time at=ended_at />
            </span>
            <form class="feedback-reason" hidden=move || !asking.get() on:submit=explain>
                <input
                    class="input"
                    node_ref=reason
                    aria-label="What was wrong? (optional)"
                    placeholder="What was wrong?"
                    maxlength="1000"
                />
                <button class="button">"Send note"</button>
                <button type="button" class="button" data-kind="quiet" on:click=move |_| asking.set(false)>
                    "Skip"
                </button>
            </form>
            <p class="feedback-thanks" hidden=move || !thanks.get()>
                "Thank you. Your note is kept with this answer."
            </p>
        </footer>
    }
}

/// `2100` ms as `2.1 s`.
fn seconds(took_ms: i64) -> String {
    format!("{}.{} s", took_ms / 1000, took_ms % 1000 / 100)
}
