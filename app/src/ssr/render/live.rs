//! Text that still grows.

use std::borrow::Cow;
use std::ops::RangeInclusive;
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
/// While the text grows, what refers to something further down (a link by name, a footnote) shows as text, and a last line of
/// marks only is not shown yet; [`LiveText::finish`] puts that right.
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
    #[cfg(test)]
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
        // Should more text come in spite of all, it is rendered with the rest, as it may continue the last block.
        *self = Self { blocks: last, seen: whole.len(), took: began.elapsed(), ..Self::default() };
        &self.blocks
    }

    /// How long to wait before the next update is worth its cost.
    #[must_use]
    pub fn next_due(&self) -> Duration {
        SHORTEST_INTERVAL.max(self.took * IDLE_FOR_BUSY)
    }

    fn render(&mut self, whole: &str) {
        let tail = worth_showing(&whole[self.start..]);
        let lead_lines = if self.definitions.is_empty() { 0 } else { self.definitions.lines().count() + SEPARATOR.lines().count() };
        let source = if lead_lines == 0 { Cow::Borrowed(tail) } else { Cow::Owned(format!("{}{SEPARATOR}{tail}", self.definitions)) };
        #[cfg(test)]
        {
            self.parsed += source.len();
        }
        let document = guarded(&source, |source| write::document(source, Some(lead_lines)));

        // A line that is not complete may yet turn out to be something else (`#` a heading or `#tag`), and undo the block
        // it seems to begin. So what is settled ends with the last block that certainly begins.
        let lines = line_starts(tail);
        let complete = lead_lines + lines.len() - 1;
        let first_line = |block: &Block| *block.lines.start();
        let certain = document.blocks.iter().filter(|block| block.certain <= complete).map(first_line);
        let note = Some(document.last_note).filter(|line| *line <= complete);
        let boundary = certain.chain(note).filter(|line| *line > lead_lines).max();
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

    /// Keeps the definitions in `tail` up to `end`: they are in none of its blocks, or at the head of a paragraph.
    ///
    /// Only their first lines count. A title on the next line, or the rest of a note, is not worth a parser of our own.
    fn define(&mut self, tail: &str, lines: &[usize], end: usize, blocks: &[RangeInclusive<usize>]) {
        let mut blocks = blocks.iter().peekable();
        let mut at_head = false;
        for (number, from) in lines.iter().enumerate().take_while(|(_, from)| **from < end) {
            let line = tail[*from..lines.get(number + 1).copied().unwrap_or(tail.len())].trim_end();
            while blocks.next_if(|block| *block.end() < number).is_some() {}
            let starts_here = blocks.peek().is_none_or(|block| number <= *block.start());
            let indent = line.bytes().take_while(|byte| *byte == b' ').count();
            at_head = (starts_here || at_head) && indent < 4 && line[indent..].starts_with('[') && line.contains("]:");
            if at_head && self.definitions.len() + line.len() < MAX_DEFINITIONS {
                self.definitions.push_str(line);
                self.definitions.push('\n');
            }
        }
    }
}

/// The text without a last line that so far is nothing but marks: the `|` of a table's next row would be a paragraph for a moment, the
/// `-` of an item would make a heading of the line before.
fn worth_showing(text: &str) -> &str {
    let (before, line) = text.split_at(text.rfind(['\n', '\r']).map_or(0, |at| at + 1));
    if line.bytes().all(|byte| byte.is_ascii_digit() || b" \t|-#*+=>:`~_.)".contains(&byte)) { before } else { text }
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What an answer is made of, whole and in pieces.
    const PIECES: &[&str] = &[
        "word",
        " ",
        "\n",
        "\n\n",
        "\r\n",
        "\r",
        "# ",
        "###### h\n",
        "- ",
        "* ",
        "1. ",
        "2) ",
        "  ",
        "    ",
        "> ",
        "```",
        "```rust\n",
        "~~~\n",
        "|a|b|\n",
        "|-|-|\n",
        "|1|2|\n",
        "---\n",
        "===\n",
        "***",
        "**",
        "*",
        "_",
        "`",
        "$x^2$",
        "$$",
        "\\(",
        "\\)",
        "[",
        "](",
        ")",
        "![",
        "https://a.test/b",
        "<br>",
        "<div>",
        "</div>\n",
        "<!--",
        "-->",
        "&amp;",
        "\\",
        "~~",
        "- [ ] ",
        "- [x] a\n",
        "> [!NOTE]\n",
        "fn a() {}\n",
        "é",
        "🙂",
        "中文",
        "\t",
        "\0",
        "\u{202e}",
    ];
    const REFERENCES: &[&str] = &["[^1]", "[^1]: note\n", "[^1]: ", "[ref]", "[ref]: https://c.test/d\n", "[ref]:\n"];

    fn text_of(pieces: &'static [&'static [&'static str]]) -> impl Strategy<Value = String> {
        let all: Vec<&str> = pieces.concat();
        prop::collection::vec(prop::sample::select(all), 0..60).prop_map(|pieces| pieces.concat())
    }

    /// Feeds `text` in pieces of the lengths `steps`, again and again.
    fn fed(text: &str, steps: &[usize]) -> LiveText {
        let mut live = LiveText::new();
        let mut at = 0;
        for step in steps.iter().cycle() {
            if at >= text.len() {
                break;
            }
            at = text.ceil_char_boundary((at + step).min(text.len()));
            live.update(&text[..at]);
        }
        live
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn finishing_gives_what_rendering_the_whole_gives(
            text in prop_oneof![text_of(&[PIECES, REFERENCES]), any::<String>()],
            steps in prop::collection::vec(1_usize..20, 1..8),
        ) {
            let mut live = fed(&text, &steps);
            prop_assert_eq!(live.finish(&text), blocks(&text));
        }

        #[test]
        fn without_references_the_last_update_is_already_right(
            text in text_of(&[PIECES]),
            steps in prop::collection::vec(1_usize..20, 1..8),
        ) {
            let live = fed(&text, &steps);
            prop_assert_eq!(live.blocks, blocks(worth_showing(&text)), "{:?}", text);
        }
    }

    #[test]
    fn settled_blocks_are_kept_and_cost_nothing_more() {
        let mut text = "A paragraph with `code` and *stress*.\n\n".repeat(200);
        let mut live = LiveText::new();
        live.update(&text);
        let settled: Vec<_> = live.blocks[..199].to_vec();
        text.push_str("```rust\n");
        live.update(&text);
        let mut costs = Vec::new();
        for _ in 0..50 {
            text.push_str("let x = 1;\n");
            let before = live.parsed;
            let now = live.update(&text);
            assert!(settled.iter().zip(now).all(|(old, new)| Arc::ptr_eq(old, new)));
            assert_eq!(now.len(), 201);
            costs.push(live.parsed - before);
        }
        assert!(costs.iter().all(|cost| *cost < 1_000), "{costs:?}");
        let last = Arc::clone(&live.blocks[200]);
        text.push_str("```\n\nEnd.");
        live.update(&text);
        let finished = live.finish(&text);
        assert!(settled.iter().zip(finished).all(|(old, new)| Arc::ptr_eq(old, new)));
        assert!(Arc::ptr_eq(&last, &finished[200]));
        assert_eq!(finished.len(), 202);
    }

    #[test]
    fn the_cost_of_an_update_does_not_depend_on_what_is_settled() {
        let cost = |paragraphs: usize| {
            let mut text = "Some text.\n\n".repeat(paragraphs);
            let mut live = LiveText::new();
            live.update(&text);
            text.push_str("Last");
            live.update(&text);
            let before = live.parsed;
            text.push_str(" words");
            live.update(&text);
            live.parsed - before
        };
        assert_eq!(cost(10), cost(10_000));
    }

    #[test]
    fn an_open_fence_is_code_and_a_long_one_waits_for_its_colours() {
        let mut live = LiveText::new();
        let html = live.update("```rust\nlet x").first().unwrap().to_string();
        assert!(html.starts_with("<figure class=\"code\" data-lang=\"rust\">") && html.contains("hl-storage"), "{html}");
        let long = format!("```rust\n{}", "let x = 1;\n".repeat(1_000));
        assert!(!live.update(&long)[0].contains("hl-"));
        let closed = format!("{long}```\n\nDone.\n");
        assert!(live.update(&closed)[0].contains("hl-"));
    }

    #[test]
    fn a_line_that_is_not_complete_settles_nothing() {
        let mut live = LiveText::new();
        for (text, count) in [("one\n```a", 2), ("one\n```a`b", 1), ("one\n```a`b\n\n*c", 2), ("one\n```a`b\n\n*c*", 2)] {
            assert_eq!(live.update(text).len(), count, "{text:?}");
            assert_eq!(live.blocks, blocks(text));
        }
    }

    #[test]
    fn marks_alone_do_not_flicker() {
        let table = "| a |\n|---|\n| 1 |\n";
        let pairs = [
            (format!("{table}|"), table),
            (format!("{table}| "), table),
            ("Steps\n-".into(), "Steps\n"),
            ("Steps\n\n1.".into(), "Steps\n\n"),
        ];
        for (text, shown) in pairs {
            let mut live = LiveText::new();
            assert_eq!(live.update(&text), blocks(shown), "{text:?}");
            assert_eq!(live.finish(&text), blocks(&text), "{text:?}");
        }
    }

    #[test]
    fn links_defined_in_settled_text_work_further_down() {
        let text = "[a]: https://a.test/\n[b]: https://b.test/\nHead [b].\n\n[c]: https://c.test/\n\nMiddle.\n\nEnd [a] [b] [c].";
        let live = fed(text, &[7]);
        assert_eq!(live.blocks, blocks(text));
        assert_eq!(live.blocks[2].matches("href").count(), 3);
    }

    #[test]
    fn notes_wait_for_the_end() {
        let text = "One[^x].\n\n[^x]: The note.\n\nTwo[^x].\n";
        let mut live = fed(text, &[5]);
        assert_eq!(live.blocks.len(), 2);
        assert_eq!(&*live.blocks[1], "<p>Two<sup class=\"footnote-ref\">x</sup>.</p>");
        assert_eq!(
            live.finish(text).last().unwrap().as_ref(),
            "<section class=\"footnotes\" aria-label=\"Footnotes\"><ol><li><p>The note.</p></li></ol></section>"
        );
    }

    #[test]
    fn a_text_that_did_not_grow_starts_anew() {
        let mut live = fed("A first text.\n\nWith two blocks.\n", &[4]);
        let more = "A first text.\n\nWith two blocks.\nAnd more.";
        live.finish("A first text.\n\nWith two blocks.\n");
        assert_eq!(live.update(more), blocks(more));
        assert_eq!(live.update("Other").iter().map(|html| &**html).collect::<Vec<_>>(), ["<p>Other</p>"]);
    }

    #[test]
    fn slow_rendering_makes_updates_rare() {
        let mut live = LiveText::new();
        assert_eq!(live.next_due(), Duration::from_millis(60));
        live.took = Duration::from_millis(20);
        assert_eq!(live.next_due(), Duration::from_millis(200));
    }
}
