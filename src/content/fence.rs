//! Plain text in a Markdown fence.

/// Returns plain text as a Markdown code block. Its fence is longer than any run of backticks in the text, so the text
/// cannot end the block.
pub fn fence(text: &str, language: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    format!("{fence}{language}\n{text}{end}{fence}")
}

#[cfg(test)]
mod tests {
    use super::fence;

    #[test]
    fn a_fence_is_longer_than_any_in_the_text() {
        assert_eq!(fence("a\n", ""), "```\na\n```");
        assert_eq!(fence("no end", "sh"), "```sh\nno end\n```");
        assert_eq!(fence("````\nx", ""), "`````\n````\nx\n`````");
        assert_eq!(fence("", ""), "```\n```");
    }
}
