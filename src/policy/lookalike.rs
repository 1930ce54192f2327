//! Host names in a command line that may look like other hosts, because they mix scripts or are not ASCII.

use url::Url;

/// Returns a sentence for each such host, with the name that is looked up in its place.
pub(super) fn remarks(line: &str) -> Vec<String> {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-');
    let mut found = Vec::new();
    let mut at = 0;
    for word in line.split(|c| !is_part(c)) {
        // `split` leaves one character out between two words.
        let before = &line[..at];
        at += word.len() + line[at + word.len()..].chars().next().map_or(0, char::len_utf8);
        let is_named = before.ends_with("://") || before.ends_with('@');
        let is_host = word.contains('.') && !word.is_ascii();
        if is_host && (is_named || word.split('.').any(mixes_scripts)) {
            found.extend(ascii(word).map(|ascii| format!("`{word}` is the host `{ascii}`")));
        }
    }
    found.sort();
    found.dedup();
    found
}

/// Returns whether a text has letters of the Latin script and of another script.
fn mixes_scripts(text: &str) -> bool {
    // Last character of the Unicode blocks in which all letters are Latin.
    const LAST_LATIN: char = '\u{24f}';
    let is_other = |c: char| c.is_alphabetic() && c > LAST_LATIN;
    text.contains(|c: char| c.is_ascii_alphabetic()) && text.contains(is_other)
}

/// Returns the name of a host as it is looked up, if this differs from the name as written.
fn ascii(host: &str) -> Option<String> {
    let url = Url::parse(&format!("http://{host}/")).ok()?;
    url.host_str().filter(|ascii| *ascii != host).map(ToOwned::to_owned)
}

#[cfg(test)]
mod tests {
    use super::remarks;

    #[test]
    fn a_host_that_may_look_like_another_is_named_as_it_is_looked_up() {
        for (line, expected) in [
            ("curl https://github.com/a.b", None),
            (
                "curl https://g\u{456}thub.com/x",
                Some("`g\u{456}thub.com` is the host `xn--gthub-n2e.com`"),
            ),
            ("ssh me@g\u{456}thub.com", Some("`g\u{456}thub.com` is the host `xn--gthub-n2e.com`")),
            ("nc g\u{456}thub.com 80", Some("`g\u{456}thub.com` is the host `xn--gthub-n2e.com`")),
            (
                "curl 'http://b\u{fc}cher.example'",
                Some("`b\u{fc}cher.example` is the host `xn--bcher-kva.example`"),
            ),
            ("cat gr\u{f6}\u{df}e.txt \u{444}\u{430}\u{439}\u{43b}.txt \u{65e5}\u{672c}.md", None),
            ("echo \u{456}", None),
        ] {
            let expected: Vec<_> = expected.into_iter().collect();
            assert_eq!(remarks(line), expected, "{line}");
        }
    }
}
