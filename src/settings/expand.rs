//! Expansion of `$NAME`, `${NAME}` and `${NAME:-default}` in values.

/// Replaces variables by their values. A variable with neither a value nor a default stays as it is written. `lookup`
/// is called once for each occurrence of a variable.
pub(super) fn expand(text: &str, mut lookup: impl FnMut(&str) -> Option<String>) -> String {
    let value = |piece| match piece {
        Piece::Text(text) => text.to_owned(),
        Piece::Variable { source, name, default } => {
            lookup(name).unwrap_or_else(|| default.unwrap_or(source).to_owned())
        }
    };
    pieces(text).into_iter().map(value).collect()
}

/// A piece of a value.
pub(super) enum Piece<'a> {
    /// Text without variables.
    Text(&'a str),
    /// A variable: as it is written, its name, and its default.
    Variable { source: &'a str, name: &'a str, default: Option<&'a str> },
}

/// Returns the pieces of a value, in order.
pub(super) fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let (mut rest, mut from) = (text, 0);
    while let Some(at) = rest[from..].find('$').map(|at| from + at) {
        let Some((name, default, length)) = variable(&rest[at..]) else {
            from = at + 1;
            continue;
        };
        let (source, after) = rest[at..].split_at(length);
        pieces.extend([Piece::Text(&rest[..at]), Piece::Variable { source, name, default }]);
        (rest, from) = (after, 0);
    }
    pieces.push(Piece::Text(rest));
    pieces
}

/// Returns the variable at the start of `text`, which begins with `$`: its name, its default, and its length in bytes.
fn variable(text: &str) -> Option<(&str, Option<&str>, usize)> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if let Some(inner) = text.strip_prefix("${") {
        let end = inner.find('}')?;
        let (name, default) = match inner[..end].split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (&inner[..end], None),
        };
        let is_one = !name.is_empty() && name.chars().all(is_name);
        return is_one.then_some((name, default, end + 3));
    }
    let name = &text[1..];
    let end = name.find(|c| !is_name(c)).unwrap_or(name.len());
    (end > 0).then(|| (&name[..end], None, end + 1))
}

#[cfg(test)]
mod tests {
    use super::expand;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let lookup = |name: &str| match name {
            "A" => Some("1".to_owned()),
            "LONG_2" => Some("two $A".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        };
        assert_eq!(expand(text, lookup), expected, "{text:?}");
    }

    #[test]
    fn variables_are_replaced_by_their_values() {
        check("$A", "1");
        check("x${A}y$A.z", "x1y1.z");
        check("$LONG_2/${EMPTY}", "two $A/");
        check("${A:-other}", "1");
        check("ü$Aü", "ü1ü");
    }

    #[test]
    fn one_without_a_value_has_its_default_or_stays() {
        check("${NO:-a b}", "a b");
        check("${NO:-}", "");
        check("${NO:-http://x:1/-}", "http://x:1/-");
        check("$NO ${NO}", "$NO ${NO}");
        check("${EMPTY:-x}", "");
    }

    #[test]
    fn other_dollars_are_left_alone() {
        check("$", "$");
        check("a$$A", "a$1");
        check("$ A ${", "$ A ${");
        check("${A", "${A");
        check("${}$(A)${A B}", "${}$(A)${A B}");
        check("^x$", "^x$");
    }
}
