//! Variables of loops: in `for f in a b`, `"$f"` is `a`, then `b`.

use super::{Dynamic, SimpleCommand, Step, Word, variables};

/// Maximum number of variants of one command. If there are more, the values of its variables count as unknown.
const MAX_VARIANTS: usize = 64;

/// Variables of loops at one place in a line; the caller moves the place step by step.
pub struct Loops {
    /// Variables that only their loops give a value.
    usable: Vec<String>,
    /// Variables of the loops around the place, the innermost last, with their words and the number of the shell that
    /// has them.
    bound: Vec<(String, Option<Vec<Word>>, usize)>,
    /// Numbers of the shells around the place, the innermost last. A subshell has the number of the shell that it is
    /// forked from, and so the variables of that shell.
    shells: Vec<usize>,
    /// Highest number of a shell so far.
    count: usize,
}

impl Loops {
    /// Returns the loops of a line with these steps, at the place before its first step.
    pub fn new(line: &str, steps: &[Step]) -> Self {
        let binds = steps.iter().filter_map(|step| match step {
            Step::Bind(name, _) => Some(name),
            _ => None,
        });
        let usable = binds.filter(|name| is_usable(name, line, steps)).cloned().collect();
        Self { usable, bound: Vec::new(), shells: vec![0], count: 0 }
    }

    /// Notes that a subshell begins.
    pub fn enter(&mut self) {
        self.shells.push(self.shell());
    }

    /// Notes that a subshell ends.
    pub fn leave(&mut self) {
        if self.shells.len() > 1 {
            self.shells.pop();
        }
    }

    /// Notes that the next commands run in a shell that is another program, and has none of these variables.
    pub fn start(&mut self) {
        self.count += 1;
        if let Some(shell) = self.shells.last_mut() {
            *shell = self.count;
        }
    }

    /// Notes that the body of a loop begins, whose variable takes these words, or lines of the input if there are none.
    pub fn bind(&mut self, name: String, words: Option<Vec<Word>>) {
        self.bound.push((name, words, self.shell()));
    }

    /// Notes that the loop with this variable ends.
    pub fn unbind(&mut self, name: &str) {
        if let Some(at) = self.bound.iter().rposition(|(bound, ..)| bound == name) {
            self.bound.remove(at);
        }
    }

    fn shell(&self) -> usize {
        self.shells.last().copied().unwrap_or(0)
    }

    /// Returns every command that a command with variables of loops may become. Empty if it has no such variables,
    /// or if the values are not all known.
    pub fn variants(&self, command: &SimpleCommand) -> Vec<SimpleCommand> {
        let mut variants = vec![command.clone()];
        let mut changed = false;
        for at in 1..command.words.len() {
            let Some(values) = self.values(command, at) else { continue };
            changed = true;
            if variants.len() * values.len() > MAX_VARIANTS {
                return Vec::new();
            }
            let with = |variant: &SimpleCommand, value: &Word| {
                let mut variant = variant.clone();
                variant.words[at] = value.clone();
                variant
            };
            variants = variants
                .iter()
                .flat_map(|variant| values.iter().map(move |value| with(variant, value)))
                .collect();
        }
        if changed { variants } else { Vec::new() }
    }

    /// Returns the values of a word that is the variable of a loop, if they are known.
    fn values(&self, command: &SimpleCommand, at: usize) -> Option<Vec<Word>> {
        let source = command.words[at].source.strip_prefix("\"$")?.strip_suffix('"')?;
        let inner = source.strip_prefix('{').and_then(|name| name.strip_suffix('}'));
        let name = inner.unwrap_or(source);
        let (_, words, shell) = self.bound.iter().rev().find(|(bound, ..)| bound == name)?;
        if *shell != self.shell() || !self.usable.iter().any(|usable| usable == name) {
            return None;
        }
        if let Some(words) = words {
            return Some(words.clone());
        }
        // A line of the input is harmless only to a command that does no more than print it. The first argument of
        // `printf` is its format, which decides what is printed.
        let prints = match command.name()? {
            "basename" | "dirname" | "echo" => true,
            "printf" => at > 1,
            _ => false,
        };
        prints.then(|| vec![Word::from("text".to_owned())])
    }
}

/// Returns whether only loops give a variable of a line its value.
fn is_usable(name: &str, line: &str, steps: &[Step]) -> bool {
    let plain = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    let expands = [format!("{{{name}:="), format!("{{{name}=")];
    if !plain || expands.iter().any(|assigns| line.contains(assigns.as_str())) {
        return false;
    }
    let (mut loops, mut reads, mut assigned, mut set) = (0, 0, 0, 0);
    for step in steps {
        match step {
            Step::Bind(bound, Some(_)) if bound == name => loops += 1,
            Step::Bind(bound, None) if bound == name => reads += 1,
            Step::Command(command) => {
                assigned += command.assignments.iter().filter(|it| it.name == name).count();
                let may_name = |word: &Word| {
                    let is_number = word.dynamic <= Dynamic::Number;
                    !is_number || word.text.contains(name)
                };
                let sets = command.name().is_none_or(variables::is_setter);
                // `printf` sets a variable only after `-v`.
                let prints = command.name() == Some("printf")
                    && command.args().first().is_some_and(|word| {
                        !word.text.starts_with('-') && word.literal().is_some()
                    });
                if !command.words.is_empty()
                    && sets
                    && !prints
                    && command.args().iter().any(may_name)
                {
                    set += 1;
                }
            }
            _ => {}
        }
    }
    assigned == loops && set == reads
}
