//! Risk assessment of command lines: the risk of each command of a line, from harmless to asked about every time.

mod assignments;
mod command;
mod cwd;
mod environment;
mod git;
mod harmless;
mod project;
mod repository;
mod secrets;
mod sensitive;
mod variables;
mod writes;

use std::path::{Path, PathBuf};

pub use self::command::{AssessedCommand, Finding, Risk};
use self::cwd::Cwd;
pub use self::environment::{Environment, SandboxSituation};
pub use self::project::ProjectContent;
use self::secrets::{SecretFinder, SecretFinding};
pub use self::sensitive::sensitive;
use self::variables::Variables;
use tandem_host::secrets::Secrets;
use tandem_shell::every_time::{self, Concern};
use tandem_shell::git::Git;
use tandem_shell::loops::Loops;
use tandem_shell::{self as shell, Redirect, SimpleCommand, Step, Word, brief, prefix};

/// Name of the built-in rule that asks about files with secrets.
pub(super) const SECRETS: &str = "secrets";

/// Assesses each command of a line that would run in `environment`, beginning in `directory`. An error says why the
/// line cannot be analysed.
pub fn assess(
    environment: &Environment,
    line: &str,
    directory: &Path,
    roots: &[PathBuf],
    secrets: &Secrets,
) -> Result<Vec<AssessedCommand>, String> {
    // 1. Parse the line into steps, and collect the variables that the line sets.
    // 2. Follow the steps in their order, and assess each command in the working directories and loops around it. A
    //    subshell restores the directories when it ends; `cd` changes them.
    // 3. Assess a wrapper (`nice`) that the line gives no command to run.
    // 4. Raise the risk of commands that other commands of the line make dangerous: patterns that may match an option
    //    (`doubt`), and reading commands that may start programs (`rely`).
    let mut cwd = Cwd::new(directory, roots);
    let mut shells = Vec::new();
    let mut assessed = Vec::new();
    let (mut makers, mut patterns) = (Vec::new(), Vec::new());
    let mut wrappers = Vec::new();
    let steps = shell::parse(line)?;
    let mut loops = Loops::new(line, &steps);
    let variables = Variables::new(environment, &steps);
    let secrets = SecretFinder::new(secrets, variables, environment.hidden(), roots);
    let mut steps = steps.into_iter().peekable();
    while let Some(step) = steps.next() {
        match step {
            Step::Enter => {
                shells.push(cwd.here().to_vec());
                loops.enter();
            }
            Step::Leave => {
                cwd.back(shells.pop().unwrap_or_default());
                loops.leave();
            }
            Step::Bind(name, words) => loops.bind(name, words),
            Step::Unbind(name) => loops.unbind(&name),
            Step::Function(name) => {
                let risk = Risk::Forced(format!("the line defines a function, `{}`", brief(&name)));
                assessed.push(AssessedCommand::nameless(name, risk, "functions"));
            }
            Step::Wrapper(words) => {
                if words.first().is_some_and(|name| shell::is_shell(&name.text)) {
                    loops.start();
                }
                wrappers.push(words);
            }
            Step::Command(command) => {
                if every_time::makes_options(&command) {
                    makers.push(assessed.len());
                }
                if has_bare_pattern(&command) {
                    patterns.push((assessed.len(), command.brief(), command.repeated));
                }
                let reads = matches!(steps.peek(), Some(Step::Bind(_, None)));
                if let Some(mut part) = assess_looped(&command, &loops, &cwd, &secrets, reads) {
                    consider(environment, &command, &wrappers, &cwd, &mut part);
                    part.forms.append(&mut wrappers);
                    assessed.push(part);
                }
                if command.name() == Some("cd") {
                    // A failed redirection keeps `cd` from running, and an earlier command that does more than read may
                    // have moved the directory.
                    let fails = |redirect: &Redirect| redirect.target.text != "/dev/null";
                    let unsure = command.conditional
                        || command.redirects.iter().any(fails)
                        || assessed.iter().any(|part| part.risk != Risk::None);
                    cwd.go(cd_target(&command), !unsure);
                }
            }
        }
    }
    assessed.extend(idle_wrapper(environment, &wrappers, &cwd));
    doubt(&mut assessed, &makers, patterns);
    rely(&mut assessed);
    Ok(assessed)
}

/// Adds to the assessment of a command the risk that the environment brings, and the content of the project's files
/// that decide what the command runs.
fn consider(
    environment: &Environment,
    command: &SimpleCommand,
    wrappers: &[Vec<Word>],
    cwd: &Cwd<'_>,
    part: &mut AssessedCommand,
) {
    let runs = part.risk.level() >= 2;
    let own = command.name().and_then(|name| Some((name, environment.own_program(name, cwd)?)));
    // A program of the workspace is named by its path, as scripts are, so that an "always" for the bare name does not
    // cover the program.
    if let Some((name, path)) = own.filter(|_| runs) {
        let path = path.display().to_string();
        part.prefix = part.prefix.replacen(name, &path, 1);
        part.program = part.program.take().map(|program| program.replacen(name, &path, 1));
        part.own = true;
    }
    let unnamed = SimpleCommand::default();
    let found = environment.risks(if runs { &unnamed } else { command }, wrappers, cwd);
    found.into_iter().for_each(|risk| part.add(risk, "environment"));
    if matches!(part.risk, Risk::Runs(_)) {
        part.content = project::content(command, cwd);
    }
}

/// Assesses wrappers at the end of a line that were given no command to run, and run all the same; `None` if they are
/// harmless.
fn idle_wrapper(
    environment: &Environment,
    wrappers: &[Vec<Word>],
    cwd: &Cwd<'_>,
) -> Option<AssessedCommand> {
    let risks = environment.risks(&SimpleCommand::default(), wrappers, cwd);
    let name = wrappers.first()?.first()?.source.clone();
    let part = AssessedCommand::nameless(name, Risk::None, "environment");
    Some(part.with(risks, "environment")).filter(|part| part.risk != Risk::None)
}

/// Assesses a command that may use variables of loops. `reads`: the command is the `read` of a loop, and only sets the
/// variable of the loop.
fn assess_looped(
    command: &SimpleCommand,
    loops: &Loops,
    cwd: &Cwd<'_>,
    secrets: &SecretFinder<'_>,
    reads: bool,
) -> Option<AssessedCommand> {
    let mut part = assess_one(command, cwd, secrets)?;
    let variants = loops.variants(command);
    let is_harmless = |variant: &SimpleCommand| {
        assess_one(variant, cwd, secrets).is_none_or(|part| part.risk == Risk::None)
    };
    // A command is harmless if it is harmless with every value that the variables of its loops take.
    if reads || (!variants.is_empty() && variants.iter().all(is_harmless)) {
        part.clear();
    }
    part.hidden.extend(variants.iter().flat_map(|variant| secrets.hidden(variant, cwd)));
    part.changes_hidden |= variants.iter().any(|variant| secrets.changes_hidden(variant, cwd));
    Some(part)
}

/// Returns whether an argument is a pattern that may match a file with the name of an option: `*` may match `--option`.
fn has_bare_pattern(command: &SimpleCommand) -> bool {
    command.name() != Some("[[") && command.args().iter().any(|word| word.glob == Some(0))
}

/// Raises the risk of commands with a pattern that may match an option, if another command of the line may make a file
/// with such a name. `makers`: indexes of the commands that may make such a file. `patterns`: for each command with
/// such a pattern its index, its text as written, and whether it runs repeatedly.
fn doubt(assessed: &mut [AssessedCommand], makers: &[usize], patterns: Vec<(usize, String, bool)>) {
    for (at, written, repeated) in patterns {
        if let Some(part) = assessed.get_mut(at)
            && makers.iter().any(|maker| repeated || *maker != at)
        {
            let why = format!(
                "another command of the line may make a file whose name `{written}` takes for an option"
            );
            if part.risk.level() < 2 {
                (part.risk, part.rule) = (Risk::Runs(why), "patterns");
            }
        }
    }
}

/// Assesses one command by itself, without the rest of the line. `None` for an assignment or a redirection without a
/// command and without risk: `x=1`, `< file`.
fn assess_one(
    command: &SimpleCommand,
    cwd: &Cwd<'_>,
    secrets: &SecretFinder<'_>,
) -> Option<AssessedCommand> {
    let (redirects, writes) = writes::redirects_risks(&command.redirects, cwd);
    let overwrites = writes::overwritten(&command.redirects, cwd);
    let assignments = assignments::risks(command);
    let SecretFinding { risk: secret, files, is_certain } = secrets.find(command, cwd);
    let Some(first) = command.words.first() else {
        let level = redirects.iter().map(Risk::level).max().unwrap_or(0);
        // The first of the gravest.
        let variable = assignments.iter().rev().max_by_key(|(_, risk)| risk.level());
        let name = match (&secret, variable) {
            (Risk::None, Some((variable, risk))) if risk.level() > level => format!("{variable}="),
            (Risk::None, _) => ">".to_owned(),
            _ => "<".to_owned(),
        };
        let part = AssessedCommand {
            writes,
            overwrites,
            secrets: files,
            hidden: secrets.hidden(command, cwd),
            tells_secrets: is_certain,
            plants: writes::plants(command, cwd),
            ..AssessedCommand::nameless(name, Risk::None, "read-only")
        };
        let part = part.with(assignments.into_iter().map(|(_, risk)| risk), "variables");
        let part = part.with(redirects, "redirections").with([secret], SECRETS);
        return (part.risk != Risk::None || !part.hidden.is_empty()).then_some(part);
    };
    let (risks, rule) = own_risks(command, cwd);
    let name = command.name().map_or_else(|| brief(&first.source), str::to_owned);
    let repository = if name == "git" { git::other_repository(command, cwd) } else { None };
    let mut prefix = prefix::of(command);
    let mut program = prefix::program(command);
    if let Some(repository) = &repository {
        // The prefix names the repository, because the same git command may run other programs (hooks, filters) in
        // another repository.
        let there = format!("git -C {}", repository.display());
        prefix = prefix.replacen("git", &there, 1);
        program = Some(there);
    }
    let forms = forms(command, repository.as_deref());
    let part = AssessedCommand {
        name,
        prefix,
        program,
        risk: Risk::None,
        rule,
        also: Vec::new(),
        secrets: files,
        hidden: secrets.hidden(command, cwd),
        tells_secrets: is_certain,
        writes,
        overwrites,
        forms,
        own: false,
        relies: relies(command, cwd),
        hides: every_time::hides_commands(command),
        destroys: every_time::destroys(command),
        plants: writes::plants(command, cwd),
        content: ProjectContent::None,
        changes_repository: changes_repository(command, cwd),
        changes_hidden: secrets.changes_hidden(command, cwd),
    };
    let part = part.with(risks, rule);
    let part = part.with(assignments.into_iter().map(|(_, risk)| risk), "variables");
    Some(part.with(redirects, "redirections").with([secret], SECRETS))
}

/// Returns the risks of a command without its assignments and redirections, and the name of the rule that found them.
fn own_risks(command: &SimpleCommand, cwd: &Cwd<'_>) -> (Vec<Risk>, &'static str) {
    match command.name() {
        None => {
            let why =
                format!("the program that `{}` runs is known only when it runs", command.brief());
            (vec![Risk::Forced(why)], "unknown-command")
        }
        Some("cd") => (vec![cd_risk(command, cwd)], "cd"),
        Some(_) => {
            let harmless =
                || harmless::check(command, cwd).map_or_else(Risk::Runs, |()| Risk::None);
            let concerns: Vec<_> = concerns(command, cwd).into_iter().map(Risk::Forced).collect();
            if concerns.is_empty() {
                (vec![harmless()], "read-only")
            } else {
                (concerns, "every-time")
            }
        }
    }
}

/// Returns whether a command calls git by a path (`/usr/bin/git`), and is not known to only read.
fn changes_repository(command: &SimpleCommand, cwd: &Cwd<'_>) -> bool {
    let Some((_, "git")) = command.name().and_then(|name| name.rsplit_once('/')) else {
        return false;
    };
    let mut named = command.clone();
    if let Some(name) = named.words.first_mut() {
        *name = Word::from("git".to_owned());
    }
    harmless::check(&named, cwd).is_err()
}

/// Returns a sentence on the program that a reading command may start (a hook, another version of go), if the line is
/// not given the variables of [`Environment::of_reading`].
fn relies(command: &SimpleCommand, cwd: &Cwd<'_>) -> Option<String> {
    match command.name()? {
        "git" => git::hook(command, cwd),
        "go" => ["go.mod", "go.work"].iter().find(|file| cwd.has_above(file)).map(|file| {
            format!("`{}` may run the version of go that `{file}` names", command.brief())
        }),
        _ => None,
    }
}

/// Raises the risk of reading commands that may start programs, if another command of the line does more than read.
/// Such a line is not given the variables of [`Environment::of_reading`], because its other commands may need hooks and
/// toolchains.
fn rely(assessed: &mut [AssessedCommand]) {
    if assessed.iter().all(AssessedCommand::only_reads) {
        return;
    }
    for part in assessed {
        if part.only_reads()
            && let Some(why) = part.relies.clone()
        {
            (part.risk, part.rule) = (Risk::Runs(why), "read-only");
        }
    }
}

/// Returns the reasons to ask about a command every time.
fn concerns(command: &SimpleCommand, cwd: &Cwd<'_>) -> Vec<String> {
    match every_time::concern(command) {
        None => Vec::new(),
        Some(Concern::Effect(why)) => vec![why],
        Some(Concern::Writes(written, args)) => {
            let concerns = args.iter().filter_map(|word| writes::argument_concern(word, cwd));
            concerns.map(|why| format!("`{written}` {why}")).collect()
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

fn cd_risk(command: &SimpleCommand, cwd: &Cwd<'_>) -> Risk {
    let written = command.brief();
    let Some(target) = cd_target(command) else {
        return Risk::Runs(format!("the directory that `{written}` goes to is not known"));
    };
    if command.repeated {
        return Risk::Forced(format!(
            "`{written}` runs more than once, and goes to another directory each time"
        ));
    }
    if cwd.reaches_inside(target) {
        return Risk::None;
    }
    Risk::Runs(format!("`{written}` leaves the workspace"))
}
