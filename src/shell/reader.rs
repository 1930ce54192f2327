//! A text on its way to be read: where reading is, and what is still to come.

use std::collections::HashSet;
use std::ops::Range;

use super::word::is_meta;
use super::{Around, MAX_DEPTH, MAX_STEPS, Step, agree, brief};

/// Result of reading; an error says why the text cannot be made out.
pub(super) type Read<T> = Result<T, String>;

const MAX_DOCUMENTS: usize = 16;

/// Syntax that other shells read in another way: `ls &>x rm y` is two commands for them. Found also where
/// it is quoted; that costs a question.
const ONLY_BASH: &[&str] = &[
    "&>", "|&", "<(", ">(", "<<<", "$'", "$\"", "+=", "=(", "[[ ", "[[\t", "[[\n", ";&", ";;&",
    "time ", "time\t",
];

/// A text, and how far it has been read.
pub(super) struct Reader<'a> {
    pub(super) text: &'a str,
    /// A byte offset.
    pub(super) at: usize,
    /// Texts between backquotes, which have been read apart.
    pub(super) apart: Vec<Range<usize>>,
    pub(super) steps: Vec<Step>,
    pub(super) around: Around,
    /// Offsets at which commands and redirections begin.
    pub(super) begins: HashSet<usize>,
    /// The here-documents whose text follows after the next line break.
    documents: Vec<Document>,
    /// Number of here-documents so far.
    document_count: usize,
}

/// A here-document to come.
pub(super) struct Document {
    pub(super) delimiter: String,
    /// `<<-`: tabs before a line do not count.
    pub(super) tabs: bool,
    /// `true` if its text is taken as it is.
    pub(super) quoted: bool,
}

impl<'a> Reader<'a> {
    /// Reads a whole text.
    pub(super) fn read(text: &'a str, around: Around) -> Read<Vec<Step>> {
        let mut reader = Self {
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
        reader.deeper(|reader| reader.list(&[]))?;
        if !reader.documents.is_empty() {
            return Err("the text of a here-document is missing".to_owned());
        }
        if !agree::agrees(text, &reader.begins, &reader.apart) {
            return Err("it can be read in more than one way".to_owned());
        }
        Ok(reader.steps)
    }

    /// Reads a text that this one has in itself, for a shell of its own.
    pub(super) fn read_in_turn(&mut self, text: &str) -> Read<()> {
        let Around { depth, plain_shell, .. } = self.around;
        let steps = Reader::read(text, Around { depth, plain_shell, ..Around::default() })?;
        self.extend(steps)
    }

    pub(super) fn push(&mut self, step: Step) -> Read<()> {
        self.extend(vec![step])
    }

    pub(super) fn extend(&mut self, steps: Vec<Step>) -> Read<()> {
        self.steps.extend(steps);
        if self.steps.len() > MAX_STEPS {
            return Err("it runs too many commands".to_owned());
        }
        Ok(())
    }

    /// Reads something nested.
    pub(super) fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Read<T>) -> Read<T> {
        if self.around.depth == MAX_DEPTH {
            return Err("it is nested too deeply".to_owned());
        }
        self.around.depth += 1;
        let result = read(self);
        self.around.depth -= 1;
        result
    }

    /// Reads something that may not run, or more than once.
    pub(super) fn unsure(
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

    pub(super) fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    pub(super) fn unexpected(&self) -> String {
        match brief(self.rest()).as_str() {
            "" => "it breaks off".to_owned(),
            rest => format!("`{rest}` is not expected"),
        }
    }

    pub(super) fn take(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        self.at += if found { token.len() } else { 0 };
        found
    }

    pub(super) fn expect(&mut self, token: &str) -> Read<()> {
        if self.take(token) { Ok(()) } else { Err(self.unexpected()) }
    }

    /// Skips blanks, continued lines and a comment.
    pub(super) fn blanks(&mut self) {
        while self.take(" ") || self.take("\t") || self.take("\\\n") {}
        if self.rest().starts_with('#') {
            self.at += self.rest().find('\n').unwrap_or(self.rest().len());
        }
    }

    /// Skips blanks and line breaks; after a line break, the here-documents it begins.
    pub(super) fn lines(&mut self) -> Read<()> {
        loop {
            self.blanks();
            if !self.take("\n") {
                return Ok(());
            }
            for document in std::mem::take(&mut self.documents) {
                self.document_text(&document)?;
            }
        }
    }

    /// Expects a here-document after the next line break.
    pub(super) fn await_document(&mut self, document: Document) -> Read<()> {
        self.documents.push(document);
        self.document_count += 1;
        if self.document_count > MAX_DOCUMENTS {
            return Err("it has too many here-documents".to_owned());
        }
        Ok(())
    }

    pub(super) fn has_documents(&self) -> bool {
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
                // They run with the command that reads the text, which may be before a `cd`.
                if self.steps.len() > before && self.steps[..before].iter().any(is_cd) {
                    return Err("`cd` beside a here-document with commands".to_owned());
                }
                self.at = end + line.len();
                return Ok(());
            }
            // Bash joins such a line with the next before it looks for the delimiter.
            if !document.quoted && bare.ends_with('\\') {
                return Err("a continued line in a here-document".to_owned());
            }
            end += line.len();
        }
        Err(format!("a here-document does not end with `{}`", document.delimiter))
    }

    /// Returns whether a reserved word is here.
    pub(super) fn at_word(&self, word: &str) -> bool {
        let after = self.rest().strip_prefix(word);
        after.is_some_and(|after| after.chars().next().is_none_or(is_meta))
    }

    pub(super) fn take_word(&mut self, word: &str) -> bool {
        self.at_word(word) && self.take(word)
    }

    pub(super) fn expect_word(&mut self, word: &str) -> Read<()> {
        if self.take_word(word) { Ok(()) } else { Err(self.unexpected()) }
    }
}

fn is_cd(step: &Step) -> bool {
    matches!(step, Step::Command(command) if command.name() == Some("cd"))
}
