//! Finds and removes secrets in texts of servers and other programs.

/// Minimum length of a secret in bytes. A shorter value is not treated as a secret, because it would be found in any
/// text.
const MIN_SECRET_BYTES: usize = 8;

/// Minimum length in bytes of a secret that is also found within words. A shorter secret is found only as a separate
/// word.
const MIN_INNER_SECRET_BYTES: usize = 16;

/// Replaces secrets in a text with `[key]`.
pub fn redact(text: &mut String, secrets: &[&str]) {
    for secret in secrets {
        let mut from = 0;
        while let Some(at) = find(&text[from..], secret) {
            let at = from + at;
            text.replace_range(at..at + secret.len(), "[key]");
            from = at + "[key]".len();
        }
    }
}

/// Returns `true` if a text contains a secret.
pub fn has_secret(text: &str, secret: &str) -> bool {
    find(text, secret).is_some()
}

fn find(text: &str, secret: &str) -> Option<usize> {
    if secret.len() < MIN_SECRET_BYTES {
        return None;
    }
    let of_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let alone = |at: usize| {
        let (before, after) = (&text[..at], &text[at + secret.len()..]);
        !of_word(before.chars().next_back()) && !of_word(after.chars().next())
    };
    let mut found = text.match_indices(secret).map(|(at, _)| at);
    found.find(|at| secret.len() >= MIN_INNER_SECRET_BYTES || alone(*at))
}

#[cfg(test)]
mod tests {
    use super::redact;

    #[track_caller]
    fn check(secret: &str, text: &str, expected: &str) {
        let mut said = text.to_owned();
        redact(&mut said, &[secret]);
        assert_eq!(said, expected);
    }

    #[test]
    fn a_secret_is_taken_out_wherever_it_is() {
        check("sk-12345", "key sk-12345 and sk-12345", "key [key] and [key]");
        check("sk-12345", "?key=sk-12345&x \"sk-12345\"", "?key=[key]&x \"[key]\"");
        check("sk-1234567890abcdef", "xsk-1234567890abcdefx", "x[key]x");
    }

    #[test]
    fn a_short_value_is_no_secret() {
        check("k", "thinking", "thinking");
        check("", "thinking", "thinking");
        check("abc1234", "abc1234", "abc1234");
    }

    #[test]
    fn a_word_is_not_cut_up() {
        check("thinking", "rethinkings thinking", "rethinkings [key]");
        check("password", "passwords, my_password: password", "passwords, my_password: [key]");
        check("éééé1234", "xéééé1234 éééé1234", "xéééé1234 [key]");
    }
}
