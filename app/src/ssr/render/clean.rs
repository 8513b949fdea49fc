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
    CLEANER.clean(html).to_string()
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
