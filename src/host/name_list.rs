//! Lists of file names, stored as data: each name with the reason why it is on the list.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

/// A list of file names. A row names a file by its last names, such as `.config/gh/hosts.yml`. With `/` at its end,
/// such as `.git/`, it names a directory and all files below it. `*` stands for any part of one name. The names may be
/// below any directory.
#[derive(Debug, Default)]
pub struct NameList {
    /// Rows whose last name has no `*`, by that name.
    by_name: HashMap<String, Vec<NameRow>>,
    /// Rows whose last name has a `*`.
    patterns: Vec<NameRow>,
}

#[derive(Debug)]
struct NameRow {
    /// Names before the last name, the innermost first.
    above: Vec<NamePattern>,
    last: NamePattern,
    is_directory: bool,
    why: String,
}

/// Name with `*` for any text, stored as the parts between, so that a search of many files splits no pattern again.
#[derive(Debug)]
struct NamePattern(Vec<String>);

impl NameList {
    /// Returns a list of rows, each a name with its reason. Fails if a row is not valid.
    pub fn new(rows: BTreeMap<String, String>) -> Result<Self, String> {
        let mut list = Self::default();
        for (name, why) in rows {
            let row = NameRow::new(&name, why).ok_or_else(|| format!("{name:?} is not a row"))?;
            match &row.last.0[..] {
                [plain] => list.by_name.entry(plain.clone()).or_default().push(row),
                _ => list.patterns.push(row),
            }
        }
        Ok(list)
    }

    /// Returns the reason why a path is on the list: because of its own name, or because of a directory above it.
    pub fn why(&self, path: &Path) -> Option<&str> {
        let own = self.rows(path).next();
        let mut above = path.ancestors().skip(1);
        let row = own.or_else(|| above.find_map(|dir| self.directory(dir)));
        row.map(|row| row.why.as_str())
    }

    /// Returns whether the list names a file, or a directory with all files below it, by the path's own names. Rows
    /// that name only a directory above do not count.
    pub fn names(&self, path: &Path, is_directory: bool) -> bool {
        if is_directory { self.directory(path).is_some() } else { self.rows(path).next().is_some() }
    }

    /// Returns the existing files and directories that the rows name when they are read as paths from a directory.
    pub(super) fn existing_in(&self, directory: &Path) -> Vec<PathBuf> {
        let rows = self.by_name.values().flatten().chain(&self.patterns);
        let paths = rows.map(|row| row.above.iter().rev().chain([&row.last]).collect());
        let paths: Vec<_> = paths.collect();
        let mut existing = Vec::new();
        collect(directory, &paths, &mut existing);
        existing.sort();
        existing.dedup();
        existing
    }

    fn directory(&self, path: &Path) -> Option<&NameRow> {
        self.rows(path).find(|row| row.is_directory)
    }

    /// Returns the rows that name the path itself.
    fn rows(&self, path: &Path) -> impl Iterator<Item = &NameRow> {
        let name = path.file_name().map(|name| folded(&name.to_string_lossy())).unwrap_or_default();
        let plain = self.by_name.get(&name).into_iter().flatten();
        let patterns = self.patterns.iter().filter(move |row| row.last.matches(&name));
        plain.chain(patterns).filter(|row| row.is_below(path.parent()))
    }
}

impl NameRow {
    fn new(name: &str, why: String) -> Option<Self> {
        let is_directory = name.ends_with('/');
        let name = name.strip_suffix('/').unwrap_or(name).to_lowercase();
        let filled = !why.is_empty() && !name.split('/').any(str::is_empty);
        let mut names = name.split('/').rev().map(NamePattern::new);
        let last = names.next()?;
        let above = names.collect();
        filled.then_some(Self { above, last, is_directory, why })
    }

    fn is_below(&self, directory: Option<&Path>) -> bool {
        let mut names = directory.into_iter().flat_map(Path::iter).rev();
        self.above.iter().all(|wanted| {
            names.next().is_some_and(|name| wanted.matches(&folded(&name.to_string_lossy())))
        })
    }
}

impl NamePattern {
    fn new(text: &str) -> Self {
        Self(text.split('*').map(str::to_owned).collect())
    }

    fn matches(&self, name: &str) -> bool {
        let [start, middle @ .., end] = &self.0[..] else { return self.0[0] == name };
        let Some(mut left) = name.strip_prefix(&**start) else { return false };
        for part in middle {
            let Some(at) = left.find(&**part) else { return false };
            left = &left[at + part.len()..];
        }
        left.ends_with(&**end)
    }
}

/// Collects the existing files and directories at the ends of paths that begin in a directory. Each path is a list of
/// patterns of names.
fn collect(directory: &Path, paths: &[Vec<&NamePattern>], existing: &mut Vec<PathBuf>) {
    // `/proc` is left out: it has a directory for each process, and these come and go.
    if directory == Path::new("/proc") {
        return;
    }
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = folded(&entry.file_name().to_string_lossy());
        let mut below = Vec::new();
        for path in paths {
            match &path[..] {
                [pattern] if pattern.matches(&name) => existing.push(entry.path()),
                [pattern, rest @ ..] if pattern.matches(&name) => below.push(rest.to_vec()),
                _ => {}
            }
        }
        if !below.is_empty() {
            collect(&entry.path(), &below, existing);
        }
    }
}

/// Returns a file's name in a normal form, which is the same for every spelling that some file system accepts for the
/// file.
fn folded(name: &str) -> String {
    let name = name.split(':').next().unwrap_or(name).trim_end_matches(['.', ' ']);
    if name.eq_ignore_ascii_case("git~1") {
        return ".git".to_owned();
    }
    let ignored = |c: &char| matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}');
    name.chars().filter(|c| !ignored(c)).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(rows: &[&str]) -> NameList {
        let rows = rows.iter().map(|name| ((*name).to_owned(), "a reason".to_owned()));
        NameList::new(rows.collect()).unwrap()
    }

    #[track_caller]
    fn check(row: &str, path: &str, expected: bool) {
        assert_eq!(list(&[row]).why(Path::new(path)).is_some(), expected, "{row} {path}");
    }

    #[test]
    fn a_file_is_named_by_its_last_names() {
        check(".envrc", ".envrc", true);
        check(".envrc", "a/b/.envrc", true);
        check(".envrc", "/.envrc", true);
        check(".envrc", ".envrc/a", false);
        check(".config/gh/hosts.yml", "home/.config/gh/hosts.yml", true);
        check(".config/gh/hosts.yml", "gh/hosts.yml", false);
        check(".envrc", "", false);
    }

    #[test]
    fn a_directory_stands_for_all_below_it() {
        check(".git/", ".git", true);
        check(".git/", "a/.git/hooks/pre-commit", true);
        check(".github/workflows/", ".github/workflows/ci.yml", true);
        check(".github/workflows/", ".github/dependabot.yml", false);
        check(".git/", "a.git/config", false);
    }

    #[test]
    fn a_star_stands_for_any_part_of_a_name() {
        check(".env*", ".env.local", true);
        check("*.code-workspace", "a.code-workspace", true);
        check("*.code-workspace", "a.code-workspace.md", false);
        check("client_*.json", "client_secret.json", true);
        check("a*b*c", "a1b2c", true);
        check("a*b*c", "abc", true);
        check("a*b*c", "ac", false);
        check("ab*b", "ab", false);
        check(".venv*/bin/*", "x/.venv-3/bin/python", true);
    }

    #[test]
    fn other_spellings_of_a_name_do_not_hide_it() {
        for path in [
            ".GIT/config",
            ".git /config",
            ".git./config",
            "GIT~1/config",
            ".g\u{200c}it/config",
            ".git::$INDEX_ALLOCATION/config",
        ] {
            check(".git/", path, true);
        }
        check("Jenkinsfile", "JENKINSFILE", true);
    }

    #[test]
    fn of_what_a_walk_meets_only_its_own_name_counts() {
        let list = list(&[".ssh/", ".env"]);
        assert!(list.names(Path::new("/home/.ssh"), true));
        assert!(list.names(Path::new("/a/.env"), false));
        // A Python environment may have the name `.env`.
        assert!(!list.names(Path::new("/a/.env"), true));
        assert!(!list.names(Path::new("/home/.ssh/config"), false));
    }

    #[test]
    fn a_row_has_names_and_a_reason() {
        for (name, why) in [("", "x"), ("/", "x"), ("a//b", "x"), ("a", "")] {
            let rows = [(name.to_owned(), why.to_owned())].into();
            NameList::new(rows).unwrap_err();
        }
    }
}
