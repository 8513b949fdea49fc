//! The stream of a running turn: opened when the turn is on screen and the tab is seen, closed when it ends or the tab is hidden, so
//! that any number of tabs fits into the six connections of HTTP/1.1.

use crate::model::event::End;
use crate::ui::chat::live::LiveTurn;

/// Keeps a turn on screen up to date until it ends; then calls back with how it ended.
#[allow(unused_variables, reason = "the server sends the turn as it is")]
pub fn follow(live: &LiveTurn, ended: impl Fn(Option<End>) + Clone + 'static) {
    #[cfg(feature = "hydrate")]
    {
        use leptos::prelude::*;
        if live.turn.with_untracked(crate::model::turn::Turn::is_ended) {
            return;
        }
        let source = StoredValue::new_local(None::<source::Source>);
        let live = live.clone();
        Effect::new(move |_| {
            let (live, ended) = (live.clone(), ended.clone());
            source::open(source, &live, &ended);
            super::listen::on(&document(), "visibilitychange", move |_: leptos::ev::Event| {
                if document().hidden() {
                    drop(source.try_set_value(None));
                } else {
                    source::open(source, &live, &ended);
                }
            });
        });
    }
}

#[cfg(feature = "hydrate")]
mod source {
    use std::time::Duration;

    use leptos::prelude::*;
    use wasm_bindgen::JsCast;
    use wasm_bindgen::closure::Closure;
    use web_sys::{EventSource, MessageEvent};

    use crate::model::event::End;
    use crate::model::frame::Frame;
    use crate::model::turn::Turn;
    use crate::ui::chat::live::{LiveTurn, set_block};

    /// How long to wait after the server refused the stream.
    const PAUSE: Duration = Duration::from_secs(3);

    /// An open stream; closed when dropped.
    pub struct Source {
        stream: EventSource,
        _heard: Closure<dyn FnMut(MessageEvent)>,
        _failed: Closure<dyn FnMut()>,
    }

    impl Drop for Source {
        fn drop(&mut self) {
            self.stream.set_onmessage(None);
            self.stream.set_onerror(None);
            self.stream.close();
        }
    }

    /// What became of a frame.
    enum Applied {
        /// It fits.
        Fits,
        /// Events are missing: ask again from what is here.
        Gap,
        /// It was the last one.
        Last,
    }

    /// Takes over what the stream says.
    fn apply(live: &LiveTurn, frame: Frame) -> Applied {
        match frame {
            Frame::Snapshot { view } => live.replace(*view),
            Frame::Events { first, events } => {
                let fits = live.turn.try_update(|turn| (first..).zip(&events).all(|(seq, event)| turn.apply(seq, event).is_ok()));
                if fits == Some(false) {
                    return Applied::Gap;
                }
            }
            Frame::Html { part, block, blocks, html } => set_block(&live.blocks(part), block, blocks, html),
            Frame::End => return Applied::Last,
        }
        Applied::Fits
    }

    type Slot = StoredValue<Option<Source>, LocalStorage>;

    /// Opens the stream after what is on screen; replaces an open one.
    pub fn open(slot: Slot, live: &LiveTurn, ended: &(impl Fn(Option<End>) + Clone + 'static)) {
        let over = live.turn.try_with_untracked(Turn::is_ended).unwrap_or(true);
        if over || document().hidden() {
            return;
        }
        let seq = live.turn.with_untracked(|turn| turn.seq);
        let Ok(stream) = EventSource::new(&format!("/chatgxy/turns/{}/events?after={seq}", live.id)) else { return };
        let heard = {
            let (live, ended) = (live.clone(), ended.clone());
            Closure::<dyn FnMut(MessageEvent)>::new(move |message: MessageEvent| {
                let frame = message.data().as_string().and_then(|text| serde_json::from_str::<Frame>(&text).ok());
                match frame.map(|frame| apply(&live, frame)) {
                    Some(Applied::Fits) => {}
                    Some(Applied::Last) => {
                        close_later(slot);
                        let how = live.turn.try_with_untracked(Turn::end).flatten();
                        ended(how);
                    }
                    Some(Applied::Gap) | None => {
                        let (live, ended) = (live.clone(), ended.clone());
                        set_timeout(move || open(slot, &live, &ended), Duration::ZERO);
                    }
                }
            })
        };
        let failed = {
            let (live, ended, stream) = (live.clone(), ended.clone(), stream.clone());
            Closure::<dyn FnMut()>::new(move || {
                // A broken connection comes back by itself; only a refusal closes the stream for good.
                if stream.ready_state() == EventSource::CLOSED {
                    let (live, ended) = (live.clone(), ended.clone());
                    set_timeout(move || open(slot, &live, &ended), PAUSE);
                }
            })
        };
        stream.set_onmessage(Some(heard.as_ref().unchecked_ref()));
        stream.set_onerror(Some(failed.as_ref().unchecked_ref()));
        slot.try_set_value(Some(Source { stream, _heard: heard, _failed: failed }));
    }

    /// Not from inside the stream's own callback: that would free it while it runs.
    fn close_later(slot: Slot) {
        if let Some(Some(stream)) = slot.try_with_value(|source| source.as_ref().map(|source| source.stream.clone())) {
            stream.close();
        }
        set_timeout(move || drop(slot.try_set_value(None)), Duration::ZERO);
    }
}
