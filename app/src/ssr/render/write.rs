//! From the syntax tree to HTML, tag by tag.

use std::borrow::Cow;
use std::ops::RangeInclusive;

use ammonia::Url;
use comrak::arena_tree::NodeEdge;
use comrak::nodes::{AlertType, ListType, Node, NodeLink, NodeList, NodeValue, TableAlignment};
use comrak::{Arena, Options, parse_document};

use super::clean::clean;
use super::{code, escape, math};

/// What every link carries: the other page learns nothing and gets no hold of ours.
pub(super) const REL: &str = "noopener noreferrer nofollow";
/// Deeper elements lose their tags and keep their text; browsers stop nesting at 512.
const MAX_DEPTH: usize = 48;
/// Quotes within quotes.
const MAX_QUOTES: usize = 64;
/// Further elements of a text lose their tags and keep their text.
const MAX_ELEMENTS: usize = 60_000;
/// Further formulas of a text show their source.
const MAX_FORMULAS: usize = 2_000;
/// How many backslashes the parser may look at in search of the ends of formulas.
const MAX_BACKSLASHES: usize = 20_000_000;
/// Longer addresses are inert.
const MAX_ADDRESS: usize = 4 << 10;
/// A description of an image is a line, not a page.
const MAX_ALT: usize = 300;

/// Around the number of a formula, where it will stand.
const PLACE: &str = "<span data-math=\"";
const PLACE_END: &str = "\"></span>";

/// A rendered text.
pub(super) struct Document {
    /// Its top-level blocks.
    pub(super) blocks: Vec<Block>,
    /// The notes at its end, if any are referred to.
    pub(super) footnotes: Option<String>,
    /// The line on which the last note starts that is referred to.
    pub(super) last_note: usize,
}

/// A top-level block.
pub(super) struct Block {
    /// Clean HTML.
    pub(super) html: String,
    /// The lines of the source it stands on, counted from 1.
    pub(super) lines: RangeInclusive<usize>,
    /// The line that has to be complete before it is certain that a block starts here.
    pub(super) certain: usize,
}

/// What a text may still cost.
struct Budget {
    elements: usize,
    formulas: usize,
    highlighted: usize,
}

/// Renders `text`.
///
/// `streamed`: the text may still grow, and only what stands behind this line is wanted. The last block then counts as
/// unfinished, and notes wait: their numbers are not known before all of the text is.
pub(super) fn document(text: &str, streamed: Option<usize>) -> Document {
    let arena = Arena::new();
    let root = parse_document(&arena, &shallow(text), &options(text));
    let mut budget = Budget { elements: MAX_ELEMENTS, formulas: MAX_FORMULAS, highlighted: code::MAX_HIGHLIGHTED };
    let is_note = |node: &Node<'_>| matches!(node.data().value, NodeValue::FootnoteDefinition(_));
    let start = |node: Node<'_>| node.data().sourcepos.start.line;
    let last_line = root.children().map(start).max().unwrap_or(0);
    let last_note = root.children().filter(is_note).map(start).max().unwrap_or(0);
    let blocks = root
        .children()
        .filter(|node| !is_note(node) && start(node) > streamed.unwrap_or(0))
        .map(|node| {
            let unfinished = streamed.is_some() && start(node) == last_line;
            let mut writer = Writer::new(&mut budget, streamed.is_some(), unfinished);
            writer.tree(node);
            let position = node.data().sourcepos;
            let start = position.start.line;
            // A table takes its head from the end of a paragraph, if the line below turns out to be right.
            let certain = start + usize::from(matches!(node.data().value, NodeValue::Table(_)));
            Block { html: writer.finish(), lines: start..=position.end.line.max(start), certain }
        })
        .collect();
    let mut notes = root.children().filter(|node| streamed.is_none() && is_note(node)).peekable();
    let footnotes = notes.peek().is_some().then(|| {
        let mut writer = Writer::new(&mut budget, false, false);
        writer.out.push_str("<section class=\"footnotes\" aria-label=\"Footnotes\"><ol>");
        notes.for_each(|node| writer.tree(node));
        writer.out.push_str("</ol></section>");
        writer.finish()
    });
    Document { blocks, footnotes, last_note }
}

/// `text` as it is, in one block.
pub(super) fn plain(text: &str) -> Document {
    let mut html = String::with_capacity(text.len() + 256);
    code::figure(&mut html, "", text, false, &mut 0);
    Document { blocks: vec![Block { html, lines: 1..=1, certain: 1 }], footnotes: None, last_note: 0 }
}

/// The text without the quote marks that open quotes deeper than anybody reads: the parser takes time by the square of
/// the depth. (It bounds the depth of lists itself.)
fn shallow(text: &str) -> Cow<'_, str> {
    let excess = |line: &str| {
        let markers = line.bytes().take_while(|byte| b" \t>-+*.)0123456789".contains(byte));
        markers.enumerate().filter(|(_, byte)| *byte == b'>').nth(MAX_QUOTES).map(|(at, _)| at)
    };
    if !text.lines().any(|line| excess(line).is_some()) {
        return Cow::Borrowed(text);
    }
    let lines = text.split_inclusive('\n').flat_map(|line| {
        let (kept, rest) = line.split_at(excess(line).unwrap_or(line.len()));
        [kept, rest.trim_start_matches(['>', ' ', '\t'])]
    });
    Cow::Owned(lines.collect())
}

fn options(text: &str) -> Options<'static> {
    let mut options = Options::default();
    let extension = &mut options.extension;
    extension.strikethrough = true;
    extension.table = true;
    extension.autolink = true;
    extension.tasklist = true;
    extension.footnotes = true;
    extension.alerts = true;
    extension.math_dollars = true;
    extension.math_code = true;
    // Models write \( \) and \[ \] as often as dollars. For each the parser looks at all backslashes that follow.
    let openings = text.matches("\\(").count() + text.matches("\\[").count();
    extension.math_latex = openings.saturating_mul(text.matches('\\').count()) < MAX_BACKSLASHES;
    options
}

struct Writer<'b> {
    out: String,
    /// What ends each node that is open: its closing tags, or nothing.
    ends: Vec<&'static str>,
    /// How many of those are tags.
    depth: usize,
    formulas: Vec<String>,
    budget: &'b mut Budget,
    columns: Vec<TableAlignment>,
    column: usize,
    in_link: bool,
    /// Footnotes go by their names while their numbers are not known.
    names: bool,
    /// Code may still grow.
    unfinished: bool,
}

impl<'b> Writer<'b> {
    fn new(budget: &'b mut Budget, names: bool, unfinished: bool) -> Self {
        Self {
            out: String::new(),
            ends: Vec::new(),
            depth: 0,
            formulas: Vec::new(),
            budget,
            columns: Vec::new(),
            column: 0,
            in_link: false,
            names,
            unfinished,
        }
    }

    /// Writes a node and all below it. Not by recursion: how deep a text nests is up to its author.
    fn tree<'a>(&mut self, root: Node<'a>) {
        let mut skipped: Option<Node<'a>> = None;
        for edge in root.traverse() {
            match edge {
                NodeEdge::Start(node) if skipped.is_none() => {
                    if let Some(end) = self.start(node) {
                        self.ends.push(end);
                    } else {
                        skipped = Some(node);
                    }
                }
                NodeEdge::End(node) if skipped.is_none() => self.end(node),
                NodeEdge::End(node) if skipped.is_some_and(|skipped| skipped.same_node(node)) => {
                    skipped = None;
                }
                _ => {}
            }
        }
    }

    /// Writes what stands before a node's children. The answer is what ends it, or nothing if the children are done.
    fn start(&mut self, node: Node<'_>) -> Option<&'static str> {
        let data = node.data();
        let end = match &data.value {
            NodeValue::Text(text) => {
                escape(&mut self.out, text);
                ""
            }
            NodeValue::SoftBreak => {
                self.out.push('\n');
                ""
            }
            NodeValue::LineBreak => {
                self.line_break();
                ""
            }
            NodeValue::Code(code) => {
                let end = self.open("<code>", "</code>");
                escape(&mut self.out, &code.literal);
                end
            }
            // The one tag that models write on purpose, to break lines in tables. It comes out as our own.
            NodeValue::HtmlInline(html) if matches!(html.to_ascii_lowercase().as_str(), "<br>" | "<br/>" | "<br />") => {
                self.line_break();
                ""
            }
            NodeValue::HtmlInline(html) => {
                escape(&mut self.out, html);
                ""
            }
            NodeValue::HtmlBlock(html) => {
                let end = self.open("<p class=\"raw\">", "</p>");
                for (n, line) in html.literal.trim_end().lines().enumerate() {
                    if n > 0 {
                        self.line_break();
                    }
                    escape(&mut self.out, line);
                }
                end
            }
            NodeValue::Math(math) => {
                self.formula(&math.literal, math.display_math);
                ""
            }
            NodeValue::CodeBlock(block) if block.info.trim() == "math" => {
                let end = self.open("<p>", "</p>");
                self.formula(&block.literal, true);
                end
            }
            NodeValue::CodeBlock(block) => {
                if self.spend() {
                    code::figure(&mut self.out, &block.info, &block.literal, self.unfinished, &mut self.budget.highlighted);
                } else {
                    escape(&mut self.out, &block.literal);
                }
                ""
            }
            NodeValue::Emph => self.open("<em>", "</em>"),
            NodeValue::Strong => self.open("<strong>", "</strong>"),
            NodeValue::Strikethrough => self.open("<del>", "</del>"),
            NodeValue::Link(link) => self.link(link),
            NodeValue::Image(image) => {
                self.image(image, &description(node));
                return None;
            }
            NodeValue::FootnoteReference(reference) => {
                let end = self.open("<sup class=\"footnote-ref\">", "</sup>");
                if self.names {
                    escape(&mut self.out, &reference.name);
                } else {
                    self.out.push_str(&reference.ix.to_string());
                }
                end
            }
            NodeValue::Paragraph if in_tight_list(node) => "",
            NodeValue::Paragraph => self.open("<p>", "</p>"),
            NodeValue::Heading(heading) => match heading.level {
                1 => self.open("<h1>", "</h1>"),
                2 => self.open("<h2>", "</h2>"),
                3 => self.open("<h3>", "</h3>"),
                4 => self.open("<h4>", "</h4>"),
                5 => self.open("<h5>", "</h5>"),
                _ => self.open("<h6>", "</h6>"),
            },
            NodeValue::ThematicBreak => {
                self.open("<hr>", "");
                ""
            }
            NodeValue::BlockQuote => self.open("<blockquote>", "</blockquote>"),
            NodeValue::List(list) => self.list(list),
            NodeValue::Item(_) | NodeValue::FootnoteDefinition(_) => self.open("<li>", "</li>"),
            NodeValue::TaskItem(task) => self.open(
                if task.symbol.is_some() {
                    "<li><input type=\"checkbox\" checked disabled aria-label=\"done\"> "
                } else {
                    "<li><input type=\"checkbox\" disabled aria-label=\"not done\"> "
                },
                "</li>",
            ),
            NodeValue::Table(table) => {
                self.columns.clone_from(&table.alignments);
                let has_body = node.last_child().is_some_and(|row| matches!(row.data().value, NodeValue::TableRow(false)));
                self.open(
                    "<div class=\"table-scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Table\"><table>",
                    if has_body { "</tbody></table></div>" } else { "</table></div>" },
                )
            }
            NodeValue::TableRow(head) => {
                self.column = 0;
                let first = node.previous_sibling().is_none_or(|row| matches!(row.data().value, NodeValue::TableRow(true)));
                match (*head, first) {
                    (true, _) => self.open("<thead><tr>", "</tr></thead>"),
                    (false, true) => self.open("<tbody><tr>", "</tr>"),
                    (false, false) => self.open("<tr>", "</tr>"),
                }
            }
            NodeValue::TableCell => {
                let align = self.columns.get(self.column).copied().unwrap_or(TableAlignment::None);
                self.column += 1;
                let head = node.parent().is_some_and(|row| matches!(row.data().value, NodeValue::TableRow(true)));
                match (head, align) {
                    (true, TableAlignment::None) => self.open("<th scope=\"col\">", "</th>"),
                    (true, TableAlignment::Left) => self.open("<th scope=\"col\" align=\"left\">", "</th>"),
                    (true, TableAlignment::Center) => self.open("<th scope=\"col\" align=\"center\">", "</th>"),
                    (true, TableAlignment::Right) => self.open("<th scope=\"col\" align=\"right\">", "</th>"),
                    (false, TableAlignment::None) => self.open("<td>", "</td>"),
                    (false, TableAlignment::Left) => self.open("<td align=\"left\">", "</td>"),
                    (false, TableAlignment::Center) => self.open("<td align=\"center\">", "</td>"),
                    (false, TableAlignment::Right) => self.open("<td align=\"right\">", "</td>"),
                }
            }
            NodeValue::Alert(alert) => {
                let kind = alert.alert_type;
                let end = self.open(
                    match kind {
                        AlertType::Note => "<div class=\"alert\" data-kind=\"note\" role=\"note\"><p class=\"alert-title\">",
                        AlertType::Tip => "<div class=\"alert\" data-kind=\"tip\" role=\"note\"><p class=\"alert-title\">",
                        AlertType::Important => "<div class=\"alert\" data-kind=\"important\" role=\"note\"><p class=\"alert-title\">",
                        AlertType::Warning => "<div class=\"alert\" data-kind=\"warning\" role=\"note\"><p class=\"alert-title\">",
                        AlertType::Caution => "<div class=\"alert\" data-kind=\"caution\" role=\"note\"><p class=\"alert-title\">",
                    },
                    "</div>",
                );
                escape(&mut self.out, alert.title.as_deref().unwrap_or(kind.default_title()));
                if !end.is_empty() {
                    self.out.push_str("</p>");
                }
                end
            }
            // The rest belongs to extensions that are off.
            _ => "",
        };
        Some(end)
    }

    fn end(&mut self, node: Node<'_>) {
        let end = self.ends.pop().unwrap_or_default();
        if !end.is_empty() {
            self.depth -= 1;
            self.out.push_str(end);
        } else if node.data().value.block() && node.next_sibling().is_some() && !self.out.ends_with(['\n', '>']) {
            // Without its tags a block must not run into the next.
            self.out.push('\n');
        }
        if matches!(node.data().value, NodeValue::Link(_)) && end == "</a>" {
            self.in_link = false;
        }
    }

    /// Writes an opening tag while there are any left to write.
    fn open(&mut self, tag: &str, end: &'static str) -> &'static str {
        if self.depth >= MAX_DEPTH || !self.spend() {
            return "";
        }
        self.out.push_str(tag);
        if !end.is_empty() {
            self.depth += 1;
        }
        end
    }

    fn spend(&mut self) -> bool {
        let left = self.budget.elements > 0;
        self.budget.elements -= usize::from(left);
        left
    }

    fn line_break(&mut self) {
        self.open("<br>", "");
        self.out.push('\n');
    }

    fn list(&mut self, list: &NodeList) -> &'static str {
        if list.list_type == ListType::Bullet {
            return self.open("<ul>", "</ul>");
        }
        if list.start == 1 { self.open("<ol>", "</ol>") } else { self.open(&format!("<ol start=\"{}\">", list.start), "</ol>") }
    }

    /// Opens a link to the web or to a mailbox; the text of any other link stands alone.
    fn link(&mut self, link: &NodeLink) -> &'static str {
        let address = address(&link.url).filter(|url| web(url) || url.scheme() == "mailto");
        let Some(address) = address.filter(|_| !self.in_link) else {
            return "";
        };
        let mut tag = String::from("<a href=\"");
        escape(&mut tag, address.as_str());
        tag.push('"');
        if !link.title.is_empty() {
            tag.push_str(" title=\"");
            escape(&mut tag, &link.title);
            tag.push('"');
        }
        tag.push_str(" target=\"_blank\" rel=\"");
        tag.push_str(REL);
        tag.push_str("\">");
        let end = self.open(&tag, "</a>");
        self.in_link = !end.is_empty();
        end
    }

    /// Writes a link in place of an image, so that nothing is loaded before somebody asks for it.
    ///
    /// Within a link, and when there is nothing on the web to load, only the description is left.
    fn image(&mut self, image: &NodeLink, alt: &str) {
        let address = address(&image.url).filter(|url| web(url) && !self.in_link);
        let host = address.as_ref().and_then(|url| {
            let host = url.host_str()?;
            Some(url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}")))
        });
        let (Some(address), Some(host)) = (address, host) else {
            return escape(&mut self.out, alt);
        };
        let mut tag = String::from("<a class=\"image-link\" href=\"");
        escape(&mut tag, address.as_str());
        tag.push_str("\" data-host=\"");
        escape(&mut tag, &host);
        tag.push_str("\" target=\"_blank\" rel=\"");
        tag.push_str(REL);
        tag.push_str("\"><span>Load image</span> <span class=\"image-host\">");
        escape(&mut tag, &host);
        tag.push_str("</span>");
        if !alt.is_empty() {
            tag.push_str(" <span class=\"image-alt\">");
            escape(&mut tag, alt);
            tag.push_str("</span>");
        }
        tag.push_str("</a>");
        if self.depth < MAX_DEPTH && self.spend() {
            self.out.push_str(&tag);
        } else {
            escape(&mut self.out, alt);
        }
    }

    /// Leaves a place for a formula. Nothing else can look like it, as the source cannot write tags.
    fn formula(&mut self, latex: &str, display: bool) {
        let left = self.budget.formulas > 0 && self.spend();
        self.budget.formulas -= usize::from(left);
        if let Some(html) = left.then(|| math::convert(latex, display)).flatten() {
            let number = self.formulas.len().to_string();
            for part in [PLACE, &number, PLACE_END] {
                self.out.push_str(part);
            }
            self.formulas.push(html);
        } else {
            let end = self.open("<code class=\"math-error\">", "</code>");
            escape(&mut self.out, latex.trim());
            if !end.is_empty() {
                self.depth -= 1;
                self.out.push_str(end);
            }
        }
    }

    /// The clean HTML with the formulas in their places.
    fn finish(self) -> String {
        let clean = clean(&self.out);
        if self.formulas.is_empty() {
            return clean;
        }
        let mut parts = clean.split(PLACE);
        let mut html = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let Some((number, rest)) = part.split_once(PLACE_END) else {
                continue;
            };
            if let Some(formula) = number.parse().ok().and_then(|n: usize| self.formulas.get(n)) {
                html.push_str(formula);
            }
            html.push_str(rest);
        }
        html
    }
}

fn in_tight_list(node: Node<'_>) -> bool {
    let list = node
        .parent()
        .filter(|item| matches!(item.data().value, NodeValue::Item(_) | NodeValue::TaskItem(_)))
        .and_then(comrak::arena_tree::Node::parent);
    list.is_some_and(|list| matches!(list.data().value, NodeValue::List(ref list) if list.tight))
}

/// The text of an image's description, without what is around it.
fn description(image: Node<'_>) -> String {
    let mut alt = String::new();
    for node in image.descendants().skip(1) {
        match &node.data().value {
            NodeValue::Text(text) => alt.push_str(text),
            NodeValue::Code(code) => alt.push_str(&code.literal),
            NodeValue::HtmlInline(html) => alt.push_str(html),
            NodeValue::Math(math) => alt.push_str(&math.literal),
            NodeValue::SoftBreak | NodeValue::LineBreak => alt.push(' '),
            _ => {}
        }
        if alt.len() > MAX_ALT {
            alt.truncate(alt.floor_char_boundary(MAX_ALT));
            alt.push('…');
            break;
        }
    }
    alt
}

/// The address as a browser would understand it, which is what has to be judged: `java\nscript:` is a script.
fn address(url: &str) -> Option<Url> {
    if url.len() > MAX_ADDRESS { None } else { Url::parse(url).ok() }
}

fn web(url: &Url) -> bool {
    matches!(url.scheme(), "http" | "https") && url.host_str().is_some_and(|host| !host.is_empty())
}
