//! A conversation as one HTML page.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use super::conversation::{CallBody, CallPassage, Conversation, Passage, is_harmless, status_word};
use crate::session::CallStatus;
use tandem_content::visible::visible_prose;

/// The page's only style sheet. The style sheet loads nothing, and the page's content security policy lets nothing be
/// loaded or run.
const STYLE_SHEET: &str = "\
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 50rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: 0; }
.facts, .note { color: #777; font-size: .875rem; }
.prompt { border-left: .25rem solid #48c; background: #48c2; padding: .25rem 1rem; margin: 2rem 0 1rem; }
details { border: 1px solid #8886; border-radius: .25rem; padding: .25rem .75rem; margin: .5rem 0; }
summary { cursor: pointer; font-family: ui-monospace, monospace; font-size: .875rem; overflow-wrap: anywhere; }
summary b { font-weight: normal; color: #777; }
.failed summary b { color: #c33; }
pre { overflow-x: auto; background: #8882; padding: .5rem; font-size: .875rem; }
code { font-family: ui-monospace, monospace; }
ins, del { text-decoration: none; display: block; }
ins { background: #2a42; } pre del { background: #c332; }
table { border-collapse: collapse; } td { border: 1px solid #8886; padding: .125rem .5rem; }
";

/// Returns the conversation as one HTML page that loads nothing. All text of the conversation is escaped.
pub fn to_html(conversation: &Conversation) -> String {
    let title = escaped(conversation.heading());
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>{title}</title>\n<style>\n{STYLE_SHEET}</style>\n</head>\n<body>\n<h1>{title}</h1>\n\
         <p class=\"facts\">{}</p>\n",
        escaped(&conversation.facts().join(", "))
    );
    for passage in &conversation.passages {
        match passage {
            Passage::Prompt(text) => add_block(&mut out, "prompt", text),
            Passage::Answer(text) => add_block(&mut out, "answer", text),
            Passage::Note(text) => add_block(&mut out, "note", text),
            Passage::Call(call) => add_call(&mut out, call),
        }
    }
    out.push_str("</body>\n</html>\n");
    visible_prose(&out).into_owned()
}

fn add_block(out: &mut String, class: &str, markdown: &str) {
    out.push_str(&format!("<div class=\"{class}\">\n"));
    add_markdown(out, markdown);
    out.push_str("</div>\n");
}

fn add_call(out: &mut String, call: &CallPassage) {
    let class = if call.status == CallStatus::Succeeded { "call" } else { "call failed" };
    let open = if matches!(call.body, Some(CallBody::Diff(_))) { " open" } else { "" };
    out.push_str(&format!(
        "<details class=\"{class}\"{open}><summary>{} <b>{}</b></summary>\n",
        escaped(&call.label),
        status_word(call.status)
    ));
    match &call.body {
        Some(CallBody::Markdown(text)) => add_markdown(out, text),
        Some(CallBody::Plain(text)) => out.push_str(&format!("<pre>{}</pre>\n", escaped(text))),
        Some(CallBody::Diff(text)) => add_diff(out, text),
        None => {}
    }
    out.push_str("</details>\n");
}

fn add_diff(out: &mut String, diff: &str) {
    out.push_str("<pre>");
    for (n, line) in diff.lines().enumerate() {
        let text = escaped(line);
        // The first two lines of a diff, `---` and `+++`, name the file, so the page shows them without marks.
        match line.chars().next().filter(|_| n > 1) {
            Some('+') => out.push_str(&format!("<ins>{text}</ins>")),
            Some('-') => out.push_str(&format!("<del>{text}</del>")),
            _ => out.push_str(&format!("{text}\n")),
        }
    }
    out.push_str("</pre>\n");
}

/// Adds Markdown that is not trusted: its HTML is shown as text, and its images become links.
fn add_markdown(out: &mut String, markdown: &str) {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH;
    for event in Parser::new_ext(markdown, options) {
        match event {
            Event::Start(tag) => out.push_str(&opening(&tag)),
            Event::End(tag) => out.push_str(&closing(tag)),
            Event::Code(text) => out.push_str(&format!("<code>{}</code>", escaped(&text))),
            Event::SoftBreak => out.push('\n'),
            Event::HardBreak => out.push_str("<br>\n"),
            Event::Rule => out.push_str("<hr>\n"),
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => {
                out.push_str(&escaped(&text));
            }
            _ => {}
        }
    }
}

fn opening(tag: &Tag<'_>) -> String {
    match tag {
        Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } if is_harmless(dest_url) => {
            format!("<a href=\"{}\" rel=\"noreferrer\">", escaped(dest_url))
        }
        Tag::List(Some(first)) => format!("<ol start=\"{first}\">\n"),
        Tag::CodeBlock(_) => "<pre><code>".to_owned(),
        Tag::TableHead => "<tr>".to_owned(),
        tag => format!("<{}>", element(tag.to_end())),
    }
}

fn closing(tag: TagEnd) -> String {
    match tag {
        TagEnd::CodeBlock => "</code></pre>\n".to_owned(),
        TagEnd::TableHead => "</tr>\n".to_owned(),
        TagEnd::Emphasis
        | TagEnd::Strong
        | TagEnd::Strikethrough
        | TagEnd::Link
        | TagEnd::Image => {
            format!("</{}>", element(tag))
        }
        tag => format!("</{}>\n", element(tag)),
    }
}

fn element(tag: TagEnd) -> &'static str {
    match tag {
        TagEnd::Heading(_) => "h3",
        TagEnd::BlockQuote(_) => "blockquote",
        TagEnd::List(true) => "ol",
        TagEnd::List(false) => "ul",
        TagEnd::Item => "li",
        TagEnd::Table => "table",
        TagEnd::TableRow => "tr",
        TagEnd::TableCell => "td",
        TagEnd::Emphasis => "em",
        TagEnd::Strong => "strong",
        TagEnd::Strikethrough => "del",
        TagEnd::Link | TagEnd::Image => "a",
        _ => "p",
    }
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_is_said_becomes_an_element() {
        let check = |markdown: &str, expected: &str| {
            let mut out = String::new();
            add_markdown(&mut out, markdown);
            assert_eq!(out, expected);
        };
        check("a <b>&</b>", "<p>a &lt;b&gt;&amp;&lt;/b&gt;</p>\n");
        check("<script>\nx\n</script>", "<p>&lt;script&gt;\nx\n&lt;/script&gt;</p>\n");
        check("[x](javascript:y)", "<p><a>x</a></p>\n");
        check(
            "![x](http://h/\"y)",
            "<p><a href=\"http://h/&quot;y\" rel=\"noreferrer\">x</a></p>\n",
        );
        check("```html\n<i>\n```", "<pre><code>&lt;i&gt;\n</code></pre>\n");
        check(
            "a | b\n--|--\n1 | 2",
            "<table><tr><td>a</td>\n<td>b</td>\n</tr>\n<tr><td>1</td>\n<td>2</td>\n</tr>\n</table>\n",
        );
    }
}
