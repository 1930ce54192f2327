//! Files that may have been meant by a path that does not exist.

use std::path::Path;

use tandem_host::workspace::{Respect, Workspace};

/// Maximum number of entries of the workspace that are compared.
const MAX_ENTRIES: usize = 20_000;

/// Maximum number of paths that are named.
const MAX_NAMED: usize = 3;

/// Maximum edit distance between two similar names, in characters.
const MAX_DISTANCE: usize = 2;

/// Length below which only the same name is similar, in characters: a short name is near to too many others.
const MIN_FUZZY_NAME: usize = 4;

/// Returns the paths that are most like a path that does not exist: files of the same name in other directories, then
/// files of the same directory with a similar name. Ignored files are not named. Blocks.
pub(super) fn similar_paths(workspace: &Workspace, missing: &Path) -> Vec<String> {
    let (Some(name), Some(directory)) = (missing.file_name(), missing.parent()) else {
        return Vec::new();
    };
    let name = name.to_string_lossy().to_lowercase();
    let mut found = Vec::new();
    let mut left = MAX_ENTRIES;
    for root in workspace.trees() {
        for entry in workspace.walk(root, Respect::GIT_AND_OWN).flatten() {
            if left == 0 {
                break;
            }
            left -= 1;
            let other = entry.file_name().to_string_lossy().to_lowercase();
            let is_near = entry.path().parent() == Some(directory);
            if let Some(rank) = rank(&name, &other, is_near) {
                found.push((rank, entry.into_path()));
            }
        }
    }
    found.sort();
    found.truncate(MAX_NAMED);
    found.iter().map(|(_, path)| workspace.relative(path)).collect()
}

/// Returns how likely the user meant another name: 0 is the likeliest; `None` if the names are not similar.
fn rank(name: &str, other: &str, is_near: bool) -> Option<usize> {
    if name == other {
        return Some(usize::from(!is_near));
    }
    if !is_near || name.chars().count() < MIN_FUZZY_NAME {
        return None;
    }
    let distance = strsim::osa_distance(name, other);
    (distance <= MAX_DISTANCE).then_some(1 + distance)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{Workspace, similar_paths};

    #[track_caller]
    fn check(files: &[&str], missing: &str, expected: &[&str]) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for file in files {
            let path = root.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let workspace = Workspace::new(&root, &[]).unwrap();
        assert_eq!(similar_paths(&workspace, &root.join(missing)), expected);
    }

    #[test]
    fn the_same_name_elsewhere_is_meant() {
        check(&["src/app/main.rs", "src/lib.rs"], "src/main.rs", &["src/app/main.rs"]);
        check(&["src/Main.rs"], "src/main.rs", &["src/Main.rs"]);
    }

    #[test]
    fn a_similar_name_in_the_same_directory_is_meant() {
        check(&["src/parser.rs", "other/parsr.rs"], "src/parsre.rs", &["src/parser.rs"]);
        check(&["src/a.c"], "src/b.c", &[]);
    }

    #[test]
    fn the_most_similar_come_first_and_no_more_than_three() {
        let files = ["a/x.txt", "b/x.txt", "c/x.txt", "d/x.txt"];
        check(&files, "e/x.txt", &["a/x.txt", "b/x.txt", "c/x.txt"]);
    }

    #[test]
    fn ignored_files_are_not_named() {
        check(&[".geminiignore", "src/main.rs"], "main.rs", &["src/main.rs"]);
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        fs::create_dir(root.join("out")).unwrap();
        fs::write(root.join("out/main.rs"), "").unwrap();
        fs::write(root.join(".geminiignore"), "out\n").unwrap();
        let workspace = Workspace::new(&root, &[]).unwrap();
        assert!(similar_paths(&workspace, &root.join("main.rs")).is_empty());
    }
}
