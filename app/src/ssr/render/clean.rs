//! The second fence: a sanitiser that knows exactly the tags and attributes the writer makes.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use ammonia::{Builder, UrlRelative};

use super::write::REL;

/// Which values of an attribute pass.
enum Values {
    /// Text that is only ever shown.
    Text,
    /// One of these.
    OneOf(&'static [&'static str]),
    /// A whole number.
    Number,
    /// Letters, digits and `+#.-_:`, as in names of languages and hosts, with brackets for an IPv6 host.
    Name,
    /// Classes of highlighted code only.
    Highlight(&'static [&'static str]),
    /// An address; the sanitiser checks its scheme.
    Address,
}
use Values::{Address, Highlight, Name, Number, OneOf, Text};

/// An element that the writer never writes, see [`broken`].
const BREAK: &str = "wbr";
/// Longest run of text that the sanitiser is given.
const MAX_RUN: usize = 4 << 10;

const TAGS: &[(&str, &[(&str, Values)])] = &[
    ("p", &[("class", OneOf(&["raw", "alert-title"]))]),
    ("h1", &[]),
    ("h2", &[]),
    ("h3", &[]),
    ("h4", &[]),
    ("h5", &[]),
    ("h6", &[]),
    ("ul", &[]),
    ("ol", &[("start", Number)]),
    ("li", &[]),
    (
        "input",
        &[
            ("type", OneOf(&["checkbox"])),
            ("disabled", OneOf(&[""])),
            ("checked", OneOf(&[""])),
            ("aria-label", OneOf(&["done", "not done"])),
        ],
    ),
    ("blockquote", &[]),
    (BREAK, &[]),
    (
        "div",
        &[
            ("class", OneOf(&["table-scroll", "alert"])),
            ("tabindex", OneOf(&["0"])),
            ("role", OneOf(&["region", "note"])),
            ("aria-label", OneOf(&["Table"])),
            ("data-kind", OneOf(&["note", "tip", "important", "warning", "caution"])),
        ],
    ),
    ("table", &[]),
    ("thead", &[]),
    ("tbody", &[]),
    ("tr", &[]),
    ("th", &[("align", OneOf(&["left", "center", "right"])), ("scope", OneOf(&["col"]))]),
    ("td", &[("align", OneOf(&["left", "center", "right"]))]),
    ("hr", &[]),
    ("section", &[("class", OneOf(&["footnotes"])), ("aria-label", OneOf(&["Footnotes"]))]),
    ("sup", &[("class", OneOf(&["footnote-ref"]))]),
    ("figure", &[("class", OneOf(&["code"])), ("data-lang", Name)]),
    ("figcaption", &[]),
    ("button", &[("type", OneOf(&["button"])), ("class", OneOf(&["code-copy"]))]),
    ("pre", &[("tabindex", OneOf(&["0"]))]),
    ("code", &[("class", OneOf(&["math-error"]))]),
    ("span", &[("class", Highlight(&["image-host", "image-alt"])), ("data-math", Number)]),
    ("em", &[]),
    ("strong", &[]),
    ("del", &[]),
    ("br", &[]),
    (
        "a",
        &[
            ("href", Address),
            ("title", Text),
            ("class", OneOf(&["image-link"])),
            ("data-host", Name),
            ("target", OneOf(&["_blank"])),
            ("rel", OneOf(&[REL])),
        ],
    ),
];

static CLEANER: LazyLock<Builder<'static>> = LazyLock::new(|| {
    let attributes: HashMap<&str, HashSet<&str>> =
        TAGS.iter().map(|(tag, attributes)| (*tag, attributes.iter().map(|(name, _)| *name).collect())).collect();
    let mut builder = Builder::empty();
    builder
        .tags(TAGS.iter().map(|(tag, _)| *tag).collect())
        .clean_content_tags(HashSet::from(["script", "style"]))
        .tag_attributes(attributes)
        .generic_attributes(HashSet::new())
        .url_schemes(HashSet::from(["http", "https", "mailto"]))
        .url_relative(UrlRelative::Deny)
        .link_rel(None)
        .attribute_filter(filter);
    builder
});

/// The HTML of one block, with everything gone that the writer would not have written.
pub(super) fn clean(html: &str) -> String {
    match broken(html) {
        None => CLEANER.clean(html).to_string(),
        Some(broken) => CLEANER.clean(&broken).to_string().replace("<wbr>", ""),
    }
}

/// The HTML with its long runs of text broken, if it has any.
///
/// For each `&` (and for each character from U+0080 to U+00BF) the serialiser looks through all the rest of its text for a `<`: by the
/// square of a text that is a long run of these.
fn broken(html: &str) -> Option<String> {
    let mut breaks = Vec::new();
    let mut run = 0;
    for (at, byte) in html.bytes().enumerate() {
        match byte {
            // Within a tag both are escaped by the writer.
            b'<' | b'>' => run = at + 1,
            b'&' | 0xC2 if at - run >= MAX_RUN && !in_tag(html, run) => {
                breaks.push(at);
                run = at;
            }
            _ => {}
        }
    }
    if breaks.is_empty() {
        return None;
    }
    let mut out = String::with_capacity(html.len() + 5 * breaks.len());
    let mut from = 0;
    for at in breaks {
        out.push_str(&html[from..at]);
        out.push_str("<wbr>");
        from = at;
    }
    out.push_str(&html[from..]);
    Some(out)
}

/// Whether what starts here stands behind a `<`.
fn in_tag(html: &str, start: usize) -> bool {
    start > 0 && html.as_bytes()[start - 1] == b'<'
}

fn filter<'v>(tag: &str, attribute: &str, value: &'v str) -> Option<Cow<'v, str>> {
    let (_, attributes) = TAGS.iter().find(|(name, _)| *name == tag)?;
    let (_, values) = attributes.iter().find(|(name, _)| *name == attribute)?;
    let passes = match values {
        Text | Address => true,
        OneOf(all) => all.contains(&value),
        Number => !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()),
        Name => value.chars().all(|c| c.is_alphanumeric() || "+#.-_:[]".contains(c)),
        Highlight(others) => {
            others.contains(&value)
                || value.split(' ').all(|class| {
                    class
                        .strip_prefix("hl-")
                        .is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'))
                })
        }
    };
    passes.then_some(Cow::Borrowed(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_runs_of_text_come_through_as_they_are() {
        for piece in ["&amp;", "\u{a0}", "é«", "a&lt;b "] {
            let text = piece.repeat(3 * MAX_RUN / piece.len());
            let html = format!("<p>{text}<code>{text}</code></p><a href=\"https://a.b/?{}\">x</a>", "&amp;c".repeat(2_000));
            assert!(broken(&html).is_some() && !clean(&html).contains(BREAK));
            assert_eq!(clean(&html).replace("&nbsp;", "\u{a0}"), html);
        }
        assert_eq!(broken("<p>short &amp; sweet</p>"), None);
    }

    #[test]
    fn what_the_writer_never_writes_is_dropped() {
        for (html, rest) in [
            ("<p onclick=\"x()\">a</p>", "<p>a</p>"),
            ("<p id=\"location\" style=\"color:red\" class=\"shell\">a</p>", "<p>a</p>"),
            ("<script>alert(1)</script><style>p{}</style>", ""),
            ("<img src=\"https://evil.test/x\">", ""),
            ("<svg><a href=\"javascript:x\"/></svg><math><mtext>b</mtext></math>c", "c"),
            (
                "<span class=\"hl-keyword hl-x\">a</span><span class=\"hl-a shell\">b</span>",
                "<span class=\"hl-keyword hl-x\">a</span><span>b</span>",
            ),
            ("<form action=\"/x\"><input type=\"text\" name=\"q\"></form>", "<input>"),
            ("<span data-math=\"0\"></span><span data-math=\"x\"></span>", "<span data-math=\"0\"></span><span></span>"),
        ] {
            assert_eq!(clean(html), rest, "{html}");
        }
        for href in ["javascript:alert(1)", "/account", "//evil.test", "data:text/html,x", "#main"] {
            assert_eq!(clean(&format!("<a href=\"{href}\" target=\"_top\">a</a>")), "<a>a</a>");
        }
    }
}
