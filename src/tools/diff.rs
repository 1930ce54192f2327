//! What changed between two texts, for a model to read.

use std::fmt::Write as _;
use std::time::Duration;

use similar::TextDiff;

use super::Limits;
use super::text::normalise;

/// Lines that are shown around each change.
const CONTEXT: usize = 5;

/// How long two texts may be compared before an approximation will do.
const COMPARING: Duration = Duration::from_secs(2);

/// A unified diff without file names, cut to the limits. Line endings do not count.
pub(super) fn unified(old: &str, new: &str, limits: &Limits) -> String {
    unified_within(COMPARING, old, new, limits)
}

/// The same, in that time about.
pub(super) fn unified_within(time: Duration, old: &str, new: &str, limits: &Limits) -> String {
    let (old, new) = (normalise(old), normalise(new));
    let lines = |text| str::split_inclusive(text, '\n').collect::<Vec<_>>();
    let diff = TextDiff::configure()
        .timeout(time)
        .newline_terminated(true)
        .diff_slices(&lines(&old), &lines(&new));
    let mut shown = String::new();
    for hunk in diff.unified_diff().context_radius(CONTEXT).iter_hunks() {
        // What is written to a string is written.
        let _ = writeln!(shown, "{}", hunk.header());
        for change in hunk.iter_changes() {
            if shown.len() > limits.output_chars / 2 {
                shown.push_str("[the rest of the diff is left out]\n");
                return shown;
            }
            let line = cut(change.value().trim_end_matches('\n'), limits.line_chars);
            let _ = writeln!(shown, "{}{line}", change.tag());
            if change.missing_newline() {
                shown.push_str("\\ No newline at end of file\n");
            }
        }
    }
    shown
}

/// A line of at most so many characters.
pub(super) fn cut(line: &str, chars: usize) -> String {
    match line.char_indices().nth(chars) {
        Some((at, _)) => format!("{}... [truncated]", &line[..at]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(old: &str, new: &str, expected: &str) {
        let limits = Limits { line_chars: 8, output_chars: 200, ..Limits::default() };
        assert_eq!(unified(old, new, &limits), expected);
    }

    #[test]
    fn five_lines_around_a_change_are_shown() {
        check(
            "1\n2\n3\n4\n5\n6\n7\n8\n",
            "1\n2\n3\n4\n5\n6\nx\n8\n",
            "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n 5\n 6\n-7\n+x\n 8\n",
        );
        check("", "a\n", "@@ -0,0 +1 @@\n+a\n");
    }

    #[test]
    fn a_missing_newline_at_the_end_is_said() {
        check("a\n", "a", "@@ -1 +1 @@\n-a\n+a\n\\ No newline at end of file\n");
    }

    #[test]
    fn line_endings_are_no_change() {
        check("a\r\nb\r\n", "a\nb\n", "");
    }

    #[test]
    fn long_lines_and_long_diffs_are_cut() {
        check(
            "",
            "123456789",
            "@@ -0,0 +1 @@\n+12345678... [truncated]\n\\ No newline at end of file\n",
        );
        let many = "line\n".repeat(100);
        let limits = Limits { output_chars: 100, ..Limits::default() };
        let shown = unified("", &many, &limits);
        assert!(shown.ends_with("+line\n[the rest of the diff is left out]\n"), "{shown}");
        assert!(shown.len() < 120);
    }
}
