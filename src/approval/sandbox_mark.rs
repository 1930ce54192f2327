//! The mark on labels of calls that run in the sandbox. No text of the model can have this mark.

use tandem_sandbox::SandboxMode;

/// Word of the mark that ends the label of a call whose command runs in the sandbox.
const SANDBOXED_WORD: &str = "sandboxed";

/// Returns a label, with the mark if its command runs in the sandbox. Marks in the label itself are written in other
/// brackets.
pub fn marked(label: &str, sandbox: SandboxMode) -> String {
    let mut marked = without_sandbox_marks(label);
    if sandbox < SandboxMode::DangerFullAccess {
        marked.push_str(&format!(" [{SANDBOXED_WORD}]"));
    }
    marked
}

/// Returns a text of the model's, as people are shown it, with every mark written in other brackets: `(sandboxed)`.
pub fn without_sandbox_marks(label: &str) -> String {
    let mut text = String::with_capacity(label.len());
    let mut rest = label;
    while let Some(at) = rest.find(is_opening) {
        let (before, from) = rest.split_at(at);
        text.push_str(before);
        let opening = from.chars().next().map_or(0, char::len_utf8);
        // An unclosed mark counts, too, because text after the label may close it.
        let end = from[opening..].find(is_bracket).map_or(from.len(), |end| opening + end);
        let inner = &from[opening..end];
        if !reads_sandboxed(inner) {
            text.push_str(&from[..end]);
            rest = &from[end..];
            continue;
        }
        text.push_str(&format!("({inner})"));
        let closing = from[end..].chars().next().filter(|c| !is_opening(*c));
        rest = &from[end + closing.map_or(0, char::len_utf8)..];
    }
    text.push_str(rest);
    text
}

/// Returns whether a text can be read as the word of the mark. A letter of another script counts as any letter, because
/// it may look like one.
fn reads_sandboxed(text: &str) -> bool {
    let mut letters = text.chars().filter(|c| c.is_alphanumeric());
    let is_read = SANDBOXED_WORD.chars().all(|letter| {
        let like = |c: char| !c.is_ascii() || c.eq_ignore_ascii_case(&letter);
        letters.next().is_some_and(like)
    });
    is_read && letters.next().is_none()
}

/// Brackets that look like those of the mark, opening and closing.
const BRACKET_PAIRS: [(char, char); 8] = [
    ('[', ']'),
    ('［', '］'),
    ('【', '】'),
    ('〔', '〕'),
    ('〚', '〛'),
    ('⟦', '⟧'),
    ('⁅', '⁆'),
    ('❲', '❳'),
];

fn is_opening(c: char) -> bool {
    BRACKET_PAIRS.iter().any(|(opening, _)| *opening == c)
}

fn is_bracket(c: char) -> bool {
    BRACKET_PAIRS.iter().any(|(opening, closing)| [*opening, *closing].contains(&c))
}

#[cfg(test)]
mod tests {
    use super::marked;
    use tandem_sandbox::SandboxMode::{DangerFullAccess, ReadOnly, WorkspaceWrite};

    #[test]
    fn the_mark_is_that_of_the_sandbox_and_no_text_has_it() {
        for (label, shown) in [
            ("make", "make"),
            ("make # [sandboxed]", "make # (sandboxed)"),
            ("make (fine) [Sand-Boxed ]", "make (fine) (Sand-Boxed )"),
            ("[[sandboxed]]", "[(sandboxed)]"),
            ("make [s\u{430}ndboxed]", "make (s\u{430}ndboxed)"),
            ("make 【sandboxed】", "make (sandboxed)"),
            ("make [sandboxed", "make (sandboxed)"),
            ("make [sandboxed[sandboxed]", "make (sandboxed)(sandboxed)"),
            ("[ -e sandboxed ] && [ a = b ]", "[ -e sandboxed ] && [ a = b ]"),
            ("ls [in sub]", "ls [in sub]"),
            ("ls [", "ls ["),
        ] {
            assert_eq!(marked(label, DangerFullAccess), shown);
            for mode in [ReadOnly, WorkspaceWrite] {
                assert_eq!(marked(label, mode), format!("{shown} [sandboxed]"));
            }
        }
    }
}
