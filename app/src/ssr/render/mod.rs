//! Markdown to HTML: the only renderer of the product, on the server.
//!
//! An answer becomes one HTML string for each top-level block, so a page can be updated block by block.
//! What a model writes is hostile input. Three things keep it harmless:
//!
//! 1. The writer ([`write`]) makes every tag itself from the syntax tree. Raw HTML in the source is shown as text, links
//!    go to the web or nowhere, and an image is a link that says which host it would call.
//! 2. A sanitiser ([`clean`]) drops whatever is not on the list of tags and attributes that the writer uses. Formulas,
//!    which it does not know, pass a fence of their own ([`math`]) and are put in afterwards.
//! 3. All work is bounded by counts, never by time, so that the same text always gives the same HTML.
//!
//! Calls of tools are made by [`tool`], what comes after an answer by [`suggestion`]. [`blocks`] renders text that is complete and remembers it; [`LiveText`] renders text that still grows.

mod cache;
mod clean;
mod code;
mod live;
mod math;
pub mod suggestion;
pub mod tool;
mod write;

#[cfg(test)]
mod tests;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock};

use cache::Cache;
pub use live::LiveText;
use write::Document;

/// Longer texts are shown as plain text: no model writes this much, and no browser lays it out well.
const MAX_MARKDOWN: usize = 2 << 20;
/// What the rendered answers in memory may weigh, sources included.
const CACHE_BYTES: usize = 6 << 20;

type Rendered = Arc<[Arc<str>]>;

static SETTLED: LazyLock<Cache<Rendered>> = LazyLock::new(|| Cache::new(CACHE_BYTES));

/// The HTML of each top-level block of a text that will not change any more.
///
/// The result is remembered, so that showing the same answer again costs a look-up.
#[must_use]
pub fn blocks(markdown: &str) -> Vec<Arc<str>> {
    if let Some(known) = SETTLED.get(markdown) {
        return known.to_vec();
    }
    let document = guarded(markdown, |text| write::document(text, None));
    let blocks: Rendered = document.blocks.into_iter().map(|block| block.html).chain(document.footnotes).map(Arc::from).collect();
    SETTLED.put(markdown, Arc::clone(&blocks), blocks.iter().map(|html| html.len() + 32).sum());
    blocks.to_vec()
}

/// Runs `render`, and shows the text as it is if that is too long or if a parser gives up on it.
///
/// A panic in one of the parsers must cost one answer its formatting, not a turn its driver.
fn guarded(markdown: &str, render: impl FnOnce(&str) -> Document) -> Document {
    if markdown.len() > MAX_MARKDOWN {
        return write::plain(markdown);
    }
    catch_unwind(AssertUnwindSafe(|| render(markdown))).unwrap_or_else(|_| write::plain(markdown))
}

/// Adds `text` as HTML text, safe within an attribute in double quotes too.
fn escape(out: &mut String, text: &str) {
    let mut from = 0;
    for (at, byte) in text.bytes().enumerate() {
        let entity = match byte {
            b'&' => "&amp;",
            b'<' => "&lt;",
            b'>' => "&gt;",
            b'"' => "&quot;",
            0 => "\u{fffd}",
            _ => continue,
        };
        out.push_str(&text[from..at]);
        out.push_str(entity);
        from = at + 1;
    }
    out.push_str(&text[from..]);
}
