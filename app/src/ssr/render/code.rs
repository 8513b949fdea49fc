//! Code blocks: a figure with the language's name, a button to copy, and classes for the colours.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use syntect::parsing::{BasicScopeStackOp, ParseState, Scope, ScopeStack, SyntaxReference, SyntaxSet};
use syntect::util::LinesWithEndings;

use super::cache::Cache;
use super::escape;

/// Longer code stays plain.
const MAX_CODE: usize = 64 << 10;
/// A block that still grows is coloured anew each time, so it stays plain from here on until it is complete.
const MAX_STREAMED: usize = 8 << 10;
/// Longer lines stay plain: grammars are regular expressions that run over whole lines, and minified code is all one line.
const MAX_LINE: usize = 1_000;
/// All code of one text that is coloured.
pub(super) const MAX_HIGHLIGHTED: usize = 128 << 10;
/// What coloured code in memory may weigh.
const CACHE_BYTES: usize = 2 << 20;

// Read on first use: a server that nobody asks for code needs no grammars.
static SYNTAXES: LazyLock<SyntaxSet> = LazyLock::new(two_face::syntax::extra_newlines);
static HIGHLIGHTED: LazyLock<Cache<Arc<str>>> = LazyLock::new(|| Cache::new(CACHE_BYTES));

/// Names of languages in answers that are neither the name nor the file extension of a grammar.
const ALIASES: &[(&str, &str)] = &[
    ("console", "bash"),
    ("shell", "bash"),
    ("shell-session", "bash"),
    ("sh-session", "bash"),
    ("terminal", "bash"),
    ("ipython", "python"),
    ("python3", "python"),
    ("py3", "python"),
    ("snakemake", "python"),
    ("golang", "go"),
    ("csharp", "cs"),
    ("jsonc", "json"),
    ("json5", "json"),
    ("jsonl", "json"),
    ("cwl", "yaml"),
    ("nextflow", "groovy"),
    ("svg", "xml"),
    ("node", "js"),
    ("mjs", "js"),
    ("rscript", "r"),
    ("docker", "dockerfile"),
];

/// Writes a code block. `info` is what stands behind the opening fence.
///
/// `streamed`: the block may still grow. `left` counts down what may be coloured in this text.
pub(super) fn figure(out: &mut String, info: &str, code: &str, streamed: bool, left: &mut usize) {
    let language = language(info);
    let label = if language.is_empty() { "text" } else { &language };
    out.push_str("<figure class=\"code\" data-lang=\"");
    escape(out, label);
    out.push_str("\"><figcaption><span>");
    escape(out, label);
    out.push_str("</span><button type=\"button\" class=\"code-copy\">Copy</button></figcaption><pre tabindex=\"0\"><code>");
    let limit = if streamed { MAX_STREAMED } else { MAX_CODE };
    let highlighted = if code.len() <= limit.min(*left) { highlight(&language, code, streamed) } else { None };
    if let Some(html) = highlighted {
        *left -= code.len();
        out.push_str(&html);
    } else {
        escape(out, code);
    }
    out.push_str("</code></pre></figure>");
}

/// The first word of the info string, without attributes that some dialects put behind it.
fn language(info: &str) -> String {
    let word = info.trim_start_matches(['{', '.', ' ']).split([' ', '\t', ',', '{', '}', ':', '=', ';']).next().unwrap_or_default();
    word.chars().filter(|c| c.is_ascii_alphanumeric() || "+#-._".contains(*c)).take(32).collect::<String>().to_ascii_lowercase()
}

fn highlight(language: &str, code: &str, streamed: bool) -> Option<Arc<str>> {
    if language.is_empty() {
        return None;
    }
    let token = ALIASES.iter().find(|(alias, _)| *alias == language).map_or(language, |(_, token)| token);
    let syntax = SYNTAXES.find_syntax_by_token(token)?;
    let key = format!("{}\0{code}", syntax.name);
    if let Some(known) = HIGHLIGHTED.get(&key) {
        return Some(known);
    }
    let html: Arc<str> = Arc::from(paint(syntax, code)?);
    if !streamed {
        HIGHLIGHTED.put(&key, Arc::clone(&html), html.len());
    }
    Some(html)
}

fn paint(syntax: &SyntaxReference, code: &str) -> Option<String> {
    let mut state = ParseState::new(syntax);
    let mut scopes = ScopeStack::new();
    let mut painter = Painter::default();
    for line in LinesWithEndings::from(code) {
        if line.len() > MAX_LINE {
            painter.text(line);
            continue;
        }
        let mut from = 0;
        for (to, change) in state.parse_line(line, &SYNTAXES).ok()? {
            painter.text(line.get(from..to)?);
            from = to;
            scopes
                .apply_with_hook(&change, |basic, _| match basic {
                    BasicScopeStackOp::Push(scope) => painter.push(scope),
                    BasicScopeStackOp::Pop => painter.pop(),
                })
                .ok()?;
        }
        painter.text(line.get(from..)?);
    }
    Some(painter.finish())
}

/// Writes text within spans for the scopes around it, a span only when there is text in it.
///
/// Only scopes that a colour scheme looks at become spans, by their first three names: the full output of the
/// highlighter is ten times the code.
#[derive(Default)]
struct Painter {
    out: String,
    scopes: Vec<Option<Arc<str>>>,
    open: Vec<Arc<str>>,
    classes: HashMap<Scope, Option<Arc<str>>>,
}

impl Painter {
    fn push(&mut self, scope: Scope) {
        let embedded = !self.scopes.is_empty();
        let class = self.classes.entry(scope).or_insert_with(|| class(scope, embedded)).clone();
        self.scopes.push(class);
    }

    fn pop(&mut self) {
        self.scopes.pop();
    }

    fn text(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        let wanted = self.scopes.iter().flatten();
        let shared = wanted.clone().zip(&self.open).take_while(|(wanted, open)| wanted == open).count();
        for _ in shared..self.open.len() {
            self.out.push_str("</span>");
        }
        self.open.truncate(shared);
        if !text.trim().is_empty() {
            for class in wanted.skip(shared) {
                self.out.push_str("<span class=\"");
                self.out.push_str(class);
                self.out.push_str("\">");
                self.open.push(Arc::clone(class));
            }
        }
        escape(&mut self.out, text);
    }

    fn finish(mut self) -> String {
        for _ in &self.open {
            self.out.push_str("</span>");
        }
        self.out
    }
}

fn class(scope: Scope, embedded: bool) -> Option<Arc<str>> {
    let name = scope.build_string();
    let mut atoms = name.split('.');
    let names = match (atoms.next()?, atoms.next()) {
        (
            "comment" | "string" | "keyword" | "storage" | "constant" | "entity" | "variable" | "support" | "punctuation" | "markup"
            | "invalid",
            _,
        )
        | ("meta", Some("interpolation" | "diff")) => 3,
        ("source", _) if embedded => 1,
        _ => return None,
    };
    let classes: Vec<String> = name
        .split('.')
        .take(names)
        .map(|atom| atom.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_')).collect::<String>())
        .filter(|atom| !atom.is_empty())
        .map(|atom| format!("hl-{atom}"))
        .collect();
    Some(Arc::from(classes.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(info: &str, code: &str, streamed: bool) -> String {
        let mut out = String::new();
        figure(&mut out, info, code, streamed, &mut MAX_HIGHLIGHTED.clone());
        out
    }

    #[test]
    fn a_known_language_gets_classes_for_its_scopes() {
        assert_eq!(
            shown("python", "def f(x):\n    return \"a<b\"  # c\n", false),
            concat!(
                "<figure class=\"code\" data-lang=\"python\"><figcaption><span>python</span>",
                "<button type=\"button\" class=\"code-copy\">Copy</button></figcaption><pre tabindex=\"0\"><code>",
                "<span class=\"hl-storage hl-type hl-function\"><span class=\"hl-keyword hl-declaration hl-function\">def</span></span> ",
                "<span class=\"hl-entity hl-name hl-function\">f</span>",
                "<span class=\"hl-punctuation hl-section hl-parameters\">(</span>",
                "<span class=\"hl-variable hl-parameter hl-python\">x</span>",
                "<span class=\"hl-punctuation hl-section hl-parameters\">)</span>",
                "<span class=\"hl-punctuation hl-section hl-function\">:</span>\n    ",
                "<span class=\"hl-keyword hl-control hl-flow\">return</span> ",
                "<span class=\"hl-string hl-quoted hl-double\"><span class=\"hl-punctuation hl-definition hl-string\">&quot;</span>",
                "a&lt;b<span class=\"hl-punctuation hl-definition hl-string\">&quot;</span></span>  ",
                "<span class=\"hl-comment hl-line hl-number-sign\"><span class=\"hl-punctuation hl-definition hl-comment\">#</span> c\n</span>",
                "</code></pre></figure>"
            )
        );
    }

    #[test]
    fn languages_are_found_by_name_extension_and_habit() {
        for info in [
            "rust",
            "rs",
            "Rust,no_run",
            "{.python .numberLines}",
            "python title=\"x\"",
            "ts",
            "tsx",
            "typescript",
            "console",
            "yaml",
            "toml",
            "dockerfile",
            "r",
            "sql",
            "diff",
            "c++",
            "cpp",
            "c#",
            "svg",
            "html",
            "json",
            "go",
            "javascript",
            "bash",
            "nextflow",
            "xml",
            "perl",
            "java",
            "make",
        ] {
            assert!(
                SYNTAXES.find_syntax_by_token(ALIASES.iter().find(|a| a.0 == language(info)).map_or(&language(info), |a| a.1)).is_some(),
                "{info}"
            );
        }
        assert!(shown("c++", "int x;", false).contains("data-lang=\"c++\""));
        for (info, label) in [("", "text"), ("mermaid", "mermaid"), ("\"><script>", "script"), ("nosuch:file.x", "nosuch")] {
            let html = shown(info, "a <b>\n", false);
            assert!(html.contains(&format!("data-lang=\"{label}\"")) && html.contains("<code>a &lt;b&gt;\n</code>"), "{html}");
        }
    }

    #[test]
    fn long_code_long_lines_and_a_long_streamed_block_stay_plain() {
        let line = "let x = 1;\n";
        assert!(shown("rust", &line.repeat(500), true).contains("hl-"));
        assert!(!shown("rust", &line.repeat(1_000), true).contains("hl-"));
        assert!(!shown("rust", &line.repeat(7_000), false).contains("hl-"));
        let minified = shown("rust", &format!("{}\n{line}", line.trim_end().repeat(300)), false);
        assert!(minified.contains("<code>let x = 1;let x") && minified.contains("\n<span class=\"hl-storage"));
        let mut left = 10;
        let mut out = String::new();
        figure(&mut out, "rust", line, false, &mut left);
        assert!(!out.contains("hl-"));
    }
}
