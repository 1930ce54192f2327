//! An edit where the file is not quite what the model believes: its change is made, and what it
//! did not mean to change stays as it is in the file.

use std::collections::HashMap;
use std::hash::Hash;
use std::ops::Range;
use std::time::{Duration, Instant};

use similar::{Algorithm, DiffOp, capture_diff_slices_deadline};

use crate::text::TextEdit;

/// Time to compare lines.
const COMPARING: Duration = Duration::from_secs(1);

/// A longer indentation is not carried over to other lines.
const MAX_INDENT: usize = 256;

/// Puts `new` in place of what was found for `old` at `range`.
pub(super) fn edit(text: &str, range: Range<usize>, old: &str, new: &str) -> TextEdit<'static> {
    let in_line = |c: char| c.is_whitespace() && c != '\n';
    let before = text[..range.start].trim_end_matches(in_line);
    let after = text[range.end..].trim_start_matches(in_line);
    let whole_lines = (before.is_empty() || before.ends_with('\n'))
        && (after.is_empty() || after.starts_with('\n'));
    if whole_lines {
        let end = text.len() - after.len();
        return edit_lines(text, before.len()..end, old, new);
    }
    // The white space around it is the file's.
    let core = old.trim();
    let at = old.len() - old.trim_start().len();
    let (head, tail) = (&old[..at], &old[at + core.len()..]);
    let new = new.strip_prefix(head).unwrap_or_else(|| new.trim_start());
    let new = new.strip_suffix(tail).unwrap_or_else(|| new.trim_end());
    let merged = merge(&split(core), &split(&text[range.clone()]), &split(new));
    TextEdit { range, new: merged.join("\n").into() }
}

fn edit_lines(text: &str, mut range: Range<usize>, old: &str, new: &str) -> TextEdit<'static> {
    let ours = split(&text[range.clone()]);
    let (base, theirs): (Vec<_>, Vec<_>) = (lines(old).collect(), lines(new).collect());
    let (more_base, more_theirs) = surplus(ours.first(), base.iter(), theirs.iter());
    let (base, theirs) = (&base[more_base..], &theirs[more_theirs..]);
    let (more_base, more_theirs) = surplus(ours.last(), base.iter().rev(), theirs.iter().rev());
    let base = &base[..base.len() - more_base];
    let theirs = &theirs[..theirs.len() - more_theirs];
    let lines = merge(base, &ours, theirs);
    let mut merged = lines.join("\n");
    if !old.ends_with('\n') {
        // What follows in the file is the rest of its last line.
        merged.push_str(if new.ends_with('\n') { "\n" } else { "" });
    } else if text[range.end..].starts_with('\n') {
        // Whole lines stay whole lines, and lines that are taken out leave nothing behind.
        range.end += 1;
        merged.push_str(if lines.is_empty() { "" } else { "\n" });
    }
    TextEdit { range, new: merged.into() }
}

/// The lines of a text, without their ends.
pub(super) fn lines(text: &str) -> impl Iterator<Item = &str> {
    let body = text.strip_suffix('\n').unwrap_or(text);
    (!text.is_empty()).then(|| body.split('\n')).into_iter().flatten()
}

fn split(text: &str) -> Vec<&str> {
    text.split('\n').collect()
}

/// Returns the number of lines to leave out at one end of the model's old and of its new text:
/// blank ones, where the file has something.
fn surplus<'a>(
    ours: Option<&&str>,
    base: impl Iterator<Item = &'a &'a str>,
    theirs: impl Iterator<Item = &'a &'a str>,
) -> (usize, usize) {
    if ours.is_none_or(|line| line.trim().is_empty()) {
        return (0, 0);
    }
    let more = base.take_while(|line| line.trim().is_empty()).count();
    (more, theirs.take(more).take_while(|line| line.trim().is_empty()).count())
}

/// Lines of what the model believes, and what the file has there.
struct AlignedBlock {
    base: Range<usize>,
    ours: Range<usize>,
    /// `true` if the model leaves them as they are.
    kept: bool,
}

/// The lines of the file (`ours`) with the change that leads from `base` to `theirs`.
fn merge(base: &[&str], ours: &[&str], theirs: &[&str]) -> Vec<String> {
    let ops = compare(base, theirs);
    let blocks = blocks(base, ours, &kept_lines(base.len(), &ops));
    let mut indents = HashMap::new();
    let mut stays = vec![false; base.len()];
    for block in blocks.iter().rev() {
        learn_indent(&mut indents, block, base, ours);
        stays[block.base.clone()].fill(block.kept);
    }
    let mut merged = Vec::new();
    let mut rest = blocks.iter().peekable();
    for op in ops {
        let mut added = op.new_range();
        for line in op.old_range() {
            while let Some(block) = rest.next_if(|block| block.base.start <= line) {
                learn_indent(&mut indents, block, base, ours);
                merged.extend(from_file(block, ours));
            }
            if let DiffOp::Equal { .. } = op
                && let Some(same) = added.next()
                && !stays[line]
            {
                merged.push(reindent(theirs[same], &indents));
            }
        }
        merged.extend(added.map(|line| reindent(theirs[line], &indents)));
    }
    merged.extend(rest.flat_map(|block| from_file(block, ours)));
    merged
}

fn from_file(block: &AlignedBlock, ours: &[&str]) -> impl Iterator<Item = String> {
    let lines = if block.kept { block.ours.clone() } else { 0..0 };
    ours[lines].iter().map(|line| (*line).to_owned())
}

fn compare<T: Ord + Hash>(old: &[T], new: &[T]) -> Vec<DiffOp> {
    capture_diff_slices_deadline(Algorithm::Myers, old, new, Some(Instant::now() + COMPARING))
}

/// For each line of the base, where it is in the model's new text.
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

/// Pairs of equal lines of the base and of the file.
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
        // What only the file has stays together with a neighbour that stays.
        let before = base.start.checked_sub(1).and_then(|line| kept[line]);
        before.or_else(|| kept.get(base.end).copied().flatten()).is_some()
    };
    let block = |(base, ours): (Range<usize>, Range<usize>)| {
        let kept = if base.is_empty() { near_kept(&base) } else { is_kept(&base) };
        AlignedBlock { base, ours, kept }
    };
    blocks.into_iter().map(block).collect()
}

/// Remembers how the file indents what the model indents otherwise.
fn learn_indent<'a>(
    indents: &mut HashMap<&'a str, &'a str>,
    block: &AlignedBlock,
    base: &[&'a str],
    ours: &[&'a str],
) {
    let (Some(base), Some(ours)) =
        (base[block.base.clone()].first(), ours[block.ours.clone()].first())
    else {
        return;
    };
    let blank = base.trim().is_empty() || ours.trim().is_empty();
    if !blank && indent(base).len().max(indent(ours).len()) <= MAX_INDENT {
        indents.insert(indent(base), indent(ours));
    }
}

/// A line of the model's, indented as the file is.
fn reindent(line: &str, indents: &HashMap<&str, &str>) -> String {
    let own = indent(line);
    if own.len() == line.len() || own.len() > MAX_INDENT {
        return line.to_owned();
    }
    let said = &line[own.len()..];
    let known = |end: usize| own.get(..end).and_then(|key| indents.get_key_value(key));
    if let Some((key, file)) = (0..=own.len()).rev().find_map(known) {
        return format!("{file}{}{said}", translate(&own[key.len()..], key, file));
    }
    // Less indented than anything that is known.
    let deeper = indents.iter().filter(|(key, _)| key.starts_with(own));
    let less = deeper.min_by_key(|(key, _)| (key.len(), **key)).and_then(|(key, file)| {
        file.strip_suffix(translate(&key[own.len()..], key, file).as_str())
    });
    format!("{}{said}", less.unwrap_or(own))
}

/// More indentation in the file's characters: `key` of the model's is `file` of the file's.
fn translate(more: &str, key: &str, file: &str) -> String {
    let only = |text: &str, c: char| text.chars().all(|other| other == c);
    let (Some(from), Some(to)) = (key.chars().next(), file.chars().next()) else {
        return more.to_owned();
    };
    let uniform = only(key, from) && only(more, from) && only(file, to);
    let wide = more.len() * file.len();
    if from == to || !uniform || !wide.is_multiple_of(key.len()) {
        return more.to_owned();
    }
    String::from(to).repeat(wide / key.len())
}

fn indent(line: &str) -> &str {
    &line[..line.len() - line.trim_start().len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `found` is what the file has where the model believes `old` to be.
    fn check(found: &str, old: &str, new: &str, expected: &str) {
        let edit = edit(found, 0..found.trim_end_matches('\n').len(), old, new);
        let rest = &found[edit.range.end..];
        assert_eq!(format!("{}{}{rest}", &found[..edit.range.start], edit.new), expected);
    }

    #[test]
    fn new_lines_are_indented_like_the_file() {
        check("\t\ta();\n", "a();\n", "a();\nb();\n", "\t\ta();\n\t\tb();\n");
        check("  a {\n  }\n", "a {\n}\n", "a {\n  b\n}\n", "  a {\n    b\n  }\n");
        check("a {\n}\n", "    a {\n    }\n", "    a {\n      b\n    }\nc\n", "a {\n  b\n}\nc\n");
    }

    #[test]
    fn spaces_become_tabs_where_the_file_has_tabs() {
        check(
            "\tif a {\n\t}\n",
            "    if a {\n    }\n",
            "    if a {\n        b\n    }\n",
            "\tif a {\n\t\tb\n\t}\n",
        );
        check("    a\n", "\ta\n", "\ta\n\t\tb\nc\n", "    a\n        b\nc\n");
    }

    #[test]
    fn lines_that_the_model_leaves_alone_stay_as_the_file_has_them() {
        check("  a  \n\tb\nc\n", "a\nb\nc\n", "a\nb\nd\n", "  a  \n\tb\nd\n");
        check("one(1)\ntwo()\n", "one(2)\ntwo()\n", "one(2)\nthree()\n", "one(1)\nthree()\n");
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
        check("  f( a )\n", "\nf(a)\n\n", "\ng(a)\n\n", "  g(a)\n");
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
        check(" a\nb\n", "a\nb\n", "", "");
        check(" a\n", "a\n", "c", " c\n");
        check(" a", "a\n", "c\n", " c");
        check(" a\n", "a", "c\n", " c\n\n");
        let text = " a\n\nb\n";
        let edit = edit(text, 0..3, "a\n\n", "c\n\n");
        assert_eq!((edit.range, edit.new.as_ref()), (0..4, " c\n\n"));
    }

    #[test]
    fn a_part_of_a_line_is_replaced_within_the_line() {
        let text = "x = f( a ) + 1;\n";
        let made = |old, new| edit(text, 4..10, old, new).new.into_owned();
        assert_eq!(made("f(a)", "g(a)"), "g(a)");
        assert_eq!(made(" f(a) ", " g(a) "), "g(a)");
        assert_eq!(made("f(a)\n", "g(a,\n  b)\n"), "g(a,\n  b)");
        assert_eq!(made("f(a)", "g(a)\n"), "g(a)\n");
        assert_eq!(made("f(a)", ""), "");
    }
}
