use super::*;
use std::time::Instant;
#[test]
fn hostile() {
    let deep = |a: &str, n: usize| a.repeat(n);
    let cases: Vec<(&str, String)> = vec![
        ("plain 1MB line", deep("hello world ", 87_000)),
        ("plain 1MB paras", deep("hello world\n\n", 80_000)),
        ("> x10000", deep(">", 10_000)),
        ("> x1M", deep(">", 1_000_000)),
        ("> x1k lines", deep(&format!("{}a\n", deep(">", 1000)), 1000)),
        ("> x100k lazy", format!("{}a\n{}", deep(">", 100_000), deep("b\n", 100_000))),
        ("> x10k blank", format!("{}a\n{}", deep(">", 10_000), deep("\n", 100_000))),
        ("[ x10000", deep("[", 10_000)),
        ("[ x1M", deep("[", 1_000_000)),
        ("![ x300k", deep("![", 300_000)),
        ("[a]( x100k", deep("[a](", 100_000)),
        ("![[]() x100k", deep("![[]()", 100_000)),
        ("** x", deep("**a ", 250_000)),
        ("*a_ x", deep("*a_", 250_000)),
        ("*a* x", deep("*a* ", 250_000)),
        ("`", (1..1400).map(|n| deep("`", n) + "a").collect()),
        ("$x$", deep("$x$ ", 250_000)),
        ("$ unbalanced", deep("$a ", 250_000)),
        ("$$", deep("$$", 250_000)),
        ("\\(", deep("\\(", 250_000)),
        ("\\[ ", deep("\\[ a", 250_000)),
        ("table 50k cells", format!("|a|b|c|d|e|\n|-|-|-|-|-|\n{}", deep("|1|2|3|4|5|\n", 10_000))),
        ("table wide", format!("{}|\n{}|\n{}", deep("|a", 20_000), deep("|-", 20_000), deep("|a|\n", 20))),
        ("table autocomplete", format!("{}|\n{}|\n{}", deep("|a", 1000), deep("|-", 1000), deep("|a|\n", 10000))),
        ("list deep", (0..2000).map(|n| deep(" ", n) + "- a\n").collect()),
        ("list 100k", deep("- a\n", 100_000)),
        ("- - - ", deep("- ", 200_000)),
        ("1. nested", deep("1. ", 200_000)),
        ("<a x", deep("<a ", 250_000)),
        ("<!--", deep("<!-- a", 150_000)),
        ("<!A", deep("<!A a", 150_000)),
        ("<?", deep("<? a", 150_000)),
        ("<![CDATA[", deep("<![CDATA[", 100_000)),
        ("html lines", deep("<div>\n", 150_000)),
        ("http://", deep("http://a.b ", 90_000)),
        ("www.", deep("www.", 250_000)),
        ("@", deep("a@", 250_000)),
        ("mail", deep("a@b.c ", 150_000)),
        ("::::", deep("http:", 200_000)),
        ("emails dots", deep("a.", 250_000) + "@" + &deep("a.", 250_000)),
        ("refs", deep("[a]: http://x\n", 70_000)),
        ("ref uses", format!("[a]: {}\n\n{}", deep("x", 50_000), deep("[a] ", 200_000))),
        ("footnotes", deep("[^1]", 100_000) + "\n\n[^1]: x\n"),
        ("footnotes many", (0..30_000).map(|n| format!("[^{n}]\n\n[^{n}]: x\n\n")).collect()),
        ("[^ ", deep("[^", 250_000)),
        ("[^a nested", deep("[^a", 250_000)),
        ("footnote def nest", deep("[^a]: ", 100_000)),
        ("NUL", deep("\0", 1_000_000)),
        ("bidi", deep("\u{202e}a\u{2066}", 100_000)),
        ("fence", "```rust\n".to_string() + &deep("fn a() { let x = 1; }\n", 45_000)),
        ("fences", deep("```rust\nfn a() { let x = 1; }\n```\n", 30_000)),
        ("fences distinct", (0..10_000).map(|n| format!("```rust\nfn a{n}() {{ let x = {n}; }}\n```\n")).collect()),
        ("fence 60k", "```js\n".to_string() + &deep("function a(b) { return `x${b}` + /re/.test(b) }\n", 1_200)),
        ("html 60k", "```html\n".to_string() + &deep("<a href=\"b\"><b class='c'>d</b></a>\n", 1_600)),
        ("fence brackets", "```js\n".to_string() + &deep(&format!("{}\n", deep("((((", 400)), 40)),
        ("entities", deep("&amp;", 200_000)),
        ("backslash", deep("\\", 1_000_000)),
        ("tilde", deep("~~a~", 250_000)),
        ("alerts", deep("> [!NOTE]\n> a\n\n", 60_000)),
        ("headings", deep("# a\n", 250_000)),
        ("hr", deep("***\n", 250_000)),
        ("setext", deep("a\n", 100_000) + "==="),
        ("crlf", deep("a\r\n\r\n", 150_000)),
        ("images", deep("![a](http://b.c/d) ", 50_000)),
        ("big math", "$$".to_string() + &deep("\\frac{a}{b} + ", 200) + "$$"),
        ("math fences", deep("```math\n\\frac{a}{b}\n```\n", 40_000)),
        ("tabs", deep("\t", 500_000)),
        ("spaces > ", deep(" > ", 300_000)),
        ("* * *", deep("* ", 300_000) + "a"),
        ("(((", format!("[a]({}", deep("(", 500_000))),
        ("[a](<b", deep("[a](<b", 150_000)),
        ("\"title", deep("[a](b \"", 100_000)),
        ("nested em", deep("*a **a ", 70_000)),
    ];
    let only = std::env::var("ONLY").ok();
    for (name, text) in cases {
        if only.as_ref().is_some_and(|o| !name.contains(o.as_str())) { continue; }
        let t = Instant::now();
        let arena = comrak::Arena::new();
        let root = write::parse(&arena, &text);
        let n = root.descendants().count();
        let parse = t.elapsed();
        let t = Instant::now();
        let out = blocks(&text);
        let all = t.elapsed();
        let len: usize = out.iter().map(|b| b.len()).sum();
        println!("{}{name:20} in {:8} parse {:8.1?} all {:8.1?} nodes {n:8} blocks {:6} out {len}", if all.as_millis() > 800 {"!! "} else {"   "}, text.len(), parse, all, out.len());
    }
}
