//! Rendering of Markdown as styled rows, and the split of a growing text into a part that will not change and the rest.

mod settled;
mod table;

use std::mem;

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Parser, Tag, TagEnd};
use ratatui_core::style::{Modifier, Style};
use ratatui_core::text::{Line, Span};

use self::settled::{CutPoint, PARSE_OPTIONS, settle_rows, settled};
use self::table::TableBuilder;
use super::highlight::Highlighter;
use super::theme::{BOLD_STYLE, CODE_STYLE, DIM_STYLE};
use super::whole::wrap_words;
use super::wrap::{Margin, line_as_seen, lines};
use tandem_content::visible::visible;

/// A growing text, whose beginning may be in the scrollback already.
#[derive(Debug, Clone, Default)]
pub(super) struct Growing {
    pub(super) text: String,
    /// Length in bytes of the beginning that is shown already, and is only needed to parse the rest.
    pub(super) context: usize,
    /// `true` if the part that is shown already ends in the middle of a block.
    joined: bool,
    /// `true` if any part is shown already.
    pub(super) goes_on: bool,
}

impl Growing {
    pub(super) fn new(text: String) -> Self {
        Self { text, ..Self::default() }
    }

    /// Removes and returns the part that will not change any more, and whether an empty row separates it from the rest.
    pub(super) fn settle(&mut self) -> Option<(Self, bool)> {
        let CutPoint { at, reopen, context, joined, apart } = settled(&self.text, self.context)?;
        let text = reopen + &self.text[at..];
        self.text.truncate(at);
        let rest = Self { text, context, joined, goes_on: true };
        Some((mem::replace(self, rest), apart))
    }

    /// Removes and returns the rows of the last paragraph that are complete at this number of columns.
    pub(super) fn settle_rows(&mut self, columns: usize) -> Option<Self> {
        settle_rows(self, columns)
    }
}

/// Returns the rows of a text.
pub(super) fn render(text: &str, columns: usize) -> Vec<Line<'static>> {
    rows(text, 0, false, columns)
}

/// Returns the rows of a growing text that are not shown yet.
pub(super) fn render_rest(growing: &Growing, columns: usize) -> Vec<Line<'static>> {
    rows(&growing.text, growing.context, growing.joined, columns)
}

/// Returns the last block of code in a text, if there is one.
pub(super) fn last_code(text: &str) -> Option<String> {
    let (mut last, mut open) = (None, None);
    for event in Parser::new_ext(text, PARSE_OPTIONS) {
        match event {
            Event::Start(Tag::CodeBlock(_)) => open = Some(String::new()),
            Event::Text(more) => open.iter_mut().for_each(|code: &mut String| code.push_str(&more)),
            Event::End(TagEnd::CodeBlock) => last = open.take(),
            _ => {}
        }
    }
    last
}

fn rows(text: &str, context: usize, joined: bool, columns: usize) -> Vec<Line<'static>> {
    let mut page = MarkdownRows::new(columns);
    let mut shown = None;
    for (event, range) in Parser::new_ext(text, PARSE_OPTIONS).into_offset_iter() {
        let first = shown.is_none() && range.start >= context;
        if first {
            page.flush();
            shown = Some(page.rows.len());
        }
        page.render_event(event);
        if first && joined {
            // No empty row separates the rest of a block from its beginning.
            shown = Some(page.rows.len());
        }
    }
    page.flush();
    page.rows.split_off(shown.unwrap_or(page.rows.len()))
}

/// State of the rendering: the rows so far, and the open blocks and styles.
struct MarkdownRows {
    columns: usize,
    rows: Vec<Line<'static>>,
    /// Spans of the next line.
    spans: Vec<Span<'static>>,
    /// Styles that apply now, the innermost last; each includes the styles around it.
    styles: Vec<Style>,
    /// Number of the next item of each open list; `None` for a list with bullets.
    lists: Vec<Option<u64>>,
    /// Margins of the open items and quotes.
    margins: Vec<Margin>,
    code: Option<Highlighter>,
    table: Option<TableBuilder>,
    links: Vec<String>,
    /// `true` if a quote has just begun.
    quoted: bool,
}

impl MarkdownRows {
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
            quoted: false,
        }
    }

    fn render_event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => self.text(&text),
            Event::Code(code) => self.push(&code, CODE_STYLE),
            Event::Html(text) | Event::InlineHtml(text) => self.push(&text, DIM_STYLE),
            Event::SoftBreak if self.table.is_none() => self.push(" ", Style::new()),
            Event::HardBreak if self.table.is_none() => self.flush(),
            Event::SoftBreak | Event::HardBreak => self.push(" ", Style::new()),
            Event::TaskListMarker(done) => self.task(done),
            Event::Rule => {
                self.gap();
                let rule = "─".repeat(self.columns.min(40));
                self.push(&rule, DIM_STYLE);
                self.flush();
            }
            Event::InlineMath(text) | Event::DisplayMath(text) => self.push(&text, CODE_STYLE),
            Event::FootnoteReference(name) => self.push(&format!("[{name}]"), DIM_STYLE),
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph => self.gap(),
            Tag::Heading { level, .. } => {
                self.gap();
                let style = match level {
                    HeadingLevel::H1 => BOLD_STYLE.add_modifier(Modifier::UNDERLINED),
                    HeadingLevel::H2 => BOLD_STYLE,
                    _ => BOLD_STYLE.add_modifier(Modifier::ITALIC),
                };
                self.styles.push(style);
            }
            Tag::BlockQuote(_) => {
                self.gap();
                self.margins.push(Margin::bar("▏ ", DIM_STYLE));
                self.quoted = true;
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
            Tag::Table(alignments) => {
                self.gap();
                self.table = Some(TableBuilder::new(alignments));
            }
            Tag::Emphasis => self.style(Style::new().add_modifier(Modifier::ITALIC)),
            Tag::Strong => self.style(BOLD_STYLE),
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
            TagEnd::TableHead | TagEnd::TableRow => {
                self.table.iter_mut().for_each(TableBuilder::row);
            }
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
        self.margins.push(Margin::mark(&mark, DIM_STYLE));
    }

    /// Replaces an item's bullet by a check box, or puts the box after the item's number.
    fn task(&mut self, done: bool) {
        let mark = if done { "☑ " } else { "☐ " };
        match self.margins.last_mut() {
            Some(margin) if self.lists.last() == Some(&None) && margin.first != margin.rest => {
                *margin = Margin::mark(mark, DIM_STYLE);
            }
            _ => self.push(mark, DIM_STYLE),
        }
    }

    /// Ends a link, and adds its address unless the link's text ends with the address.
    fn link(&mut self) {
        self.styles.pop();
        let url = self.links.pop().unwrap_or_default();
        let said: String = self.spans.iter().map(|span| &*span.content).collect();
        if !url.is_empty() && !said.ends_with(url.trim_start_matches("mailto:")) {
            self.push(&format!(" ({url})"), DIM_STYLE);
        }
    }

    fn text(&mut self, text: &str) {
        let Some(mut code) = self.code.take() else {
            // In prose, a space of another width is shown as a normal space: some languages use many of these.
            let wide =
                |c| matches!(c, '\u{a0}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}');
            return self.push(&text.replace(wide, " "), Style::new());
        };
        if self.begins() {
            // The mark of an item gets a row of its own, so that nothing stands before the code.
            self.flush_even_empty();
        }
        self.quoted = false;
        // Code lines get no margin and are not broken, so that the user can copy them as they are.
        self.rows.extend(lines(text).map(|line| line_as_seen(&code.line(line))));
        self.code = Some(code);
    }

    /// Adds a style to the styles that apply already.
    fn style(&mut self, style: Style) {
        let now = self.styles.last().copied().unwrap_or_default();
        self.styles.push(now.patch(style));
    }

    fn push(&mut self, text: &str, style: Style) {
        let now = self.styles.last().copied().unwrap_or_default();
        // The text is stored with hidden characters written out, so that a table knows its width.
        self.spans.push(Span::styled(visible(text).into_owned(), now.patch(style)));
    }

    /// Adds an empty row before a block, except before the first block of the text, of an item or of a quote.
    fn gap(&mut self) {
        self.flush();
        if std::mem::take(&mut self.quoted) {
            return;
        }
        if !self.rows.is_empty() && !self.begins() {
            let bars = self.margins.iter().flat_map(|margin| margin.rest.clone());
            self.rows.push(Line::from(bars.collect::<Vec<_>>()));
        }
    }

    /// Returns whether the mark of an item has not been written yet.
    fn begins(&self) -> bool {
        self.margins.last().is_some_and(|margin| margin.first != margin.rest)
    }

    fn flush(&mut self) {
        if !self.spans.is_empty() {
            self.flush_even_empty();
        }
    }

    fn flush_even_empty(&mut self) {
        self.quoted = false;
        let spans = std::mem::take(&mut self.spans);
        let mut margin = Margin::default();
        for outer in &mut self.margins {
            margin.first.append(&mut outer.first);
            margin.rest.extend(outer.rest.iter().cloned());
            // The mark of an item is written only once.
            outer.first.clone_from(&outer.rest);
        }
        self.rows.extend(wrap_words(&spans, &margin, self.columns));
    }
}

#[cfg(test)]
mod tests;
