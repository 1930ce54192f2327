//! The parser of bash: commands, words and expansions, in one recursive descent.
//!
//! The parser follows bash character by character, and refuses a text unless it knows that the text can be read in one
//! way only.

use std::collections::HashSet;
use std::ops::Range;

use super::agree;
use super::line::{
    Assignment, MAX_DEPTH, MAX_STEPS, Read, ReadContext, Redirect, RedirectKind, SimpleCommand,
    Step, brief,
};
use super::unwrap::unwrap;
use super::word::{Dynamic, Partial, Quoting, Word, is_meta, is_name};

/// Maximum number of here-documents in a text.
const MAX_DOCUMENTS: usize = 16;

/// Syntax that `sh` may read in another way than bash: `ls &>x rm y` is two commands for it. The search also finds such
/// syntax in quotes, which costs no more than a question.
const ONLY_BASH: &[&str] = &[
    "&>", "|&", "<(", ">(", "<<<", "$'", "$\"", "+=", "=(", "[[ ", "[[\t", "[[\n", ";&", ";;&",
    "time ", "time\t",
];

/// A parser of one text, with the steps found so far.
pub(super) struct Parser<'a> {
    text: &'a str,
    /// Byte offset of the text that is still to be read.
    at: usize,
    /// Ranges of the texts between backquotes, which have been read as texts of their own.
    apart: Vec<Range<usize>>,
    steps: Vec<Step>,
    around: ReadContext,
    /// Offsets at which commands and redirections begin, for the comparison with the second reading.
    begins: HashSet<usize>,
    /// Here-documents whose text follows after the next line break.
    documents: Vec<Document>,
    /// Number of here-documents so far.
    document_count: usize,
}

/// A here-document whose text is still to come.
struct Document {
    delimiter: String,
    /// `true` for `<<-`: tabs at the beginning of a line do not count.
    tabs: bool,
    /// `true` if the delimiter is quoted. Then the text has no expansions.
    quoted: bool,
}

/// Reserved words of bash, which are no names of commands.
const RESERVED_WORDS: &[&str] = &[
    "!", "[[", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function",
    "if", "in", "select", "then", "time", "until", "while", "{", "}",
];

/// Operators of redirections, the longest first, because the first match counts.
const REDIRECT_OPERATORS: &[&str] =
    &["&>>", "<<<", "<<-", "&>", "<<", "<>", "<&", ">>", ">&", ">|", "<", ">"];

impl<'a> Parser<'a> {
    /// Reads a whole text, and returns its steps. An error says why the text cannot be analysed.
    pub(super) fn read(text: &'a str, around: ReadContext) -> Read<Vec<Step>> {
        let mut parser = Self {
            text,
            at: 0,
            apart: Vec::new(),
            steps: Vec::new(),
            around,
            begins: HashSet::new(),
            documents: Vec::new(),
            document_count: 0,
        };
        if let Some(only_bash) = ONLY_BASH.iter().find(|only_bash| text.contains(**only_bash))
            && around.plain_shell
        {
            return Err(format!("`{only_bash}`, which `sh` does not read as bash does"));
        }
        parser.read_nested(|parser| parser.list(&[]))?;
        if !parser.documents.is_empty() {
            return Err("the text of a here-document is missing".to_owned());
        }
        if !agree::agrees(text, &parser.begins, &parser.apart) {
            return Err("it can be read in more than one way".to_owned());
        }
        Ok(parser.steps)
    }

    /// Reads the text between backquotes as a text of its own, for a subshell, and adds its steps.
    fn read_in_turn(&mut self, text: &str) -> Read<()> {
        let ReadContext { depth, plain_shell, .. } = self.around;
        let steps =
            Parser::read(text, ReadContext { depth, plain_shell, ..ReadContext::default() })?;
        self.extend(steps)
    }

    fn push(&mut self, step: Step) -> Read<()> {
        self.extend(vec![step])
    }

    fn extend(&mut self, steps: Vec<Step>) -> Read<()> {
        self.steps.extend(steps);
        if self.steps.len() > MAX_STEPS {
            return Err("it runs too many commands".to_owned());
        }
        Ok(())
    }

    /// Reads something nested, one level deeper; an error if the nesting is too deep.
    fn read_nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Read<T>) -> Read<T> {
        if self.around.depth == MAX_DEPTH {
            return Err("it is nested too deeply".to_owned());
        }
        self.around.depth += 1;
        let result = read(self);
        self.around.depth -= 1;
        result
    }

    /// Reads commands that may not run, or, if `repeated`, may run more than once.
    fn read_uncertain(
        &mut self,
        repeated: bool,
        read: impl FnOnce(&mut Self) -> Read<()>,
    ) -> Read<()> {
        let around = self.around;
        self.around.conditional = true;
        self.around.repeated |= repeated;
        let result = read(self);
        self.around = around;
        result
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn unexpected(&self) -> String {
        match brief(self.rest()).as_str() {
            "" => "it breaks off".to_owned(),
            rest => format!("`{rest}` is not expected"),
        }
    }

    fn take_token(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        self.at += if found { token.len() } else { 0 };
        found
    }

    fn expect(&mut self, token: &str) -> Read<()> {
        if self.take_token(token) { Ok(()) } else { Err(self.unexpected()) }
    }

    /// Skips blanks, continued lines and a comment.
    fn blanks(&mut self) {
        while self.take_token(" ")
            || self.take_token("\t")
            || (self.is_between_blanks() && self.take_token("\\\n"))
        {}
        if self.rest().starts_with('#') {
            self.at += self.rest().find('\n').unwrap_or(self.rest().len());
        }
    }

    /// Returns whether a continued line that is next has a blank before or after it. Bash removes a continued line
    /// before it looks for words and operators, so that one without a blank joins them: `(\⏎(` is `((`.
    fn is_between_blanks(&self) -> bool {
        let is_blank = |c: char| matches!(c, ' ' | '\t' | '\n');
        let before = self.text[..self.at].chars().next_back();
        let after = self.rest().strip_prefix("\\\n").and_then(|after| after.chars().next());
        before.is_none_or(is_blank) || after.is_none_or(is_blank)
    }

    /// Skips blanks and line breaks, and reads the here-documents whose text follows a line break.
    fn lines(&mut self) -> Read<()> {
        loop {
            self.blanks();
            if !self.take_token("\n") {
                return Ok(());
            }
            for document in std::mem::take(&mut self.documents) {
                self.document_text(&document)?;
            }
        }
    }

    /// Notes that the text of a here-document follows after the next line break.
    fn await_document(&mut self, document: Document) -> Read<()> {
        self.documents.push(document);
        self.document_count += 1;
        if self.document_count > MAX_DOCUMENTS {
            return Err("it has too many here-documents".to_owned());
        }
        Ok(())
    }

    fn has_documents(&self) -> bool {
        !self.documents.is_empty()
    }

    fn document_text(&mut self, document: &Document) -> Read<()> {
        let start = self.at;
        let mut end = start;
        for line in self.text[start..].split_inclusive('\n') {
            let bare = line.strip_suffix('\n').unwrap_or(line);
            let bare = if document.tabs { bare.trim_start_matches('\t') } else { bare };
            if bare == document.delimiter {
                let before = self.steps.len();
                if !document.quoted {
                    self.document(end)?;
                }
                // The commands of a here-document run with the command that reads the document, which may be before the
                // `cd`. They would be assessed in the wrong directory.
                if self.steps.len() > before && self.steps[..before].iter().any(is_cd) {
                    return Err("`cd` beside a here-document with commands".to_owned());
                }
                self.at = end + line.len();
                return Ok(());
            }
            // Bash joins a continued line with the next one before it looks for the delimiter.
            if !document.quoted && bare.ends_with('\\') {
                return Err("a continued line in a here-document".to_owned());
            }
            end += line.len();
        }
        Err(format!("a here-document does not end with `{}`", document.delimiter))
    }

    /// Returns whether this reserved word is next in the text.
    fn at_word(&self, word: &str) -> bool {
        let after = self.rest().strip_prefix(word);
        after.is_some_and(|after| after.chars().next().is_none_or(is_meta))
    }

    fn take_word(&mut self, word: &str) -> bool {
        self.at_word(word) && self.take_token(word)
    }

    fn expect_word(&mut self, word: &str) -> Read<()> {
        if self.take_word(word) { Ok(()) } else { Err(self.unexpected()) }
    }
}

/// Lists, pipelines and compound commands.
impl Parser<'_> {
    /// Reads commands until one of `ends` comes where a command could.
    fn list(&mut self, ends: &[&str]) -> Read<()> {
        loop {
            self.lines()?;
            if self.at_end(ends) {
                return Ok(());
            }
            let first = self.steps.len();
            self.and_or()?;
            self.blanks();
            if self.at_end(ends) {
                return Ok(());
            }
            match self.peek() {
                Some(';') => self.at += 1,
                // Bash removes the escaped line break first. So `&` may be a part of another operator.
                Some('&') if self.rest().starts_with("&\\\n") => {
                    return Err("a line break after `&`".to_owned());
                }
                Some('&') => {
                    self.at += 1;
                    self.isolate(&[first]);
                }
                Some('\n') => {}
                _ => return Err(self.unexpected()),
            }
        }
    }

    /// Returns whether a list ends here: before one of `ends`, or, if there are none, at the end of the text.
    fn at_end(&self, ends: &[&str]) -> bool {
        let here = |end: &&str| {
            if end.starts_with([')', ';']) {
                self.rest().starts_with(*end)
            } else {
                self.at_word(end)
            }
        };
        if ends.is_empty() { self.rest().is_empty() } else { ends.iter().any(here) }
    }

    fn and_or(&mut self) -> Read<()> {
        self.pipeline()?;
        self.blanks();
        while self.take_token("&&") || self.take_token("||") {
            self.lines()?;
            self.read_uncertain(false, Self::pipeline)?;
            self.blanks();
        }
        Ok(())
    }

    fn pipeline(&mut self) -> Read<()> {
        loop {
            self.blanks();
            let begin = self.at;
            if self.take_word("time") {
                self.begins.insert(begin);
                self.blanks();
                if self.take_word("-p") {
                    self.blanks();
                }
                self.take_word("--");
            } else if !self.take_word("!") {
                break;
            }
        }
        let mut starts = Vec::new();
        loop {
            starts.push(self.steps.len());
            self.read_nested(Self::command)?;
            self.blanks();
            if self.rest().starts_with("||") || !self.take_token("|") {
                break;
            }
            self.take_token("&");
            self.lines()?;
        }
        if starts.len() > 1 {
            self.isolate(&starts);
        }
        Ok(())
    }

    /// Puts the steps from each of `starts` to the next into a subshell of their own.
    fn isolate(&mut self, starts: &[usize]) {
        let groups: Vec<_> =
            starts.iter().rev().map(|start| self.steps.split_off(*start)).collect();
        for group in groups.into_iter().rev() {
            self.steps.push(Step::Enter);
            self.steps.extend(group);
            self.steps.push(Step::Leave);
        }
    }

    /// Reads `…)` of `(…)`, `$(…)` or `<(…)`. Its commands run in a subshell.
    fn substitution(&mut self) -> Read<()> {
        if self.has_documents() {
            return Err("a here-document before a substitution".to_owned());
        }
        self.push(Step::Enter)?;
        let around = self.around;
        (self.around.conditional, self.around.repeated) = (false, false);
        let read = self.read_nested(|parser| {
            parser.list(&[")"])?;
            parser.expect(")")
        });
        self.around = around;
        read?;
        if self.has_documents() {
            return Err("the text of a here-document is missing".to_owned());
        }
        self.push(Step::Leave)
    }

    fn command(&mut self) -> Read<()> {
        if self.rest().starts_with("((") {
            return Err("arithmetic in `((`".to_owned());
        }
        let first = self.steps.len();
        if self.take_token("(") {
            self.substitution()?;
        } else if self.take_word("{") {
            self.list(&["}"])?;
            self.expect_word("}")?;
        } else if self.take_word("if") {
            self.read_uncertain(false, Self::branches)?;
        } else if self.take_word("while") {
            self.read_uncertain(true, Self::repetition)?;
        } else if self.take_word("until") {
            self.read_uncertain(true, |parser| {
                parser.list(&["do"])?;
                parser.body()
            })?;
        } else if self.take_word("for") {
            self.read_uncertain(true, Self::read_for_list)?;
        } else if self.take_word("case") {
            self.read_uncertain(false, Self::cases)?;
        } else if self.take_word("function") {
            return self.function();
        } else if self.at_word("[[") {
            self.condition()?;
        } else {
            return self.simple();
        }
        self.redirects_of_group(first)
    }

    /// Reads `… then … fi` of `if`.
    fn branches(&mut self) -> Read<()> {
        loop {
            self.list(&["then"])?;
            self.expect_word("then")?;
            self.list(&["elif", "else", "fi"])?;
            if self.take_word("else") {
                self.list(&["fi"])?;
            }
            if !self.take_word("elif") {
                return self.expect_word("fi");
            }
        }
    }

    /// Reads `…; do … done` of `while`.
    fn repetition(&mut self) -> Read<()> {
        let before = self.steps.len();
        self.list(&["do"])?;
        // The body runs only if `read` has read a line. So the variables of `read` have values there.
        let names = match &self.steps[before..] {
            [Step::Command(command)] => lines_read(command),
            _ => Vec::new(),
        };
        self.bound(&names, None)
    }

    /// Reads the body of a loop with these variables. `words`: the words that they take; `None`: lines of the input.
    fn bound(&mut self, names: &[String], words: Option<&[Word]>) -> Read<()> {
        for name in names {
            self.push(Step::Bind(name.clone(), words.map(<[Word]>::to_vec)))?;
        }
        self.body()?;
        for name in names {
            self.push(Step::Unbind(name.clone()))?;
        }
        Ok(())
    }

    fn body(&mut self) -> Read<()> {
        self.expect_word("do")?;
        self.list(&["done"])?;
        self.expect_word("done")
    }

    /// Reads `name in …; do … done` of `for`.
    fn read_for_list(&mut self) -> Read<()> {
        self.blanks();
        let name = self.name().to_owned();
        if name.is_empty() {
            return Err(self.unexpected());
        }
        self.lines()?;
        let mut words = Vec::new();
        if self.take_word("in") {
            self.blanks();
            while self.peek().is_some_and(|c| !matches!(c, ';' | '\n')) {
                words.push(self.word()?);
                self.blanks();
            }
        }
        self.blanks();
        self.take_token(";");
        self.lines()?;
        let assignments = vec![Assignment { source: format!("for {name}"), name: name.clone() }];
        self.emit(SimpleCommand { assignments, ..SimpleCommand::default() })?;
        let known = words.iter().all(|word| word.dynamic == Dynamic::No);
        if known { self.bound(&[name], Some(&words)) } else { self.body() }
    }

    /// Reads `word in pattern) … ;; … esac` of `case`.
    fn cases(&mut self) -> Read<()> {
        self.blanks();
        self.word()?;
        self.lines()?;
        self.expect_word("in")?;
        loop {
            self.lines()?;
            if self.take_word("esac") {
                return Ok(());
            }
            self.take_token("(");
            loop {
                self.blanks();
                if self.at_word("esac") {
                    return Err(self.unexpected());
                }
                self.word()?;
                self.blanks();
                if !self.take_token("|") {
                    break;
                }
            }
            self.expect(")")?;
            self.list(&[";;", ";&", "esac"])?;
            if !self.at_word("esac") {
                let _ = self.take_token(";;&") || self.take_token(";;") || self.take_token(";&");
            }
        }
    }

    /// Reads `name …` of `function`.
    fn function(&mut self) -> Read<()> {
        self.blanks();
        let name = self.word()?.source;
        self.blanks();
        if self.take_token("(") {
            self.blanks();
            self.expect(")")?;
        }
        self.function_body(name)
    }

    fn function_body(&mut self, name: String) -> Read<()> {
        self.push(Step::Function(name))?;
        self.lines()?;
        self.read_uncertain(true, |parser| parser.read_nested(Self::command))
    }

    /// Reads `[[ … ]]`. Its operators are skipped, since only the words matter.
    fn condition(&mut self) -> Read<()> {
        self.begins.insert(self.at);
        self.at += 2;
        let mut words = vec![Word { source: "[[".into(), text: "[[".into(), ..Word::default() }];
        loop {
            match self.peek() {
                Some(' ' | '\t' | '(' | ')' | '|' | '&') => self.at += 1,
                Some('\n') if !self.has_documents() => self.at += 1,
                Some('<' | '>') if !self.at_process() => self.at += 1,
                // The operators decide where a comment may begin, and how parentheses are read.
                Some('#' | '\n' | '<' | '>') => return Err(self.unexpected()),
                _ => {
                    words.push(self.word()?);
                    if words.last().is_some_and(|word| word.source == "]]") {
                        return self.emit(SimpleCommand { words, ..SimpleCommand::default() });
                    }
                }
            }
        }
    }

    /// Adds the steps of a command without its wrappers.
    fn emit(&mut self, mut command: SimpleCommand) -> Read<()> {
        command.conditional = self.around.conditional;
        command.repeated = self.around.repeated;
        let steps = unwrap(command, self.around, |text, around| Parser::read(text, around))?;
        self.extend(steps)
    }
}

/// Simple commands: assignments, words and redirections, in any order.
impl Parser<'_> {
    /// Reads the redirections of the group of commands whose steps begin with `first`.
    fn redirects_of_group(&mut self, first: usize) -> Read<()> {
        let mut group = SimpleCommand::default();
        loop {
            self.blanks();
            if !self.redirect(&mut group)? {
                break;
            }
        }
        if group.redirects.is_empty() {
            return Ok(());
        }
        // If a redirection fails, the group does not run.
        for step in &mut self.steps[first..] {
            if let Step::Command(command) = step {
                command.conditional = true;
            }
        }
        self.emit(group)
    }

    fn simple(&mut self) -> Read<()> {
        let mut command = SimpleCommand::default();
        let start = self.at;
        loop {
            self.blanks();
            if self.redirect(&mut command)? {
                continue;
            }
            if self.peek().is_none_or(is_meta) && !self.at_process() {
                break;
            }
            if command.words.is_empty() && self.assignment(&mut command)? {
                continue;
            }
            let begin = self.at;
            let word = self.word()?;
            if !command.words.is_empty() {
                command.words.push(word);
                continue;
            }
            if RESERVED_WORDS.contains(&word.text.as_str()) {
                self.at = begin;
                return Err(self.unexpected());
            }
            self.begins.insert(begin);
            command.words.push(word);
            self.blanks();
            if begin == start && self.take_token("(") {
                self.blanks();
                self.expect(")")?;
                return self.function_body(command.words.remove(0).source);
            }
        }
        if command.words.is_empty()
            && command.assignments.is_empty()
            && command.redirects.is_empty()
        {
            // The command consists of `2>&1` and the like, or is missing.
            return if self.at == start { Err(self.unexpected()) } else { Ok(()) };
        }
        self.emit(command)
    }

    /// Reads `name=value`, if it is next. Returns `false` if it is not.
    fn assignment(&mut self, command: &mut SimpleCommand) -> Read<bool> {
        let start = self.at;
        let name = self.name().to_owned();
        if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
            self.at = start;
            return Ok(false);
        }
        if self.rest().starts_with('[') {
            return Err("`[` after a name, where a command could be".to_owned());
        }
        if !self.take_token("+=") && !self.take_token("=") {
            self.at = start;
            return Ok(false);
        }
        if self.take_token("(") {
            self.elements()?;
            // Bash takes text after `)` for a part of the same word: in `x=()a b`, bash runs `b`.
            if self.peek().is_some_and(|c| !is_meta(c)) || self.at_process() {
                return Err("a word that goes on after an array".to_owned());
            }
        } else if self.peek().is_some_and(|c| !is_meta(c)) || self.at_process() {
            self.word()?;
        }
        let source = self.text[start..self.at].to_owned();
        command.assignments.push(Assignment { name, source });
        Ok(true)
    }

    /// Reads `…)` of `name=(…)`.
    fn elements(&mut self) -> Read<()> {
        loop {
            self.lines()?;
            if self.take_token(")") {
                return Ok(());
            }
            if self.rest().starts_with('[') && !is_plain_element(self.rest()) {
                return Err("an element of an array whose number is not plain".to_owned());
            }
            self.word()?;
        }
    }

    /// Returns whether `<(` or `>(` is next, which begins a word and is no redirection.
    fn at_process(&self) -> bool {
        self.rest().starts_with("<(") || self.rest().starts_with(">(")
    }

    /// Reads a redirection, if one is next. Returns `false` if none is.
    fn redirect(&mut self, command: &mut SimpleCommand) -> Read<bool> {
        let digits = self.rest().trim_start_matches(|c: char| c.is_ascii_digit());
        let number = self.rest().len() - digits.len();
        let Some(operator) =
            REDIRECT_OPERATORS.iter().find(|operator| digits.starts_with(**operator))
        else {
            return Ok(false);
        };
        let process = operator.len() == 1 && digits[1..].starts_with('(');
        if process || (number > 0 && operator.starts_with('&')) {
            return Ok(false);
        }
        if number > 1 && self.around.plain_shell {
            return Err("a redirection that `sh` may read as a word".to_owned());
        }
        self.begins.insert(self.at + number);
        self.at += number + operator.len();
        self.blanks();
        let target = match *operator {
            "<<" | "<<-" => self.delimiter(*operator == "<<-")?,
            _ => self.word()?,
        };
        let kind = match *operator {
            "<<" | "<<-" | "<<<" => RedirectKind::Text,
            "<" => RedirectKind::Read,
            ">&" | "<&" if is_standard(&target) => return Ok(true),
            // The target is no file. The redirection is recorded, because the descriptor may not be open, and the
            // command does not run then.
            ">&" | "<&" if is_descriptor(&target) => RedirectKind::Text,
            "<&" => return Err(format!("`<&{}`", brief(&target.source))),
            _ => RedirectKind::Write,
        };
        command.redirects.push(Redirect { kind, target });
        Ok(true)
    }

    /// Reads the delimiter of a here-document. Returns a word in place of the text of the document.
    fn delimiter(&mut self, tabs: bool) -> Read<Word> {
        let word = self.word()?;
        let plain = |c: char| !"$`".contains(c);
        if word.dynamic != Dynamic::No
            || !word.source.chars().all(plain)
            || word.text.contains('\n')
        {
            return Err(format!("the here-document's delimiter `{}`", brief(&word.source)));
        }
        let quoted = word.source.contains(['\'', '"', '\\']);
        self.await_document(Document { delimiter: word.text, tabs, quoted })?;
        // The parser has not read the here-document's text yet. A `$` or a backquote anywhere after the delimiter
        // makes the text unknown. At worst the user is asked without need.
        if !quoted && self.rest().contains(['$', '`']) {
            return Ok(Word::unknown(&word.source));
        }
        Ok(Word { source: word.source, ..Word::default() })
    }
}

/// Words: quotes are removed, and parts that are known only at run time are marked.
impl Parser<'_> {
    /// Reads a word. Only a quoted word may be empty.
    fn word(&mut self) -> Read<Word> {
        let start = self.at;
        let mut word = Partial::default();
        while let Some(c) = self.peek() {
            match c {
                '<' | '>' if self.rest()[1..].starts_with('(') => {
                    self.at += 2;
                    self.substitution()?;
                    word.dynamic(Dynamic::One);
                }
                _ if is_meta(c) => break,
                '\'' => word.text.push_str(self.single_quoted()?),
                '"' => self.double_quoted(&mut word)?,
                '\\' => self.escape(&mut word)?,
                '`' => self.backquoted(Quoting::None).map(|()| word.dynamic(Dynamic::Many))?,
                '$' => self.dollar(&mut word, Quoting::None)?,
                _ => {
                    self.at += c.len_utf8();
                    word.bare(c);
                }
            }
        }
        let source = &self.text[start..self.at];
        if source.is_empty() {
            return Err(self.unexpected());
        }
        if source.starts_with('{') && source.ends_with('}') && self.rest().starts_with(['<', '>']) {
            return Err(format!("`{}` before a redirection", brief(source)));
        }
        let Partial { text, glob, dynamic, .. } = word;
        Ok(Word { source: source.to_owned(), text, glob, dynamic, is_filled_in: false })
    }

    fn escape(&mut self, word: &mut Partial) -> Read<()> {
        let next = self.rest()[1..].chars().next().ok_or("`\\` at the end")?;
        // Bash removes a continued line before it looks for names, quotes and delimiters: `EO\⏎F` is `EOF`, and nothing
        // in it is quoted.
        if next == '\n' {
            return Err("a continued line within a word".to_owned());
        }
        self.at += 1 + next.len_utf8();
        word.text.push(next);
        Ok(())
    }

    fn single_quoted(&mut self) -> Read<&str> {
        let body = &self.rest()[1..];
        let end = body.find('\'').ok_or("`'` is not closed")?;
        let start = self.at + 1;
        self.at = start + end + 1;
        Ok(&self.text[start..start + end])
    }

    fn double_quoted(&mut self, word: &mut Partial) -> Read<()> {
        self.at += 1;
        loop {
            let c = self.peek().ok_or("`\"` is not closed")?;
            match c {
                '"' => {
                    self.at += 1;
                    return Ok(());
                }
                '\\' if self.rest()[1..].starts_with(['$', '`', '"', '\\', '\n']) => {
                    self.escape(word)?;
                }
                '`' => self.backquoted(Quoting::Double).map(|()| word.dynamic(Dynamic::One))?,
                '$' => self.dollar(word, Quoting::Double)?,
                _ => {
                    self.at += c.len_utf8();
                    word.text.push(c);
                }
            }
        }
    }

    /// Reads the commands in the text of a here-document, which ends at `end`.
    fn document(&mut self, end: usize) -> Read<()> {
        let mut ignored = Partial::default();
        while self.at < end {
            match self.peek() {
                Some('\\') => self.escape(&mut ignored)?,
                Some('$') => self.dollar(&mut ignored, Quoting::Double)?,
                Some('`') => self.backquoted(Quoting::Double)?,
                Some(c) => self.at += c.len_utf8(),
                None => break,
            }
        }
        if self.at == end {
            Ok(())
        } else {
            Err("a here-document ends in a substitution".to_owned())
        }
    }

    /// Reads the name of a variable, or the number of a parameter; empty if neither is next.
    fn name(&mut self) -> &str {
        let rest = self.rest();
        if rest.starts_with(|c: char| c.is_ascii_digit()) {
            let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            self.at += end;
            return &self.text[self.at - end..self.at];
        }
        let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
        self.at += end;
        &self.text[self.at - end..self.at]
    }
}

/// Expansions: `$` and backquotes.
impl Parser<'_> {
    /// Reads the expansion that `$` begins, in a word or in the text of a here-document.
    fn dollar(&mut self, word: &mut Partial, quote: Quoting) -> Read<()> {
        let next = self.rest()[1..].chars().next();
        let text = if quote == Quoting::Double { Dynamic::One } else { Dynamic::Many };
        match next {
            Some('(') if self.rest().starts_with("$((") => {
                self.arithmetic()?;
                word.dynamic(Dynamic::Number);
            }
            Some('(') => {
                self.at += 2;
                self.substitution()?;
                word.dynamic(text);
            }
            Some('{') => {
                let start = self.at;
                self.read_nested(|parser| parser.parameter(quote))?;
                // `"${@}"` becomes as many words as there are arguments.
                let many = self.text[start..self.at].contains('@');
                word.dynamic(if many { Dynamic::Many } else { text });
            }
            Some('\'') if quote == Quoting::None => self.ansi_c(word)?,
            // Bash looks `$"…"` up in a catalogue of translations. So the text is not known.
            Some('"') if quote == Quoting::None => {
                self.at += 1;
                self.double_quoted(word)?;
                word.dynamic(Dynamic::One);
            }
            Some('[') => return Err("arithmetic in `$[`".to_owned()),
            // Bash removes the escaped line break first. So `$` may begin an expansion.
            Some('\\') if self.rest().starts_with("$\\\n") => {
                return Err("a line break after `$`".to_owned());
            }
            Some('?' | '#' | '$') => {
                self.at += 2;
                word.dynamic(Dynamic::Number);
            }
            Some('@') => {
                self.at += 2;
                word.dynamic(Dynamic::Many);
            }
            Some(c) if "*!-".contains(c) || c.is_ascii_digit() => {
                self.at += 2;
                word.dynamic(text);
            }
            Some(c) if is_name(c) => {
                self.at += 1;
                self.name();
                word.dynamic(text);
            }
            _ => {
                self.at += 1;
                word.text.push('$');
            }
        }
        Ok(())
    }

    /// Reads `$((…))` of numbers alone. Names are not read: bash evaluates their values as
    /// arithmetic in turn, and a value may hold a command.
    fn arithmetic(&mut self) -> Read<()> {
        let body = &self.rest()[3..];
        let mut open = 0usize;
        for (at, c) in body.char_indices() {
            match c {
                ')' if open == 0 && body[at..].starts_with("))") => {
                    self.at += 3 + at + 2;
                    return Ok(());
                }
                ')' if open == 0 => break,
                '(' => open += 1,
                ')' => open -= 1,
                '0'..='9' | ' ' | '\t' => {}
                _ if "+-*/%=!&|^~?:".contains(c) => {}
                _ => break,
            }
        }
        Err("arithmetic with more than numbers".to_owned())
    }

    /// Reads `${…}`.
    fn parameter(&mut self, quote: Quoting) -> Read<()> {
        let unknown = || "a form of `${…}` that may do more than read a variable".to_owned();
        self.at += 2;
        let length = self.rest().starts_with('#') && !self.rest().starts_with("#}");
        self.at += usize::from(length);
        if self.name().is_empty() {
            let special = self.peek().filter(|c| "*@?$!-#".contains(*c)).ok_or_else(unknown)?;
            self.at += special.len_utf8();
        }
        // The elements of an array: all of them, or one by its number.
        let index = self.rest().strip_prefix('[').and_then(|rest| rest.split_once(']'));
        if let Some((index, after)) = index
            && (index == "@" || index == "*" || index.parse::<u16>().is_ok())
        {
            self.at = self.text.len() - after.len();
        }
        let rest = self.rest();
        if rest.starts_with('}') {
            self.at += 1;
            return Ok(());
        }
        // The parts of `${x:1:2}` are arithmetic, which may run commands. So only numbers are accepted.
        let range = rest.trim_start_matches(|c: char| c.is_ascii_digit() || ": -".contains(c));
        if rest.starts_with(':') && range.starts_with('}') {
            self.at = self.text.len() - range.len() + 1;
            return Ok(());
        }
        let operator = rest.strip_prefix(':').unwrap_or(rest);
        let allowed = if operator.len() == rest.len() { "-+?#%/^," } else { "-+?" };
        if length || !operator.starts_with(|c| allowed.contains(c)) {
            return Err(unknown());
        }
        self.at = self.text.len() - operator.len() + 1;
        let mut ignored = Partial::default();
        loop {
            let c = self.peek().ok_or("`${` is not closed")?;
            match c {
                '}' => {
                    self.at += 1;
                    return Ok(());
                }
                // The operator and the quotes around decide whether these characters quote.
                '\'' | '"' if quote == Quoting::Double => return Err(unknown()),
                '\'' => drop(self.single_quoted()?),
                '"' => self.double_quoted(&mut ignored)?,
                '\\' => self.escape(&mut ignored)?,
                '`' => self.backquoted(quote)?,
                '$' => self.dollar(&mut ignored, quote)?,
                '{' | '(' | '<' | '>' | '[' => return Err(unknown()),
                _ => self.at += c.len_utf8(),
            }
        }
    }

    /// Reads `$'…'`.
    fn ansi_c(&mut self, word: &mut Partial) -> Read<()> {
        self.at += 2;
        loop {
            let c = self.peek().ok_or("`$'` is not closed")?;
            self.at += c.len_utf8();
            match c {
                '\'' => return Ok(()),
                '\\' => {
                    let escaped = self.peek().ok_or("`$'` is not closed")?;
                    self.at += escaped.len_utf8();
                    match escaped {
                        'n' => word.text.push('\n'),
                        't' => word.text.push('\t'),
                        'r' => word.text.push('\r'),
                        '\\' | '\'' | '"' => word.text.push(escaped),
                        // Other escapes hide the text from a reader, and are not decoded: the word counts as unknown.
                        _ => word.dynamic(Dynamic::One),
                    }
                }
                _ => word.text.push(c),
            }
        }
    }

    /// Reads `` `…` ``, whose text is unescaped before bash reads it.
    fn backquoted(&mut self, quote: Quoting) -> Read<()> {
        let start = self.at;
        let mut inner = String::new();
        let mut chars = self.rest()[1..].char_indices();
        while let Some((at, c)) = chars.next() {
            if c == '`' {
                self.at = start + 1 + at + 1;
                self.apart.push(start..self.at);
                self.push(Step::Enter)?;
                self.read_in_turn(&inner)?;
                return self.push(Step::Leave);
            }
            if c != '\\' {
                inner.push(c);
                continue;
            }
            match chars.next() {
                Some((_, c @ ('`' | '\\' | '$'))) => inner.push(c),
                Some((_, '"')) if quote == Quoting::Double => break,
                Some((_, c)) => inner.extend(['\\', c]),
                None => break,
            }
        }
        Err("a backquote is not closed, or `\\\"` is between backquotes".to_owned())
    }
}

fn is_cd(step: &Step) -> bool {
    matches!(step, Step::Command(command) if command.name() == Some("cd"))
}

/// Returns the variables of a `read` that only reads a line; empty for any other command.
fn lines_read(command: &SimpleCommand) -> Vec<String> {
    let splits = |assignment: &Assignment| assignment.name == "IFS";
    let is_plain = command.name() == Some("read")
        && command.redirects.is_empty()
        && command.assignments.iter().all(splits);
    let args = command.args();
    let is_raw = args.first().is_some_and(|word| word.text == "-r");
    let names = &args[usize::from(is_raw)..];
    let is_name = |name: &&str| name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    let names: Option<Vec<String>> = names
        .iter()
        .map(|word| word.literal().filter(is_name).filter(|it| !it.is_empty()).map(str::to_owned))
        .collect();
    names.filter(|_| is_plain).unwrap_or_default()
}

/// Returns whether a text that begins with `[` gives an element of an array by its number, or is a pattern for files.
/// Bash evaluates any other text before `]=` as arithmetic, with the commands in it.
fn is_plain_element(text: &str) -> bool {
    let Some((inside, after)) = text[1..].split_once(']') else { return false };
    let is_element = after.starts_with('=') || after.starts_with("+=");
    if is_element {
        return !inside.is_empty() && inside.chars().all(|c| c.is_ascii_digit());
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "!^-_.".contains(c);
    !inside.is_empty() && inside.chars().all(plain) && !after.starts_with(['\\', '+'])
}

/// Returns whether the target of `>&` or `<&` is a standard stream, which is always open, or `-`, which closes a
/// descriptor.
fn is_standard(word: &Word) -> bool {
    matches!(word.literal(), Some("0" | "1" | "2" | "-"))
}

/// Returns whether the target of `>&` or `<&` is the number of a descriptor, and not the name of a file.
fn is_descriptor(word: &Word) -> bool {
    let digits = word.literal().map(|text| text.strip_suffix('-').unwrap_or(text));
    digits.is_some_and(|digits| digits.chars().all(|c| c.is_ascii_digit()))
}
