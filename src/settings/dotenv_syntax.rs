//! Syntax of a `.env` file: `NAME=value` lines as Node's `dotenv` reads them.
//!
//! The parser is tandem's own, because users bring files that were made for that package, and because the known crates
//! replace `$NAME` in values by the variable's value in the process's environment: with them, a project's `.env` could
//! make tandem send any secret of the user as a key.

use std::collections::HashMap;

/// Returns all variables of a file. If a name is there more than once, its last value counts. Lines without a variable
/// are skipped.
pub(super) fn parse(text: &str) -> HashMap<String, String> {
    let mut rest = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut found = HashMap::new();
    while !rest.is_empty() {
        let (line, after) = rest.split_once('\n').unwrap_or((rest, ""));
        let Some((name, value)) = assignment(line) else {
            rest = after;
            continue;
        };
        // A quoted value may continue over several lines.
        let from = &rest[line.len() - value.len()..];
        let (value, after) = match quoted(from) {
            Some(found) => found,
            None => (value.split('#').next().unwrap_or("").trim().to_owned(), after),
        };
        found.insert(name.to_owned(), value);
        rest = after;
    }
    found
}

/// Returns the name in a line, and the text after the `=` and its white space.
fn assignment(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once('=')?;
    let name = name.trim();
    let name = name.strip_prefix("export").map_or(name, |rest| {
        // `exported=1` is a name too.
        if rest.starts_with([' ', '\t']) { rest.trim_start() } else { name }
    });
    let is_name =
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c));
    is_name.then(|| (name, value.trim_start()))
}

/// Returns the quoted value at the start of `text`, and the text after the value's last line; `None` if the value is
/// not quoted, or if anything but a comment follows it on the line.
fn quoted(text: &str) -> Option<(String, &str)> {
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\'' | '`'))?;
    let body = &text[1..];
    let is_end = |at: usize| !body[..at].ends_with('\\');
    let end = body.match_indices(quote).map(|(at, _)| at).find(|at| is_end(*at))?;
    let (trailing, after) = body[end + 1..].split_once('\n').unwrap_or((&body[end + 1..], ""));
    if !trailing.trim().is_empty() && !trailing.trim_start().starts_with('#') {
        return None;
    }
    let value = &body[..end];
    let value = match quote {
        '"' => value.replace("\\n", "\n").replace("\\r", "\r"),
        _ => value.to_owned(),
    };
    Some((value, after))
}

#[cfg(test)]
mod tests {
    use super::parse;

    fn check(text: &str, expected: &[(&str, &str)]) {
        let mut found: Vec<_> = parse(text).into_iter().collect();
        found.sort();
        let found: Vec<_> = found.iter().map(|(name, value)| (&**name, &**value)).collect();
        assert_eq!(found, expected, "{text:?}");
    }

    #[test]
    fn lines_are_names_and_values() {
        check("A=1\nB = two words \r\n\n# C=3\nnonsense\n", &[("A", "1"), ("B", "two words")]);
        check("\u{feff}export A=1\nexported=2", &[("A", "1"), ("exported", "2")]);
        check("A=\nB=x=y", &[("A", ""), ("B", "x=y")]);
    }

    #[test]
    fn the_last_value_of_a_name_counts() {
        check("A=1\nA=2", &[("A", "2")]);
    }

    #[test]
    fn comments_end_values_that_are_not_quoted() {
        check("A=1 # one\nB='2 # two' # three", &[("A", "1"), ("B", "2 # two")]);
    }

    #[test]
    fn quotes_go_and_may_hold_lines() {
        check("A=\"x\ny\"\nB='z'\nC=`q`", &[("A", "x\ny"), ("B", "z"), ("C", "q")]);
        check(r#"A="x\ny" "#, &[("A", "x\ny")]);
        check(r"A='x\ny'", &[("A", r"x\ny")]);
    }

    #[test]
    fn a_quote_that_is_not_closed_is_a_character() {
        check("A=\"x\nB=1", &[("A", "\"x"), ("B", "1")]);
        check("A='x' y\nB=1", &[("A", "'x' y"), ("B", "1")]);
    }

    #[test]
    fn other_variables_are_not_put_in() {
        check("A=1\nB=$A-${A}-$HOME", &[("A", "1"), ("B", "$A-${A}-$HOME")]);
    }

    #[test]
    fn bad_lines_are_passed_over() {
        check("=1\nA B=2\n\u{e9}=3\n==\n\0\nC=4", &[("C", "4")]);
    }
}
