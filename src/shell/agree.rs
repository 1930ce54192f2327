//! The second reading of a line: tree-sitter's grammar, written by others, must find no command that the first reading
//! did not.

use std::collections::HashSet;
use std::ops::Range;

use tree_sitter::{Node, Parser};

/// Returns whether tree-sitter reads the text without errors, and finds commands and redirections only at the offsets
/// `begins`, or within the ranges `apart`, which are read by themselves.
pub(super) fn agrees(text: &str, begins: &HashSet<usize>, apart: &[Range<usize>]) -> bool {
    let mut parser = Parser::new();
    if parser.set_language(&tree_sitter_bash::LANGUAGE.into()).is_err() {
        return false;
    }
    let Some(tree) = parser.parse(plain(text), None) else { return false };
    if tree.root_node().has_error() {
        return false;
    }
    let mut apart = apart.to_vec();
    apart.sort_by_key(|range| range.start);
    let is_apart = |at: usize| {
        let before = apart.partition_point(|range| range.start <= at);
        before > 0 && apart[before - 1].contains(&at)
    };
    let mut cursor = tree.walk();
    loop {
        if let Some(begin) = begin(cursor.node())
            && !begins.contains(&begin)
            && !is_apart(begin)
        {
            return false;
        }
        if cursor.goto_first_child() {
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return true;
            }
        }
    }
}

/// Returns the text with a `%` for each byte that is not ASCII. Bash takes such bytes as parts of words, as it takes
/// `%`. The grammar's scanner, in C, looks some characters up in a table of 256 entries; what it reads behind the end
/// of the table may end the process.
fn plain(text: &str) -> Vec<u8> {
    text.bytes().map(|byte| if byte.is_ascii() { byte } else { b'%' }).collect()
}

/// Returns the offset at which the command or redirection of a node begins.
fn begin(node: Node<'_>) -> Option<usize> {
    match node.kind() {
        "command_name" | "declaration_command" | "unset_command" | "test_command" => {
            Some(node.start_byte())
        }
        "file_redirect" | "heredoc_redirect" | "herestring_redirect" => {
            let descriptor = node.child_by_field_name("descriptor");
            Some(descriptor.map_or(node.start_byte(), |descriptor| descriptor.end_byte()))
        }
        _ => None,
    }
}
