//! Edits of a file whose white space differs from the model's text. The model's change is made, and all other text
//! stays as it is in the file. New lines keep the indentation that the model gave them, so an edit is accepted only
//! where the model and the file indent alike.
//!
//! As in a three-way merge, `base` is the old text that the model believes to be in the file, `ours` is the text of the
//! file, and `theirs` is the new text of the model.

use std::ops::Range;
use std::time::{Duration, Instant};

use similar::DiffOp;

use tandem_host::compare::{self, TextUnit};
use tandem_host::text::TextEdit;

/// Maximum time to compare lines.
const MAX_COMPARE_TIME: Duration = Duration::from_secs(1);

/// First line that the file indents otherwise than the model believes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct IndentMismatch {
    /// Number of lines between the beginning of the match and this line.
    pub(super) line: usize,
    pub(super) believed: String,
    pub(super) in_file: String,
}

/// Returns the edit that replaces `range`, which matches `old` if white space is ignored, by `new`.
pub(super) fn edit(
    text: &str,
    range: Range<usize>,
    old: &str,
    new: &str,
) -> Result<TextEdit<'static>, IndentMismatch> {
    let in_line = |c: char| c.is_whitespace() && c != '\n';
    let before = text[..range.start].trim_end_matches(in_line);
    let after = text[range.end..].trim_start_matches(in_line);
    // If the old text begins after the indentation of its line, the file's indentation stays.
    let indented = before.len() == range.start
        || lines(old).find(|line| !is_blank(line)).is_some_and(|line| !indent(line).is_empty());
    let whole_lines = indented
        && (before.is_empty() || before.ends_with('\n'))
        && (after.is_empty() || after.starts_with('\n'));
    if whole_lines {
        let end = text.len() - after.len();
        return edit_lines(text, before.len()..end, old, new);
    }
    // The match is part of a line: the white space around it stays as the file has it.
    let core = old.trim();
    let at = old.len() - old.trim_start().len();
    let (head, tail) = (&old[..at], &old[at + core.len()..]);
    let new = new.strip_prefix(head).unwrap_or_else(|| new.trim_start());
    let new = new.strip_suffix(tail).unwrap_or_else(|| new.trim_end());
    let merged = merge(&split(core), &split(&text[range.clone()]), &split(new))?;
    Ok(TextEdit { range, new: merged.join("\n").into() })
}

/// Replaces whole lines.
fn edit_lines(
    text: &str,
    mut range: Range<usize>,
    old: &str,
    new: &str,
) -> Result<TextEdit<'static>, IndentMismatch> {
    let ours = split(&text[range.clone()]);
    let (base, theirs): (Vec<_>, Vec<_>) = (lines(old).collect(), lines(new).collect());
    let (more_base, more_theirs) = surplus(ours.first(), base.iter(), theirs.iter());
    let (base, theirs) = (&base[more_base..], &theirs[more_theirs..]);
    let (more_base, more_theirs) = surplus(ours.last(), base.iter().rev(), theirs.iter().rev());
    let base = &base[..base.len() - more_base];
    let theirs = &theirs[..theirs.len() - more_theirs];
    let lines = merge(base, &ours, theirs)?;
    let mut merged = lines.join("\n");
    if !old.ends_with('\n') {
        // The text after the match is the rest of its last line in the file.
        merged.push_str(if new.ends_with('\n') { "\n" } else { "" });
    } else if text[range.end..].starts_with('\n') {
        // The line break is replaced, too, so that removed lines leave no empty line behind.
        range.end += 1;
        merged.push_str(if lines.is_empty() { "" } else { "\n" });
    }
    Ok(TextEdit { range, new: merged.into() })
}

/// Returns the lines of a text, without their ends.
pub(super) fn lines(text: &str) -> impl Iterator<Item = &str> {
    let body = text.strip_suffix('\n').unwrap_or(text);
    (!text.is_empty()).then(|| body.split('\n')).into_iter().flatten()
}

fn split(text: &str) -> Vec<&str> {
    text.split('\n').collect()
}

/// Returns the numbers of blank lines to leave out at one end of the model's old and of its new text: blank lines that
/// the file does not have there.
fn surplus<'a>(
    ours: Option<&&str>,
    base: impl Iterator<Item = &'a &'a str>,
    theirs: impl Iterator<Item = &'a &'a str>,
) -> (usize, usize) {
    if ours.is_none_or(|line| is_blank(line)) {
        return (0, 0);
    }
    let more = base.take_while(|line| is_blank(line)).count();
    (more, theirs.take(more).take_while(|line| is_blank(line)).count())
}

/// Lines that the model believes to be in the file, and the lines that the file has in their place.
struct AlignedBlock {
    base: Range<usize>,
    ours: Range<usize>,
    /// `true` if the model's change leaves these lines as they are.
    kept: bool,
}

/// Returns the lines of the file (`ours`) with the change that leads from `base` to `theirs`:
///
/// 1. Compares `base` with `theirs`, which gives the model's change.
/// 2. Aligns `base` with `ours`, and refuses lines with another indentation.
/// 3. Goes through the change. Lines that the model leaves alone come from the file, lines that it adds come from
///    `theirs`, and lines that it removes are left out.
fn merge<'t>(
    base: &[&str],
    ours: &[&'t str],
    theirs: &[&'t str],
) -> Result<Vec<&'t str>, IndentMismatch> {
    let ops = compare(base, theirs);
    let blocks = blocks(base, ours, &kept_lines(base.len(), &ops));
    let mut stays = vec![false; base.len()];
    for block in &blocks {
        check_indent(block, base, ours)?;
        stays[block.base.clone()].fill(block.kept);
    }
    let mut merged = Vec::new();
    let mut rest = blocks.iter().peekable();
    for op in ops {
        let mut added = op.new_range();
        for line in op.old_range() {
            while let Some(block) = rest.next_if(|block| block.base.start <= line) {
                merged.extend_from_slice(from_file(block, ours));
            }
            if let DiffOp::Equal { .. } = op
                && let Some(same) = added.next()
                && !stays[line]
            {
                merged.push(theirs[same]);
            }
        }
        merged.extend(added.map(|line| theirs[line]));
    }
    for block in rest {
        merged.extend_from_slice(from_file(block, ours));
    }
    Ok(merged)
}

fn from_file<'a, 't>(block: &AlignedBlock, ours: &'a [&'t str]) -> &'a [&'t str] {
    if block.kept { &ours[block.ours.clone()] } else { &[] }
}

fn compare<T: AsRef<str>>(old: &[T], new: &[T]) -> Vec<DiffOp> {
    compare::compare(TextUnit::Lines, old, new, Instant::now() + MAX_COMPARE_TIME)
}

/// Returns for each line of the base its index in the model's new text; `None` if the new text has no such line.
fn kept_lines(base: usize, ops: &[DiffOp]) -> Vec<Option<usize>> {
    let mut kept = vec![None; base];
    for op in ops {
        if let DiffOp::Equal { old_index, new_index, len } = *op {
            for line in 0..len {
                kept[old_index + line] = Some(new_index + line);
            }
        }
    }
    kept
}

/// Aligns the lines of the base with those of the file, ignoring white space.
fn blocks(base: &[&str], ours: &[&str], kept: &[Option<usize>]) -> Vec<AlignedBlock> {
    let dense = |line: &&str| line.split_whitespace().collect::<String>();
    let keys = |lines: &[&str]| lines.iter().map(dense).collect::<Vec<_>>();
    let mut blocks = Vec::new();
    for op in compare(&keys(base), &keys(ours)) {
        let (base, ours) = (op.old_range(), op.new_range());
        if base.len() == ours.len() {
            blocks.extend(base.zip(ours).map(|(base, ours)| (base..base + 1, ours..ours + 1)));
        } else if ours.is_empty() {
            blocks.extend(base.map(|line| (line..line + 1, ours.clone())));
        } else {
            blocks.push((base, ours));
        }
    }
    let is_kept = |base: &Range<usize>| {
        let in_a_row = |pair: &[Option<usize>]| pair[1] == pair[0].map(|line| line + 1);
        let lines = &kept[base.clone()];
        lines.iter().all(Option::is_some) && lines.windows(2).all(in_a_row)
    };
    let near_kept = |base: &Range<usize>| {
        // Lines that only the file has stay if a neighbouring line stays.
        let before = base.start.checked_sub(1).and_then(|line| kept[line]);
        before.or_else(|| kept.get(base.end).copied().flatten()).is_some()
    };
    let block = |(base, ours): (Range<usize>, Range<usize>)| {
        let kept = if base.is_empty() { near_kept(&base) } else { is_kept(&base) };
        AlignedBlock { base, ours, kept }
    };
    blocks.into_iter().map(block).collect()
}

/// Refuses lines that the file indents otherwise than the model believes: the right indentation of new lines would be
/// unknown.
fn check_indent(block: &AlignedBlock, base: &[&str], ours: &[&str]) -> Result<(), IndentMismatch> {
    let (Some(base), Some(found)) =
        (base[block.base.clone()].first(), ours[block.ours.clone()].first())
    else {
        return Ok(());
    };
    if is_blank(base) || is_blank(found) || indent(base) == indent(found) {
        return Ok(());
    }
    Err(IndentMismatch {
        line: block.ours.start,
        believed: indent(base).to_owned(),
        in_file: indent(found).to_owned(),
    })
}

fn is_blank(line: &str) -> bool {
    line.trim().is_empty()
}

fn indent(line: &str) -> &str {
    &line[..line.len() - line.trim_start().len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `found` is the text that the file has where the model believes `old` to be.
    fn edited(found: &str, old: &str, new: &str) -> Result<String, IndentMismatch> {
        let end = found.trim_end_matches('\n').len();
        let start = found.len() - found.trim_start_matches([' ', '\t']).len();
        let edit = edit(found, start..end, old, new)?;
        let rest = &found[edit.range.end..];
        Ok(format!("{}{}{rest}", &found[..edit.range.start], edit.new))
    }

    fn check(found: &str, old: &str, new: &str, expected: &str) {
        assert_eq!(edited(found, old, new), Ok(expected.to_owned()));
    }

    fn check_refused(found: &str, old: &str, line: usize, believed: &str, in_file: &str) {
        let (believed, in_file) = (believed.to_owned(), in_file.to_owned());
        let mismatch = IndentMismatch { line, believed, in_file };
        for new in ["", "x\n", "  x\n\ty\n", old] {
            let new = format!("{old}{new}");
            assert_eq!(edited(found, old, &new).as_ref(), Err(&mismatch));
        }
    }

    #[test]
    fn lines_with_another_indentation_are_refused() {
        check_refused("\t\ta();\n\t\tb( );\n", "a();\nb();\n", 1, "", "\t\t");
        check_refused("  a {\n  }\n", "    a {\n    }\n", 0, "    ", "  ");
        check_refused("\tif a {\n\t}\n", "    if a {\n    }\n", 0, "    ", "\t");
        check_refused("if a:\n    b\n    c\n", "if a:\n    b\nc\n", 2, "", "    ");
        check_refused("a(\n    b )\n", "a(\n  b)\n", 1, "  ", "    ");
    }

    #[test]
    fn new_lines_are_written_as_they_were_given() {
        check("\ta( );\n", "\ta();\n", "\ta();\n    b();\n", "\ta( );\n    b();\n");
        check("  a {\n  }  \n", "  a {\n  }\n", "  a {\n\tb\n  }\n", "  a {\n\tb\n  }  \n");
    }

    #[test]
    fn a_text_without_the_indentation_of_its_first_line_leaves_that_to_the_file() {
        check("\t\ta( );\n", "a();", "b();", "\t\tb();\n");
        check("  a( );\n", "a();\n", "b();\n", "  b();\n");
        check("  a( );\n  b();\n", "a();\n  b();\n", "c();\n  d();\n", "  c();\n  d();\n");
    }

    #[test]
    fn lines_that_the_model_leaves_alone_stay_as_the_file_has_them() {
        check("  a  \n\tb\nc\n", "  a\n\tb\nc\n", "  a\n\tb\nd\n", "  a  \n\tb\nd\n");
        check("one( 1 )\ntwo()\n", "one(1)\ntwo()\n", "one(1)\nthree()\n", "one( 1 )\nthree()\n");
    }

    #[test]
    fn lines_that_only_the_file_has_stay_beside_a_line_that_stays() {
        check("a\n\nb\nc\n", "a\nb\nc\n", "a\nb\nd\n", "a\n\nb\nd\n");
        check("a\n\nb\nc\n", "a\nb\nc\n", "A\nb\nc\n", "A\n\nb\nc\n");
        check("a\n\nb\nc\n", "a\nb\nc\n", "c\n", "c\n");
    }

    #[test]
    fn lines_that_only_the_model_has_do_not_come_into_the_file() {
        check("a\nb\n", "a\n\nb\n", "a\n\nc\n", "a\nc\n");
        check("  f( a )\n", "\n  f(a)\n\n", "\n  g(a)\n\n", "  g(a)\n");
    }

    #[test]
    fn lines_that_are_broken_otherwise_are_replaced_together() {
        check(
            "  f(a, b)\n",
            "  f(\n    a,\n    b)\n",
            "  g(\n    a,\n    b)\n",
            "  g(\n    a,\n    b)\n",
        );
        check("f(a,\nb)\nc\n", "f(a, b)\nc\n", "f(a, b)\nd\n", "f(a,\nb)\nd\n");
    }

    #[test]
    fn whole_lines_stay_whole_lines() {
        check(" a\nb\n", " a\nb\n", "", "");
        check("\ta \n", "\ta\n", "\tc", "\tc\n");
        check(" a", " a\n", " c\n", " c");
        check(" a \n", " a", " c\n", " c\n\n");
        let text = " a\n\nb\n";
        let edit = edit(text, 0..3, " a\n\n", " c\n\n").unwrap();
        assert_eq!((edit.range, edit.new.as_ref()), (0..4, " c\n\n"));
    }

    #[test]
    fn a_part_of_a_line_is_replaced_within_the_line() {
        let text = "x = f( a ) + 1;\n";
        let made = |old, new| edit(text, 4..10, old, new).unwrap().new.into_owned();
        assert_eq!(made("f(a)", "g(a)"), "g(a)");
        assert_eq!(made(" f(a) ", " g(a) "), "g(a)");
        assert_eq!(made("f(a)\n", "g(a,\n  b)\n"), "g(a,\n  b)");
        assert_eq!(made("f(a)", "g(a)\n"), "g(a)\n");
        assert_eq!(made("f(a)", ""), "");
    }
}
