//! Configuration of a git repository, and the settings with which git only reads.

use std::sync::LazyLock;

use serde::Deserialize;

use super::table;

static GIT_SETTINGS: LazyLock<GitSettings> =
    LazyLock::new(|| table(include_str!("git_config.toml")));

/// Data of `git_config.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct GitSettings {
    harmless: Vec<Harmless>,
    #[serde(rename = "override")]
    overrides: Vec<Override>,
}

/// Settings with which git only reads.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Harmless {
    keys: Vec<String>,
    #[serde(default)]
    values: Option<Vec<String>>,
    #[serde(default)]
    path: Option<PathRule>,
    #[serde(rename = "reason")]
    _reason: String,
}

/// Condition on the path that a setting has as its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PathRule {
    /// The path is in the workspace.
    Inside,
    /// The path is the work tree of the repository.
    Worktree,
}

/// A setting that the environment gives to a call of git that only reads.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Override {
    key: String,
    value: String,
    #[serde(rename = "reason")]
    _reason: String,
}

/// One setting of a configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Name as `section.subsection.key`, with section and key in lower case.
    pub key: String,
    /// Value without quotes; empty if there is none.
    pub value: String,
}

impl Setting {
    /// Returns the conditions under which git only reads with this setting: one of them must hold. `None` is a
    /// condition that always holds.
    pub fn harmless_if(&self) -> impl Iterator<Item = Option<PathRule>> {
        let rows = GIT_SETTINGS.harmless.iter().filter(|row| {
            let values = row.values.as_ref();
            row.keys.iter().any(|pattern| self.matches(pattern))
                && values.is_none_or(|values| values.contains(&self.value.to_ascii_lowercase()))
        });
        rows.map(|row| row.path)
    }

    fn matches(&self, pattern: &str) -> bool {
        if let Some(section) = pattern.strip_suffix("**") {
            return self.key.starts_with(section);
        }
        match pattern.split_once(".*.") {
            None => self.key == pattern,
            Some((section, name)) => {
                let inner = self.key.strip_prefix(section).and_then(|key| key.strip_prefix('.'));
                // A key without a subsection is another setting.
                inner.is_some_and(|key| key.rsplit_once('.').is_some_and(|(_, end)| end == name))
            }
        }
    }
}

/// Returns the settings of a configuration file; `None` if git may read the file in another way.
pub fn settings(text: &str) -> Option<Vec<Setting>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n");
    let odd = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    // A continued line is rare, and the only way in which a value can hide a setting.
    if text.contains(odd) || text.lines().any(|line| line.ends_with('\\')) {
        return None;
    }
    let (mut settings, mut section) = (Vec::new(), None);
    for line in text.lines() {
        let mut rest = line.trim_start_matches([' ', '\t']);
        while let Some(header) = rest.strip_prefix('[') {
            let (name, after) = section_name(header)?;
            section = Some(name);
            rest = after.trim_start_matches([' ', '\t']);
        }
        if rest.is_empty() || rest.starts_with(['#', ';']) {
            continue;
        }
        let is_key = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let end = rest.find(|c| !is_key(c)).unwrap_or(rest.len());
        let (key, after) = rest.split_at(end);
        let after = after.trim_start_matches([' ', '\t']);
        let value = match after.strip_prefix('=') {
            Some(written) => value(written)?,
            None if after.is_empty() => String::new(),
            None => return None,
        };
        if !key.starts_with(|c: char| c.is_ascii_alphabetic()) {
            return None;
        }
        let key = format!("{}.{}", section.as_ref()?, key.to_ascii_lowercase());
        settings.push(Setting { key, value });
    }
    Some(settings)
}

/// Returns the name in `name]` or `name "subsection"]`, and the text behind it.
fn section_name(header: &str) -> Option<(String, &str)> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    let end = header.find(|c| !is_name(c))?;
    let (name, rest) = header.split_at(end);
    let mut name = name.to_ascii_lowercase();
    if let Some(after) = rest.strip_prefix(']') {
        return Some((name, after));
    }
    let quoted = rest.trim_start_matches([' ', '\t']).strip_prefix('"')?;
    name.push('.');
    let mut chars = quoted.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((name, quoted[at + 1..].strip_prefix(']')?)),
            '\\' => name.push(chars.next()?.1),
            c => name.push(c),
        }
    }
    None
}

/// Returns a value as git reads it, from the text after `=`; `None` if the text is malformed.
fn value(written: &str) -> Option<String> {
    let (mut value, mut quoted, mut kept) = (String::new(), false, 0);
    let mut chars = written.trim_start_matches([' ', '\t']).chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => quoted = !quoted,
            '#' | ';' if !quoted => break,
            '\\' => value.push(match chars.next()? {
                't' => '\t',
                'b' => '\u{8}',
                'n' => '\n',
                c @ ('\\' | '"') => c,
                _ => return None,
            }),
            ' ' | '\t' if !quoted => {
                value.push(c);
                continue;
            }
            c => value.push(c),
        }
        // Unquoted blanks at the end do not belong to the value.
        kept = value.len();
    }
    value.truncate(kept);
    (!quoted).then_some(value)
}

/// Returns the environment variables with which git ignores every setting of a repository that would run a program
/// while git reads. `known`: number of settings that the environment gives git already.
pub(super) fn overrides(known: usize) -> Vec<(String, String)> {
    let given = GIT_SETTINGS.overrides.iter().zip(known..).flat_map(|(row, at)| {
        [
            (format!("GIT_CONFIG_KEY_{at}"), row.key.clone()),
            (format!("GIT_CONFIG_VALUE_{at}"), row.value.clone()),
        ]
    });
    let count = (known + GIT_SETTINGS.overrides.len()).to_string();
    [("GIT_CONFIG_COUNT".to_owned(), count)].into_iter().chain(given).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_in_small_letters() {
        for key in GIT_SETTINGS.harmless.iter().flat_map(|row| &row.keys) {
            assert!(!key.contains(|c: char| c.is_ascii_uppercase()), "{key}");
        }
    }

    /// Checks the settings that are read from the text of a file.
    fn check(text: &str, expected: Option<&[(&str, &str)]>) {
        let expected = expected.map(|expected| {
            let setting = |(key, value): &(&str, &str)| Setting {
                key: (*key).to_owned(),
                value: (*value).to_owned(),
            };
            expected.iter().map(setting).collect::<Vec<_>>()
        });
        assert_eq!(settings(text), expected, "{text:?}");
    }

    #[test]
    fn a_file_is_read_as_git_reads_it() {
        check("[core]\n\tbare = false\n", Some(&[("core.bare", "false")]));
        check("[CORE] Bare\r\n", Some(&[("core.bare", "")]));
        check("[a \"B.c\\\"\"] x=1 # y\n", Some(&[("a.B.c\".x", "1")]));
        check("[a.B] x = \" 1 \" \n; y = 2", Some(&[("a.b.x", " 1 ")]));
        check("[a][b] x = a b;c\n", Some(&[("b.x", "a b")]));
        check("\u{feff}[a]x=\"#\"\\n", Some(&[("a.x", "#\n")]));
    }

    #[test]
    fn a_file_that_may_be_read_in_another_way_is_not_read() {
        check("[a] x = 1 \\\ny = 2\n", None);
        check("x = 1\n", None);
        check("[a] x y\n", None);
        check("[a\n] x = 1\n", None);
        check("[a] x = \"1\n", None);
        check("[a] x = \\q\n", None);
        check("[a] x = 1\ry = 2\n", None);
        check("[a] = 2\n", None);
    }

    #[test]
    fn a_pattern_stands_for_whole_names() {
        let check = |key: &str, pattern: &str, expected: bool| {
            let setting = Setting { key: key.to_owned(), value: String::new() };
            assert_eq!(setting.matches(pattern), expected, "{key} {pattern}");
        };
        check("core.bare", "core.bare", true);
        check("core.x.bare", "core.bare", false);
        check("diff.a.b.binary", "diff.*.binary", true);
        check("diff.binary", "diff.*.binary", false);
        check("diff.a.command", "diff.*.binary", false);
        check("branch.a.b", "branch.**", true);
        check("branches.a.b", "branch.**", false);
    }
}
