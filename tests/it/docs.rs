//! The manual: its examples run as printed, its links lead somewhere, and its picture is current.
//!
//! `UPDATE_DOCS=1 cargo test docs` writes the present output: look at the difference. CONTRIBUTING.md explains how
//! an example is marked.

mod console;
mod messages;
mod picture;
mod sentences;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Returns the directory of the repository.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns whether files are to be written instead of compared.
fn updates() -> bool {
    std::env::var_os("UPDATE_DOCS").is_some()
}

/// Returns the paths of all pages: those at the top, and the manual.
fn pages() -> Vec<PathBuf> {
    let top = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"];
    let mut pages: Vec<_> = top.iter().map(|name| root().join(name)).collect();
    pages.extend(manual());
    pages.sort();
    pages
}

/// Returns the paths of the manual's pages, those in folders included.
fn manual() -> Vec<PathBuf> {
    with_extension(files(&["docs"]), "md")
}

fn read(page: &Path) -> String {
    fs::read_to_string(page).unwrap_or_else(|err| panic!("{}: {err}", page.display()))
}

/// A fenced block of a page.
struct Block {
    /// Words after the fence: `console`, `json file=settings.json`.
    info: String,
    text: String,
    /// Byte range of the text in the page.
    at: std::ops::Range<usize>,
}

impl Block {
    fn language(&self) -> &str {
        self.info.split(' ').next().unwrap_or_default()
    }

    /// Returns whether a word is after the fence, behind the language.
    fn is(&self, language: &str, word: &str) -> bool {
        self.language() == language && self.has(word)
    }

    /// Returns whether a word is behind the language.
    fn has(&self, word: &str) -> bool {
        self.info.split(' ').skip(1).any(|it| it == word)
    }

    /// Returns the value of `NAME=VALUE` after the fence.
    fn attribute(&self, name: &str) -> Option<&str> {
        let mut words = self.info.split(' ').skip(1);
        words.find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    }
}

/// Returns the fenced blocks, in order.
fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<(String, usize)> = None;
    let mut at = 0;
    for line in page.split_inclusive('\n') {
        let start = at;
        at += line.len();
        let Some(info) = line.strip_prefix("```") else { continue };
        open = match open {
            None => Some((info.trim().to_owned(), at)),
            Some((info, begin)) => {
                blocks.push(Block { info, text: page[begin..start].to_owned(), at: begin..start });
                None
            }
        };
    }
    assert!(open.is_none(), "a fence is not closed");
    blocks
}

/// Returns a page without its fenced blocks.
fn prose(page: &str) -> String {
    let mut text = page.to_owned();
    for block in blocks(page).iter().rev() {
        text.replace_range(block.at.clone(), "");
    }
    text
}

/// Returns the anchor of a heading, as forges make it.
fn anchor(heading: &str) -> String {
    let kept = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn anchors(page: &str) -> BTreeSet<String> {
    prose(page).lines().filter(|line| line.starts_with('#')).map(anchor).collect()
}

/// Returns the targets of links: `](TARGET)`.
fn links(page: &str) -> Vec<String> {
    let text = prose(page);
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    targets.map(|(target, _)| target.to_owned()).collect()
}

#[test]
fn every_link_within_the_repository_leads_somewhere() {
    let mut wrong = Vec::new();
    for page in pages() {
        let text = read(&page);
        for link in links(&text).iter().filter(|link| !link.contains("://")) {
            let (file, part) = link.split_once('#').unwrap_or((link, ""));
            let target =
                if file.is_empty() { page.clone() } else { page.parent().unwrap().join(file) };
            let is_there =
                target.exists() && (part.is_empty() || anchors(&read(&target)).contains(part));
            if !is_there {
                wrong.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_path_that_the_manual_names_exists() {
    let tops = ["src/", "tests/", "fixtures/", "benches/", "docs/", ".ci/", ".github/"];
    let mut wrong = Vec::new();
    for page in pages().iter().filter(|page| !page.ends_with("CHANGELOG.md")) {
        let text = prose(&read(page));
        let code = text.split('`').skip(1).step_by(2);
        let named = code.filter(|code| tops.iter().any(|top| code.starts_with(top)));
        // A pattern, or a path with a name to be filled in, is no path of the repository.
        let paths = named.filter(|code| !code.contains([' ', '*', '{', '<']));
        let paths = paths.filter(|path| !path.contains("NAME"));
        wrong.extend(
            paths
                .filter(|path| !root().join(path).exists())
                .map(|path| format!("{}: {path}", page.display())),
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_example_of_a_file_can_be_read() {
    for page in pages() {
        for block in blocks(&read(&page)) {
            let wrong = match block.language() {
                "json" => serde_json::from_str::<Value>(&block.text).err().map(|it| it.to_string()),
                "jsonl" => {
                    let lines = block.text.lines().map(serde_json::from_str::<Value>);
                    lines.collect::<Result<Vec<_>, _>>().err().map(|it| it.to_string())
                }
                "toml" => toml::from_str::<toml::Table>(&block.text).err().map(|it| it.to_string()),
                _ => None,
            };
            assert_eq!(wrong, None, "{}:\n{}", page.display(), block.text);
        }
    }
}

#[test]
fn the_summary_lists_every_page_of_the_manual_once() {
    let summary = root().join("docs/SUMMARY.md");
    let mut listed = links(&read(&summary));
    listed.sort();
    let name =
        |path: PathBuf| path.strip_prefix(root().join("docs")).unwrap().display().to_string();
    let mut pages: Vec<_> = manual().into_iter().filter(|it| *it != summary).map(name).collect();
    pages.sort();
    assert_eq!(listed, pages);
    let readme = read(&root().join("README.md"));
    for page in ["docs/SUMMARY.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"] {
        assert!(readme.contains(&format!("]({page})")), "README.md does not link to {page}");
    }
}

/// Returns the pages and files of the manual that a text names.
fn named_pages(text: &str) -> Vec<&str> {
    let ends = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '-' | '#' | '_'));
    let places = text.match_indices("docs/").map(|(at, _)| &text[at..]);
    let names = places.map(|rest| rest.split(ends).next().unwrap_or(rest).trim_end_matches('.'));
    let is_page = |name: &&str| {
        let file = name.split('#').next().unwrap_or(name);
        Path::new(file).extension().is_some_and(|it| it == "md")
    };
    names.filter(is_page).collect()
}

#[test]
fn every_page_that_a_comment_of_the_sources_names_is_there() {
    let mut wrong = Vec::new();
    for path in files(&["src", ".ci", "benches"]) {
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let comments = text.lines().filter(|line| line.trim_start().starts_with(['/', '#']));
        for name in comments.flat_map(named_pages) {
            let (file, part) = name.split_once('#').unwrap_or((name, ""));
            let page = root().join(file);
            if !page.exists() || !(part.is_empty() || anchors(&read(&page)).contains(part)) {
                wrong.push(format!("{}: {name}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(named_pages("see docs/a-b.md#c, `docs/d.md`."), ["docs/a-b.md#c", "docs/d.md"]);
}

#[test]
fn the_readme_is_short_and_ci_runs_its_commands() {
    let readme = read(&root().join("README.md"));
    let words = readme.split_whitespace().count();
    assert!(words <= 1200, "{words} words: what is long belongs in docs/");
    let ci = read(&root().join(".ci/run"));
    let first_line = |block: Block| block.text.lines().next().unwrap_or_default().to_owned();
    let lines: Vec<_> = blocks(&readme).into_iter().map(first_line).collect();
    for beginning in ["cargo run -- ", "cargo run -q -- ", "cargo test"] {
        let commands: Vec<_> = lines.iter().filter(|line| line.starts_with(beginning)).collect();
        assert_eq!(commands.len(), 1, "one command begins with {beginning}");
        assert!(ci.contains(commands[0].as_str()), ".ci/run does not run `{}`", commands[0]);
    }
}

#[test]
fn the_readme_names_each_request_of_an_editor_and_each_call_back() {
    use tandem_wire::acp::{AUTHENTICATE_METHOD, INITIALIZE_METHOD, v0, v1};

    let readme = read(&root().join("README.md"));
    let old = [v0::SEND_USER_MESSAGE, v0::CANCEL_SEND_MESSAGE, v0::STREAM_ASSISTANT_MESSAGE_CHUNK];
    let calls = [v0::REQUEST_TOOL_CALL_CONFIRMATION, v0::PUSH_TOOL_CALL, v0::UPDATE_TOOL_CALL];
    let today = [
        v1::NEW_SESSION,
        v1::PROMPT_METHOD,
        v1::CANCEL_METHOD,
        v1::UPDATE_METHOD,
        v1::REQUEST_PERMISSION,
    ];
    for name in [&[INITIALIZE_METHOD, AUTHENTICATE_METHOD][..], &old, &calls, &today].concat() {
        assert!(readme.contains(&format!("`{name}`")), "README.md does not name {name}");
    }
}

#[test]
fn every_event_is_in_the_manual() {
    let source = read(&root().join("src/agent/session/events/event.rs"));
    let (_, events) = source.split_once("pub enum Event {\n").unwrap();
    let events = events.split("\n}").next().unwrap();
    // A variant begins a line with four spaces and a capital letter; its fields have more.
    let variants = events.lines().filter_map(|line| line.strip_prefix("    "));
    let names = variants.filter(|line| line.starts_with(|c: char| c.is_ascii_uppercase()));
    let names: Vec<_> = names.filter_map(|it| it.split([' ', '(', ',', '{']).next()).collect();
    assert!(names.len() > 30, "{names:?}");
    let page = read(&root().join("docs/events.md"));
    let is_missing = |name: &&&str| !page.contains(&format!("`{name}`"));
    assert_eq!(names.iter().filter(is_missing).collect::<Vec<_>>(), Vec::<&&str>::new());
}

#[test]
fn each_built_in_rule_has_one_row_that_says_why_it_asks() {
    let source = read(&root().join("src/approval/verdict.rs"));
    let (_, function) = source.split_once("pub fn name(self) -> &'static str {\n").unwrap();
    let function = function.split("\n    }").next().unwrap();
    let mut names: Vec<_> = function.split('"').skip(1).step_by(2).collect();
    names.sort_unstable();
    assert!(names.len() > 20, "{names:?}");
    let page = read(&root().join("docs/troubleshooting.md"));
    let (_, section) =
        page.split_once("\n### What do the names of built-in rules mean?\n").unwrap();
    let rows = section.split("\n```").next().unwrap().lines();
    let mut rows: Vec<_> =
        rows.filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    rows.sort_unstable();
    assert_eq!(rows, names);
}

/// Returns the paths of all files below folders of the repository.
fn files(folders: &[&str]) -> Vec<PathBuf> {
    let mut folders: Vec<_> = folders.iter().map(|name| root().join(name)).collect();
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files
}

/// Returns the files of these that have an extension.
fn with_extension(files: Vec<PathBuf>, extension: &str) -> Vec<PathBuf> {
    files.into_iter().filter(|path| path.extension().is_some_and(|it| it == extension)).collect()
}

#[test]
fn every_short_path_in_the_architecture_is_a_file_of_the_sources() {
    let page = prose(&read(&root().join("docs/architecture.md")));
    let code = page.split('`').skip(1).step_by(2);
    let is_source = |name: &&str| {
        !name.contains(' ') && Path::new(name).extension().is_some_and(|it| it == "rs")
    };
    let names: Vec<_> = code.filter(is_source).collect();
    assert!(names.len() > 40, "{names:?}");
    let files = files(&["src", "tests"]);
    let is_missing = |name: &&&str| !files.iter().any(|file| file.ends_with(name));
    assert_eq!(names.iter().filter(is_missing).collect::<Vec<_>>(), Vec::<&&str>::new());
}

#[test]
fn every_test_that_holds_an_invariant_is_there() {
    let page = read(&root().join("docs/architecture.md"));
    let (_, invariants) = page.split_once("\n## Invariants\n").unwrap();
    let invariants = invariants.split("\n## ").next().unwrap();
    let is_part = |c: char| c.is_ascii_lowercase() || c == '_';
    let code = invariants.split('`').skip(1).step_by(2);
    let names: Vec<_> = code.filter(|it| it.len() > 20 && it.chars().all(is_part)).collect();
    assert!(names.len() > 5, "{names:?}");
    let sources: String =
        with_extension(files(&["src", "tests"]), "rs").iter().map(|path| read(path)).collect();
    let is_missing = |name: &&&str| !sources.contains(&format!("fn {name}("));
    assert_eq!(names.iter().filter(is_missing).collect::<Vec<_>>(), Vec::<&&str>::new());
}
