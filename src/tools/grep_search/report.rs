//! Report of a search, for the model and for people.

use std::fmt::Write as _;

use super::hunt::SearchMatches;
use super::lines::{FileLine, FileMatches};
use crate::target::LABEL_CHARS;
use tandem_content::shorten::one_line;
use tandem_host::workspace::Workspace;
use tandem_host::{ToolLimits, ToolOutput};

/// The properties of a search that its report names.
pub(super) struct SearchSummary {
    pub(super) pattern: String,
    pub(super) include: Option<String>,
    pub(super) place: String,
    pub(super) names_only: bool,
    pub(super) timed_out: bool,
}

/// Returns the report of a search.
pub(super) fn report(
    search: &SearchSummary,
    hits: &SearchMatches,
    workspace: &Workspace,
    limits: &ToolLimits,
) -> ToolOutput {
    let found = count(search, hits);
    let filter = search.include.as_ref().map(|glob| format!(" (filter: \"{glob}\")"));
    let of = format!(
        "for pattern \"{}\" in path \"{}\"{}",
        one_line(&search.pattern, LABEL_CHARS),
        search.place,
        filter.unwrap_or_default(),
    );
    let mut text = match hits.matches {
        0 => format!("No matches found {of}.\n"),
        _ if search.names_only => format!("{found} with matches {of}:\n"),
        _ => format!("{found} {of}:\n"),
    };
    if !search.names_only && hits.matches > 0 {
        text += "---\n";
    }
    let mut left_out = 0;
    for (path, lines) in &hits.files {
        let name = one_line(&workspace.relative(path), usize::MAX);
        let section = if search.names_only { format!("{name}\n") } else { section(&name, lines) };
        // After the first file that does not fit, all others are left out, too: the files that are shown have no gaps.
        if left_out > 0 || text.len() + section.len() > limits.output_chars {
            if left_out == 0 && !search.names_only {
                text += begin(&section, limits.output_chars.saturating_sub(text.len()));
            }
            left_out += 1;
            continue;
        }
        text += &section;
    }
    for note in notes(hits, left_out, search, limits) {
        let _ = writeln!(text, "({note})");
    }
    let limited = if hits.more || search.timed_out { " (limited)" } else { "" };
    ToolOutput::new(text.trim_end(), format!("{found}{limited}"))
}

/// Returns the number of matches or files in words: `Found 2 matches`.
fn count(search: &SearchSummary, hits: &SearchMatches) -> String {
    match (hits.matches, search.names_only) {
        (0, _) => "No matches found".to_owned(),
        (1, false) => "Found 1 match".to_owned(),
        (n, false) => format!("Found {n} matches"),
        (1, true) => "Found 1 file".to_owned(),
        (n, true) => format!("Found {n} files"),
    }
}

fn section(name: &str, lines: &FileMatches) -> String {
    let line = |FileLine { number, matches, text }: &FileLine| {
        let mark = if *matches { ':' } else { '-' };
        format!("L{number}{mark} {text}\n")
    };
    let lines: String = lines.kept.iter().map(line).collect();
    format!("File: {name}\n{lines}---\n")
}

/// Returns the first whole lines of a section, in at most `room` bytes; nothing if only the heading would fit.
fn begin(section: &str, room: usize) -> &str {
    let room = section.floor_char_boundary(room.min(section.len()));
    let end = section[..room].rfind('\n').map_or(0, |at| at + 1);
    if section[..end].lines().count() > 1 { &section[..end] } else { "" }
}

/// Returns a note for each reason for which the result may be incomplete.
fn notes(
    hits: &SearchMatches,
    left_out: usize,
    search: &SearchSummary,
    limits: &ToolLimits,
) -> Vec<String> {
    let mut notes = Vec::new();
    if left_out > 0 {
        notes.push(format!(
            "The matches in the last {left_out} file(s) are not or not all shown: the answer \
             would be longer than {} characters. Search for less, or with names_only.",
            limits.output_chars
        ));
    }
    if hits.more {
        let what = if search.names_only { "files" } else { "matches" };
        notes.push(format!("There may be more {what}: total_max_matches was reached."));
    }
    let cut = hits.files.iter().filter(|(_, lines)| lines.more).count();
    if cut > 0 && !hits.more && !search.names_only {
        notes.push(format!("{cut} file(s) have more: max_matches_per_file was reached."));
    }
    if search.timed_out {
        let seconds = limits.search_time.as_secs();
        notes.push(format!("The search was ended after {seconds} s: there may be more."));
    }
    if hits.unreadable > 0 {
        notes.push(format!("{} file(s) or directories could not be read.", hits.unreadable));
    }
    if hits.secret > 0 {
        notes.push(format!(
            "{} file(s) that may hold secrets were not searched; one that is named in dir_path is, \
             once the user allows it.",
            hits.secret
        ));
    }
    notes
}
