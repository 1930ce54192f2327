//! Check for placeholders in place of code left out: written to a file, a placeholder would delete that code.

use std::collections::HashSet;
use std::sync::LazyLock;

use regex::Regex;

use tandem_host::ToolError;

/// Maximum length of a placeholder, in bytes: a longer line says more than a placeholder does.
const MAX_PLACEHOLDER_BYTES: usize = 120;

/// Refuses a text in which a line is a placeholder, unless `old` has the same line.
pub(super) fn check(old: &str, new: &str) -> Result<(), ToolError> {
    let mut lines = new.lines().enumerate().filter(|(_, line)| is_placeholder(line)).peekable();
    if lines.peek().is_none() {
        return Ok(());
    }
    let known: HashSet<&str> = old.lines().map(str::trim).collect();
    let Some((index, line)) = lines.find(|(_, line)| !known.contains(line.trim())) else {
        return Ok(());
    };
    Err(ToolError::new(
        "omission_placeholder",
        format!(
            "Nothing was written: line {} stands for text that was left out (`{}`), and that text \
             would be lost. Give the text in full. If the line is really meant to be there, word \
             it differently.",
            index + 1,
            line.trim()
        ),
    ))
}

/// Returns whether a line is a comment or in brackets, and says that text is left out in its place.
fn is_placeholder(line: &str) -> bool {
    let line = line.trim();
    if line.len() > MAX_PLACEHOLDER_BYTES {
        return false;
    }
    let Some(said) = comment(line) else { return false };
    let said = said.to_lowercase().replace('\u{2026}', "...");
    let bare = said.trim_matches(|c: char| c.is_whitespace() || ".()[]".contains(c));
    // In Markdown, "unchanged" alone may be a heading or an item of a list.
    if bare == "unchanged" && !line.starts_with(['#', '*', '-']) {
        return true;
    }
    // Dots hint at missing text, so weaker words suffice beside them. Without dots, the words themselves must say it.
    PLAIN_PLACEHOLDER.is_match(bare) || (said.contains("...") && DOTTED_PLACEHOLDER.is_match(bare))
}

/// Returns the words of a line that is wholly a comment, is wholly in brackets, or begins with dots.
fn comment(line: &str) -> Option<&str> {
    const COMMENT_OPENINGS: [&str; 9] = ["{/*", "<!--", "/*", "//", "#", "--", ";", "%", "*"];
    const COMMENT_CLOSINGS: [&str; 3] = ["*/}", "-->", "*/"];
    if let Some(said) = COMMENT_OPENINGS.iter().find_map(|mark| line.strip_prefix(mark)) {
        let said = said.trim_start_matches(['/', '#', '-', '*', ';', '!', ' ']);
        return Some(
            COMMENT_CLOSINGS.iter().find_map(|mark| said.strip_suffix(mark)).unwrap_or(said),
        );
    }
    let within = |open, close| line.starts_with(open) && line.ends_with(close);
    (within('(', ')') || within('[', ']') || line.starts_with("...")).then_some(line)
}

/// Phrases that say without dots that text is left out.
static PLAIN_PLACEHOLDER: LazyLock<Regex> = LazyLock::new(|| {
    whole(&[
        format!("{REST_PATTERN} ({STAYS_PATTERN} )?{SAME_PATTERN}( here)?"),
        format!(
            "({KEPT_PATTERN} )?{CODE_PATTERN} ({STAYS_PATTERN} )?(unchanged|omitted for brevity)"
        ),
        "unchanged code( here)?|omitted for brevity".to_owned(),
    ])
});

/// Phrases that say together with dots that text is left out.
static DOTTED_PLACEHOLDER: LazyLock<Regex> = LazyLock::new(|| {
    whole(&[
        format!("{REST_PATTERN}( {STAYS_PATTERN})?( {SAME_PATTERN})?( here)?"),
        format!(
            "(keep )?((the|all|your) )*({KEPT_PATTERN} )+{PARTS_PATTERN}( {STAYS_PATTERN})?( {SAME_PATTERN})?( here)?"
        ),
        format!("keep ((the|all|your) )*{PARTS_PATTERN}( {SAME_PATTERN})"),
        format!("{SAME_PATTERN}|same as above|no changes?|snip|{PARTS_PATTERN} omitted"),
    ])
});

const REST_PATTERN: &str =
    "(the )?(rest|remainder)( of ((the|this|your|that) )?([a-z_]+ )?[a-z_]+)?";
const KEPT_PATTERN: &str =
    "(existing|remaining|unchanged|previous|original|other|rest of|same|current)";
const STAYS_PATTERN: &str = "(is|are|remains?|stays?)";
const SAME_PATTERN: &str = "(unchanged|the same|as it is|as is|as before|same as before|omitted)";
const CODE_PATTERN: &str = "(code|file|content|implementation|method|function|class)s?";
const PARTS_PATTERN: &str = "(code|file|content|implementation|method|function|class|import|logic|line|\
    body|field|test|prop|style|rule|item|section|text|variable|route|handler|definition)(e?s)?\
    ( and (code|file|method|function|class|import|test|handler)(e?s)?)?";

/// Compiles a regular expression that matches a whole text if one of the patterns does.
fn whole(patterns: &[String]) -> Regex {
    Regex::new(&format!("^(?:{})$", patterns.join("|"))).expect("the patterns are constants")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clear_placeholders_are_refused() {
        for line in [
            "// rest of code ...",
            "    // ... rest of the code ...",
            "# ... existing code ...",
            "/* unchanged */",
            "// ... unchanged ...",
            "// ... (rest of the file remains the same)",
            "<!-- ... rest of content ... -->",
            "{/* ... existing props ... */}",
            "-- remaining methods unchanged...",
            "(rest of methods ...)",
            "... existing code ...",
            "# rest of the file remains unchanged",
            "// \u{2026} remaining imports and functions \u{2026}",
            "/* code omitted for brevity */",
            "// [existing implementation stays the same...]",
            "// ... keep existing code as is ...",
            "# ... rest of function foo ...",
        ] {
            assert!(check("", &format!("fn a() {{\n{line}\n}}\n")).is_err(), "{line}");
        }
    }

    #[test]
    fn what_people_write_is_not() {
        for line in [
            "// The rest of the file is parsed lazily.",
            "// ...",
            "...",
            "# Existing users keep their settings",
            "let rest = &code[..]; // rest of code",
            "// unchanged since 1998, do not touch",
            "let other = Self { a, ..existing };",
            "The existing code ...",
            "println!(\"... existing code ...\");",
            "// Loading...",
            "# other methods",
            "(see the rest of the code)",
            "// existing code",
            "// Same as above, but for writers",
            "- [ ] rest of the code",
            "## Rest of the code",
            "### Unchanged",
            "// the rest of the code",
        ] {
            assert!(check("", &format!("{line}\n")).is_ok(), "{line}");
        }
    }

    #[test]
    fn a_line_that_was_there_may_stay() {
        assert!(check("a\n// ... existing code ...\n", "b\n  // ... existing code ...\n").is_ok());
    }

    #[test]
    fn the_error_says_which_line() {
        let error = check("", "a\nb\n# ... existing code ...\n").unwrap_err();
        assert!(error.message.contains("line 3"), "{error}");
    }
}
