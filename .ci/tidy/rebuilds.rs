//! The part of `src` that is compiled again after an edit of one room: the room, and every room that depends on it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::source::Source;

/// Returns the part of the lines of `src` that an edit of each room compiles again, in percent, by the rooms'
/// folders. The program's own folder is empty.
pub(super) fn rebuilds(root: &Path, sources: &[Source]) -> BTreeMap<String, usize> {
    let mut lines = BTreeMap::<&str, usize>::new();
    for source in sources {
        *lines.entry(&source.krate).or_default() += source.lines();
    }
    let total: usize = lines.values().sum();
    let names: BTreeMap<_, _> =
        lines.keys().filter_map(|krate| Some((package(root, krate)?, *krate))).collect();
    let uses: BTreeMap<_, _> =
        lines.keys().map(|krate| (*krate, dependencies(root, krate, &names))).collect();
    let rebuilt = |room: &str| -> usize {
        let again = lines.iter().filter(|(krate, _)| reaches(krate, room, &uses));
        again.map(|(_, lines)| lines).sum()
    };
    lines.keys().map(|room| ((*room).to_owned(), rebuilt(room) * 100 / total.max(1))).collect()
}

/// Returns `true` if a room is another, or depends on it, itself or through others.
fn reaches(from: &str, to: &str, uses: &BTreeMap<&str, BTreeSet<&str>>) -> bool {
    from == to || uses[from].iter().any(|used| reaches(used, to, uses))
}

/// Returns the name of the package in a folder.
fn package(root: &Path, krate: &str) -> Option<String> {
    let manifest = manifest(root, krate);
    let line = manifest.lines().find_map(|line| line.strip_prefix("name = "))?;
    Some(line.trim_matches('"').to_owned())
}

/// Returns the rooms that a room names as dependencies. Those of its tests compile nothing again in the program.
fn dependencies<'a>(
    root: &Path,
    krate: &str,
    names: &BTreeMap<String, &'a str>,
) -> BTreeSet<&'a str> {
    let manifest = manifest(root, krate);
    let sections = manifest.split("\n[").filter(|section| {
        let head = section.lines().next().unwrap_or_default();
        head.ends_with("dependencies]") && !head.contains("dev-") && !head.contains("workspace")
    });
    let used = sections.flat_map(str::lines).filter_map(|line| {
        let end = line.find(|c: char| !c.is_alphanumeric() && c != '-' && c != '_')?;
        names.get(&line[..end]).copied()
    });
    used.collect()
}

fn manifest(root: &Path, krate: &str) -> String {
    fs::read_to_string(root.join(krate).join("Cargo.toml")).unwrap_or_default()
}
