//! Findings: facts about the commands of a line, found without running the line. No policy is in them: the table in
//! `decide` says which of them are asked about, in each mode and sandbox.
//!
//! [`assess`] reads the line into steps, and an `Assessment` follows these in the order in which they run. Each
//! command gets the findings that it has by itself, in the working directories and loops around it. Findings that a
//! command has only beside other commands are added afterwards, by a pass each.

mod assignments;
mod command;
mod cwd;
mod environment;
mod fact;
mod git;
mod harmless;
mod project;
mod repository;
mod secrets;
mod sensitive;
mod variables;
mod writes;

use std::path::{Path, PathBuf};

pub use self::command::{AssessedCommand, Remembered};
use self::cwd::Cwd;
use self::environment::Lookup;
pub use self::environment::variables_of_reading;
pub use self::fact::{Fact, Finding};
pub use self::project::ProjectContent;
use self::secrets::{SecretFinder, SecretFinding};
pub use self::sensitive::sensitive;
use self::variables::Variables;
use tandem_approval::{BuiltInRule, Environment};
use tandem_host::secrets::Secrets;
use tandem_shell::every_time::{self, Concern};
use tandem_shell::git::Git;
use tandem_shell::loops::Loops;
use tandem_shell::{
    self as shell, Redirect, ShellDialect, SimpleCommand, Step, Word, brief, prefix,
};

/// Assesses each command of a line that would run in `environment`, beginning in `directory`. An error says why the
/// line cannot be analysed. Blocks on file look-ups: thousands of them for a very long line.
pub fn assess(
    environment: &Environment,
    line: &str,
    directory: &Path,
    roots: &[PathBuf],
    secrets: &Secrets,
) -> Result<Vec<AssessedCommand>, String> {
    let steps = shell::parse(line, ShellDialect::Bash)?;
    let variables = Variables::new(environment, &steps);
    let mut assessment = Assessment {
        environment,
        secrets: SecretFinder::new(secrets, variables, environment.hidden(), roots),
        loops: Loops::new(line, &steps),
        cwd: Cwd::new(directory, roots),
        subshells: Vec::new(),
        wrappers: Vec::new(),
        commands: Vec::new(),
    };
    let mut steps = steps.into_iter().peekable();
    while let Some(step) = steps.next() {
        let feeds_loop = matches!(steps.peek(), Some(Step::Bind(_, None)));
        assessment.follow(step, feeds_loop);
    }
    assessment.add_idle_wrappers();
    assessment.add_patterns();
    assessment.add_programs_of_readers();
    assessment.add_repositories();
    Ok(assessment.commands.into_iter().map(|found| found.assessed).collect())
}

/// Assessment of a line, up to one of its steps.
struct Assessment<'a> {
    environment: &'a Environment,
    secrets: SecretFinder<'a>,
    /// Loops around the step.
    loops: Loops,
    /// Working directories that the step may have.
    cwd: Cwd<'a>,
    /// Working directories that the shells around the step have, the innermost last.
    subshells: Vec<Vec<PathBuf>>,
    /// Wrappers of the next command.
    wrappers: Vec<Vec<Word>>,
    commands: Vec<FoundCommand>,
}

/// A command of the line, with facts that matter only together with other commands.
struct FoundCommand {
    assessed: AssessedCommand,
    /// The command as it was read; empty for what is no ordinary command.
    command: SimpleCommand,
    /// Sentence on the program that the command may start although it only reads (a hook, another version of go),
    /// unless the line is given the variables of [`variables_of_reading`].
    starts: Option<String>,
}

impl From<AssessedCommand> for FoundCommand {
    fn from(assessed: AssessedCommand) -> Self {
        Self { assessed, command: SimpleCommand::default(), starts: None }
    }
}

impl Assessment<'_> {
    /// Follows a step. `feeds_loop`: the step is the `read` of a loop, and only sets the variable of the loop.
    fn follow(&mut self, step: Step, feeds_loop: bool) {
        match step {
            // A subshell restores the directories when it ends.
            Step::Enter => {
                self.subshells.push(self.cwd.here().to_vec());
                self.loops.enter();
            }
            Step::Leave => {
                self.cwd.back(self.subshells.pop().unwrap_or_default());
                self.loops.leave();
            }
            Step::Bind(name, words) => self.loops.bind(name, words),
            Step::Unbind(name) => self.loops.unbind(&name),
            Step::Function(name) => {
                let why = format!("the line defines a function, `{}`", brief(&name));
                let finding = Finding::new(Fact::Unresolved, BuiltInRule::Functions, why);
                self.commands.push(AssessedCommand::nameless(name, vec![finding]).into());
            }
            Step::Wrapper(words) => {
                if words.first().is_some_and(|name| shell::is_shell(&name.text)) {
                    self.loops.start();
                }
                self.wrappers.push(words);
            }
            Step::Command(command) => self.follow_command(command, feeds_loop),
        }
    }

    fn follow_command(&mut self, command: SimpleCommand, feeds_loop: bool) {
        // A failed redirection keeps `cd` from running, and an earlier command that does more than read may have moved
        // the directory.
        let fails = |redirect: &Redirect| redirect.target.text != "/dev/null";
        let is_unsure = command.conditional || command.redirects.iter().any(fails);
        let is_cd = command.name() == Some("cd");
        let target = cd_target(&command).map(str::to_owned);
        if let Some(mut assessed) = self.assess_looped(&command, feeds_loop) {
            self.add_environment(&command, &mut assessed);
            assessed.forms.append(&mut self.wrappers);
            let starts = starts(&command, &self.cwd);
            self.commands.push(FoundCommand { assessed, command, starts });
        }
        if is_cd {
            let is_harmless = |found: &FoundCommand| found.assessed.findings.is_empty();
            self.cwd.change_directory(
                target.as_deref(),
                !is_unsure && self.commands.iter().all(is_harmless),
            );
        }
    }

    /// Assesses a command that may use variables of loops.
    fn assess_looped(&self, command: &SimpleCommand, feeds_loop: bool) -> Option<AssessedCommand> {
        let (cwd, secrets) = (&self.cwd, &self.secrets);
        let mut assessed = assess_one(command, cwd, secrets)?;
        let variants = self.loops.variants(command);
        let is_harmless = |variant: &SimpleCommand| {
            assess_one(variant, cwd, secrets).is_none_or(|it| it.findings.is_empty())
        };
        // A command is harmless if it is harmless with every value that the variables of its loops take.
        if feeds_loop || (!variants.is_empty() && variants.iter().all(is_harmless)) {
            assessed.findings.clear();
            assessed.secrets.clear();
        }
        assessed.hidden.extend(variants.iter().flat_map(|variant| secrets.hidden(variant, cwd)));
        let mut all = variants.iter().chain([command]);
        if !assessed.findings.is_empty() && all.any(|it| secrets.changes_hidden(it, cwd)) {
            let why = format!(
                "`{}` changes a file of the home directory that the sandbox hides",
                command.brief()
            );
            let finding = Finding::new(Fact::ChangesHiddenHome, BuiltInRule::EveryTime, why);
            assessed.findings.push(finding);
        }
        Some(assessed)
    }

    /// Adds the findings that the environment brings, and the content of the project's files that decide what the
    /// command runs.
    fn add_environment(&self, command: &SimpleCommand, assessed: &mut AssessedCommand) {
        let (environment, cwd) = (Lookup(self.environment), &self.cwd);
        let only_reads = assessed.only_reads();
        let name = command.name().filter(|_| !only_reads);
        let own = name.and_then(|name| Some((name, environment.own_program(name, cwd)?)));
        // A program of the workspace is named by its path, as scripts are, so that an "always" for the bare name does
        // not cover the program.
        if let Some((name, path)) = own {
            let path = path.display().to_string();
            let remembered = &mut assessed.remembered;
            remembered.prefix = remembered.prefix.replacen(name, &path, 1);
            remembered.program = remembered.program.take().map(|it| it.replacen(name, &path, 1));
            remembered.own = true;
        }
        let unnamed = SimpleCommand::default();
        let command_or_wrappers = if only_reads { command } else { &unnamed };
        let found = environment.findings(command_or_wrappers, &self.wrappers, cwd);
        assessed.findings.extend(found);
        if !assessed.only_reads() {
            assessed.remembered.content = project::content(command, cwd);
        }
    }

    /// Adds wrappers at the end of the line that were given no command to run, and run all the same.
    fn add_idle_wrappers(&mut self) {
        let findings =
            Lookup(self.environment).findings(&SimpleCommand::default(), &self.wrappers, &self.cwd);
        if let Some(name) = self.wrappers.first().and_then(|words| words.first())
            && !findings.is_empty()
        {
            self.commands.push(AssessedCommand::nameless(name.source.clone(), findings).into());
        }
    }

    /// Adds a finding to each command with a pattern that may match an option, if another command of the line may make
    /// a file with such a name.
    fn add_patterns(&mut self) {
        let is_maker = |found: &FoundCommand| every_time::makes_options(&found.command);
        let makers = self.commands.iter().filter(|found| is_maker(found)).count();
        for found in &mut self.commands {
            // A command that runs more than once may make the file for itself.
            let others = makers - usize::from(is_maker(found) && !found.command.repeated);
            if others > 0 && has_bare_pattern(&found.command) {
                let why = format!(
                    "another command of the line may make a file whose name `{}` takes for an option",
                    found.command.brief()
                );
                let finding = Finding::new(Fact::RunsUnknown, BuiltInRule::Patterns, why);
                found.assessed.findings.push(finding);
            }
        }
    }

    /// Adds a finding to each reading command that may start a program, if another command of the line does more than
    /// read. Such a line is not given the variables of [`variables_of_reading`], because its other commands may need
    /// hooks and toolchains.
    fn add_programs_of_readers(&mut self) {
        if self.commands.iter().all(|found| found.assessed.only_reads()) {
            return;
        }
        for FoundCommand { assessed, starts, .. } in &mut self.commands {
            if let Some(why) = starts.take().filter(|_| assessed.only_reads()) {
                let finding = Finding::new(Fact::RunsUnknown, BuiltInRule::ReadOnly, why);
                assessed.findings.push(finding);
            }
        }
    }

    /// Adds to each git command that may do more than read that it may change a repository.
    fn add_repositories(&mut self) {
        for FoundCommand { assessed, .. } in &mut self.commands {
            if assessed.name == "git" && !assessed.only_reads() {
                assessed.findings.push(changes_repository("git"));
            }
        }
    }
}

/// Returns whether an argument is a pattern that may match a file with the name of an option: `*` may match `--option`.
fn has_bare_pattern(command: &SimpleCommand) -> bool {
    command.name() != Some("[[") && command.args().iter().any(|word| word.glob == Some(0))
}

/// Assesses one command by itself, without the rest of the line. `None` for an assignment or a redirection without a
/// command and without findings: `x=1`, `< file`.
fn assess_one(
    command: &SimpleCommand,
    cwd: &Cwd<'_>,
    secrets: &SecretFinder<'_>,
) -> Option<AssessedCommand> {
    let mut findings = own_findings(command, cwd);
    let assignments = assignments::findings(command);
    let redirections = writes::redirections(&command.redirects, cwd);
    let SecretFinding { finding: secret, files } = secrets.find(command, cwd);
    let mut assessed = match command.words.first() {
        Some(first) => command_named(first, command, cwd),
        None if secret.is_some() => AssessedCommand::nameless("<".to_owned(), Vec::new()),
        None => {
            let decides = |(_, finding): &&(&str, Finding)| finding.fact == Fact::ChangesPrograms;
            let variable = assignments.iter().find(decides).or(assignments.first());
            let variable = variable.filter(|_| redirections.is_empty());
            let name = variable.map_or_else(|| ">".to_owned(), |(name, _)| format!("{name}="));
            AssessedCommand::nameless(name, Vec::new())
        }
    };
    findings.extend(assignments.into_iter().map(|(_, finding)| finding));
    findings.extend(redirections);
    findings.extend(secret);
    assessed.findings = findings;
    assessed.remembered.overwrites = writes::overwritten(&command.redirects, cwd);
    assessed.secrets = files;
    assessed.hidden = secrets.hidden(command, cwd);
    let is_nothing = assessed.findings.is_empty() && assessed.hidden.is_empty();
    (!command.words.is_empty() || !is_nothing).then_some(assessed)
}

/// Returns a command whose first word is `first`, without findings.
fn command_named(first: &Word, command: &SimpleCommand, cwd: &Cwd<'_>) -> AssessedCommand {
    let name = command.name().map_or_else(|| brief(&first.source), str::to_owned);
    let repository = if name == "git" { git::other_repository(command, cwd) } else { None };
    let mut remembered = Remembered {
        prefix: prefix::always_prefix(command),
        program: prefix::program(command),
        ..Remembered::default()
    };
    if let Some(repository) = &repository {
        // The remembered prefix names the repository: in another repository, the same git command may run other hooks
        // and filters.
        let there = format!("git -C {}", repository.display());
        remembered.prefix = remembered.prefix.replacen("git", &there, 1);
        remembered.program = Some(there);
    }
    AssessedCommand {
        remembered,
        forms: forms(command, repository.as_deref()),
        hides: every_time::hides_commands(command),
        ..AssessedCommand::nameless(name, Vec::new())
    }
}

/// Returns the findings of a command without its assignments and redirections.
fn own_findings(command: &SimpleCommand, cwd: &Cwd<'_>) -> Vec<Finding> {
    if command.words.is_empty() {
        return Vec::new();
    }
    match command.name() {
        None => {
            let why =
                format!("the program that `{}` runs is known only when it runs", command.brief());
            vec![Finding::new(Fact::Unresolved, BuiltInRule::UnknownCommand, why)]
        }
        Some("cd") => cd_finding(command, cwd).into_iter().collect(),
        Some(name) => {
            let mut findings = concerns(command, cwd);
            if findings.is_empty()
                && let Err(why) = harmless::check(command, cwd)
            {
                findings.push(Finding::new(Fact::RunsUnknown, BuiltInRule::ReadOnly, why));
            }
            if name.ends_with("/git") && !only_reads_as_git(command, cwd) {
                findings.push(changes_repository(name));
            }
            findings
        }
    }
}

/// Returns whether a command that calls git by a path (`/usr/bin/git`) is known to only read.
fn only_reads_as_git(command: &SimpleCommand, cwd: &Cwd<'_>) -> bool {
    let mut named = command.clone();
    if let Some(name) = named.words.first_mut() {
        *name = Word::from("git".to_owned());
    }
    harmless::check(&named, cwd).is_ok()
}

fn changes_repository(name: &str) -> Finding {
    let why = format!("`{name}` may change a repository");
    Finding::new(Fact::ChangesRepository, BuiltInRule::Sandbox, why)
}

/// Returns a sentence on the program that a reading command may start; see [`FoundCommand::starts`].
fn starts(command: &SimpleCommand, cwd: &Cwd<'_>) -> Option<String> {
    match command.name()? {
        "git" => git::hook(command, cwd),
        "go" => ["go.mod", "go.work"].iter().find(|file| cwd.has_above(file)).map(|file| {
            format!("`{}` may run the version of go that `{file}` names", command.brief())
        }),
        _ => None,
    }
}

/// Returns the findings that the tables of programs asked about every time have of a command.
fn concerns(command: &SimpleCommand, cwd: &Cwd<'_>) -> Vec<Finding> {
    let found = |fact, why| Finding::new(fact, BuiltInRule::EveryTime, why);
    let changed = every_time::changed(command);
    match every_time::concern(command) {
        None => Vec::new(),
        Some(Concern::Effect { why, destroys }) => {
            let fact = if destroys {
                Fact::Deletes
            } else if changed.iter().any(|word| writes::is_unprotected_argument(word, cwd)) {
                Fact::ChangesUnprotected
            } else {
                Fact::RunsDangerous
            };
            vec![found(fact, why)]
        }
        Some(Concern::Writes(written, args)) => {
            let finding = |word: &Word| {
                let (fact, why) = writes::argument(word, cwd)?;
                let is_unprotected =
                    changed.contains(word) && writes::is_unprotected_argument(word, cwd);
                let fact = if is_unprotected { Fact::ChangesUnprotected } else { fact };
                Some(found(fact, format!("`{written}` {why}")))
            };
            args.iter().filter_map(finding).collect()
        }
    }
}

/// Returns the forms of a command that rules are compared with; see [`AssessedCommand::forms`].
fn forms(command: &SimpleCommand, repository: Option<&Path>) -> Vec<Vec<Word>> {
    let words = command.words.clone();
    let git = (command.name() == Some("git")).then(|| Git::read(command.args())).flatten();
    let Some(git) = git else {
        return [vec![words.clone()], every_time::inner_candidates(&words)].concat();
    };
    let with = |more: &[Word]| [&words[..1], more, git.words].concat();
    let plain = with(&[]);
    let first = match repository {
        None => plain.clone(),
        Some(path) => with(&["-C".to_owned(), path.display().to_string()].map(Word::from)),
    };
    let mut forms = vec![first, plain, words];
    forms.dedup();
    forms
}

/// Returns the target of a `cd` command, if the target is known without running the line.
fn cd_target(command: &SimpleCommand) -> Option<&str> {
    let mut operands = command.args().iter().filter(|word| word.text != "--");
    let target = operands.next()?.literal().filter(|target| !target.starts_with('-'))?;
    if operands.next().is_some() { None } else { Some(target) }
}

fn cd_finding(command: &SimpleCommand, cwd: &Cwd<'_>) -> Option<Finding> {
    let written = command.brief();
    let (fact, why) = match cd_target(command) {
        None => (Fact::RunsUnknown, format!("the directory that `{written}` goes to is not known")),
        Some(_) if command.repeated => (
            Fact::Unresolved,
            format!("`{written}` runs more than once, and goes to another directory each time"),
        ),
        Some(target) if cwd.reaches_inside(target) => return None,
        Some(_) => (Fact::RunsUnknown, format!("`{written}` leaves the workspace")),
    };
    Some(Finding::new(fact, BuiltInRule::Cd, why))
}
