//! A turn on screen: one signal for the turn, one for each block of HTML, so that only what grew is touched.

use leptos::prelude::*;

use crate::model::exchange::TurnView;
use crate::model::ids::TurnId;
use crate::model::turn::Turn;

/// The HTML of one top-level block.
pub type Block = ArcRwSignal<String>;

/// The HTML of one part.
pub type Blocks = ArcRwSignal<Vec<Block>>;

/// A turn on screen. Cheap to clone; all clones are the same turn.
#[derive(Clone)]
pub struct LiveTurn {
    /// Its name.
    pub id: TurnId,
    /// What it says.
    pub turn: ArcRwSignal<Turn>,
    html: ArcRwSignal<Vec<Blocks>>,
}

impl LiveTurn {
    /// Puts a turn on screen.
    pub fn new(view: TurnView) -> Self {
        let html = view.html.into_iter().map(|blocks| ArcRwSignal::new(blocks.into_iter().map(ArcRwSignal::new).collect())).collect();
        Self { id: view.turn.id.clone(), turn: ArcRwSignal::new(view.turn), html: ArcRwSignal::new(html) }
    }

    /// The blocks of a part, made by whoever asks first: what shows them or the stream that brings them.
    pub fn blocks(&self, part: usize) -> Blocks {
        if self.html.with_untracked(Vec::len) <= part {
            self.html.update(|html| html.resize_with(part + 1, Blocks::default));
        }
        self.html.with_untracked(|html| html[part].clone())
    }

    /// Takes over a whole turn; blocks that are the same stay untouched.
    pub fn replace(&self, view: TurnView) {
        let TurnView { turn, html } = view;
        // Two that have seen the same events are the same; what is not an event is compared.
        let same = |mine: &Turn| mine.seq == turn.seq && mine.state == turn.state && mine.feedback == turn.feedback;
        if !self.turn.with_untracked(same) {
            self.turn.set(turn);
        }
        for (part, blocks) in html.into_iter().enumerate() {
            let count = blocks.len();
            let mine = self.blocks(part);
            for (index, block) in blocks.into_iter().enumerate() {
                set_block(&mine, index, count, block);
            }
        }
    }
}

/// Puts a block in its place among `count`; touches nothing that is the same.
pub fn set_block(blocks: &Blocks, index: usize, count: usize, html: String) {
    let known = blocks.with_untracked(|blocks| blocks.get(index).cloned());
    match known {
        Some(block) => {
            if block.with_untracked(|old| *old != html) {
                block.set(html);
            }
        }
        None => blocks.update(|blocks| {
            blocks.resize_with(index, Block::default);
            blocks.push(Block::new(html));
        }),
    }
    if blocks.with_untracked(|blocks| blocks.len() > count) {
        blocks.update(|blocks| blocks.truncate(count));
    }
}
