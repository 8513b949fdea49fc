//! One style sheet out of the files that `style/order.txt` lists, in its order.

use std::collections::BTreeSet;

use crate::{Result, bundle::Files, extension};

const ORDER: &str = "order.txt";

/// Joins the sheets, without comments and indentation if `small`. Every sheet must be listed once, so none is forgotten.
pub fn one_sheet(files: &Files, small: bool) -> Result<String> {
    let mut unlisted: BTreeSet<&str> = files.keys().map(String::as_str).filter(|path| extension(path) == Some("css")).collect();
    let mut sheet = String::new();
    for path in text(files, ORDER)?.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if !unlisted.remove(path) {
            return Err(format!("style/{ORDER}: {path} is listed twice or does not exist"));
        }
        sheet.push_str(text(files, path)?);
        sheet.push('\n');
    }
    if let Some(path) = unlisted.first() {
        return Err(format!("style/{ORDER} does not list {path}"));
    }
    Ok(if small { shrink(&sheet) } else { sheet })
}

fn text<'a>(files: &'a Files, path: &str) -> Result<&'a str> {
    let content = files.get(path).ok_or_else(|| format!("style/{path}: no such file"))?;
    std::str::from_utf8(content).map_err(|error| format!("style/{path}: {error}"))
}

/// Leaves out comments and indentation; strings stay as they are. The rest is left to compression.
fn shrink(sheet: &str) -> String {
    let mut small = String::with_capacity(sheet.len());
    let mut rest = sheet;
    while let Some(first) = rest.chars().next() {
        let taken = if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if matches!(first, '"' | '\'') {
            let string = &rest[..string_length(rest, first)];
            small.push_str(string);
            string.len()
        } else if first.is_ascii_whitespace() {
            if !small.ends_with(['\n', ' ']) {
                small.push(if first == '\n' { '\n' } else { ' ' });
            } else if first == '\n' && small.ends_with(' ') {
                small.pop();
                small.push('\n');
            }
            1
        } else {
            small.push(first);
            first.len_utf8()
        };
        rest = &rest[taken..];
    }
    small
}

/// The length of the string at the start of `text`, both quotes included.
fn string_length(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, char) in text.char_indices().skip(1) {
        match char {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if char == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn style(files: &[(&str, &str)]) -> Result<String> {
        let files = files.iter().map(|(path, content)| ((*path).to_owned(), content.as_bytes().to_vec())).collect();
        one_sheet(&files, true)
    }

    #[test]
    fn sheets_are_joined_in_the_listed_order_without_comments_and_indentation() {
        let sheet = style(&[
            ("a.css", ".a { color: red }"),
            ("b.css", "/* why */\n.b::after {\n    content: \"/* kept  */ \\\" '\";\n}\n"),
            ("order.txt", "b.css\na.css\n"),
        ]);
        assert_eq!(sheet.as_deref(), Ok("\n.b::after {\ncontent: \"/* kept  */ \\\" '\";\n}\n.a { color: red }\n"));
    }

    #[test]
    fn a_forgotten_or_missing_sheet_is_an_error_that_names_it() {
        assert_eq!(style(&[("order.txt", ""), ("a.css", "")]), Err("style/order.txt does not list a.css".to_owned()));
        assert_eq!(style(&[("order.txt", "a.css")]), Err("style/order.txt: a.css is listed twice or does not exist".to_owned()));
        assert_eq!(style(&[]), Err("style/order.txt: no such file".to_owned()));
    }
}
