//! The addresses of the web in the arguments of a call.

use std::sync::LazyLock;

use regex::Regex;
use reqwest::Url;

/// Maximum length of an address, in bytes.
const MAX_ADDRESS_BYTES: usize = 4096;

static ADDRESS_PATTERN: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"(?i)\bhttps?://[^\s<>"'`|\\^{}]+"#).expect("the pattern is fixed")
});

/// Returns the addresses in a text, each once, in their order. The error names an address that cannot be read.
pub(super) fn in_text(text: &str) -> Result<Vec<Url>, String> {
    let mut urls = Vec::new();
    for found in ADDRESS_PATTERN.find_iter(text) {
        let url = read(trimmed(found.as_str()))?;
        if !urls.contains(&url) {
            urls.push(url);
        }
    }
    Ok(urls)
}

/// Parses an address that a request may be sent to. The error says what is wrong with the address.
pub(super) fn read(text: &str) -> Result<Url, String> {
    if text.len() > MAX_ADDRESS_BYTES {
        return Err(format!("An address is longer than {MAX_ADDRESS_BYTES} bytes."));
    }
    let mut url = Url::parse(text).map_err(|err| format!("`{text}` is not a URL: {err}."))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("`{text}` is not an address of the web: begin it with https://."));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("An address with a user's name or password in it is not read.".to_owned());
    }
    url.set_fragment(None);
    Ok(raw(&url).unwrap_or(url))
}

/// Returns the address of the raw file, if the address is of a GitHub page that shows a file.
fn raw(url: &Url) -> Option<Url> {
    if url.host_str() != Some("github.com") {
        return None;
    }
    let mut parts = url.path().trim_start_matches('/').splitn(4, '/');
    let (owner, repository, view) = (parts.next()?, parts.next()?, parts.next()?);
    let rest = parts.next().filter(|rest| rest.contains('/') && view == "blob")?;
    Url::parse(&format!("https://raw.githubusercontent.com/{owner}/{repository}/{rest}")).ok()
}

/// Removes punctuation at the end of an address that belongs to the sentence around it.
fn trimmed(mut address: &str) -> &str {
    loop {
        let kept = address.trim_end_matches(['.', ',', ';', ':', '!', '?', '*', '_']);
        let kept = unpaired(kept, '(', ')').or_else(|| unpaired(kept, '[', ']')).unwrap_or(kept);
        if kept.len() == address.len() {
            return address;
        }
        address = kept;
    }
}

/// Removes a closing bracket at the end of an address, if its opening bracket is not in the address.
fn unpaired(address: &str, open: char, close: char) -> Option<&str> {
    let inner = address.strip_suffix(close)?;
    (address.matches(open).count() < address.matches(close).count()).then_some(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let found = in_text(text).unwrap();
        assert_eq!(found.iter().map(Url::as_str).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn addresses_are_found_in_a_sentence() {
        check("nothing", &[]);
        check(
            "Read https://a.test/x, then HTTP://B.test.",
            &["https://a.test/x", "http://b.test/"],
        );
        check(
            "[docs](https://a.test/x?y=1&z) or <https://b.test>",
            &["https://a.test/x?y=1&z", "https://b.test/"],
        );
        check("(see https://a.test/Rust_(language))!", &["https://a.test/Rust_(language)"]);
        check("\"https://a.test/ü\"", &["https://a.test/%C3%BC"]);
    }

    #[test]
    fn each_is_there_once_without_a_place_on_the_page() {
        check("https://a.test/x#one https://a.test/x#two", &["https://a.test/x"]);
    }

    #[test]
    fn a_file_on_github_is_read_itself() {
        check(
            "https://github.com/o/r/blob/main/src/lib.rs#L3",
            &["https://raw.githubusercontent.com/o/r/main/src/lib.rs"],
        );
        for other in ["https://github.com/o/r/blob/main", "https://github.com/o/r/tree/main/src"] {
            check(other, &[other]);
        }
    }

    #[test]
    fn what_is_no_address_says_so() {
        let check = |text, why: &str| assert!(in_text(text).unwrap_err().contains(why));
        check("http://[::1", "is not a URL");
        check("https://user:secret@a.test/", "password");
        check(&format!("https://a.test/{}", "x".repeat(MAX_ADDRESS_BYTES)), "longer");
        assert!(read("file:///etc/passwd").unwrap_err().contains("https"));
    }
}
