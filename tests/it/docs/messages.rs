//! Messages that the manual quotes: the fixed parts of each are found in one text of the sources.

use std::path::PathBuf;

use super::{blocks, files, manual, read, with_extension};

/// Returns the lines of all sources, with texts as the program prints them: a text that goes on in the next line is
/// joined, and escaped quotes and braces are plain.
fn source_lines() -> Vec<String> {
    let sources = with_extension(files(&["src"]), "rs");
    let lines = |path: &PathBuf| joined(&read(path)).lines().map(str::to_owned).collect::<Vec<_>>();
    sources.iter().flat_map(lines).collect()
}

/// Returns a source with each string literal on one line.
fn joined(source: &str) -> String {
    let mut text = String::new();
    let mut is_going_on = false;
    for line in source.lines() {
        let line = if is_going_on { line.trim_start() } else { line };
        is_going_on = line.ends_with('\\');
        text += line.strip_suffix('\\').unwrap_or(line);
        if !is_going_on {
            text.push('\n');
        }
    }
    text.replace("\\\"", "\"").replace("{{", "{").replace("}}", "}")
}

/// Returns `true` if a line has the parts of a message between its `...`, in their order.
fn has_parts(line: &str, message: &str) -> bool {
    let mut rest = line;
    message.split("...").all(|part| {
        let found = rest.split_once(part);
        rest = found.map_or(rest, |(_, after)| after);
        found.is_some()
    })
}

#[test]
fn every_message_that_the_manual_quotes_is_one_of_the_program() {
    let lines = source_lines();
    let is_printed = |message: &str| lines.iter().any(|line| has_parts(line, message));
    let quoted = |page: PathBuf| {
        let page_blocks = blocks(&read(&page)).into_iter();
        let messages = page_blocks.filter(|block| block.is("text", "message"));
        messages.map(move |block| (page.display().to_string(), block.text.trim_end().to_owned()))
    };
    let messages: Vec<_> = manual().into_iter().flat_map(quoted).collect();
    assert!(messages.len() > 50, "{} messages", messages.len());
    let wrong: Vec<_> = messages.iter().filter(|(_, message)| !is_printed(message)).collect();
    assert!(wrong.is_empty(), "the program prints none of these:\n{wrong:#?}");
}

#[test]
fn a_message_is_compared_but_for_what_differs() {
    let source = joined("\"no key \\\n    for {name}: \\\"{why}\\\" in {{}}\"\nx");
    let line = source.lines().next().unwrap();
    assert_eq!(line, "\"no key for {name}: \"{why}\" in {}\"");
    assert!(has_parts(line, "no key for ...: \"...\" in {}"));
    assert!(!has_parts(line, "no key for ...; ..."));
    assert!(!has_parts(line, "in ... no key"));
}
