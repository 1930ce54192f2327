//! Files of the home directory that commands in the sandbox can read: tool chains, and caches and settings of package
//! managers.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, OnceLock};

use serde::Deserialize;
use tandem_content::bounded;
use tandem_sandbox::{Home, HomeLink, KnownPath};

use super::workspace::{ComponentKind, walk};

/// Table of the readable files, and of the environment variables that name other places.
const HOME_TABLE_TEXT: &str = include_str!("home.toml");

static HOME_TABLE: LazyLock<HomeTable> = LazyLock::new(|| {
    // A test parses the table, so this cannot fail here.
    toml::from_str(HOME_TABLE_TEXT).unwrap_or_default()
});

/// Maximum size of a file in which git names a directory, in bytes.
const MAX_POINTER_BYTES: u64 = 4096;

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct HomeTable {
    /// Paths relative to the home, each with the reason why commands need it.
    readable: BTreeMap<String, String>,
    /// Environment variables, each with the directory of the home in whose place it names another.
    moved: BTreeMap<String, String>,
    /// Environment variables that name directories of programs and libraries, each with the reason why commands need
    /// them.
    named: BTreeMap<String, String>,
}

/// Tool chains and package managers of a user, by their home and the environment variables that name other places. The
/// paths are made when a command needs them: some 370, which each session would hold otherwise.
#[derive(Debug, Clone, Default)]
pub struct ToolChains {
    /// The user's home; `None` if the user has no tool chains.
    home: Option<PathBuf>,
    /// Environment variables that `home.toml` names and the user has set, each with its value.
    variables: Vec<(&'static str, String)>,
}

impl ToolChains {
    /// Returns the tool chains of a user with this home and these environment variables.
    pub fn new<'v>(home: PathBuf, variable: impl Fn(&str) -> Option<&'v str>) -> Self {
        let names = HOME_TABLE.moved.keys().chain(HOME_TABLE.named.keys());
        let variables = names.filter_map(|name| Some((name.as_str(), variable(name)?.to_owned())));
        Self { home: Some(home), variables: variables.collect() }
    }

    /// Returns the paths of tool chains and of package managers' files. The paths need not exist.
    pub fn paths(&self) -> Vec<PathBuf> {
        let HomeTable { readable, moved, named } = &*HOME_TABLE;
        let Some(home) = &self.home else { return Vec::new() };
        let mut paths: Vec<_> = readable.keys().map(|row| home.join(row)).collect();
        for (name, directory) in moved {
            for place in self.places(name) {
                let below =
                    readable.keys().filter_map(|row| Path::new(row).strip_prefix(directory).ok());
                paths.extend(below.map(|row| place.join(row)));
            }
        }
        paths.extend(named.keys().flat_map(|name| self.places(name)));
        paths
    }

    /// Returns the absolute paths that a variable names.
    fn places(&self, name: &str) -> Vec<PathBuf> {
        let values = self.variables.iter().filter(|(set, _)| *set == name);
        let places = values.flat_map(|(_, value)| std::env::split_paths(value));
        places.filter(|path| path.is_absolute()).collect()
    }
}

/// The home of a session's user, of which commands see a part.
pub(super) struct HomeFiles {
    home: PathBuf,
    /// Files and directories that the user lets commands read or write, which may be the home itself.
    named: Vec<PathBuf>,
    tool_chains: ToolChains,
    /// Directories that commands can write, or may have written before: a link in them may lead anywhere.
    changed: Vec<PathBuf>,
    roots: Vec<PathBuf>,
    /// Repositories of the roots as they were before the first command: a command could make others.
    repositories: OnceLock<Vec<PathBuf>>,
}

impl HomeFiles {
    /// Returns the home. Files are looked up later. `roots`: the roots of the workspace; `writable`: other
    /// directories that commands write. Both are real paths.
    pub(super) fn new(
        home: PathBuf,
        named: Vec<PathBuf>,
        tool_chains: ToolChains,
        roots: &[KnownPath],
        writable: &[KnownPath],
    ) -> Self {
        let paths = |places: &[KnownPath]| -> Vec<_> {
            places.iter().map(|place| place.path().to_owned()).collect()
        };
        let (roots, writable) = (paths(roots), paths(writable));
        let changed = [roots.clone(), writable.clone()].concat();
        let named = [named, writable].concat();
        Self { home, named, tool_chains, changed, roots, repositories: OnceLock::new() }
    }

    /// Returns the home with the parts of it that commands can read. `None` if the home is not hidden: because it is a
    /// root or lies in one, or because the user lets commands read all of it. Blocks.
    pub(super) fn find(&self) -> Option<Home> {
        let home = self.home.canonicalize().ok()?;
        let mut links = BTreeMap::new();
        let mut real = |paths: &[PathBuf]| -> Vec<_> {
            paths.iter().filter_map(|path| self.real_path(path, &home, &mut links)).collect()
        };
        let named = real(&self.named);
        let is_seen = named.iter().chain(&self.roots).any(|path| home.starts_with(path));
        // A user without a home of their own may have `/` as home. All files of the machine are below `/`, so it is not
        // hidden.
        if is_seen || home == Path::new("/") {
            return None;
        }
        let repositories = self.repositories.get_or_init(|| repositories(&self.roots));
        let mut readable = [real(&self.tool_chains.paths()), real(repositories), named].concat();
        readable.retain(|path| path.starts_with(&home) && *path != home);
        readable.sort();
        readable.dedup_by(|path, above| path.starts_with(above));
        let links = links.into_iter().map(|(path, target)| HomeLink { path, target }).collect();
        Some(Home { path: home, readable, links })
    }

    /// Returns the real path of a file, and adds the links below the home that lead to it. `None` if the file does not
    /// exist, or if a command may have made a link on the way.
    fn real_path(
        &self,
        path: &Path,
        home: &Path,
        links: &mut BTreeMap<PathBuf, PathBuf>,
    ) -> Option<PathBuf> {
        // A quick check first: most rows of the table name files that do not exist.
        path.symlink_metadata().ok()?;
        let mut followed = Vec::new();
        let real = follow(path, &self.changed, &mut followed).ok()?;
        links.extend(followed.into_iter().filter(|(path, _)| path.starts_with(home)));
        Some(real)
    }
}

/// Returns the real path of a file, which need not exist, and adds the links that were followed, each with its target.
/// A link below a directory in `changed` is an error: a command may have made it.
pub(super) fn follow(
    path: &Path,
    changed: &[PathBuf],
    followed: &mut Vec<(PathBuf, PathBuf)>,
) -> io::Result<PathBuf> {
    walk(path, |path| match fs::symlink_metadata(path) {
        Ok(found) if found.is_symlink() => {
            if changed.iter().any(|directory| path.starts_with(directory)) {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            let target = fs::read_link(path)?;
            followed.push((path.to_owned(), target.clone()));
            Ok(ComponentKind::Link(target))
        }
        Ok(_) => Ok(ComponentKind::Present),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(ComponentKind::Missing),
        Err(error) => Err(error),
    })
}

/// Returns the paths outside the roots that git reads for them: the repository that each root is in, and its git
/// directory. Blocks.
fn repositories(roots: &[PathBuf]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for root in roots {
        let is_repository = |path: &&Path| path.join(".git").symlink_metadata().is_ok();
        let Some(files) = root.ancestors().find(is_repository) else { continue };
        found.extend((files != root).then(|| files.to_owned()));
        found.extend(git_directory(&files.join(".git")));
    }
    found
}

/// Returns the git directory that a `.git` file names, if git itself has made that directory for this file. Otherwise
/// the author of the workspace could have written any path into the file, and commands could read it.
fn git_directory(pointer: &Path) -> Option<PathBuf> {
    let target = pointed_to(pointer, "gitdir:")?;
    // The git directory of a submodule lies in that of the repository around it.
    let is_module = |above: &Path| target.starts_with(above.join(".git/modules"));
    if pointer.ancestors().skip(2).any(is_module) {
        return Some(target);
    }
    let is_worktree = pointed_to(&target.join("gitdir"), "")? == pointer;
    let common = pointed_to(&target.join("commondir"), "")?;
    let is_kept_there = target.parent()? == common.join("worktrees");
    (is_worktree && is_kept_there).then_some(common)
}

/// Returns the real path that a file of git names after a prefix.
fn pointed_to(file: &Path, word: &str) -> Option<PathBuf> {
    if file.is_symlink() {
        return None;
    }
    let text = String::from_utf8(bounded::read(file, MAX_POINTER_BYTES).ok()?).ok()?;
    let target = text.strip_prefix(word)?.trim_end_matches(['\n', '\r']);
    file.parent()?.join(target.trim_start()).canonicalize().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_can_be_read_and_every_row_counts() {
        let HomeTable { readable, moved, named } = toml::from_str(HOME_TABLE_TEXT).unwrap();
        for (row, why) in readable.iter().chain(&named) {
            assert!(!why.is_empty() && !row.starts_with('/') && !row.contains(".."), "{row}");
        }
        for (name, directory) in &moved {
            let is_moved = |row: &String| Path::new(row).starts_with(directory);
            assert!(readable.keys().any(is_moved), "{name} = {directory}");
        }
    }

    #[test]
    fn a_variable_moves_the_rows_of_its_directory_and_no_others() {
        let variable = |name: &str| match name {
            "CARGO_HOME" => Some("/home/me/data/cargo"),
            "PATH" => Some("/usr/bin:/home/me/tools:relative"),
            _ => None,
        };
        let paths = ToolChains::new(PathBuf::from("/home/me"), variable).paths();
        for path in ["/home/me/.cargo/bin", "/home/me/data/cargo/bin", "/home/me/tools"] {
            assert!(paths.contains(&PathBuf::from(path)), "{path}");
        }
        for path in ["/home/me/data/cargo", "/home/me/data/cargo/credentials.toml", "relative"] {
            assert!(!paths.contains(&PathBuf::from(path)), "{path}");
        }
    }
}
