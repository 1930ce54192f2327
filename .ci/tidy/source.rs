//! A Rust file, read as text.

use std::fs;
use std::path::{Path, PathBuf};

/// Words with which a clause begins, in place of a noun or a verb.
const CLAUSE: &[&str] = &["What", "Whether", "How", "Who", "Where", "Which"];

/// Further words that doc comments may not begin with: pronouns in place of the noun that the reader needs, and openers
/// of answers to questions that the reader has not asked.
const DOC_OPENERS: &[&str] = &[
    "When", "Why", "Whoever", "Whatever", "Whose", "It", "Its", "They", "That", "Those",
    "Somebody", "Nobody", "Of", "So", "Such",
];

/// Words that `//` comments may not begin with. `If`, `Where`, `Of` and `This` may begin them: a comment says why, and
/// its subject can be the line below.
const PLAIN_OPENERS: &[&str] = &[
    "What", "Whether", "How", "Who", "Whoever", "Whatever", "Whose", "It", "Its", "They", "That",
    "Those", "Somebody", "Nobody",
];

/// A Rust file.
pub(super) struct Source {
    /// Its path from the workspace's root.
    pub(super) path: String,
    /// The folder of its crate, from the workspace's root.
    pub(super) krate: String,
    /// Its module, as in `crate::a::b`: empty for a crate's root.
    pub(super) module: Vec<String>,
    pub(super) text: String,
}

/// The workspace's root.
pub(super) fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every Rust file of the program, in no order: those of `src` without the tests that stand beside its crates.
pub(super) fn program_files(root: &Path) -> Vec<Source> {
    rust_files(root, "src").into_iter().filter(|source| !source.is_test()).collect()
}

/// Every Rust file of tests, in no order: those of `tests`, and those beside the crates of `src`.
pub(super) fn test_files(root: &Path) -> Vec<Source> {
    let beside = rust_files(root, "src").into_iter().filter(Source::is_test);
    rust_files(root, "tests").into_iter().chain(beside).collect()
}

/// Every Rust file below a folder of the workspace, in no order.
pub(super) fn rust_files(root: &Path, folder: &str) -> Vec<Source> {
    let mut sources = Vec::new();
    visit(&root.join(folder), &mut |path| sources.extend(Source::read(root, path)));
    sources
}

fn visit(folder: &Path, found: &mut dyn FnMut(&Path)) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            visit(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found(&path);
        }
    }
}

impl Source {
    fn read(root: &Path, path: &Path) -> Option<Self> {
        let text = fs::read_to_string(path).ok()?;
        let krate = path.ancestors().skip(1).find(|folder| folder.join("Cargo.toml").exists())?;
        let below = path.strip_prefix(krate).ok()?.with_extension("");
        let mut module: Vec<_> =
            below.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        if krate == root {
            module.remove(0);
        }
        if matches!(module.last().map(String::as_str), Some("lib" | "main")) {
            module.pop();
        }
        let relative = |path: &Path| path.strip_prefix(root).unwrap_or(path).display().to_string();
        Some(Self { path: relative(path), krate: relative(krate), module, text })
    }

    /// Returns `true` for a test beside a crate of `src`.
    fn is_test(&self) -> bool {
        self.path.starts_with("src/") && self.path.contains("/tests/")
    }

    pub(super) fn lines(&self) -> usize {
        self.text.lines().count()
    }

    /// Lines that are neither empty nor comments.
    pub(super) fn code_lines(&self) -> usize {
        self.trimmed().filter(|line| !line.is_empty() && !line.starts_with("//")).count()
    }

    /// Blocks of `//` comments.
    pub(super) fn plain_comments(&self) -> usize {
        self.plain_openings().count()
    }

    /// The first line of each block of `//` comments.
    pub(super) fn plain_openings(&self) -> impl Iterator<Item = &str> {
        let mut before = "";
        self.trimmed().filter_map(move |line| {
            let opens = is_plain_comment(line) && !is_plain_comment(before);
            before = line;
            opens.then(|| line[2..].trim())
        })
    }

    /// The openings of comments that begin with a word that they may not begin with. Texts of `--help`, which are doc
    /// comments of the command line's structs, are for people and have rules of their own.
    pub(super) fn riddles(&self) -> impl Iterator<Item = &str> {
        let is_help = self.path == "src/cli.rs" || self.path.starts_with("src/cli/");
        let docs = self.doc_openings().filter(move |opening| {
            !is_help && (opens_with_clause(opening) || begins_with_one_of(opening, DOC_OPENERS))
        });
        docs.chain(
            self.plain_openings().filter(|opening| begins_with_one_of(opening, PLAIN_OPENERS)),
        )
    }

    /// The first line of each doc comment.
    pub(super) fn doc_openings(&self) -> impl Iterator<Item = &str> {
        let doc = |line: &str| line.starts_with("///") || line.starts_with("//!");
        let mut before = "";
        self.trimmed().filter_map(move |line| {
            let opens = doc(line) && !doc(before);
            before = line;
            opens.then(|| line[3..].trim())
        })
    }

    /// The names of its types.
    pub(super) fn types(&self) -> impl Iterator<Item = &str> {
        self.trimmed().filter_map(|line| {
            let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
            let word =
                words.find(|word| !matches!(*word, "pub" | "super" | "crate" | "in" | ""))?;
            matches!(word, "struct" | "enum" | "trait").then(|| words.next())?
        })
    }

    /// The names of its constants and statics, without those of its tests.
    pub(super) fn constants(&self) -> impl Iterator<Item = &str> {
        let end = self.text.find("#[cfg(test)]\nmod ").unwrap_or(self.text.len());
        self.text[..end].lines().map(str::trim).filter_map(|line| {
            let (before, _) = line.split_once(": ")?;
            let name = before.split_whitespace().next_back()?;
            let kind = before.split_whitespace().rev().nth(1)?;
            let is_name =
                name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
            (matches!(kind, "const" | "static") && is_name && name != "_").then_some(name)
        })
    }

    /// Items that other crates may be able to use.
    pub(super) fn public_items(&self) -> usize {
        let item = |line: &&str| {
            line.strip_prefix("pub ").is_some_and(|rest| {
                ["fn", "async fn", "const", "struct", "enum", "trait", "type", "mod", "static"]
                    .iter()
                    .any(|kind| rest.strip_prefix(kind).is_some_and(|rest| rest.starts_with(' ')))
            })
        };
        self.trimmed().filter(item).count()
    }

    /// Asserts on text that somebody reads.
    pub(super) fn wording_asserts(&self) -> usize {
        let is_test_file = self.is_test() || self.path.starts_with("tests/");
        let in_test = |text: &str| is_test_file || text.contains("#[cfg(test)]");
        let text = match self.text.find("#[cfg(test)]") {
            Some(at) => &self.text[at..],
            None => &self.text,
        };
        if !in_test(text) {
            return 0;
        }
        text.lines().filter(|line| line.contains("assert") && line.contains(".contains(\"")).count()
    }

    fn trimmed(&self) -> impl Iterator<Item = &str> {
        self.text.lines().map(str::trim)
    }
}

/// Returns whether a doc comment opens with a clause in place of a noun or a verb.
pub(super) fn opens_with_clause(opening: &str) -> bool {
    begins_with_one_of(opening, CLAUSE)
}

fn begins_with_one_of(opening: &str, words: &[&str]) -> bool {
    opening.split_whitespace().next().is_some_and(|word| words.contains(&word))
}

fn is_plain_comment(line: &str) -> bool {
    line.starts_with("//") && !line.starts_with("///") && !line.starts_with("//!")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        Source { path: String::new(), krate: String::new(), module: Vec::new(), text: text.into() }
    }

    #[test]
    fn types_are_found_whatever_their_visibility() {
        let text = "pub struct A;\nenum B {\n    pub(super) trait C<T> {\nfn structure() {}\n";
        assert_eq!(source(text).types().collect::<Vec<_>>(), ["A", "B", "C"]);
    }

    #[test]
    fn a_doc_comment_opens_once() {
        let text = "/// Whether it is.\n/// How so.\nfn a() {}\n/// A thing.\n";
        let source = source(text);
        let clauses: Vec<_> = source.doc_openings().map(opens_with_clause).collect();
        assert_eq!(clauses, [true, false]);
    }

    #[test]
    fn constants_are_found_whatever_their_visibility_but_not_in_tests() {
        let text = "const A: u8 = 1;\n    pub(super) static B_C: &str = \"const D: u8\";\nfn f<const N: usize>() {}\n\
                    const _: () = ();\n#[cfg(test)]\nmod tests {\n    const E: u8 = 1;\n}\n";
        assert_eq!(source(text).constants().collect::<Vec<_>>(), ["A", "B_C"]);
    }

    #[test]
    fn a_comment_without_its_noun_is_a_riddle() {
        let text = "/// Those of the files.\nfn a() {}\n/// A file.\n// It is locked.\n// still the same\nb();\n\
                    // Where the file is, nobody looks.\n";
        assert_eq!(
            source(text).riddles().collect::<Vec<_>>(),
            ["Those of the files.", "It is locked."]
        );
    }

    #[test]
    fn a_block_of_plain_comments_counts_once() {
        assert_eq!(source("// one\n// still\na();\n// two\n/// doc\n").plain_comments(), 2);
    }
}
