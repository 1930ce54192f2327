//! Markdown as styled rows; and how much of a text that still grows will stay as it is.

mod table;

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use self::table::Table;
use super::highlight::Highlighter;
use super::theme::{BOLD, CODE, DIM};
use super::wrap::{Margin, clean, wrap};

/// A paragraph that is longer is put into the scrollback in parts.
const LONG: usize = 2000;

const OPTIONS: Options =
    Options::ENABLE_TABLES.union(Options::ENABLE_STRIKETHROUGH).union(Options::ENABLE_TASKLISTS);

/// The rows of a text.
pub(super) fn render(text: &str, columns: usize) -> Vec<Line<'static>> {
    let text = clean(text);
    let mut page = Page::new(columns);
    for event in Parser::new_ext(&text, OPTIONS) {
        page.take(event);
    }
    page.flush();
    page.rows
}

/// Where a text that still grows can be cut.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Cut {
    /// What is before this will not change.
    pub(super) at: usize,
    /// What must be written before the rest, so that it is read as before.
    pub(super) reopen: String,
    /// Whether the rest begins a new block.
    pub(super) block: bool,
}

/// How much of a text will stay as it is, whatever comes.
pub(super) fn settled(text: &str) -> Option<Cut> {
    let mut depth = 0;
    let (mut last, mut item) = (0, None);
    let mut code = None;
    let mut paragraph = false;
    for (event, range) in Parser::new_ext(text, OPTIONS).into_offset_iter() {
        match event {
            Event::Start(tag) => {
                if depth == 0 {
                    (last, item) = (range.start, None);
                    paragraph = matches!(tag, Tag::Paragraph);
                    code = match tag {
                        Tag::CodeBlock(CodeBlockKind::Fenced(_)) => Some(range.start),
                        _ => None,
                    };
                } else if depth == 1 && matches!(tag, Tag::Item) {
                    item = Some(range.start);
                }
                depth += 1;
            }
            Event::End(_) => depth -= 1,
            _ if depth == 0 => (last, item, code, paragraph) = (range.start, None, None, false),
            _ => {}
        }
    }
    let whole = |at, block| Some(Cut { at, reopen: String::new(), block });
    if let Some(cut) = code.and_then(|start| in_code(text, start)) {
        return Some(cut);
    }
    if let Some(at) = item.filter(|at| *at > last) {
        return whole(line_start(text, at), false);
    }
    if paragraph && text.len() - last > LONG {
        let at = text[..text.len() - LONG / 2].rfind(char::is_whitespace)?;
        return (at > last).then(|| Cut { at: at + 1, reopen: String::new(), block: false });
    }
    if last > 0 { whole(line_start(text, last), true) } else { None }
}

/// The lines of a block of code that are whole.
fn in_code(text: &str, start: usize) -> Option<Cut> {
    let start = line_start(text, start);
    let fence = text[start..].lines().next()?;
    let at = text.rfind('\n')? + 1;
    let begun = start + fence.len() + 1;
    // The last line may be the one that closes it.
    if at <= begun || text[begun..].trim_end().ends_with(['`', '~']) {
        return (start > 0).then(|| Cut { at: start, reopen: String::new(), block: true });
    }
    Some(Cut { at, reopen: format!("{fence}\n"), block: false })
}

fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |newline| newline + 1)
}

/// The rows so far, and where in the text we are.
struct Page {
    columns: usize,
    rows: Vec<Line<'static>>,
    /// What will be the next line.
    spans: Vec<Span<'static>>,
    styles: Vec<Style>,
    /// The numbers of the next items, of the lists that we are in.
    lists: Vec<Option<u64>>,
    /// What an item or a quote puts before its rows.
    margins: Vec<Margin>,
    code: Option<Highlighter>,
    table: Option<Table>,
    links: Vec<String>,
}

impl Page {
    fn new(columns: usize) -> Self {
        Self {
            columns,
            rows: Vec::new(),
            spans: Vec::new(),
            styles: vec![Style::new()],
            lists: Vec::new(),
            margins: Vec::new(),
            code: None,
            table: None,
            links: Vec::new(),
        }
    }

    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => self.text(&text),
            Event::Code(code) => self.push(&code, CODE),
            Event::Html(text) | Event::InlineHtml(text) => self.push(&text, DIM),
            Event::SoftBreak if self.table.is_none() => self.push(" ", Style::new()),
            Event::HardBreak if self.table.is_none() => self.flush(),
            Event::SoftBreak | Event::HardBreak => self.push(" ", Style::new()),
            Event::TaskListMarker(done) => {
                self.push(if done { "[x] " } else { "[ ] " }, Style::new());
            }
            Event::Rule => {
                self.gap();
                let rule = "─".repeat(self.columns.min(40));
                self.push(&rule, DIM);
                self.flush();
            }
            Event::InlineMath(text) | Event::DisplayMath(text) => self.push(&text, CODE),
            Event::FootnoteReference(name) => self.push(&format!("[{name}]"), DIM),
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph => self.gap(),
            Tag::Heading { level, .. } => {
                self.gap();
                let style = match level {
                    HeadingLevel::H1 => BOLD.add_modifier(Modifier::UNDERLINED),
                    HeadingLevel::H2 => BOLD,
                    _ => BOLD.add_modifier(Modifier::ITALIC),
                };
                self.styles.push(style);
            }
            Tag::BlockQuote(_) => {
                self.gap();
                self.margins.push(Margin::bar("▏ ", DIM));
            }
            Tag::CodeBlock(kind) => {
                self.gap();
                let language = match &kind {
                    CodeBlockKind::Fenced(language) => &**language,
                    CodeBlockKind::Indented => "",
                };
                self.code = Some(Highlighter::new(language));
            }
            Tag::List(first) => {
                if self.lists.is_empty() {
                    self.gap();
                }
                self.flush();
                self.lists.push(first);
            }
            Tag::Item => self.item(),
            Tag::Table(_) => {
                self.gap();
                self.table = Some(Table::default());
            }
            Tag::Emphasis => self.style(Style::new().add_modifier(Modifier::ITALIC)),
            Tag::Strong => self.style(BOLD),
            Tag::Strikethrough => self.style(Style::new().add_modifier(Modifier::CROSSED_OUT)),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.links.push(dest_url.to_string());
                self.style(Style::new().add_modifier(Modifier::UNDERLINED));
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph => self.flush(),
            TagEnd::Heading(_) => {
                self.flush();
                self.styles.pop();
            }
            TagEnd::CodeBlock => self.code = None,
            TagEnd::List(_) => _ = self.lists.pop(),
            TagEnd::BlockQuote(_) | TagEnd::Item => {
                self.flush();
                self.margins.pop();
            }
            TagEnd::TableCell => {
                let cell = std::mem::take(&mut self.spans);
                self.table.iter_mut().for_each(|table| table.cell(cell.clone()));
            }
            TagEnd::TableHead | TagEnd::TableRow => self.table.iter_mut().for_each(Table::row),
            TagEnd::Table => {
                let table = self.table.take().unwrap_or_default();
                self.rows.extend(table.rows(self.columns));
            }
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => _ = self.styles.pop(),
            TagEnd::Link | TagEnd::Image => self.link(),
            _ => {}
        }
    }

    fn item(&mut self) {
        self.flush();
        let mark = match self.lists.last_mut() {
            Some(Some(number)) => {
                *number += 1;
                format!("{}. ", *number - 1)
            }
            _ => "• ".to_owned(),
        };
        self.margins.push(Margin::mark(&mark, DIM));
    }

    /// Ends a link: where it leads is said, unless its text does.
    fn link(&mut self) {
        self.styles.pop();
        let url = self.links.pop().unwrap_or_default();
        let said: String = self.spans.iter().map(|span| &*span.content).collect();
        if !url.is_empty() && !said.ends_with(url.trim_start_matches("mailto:")) {
            self.push(&format!(" ({url})"), DIM);
        }
    }

    fn text(&mut self, text: &str) {
        let Some(mut code) = self.code.take() else {
            return self.push(text, Style::new());
        };
        for line in text.lines() {
            self.spans = code.line(line);
            self.margins.push(Margin::bar("  ", Style::new()));
            self.flush_even_empty();
            self.margins.pop();
        }
        self.code = Some(code);
    }

    /// Adds a style to those that hold already.
    fn style(&mut self, style: Style) {
        let now = self.styles.last().copied().unwrap_or_default();
        self.styles.push(now.patch(style));
    }

    fn push(&mut self, text: &str, style: Style) {
        let now = self.styles.last().copied().unwrap_or_default();
        self.spans.push(Span::styled(text.to_owned(), now.patch(style)));
    }

    /// An empty row before a block, but for the first and the first of an item.
    fn gap(&mut self) {
        self.flush();
        let begins = self.margins.last().is_some_and(|margin| margin.first != margin.rest);
        if !self.rows.is_empty() && !begins {
            let bars = self.margins.iter().flat_map(|margin| margin.rest.clone());
            self.rows.push(Line::from(bars.collect::<Vec<_>>()));
        }
    }

    fn flush(&mut self) {
        if !self.spans.is_empty() {
            self.flush_even_empty();
        }
    }

    fn flush_even_empty(&mut self) {
        let spans = std::mem::take(&mut self.spans);
        let mut margin = Margin::default();
        for outer in &mut self.margins {
            margin.first.append(&mut outer.first);
            margin.rest.extend(outer.rest.iter().cloned());
            // The mark of an item is written once.
            outer.first.clone_from(&outer.rest);
        }
        self.rows.extend(wrap(&spans, &margin, self.columns));
    }
}

#[cfg(test)]
mod tests;
