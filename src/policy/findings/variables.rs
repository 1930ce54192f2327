//! Values of variables, as far as a line and its environment tell.

use std::cell::Cell;
use std::collections::BTreeMap;

use super::cwd::Cwd;
use tandem_approval::Environment;
use tandem_shell::{Assignment, SimpleCommand, Step, Word, expansions, variables};

/// Maximum depth of variables whose values name other variables.
const MAX_DEPTH: usize = 4;

/// The variables of a line, with the values that they may have.
pub(super) struct Variables<'a> {
    environment: &'a Environment,
    /// Values that the line assigns to each variable, as written and without their order. `None` is a value that is
    /// known only when the line runs.
    given: BTreeMap<String, Vec<Option<String>>>,
    /// `true` if the line may give any variable a value.
    is_open: bool,
}

impl<'a> Variables<'a> {
    /// Returns the variables of a line with these steps.
    pub(super) fn new(environment: &'a Environment, steps: &[Step]) -> Self {
        let mut variables = Self { environment, given: BTreeMap::new(), is_open: false };
        let mut unbound = Vec::new();
        for step in steps {
            match step {
                // A `for` loop comes as an assignment without a value; if the words after `in` are known, this step
                // follows with them.
                Step::Bind(name, words) => {
                    unbound.retain(|known| known != name);
                    let words = words.iter().flatten().map(|word| Some(word.source.clone()));
                    variables.given.entry(name.clone()).or_default().extend(words);
                }
                Step::Command(command) => variables.run(command, &mut unbound),
                _ => {}
            }
        }
        for name in unbound {
            variables.give(&name, None);
        }
        variables
    }

    /// Returns the words that a word may expand to, as far as they are known, and whether the word may expand to
    /// others.
    pub(super) fn expand(&self, word: &Word, cwd: &Cwd<'_>) -> (Vec<Word>, bool) {
        if word.is_filled_in {
            return (Vec::new(), true);
        }
        let is_open = Cell::new(self.is_open);
        let words = self.expand_source(&word.source, cwd, &is_open, 0);
        let is_unknown = words.is_none();
        (words.unwrap_or_default(), is_unknown || is_open.get())
    }

    fn expand_source(
        &self,
        source: &str,
        cwd: &Cwd<'_>,
        is_open: &Cell<bool>,
        depth: usize,
    ) -> Option<Vec<Word>> {
        expansions(source, &|name| {
            let values = self.values(name, cwd, is_open, depth);
            (!values.is_empty()).then_some(values)
        })
    }

    /// Returns the known values of a variable, and sets `is_open` if there may be others.
    fn values(&self, name: &str, cwd: &Cwd<'_>, is_open: &Cell<bool>, depth: usize) -> Vec<String> {
        let mut values: Vec<String> = if name == "PWD" {
            cwd.here().iter().map(|path| path.display().to_string()).collect()
        } else {
            self.environment.get(name).map(str::to_owned).into_iter().collect()
        };
        for given in self.given.get(name).into_iter().flatten() {
            let source = given.as_deref().filter(|_| depth < MAX_DEPTH);
            let words = source.and_then(|it| self.expand_source(it, cwd, is_open, depth + 1));
            match words {
                Some(words) => values.extend(words.into_iter().map(|word| word.text)),
                None => is_open.set(true),
            }
        }
        values
    }

    fn give(&mut self, name: &str, value: Option<&str>) {
        self.given.entry(name.to_owned()).or_default().push(value.map(str::to_owned));
    }

    /// Records the variables that a command sets. `loops` receives the variables of `for` loops, whose words may follow
    /// in a later step.
    fn run(&mut self, command: &SimpleCommand, loops: &mut Vec<String>) {
        for Assignment { name, source } in &command.assignments {
            if source.starts_with("for ") {
                loops.push(name.clone());
                continue;
            }
            let value = source.strip_prefix(name.as_str()).and_then(|rest| rest.strip_prefix('='));
            // A value in parentheses is an array, whose elements `$name` does not stand for.
            self.give(name, value.filter(|value| !value.starts_with('(')));
        }
        match command.name() {
            Some("." | "eval" | "source") => self.is_open = true,
            Some("printf") if command.args().first().is_some_and(|word| !word.is("-v")) => {}
            Some(name) if variables::is_setter(name) => {
                command.args().iter().for_each(|word| self.set(word));
            }
            _ => {}
        }
    }

    /// Records the variable that an argument of a setting command names: `F=.env`, `F`.
    fn set(&mut self, word: &Word) {
        let text = if word.literal().is_some() { &word.text } else { &word.source };
        let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let (name, rest) = text.split_at(end.unwrap_or(text.len()));
        match rest.strip_prefix('=') {
            Some(value) if *text == word.source => self.give(name, Some(value)),
            None if word.literal().is_none() => self.is_open = true,
            _ => self.give(name, None),
        }
    }
}
