//! The rules of the house that the compiler does not know.

use std::fs;
use std::path::{Path, PathBuf};

/// Each layer, and the layers it may use.
const LAYERS: &[(&str, &[&str])] = &[
    ("sync", &[]),
    ("media", &[]),
    ("visible", &[]),
    ("net", &["sync"]),
    ("protocol", &[]),
    ("rpc", &["protocol", "sync"]),
    ("model", &["media", "net", "sync"]),
    ("tools", &["media", "net", "sync", "visible"]),
    ("shell", &[]),
    ("permission", &["shell", "tools", "sync", "visible"]),
    ("session", &["model", "tools", "permission", "media", "sync", "visible"]),
    ("commands", &["session", "tools", "model", "permission", "sync", "visible"]),
    ("frontends", &["protocol", "rpc", "commands", "session", "net", "sync", "visible"]),
    ("config", &["commands", "model", "permission", "tools", "sync", "visible"]),
];

#[test]
fn layers_are_kept_and_files_are_tidy() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut wrong = Vec::new();
    for dir in ["src", "tests", "benches"] {
        for path in rust_files(&root.join(dir)) {
            let text = fs::read_to_string(&path).unwrap();
            let path = path.strip_prefix(root).unwrap().display().to_string();
            if !text.starts_with("//! ") {
                wrong.push(format!("{path}: does not begin by saying what it is for"));
            }
            if path.ends_with("mod.rs") {
                wrong.push(format!("{path}: foo.rs beside foo/, never foo/mod.rs"));
            }
            wrong.extend(
                path.strip_prefix("src/").into_iter().flat_map(|path| misused(path, &text)),
            );
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The layers that a file uses and may not.
fn misused(path: &str, text: &str) -> Vec<String> {
    let layer = path.split(['/', '.']).next().unwrap();
    let Some((_, may_use)) = LAYERS.iter().find(|(name, _)| *name == layer) else {
        return Vec::new();
    };
    let uses = text
        .split("crate::")
        .skip(1)
        .map(|used| used.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap());
    let wrong = uses.filter(|used| *used != layer && !may_use.contains(used));
    wrong.map(|used| format!("{path}: {layer} may not use {used}")).collect()
}

fn rust_files(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|it| it == "rs") {
            files.push(path);
        }
    }
    files
}
