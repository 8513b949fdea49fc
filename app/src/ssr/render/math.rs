//! Formulas: LaTeX to `MathML`, behind a fence of its own.

use std::panic::catch_unwind;
use std::sync::LazyLock;
use std::thread;

use math_core::{LatexToMathML, MathCoreConfig, MathDisplay};

/// Longer formulas are shown as their source.
const MAX_LATEX: usize = 8 << 10;
/// Commands, braces, indices: more of them are not a formula that somebody reads.
const MAX_STEPS: usize = 1_000;
/// The converter calls itself for every argument. So much of that fits on any thread; the rest gets a thread of its own.
const MAX_STEPS_HERE: usize = 16;
/// For [`MAX_STEPS`] nested braces, even without optimisation. What is not needed is never touched.
const STACK: usize = 64 << 20;
/// Deeper formulas are shown as their source.
const MAX_DEPTH: usize = 200;

static CONVERTER: LazyLock<Option<LatexToMathML>> = LazyLock::new(|| LatexToMathML::new(MathCoreConfig::default()).ok());

/// The formula as `<math>`, or nothing if it cannot be shown as one.
pub(super) fn convert(latex: &str, display: bool) -> Option<String> {
    let steps = latex.bytes().filter(|byte| matches!(byte, b'\\' | b'{' | b'[' | b'(' | b'^' | b'_')).count();
    if latex.len() > MAX_LATEX || steps > MAX_STEPS {
        return None;
    }
    let display = if display { MathDisplay::Block } else { MathDisplay::Inline };
    let convert = || CONVERTER.as_ref()?.convert_with_local_state(latex.trim(), display).ok();
    // The converter is young and asserts a lot; one formula must not cost the whole answer.
    let converted = if steps > MAX_STEPS_HERE {
        thread::scope(|scope| thread::Builder::new().stack_size(STACK).spawn_scoped(scope, convert).ok()?.join().ok()?)
    } else {
        catch_unwind(convert).ok()?
    };
    fence(&converted?.mathml)
}

const ELEMENTS: &[&str] = &[
    "math",
    "mi",
    "mn",
    "mo",
    "ms",
    "mtext",
    "mspace",
    "mrow",
    "mfrac",
    "msqrt",
    "mroot",
    "msub",
    "msup",
    "msubsup",
    "munder",
    "mover",
    "munderover",
    "mmultiscripts",
    "mprescripts",
    "mpadded",
    "mphantom",
    "menclose",
    "merror",
    "mtable",
    "mtr",
    "mtd",
    "b",
    "i",
    "em",
    "code",
    "s",
    "u",
    "span",
];
/// Left out with their content kept: what they add is a link.
const UNWRAPPED: &[&str] = &["a"];
const ATTRIBUTES: &[&str] = &[
    "display",
    "displaystyle",
    "scriptlevel",
    "mathvariant",
    "stretchy",
    "symmetric",
    "largeop",
    "movablelimits",
    "form",
    "fence",
    "separator",
    "lspace",
    "rspace",
    "minsize",
    "maxsize",
    "accent",
    "accentunder",
    "linethickness",
    "width",
    "height",
    "depth",
    "voffset",
    "notation",
    "columnspan",
    "rowspan",
];
const CLASSES: &[&str] = &[
    "menclose-updiagonalstrike",
    "menclose-downdiagonalstrike",
    "menclose-horizontalstrike",
    "math-core-sans-serif-font",
    "math-core-serif-font",
];
/// The page's policy forbids inline styles, so each style that the converter writes has a class here; others go.
const STYLES: &[(&str, &str)] = &[
    ("text-align:left", "math-left"),
    ("text-align:right", "math-right"),
    ("padding-left:0", "math-flush-left"),
    ("padding-right:0", "math-flush-right"),
    ("padding-top:0", "math-flush-top"),
    ("padding-bottom:0", "math-flush-bottom"),
    ("padding-left:1em", "math-indent"),
    ("padding-left:0.1667em", "math-thin-left"),
    ("padding-left:0.2222em", "math-medium-left"),
    ("padding-left:0.2778em", "math-thick-left"),
    ("padding-right:0.1667em", "math-thin-right"),
    ("padding-right:0.2222em", "math-medium-right"),
    ("padding-right:0.2778em", "math-thick-right"),
    ("padding-top:0.1667em", "math-thin-top"),
    ("margin-left:-0.16666667em", "math-back-thin"),
    ("margin-left:-0.22222222em", "math-back-medium"),
    ("margin-left:-0.2777778em", "math-back-thick"),
    ("border-left:0.05em solid currentcolor", "math-line-left"),
    ("border-right:0.05em solid currentcolor", "math-line-right"),
    ("border-top:0.05em solid currentcolor", "math-line-top"),
    ("border-left:0.05em dashed currentcolor", "math-dash-left"),
    ("border-right:0.05em dashed currentcolor", "math-dash-right"),
    ("border-top:0.05em dashed currentcolor", "math-dash-top"),
    ("width:100%", "math-wide"),
    ("width:50%", "math-half"),
    ("width:7.5%", "math-number"),
    ("math-shift:compact", "math-compact"),
    ("font-variant-caps:small-caps", "math-small-caps"),
];

/// Reads what the converter wrote as strictly as it was written, and copies what is on the lists above.
///
/// Anything else (an unknown tag, an odd quote, a tag without its end) means that the converter and this list have
/// parted: then the source is shown.
fn fence(mathml: &str) -> Option<String> {
    let mut out = String::with_capacity(mathml.len());
    let mut open: Vec<&str> = Vec::new();
    let mut rest = mathml;
    while let Some(at) = rest.find('<') {
        text(&mut out, &rest[..at]);
        rest = &rest[at + 1..];
        let end = rest.find('>')?;
        let tag = &rest[..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            if open.pop() != Some(name) {
                return None;
            }
            if ELEMENTS.contains(&name) {
                out.push_str("</");
                out.push_str(name);
                out.push('>');
            }
            continue;
        }
        let (tag, closed) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
        let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        if ELEMENTS.contains(&name) {
            out.push('<');
            out.push_str(name);
            self::attributes(&mut out, attributes)?;
            out.push_str(if closed { "/>" } else { ">" });
        } else if !UNWRAPPED.contains(&name) {
            return None;
        }
        if !closed {
            if open.len() == MAX_DEPTH {
                return None;
            }
            open.push(name);
        }
    }
    text(&mut out, rest);
    open.is_empty().then_some(out)
}

/// Text comes escaped; a `>` alone would be harmless, and is escaped all the same.
fn text(out: &mut String, text: &str) {
    if text.contains(['>', '\0']) {
        out.push_str(&text.replace('>', "&gt;").replace('\0', "\u{fffd}"));
    } else {
        out.push_str(text);
    }
}

fn attributes(out: &mut String, mut rest: &str) -> Option<()> {
    let mut classes: Vec<&str> = Vec::new();
    let mut color = None;
    while let Some((name, after)) = rest.trim_start().split_once("=\"") {
        let (value, after) = after.split_once('"')?;
        rest = after;
        match name {
            "class" => classes.extend(value.split(' ').filter(|class| CLASSES.contains(class))),
            "style" => {
                for declaration in value.split(';') {
                    let (property, value) = declaration.split_once(':').unwrap_or_default();
                    let (property, value) = (property.trim(), value.trim());
                    if property == "color" {
                        color = Some(value);
                    }
                    let known = STYLES.iter().find(|(style, _)| style.split_once(':') == Some((property, value)));
                    classes.extend(known.map(|(_, class)| *class));
                }
            }
            _ if ATTRIBUTES.contains(&name) => attribute(out, name, value)?,
            _ => {}
        }
    }
    if let Some(color) = color {
        attribute(out, "mathcolor", color)?;
    }
    if !classes.is_empty() {
        attribute(out, "class", &classes.join(" "))?;
    }
    rest.trim().is_empty().then_some(())
}

fn attribute(out: &mut String, name: &str, value: &str) -> Option<()> {
    if !value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b" .-+%#".contains(&byte)) {
        return None;
    }
    for part in [" ", name, "=\"", value, "\""] {
        out.push_str(part);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_become_mathml_without_inline_styles() {
        assert_eq!(convert("x^2", false).as_deref(), Some("<math><msup><mi>x</mi><mn>2</mn></msup></math>"));
        assert!(convert("\\sum_{i=1}^n i", true).unwrap().starts_with("<math display=\"block\">"));
        for latex in [
            "\\begin{cases} a & b < 0 \\\\ c & d > 0 \\end{cases}",
            "\\begin{align} a &= b \\\\ &= c \\end{align}",
            "\\begin{array}{|l|c|r|} \\hline 1 & 2 & 3 \\\\ \\hline \\end{array}",
            "\\color{red} x",
            "a\\!b \\quad c \\text{ if } \\textbf{bold \\& <b>} \\cfrac{1}{2}",
            "\\begin{pmatrix} 1 & 2 \\\\ 3 & 4 \\end{pmatrix} \\cancel{x} \\overbrace{abc}^{n}",
            "\\text{<img src=x onerror=alert(1)>}",
        ] {
            let html = convert(latex, true).unwrap_or_else(|| panic!("{latex} was refused"));
            assert!(!html.contains(" style=") && !html.contains("<img"), "{html}");
        }
        assert!(convert("\\color{red} x", false).unwrap().contains("mathcolor=\"#"));
        assert!(convert("a\\!b", false).unwrap().contains("class=\"math-back-thin\""));
    }

    #[test]
    fn links_and_names_in_formulas_are_left_out() {
        for latex in
            ["\\href{javascript:alert(1)}{x}", "\\url{https://evil.test}", "\\begin{align} x \\label{main} \\end{align} \\ref{main}"]
        {
            if let Some(html) = convert(latex, true) {
                assert!(!html.contains("href") && !html.contains("id="), "{html}");
            }
        }
    }

    #[test]
    fn what_is_wrong_or_too_much_is_refused() {
        for latex in ["\\frac{1}", "\\nosuchcommand", "{", "\\begin{align}", &"{".repeat(9_000), &format!("{}x", "\\sqrt".repeat(1_000))] {
            assert_eq!(convert(latex, false), None);
        }
    }

    #[test]
    fn the_deepest_formula_that_is_let_through_fits_on_any_thread() {
        let around = |open: &str, close: &str, n: usize| format!("{}x{}", open.repeat(n), close.repeat(n));
        for steps in [MAX_STEPS_HERE, MAX_STEPS] {
            let nested = [
                around("{", "}", steps),
                around("\\sqrt", "", steps),
                around("\\frac1", "", steps),
                around("x^{", "}", steps / 2),
                around("\\left(", "\\right)", steps / 3),
                around("\\begin{cases}", "\\end{cases}", steps / 4),
                around("\\hat\\mathbf", "", steps / 2),
                around("\\text\\textbf", "", steps / 2),
            ];
            let thread = thread::Builder::new().stack_size(512 << 10);
            let convert = move || nested.map(|latex| convert(&latex, true));
            let converted = thread.spawn(convert).unwrap().join().unwrap();
            assert!(converted[0].is_some(), "{steps} braces");
        }
    }

    #[test]
    fn the_fence_stops_what_the_converter_should_not_write() {
        for bad in [
            "<math><script>x</script></math>",
            "<math><mi>x</mn></math>",
            "<math><mi>x</mi>",
            "<math><mi mathvariant=\"a&quot;b\">x</mi></math>",
            "<math onclick=x><mi>x</mi></math>",
        ] {
            assert_eq!(fence(bad), None, "{bad}");
        }
        assert_eq!(fence("<math id=\"a\" onload=\"x()\"><mi>x</mi></math>").as_deref(), Some("<math><mi>x</mi></math>"));
    }
}
