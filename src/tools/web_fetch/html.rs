//! A web page as text: its words, with Markdown for headings, links, lists, code and tables.
//!
//! The page is read once, tag by tag, and no tree is built of it: a hostile page can make building a tree take minutes,
//! and walking a deep tree can overflow the stack.

mod tag;

use std::convert::Infallible;
use std::mem;

use html5gum::emitters::callback::{CallbackEmitter, CallbackEvent};
use html5gum::{Span, Tokenizer};

use self::tag::{Tag, WordSpace};

/// Maximum length of the address and of the alternative text that a tag may have, in bytes. Longer texts are left
/// out, because most of them are not for reading.
const MAX_LINK_BYTES: usize = 1000;

/// Maximum depth of nested lists that are tracked, and the maximum depth of indentation.
const MAX_LIST_DEPTH: usize = 100;
const MAX_INDENT_DEPTH: usize = 8;

/// Returns the text of a page that people would read. Addresses of links are as the page has them.
pub(super) fn text(html: &str) -> String {
    let mut page = PageText::default();
    let mut emitter = CallbackEmitter::new(|event: CallbackEvent<'_>, _: Span<()>| {
        page.apply_event(&event);
        None::<Infallible>
    });
    // The tokenizer would otherwise read the insides of scripts as tags.
    emitter.naively_switch_states(true);
    Tokenizer::new_with_emitter(html, emitter).for_each(drop);
    page.finish()
}

/// A link or code, which gets its mark when it ends.
#[derive(Debug, Default)]
struct Mark {
    /// Offset of its first word, in bytes of the text; `None` until there is a word.
    from: Option<usize>,
    href: String,
}

/// The page, as far as it has been read.
#[derive(Default)]
struct PageText {
    text: String,
    /// Space before the next word.
    gap: WordSpace,
    /// Marks right before the next word: of a heading, of an item of a list, or between cells.
    before: String,
    /// The tag that is being read, its current attribute, and the values of the attributes that are used.
    tag: Tag,
    attribute: Attribute,
    href: String,
    alt: String,
    /// The hidden element that is open, and the number of open elements of the same name inside it.
    hidden: Option<(&'static str, usize)>,
    /// The open lists: the number of the next item, or `None` if the items have no numbers.
    lists: Vec<Option<usize>>,
    /// Number of open lists beyond the maximum depth.
    deeper: usize,
    /// State of the open row of a table: `true` if the row has a cell, `false` if it has none yet; `None` if no row is
    /// open.
    row: Option<bool>,
    preformatted: bool,
    title: bool,
    link: Option<Mark>,
    code: Option<Mark>,
}

#[derive(Debug, Default, Clone, Copy)]
enum Attribute {
    Href,
    Alt,
    #[default]
    Other,
}

impl PageText {
    /// Applies an event of the tokenizer.
    fn apply_event(&mut self, event: &CallbackEvent<'_>) {
        match *event {
            CallbackEvent::OpenStartTag { name } => {
                self.tag = Tag::of(name);
                self.attribute = Attribute::Other;
                self.href.clear();
                self.alt.clear();
            }
            CallbackEvent::AttributeName { name } => {
                self.attribute = match name {
                    b"href" => Attribute::Href,
                    b"alt" => Attribute::Alt,
                    _ => Attribute::Other,
                };
            }
            CallbackEvent::AttributeValue { value } if value.len() <= MAX_LINK_BYTES => {
                let kept = match self.attribute {
                    Attribute::Href => &mut self.href,
                    Attribute::Alt => &mut self.alt,
                    Attribute::Other => return,
                };
                *kept = String::from_utf8_lossy(value).into_owned();
            }
            CallbackEvent::CloseStartTag { self_closing } => self.open(self_closing),
            CallbackEvent::EndTag { name } => self.close(Tag::of(name)),
            CallbackEvent::String { value } => self.say(&String::from_utf8_lossy(value)),
            _ => {}
        }
    }

    /// Applies a start tag. Inside of a hidden element, start tags of the same name are counted, as their end tags have
    /// to be matched. A tag that a browser takes as the end of an open `svg` or `select` ends the hidden element.
    fn open(&mut self, self_closing: bool) {
        let tag = self.tag;
        if let Some((name, depth)) = &mut self.hidden {
            match tag {
                Tag::Hidden(inner) if inner == *name && !self_closing => *depth += 1,
                _ if tag.breaks_out() && matches!(*name, "svg" | "select") => self.hidden = None,
                _ => {}
            }
            if self.hidden.is_some() {
                return;
            }
        }
        match tag {
            Tag::Block(gap) => self.gap(gap),
            Tag::Heading(level) => {
                self.gap(WordSpace::Paragraph);
                self.before = format!("{} ", "#".repeat(level));
            }
            Tag::Break => self.gap(WordSpace::Line),
            Tag::Rule => {
                self.gap(WordSpace::Paragraph);
                self.word("---");
                self.gap(WordSpace::Paragraph);
            }
            Tag::List { numbered } => self.open_list(numbered),
            Tag::Item => self.open_item(),
            Tag::Row => {
                self.gap(WordSpace::Line);
                self.before.clear();
                self.row = Some(false);
            }
            Tag::Cell => {
                if self.row == Some(true) {
                    self.gap(WordSpace::Space);
                    self.before.push_str("| ");
                }
                self.row = Some(true);
            }
            Tag::Preformatted => self.fence(true),
            Tag::Code => self.open_mark(Tag::Code),
            Tag::Link => self.open_mark(Tag::Link),
            Tag::Image if !self.alt.trim().is_empty() => {
                let image = format!(
                    "[image: {}]",
                    self.alt.split_whitespace().collect::<Vec<_>>().join(" ")
                );
                self.word(&image);
            }
            Tag::Title => self.title = true,
            Tag::Hidden(name) if !self_closing => self.hidden = Some((name, 0)),
            Tag::Hidden(_) | Tag::Image | Tag::Inline => {}
        }
    }

    /// Applies an end tag. Inside of a hidden element, only end tags of the same name have an effect.
    fn close(&mut self, tag: Tag) {
        if let Some((name, depth)) = &mut self.hidden {
            match tag {
                Tag::Hidden(inner) if inner == *name && *depth == 0 => self.hidden = None,
                Tag::Hidden(inner) if inner == *name => *depth -= 1,
                _ => {}
            }
            return;
        }
        match tag {
            Tag::Block(gap) => {
                if gap == WordSpace::Paragraph {
                    self.row = None;
                }
                self.gap(gap);
            }
            Tag::Heading(_) => {
                self.before.clear();
                self.gap(WordSpace::Paragraph);
            }
            Tag::List { .. } => {
                if self.deeper > 0 {
                    self.deeper -= 1;
                } else {
                    self.lists.pop();
                }
                self.before.clear();
                self.gap(if self.lists.is_empty() {
                    WordSpace::Paragraph
                } else {
                    WordSpace::Line
                });
            }
            Tag::Item => self.gap(WordSpace::Line),
            Tag::Row => {
                self.row = None;
                self.before.clear();
                self.gap(WordSpace::Line);
            }
            Tag::Cell => self.gap(WordSpace::Space),
            Tag::Preformatted => self.fence(false),
            Tag::Code | Tag::Link => self.close_mark(tag),
            Tag::Title => {
                self.title = false;
                self.gap(WordSpace::Paragraph);
            }
            Tag::Break | Tag::Rule | Tag::Image | Tag::Inline | Tag::Hidden(_) => {}
        }
    }

    fn open_list(&mut self, numbered: bool) {
        self.gap(if self.lists.is_empty() { WordSpace::Paragraph } else { WordSpace::Line });
        if self.lists.len() < MAX_LIST_DEPTH {
            self.lists.push(numbered.then_some(1));
        } else {
            self.deeper += 1;
        }
    }

    fn open_item(&mut self) {
        self.gap(WordSpace::Line);
        self.before = "  ".repeat(self.lists.len().saturating_sub(1).min(MAX_INDENT_DEPTH));
        match self.lists.last_mut() {
            Some(Some(number)) => {
                self.before.push_str(&format!("{number}. "));
                *number += 1;
            }
            _ => self.before.push_str("- "),
        }
    }

    /// Makes the space before the next word at least this wide. Within a row of a table, a new line becomes a space.
    fn gap(&mut self, gap: WordSpace) {
        let gap = if self.row.is_some() && gap == WordSpace::Line { WordSpace::Space } else { gap };
        self.gap = self.gap.max(gap);
    }

    /// Adds text of the page. Preformatted text is added unchanged, and other text word by word.
    fn say(&mut self, said: &str) {
        // An SVG drawing may have a title, too. Only the page's title, which comes before all text, is shown.
        let untitled = self.title && !self.text.is_empty();
        if self.hidden.is_some() || untitled {
            return;
        }
        if self.preformatted {
            let said =
                if self.text.ends_with("```\n") { said.trim_start_matches('\n') } else { said };
            self.text.push_str(said);
            return;
        }
        if said.starts_with(char::is_whitespace) {
            self.gap(WordSpace::Space);
        }
        for word in said.split_whitespace() {
            self.word(word);
            self.gap = WordSpace::Space;
        }
        if !said.ends_with(char::is_whitespace) && self.gap == WordSpace::Space && has_words(said) {
            self.gap = WordSpace::Nothing;
        }
    }

    /// Adds a word, after the pending space and marks.
    fn word(&mut self, word: &str) {
        let gap = mem::take(&mut self.gap);
        if !self.text.is_empty() {
            self.text.push_str(match gap {
                WordSpace::Nothing => "",
                WordSpace::Space => " ",
                WordSpace::Line => "\n",
                WordSpace::Paragraph => "\n\n",
            });
        }
        self.text.push_str(&mem::take(&mut self.before));
        for mark in [&mut self.link, &mut self.code].into_iter().flatten() {
            mark.from.get_or_insert(self.text.len());
        }
        self.text.push_str(word);
    }

    fn open_mark(&mut self, tag: Tag) {
        self.close_mark(tag);
        if self.preformatted {
            return;
        }
        let href = mem::take(&mut self.href);
        let mark = Some(Mark { from: None, href });
        if tag == Tag::Link { self.link = mark } else { self.code = mark }
    }

    fn close_mark(&mut self, tag: Tag) {
        let mark = if tag == Tag::Link { self.link.take() } else { self.code.take() };
        let Some(Mark { from: Some(from), href }) = mark else { return };
        if tag == Tag::Code {
            self.insert(from, '`');
            self.text.push('`');
        } else if leads_on(&href) {
            self.insert(from, '[');
            self.text.push_str(&format!("]({})", href.trim()));
        }
    }

    /// Inserts a character into the text, and moves the offsets of open marks that are behind it.
    fn insert(&mut self, at: usize, c: char) {
        self.text.insert(at, c);
        let froms = [&mut self.link, &mut self.code].into_iter().flatten();
        for from in froms.filter_map(|mark| mark.from.as_mut()).filter(|from| **from >= at) {
            *from += c.len_utf8();
        }
    }

    /// Begins or ends a code block, unless that has been done.
    fn fence(&mut self, open: bool) {
        if self.preformatted == open {
            return;
        }
        if open {
            self.close_mark(Tag::Code);
            self.close_mark(Tag::Link);
            self.gap(WordSpace::Paragraph);
            self.word("```\n");
        } else {
            let end = if self.text.ends_with('\n') { "```" } else { "\n```" };
            self.text.push_str(end);
            self.gap(WordSpace::Paragraph);
        }
        self.preformatted = open;
    }

    fn finish(mut self) -> String {
        self.fence(false);
        self.close_mark(Tag::Code);
        self.close_mark(Tag::Link);
        self.text
    }
}

fn has_words(text: &str) -> bool {
    !text.trim().is_empty()
}

/// Returns whether the target of a link is something to read that is not on the same page.
fn leads_on(href: &str) -> bool {
    let href = href.trim().as_bytes();
    let begins = |with: &str| {
        href.get(..with.len()).is_some_and(|it| it.eq_ignore_ascii_case(with.as_bytes()))
    };
    !href.is_empty() && !["#", "javascript:", "data:"].into_iter().any(begins)
}
