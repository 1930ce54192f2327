//! Checks of names that come from a clone, a repository or a database, before they are used.

/// Maximum length of the name of a branch, in bytes.
const MAX_BRANCH_BYTES: usize = 200;

/// Returns `true` if a text is the id of a session, a UUID.
pub(crate) fn is_session_id(id: &str) -> bool {
    uuid::Uuid::try_parse(id).is_ok_and(|uuid| uuid.as_hyphenated().to_string() == id)
}

/// Returns `true` if a text is the full id of an object, by SHA-1 or SHA-256.
pub(crate) fn is_object_id(id: &str) -> bool {
    matches!(id.len(), 40 | 64) && id.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// Returns `true` if a text can be the name of a branch or a tag: git accepts it, and it has no special meaning in a
/// file of git, on a command line or in a path.
pub(crate) fn is_branch(name: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty()
            && !part.starts_with(['.', '-'])
            && !part.ends_with('.')
            && part.strip_suffix(".lock").is_none()
            && !part.contains("..")
    };
    let is_forbidden = |c: char| {
        c.is_control()
            || c.is_whitespace()
            || matches!(c, '~' | '^' | ':' | '?' | '*' | '[' | '\\' | '"')
    };
    name.len() <= MAX_BRANCH_BYTES
        && name != "@"
        && !name.contains("@{")
        && !name.contains(is_forbidden)
        && name.split('/').all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_branch_is_one_path_of_plain_names() {
        for name in ["main", "feature/x-1", "ümlaut", "v1.2", "a@b"] {
            assert!(is_branch(name), "{name}");
        }
        let long = "x".repeat(201);
        for name in [
            "", "/", "a/", "/a", "a//b", "../a", "a/../b", ".git", "a/.b", "-x", "a b", "a\nb",
            "a\0", "a:b", "a^", "a~1", "@", "a@{1}", "a.lock", "a.lock/b", "a.", "a\"b", "a\\b",
            "*", &long,
        ] {
            assert!(!is_branch(name), "{name:?}");
        }
    }

    #[test]
    fn an_id_of_a_session_is_no_path() {
        assert!(is_session_id("0199d4b6-7c8e-7d3a-8f00-0123456789ab"));
        for id in [
            "",
            "..",
            "a/b",
            "{0199d4b6-7c8e-7d3a-8f00-0123456789ab}",
            "0199D4B6-7C8E-7D3A-8F00-0123456789AB",
        ] {
            assert!(!is_session_id(id), "{id}");
        }
    }
}
