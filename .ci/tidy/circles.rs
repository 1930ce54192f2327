//! Files of one crate that import each other in a circle.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::Source;

/// Sets of files that reach each other through their imports, in no order.
pub(super) fn circles(sources: &[Source]) -> Vec<Vec<&str>> {
    let files: BTreeMap<_, _> = sources
        .iter()
        .enumerate()
        .map(|(at, source)| ((source.krate.as_str(), source.module.clone()), at))
        .collect();
    let imports: Vec<BTreeSet<usize>> = sources
        .iter()
        .enumerate()
        .map(|(at, source)| {
            let targets = paths(source).into_iter().filter_map(|path| {
                // The longest beginning that is a file.
                (0..=path.len())
                    .rev()
                    .find_map(|end| files.get(&(source.krate.as_str(), path[..end].to_vec())))
            });
            targets.copied().filter(|target| *target != at).collect()
        })
        .collect();
    let reached: Vec<_> = (0..sources.len()).map(|from| reach(from, &imports)).collect();
    let mut seen = BTreeSet::new();
    let mut circles = Vec::new();
    for at in 0..sources.len() {
        let circle: Vec<_> =
            reached[at].iter().copied().filter(|other| reached[*other].contains(&at)).collect();
        if circle.len() > 1 && seen.insert(circle.clone()) {
            circles.push(circle.into_iter().map(|at| sources[at].path.as_str()).collect());
        }
    }
    circles
}

fn reach(from: usize, imports: &[BTreeSet<usize>]) -> BTreeSet<usize> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<_> = imports[from].iter().copied().collect();
    while let Some(next) = open.pop() {
        if reached.insert(next) {
            open.extend(&imports[next]);
        }
    }
    reached
}

/// The paths that a file imports from its own crate, as modules from the crate's root. Imports of
/// its children hand names on, and those of its parents' own items are counted.
fn paths(source: &Source) -> Vec<Vec<String>> {
    // What a file's tests import is no part of the building.
    let text = source.text.split("#[cfg(test)]").next().unwrap_or_default();
    let mut paths = Vec::new();
    for statement in text.split(";\n").filter_map(|part| part.rsplit_once("use ")) {
        let tree: String = statement.1.split_whitespace().collect::<Vec<_>>().join(" ");
        expand(&tree, &Vec::new(), &mut |path| paths.extend(resolve(path, source)));
    }
    paths
}

/// Calls back with each path of an import's tree.
fn expand(tree: &str, before: &[String], each: &mut dyn FnMut(&[String])) {
    let Some((head, rest)) = tree.split_once('{') else {
        let mut path = before.to_vec();
        let name = tree.split(" as ").next().unwrap_or_default();
        path.extend(name.split("::").map(|part| part.trim().to_owned()));
        return each(&path);
    };
    let mut path = before.to_vec();
    path.extend(head.split("::").map(|part| part.trim().to_owned()).filter(|it| !it.is_empty()));
    let (mut depth, mut begin) = (0_usize, 0);
    let inner = rest.strip_suffix('}').unwrap_or(rest);
    for (at, c) in inner.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                expand(inner[begin..at].trim(), &path, each);
                begin = at + 1;
            }
            _ => {}
        }
    }
    if !inner[begin..].trim().is_empty() {
        expand(inner[begin..].trim(), &path, each);
    }
}

/// A path of an import from the crate's root. `None` for other crates.
fn resolve(path: &[String], source: &Source) -> Option<Vec<String>> {
    let mut module = match path.first()?.as_str() {
        "crate" => Vec::new(),
        "self" | "super" => source.module.clone(),
        _ => return None,
    };
    for part in path {
        match part.as_str() {
            "crate" | "self" => {}
            "super" => drop(module.pop()?),
            name => module.push(name.to_owned()),
        }
    }
    Some(module)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(module: &[&str], text: &str) -> Source {
        let module: Vec<_> = module.iter().map(|part| (*part).to_owned()).collect();
        Source { path: module.join("/"), krate: String::new(), module, text: text.into() }
    }

    #[test]
    fn files_that_import_each_other_are_a_circle() {
        let sources = [
            source(&[], "use self::a::A;\n"),
            source(&["a"], "use crate::b::{self, c::{D, E}};\n"),
            source(&["b"], "use super::a;\n"),
            source(&["b", "c"], "use std::fmt;\n"),
        ];
        assert_eq!(circles(&sources[1..]), [vec!["a", "b"]]);
    }

    #[test]
    fn imports_in_one_direction_are_no_circle() {
        let sources = [source(&["a"], "use super::b::B;\n"), source(&["b"], "use std::fmt;\n")];
        assert!(circles(&sources).is_empty());
    }
}
