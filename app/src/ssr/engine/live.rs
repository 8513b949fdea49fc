//! A turn that runs in this process: its state, its events so far, its HTML so far.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::decide::Input;
use crate::model::event::{Seq, TurnEvent};
use crate::model::exchange::TurnView;
use crate::model::ids::{TurnId, UserId};
use crate::model::part::Part;
use crate::model::turn::Turn;
use crate::ssr::render::{self, LiveText};

/// The HTML of a turn: for each part its top-level blocks.
pub(super) type Html = Vec<Vec<Arc<str>>>;

/// A running turn. Readers hold it as long as they need it, also after its end.
pub(super) struct Live {
    pub id: TurnId,
    pub user: UserId,
    pub epoch: i64,
    inputs: mpsc::UnboundedSender<Input>,
    state: Mutex<State>,
    /// Bumped at each change; the number itself means nothing.
    changed: watch::Sender<u64>,
}

/// Guarded by a plain mutex: it is held for the microseconds of an apply or a render, never across an await.
struct State {
    turn: Turn,
    /// Every event, from seq 1.
    events: Vec<TurnEvent>,
    html: LiveHtml,
    /// The end came from elsewhere; the events no longer lead to it.
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
    pub fn new(user: UserId, turn: Turn, epoch: i64) -> (Arc<Self>, mpsc::UnboundedReceiver<Input>) {
        let (inputs, inbox) = mpsc::unbounded_channel();
        let id = turn.id.clone();
        let state = State { turn, events: Vec::new(), html: LiveHtml::default(), replaced: false };
        let live = Self { id, user, epoch, inputs, state: Mutex::new(state), changed: watch::channel(0).0 };
        (Arc::new(live), inbox)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the task; a task that has ended does not listen any more, and need not.
    pub fn send(&self, input: Input) {
        let _ = self.inputs.send(input);
    }

    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
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
        let seq = {
            let mut state = self.lock();
            let seq = state.turn.seq + 1;
            if let Err(refused) = state.turn.apply(seq, &event) {
                tracing::error!(turn = %self.id, %refused, "a decided event does not fit its turn");
                return None;
            }
            state.events.push(event);
            seq
        };
        self.changed.send_modify(|n| *n += 1);
        Some(seq)
    }

    /// Takes over an end that came from elsewhere.
    pub fn replace(&self, turn: Turn) {
        {
            let mut state = self.lock();
            state.turn = turn;
            state.replaced = true;
        }
        self.changed.send_modify(|n| *n += 1);
    }

    /// What came after `after`, with the HTML of the same moment: made again if it is due or the turn has ended, else as it was.
    pub fn look(&self, after: Seq) -> Look {
        let mut state = self.lock();
        let skip = usize::try_from(after).unwrap_or(usize::MAX);
        let news = if state.replaced || skip > state.events.len() {
            News::Whole(Box::new(state.view()))
        } else {
            News::Events { first: after + 1, events: state.events[skip..].to_vec() }
        };
        let State { turn, html, .. } = &mut *state;
        let (html, due_in) = html.update_if_due(turn);
        Look { news, html, due_in, ended: turn.is_ended() }
    }

    /// The turn with its HTML up to date.
    pub fn view(&self) -> TurnView {
        self.lock().view()
    }

    /// Waits until the turn is over.
    pub async fn ended(&self) {
        let mut changed = self.subscribe();
        while !self.with_turn(Turn::is_ended) {
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

    fn update(&mut self, turn: &Turn) {
        if self.seq == turn.seq && !self.blocks.is_empty() {
            return;
        }
        let mut next = Duration::ZERO;
        self.texts.resize_with(turn.parts.len(), || None);
        self.blocks.resize_with(turn.parts.len(), Vec::new);
        let last = turn.parts.len().saturating_sub(1);
        for (index, part) in turn.parts.iter().enumerate() {
            let Part::Text { text } = part else { continue };
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
        self.seq = turn.seq;
        self.due = Some(Instant::now() + next);
    }
}

/// A settled turn, rendered.
impl From<Turn> for TurnView {
    fn from(turn: Turn) -> Self {
        let html = turn.parts.iter().map(|part| match part {
            Part::Text { text } => render::blocks(text).iter().map(ToString::to_string).collect(),
            _ => Vec::new(),
        });
        Self { html: html.collect(), turn }
    }
}
