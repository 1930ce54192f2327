//! Messages in a Rust file, found among its tokens.

use proc_macro2::{Delimiter, Group, Spacing, TokenStream, TokenTree};

use super::Message;
use super::kind::{Kind, kind};
use super::literal::{is_label, is_sentence, value};
use crate::source::Source;

/// Macros whose texts go to the log, or say that the program itself is wrong.
const LOG_AND_FAULT_MACROS: &[&str] = &[
    "trace",
    "debug",
    "info",
    "warn",
    "error",
    "event",
    "span",
    "trace_span",
    "debug_span",
    "info_span",
    "warn_span",
    "error_span",
    "assert",
    "assert_eq",
    "assert_ne",
    "debug_assert",
    "panic",
    "unreachable",
    "include_str",
    "env",
];

/// Methods whose texts are looked for, or say that the program itself is wrong.
const SEARCH_AND_FAULT_METHODS: &[&str] = &[
    "contains",
    "ends_with",
    "expect",
    "find",
    "rfind",
    "rsplit_once",
    "split",
    "split_once",
    "starts_with",
    "strip_prefix",
    "strip_suffix",
    "trim_end_matches",
    "trim_start_matches",
];

/// Macros that make help of doc comments.
const CLAP_DERIVES: &[&str] = &["Args", "Parser", "Subcommand", "ValueEnum"];

/// Keywords before the name of an item or a variable.
const NAMING: &[&str] =
    &["const", "enum", "fn", "impl", "let", "mod", "static", "struct", "trait", "type"];

/// The messages of a file, in its order.
pub(super) fn messages(source: &Source) -> Vec<Message> {
    let mut walk = Walk { path: &source.path, names: Vec::new(), found: Vec::new() };
    if let Ok(tokens) = source.text.parse() {
        walk.tokens(tokens, false);
    }
    walk.found
}

struct Walk<'a> {
    path: &'a str,
    /// Names of items, fields, functions and macros around the tokens, the innermost last.
    names: Vec<String>,
    found: Vec<Message>,
}

/// Facts about the item or the statement that is being read.
#[derive(Default)]
struct Around {
    /// Name of the item, or of the variable.
    item: Option<String>,
    /// An item ends with its braces, a variable with a semicolon.
    ends_with_braces: bool,
    field: Option<String>,
    /// Doc comment that comes before the item, with its first line.
    doc: Option<(usize, String)>,
    makes_help: bool,
    is_test: bool,
}

impl Walk<'_> {
    /// Reads tokens between braces. In the body of a type that is read from a command line (`is_help`), doc comments
    /// are texts for people.
    fn tokens(&mut self, tokens: TokenStream, is_help: bool) {
        let tokens: Vec<_> = tokens.into_iter().collect();
        let mut around = Around::default();
        let mut at = 0;
        while at < tokens.len() {
            if let Some((attribute, length)) = attribute(&tokens[at..]) {
                self.attribute(attribute, &mut around);
                at += length;
                continue;
            }
            match &tokens[at] {
                TokenTree::Ident(_) => {
                    self.doc(is_help, &mut around);
                    around.read_name(&tokens[..at], &tokens[at..]);
                }
                TokenTree::Punct(punct) if punct.as_char() == ',' => around.field = None,
                TokenTree::Punct(punct) if punct.as_char() == ';' => around = Around::default(),
                TokenTree::Literal(literal) if !around.is_test => {
                    let line = literal.span().start().line;
                    if let Some(text) = value(&literal.to_string()) {
                        let (before, after) = (&tokens[..at], &tokens[at + 1..]);
                        self.literal(line, text, &mut around, (before, after));
                    }
                }
                TokenTree::Group(group) => self.group(group, &tokens[..at], &mut around),
                _ => {}
            }
            at += 1;
        }
    }

    fn literal(
        &mut self,
        line: usize,
        text: String,
        around: &mut Around,
        (before, after): Sides<'_>,
    ) {
        if is_punct(after, 0, ':') {
            // A key of JSON.
            around.field = Some(text);
            return;
        }
        let is_pattern =
            is_punct(after, 0, '=') && is_punct(after, 1, '>') || is_punct(after, 0, '|');
        let is_compared =
            is_equality(after) || before.len() > 1 && is_equality(&before[before.len() - 2..]);
        let is_schema = around.field.as_deref() == Some("description")
            && self.names.iter().any(|it| it == "json");
        if is_pattern || is_compared || is_schema {
            return;
        }
        let outside = self.names.len();
        self.names.extend(around.item.iter().chain(&around.field).cloned());
        let kind = kind(&self.names);
        self.names.truncate(outside);
        if is_sentence(&text) || kind == Kind::Question && is_label(&text) {
            self.push(kind, line, text);
        }
    }

    fn group(&mut self, group: &Group, before: &[TokenTree], around: &mut Around) {
        let is_braces = group.delimiter() == Delimiter::Brace;
        let (callee, is_macro) = callee(before, is_braces);
        let name = callee.last().map_or("", String::as_str);
        let is_method = before.len() > 1 && is_punct(&before[before.len() - 2..], 0, '.');
        let is_left_out = is_macro && LOG_AND_FAULT_MACROS.contains(&name)
            || is_method && SEARCH_AND_FAULT_METHODS.contains(&name)
            || name == "ToolSpec";
        if !is_left_out && !around.is_test {
            let outside = self.names.len();
            self.names.extend(around.item.iter().chain(&around.field).cloned());
            self.names.extend((!callee.is_empty()).then(|| callee.join(" ")));
            self.tokens(group.stream(), around.makes_help && is_braces);
            self.names.truncate(outside);
        }
        if is_braces && (around.ends_with_braces || around.is_test) {
            *around = Around::default();
        }
    }

    fn attribute(&mut self, attribute: &Group, around: &mut Around) {
        let tokens: Vec<_> = attribute.stream().into_iter().collect();
        let Some(TokenTree::Ident(name)) = tokens.first() else { return };
        let words = idents(attribute.stream());
        match name.to_string().as_str() {
            "doc" => {
                if let Some(TokenTree::Literal(literal)) = tokens.last() {
                    let line = literal.span().start().line;
                    let doc = around.doc.get_or_insert((line, String::new()));
                    doc.1.extend(
                        value(&literal.to_string()).map(|text| text.trim().to_owned() + "\n"),
                    );
                }
            }
            "derive" => {
                around.makes_help |= words.iter().any(|it| CLAP_DERIVES.contains(&it.as_str()));
            }
            "cfg" => around.is_test |= words == ["cfg", "test"],
            "test" => around.is_test = true,
            "arg" | "command" | "value" => {
                let before = self.found.len();
                self.tokens(attribute.stream(), false);
                self.found[before..].iter_mut().for_each(|message| message.kind = Kind::Help);
            }
            _ => {}
        }
    }

    /// Ends the doc comment before an item.
    fn doc(&mut self, is_help: bool, around: &mut Around) {
        if let Some((line, text)) = around.doc.take().filter(|_| is_help || around.makes_help) {
            self.push(Kind::Help, line, text);
        }
    }

    fn push(&mut self, kind: Kind, line: usize, text: String) {
        self.found.push(Message { kind, path: self.path.to_owned(), line, text });
    }
}

impl Around {
    /// Reads a name that may be that of an item, of a variable or of a field.
    fn read_name(&mut self, before: &[TokenTree], from: &[TokenTree]) {
        let word = from[0].to_string();
        // What `if let` names is a part of the value, and no name for what is done with it.
        let is_condition = matches!(before.last(), Some(TokenTree::Ident(it)) if it == "if" || it == "while")
            || is_punct(before, before.len().wrapping_sub(1), '&');
        if NAMING.contains(&word.as_str()) && !is_condition {
            let until_braces = from[1..].iter().take_while(|token| !is_braces(token));
            let names = until_braces.filter_map(|token| match token {
                TokenTree::Ident(name) if name != "mut" => Some(name.to_string()),
                _ => None,
            });
            let names: Vec<_> = names.take(if word == "impl" { usize::MAX } else { 1 }).collect();
            self.ends_with_braces = !matches!(word.as_str(), "const" | "let" | "static" | "type");
            self.item = Some(names.join(" "));
        } else if matches!(from.get(1), Some(TokenTree::Punct(it)) if it.as_char() == ':' && it.spacing() == Spacing::Alone)
        {
            self.field = Some(word);
        }
    }
}

/// The tokens before a token, and after it.
type Sides<'a> = (&'a [TokenTree], &'a [TokenTree]);

/// The attribute that tokens begin with, and the number of its tokens.
fn attribute(tokens: &[TokenTree]) -> Option<(&Group, usize)> {
    let bang = usize::from(is_punct(tokens, 1, '!'));
    match tokens.get(1 + bang) {
        Some(TokenTree::Group(group)) if is_punct(tokens, 0, '#') => Some((group, 2 + bang)),
        _ => None,
    }
}

/// The path of the function, macro or struct that a group belongs to, and whether it is a macro.
fn callee(before: &[TokenTree], is_braces: bool) -> (Vec<String>, bool) {
    let is_macro = is_punct(before, before.len().wrapping_sub(1), '!');
    let mut rest = &before[..before.len() - usize::from(is_macro)];
    let mut path = Vec::new();
    while let [start @ .., TokenTree::Ident(name)] = rest {
        path.insert(0, name.to_string());
        match start {
            [start @ .., TokenTree::Punct(one), TokenTree::Punct(two)]
                if one.as_char() == ':' && two.as_char() == ':' =>
            {
                rest = start;
            }
            _ => break,
        }
    }
    let is_type = path.last().is_some_and(|name| name.starts_with(char::is_uppercase));
    if is_braces && !is_macro && !is_type {
        path.clear();
    }
    (path, is_macro)
}

fn is_punct(tokens: &[TokenTree], at: usize, c: char) -> bool {
    matches!(tokens.get(at), Some(TokenTree::Punct(punct)) if punct.as_char() == c)
}

/// Returns `true` for tokens that begin with `==` or `!=`.
fn is_equality(tokens: &[TokenTree]) -> bool {
    (is_punct(tokens, 0, '=') || is_punct(tokens, 0, '!')) && is_punct(tokens, 1, '=')
}

fn is_braces(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace)
}

/// All identifiers of tokens, those in groups too.
fn idents(tokens: TokenStream) -> Vec<String> {
    let mut found = Vec::new();
    for token in tokens {
        match token {
            TokenTree::Ident(name) => found.push(name.to_string()),
            TokenTree::Group(group) => found.extend(idents(group.stream())),
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[(Kind, usize, &str)]) {
        let source = Source {
            path: String::new(),
            krate: String::new(),
            module: Vec::new(),
            text: text.to_owned(),
        };
        let found = messages(&source);
        let found: Vec<_> =
            found.iter().map(|it| (it.kind, it.line, it.text.as_str().trim_end())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn an_error_is_found_in_macros_and_functions() {
        check(
            "fn f() {\n    bail!(\"no key for {name}\")\n}",
            &[(Kind::Error, 2, "no key for {name}")],
        );
        check(
            "fn f() { x.ok_or_else(|| format!(\"{a} is gone\")) }",
            &[(Kind::Error, 1, "{a} is gone")],
        );
        check("fn f() { x.context(\"cannot read\")? }", &[(Kind::Error, 1, "cannot read")]);
    }

    #[test]
    fn a_variable_gives_its_texts_their_kind_until_it_ends() {
        let text =
            "fn f() { let why = if x { \"one reason\" } else { \"or two\" }; g(\"and more\") }";
        check(
            text,
            &[
                (Kind::Reason, 1, "one reason"),
                (Kind::Reason, 1, "or two"),
                (Kind::Other, 1, "and more"),
            ],
        );
    }

    #[test]
    fn an_error_type_shows_errors() {
        let text = "impl fmt::Display for StoreError { fn fmt() { f.write_str(\"is full now\") } }";
        check(text, &[(Kind::Error, 1, "is full now")]);
    }

    #[test]
    fn one_word_is_a_label_where_something_is_asked() {
        check("fn f() { Choice { label: \"Yes\" } }", &[(Kind::Question, 1, "Yes")]);
        check("fn f() { x(\"Yes\") }", &[]);
    }

    #[test]
    fn doc_comments_are_help_where_a_command_line_is_read() {
        let text = "/// Lists all.\n///\n/// In order.\n#[derive(Args)]\nstruct A {\n/// How many\n#[arg(short)]\nn: u8,\n}\n/// Not.\nstruct B { /// Nor.\n n: u8 }";
        check(text, &[(Kind::Help, 1, "Lists all.\n\nIn order."), (Kind::Help, 6, "How many")]);
    }

    #[test]
    fn a_slash_command_has_its_description() {
        let text = "const COMMAND: Command = Command { description: \"shows all of it\" };";
        check(text, &[(Kind::SlashCommand, 1, "shows all of it")]);
    }

    #[test]
    fn what_is_logged_compared_or_wrong_with_the_program_is_left_out() {
        let text = "fn f() { tracing::warn!(\"not well\"); x.expect(\"has one\"); panic!(\"oh no\"); \
            a == \"b c\"; \"c d\" != a; a.contains(\"d e\"); match a { \"e f\" | \"g h\" => 1 } }";
        check(text, &[]);
    }

    #[test]
    fn tests_are_left_out() {
        let text = "#[cfg(test)]\nmod tests { fn f() { g(\"a b\") } }\n#[test]\nfn t() { g(\"c d\") }\n\
            fn u() { g(\"what counts\") }";
        check(text, &[(Kind::Other, 5, "what counts")]);
    }

    #[test]
    fn what_models_are_told_of_a_tool_is_left_out() {
        let text = "fn f() { ToolSpec { description: \"Reads a file\" }; json!({\"description\": \"The file.\", \"error\": \"it failed\"}) }";
        check(text, &[(Kind::Error, 1, "it failed")]);
    }
}
