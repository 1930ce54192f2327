//! Effects of a page's tags on its text.

/// Space between two words.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum WordSpace {
    #[default]
    Nothing,
    Space,
    Line,
    Paragraph,
}

/// Effect of a tag on the text.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tag {
    #[default]
    Inline,
    /// Element with a gap before it and after it.
    Block(WordSpace),
    Heading(usize),
    Break,
    Rule,
    List {
        numbered: bool,
    },
    Item,
    Row,
    Cell,
    Preformatted,
    Code,
    Link,
    Image,
    Title,
    /// Element whose content is not shown, with its name.
    Hidden(&'static str),
}

impl Tag {
    pub(super) fn of(name: &[u8]) -> Self {
        match name {
            b"p" | b"table" | b"blockquote" | b"dl" | b"figure" | b"details" => {
                Self::Block(WordSpace::Paragraph)
            }
            b"div" | b"section" | b"article" | b"main" | b"nav" | b"aside" | b"header"
            | b"footer" | b"address" | b"form" | b"fieldset" | b"legend" | b"caption"
            | b"figcaption" | b"summary" | b"dt" | b"dd" | b"body" | b"center" => {
                Self::Block(WordSpace::Line)
            }
            [b'h', level @ b'1'..=b'6'] => Self::Heading(usize::from(level - b'0')),
            b"br" => Self::Break,
            b"hr" => Self::Rule,
            b"ul" | b"menu" => Self::List { numbered: false },
            b"ol" => Self::List { numbered: true },
            b"li" => Self::Item,
            b"tr" => Self::Row,
            b"td" | b"th" => Self::Cell,
            b"pre" => Self::Preformatted,
            b"code" | b"kbd" | b"samp" => Self::Code,
            b"a" => Self::Link,
            b"img" => Self::Image,
            b"title" => Self::Title,
            b"script" => Self::Hidden("script"),
            b"style" => Self::Hidden("style"),
            b"noscript" => Self::Hidden("noscript"),
            b"template" => Self::Hidden("template"),
            b"iframe" => Self::Hidden("iframe"),
            b"svg" => Self::Hidden("svg"),
            b"select" => Self::Hidden("select"),
            _ => Self::Inline,
        }
    }

    /// Returns whether a browser takes the tag as the end of an open drawing (`svg`) or list of choices (`select`).
    pub(super) fn breaks_out(self) -> bool {
        matches!(self, Self::Block(_) | Self::Heading(_) | Self::List { .. } | Self::Preformatted)
    }
}
