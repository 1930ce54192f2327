//! Options among the arguments of a program.

use super::word::Word;

/// Returns whether an argument gives an option, or may give it: `-fr` may give `-r`, and `--out=x` may give `--output`;
/// only `-delete` itself gives `-delete`.
pub fn gives(arg: &str, option: &str) -> bool {
    if let Some(long) = option.strip_prefix("--") {
        let name = arg.strip_prefix("--").and_then(|arg| arg.split('=').next());
        return name.is_some_and(|name| !name.is_empty() && long.starts_with(name));
    }
    let is_letter = option.len() == 2;
    arg == option
        || (is_letter
            && !arg.starts_with("--")
            && arg.strip_prefix('-').is_some_and(|letters| letters.contains(&option[1..])))
}

/// Returns whether an argument gives one of these options, or may give it.
pub fn is_given(args: &[Word], options: &[String]) -> bool {
    args.iter().any(|word| options.iter().any(|option| gives(&word.text, option)))
}

/// Returns the value within an argument: `x` of `--file=x` and `-fx`, and the whole of an argument that is no option.
/// `None` for an option without a value.
pub fn value(arg: &str) -> Option<&str> {
    if arg.starts_with("--") {
        return arg.split_once('=').map(|(_, value)| value);
    }
    match arg.strip_prefix('-') {
        Some(letters) => letters.char_indices().nth(1).map(|(at, _)| &letters[at..]),
        None => Some(arg),
    }
}

/// Returns the names that may be glued to a one-letter option: `flnk`, `lnk`, `nk` and `k` of `-vflnk`. `None` for an
/// argument with too many letters.
pub fn glued(arg: &str) -> Option<Vec<&str>> {
    /// Maximum number of letters, in bytes.
    const MAX_LETTER_BYTES: usize = 256;
    let letters = arg.strip_prefix('-').filter(|letters| !letters.starts_with('-'));
    let letters = letters.unwrap_or_default();
    let ends = letters.char_indices().skip(1).map(|(at, _)| &letters[at..]);
    (letters.len() <= MAX_LETTER_BYTES).then(|| ends.collect())
}

#[cfg(test)]
mod tests {
    use super::gives;

    fn check(arg: &str, option: &str, expected: bool) {
        assert_eq!(gives(arg, option), expected, "{arg} {option}");
    }

    #[test]
    fn an_option_is_seen_however_it_is_given() {
        check("-f", "-f", true);
        check("-rf", "-f", true);
        check("--force", "-f", false);
        check("--force", "--force", true);
        check("--forc", "--force", true);
        check("--output=x", "--output", true);
        check("--o=x", "--output", true);
        check("--output-indicator-new=x", "--output", false);
        check("--", "--output", false);
        check("-delete", "-delete", true);
        check("-d", "-delete", false);
        check("f", "-f", false);
    }
}
