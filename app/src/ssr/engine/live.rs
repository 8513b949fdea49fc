//! A turn that is not over, as this process knows it: its state, its events so far, its HTML so far.
//!
//! It is fed by the task that runs the turn, or, when the turn is paused or runs elsewhere, by the store ([`super::mirror`]). Readers do
//! not see the difference.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::model::event::{Seq, TurnEvent};
use crate::model::exchange::TurnView;
use crate::model::ids::{TurnId, TurnRow, UserId};
use crate::model::part::Part;
use crate::model::turn::Turn;
use crate::ssr::render::{self, LiveText};

/// The HTML of a turn: for each part its top-level blocks.
pub(super) type Html = Vec<Vec<Arc<str>>>;

/// A turn on its way. Readers hold it as long as they need it, also after its end.
pub(super) struct Live {
    pub id: TurnId,
    pub row: TurnRow,
    pub user: UserId,
    state: Mutex<State>,
    /// Bumped at each change; the number itself means nothing.
    changed: watch::Sender<u64>,
}

/// Guarded by a plain mutex: it is held for the microseconds of an apply or a render, never across an await.
struct State {
    turn: Turn,
    /// The place after which `events` begin.
    base: Seq,
    /// Every event since then.
    events: Vec<TurnEvent>,
    html: LiveHtml,
    /// The end came as a whole; no events lead to it.
    replaced: bool,
}

/// What a reader who has seen everything up to some place is given.
pub(super) enum News {
    /// The events after that place, maybe none.
    Events { first: Seq, events: Vec<TurnEvent> },
    /// The events do not lead on from there; here is all of it.
    Whole(Box<TurnView>),
}

/// A turn at one moment, for one reader.
pub(super) struct Look {
    pub news: News,
    pub html: Html,
    /// When HTML is due that is not in `html` yet.
    pub due_in: Option<Duration>,
    pub ended: bool,
}

impl Live {
    pub fn new(user: UserId, turn: Turn) -> Arc<Self> {
        let (id, row, base) = (turn.id.clone(), turn.row, turn.seq);
        let state = State { turn, base, events: Vec::new(), html: LiveHtml::default(), replaced: false };
        Arc::new(Self { id, row, user, state: Mutex::new(state), changed: watch::channel(0).0 })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Whether anybody reads it.
    pub fn is_watched(&self) -> bool {
        self.changed.receiver_count() > 0
    }

    pub fn turn(&self) -> Turn {
        self.lock().turn.clone()
    }

    /// Looks at the turn without copying it.
    pub fn with_turn<T>(&self, look: impl FnOnce(&Turn) -> T) -> T {
        look(&self.lock().turn)
    }

    /// Applies an event and wakes the readers; gives its place.
    pub fn push(&self, event: TurnEvent) -> Option<Seq> {
        let mut state = self.lock();
        let seq = state.turn.seq + 1;
        if let Err(refused) = state.turn.apply(seq, &event) {
            tracing::error!(turn = %self.id, %refused, "a decided event does not fit its turn");
            return None;
        }
        state.events.push(event);
        let State { turn, html, .. } = &mut *state;
        html.forget_after(turn);
        drop(state);
        self.changed.send_modify(|n| *n += 1);
        Some(seq)
    }

    /// Applies an event that the store knows, unless it is known here; says whether it fits.
    pub fn learn(&self, seq: Seq, event: TurnEvent) -> bool {
        let mut state = self.lock();
        if seq <= state.turn.seq {
            return true;
        }
        if state.turn.apply(seq, &event).is_err() {
            return false;
        }
        state.events.push(event);
        let State { turn, html, .. } = &mut *state;
        html.forget_after(turn);
        drop(state);
        self.changed.send_modify(|n| *n += 1);
        true
    }

    /// Takes over the turn as it is elsewhere.
    pub fn replace(&self, turn: Turn) {
        {
            let mut state = self.lock();
            state.replaced = turn.is_ended();
            state.base = turn.seq;
            state.events.clear();
            state.html = LiveHtml::default();
            state.turn = turn;
        }
        self.changed.send_modify(|n| *n += 1);
    }

    /// What came after `after`, with the HTML of the same moment: made again if it is due or the turn has ended, else as it was.
    pub fn look(&self, after: Seq) -> Look {
        let mut state = self.lock();
        let skip = after.checked_sub(state.base).and_then(|skip| usize::try_from(skip).ok()).filter(|skip| *skip <= state.events.len());
        let news = if let (false, Some(skip)) = (state.replaced, skip) {
            News::Events { first: after + 1, events: state.events[skip..].to_vec() }
        } else {
            News::Whole(Box::new(state.view()))
        };
        let State { turn, html, .. } = &mut *state;
        let (html, due_in) = html.update_if_due(turn);
        Look { news, html, due_in, ended: turn.is_ended() }
    }

    /// The turn with its HTML up to date.
    pub fn view(&self) -> TurnView {
        self.lock().view()
    }

    /// Waits until that is true of the turn.
    pub async fn until(&self, holds: impl Fn(&Turn) -> bool) {
        let mut changed = self.subscribe();
        while !self.with_turn(&holds) {
            if changed.changed().await.is_err() {
                return;
            }
        }
    }
}

impl State {
    fn view(&mut self) -> TurnView {
        self.html.update(&self.turn);
        TurnView {
            turn: self.turn.clone(),
            html: self.html.blocks.iter().map(|part| part.iter().map(ToString::to_string).collect()).collect(),
        }
    }
}

/// The HTML of a turn that grows, shared by all its readers.
#[derive(Default)]
struct LiveHtml {
    texts: Vec<Option<LiveText>>,
    blocks: Html,
    /// The event up to which `blocks` is made.
    seq: Seq,
    due: Option<Instant>,
}

impl LiveHtml {
    fn update_if_due(&mut self, turn: &Turn) -> (Html, Option<Duration>) {
        let now = Instant::now();
        match self.due {
            Some(due) if due > now && self.seq < turn.seq && !turn.is_ended() => (self.blocks.clone(), Some(due - now)),
            _ => {
                self.update(turn);
                (self.blocks.clone(), None)
            }
        }
    }

    /// Drops what was made of parts that are taken back.
    fn forget_after(&mut self, turn: &Turn) {
        if self.blocks.len() > turn.parts.len() {
            self.texts.truncate(turn.parts.len());
            self.blocks.truncate(turn.parts.len());
        }
    }

    fn update(&mut self, turn: &Turn) {
        if self.seq == turn.seq && !self.blocks.is_empty() {
            return;
        }
        let mut next = Duration::ZERO;
        self.texts.resize_with(turn.parts.len(), || None);
        self.blocks.resize_with(turn.parts.len(), Vec::new);
        let last = turn.parts.len().saturating_sub(1);
        for (index, part) in turn.parts.iter().enumerate() {
            let text = match part {
                Part::Text { text } => text,
                Part::Tool(call) => {
                    let html: Arc<str> = render::tool::call(turn, call).into();
                    if self.blocks[index].first() != Some(&html) {
                        self.blocks[index] = vec![html];
                    }
                    continue;
                }
                Part::Notice(notice) => {
                    self.blocks[index] = vec![render::tool::notice(*notice).into()];
                    continue;
                }
                _ => continue,
            };
            let grows = index == last && !turn.is_ended();
            if grows {
                let live = self.texts[index].get_or_insert_default();
                self.blocks[index] = live.update(text).to_vec();
                next = next.max(live.next_due());
            } else if let Some(mut live) = self.texts[index].take() {
                self.blocks[index] = live.finish(text).to_vec();
            } else if self.blocks[index].is_empty() {
                self.blocks[index] = render::blocks(text);
            }
        }
        // They come after the last part, when no other part can come any more.
        self.blocks.extend(render::suggestion::tail(turn).map(|tail| vec![tail.into()]));
        self.seq = turn.seq;
        self.due = Some(Instant::now() + next);
    }
}

/// A settled turn, rendered.
impl From<Turn> for TurnView {
    fn from(turn: Turn) -> Self {
        let html = turn.parts.iter().map(|part| match part {
            Part::Text { text } => render::blocks(text).iter().map(ToString::to_string).collect(),
            Part::Tool(call) => vec![render::tool::call(&turn, call)],
            Part::Notice(notice) => vec![render::tool::notice(*notice)],
            _ => Vec::new(),
        });
        let html = html.chain(render::suggestion::tail(&turn).map(|tail| vec![tail])).collect();
        Self { turn, html }
    }
}
