//! Search for the part of a growing text that will not change any more. This part goes into the scrollback, so that the
//! rest, which is drawn anew at each change, is never long.

mod rows;

pub(super) use self::rows::settle_rows;
use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag};

/// Extensions of Markdown that are understood.
pub(in super::super) const PARSE_OPTIONS: Options =
    Options::ENABLE_TABLES.union(Options::ENABLE_STRIKETHROUGH).union(Options::ENABLE_TASKLISTS);

/// Length of the rest, in bytes, above which a text is cut within a block if possible.
const INNER_CUT_BYTES: usize = 2000;

/// Length of a table, in bytes, above which the table is cut, and its rest gets the head once more.
const TABLE_CUT_BYTES: usize = 8000;

/// Length of the rest, in bytes, above which a text is cut at any place.
const FORCED_CUT_BYTES: usize = 16_000;

/// A place at which a growing text can be cut.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in super::super) struct CutPoint {
    /// Offset up to which the text will not change.
    pub(in super::super) at: usize,
    /// Text to put before the rest, so that the rest is parsed as in the whole text.
    pub(in super::super) reopen: String,
    /// Number of bytes of `reopen` that must not be shown.
    pub(in super::super) context: usize,
    /// `true` if the rest begins in the middle of a block.
    pub(in super::super) joined: bool,
    /// `true` if the rest begins with a new block at the top level.
    pub(in super::super) apart: bool,
}

/// A block on the path from the text's last top-level block to the innermost block at the end.
struct OpenBlock {
    kind: BlockKind,
    start: usize,
    /// Offset of the first content in the block.
    content: Option<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum BlockKind {
    List,
    Item,
    Quote,
    Fence,
    Table,
    Row,
    Paragraph,
    Other,
}

/// Finds the end of the part that will not change, whatever text follows. The first `shown` bytes are only context.
pub(in super::super) fn settled(text: &str, shown: usize) -> Option<CutPoint> {
    let text = readable(text);
    let path = last_blocks(text);
    let cut = at_the_top(text, &path).filter(|cut| cut.at > shown);
    let begins = cut.as_ref().map_or(shown, |cut| cut.at);
    if text.len() - begins <= INNER_CUT_BYTES {
        return cut;
    }
    within(text, &path, begins).filter(|cut| cut.at > begins).or(cut)
}

/// Returns the text without a last line that could still become the beginning of another block, such as a row of a
/// table.
fn readable(text: &str) -> &str {
    let last = line_start(text, text.len());
    let begun = text[last..].chars().all(|c| c == '|' || c == '>' || c.is_whitespace());
    if begun { &text[..last] } else { text }
}

/// Returns the blocks that contain the end of the text, or end with it, from the outermost to the innermost.
fn last_blocks(text: &str) -> Vec<OpenBlock> {
    let mut path: Vec<OpenBlock> = Vec::new();
    let mut depth = 0;
    for (event, range) in Parser::new_ext(text, PARSE_OPTIONS).into_offset_iter() {
        if let Some(last) = path.last_mut().filter(|_| !matches!(event, Event::End(_))) {
            last.content.get_or_insert(range.start);
        }
        let kind = match &event {
            Event::Start(tag) => kind(tag),
            Event::Rule => Some(BlockKind::Other),
            _ => None,
        };
        if let Some(kind) = kind {
            path.truncate(depth);
            path.push(OpenBlock { kind, start: range.start, content: None });
        }
        match event {
            Event::Start(_) => depth += 1,
            Event::End(_) => depth -= 1,
            _ => {}
        }
    }
    path
}

/// Returns the kind of a block; `None` for inline elements.
fn kind(tag: &Tag<'_>) -> Option<BlockKind> {
    Some(match tag {
        Tag::List(_) => BlockKind::List,
        Tag::Item => BlockKind::Item,
        Tag::BlockQuote(_) => BlockKind::Quote,
        Tag::CodeBlock(CodeBlockKind::Fenced(_)) => BlockKind::Fence,
        Tag::Table(_) => BlockKind::Table,
        Tag::TableRow => BlockKind::Row,
        Tag::Paragraph => BlockKind::Paragraph,
        Tag::Heading { .. } | Tag::HtmlBlock | Tag::CodeBlock(CodeBlockKind::Indented) => {
            BlockKind::Other
        }
        _ => return None,
    })
}

/// Cuts before the last top-level block, the last item of a top-level list or the last line of code.
fn at_the_top(text: &str, path: &[OpenBlock]) -> Option<CutPoint> {
    let first = path.first()?;
    if first.kind == BlockKind::Fence
        && let Some(cut) = in_code(text, first, &[])
    {
        return Some(cut);
    }
    match path.get(1).filter(|second| second.kind == BlockKind::Item && second.start > first.start)
    {
        Some(item) => Some(CutPoint { at: line_start(text, item.start), ..CutPoint::default() }),
        None => {
            Some(CutPoint { at: line_start(text, first.start), apart: true, ..CutPoint::default() })
        }
    }
}

/// Finds a place after the byte offset `from` at which the last top-level block can be cut: before the outermost block
/// nested in a list or a quote that leaves a rest of at most [`INNER_CUT_BYTES`] bytes. If there is none, the place is
/// within the innermost block or, where that cannot be cut, before the innermost block nested in a list or a quote.
fn within(text: &str, path: &[OpenBlock], from: usize) -> Option<CutPoint> {
    let between = (1..path.len()).filter_map(|depth| {
        let (outer, block) = (&path[depth - 1], &path[depth]);
        let at = line_start(text, block.start);
        let contains = matches!(outer.kind, BlockKind::List | BlockKind::Item | BlockKind::Quote);
        (contains && at > outer.start && at > from).then_some((depth, at))
    });
    let between: Vec<_> = between.collect();
    let short = between.iter().find(|(_, at)| text.len() - at <= INNER_CUT_BYTES);
    let cut = short.or(between.last()).map(|(depth, at)| {
        let reopen = context(text, &path[..*depth]);
        CutPoint { at: *at, context: reopen.len(), reopen, ..CutPoint::default() }
    });
    if short.is_some() {
        return cut;
    }
    let from = cut.as_ref().map_or(from, |cut| cut.at);
    innermost(text, path, from).or(cut)
}

fn innermost(text: &str, path: &[OpenBlock], from: usize) -> Option<CutPoint> {
    let (last, outer) = path.split_last()?;
    let cut = match (last.kind, outer.split_last()) {
        (BlockKind::Row, Some((table, outer))) => between_rows(text, table, last, outer),
        (BlockKind::Fence, _) => in_code(text, last, outer),
        (BlockKind::Item, _) => between_words(text, last.content?, path, from),
        (BlockKind::Paragraph | BlockKind::Other, _) => {
            between_words(text, last.start, outer, from)
        }
        _ => None,
    };
    let cut = cut.filter(|cut| cut.at > from);
    if cut.is_some() || text.len() - from <= FORCED_CUT_BYTES {
        return cut;
    }
    let reopen = context(text, outer);
    let at = text.floor_char_boundary(text.len() - INNER_CUT_BYTES / 2);
    Some(CutPoint { at, context: reopen.len(), reopen, joined: true, apart: false })
}

/// Cuts before the last complete row of a table. The rest gets the head of the table again.
fn between_rows(
    text: &str,
    table: &OpenBlock,
    row: &OpenBlock,
    outer: &[OpenBlock],
) -> Option<CutPoint> {
    if text.len() - table.start <= TABLE_CUT_BYTES {
        return None;
    }
    let last = line_start(text, row.start);
    let at = if text[last..].contains('\n') { last } else { line_start(text, last - 1) };
    let begins = line_start(text, table.start);
    let head: usize = text[begins..].split_inclusive('\n').take(2).map(str::len).sum();
    if at <= begins + head {
        return None;
    }
    let before = context(text, outer);
    let first = margin(text, table.start);
    let head = &text[table.start..begins + head];
    let reopen = format!("{before}{first}{head}");
    Some(CutPoint { at, context: before.len(), reopen, joined: true, apart: false })
}

/// Cuts after the complete lines of a block of code.
fn in_code(text: &str, code: &OpenBlock, outer: &[OpenBlock]) -> Option<CutPoint> {
    let fence = text[code.start..].lines().next()?;
    let at = text.rfind('\n')? + 1;
    let begun = code.start + fence.len() + 1;
    // The last line may be the beginning of the fence that closes the block.
    if at <= begun || text[begun..].trim_end().ends_with(['`', '~']) {
        return None;
    }
    let reopen = format!("{}{}{fence}\n", context(text, outer), margin(text, code.start));
    Some(CutPoint { at, context: reopen.len(), reopen, joined: false, apart: false })
}

/// Cuts before a word that cannot be taken for the beginning of a block.
fn between_words(text: &str, start: usize, outer: &[OpenBlock], from: usize) -> Option<CutPoint> {
    let from = start.max(from);
    let end = text.floor_char_boundary(text.len() - INNER_CUT_BYTES / 2);
    if text.len() - from <= INNER_CUT_BYTES || end <= from {
        return None;
    }
    let mut next = ' ';
    let found = text[from..end].char_indices().rev().find(|(_, c)| {
        let begins = next.is_alphabetic() && c.is_whitespace();
        next = *c;
        begins
    });
    let at = found.map(|(at, c)| from + at + c.len_utf8())?;
    let before = context(text, outer);
    let reopen = format!("{before}{}", margin(text, start));
    Some(CutPoint { at, context: before.len(), reopen, joined: true, apart: false })
}

/// Returns text that opens these blocks, each with a word in it, so that the text after it is parsed as inside them.
fn context(text: &str, blocks: &[OpenBlock]) -> String {
    let mut opened: Vec<(usize, String)> = Vec::new();
    for block in
        blocks.iter().filter(|block| matches!(block.kind, BlockKind::Item | BlockKind::Quote))
    {
        let start = line_start(text, block.start);
        let end = text[block.start..].find('\n').map_or(text.len(), |length| block.start + length);
        let content = block.content.unwrap_or(end).min(end);
        let (mark, quote) = (text[start..content].trim_end(), block.kind == BlockKind::Quote);
        let outside = margin(text, if quote { content } else { block.start });
        // Several blocks may begin in the same line, which must be repeated only once.
        opened.pop_if(|(line, _)| *line == start);
        opened.push((start, format!("{mark} x\n{}\n", outside.trim_end())));
    }
    opened.into_iter().map(|(_, line)| line).collect()
}

/// Returns the prefix of a line that continues the block that begins at this offset.
fn margin(text: &str, at: usize) -> String {
    let before = text[line_start(text, at)..at].chars();
    before.map(|c| if c == '>' || c == '\t' { c } else { ' ' }).collect()
}

fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |newline| newline + 1)
}

#[cfg(test)]
mod tests;
