//! A conversation as Markdown.

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag};

use super::conversation::{CallBody, Conversation, Passage, is_harmless, status_word};
use tandem_content::visible::visible_prose;

/// Returns the conversation as Markdown. HTML and images in the conversation are shown as text.
pub fn to_markdown(conversation: &Conversation) -> String {
    let [id, directory, day, turns] = conversation.facts();
    let mut out = format!(
        "# {}\n\n{}, {}, {day}, {turns}\n",
        literal(conversation.heading()),
        code(&id),
        code(&directory)
    );
    let mut is_first = true;
    for passage in &conversation.passages {
        out.push('\n');
        match passage {
            Passage::Prompt(text) => {
                if !std::mem::take(&mut is_first) {
                    out.push_str("---\n\n");
                }
                add_quoted(&mut out, &harmless(text));
            }
            Passage::Answer(text) => add_text(&mut out, &harmless(text)),
            Passage::Note(text) => add_quoted(&mut out, &format!("Note: {}", harmless(text))),
            Passage::Call(call) => {
                let status = status_word(call.status);
                out.push_str(&format!("**{}**: {status}\n", literal(&call.label)));
                match &call.body {
                    Some(CallBody::Markdown(text)) => {
                        out.push('\n');
                        add_text(&mut out, &harmless(text));
                    }
                    Some(CallBody::Plain(text)) => add_fenced(&mut out, "text", text),
                    Some(CallBody::Diff(text)) => add_fenced(&mut out, "diff", text),
                    None => {}
                }
            }
        }
    }
    visible_prose(&out).into_owned()
}

fn add_text(out: &mut String, text: &str) {
    out.push_str(text.trim_end().trim_start_matches('\n'));
    out.push('\n');
}

/// Adds a text as a quotation. The quotation also closes all blocks that the text leaves open.
fn add_quoted(out: &mut String, text: &str) {
    for line in text.trim().lines() {
        out.push_str(format!("> {line}").trim_end());
        out.push('\n');
    }
}

fn add_fenced(out: &mut String, language: &str, text: &str) {
    let fence = "`".repeat(longest_run(text).max(2) + 1);
    out.push_str(&format!("\n{fence}{language}\n{}\n{fence}\n", text.trim_end()));
}

/// Returns the length of the longest run of backticks.
fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

/// Returns plain text as inline code.
fn code(text: &str) -> String {
    let fence = "`".repeat(longest_run(text) + 1);
    let space = if text.contains('`') { " " } else { "" };
    format!("{fence}{space}{}{space}{fence}", text.replace('\n', " "))
}

/// Returns plain text as one line of Markdown that shows exactly this text.
fn literal(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '\n' => out.push(' '),
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '#' | '!' | '|' | '~' | '&' | '$' => {
                out.extend(['\\', c]);
            }
            c => out.push(c),
        }
    }
    out
}

/// Returns Markdown that is not trusted in a harmless form. HTML, images, and links that lead to no page are shown as
/// text, so that a viewer of the document loads nothing. A code block that is left open is closed, so that the text
/// after it is not part of it.
fn harmless(markdown: &str) -> String {
    let mut escaped: Vec<usize> = Vec::new();
    let mut open = None;
    for (event, range) in Parser::new_ext(markdown, Options::empty()).into_offset_iter() {
        match event {
            Event::Html(_) | Event::InlineHtml(_) => {
                let tags = markdown[range.clone()].match_indices('<');
                escaped.extend(tags.map(|(at, _)| range.start + at));
            }
            Event::Start(Tag::Image { .. }) => escaped.push(range.start),
            Event::Start(Tag::Link { dest_url, .. })
                if dest_url.contains(':') && !is_harmless(&dest_url) =>
            {
                escaped.push(range.start);
            }
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(_))) => {
                open = open_fence(&markdown[range]);
            }
            _ => {}
        }
    }
    escaped.sort_unstable();
    escaped.dedup();
    let mut out = String::with_capacity(markdown.len() + escaped.len());
    let mut from = 0;
    for at in escaped {
        out.push_str(&markdown[from..at]);
        out.push('\\');
        from = at;
    }
    out.push_str(&markdown[from..]);
    if let Some(fence) = open {
        out.push_str(&format!("\n{fence}"));
    }
    out
}

/// Returns the fence that closes a code block; `None` if the block is closed.
fn open_fence(block: &str) -> Option<String> {
    let mark = block.chars().next()?;
    let length = block.chars().take_while(|c| *c == mark).count();
    let fence = mark.to_string().repeat(length);
    let last = block.trim_end().lines().next_back().unwrap_or_default().trim();
    let is_closed = block.trim_end().lines().count() > 1
        && last.len() >= length
        && last.chars().all(|c| c == mark);
    (!is_closed).then_some(fence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn html_and_images_of_others_are_text() {
        let check = |markdown: &str, expected: &str| assert_eq!(harmless(markdown), expected);
        check("a <b>x</b> `<i>`", "a \\<b>x\\</b> `<i>`");
        check("<script>\nalert(1)\n</script>\n", "\\<script>\nalert(1)\n\\</script>\n");
        check("![x](http://host/y)", "\\![x](http://host/y)");
        check("**bold** [x](y)", "**bold** [x](y)");
        check("1 < 2 & 3", "1 < 2 & 3");
        check("[x](javascript:y) <data:z>", "\\[x](javascript:y) \\<data:z>");
    }

    #[test]
    fn a_code_block_that_is_left_open_is_closed() {
        let check = |markdown: &str, expected: &str| assert_eq!(harmless(markdown), expected);
        check("```rust\nfn", "```rust\nfn\n```");
        check("~~~~\n~~~\n", "~~~~\n~~~\n\n~~~~");
        check("```\nx\n```\n", "```\nx\n```\n");
        check("```\nx\n```\nafter", "```\nx\n```\nafter");
    }

    #[test]
    fn plain_text_stays_what_it_is() {
        assert_eq!(literal("a *b* <c>\n# d"), "a \\*b\\* \\<c\\> \\# d");
        assert_eq!(code("a`b"), "`` a`b ``");
        let mut out = String::new();
        add_fenced(&mut out, "text", "```\nx\n````\n");
        assert_eq!(out, "\n`````text\n```\nx\n````\n`````\n");
    }
}
