//! Names of servers in the settings.

use std::fmt;
use std::str::FromStr;

/// Maximum length of a name in bytes.
const MAX_LENGTH: usize = 31;

/// Name of a server in the settings: lowercase letters, digits, `-` and `_`, at most 31 of them, a letter first. Such a
/// name is copied as cheaply as the names of built-in providers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerName {
    /// The name, and zeros after its end.
    bytes: [u8; MAX_LENGTH],
}

impl ServerName {
    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        let end = self.bytes.iter().position(|byte| *byte == 0).unwrap_or(MAX_LENGTH);
        // All bytes of a name are ASCII.
        str::from_utf8(&self.bytes[..end]).unwrap_or_default()
    }
}

impl FromStr for ServerName {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let is_plain =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
        let begins = name.starts_with(|c: char| c.is_ascii_lowercase());
        if !begins || name.len() > MAX_LENGTH || !name.bytes().all(is_plain) {
            return Err(format!(
                "must be a name of lowercase letters, digits, `-` and `_`, at most {MAX_LENGTH}, that begins with a letter"
            ));
        }
        let mut bytes = [0; MAX_LENGTH];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        Ok(Self { bytes })
    }
}

impl fmt::Debug for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::ServerName;

    #[track_caller]
    fn check(name: &str, is_valid: bool) {
        let parsed = name.parse::<ServerName>().ok();
        assert_eq!(parsed.as_ref().map(ServerName::as_str), is_valid.then_some(name));
    }

    #[test]
    fn a_name_is_short_plain_text() {
        check("work", true);
        check("gpu-box_2", true);
        check(&"a".repeat(31), true);
        for wrong in ["", "Work", "2gpu", "a b", "a:b", "-a", "ä", &"a".repeat(32)] {
            check(wrong, false);
        }
    }
}
