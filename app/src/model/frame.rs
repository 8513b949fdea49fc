//! What the stream of one turn sends to our own browser.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use super::event::{Seq, TurnEvent};
use super::exchange::TurnView;
use super::tagged::Tagged;

/// One message of the stream. The first two carry a place in the event log (the SSE `id:`); HTML does not, since it can always be
/// made again from the text.
#[derive(Clone, Debug, PartialEq, Serialize)]
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

#[derive(Default, Deserialize)]
#[serde(default)]
struct Fields {
    view: Option<Box<TurnView>>,
    first: Seq,
    events: Vec<TurnEvent>,
    part: usize,
    block: usize,
    blocks: usize,
    html: String,
}

impl<'de> Deserialize<'de> for Frame {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Tagged { tag, fields } = Tagged::<Fields>::deserialize(deserializer)?;
        let Fields { view, first, events, part, block, blocks, html } = fields;
        Ok(match tag.as_str() {
            "snapshot" => Self::Snapshot { view: Tagged::<Fields>::need(view)? },
            "events" => Self::Events { first, events },
            "html" => Self::Html { part, block, blocks, html },
            "end" => Self::End,
            _ => return Err(D::Error::custom("no such frame")),
        })
    }
}
