//! The grammar of commands: lists, pipelines, loops and what they are made of.

use super::reader::{Read, Reader};
use super::unwrap::unwrap;
use super::word::{Dynamic, Word};
use super::{Assignment, Command, Step};

impl Reader<'_> {
    /// Reads commands until one of `ends` stands where a command could.
    pub(super) fn list(&mut self, ends: &[&str]) -> Read<()> {
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
                // Bash removes the line break first, and then `&` may be part of something else.
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

    /// Returns whether a list ends here: before one of `ends`, or without them at the end of the text.
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
        while self.take("&&") || self.take("||") {
            self.lines()?;
            self.unsure(false, Self::pipeline)?;
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
                self.take_word("-p");
            } else if !self.take_word("!") {
                break;
            }
        }
        let mut starts = Vec::new();
        loop {
            starts.push(self.steps.len());
            self.deeper(Self::command)?;
            self.blanks();
            if self.rest().starts_with("||") || !self.take("|") {
                break;
            }
            self.take("&");
            self.lines()?;
        }
        if starts.len() > 1 {
            self.isolate(&starts);
        }
        Ok(())
    }

    /// Puts the steps from each of `starts` to the next into a shell of their own.
    fn isolate(&mut self, starts: &[usize]) {
        let groups: Vec<_> =
            starts.iter().rev().map(|start| self.steps.split_off(*start)).collect();
        for group in groups.into_iter().rev() {
            self.steps.push(Step::Enter);
            self.steps.extend(group);
            self.steps.push(Step::Leave);
        }
    }

    /// Reads `…)` of `(…)`, `$(…)` or `<(…)`.
    pub(super) fn substitution(&mut self) -> Read<()> {
        if self.has_documents() {
            return Err("a here-document before a substitution".to_owned());
        }
        self.push(Step::Enter)?;
        let around = self.around;
        (self.around.conditional, self.around.repeated) = (false, false);
        let read = self.deeper(|reader| {
            reader.list(&[")"])?;
            reader.expect(")")
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
        if self.take("(") {
            self.substitution()?;
        } else if self.take_word("{") {
            self.list(&["}"])?;
            self.expect_word("}")?;
        } else if self.take_word("if") {
            self.unsure(false, Self::branches)?;
        } else if self.take_word("while") {
            self.unsure(true, Self::repetition)?;
        } else if self.take_word("until") {
            self.unsure(true, |reader| {
                reader.list(&["do"])?;
                reader.body()
            })?;
        } else if self.take_word("for") {
            self.unsure(true, Self::each)?;
        } else if self.take_word("case") {
            self.unsure(false, Self::cases)?;
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
        // The body runs only when a line has been read.
        let names = match &self.steps[before..] {
            [Step::Command(command)] => lines_read(command),
            _ => Vec::new(),
        };
        self.bound(&names, None)
    }

    /// Reads the body of a loop whose variables these are.
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
    fn each(&mut self) -> Read<()> {
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
        self.take(";");
        self.lines()?;
        let assignments = vec![Assignment { source: format!("for {name}"), name: name.clone() }];
        self.emit(Command { assignments, ..Command::default() })?;
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
            self.take("(");
            loop {
                self.blanks();
                if self.at_word("esac") {
                    return Err(self.unexpected());
                }
                self.word()?;
                self.blanks();
                if !self.take("|") {
                    break;
                }
            }
            self.expect(")")?;
            self.list(&[";;", ";&", "esac"])?;
            if !self.at_word("esac") {
                let _ = self.take(";;&") || self.take(";;") || self.take(";&");
            }
        }
    }

    /// Reads `name …` of `function`.
    fn function(&mut self) -> Read<()> {
        self.blanks();
        let name = self.word()?.source;
        self.blanks();
        if self.take("(") {
            self.blanks();
            self.expect(")")?;
        }
        self.function_body(name)
    }

    pub(super) fn function_body(&mut self, name: String) -> Read<()> {
        self.push(Step::Function(name))?;
        self.lines()?;
        self.unsure(true, |reader| reader.deeper(Self::command))
    }

    /// Reads `[[ … ]]`. Its operators matter only in that they are no words.
    fn condition(&mut self) -> Read<()> {
        self.begins.insert(self.at);
        self.at += 2;
        let mut words = vec![Word { source: "[[".into(), text: "[[".into(), ..Word::default() }];
        loop {
            match self.peek() {
                Some(' ' | '\t' | '(' | ')' | '|' | '&') => self.at += 1,
                Some('\n') if !self.has_documents() => self.at += 1,
                Some('<' | '>') if !self.at_process() => self.at += 1,
                // Where comments may be, and what is between parentheses, depends on operators.
                Some('#' | '\n' | '<' | '>') => return Err(self.unexpected()),
                _ => {
                    words.push(self.word()?);
                    if words.last().is_some_and(|word| word.source == "]]") {
                        return self.emit(Command { words, ..Command::default() });
                    }
                }
            }
        }
    }

    /// Adds a command, freed of what wraps it.
    pub(super) fn emit(&mut self, mut command: Command) -> Read<()> {
        command.conditional = self.around.conditional;
        command.repeated = self.around.repeated;
        let steps = unwrap(command, self.around)?;
        self.extend(steps)
    }
}

/// Returns the variables of a `read` that does no more than read a line.
fn lines_read(command: &Command) -> Vec<String> {
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
