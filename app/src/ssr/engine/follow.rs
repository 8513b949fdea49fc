//! Readers of a turn. A reader owns nothing: it says what it has, gets the rest, then what comes, then exactly one end.

use std::sync::Arc;

use async_stream::stream;
use futures::stream::{BoxStream, StreamExt};

use super::Engine;
use super::live::{Html, Live, Look, News};
use crate::model::error::AppError;
use crate::model::event::Seq;
use crate::model::exchange::TurnView;
use crate::model::frame::Frame;
use crate::model::ids::{TurnId, UserId};
use crate::model::turn::{Turn, TurnState};

// A reader is asked for nothing and waited for by nobody: each of these streams looks at the turn when it is polled. A slow reader
// skips what it missed and gets it in one piece, and one that is gone is simply dropped.
impl Engine {
    /// The frames of a turn for a reader who has everything up to `after`. Ends after [`Frame::End`]. A turn that waits for somebody is
    /// waited with.
    pub async fn follow(&self, user: UserId, id: &TurnId, after: Seq) -> Result<BoxStream<'static, Frame>, AppError> {
        match self.attach(user, id).await? {
            Ok(live) => Ok(follow_live(live, after)),
            Err(ended) => {
                let view = Box::new(TurnView::from(*ended));
                Ok(futures::stream::iter([Frame::Snapshot { view }, Frame::End]).boxed())
            }
        }
    }

    /// What `look` makes of the turn as it is now and after each change, until its end, or until it waits for somebody. Unlike
    /// [`Engine::follow`] it renders nothing.
    pub async fn watch<T: Send + 'static>(
        &self,
        user: UserId,
        id: &TurnId,
        mut look: impl FnMut(&Turn) -> Vec<T> + Send + 'static,
    ) -> Result<BoxStream<'static, T>, AppError> {
        match self.attach(user, id).await? {
            Ok(live) => Ok(watch_live(live, look)),
            Err(ended) => Ok(futures::stream::iter(look(&ended)).boxed()),
        }
    }
}

fn watch_live<T: Send + 'static>(live: Arc<Live>, mut look: impl FnMut(&Turn) -> Vec<T> + Send + 'static) -> BoxStream<'static, T> {
    let mut changed = live.subscribe();
    stream! {
        loop {
            changed.mark_unchanged();
            let (seen, ended) = live.with_turn(|turn| (look(turn), turn.state != TurnState::Running));
            for item in seen {
                yield item;
            }
            if ended {
                return;
            }
            // The sender lives as long as `live`, which this stream holds.
            let _ = changed.changed().await;
        }
    }
    .boxed()
}

fn follow_live(live: Arc<Live>, mut after: Seq) -> BoxStream<'static, Frame> {
    let mut changed = live.subscribe();
    let mut shown: Html = Vec::new();
    stream! {
        loop {
            changed.mark_unchanged();
            let Look { news, html, due_in, ended } = live.look(after);
            let mut last = None;
            match news {
                News::Events { first, mut events } => {
                    after += events.len() as Seq;
                    if ended {
                        // A turn that says it is over looks it, too: its end comes after the last of its text.
                        last = events.pop().map(|event| Frame::Events { first: after, events: vec![event] });
                    }
                    if !events.is_empty() {
                        yield Frame::Events { first, events };
                    }
                    for frame in differences(&shown, &html) {
                        yield frame;
                    }
                }
                News::Whole(view) => {
                    after = view.turn.seq;
                    yield Frame::Snapshot { view };
                }
            }
            shown = html;
            if ended {
                if let Some(last) = last {
                    yield last;
                }
                yield Frame::End;
                return;
            }
            tokio::select! {
                _ = changed.changed() => {}
                () = tokio::time::sleep(due_in.unwrap_or_default()), if due_in.is_some() => {}
            }
        }
    }
    .boxed()
}

/// The blocks that are not the ones shown. Settled blocks are the same allocation, so this costs a pointer each.
fn differences(shown: &Html, html: &Html) -> Vec<Frame> {
    let mut frames = Vec::new();
    for (part, blocks) in html.iter().enumerate() {
        let old = shown.get(part).map_or(&[][..], Vec::as_slice);
        for (block, text) in blocks.iter().enumerate() {
            let same = old.get(block).is_some_and(|old| Arc::ptr_eq(old, text) || old == text);
            if !same {
                frames.push(Frame::Html { part, block, blocks: blocks.len(), html: text.to_string() });
            }
        }
        if let (true, Some(last)) = (blocks.len() < old.len() && frames.is_empty(), blocks.last()) {
            frames.push(Frame::Html { part, block: blocks.len() - 1, blocks: blocks.len(), html: last.to_string() });
        }
    }
    frames
}

#[cfg(test)]
mod tests {
    use super::*;

    fn html(parts: &[&[&str]]) -> Html {
        parts.iter().map(|blocks| blocks.iter().map(|block| Arc::from(*block)).collect()).collect()
    }

    fn frame(part: usize, block: usize, blocks: usize, html: &str) -> Frame {
        Frame::Html { part, block, blocks, html: html.into() }
    }

    #[test]
    fn only_what_changed_is_sent() {
        let table = [
            (html(&[]), html(&[&["a"]]), vec![frame(0, 0, 1, "a")]),
            (html(&[&["a"]]), html(&[&["a"]]), vec![]),
            (html(&[&["a", "b"]]), html(&[&["a", "B", "c"]]), vec![frame(0, 1, 3, "B"), frame(0, 2, 3, "c")]),
            (html(&[&["a", "b"]]), html(&[&["a"]]), vec![frame(0, 0, 1, "a")]),
            (html(&[&["a"]]), html(&[&["a"], &["z"]]), vec![frame(1, 0, 1, "z")]),
        ];
        for (shown, now, expected) in table {
            assert_eq!(differences(&shown, &now), expected);
        }
    }
}
