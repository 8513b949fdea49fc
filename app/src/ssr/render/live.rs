//! Text that still grows.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::write::{self, Block};
use super::{blocks, guarded};

/// Rendering more often than this shows nothing that an eye could tell.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(60);
/// At most a tenth of a core for one stream.
const IDLE_FOR_BUSY: u32 = 10;
/// Definitions of links and notes that are carried along.
const MAX_DEFINITIONS: usize = 16 << 10;
/// Between the definitions and the text, so that neither continues the other.
const SEPARATOR: &str = "\n\n***\n\n";

/// The blocks of a text that still grows.
///
/// All blocks but the last are settled: they are neither parsed nor rendered again, and keep their [`Arc`]. So the cost
/// of an update is that of the last block, however long the text before it.
///
/// While the text grows, what refers to something further down (a link by name, a footnote) shows as text;
/// [`LiveText::finish`] puts that right.
#[derive(Debug, Default)]
pub struct LiveText {
    blocks: Vec<Arc<str>>,
    /// How many of `blocks` are settled.
    settled: usize,
    /// Where the text behind them starts.
    start: usize,
    /// How long the text was at the last update.
    seen: usize,
    /// Definitions in the settled text, for the text behind it to use.
    definitions: String,
    took: Duration,
    parsed: usize,
}

impl LiveText {
    /// A text of which nothing has come yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The blocks of `whole`, which must begin with what `whole` was before.
    pub fn update(&mut self, whole: &str) -> &[Arc<str>] {
        if whole.len() < self.seen || !whole.is_char_boundary(self.start) {
            *self = Self::default();
        }
        if whole.len() == self.seen {
            return &self.blocks;
        }
        let began = Instant::now();
        self.render(whole);
        self.seen = whole.len();
        self.took = began.elapsed();
        &self.blocks
    }

    /// The blocks of `whole` now that it is complete: those that [`blocks`] gives.
    pub fn finish(&mut self, whole: &str) -> &[Arc<str>] {
        let began = Instant::now();
        let mut last = blocks(whole);
        for (new, old) in last.iter_mut().zip(&self.blocks) {
            if new == old {
                *new = Arc::clone(old);
            }
        }
        self.blocks = last;
        self.settled = self.blocks.len();
        self.start = whole.len();
        self.seen = whole.len();
        self.took = began.elapsed();
        &self.blocks
    }

    /// How long to wait before the next update is worth its cost.
    #[must_use]
    pub fn next_due(&self) -> Duration {
        SHORTEST_INTERVAL.max(self.took * IDLE_FOR_BUSY)
    }

    fn render(&mut self, whole: &str) {
        let tail = &whole[self.start..];
        let lead = if self.definitions.is_empty() { String::new() } else { format!("{}{SEPARATOR}", self.definitions) };
        let lead_lines = lead.matches('\n').count();
        let source = if lead.is_empty() { tail.to_owned() } else { lead + tail };
        self.parsed += source.len();
        let document = guarded(&source, |source| write::document(source, Some(lead_lines)));

        // A line that is not complete may yet turn out to be something else (`#` a heading or `#tag`), and undo the block
        // it seems to begin. So what is settled ends where the last block begins that has its first line complete.
        let lines = line_starts(tail);
        let complete = lead_lines + lines.len() - 1;
        let first_line = |block: &Block| *block.lines.start();
        let starts = document.blocks.iter().map(first_line).chain([document.last_line]);
        let boundary = starts.filter(|line| *line > lead_lines && *line <= complete).max();
        let newly = boundary.map_or(0, |line| document.blocks.iter().filter(|block| first_line(block) < line).count());

        if let Some(start) = boundary.and_then(|line| lines.get(line - lead_lines - 1)).filter(|_| newly > 0) {
            let settled = document.blocks[..newly].iter().map(|block| &block.lines);
            let spans: Vec<_> = settled.map(|lines| lines.start() - lead_lines - 1..=lines.end() - lead_lines - 1).collect();
            self.define(tail, &lines, *start, &spans);
            self.start += start;
        }
        let mut next = self.blocks.split_off(self.settled).into_iter();
        for block in document.blocks {
            let old = next.next().filter(|old| **old == *block.html);
            self.blocks.push(old.unwrap_or_else(|| Arc::from(block.html)));
        }
        self.settled += newly;
    }

    /// Keeps the lines of `tail` up to `end` that are in none of its blocks (so they define something), and those that
    /// stand at the head of a paragraph.
    fn define(&mut self, tail: &str, lines: &[usize], end: usize, blocks: &[std::ops::RangeInclusive<usize>]) {
        let mut blocks = blocks.iter().peekable();
        let mut at_head = false;
        for (number, from) in lines.iter().enumerate().take_while(|(_, from)| **from < end) {
            let line = &tail[*from..lines.get(number + 1).copied().unwrap_or(tail.len())];
            while blocks.next_if(|block| *block.end() < number).is_some() {}
            let block = blocks.peek().filter(|block| block.contains(&number));
            at_head = block.is_none_or(|block| *block.start() == number || at_head);
            let definition = if block.is_none() { !line.trim().is_empty() } else { at_head && line.starts_with('[') && line.contains("]:") };
            at_head &= definition;
            if definition && self.definitions.len() + line.len() <= MAX_DEFINITIONS {
                self.definitions.push_str(line.trim_end());
                self.definitions.push('\n');
            }
        }
    }
}

/// Where each line starts, the last being what stands behind the last line end.
///
/// A `\r` at the very end ends no line yet: a `\n` may follow.
fn line_starts(text: &str) -> Vec<usize> {
    let bytes = text.as_bytes();
    let ends = bytes.iter().enumerate().filter(|(at, byte)| match byte {
        b'\n' => true,
        b'\r' => bytes.get(at + 1).is_some_and(|next| *next != b'\n'),
        _ => false,
    });
    std::iter::once(0).chain(ends.map(|(at, _)| at + 1)).collect()
}
