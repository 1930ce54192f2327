//! A string literal: its text, and whether people read it.

/// The text of a string literal as the program has it; `None` for other literals.
pub(super) fn value(literal: &str) -> Option<String> {
    if let Some(raw) = literal.strip_prefix('r') {
        let hashes = raw.chars().take_while(|c| *c == '#').count();
        return Some(raw[hashes + 1..raw.len() - hashes - 1].to_owned());
    }
    let inner = literal.strip_prefix('"')?.strip_suffix('"')?;
    let mut text = String::new();
    let mut chars = inner.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '\\' {
            text.push(c);
            continue;
        }
        match chars.next() {
            Some('n') => text.push('\n'),
            Some('t') => text.push('\t'),
            Some('\n') => while chars.next_if(|c| c.is_whitespace()).is_some() {},
            Some('u') => {
                let digits: String =
                    chars.by_ref().take_while(|c| *c != '}').filter(|c| *c != '{').collect();
                let code = u32::from_str_radix(&digits, 16).ok();
                text.extend(code.and_then(char::from_u32));
            }
            Some(escaped) => text.push(escaped),
            None => {}
        }
    }
    Some(text)
}

/// Returns `true` for a text with two words in a row, one of them of letters. Statements of SQL are no texts for
/// people.
pub(super) fn is_sentence(text: &str) -> bool {
    let words: Vec<_> = text.split(' ').collect();
    let letters = |word: &str| {
        let word = word.trim_matches(|c: char| ",.;:!?()\n".contains(c));
        word.len() > 1 && word.chars().all(|c| c.is_alphabetic() || c == '\'' || c == '-')
    };
    let is_word = |word: &str| word.chars().any(|c| c.is_alphanumeric() || "{}`".contains(c));
    !is_sql(text)
        && words.windows(2).any(|pair| {
            letters(pair[0]) && is_word(pair[1]) || is_word(pair[0]) && letters(pair[1])
        })
}

fn is_sql(text: &str) -> bool {
    const VERBS: &[&str] =
        &["alter", "create", "delete", "insert", "select", "show", "update", "with"];
    let verb = text.split_whitespace().next().unwrap_or_default().to_lowercase();
    // A table of ours, such as `tandem.session`. A sentence that ends with the program's name has no word after the
    // dot.
    let has_table = text.split("tandem.").skip(1).any(|rest| rest.starts_with(char::is_alphabetic));
    let has_function =
        ["pg_", "current_setting", "server_encoding"].iter().any(|it| text.contains(it));
    VERBS.contains(&verb.as_str()) && (has_table || has_function)
}

/// Returns `true` for one word as labels have it, such as `Yes`.
pub(super) fn is_label(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(char::is_uppercase) && chars.all(char::is_lowercase) && text.len() > 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_literal_is_read_as_the_compiler_does() {
        assert_eq!(value("\"a \\\n    b\\n\\\"c\\\" \\u{2026}\"").unwrap(), "a b\n\"c\" …");
        assert_eq!(value("r#\"a \\n\"b\"\"#").unwrap(), "a \\n\"b\"");
        assert_eq!(value("b\"a b\""), None);
        assert_eq!(value("'a'"), None);
        assert_eq!(value("12"), None);
    }

    #[test]
    fn two_words_are_a_sentence() {
        assert!(is_sentence("not found"));
        assert!(is_sentence("{path} denied"));
        assert!(is_sentence(", and {more}"));
        assert!(!is_sentence("{a} {b}"));
        assert!(!is_sentence("not-found"));
        assert!(!is_sentence("select id from tandem.session"));
        assert!(is_sentence("update tandem. The log says more"));
    }
}
