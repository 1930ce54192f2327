//! Colours for code: comments, string literals, numbers and keywords.
//!
//! The crates for this purpose bring grammars and a regex engine of several megabytes, which is out of proportion to
//! the reader's gain in a terminal. This module knows only the syntax that most languages share.

use ratatui_core::style::Style;
use ratatui_core::text::Span;

use super::theme::{
    BAD_STYLE, BOLD_STYLE, CODE_STYLE, DIM_STYLE, GOOD_STYLE, KEYWORD_STYLE, NUMBER_STYLE,
    STRING_STYLE,
};

/// Comment marks and keywords of a language.
struct Language {
    line: &'static [&'static str],
    block: Option<(&'static str, &'static str)>,
    keywords: &'static str,
    /// `true` if a single quote begins a string literal; `false` where it marks a lifetime or a character.
    single_quotes: bool,
}

const C_BLOCK: Option<(&str, &str)> = Some(("/*", "*/"));

/// Highlighter of a block of code, for its lines in order.
pub(super) struct Highlighter {
    language: Option<Language>,
    in_comment: bool,
    /// `true` if the block is a diff.
    is_diff: bool,
}

impl Highlighter {
    /// Creates a highlighter for the language that a Markdown fence names.
    pub(super) fn new(name: &str) -> Self {
        let is_diff = matches!(name.split([' ', ',']).next(), Some("diff" | "patch" | "udiff"));
        Self { language: language(name), in_comment: false, is_diff }
    }

    /// Returns the next line in its colours.
    pub(super) fn line(&mut self, line: &str) -> Vec<Span<'static>> {
        if self.is_diff {
            return vec![Span::styled(line.to_owned(), diff_style(line))];
        }
        let Some(language) = &self.language else {
            return vec![Span::styled(line.to_owned(), CODE_STYLE)];
        };
        let mut spans = Vec::new();
        let mut rest = line;
        while let Some(first) = rest.chars().next() {
            let (length, style) = if self.in_comment || starts(language, rest) {
                let (length, open) = comment(language, rest, self.in_comment);
                self.in_comment = open;
                (length, Some(DIM_STYLE))
            } else if language.line.iter().any(|mark| rest.starts_with(mark)) {
                (rest.len(), Some(DIM_STYLE))
            } else if first == '"' || first == '`' || (first == '\'' && language.single_quotes) {
                (text(rest, first), Some(STRING_STYLE))
            } else if first.is_ascii_digit() {
                (run(rest, |c| c.is_alphanumeric() || c == '.' || c == '_'), Some(NUMBER_STYLE))
            } else if first.is_alphabetic() || first == '_' {
                let length = run(rest, |c| c.is_alphanumeric() || c == '_');
                let word = &rest[..length];
                let known = language.keywords.split(' ').any(|keyword| keyword == word);
                (length, known.then_some(KEYWORD_STYLE))
            } else {
                (first.len_utf8(), None)
            };
            let (token, after) = rest.split_at(length);
            match style {
                Some(style) => spans.push(Span::styled(token.to_owned(), style)),
                None => spans.push(Span::raw(token.to_owned())),
            }
            rest = after;
        }
        spans
    }
}

/// Returns the style of a line of a diff.
fn diff_style(line: &str) -> Style {
    let is_head = ["+++ ", "--- ", "diff ", "index "].iter().any(|head| line.starts_with(head));
    match line.as_bytes().first() {
        _ if is_head => BOLD_STYLE,
        Some(b'+') => GOOD_STYLE,
        Some(b'-') => BAD_STYLE,
        Some(b'@') => CODE_STYLE,
        _ => Style::new(),
    }
}

fn starts(language: &Language, text: &str) -> bool {
    language.block.is_some_and(|(open, _)| text.starts_with(open))
}

/// Returns the length of a comment on this line, and whether the comment goes on in the next line.
fn comment(language: &Language, text: &str, inside: bool) -> (usize, bool) {
    let Some((open, close)) = language.block else { return (text.len(), false) };
    let from = if inside { 0 } else { open.len() };
    match text[from..].find(close) {
        Some(at) => (from + at + close.len(), false),
        None => (text.len(), true),
    }
}

/// Returns the length of a string literal on this line.
fn text(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    rest.len()
}

fn run(text: &str, belongs: impl Fn(char) -> bool) -> usize {
    text.find(|c| !belongs(c)).unwrap_or(text.len())
}

fn language(name: &str) -> Option<Language> {
    let name = name.split([',', ' ']).next().unwrap_or_default().to_ascii_lowercase();
    Some(match name.as_str() {
        "rust" | "rs" => slashes(RUST_KEYWORDS, false),
        "c" | "h" | "cpp" | "c++" | "cc" | "hpp" | "java" | "kotlin" | "kt" | "cs" | "csharp"
        | "swift" | "scala" | "dart" | "zig" | "proto" => slashes(C_LIKE, true),
        "go" => slashes(GO_KEYWORDS, true),
        "js" | "jsx" | "ts" | "tsx" | "mjs" | "javascript" | "typescript" | "php" | "css"
        | "scss" => slashes(SCRIPT_KEYWORDS, true),
        "json" | "jsonc" => slashes("true false null", false),
        "py" | "python" => hash(PYTHON_KEYWORDS, true),
        "rb" | "ruby" | "perl" | "pl" | "elixir" | "ex" | "r" => hash(RUBY_KEYWORDS, true),
        "sh" | "bash" | "shell" | "zsh" | "fish" | "console" | "dockerfile" | "make"
        | "makefile" => hash(SHELL_KEYWORDS, true),
        "toml" | "yaml" | "yml" | "ini" | "conf" | "nix" => hash("true false null yes no", true),
        "sql" | "lua" | "haskell" | "hs" => {
            Language { line: &["--"], block: None, keywords: SQL_KEYWORDS, single_quotes: true }
        }
        _ => return None,
    })
}

fn slashes(keywords: &'static str, single_quotes: bool) -> Language {
    Language { line: &["//"], block: C_BLOCK, keywords, single_quotes }
}

fn hash(keywords: &'static str, single_quotes: bool) -> Language {
    Language { line: &["#"], block: None, keywords, single_quotes }
}

const RUST_KEYWORDS: &str = "as async await break const continue crate dyn else enum extern false fn for if \
    impl in let loop match mod move mut pub ref return self Self static struct super trait true \
    type unsafe use where while";
const C_LIKE: &str = "abstract auto bool boolean break case catch char class const constexpr \
    continue default delete do double else enum extends extern false final float for func fun if \
    implements import in int interface let long message namespace new null nullptr override \
    package private protected public return short signed sizeof static struct super switch \
    template this throw throws true try typedef typename union unsigned using val var virtual void \
    while";
const GO_KEYWORDS: &str = "break case chan const continue default defer else fallthrough false for func go \
    goto if import interface map nil package range return select struct switch true type var";
const SCRIPT_KEYWORDS: &str = "as async await break case catch class const continue default delete do else \
    enum export extends false finally for from function if implements import in instanceof \
    interface let new null of return static super switch this throw true try type typeof \
    undefined var void while yield";
const PYTHON_KEYWORDS: &str = "and as assert async await break class continue def del elif else except \
    False finally for from global if import in is lambda None nonlocal not or pass raise return \
    self True try while with yield match case";
const RUBY_KEYWORDS: &str = "alias and begin break case class def do else elsif end ensure false for if in \
    module my next nil not or require rescue return self sub super then true unless until use when \
    while yield function";
const SHELL_KEYWORDS: &str = "case do done elif else esac export fi for function if in local return then \
    until while FROM RUN COPY CMD ENTRYPOINT ENV WORKDIR";
const SQL_KEYWORDS: &str = "SELECT FROM WHERE INSERT INTO VALUES UPDATE SET DELETE CREATE TABLE DROP ALTER \
    JOIN LEFT RIGHT INNER OUTER ON AS AND OR NOT NULL ORDER BY GROUP LIMIT DISTINCT HAVING UNION \
    select from where insert into values update set delete create table drop alter join left \
    right inner outer on as and or not null order by group limit distinct local function end if \
    then else for while do return nil true false let in module import data type case of";

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares the style of each span of a line with a letter: `k`eyword, `s`tring, `n`umber, `d`im.
    #[track_caller]
    fn check(language: &str, lines: &[(&str, &str)]) {
        let mut highlighter = Highlighter::new(language);
        for (line, expected) in lines {
            let styled = highlighter.line(line).into_iter().map(|span| {
                let letter = [
                    (KEYWORD_STYLE, 'k'),
                    (STRING_STYLE, 's'),
                    (NUMBER_STYLE, 'n'),
                    (DIM_STYLE, 'd'),
                ];
                let letter = letter.iter().find(|(style, _)| *style == span.style);
                letter.map_or(span.content.to_string(), |(_, it)| format!("{it}<{}>", span.content))
            });
            assert_eq!(styled.collect::<String>(), *expected);
        }
    }

    #[test]
    fn words_texts_numbers_and_comments_are_told_apart() {
        check(
            "rust",
            &[
                (
                    "let x: &'a str = \"a \\\" b\"; // why",
                    "k<let> x: &'a str = s<\"a \\\" b\">; d<// why>",
                ),
                ("f(12, /* two", "f(n<12>, d</* two>"),
                ("lines */ 1.5)", "d<lines */> n<1.5>)"),
            ],
        );
        check(
            "python",
            &[("def f(): return 'x' # done", "k<def> f(): k<return> s<'x'> d<# done>")],
        );
        check("sh", &[("if [ \"$x\" ]; then echo", "k<if> [ s<\"$x\"> ]; k<then> echo")]);
    }

    #[test]
    fn an_unknown_language_and_an_open_text_stay_whole() {
        check("", &[("let x = \"1\"", "n<let x = \"1\">")]);
        check("js", &[("const s = 'open", "k<const> s = s<'open>")]);
        check("rust", &[("日本 \"語", "日本 s<\"語>")]);
    }
}
