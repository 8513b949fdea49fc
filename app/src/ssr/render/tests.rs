//! What comes out for ordinary and for hostile texts. The output is read by the tokenizer that browsers' rules are
//! modelled on, and judged by a list of its own.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use html5ever::tokenizer::{BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer};
use proptest::prelude::*;

use super::*;

#[derive(Default)]
struct Tags(RefCell<Vec<Tag>>);

impl TokenSink for Tags {
    type Handle = ();

    fn process_token(&self, token: Token, _: u64) -> TokenSinkResult<()> {
        match token {
            Token::TagToken(tag) => self.0.borrow_mut().push(tag),
            Token::CommentToken(comment) => panic!("a comment came through: {comment}"),
            Token::DoctypeToken(_) => panic!("a doctype came through"),
            _ => {}
        }
        TokenSinkResult::Continue
    }
}

fn tags(html: &str) -> Vec<Tag> {
    let input = BufferQueue::default();
    input.push_back(html.into());
    let tokenizer = Tokenizer::new(Tags::default(), html5ever::tokenizer::TokenizerOpts::default());
    let _ = tokenizer.feed(&input);
    tokenizer.end();
    tokenizer.sink.0.into_inner()
}

const ELEMENTS: &str = "p h1 h2 h3 h4 h5 h6 ul ol li input blockquote div table thead tbody tr th td hr section sup figure figcaption \
    button pre code span em strong del br a math mi mn mo ms mtext mspace mrow mfrac msqrt mroot msub msup msubsup munder mover \
    munderover mmultiscripts mprescripts mpadded mphantom menclose merror mtable mtr mtd b i s u";
const ATTRIBUTES: &str = "class href title target rel data-host data-lang data-kind tabindex role aria-label start type disabled checked \
    align scope display displaystyle scriptlevel mathvariant mathcolor stretchy symmetric largeop movablelimits form fence separator \
    lspace rspace minsize maxsize accent accentunder linethickness width height depth voffset notation columnspan rowspan";
const CLASSES: &str = "raw alert alert-title table-scroll footnotes footnote-ref code code-copy math-error image-link image-host image-alt \
    menclose-updiagonalstrike menclose-downdiagonalstrike menclose-horizontalstrike math-core-sans-serif-font math-core-serif-font";

/// Fails unless `html` is made of nothing but what a rendered answer may contain, closed in itself.
fn assert_harmless(html: &str) {
    let listed = |list: &str, name: &str| list.split_whitespace().any(|listed| listed == name);
    let mut open: Vec<String> = Vec::new();
    for tag in tags(html) {
        let name = tag.name.to_string();
        assert!(listed(ELEMENTS, &name), "<{name}> in {html}");
        if tag.kind == TagKind::EndTag {
            assert_eq!(open.pop().as_deref(), Some(&*name), "nesting in {html}");
            continue;
        }
        if !tag.self_closing && !matches!(&*name, "br" | "hr" | "input") {
            open.push(name.clone());
        }
        let value = |wanted: &str| tag.attrs.iter().find(|attr| &*attr.name.local == wanted).map(|attr| attr.value.to_string());
        for attr in &tag.attrs {
            assert!(listed(ATTRIBUTES, &attr.name.local), "{} in {html}", &*attr.name.local);
        }
        if let Some(href) = value("href") {
            assert!(name == "a" && ["http://", "https://", "mailto:"].iter().any(|scheme| href.starts_with(scheme)), "{href} in {html}");
        }
        if name == "a" {
            assert_eq!(value("target").as_deref(), Some("_blank"));
            assert_eq!(value("rel").as_deref(), Some("noopener noreferrer nofollow"));
            assert!(value("href").is_some(), "{html}");
        }
        for class in value("class").unwrap_or_default().split(' ').filter(|class| !class.is_empty()) {
            assert!(listed(CLASSES, class) || class.starts_with("hl-") || class.starts_with("math-"), "class {class} in {html}");
        }
    }
    assert!(open.is_empty(), "{open:?} left open in {html}");
}

fn all(markdown: &str) -> String {
    let blocks = blocks(markdown);
    for html in &blocks {
        assert_harmless(html);
    }
    blocks.concat()
}

#[test]
fn markdown_becomes_the_html_that_the_pages_expect() {
    for (markdown, html) in [
        ("# A *b*", "<h1>A <em>b</em></h1>"),
        ("a  \nb\nc", "<p>a<br>\nb\nc</p>"),
        ("**a** ~~b~~ `c<d`", "<p><strong>a</strong> <del>b</del> <code>c&lt;d</code></p>"),
        ("> a\n>\n> b", "<blockquote><p>a</p><p>b</p></blockquote>"),
        ("---", "<hr>"),
        ("- a\n- b\n  - c", "<ul><li>a</li><li>b\n<ul><li>c</li></ul></li></ul>"),
        ("3. a\n\n4. b", "<ol start=\"3\"><li><p>a</p></li><li><p>b</p></li></ol>"),
        (
            "- [x] a\n- [ ] b",
            concat!(
                "<ul><li><input type=\"checkbox\" checked=\"\" disabled=\"\" aria-label=\"done\"> a</li>",
                "<li><input type=\"checkbox\" disabled=\"\" aria-label=\"not done\"> b</li></ul>"
            ),
        ),
        (
            "|a|b|\n|-|-:|\n|1<br>2|3|\n|4|5|",
            concat!(
                "<div class=\"table-scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Table\"><table><thead><tr><th scope=\"col\">a</th>",
                "<th scope=\"col\" align=\"right\">b</th></tr></thead><tbody><tr><td>1<br>\n2</td><td align=\"right\">3</td></tr>",
                "<tr><td>4</td><td align=\"right\">5</td></tr></tbody></table></div>"
            ),
        ),
        (
            "> [!WARNING]\n> Hot",
            "<div class=\"alert\" data-kind=\"warning\" role=\"note\"><p class=\"alert-title\">Warning</p><p>Hot</p></div>",
        ),
        (
            "```\na\n```",
            concat!(
                "<figure class=\"code\" data-lang=\"text\"><figcaption><span>text</span>",
                "<button type=\"button\" class=\"code-copy\">Copy</button></figcaption><pre tabindex=\"0\"><code>a\n</code></pre></figure>"
            ),
        ),
        (
            "[a](https://b.test/c \"d\") <e@f.test>",
            concat!(
                "<p><a href=\"https://b.test/c\" title=\"d\" target=\"_blank\" rel=\"noopener noreferrer nofollow\">a</a> ",
                "<a href=\"mailto:e@f.test\" target=\"_blank\" rel=\"noopener noreferrer nofollow\">e@f.test</a></p>"
            ),
        ),
        (
            "![A *cat*](https://b.test:81/c.png)",
            concat!(
                "<p><a class=\"image-link\" href=\"https://b.test:81/c.png\" data-host=\"b.test:81\" target=\"_blank\" rel=\"noopener noreferrer nofollow\">",
                "<span>Load image</span> <span class=\"image-host\">b.test:81</span> <span class=\"image-alt\">A cat</span></a></p>"
            ),
        ),
        ("$x$ \\(y\\)", "<p><math><mi>x</mi></math> <math><mi>y</mi></math></p>"),
        ("```math\nx\n```", "<p><math display=\"block\"><mi>x</mi></math></p>"),
        ("$\\nosuch{<b>}$", "<p><code class=\"math-error\">\\nosuch{&lt;b&gt;}</code></p>"),
        ("It costs $5 or $6.", "<p>It costs $5 or $6.</p>"),
        ("a\n\n<b>c</b>", "<p>a</p><p>&lt;b&gt;c&lt;/b&gt;</p>"),
        ("<div>\n<b>\n</div>", "<p class=\"raw\">&lt;div&gt;<br>\n&lt;b&gt;<br>\n&lt;/div&gt;</p>"),
        (
            "a[^n] b[^n]\n\n[^n]: c\n\n[^m]: unused",
            concat!(
                "<p>a<sup class=\"footnote-ref\">1</sup> b<sup class=\"footnote-ref\">1</sup></p>",
                "<section class=\"footnotes\" aria-label=\"Footnotes\"><ol><li><p>c</p></li></ol></section>"
            ),
        ),
    ] {
        assert_eq!(all(markdown), html, "{markdown}");
    }
    assert_eq!(blocks("a\n\n- b\n- c\n\n```\nd\n```\n").len(), 3);
    assert!(blocks(" \n\n").is_empty());
}

#[test]
fn no_script_no_request_and_no_name_comes_through() {
    let hostile = [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "<svg onload=alert(1)><foreignObject><iframe srcdoc='<script>1</script>'></iframe></foreignObject></svg>",
        "<iframe srcdoc=\"<script>parent.localStorage</script>\"></iframe>",
        "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)></style></mglyph></table></mtext></math>",
        "<p style=\"background:url(https://evil.test)\" id=location name=cookie>a</p>",
        "<form action=https://evil.test><input name=q><button formaction=javascript:x>b</button></form>",
        "<a href=\"javascript:alert(1)\">a</a> <A HREF=java&#115;cript:x>b</A>",
        "<!-- a --><!DOCTYPE html><?php x ?><![CDATA[ y ]]>",
        "<span data-math=\"0\"></span> $x$ `<span data-math=\"0\"></span>`",
        "$x$ [a](https://b.test/ \"<span data-math='0'></span>\")",
        "[a](javascript:alert(1)) [b](JaVaScRiPt:alert(1)) [c](\u{1}javascript:x) [d](<java\tscript:x>) [e](java&NewLine;script:x)",
        "[a](&#106;avascript:x) [b](javascript&colon;x) [c](data:text/html,<script>1</script>) [d](vbscript:x) [e](file:///etc/passwd)",
        "[a](//evil.test) [b](/account) [c](#main) [d](?q) [e](../x) [f](blob:https://a.test/1) [g](view-source:https://a.test) [h]()",
        "<javascript:alert(1)> <data:text/html,x> <vbscript:x>",
        "[a]\n\n[a]: javascript:alert(1)",
        "[a](https://b.test/\"onclick=alert(1)) [b](<https://c.test/ onmouseover=x>) [c](https://d.test 'x\" onclick=\"y')",
        "![a](javascript:x) ![b](data:image/svg+xml,<svg/onload=x>) ![c](/account) ![d](//evil.test/x) ![e](https://evil.test/?q=\"onerror=x)",
        "![a\"onerror=x](https://evil.test/x.png) ![<b>](https://e.test) ![$x$](https://e.test) ![![in](https://f.test)](https://e.test)",
        "[![a](https://evil.test/x.png)](https://b.test)",
        "[a [b](https://c.test) d](https://e.test) [https://f.test](https://g.test)",
        "```\"><script>alert(1)</script>\na\n```",
        "```html\n<script>alert(1)</script></code></pre><img src=x onerror=y>\n```",
        "```mermaid\ngraph TD; A[\"<img src=x onerror=alert(1)>\"] --> B\nclick A \"javascript:alert(1)\"\n```",
        "```svg\n<svg onload=alert(1)>\n```",
        "$\\text{<img src=x onerror=1>}$ $\\href{javascript:x}{y}$ $\\unicode{<b>}$ $\\color{red\" onload=x}x$ $<script>$ $\\style{background:url(//e.test)}{x}$",
        "$\\begin{array}{c\"onclick=x} a \\end{array}$ $\\tag{<b>}x$ $$\\label{\"><b>}x$$ $\\operatorname{<i onx>}$",
        "[^<b>]\n\n[^<b>]: <script>x</script> ![a](https://b.test)",
        "[^a\"b]\n\n[^a\"b]: c",
        "> [!NOTE] <img src=x onerror=y>\n> a",
        "|<b>|`a|b`|\n|-|-|\n|![x](https://y.test)|<br onload=x>|",
        "# <h1 id=location> {#cookie}\n\nSetext {id=x}\n===",
        "- [x] <input autofocus onfocus=x>",
        "http://a.test/<script> www.evil.test/\"onclick=x a@b.test\"onx=y ftp://x.test",
        "https://user:pass@evil.test/ [a](http://)(http:) ![b](https:///x)",
        "a\0b <scr\0ipt> [c](java\0script:x) `\0`",
        "\u{202e}txet\u{202c} \u{2066}[a](https://b.test/\u{202e}x)\u{2069} `\u{202e}`",
        "&lt;script&gt; &#60;img src=x&#62; &quot;&#0;&#x110000;",
        "<br onclick=x> <br/> <BR> <br id=a>",
        "***a** <b>_c_* [d*](https://e.test)*",
    ];
    for markdown in hostile {
        let html = all(markdown);
        let mut live = LiveText::new();
        for (at, _) in markdown.char_indices() {
            live.update(&markdown[..at]).iter().for_each(|html| assert_harmless(html));
        }
        assert_eq!(live.finish(markdown).concat(), html);
    }
}

#[test]
fn inert_links_keep_their_text_and_images_inside_links_their_description() {
    assert_eq!(all("[a](javascript:x) ![b](data:x) [c](/d)"), "<p>a b c</p>");
    assert_eq!(
        all("[![Build](https://badge.test/x.svg)](https://ci.test/)"),
        "<p><a href=\"https://ci.test/\" target=\"_blank\" rel=\"noopener noreferrer nofollow\">Build</a></p>"
    );
    assert!(all("[a](https://аpple.com/)").contains("href=\"https://xn--pple-43d.com/\""));
}

#[test]
fn nothing_that_is_too_much_panics_or_takes_long() {
    let many = |piece: &str, times: usize| piece.repeat(times);
    let texts = [
        many("hello world ", 87_000),
        many("hello world\n\n", 8_000),
        many(">", 1_000_000),
        format!("{}a\n{}", many("> ", 10_000), many("b\n", 10_000)),
        many("> - ", 10_000),
        many("[", 10_000),
        many("![", 100_000),
        many("[a](", 50_000),
        many("![[]()", 30_000),
        many("**a ", 100_000),
        many("*a_", 50_000),
        many("*a* ", 30_000),
        (1..600).map(|n| many("`", n) + "a").collect(),
        many("$x$ ", 20_000),
        many("$a ", 100_000),
        many("\\(", 100_000),
        many("\\[ a", 50_000),
        format!("|a|b|c|d|e|\n|-|-|-|-|-|\n{}", many("|1|2|3|4|5|\n", 10_000)),
        format!("{}|\n{}|\n{}", many("|a", 1_000), many("|-", 1_000), many("|a|\n", 2_000)),
        (0..300).map(|n| many(" ", n) + "- a\n").collect(),
        many("- ", 50_000),
        many("1. ", 50_000),
        many("<a ", 50_000),
        many("<!-- a", 50_000),
        many("<![CDATA[", 20_000),
        many("http://a.b ", 10_000),
        many("a@", 100_000),
        many("[a]: http://x\n", 10_000) + "[a]",
        many("[^1]", 10_000) + "\n\n[^1]: x\n",
        many("[^a]: ", 10_000),
        many("\0", 100_000),
        many("\u{202e}a\u{2066}", 30_000),
        "```rust\n".to_owned() + &many("fn a() { let x = 1; }\n", 45_000),
        "```js\n".to_owned() + &many("var a=function(b){return`${b}`};", 30_000),
        many("```rust\nfn a() { let x = 1; }\n```\n", 500),
        many("\\", 100_000),
        many("&amp;", 30_000),
        many("&", 1_000_000),
        many("&#x", 300_000),
        many("«", 500_000),
        many("# a\n", 10_000),
        many("* ", 30_000) + "a",
        format!("[a]({}", many("(", 100_000)),
        many("![a](http://b.c/d) ", 5_000),
        format!("$${}$$", many("\\frac{a}{b} + ", 600)),
        format!("$${}x{}$$", many("{", 900), many("}", 900)),
        many("a", 3 << 20),
    ];
    for text in texts {
        let began = Instant::now();
        let blocks = blocks(&text);
        let took = began.elapsed();
        // Far above what is needed, so that a busy machine passes; anything quadratic would take minutes.
        assert!(took < Duration::from_mins(1), "{took:?} for {} bytes like {:.20}", text.len(), text);
        for html in &blocks {
            assert_harmless(html);
        }
    }
}

#[test]
fn nesting_is_bounded_and_the_text_is_kept() {
    let html = all(&format!("{}deep", "> ".repeat(10_000)));
    assert!(html.matches("<blockquote>").count() <= 64 && html.contains("deep"));
    let html = all(&format!("|a|\n|-|\n{}", "|*q*|\n".repeat(40_000)));
    assert_eq!(html.matches('q').count(), 40_000);
    assert!(html.matches("<td>").count() < 40_000);
}

#[test]
fn the_second_time_a_text_costs_a_look_up() {
    let text = "A text that no other test renders.\n\n```rust\nfn main() {}\n```\n";
    let first = blocks(text);
    let second = blocks(text);
    assert!(first.iter().zip(&second).all(|(first, second)| Arc::ptr_eq(first, second)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn whatever_the_text_the_html_is_harmless(text in any::<String>()) {
        all(&text);
    }

    #[test]
    fn markup_and_markdown_in_any_order_are_harmless(
        pieces in prop::collection::vec(prop::sample::select(vec![
            "<", ">", "\"", "'", "=", "/", "a", "img src=x onerror=y", "script", "javascript:", "https://b.test/", "[", "](", ")", "![", "`", "```\n",
            "\n", "\n\n", "|", "|-|\n", "$", "\\", "{", "}", "\\text", "\\frac", "^", "&", "#", ";", "&lt", "<span data-math=\"0\"></span>", "*", "_", "~~",
            "- ", "> ", "[^1]", "[^1]: ", "<!--", "-->", "<br>", "\0", " ", "    ", ":",
        ]), 0..40),
    ) {
        all(&pieces.concat());
    }
}
