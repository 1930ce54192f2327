//! Scripts of `sed`: those that only print, those that only edit their input, and those that may do anything.

use super::Word;

/// A call of `sed` with known options only.
pub struct Sed<'a> {
    /// `true` if the files are changed.
    pub in_place: bool,
    scripts: Vec<&'a str>,
    /// Files that are read.
    pub files: Vec<&'a Word>,
}

impl<'a> Sed<'a> {
    /// Reads the arguments of `sed`; `None` if not all of them are known.
    pub fn read(args: &'a [Word]) -> Option<Self> {
        let mut sed = Self { in_place: false, scripts: Vec::new(), files: Vec::new() };
        let mut args = args.iter();
        while let Some(word) = args.next() {
            let Some(text) = word.literal() else {
                if word.may_be_option() {
                    return None;
                }
                sed.files.push(word);
                continue;
            };
            match text {
                "--quiet" | "--silent" | "--regexp-extended" => {}
                "--in-place" => sed.in_place = true,
                _ if text.starts_with("--in-place=") => sed.in_place = true,
                // The text after `-i` is the suffix of the backup.
                _ if text.starts_with("-i") => sed.in_place = true,
                _ if text.starts_with('-') && text.len() > 1 => {
                    // Only an `e` at the end is taken: a text after `e` would be the script itself.
                    let letters = text.strip_suffix('e').unwrap_or(text);
                    let script_follows = letters.len() < text.len();
                    let letters = letters.trim_start_matches('-');
                    if letters.contains(|c| !"nErsuz".contains(c)) {
                        return None;
                    }
                    if script_follows {
                        sed.scripts.push(args.next()?.literal()?);
                    }
                }
                _ => sed.files.push(word),
            }
        }
        if sed.scripts.is_empty() {
            if sed.files.is_empty() {
                return None;
            }
            sed.scripts.push(sed.files.remove(0).literal()?);
        }
        Some(sed)
    }

    /// Returns whether the call only prints.
    pub fn prints(&self) -> bool {
        !self.in_place && self.scripts.iter().all(|script| is_made_of(script, "pqd=", false))
    }

    /// Returns whether the call only edits its input: it runs no command and writes no other file.
    pub fn edits(&self) -> bool {
        self.scripts.iter().all(|script| is_made_of(script, "pqd=nNDPgGhHx", true))
    }
}

/// Returns whether a script consists of these commands, and, if `substitutions`, of substitutions.
fn is_made_of(script: &str, commands: &str, substitutions: bool) -> bool {
    let mut rest = script;
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\n', ';']);
        if rest.is_empty() {
            return true;
        }
        rest = address(rest);
        if let Some(to) = rest.strip_prefix(',') {
            rest = address(to);
        }
        rest = rest.trim_start_matches([' ', '!']);
        let Some(command) = rest.chars().next() else { return false };
        rest = &rest[command.len_utf8()..];
        if command == 's' && substitutions {
            let Some(after) = substitution(rest) else { return false };
            rest = after;
        } else if !commands.contains(command) {
            return false;
        }
        if !(rest.is_empty() || rest.starts_with([' ', ';', '\n'])) {
            return false;
        }
    }
}

/// Returns the text after an address (`3`, `$`, `+2`, `/regex/`), if the text begins with an address.
fn address(text: &str) -> &str {
    match text.strip_prefix('/') {
        Some(regex) => delimited(regex, '/').unwrap_or(text),
        None => text.trim_start_matches(|c: char| c.is_ascii_digit() || "$+~".contains(c)),
    }
}

/// Returns the text after the delimited parts and the flags of the command `s`.
fn substitution(text: &str) -> Option<&str> {
    let delimiter = text.chars().next().filter(char::is_ascii_punctuation)?;
    if delimiter == '\\' {
        return None;
    }
    let rest = delimited(&text[1..], delimiter)?;
    let rest = delimited(rest, delimiter)?;
    Some(rest.trim_start_matches(|c: char| c.is_ascii_digit() || "gpiI".contains(c)))
}

/// Returns the text after the next `delimiter`; `None` if versions of `sed` differ on which `delimiter` is the next.
fn delimited(text: &str, delimiter: char) -> Option<&str> {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        if c == delimiter && !escaped {
            let part = &text[..at];
            let open = part.rfind('[').is_some_and(|open| !part[open..].contains(']'));
            return (!open).then(|| &text[at + c.len_utf8()..]);
        }
        escaped = c == '\\' && !escaped;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::is_made_of;

    fn check(script: &str, prints: bool, edits: bool) {
        assert_eq!(is_made_of(script, "pqd=", false), prints, "{script}");
        assert_eq!(is_made_of(script, "pqd=nNDPgGhHx", true), edits, "{script}");
    }

    #[test]
    fn printing_is_seen() {
        check("1,20p", true, true);
        check("$p", true, true);
        check("/fn main/,/^}/p", true, true);
        check("1p; 5p", true, true);
        check("10q", true, true);
        check("/a;w out/p", true, true);
        check("/a\\/w/p", true, true);
    }

    #[test]
    fn editing_is_seen() {
        check("s/a/b/", false, true);
        check("s|a|b|g; s/c/d/2p", false, true);
        check("/x/s/a;b/c/", false, true);
    }

    #[test]
    fn what_writes_or_runs_is_neither() {
        check("1e rm x", false, false);
        check("e", false, false);
        check("w out", false, false);
        check("1w out", false, false);
        check("s/a/b/w out", false, false);
        check("s/a/b/e", false, false);
        check("s/a/b/ge", false, false);
        check("/x/{p;e rm\n}", false, false);
        check("1p;w out", false, false);
        check("1p\nw out", false, false);
        check("r /etc/passwd", false, false);
        check("s/[/]/e;p", false, false);
        check("s/a", false, false);
    }
}
