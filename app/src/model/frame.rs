//! What the stream of one turn sends to our own browser.

use serde::{Deserialize, Serialize};

use super::event::{Seq, TurnEvent};
use super::exchange::TurnView;

/// One message of the stream. The first two carry a place in the event log (the SSE `id:`); HTML does not, since it can always be
/// made again from the text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Frame {
    /// The whole turn: forget what you had.
    Snapshot {
        /// The turn with its HTML.
        view: Box<TurnView>,
    },
    /// What happened next.
    Events {
        /// Place of the first one.
        first: Seq,
        /// In order, without gaps.
        events: Vec<TurnEvent>,
    },
    /// One top-level block of one text part changed its HTML.
    Html {
        /// Index of the part.
        part: usize,
        /// Index of the block in the part.
        block: usize,
        /// Blocks that the part has now; later ones are gone.
        blocks: usize,
        /// The block.
        html: String,
    },
    /// Nothing comes after this.
    End,
}
