//! The risk of each command of a line: which are harmless, and which are asked about every time.

mod assessed;
mod assignments;
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

pub use self::assessed::{AssessedCommand, Finding, Risk};
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

/// Name of the built-in rule on files with secrets.
pub(super) const SECRETS: &str = "secrets";

/// Assesses each command of a line in an environment; an error says why the line cannot be made out.
pub fn assess(
    environment: &Environment,
    line: &str,
    directory: &Path,
    roots: &[PathBuf],
    secrets: &Secrets,
) -> Result<Vec<AssessedCommand>, String> {
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
                    // A redirection that fails keeps its command from running; and others may
                    // have moved what is there now.
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

/// Adds to a command's assessment what the environment makes of it, and the content of what it runs.
fn consider(
    environment: &Environment,
    command: &SimpleCommand,
    wrappers: &[Vec<Word>],
    cwd: &Cwd<'_>,
    part: &mut AssessedCommand,
) {
    let runs = part.risk.level() >= 2;
    let own = command.name().and_then(|name| Some((name, environment.own_program(name, cwd)?)));
    // A project's own tools are asked about like its scripts: by path, which an "always" for the
    // name does not cover.
    if let Some((name, path)) = own.filter(|_| runs) {
        let path = path.display().to_string();
        part.prefix = part.prefix.replacen(name, &path, 1);
        part.program = part.program.take().map(|program| program.replacen(name, &path, 1));
        part.own = true;
    }
    let unnamed = SimpleCommand::default();
    let found = environment.risk(if runs { &unnamed } else { command }, wrappers, cwd);
    part.add(found, "environment");
    if matches!(part.risk, Risk::Runs(_)) {
        part.content = project::content(command, cwd);
    }
}

/// Assesses a wrapper that was given nothing to run, and is run all the same; `None` if it is harmless.
fn idle_wrapper(
    environment: &Environment,
    wrappers: &[Vec<Word>],
    cwd: &Cwd<'_>,
) -> Option<AssessedCommand> {
    let risk = environment.risk(&SimpleCommand::default(), wrappers, cwd);
    let name = wrappers.first()?.first()?.source.clone();
    (risk != Risk::None).then(|| AssessedCommand::nameless(name, risk, "environment"))
}

/// Assesses a command among loops; `reads`: it reads a line for one, and does nothing else.
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
    if reads || (!variants.is_empty() && variants.iter().all(is_harmless)) {
        part.clear();
    }
    part.hidden.extend(variants.iter().flat_map(|variant| secrets.hidden(variant, cwd)));
    part.changes_hidden |= variants.iter().any(|variant| secrets.changes_hidden(variant, cwd));
    Some(part)
}

/// Returns whether an argument is a pattern that may come to stand for a name like `--option`.
fn has_bare_pattern(command: &SimpleCommand) -> bool {
    command.name() != Some("[[") && command.args().iter().any(|word| word.glob == Some(0))
}

/// Assesses the commands with such patterns anew (by their index, as written, and whether they run
/// again) if another command of the line may make such a name.
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

/// Assesses one command. None if it is not worth a word: `x=1`, `< file`.
fn assess_one(
    command: &SimpleCommand,
    cwd: &Cwd<'_>,
    secrets: &SecretFinder<'_>,
) -> Option<AssessedCommand> {
    let (redirect, writes) = writes::redirects_risk(&command.redirects, cwd);
    let overwrites = writes::overwritten(&command.redirects, cwd);
    let (variable, assignment) = assignments::risk(command);
    let SecretFinding { risk: secret, files, is_certain } = secrets.find(command, cwd);
    let secret = (secret, SECRETS);
    let Some(first) = command.words.first() else {
        let redirects = redirect.0.level() >= assignment.0.level();
        let name = match secret.0 {
            Risk::None if redirects => ">".to_owned(),
            Risk::None => format!("{variable}="),
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
        let part = part.with([assignment, redirect, secret]);
        return (part.risk != Risk::None || !part.hidden.is_empty()).then_some(part);
    };
    let (risk, rule) = own_risk(command, cwd);
    let name = command.name().map_or_else(|| brief(&first.source), str::to_owned);
    let repository = if name == "git" { git::other_repository(command, cwd) } else { None };
    let mut prefix = prefix::of(command);
    let mut program = prefix::program(command);
    if let Some(repository) = &repository {
        // What was always allowed in one repository may run other commands in the next.
        let there = format!("git -C {}", repository.display());
        prefix = prefix.replacen("git", &there, 1);
        program = Some(there);
    }
    let forms = forms(command, repository.as_deref());
    let part = AssessedCommand {
        name,
        prefix,
        program,
        risk,
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
    Some(part.with([assignment, redirect, secret]))
}

/// Returns the risk of what a command itself does, and the name of the rule that found it.
fn own_risk(command: &SimpleCommand, cwd: &Cwd<'_>) -> (Risk, &'static str) {
    match command.name() {
        None => {
            let why =
                format!("the program that `{}` runs is known only when it runs", command.brief());
            (Risk::Forced(why), "unknown-command")
        }
        Some("cd") => (cd_risk(command, cwd), "cd"),
        Some(_) => {
            let harmless =
                || harmless::check(command, cwd).map_or_else(Risk::Runs, |()| Risk::None);
            let concern = concern(command, cwd).map(|why| (Risk::Forced(why), "every-time"));
            concern.unwrap_or_else(|| (harmless(), "read-only"))
        }
    }
}

/// Returns whether a command is git by its path, and not known to only read.
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

/// Returns what a command that reads may run where the line is not given the variables of lines that
/// only read.
fn relies(command: &SimpleCommand, cwd: &Cwd<'_>) -> Option<String> {
    match command.name()? {
        "git" => git::hook(command, cwd),
        "go" => ["go.mod", "go.work"].iter().find(|file| cwd.has_above(file)).map(|file| {
            format!("`{}` may run the version of go that `{file}` names", command.brief())
        }),
        _ => None,
    }
}

/// Assesses anew the commands that rely on the variables of lines that only read, if the line is not
/// given them: its other commands have their own use for hooks and toolchains.
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

/// Returns the reason to ask about a command every time.
fn concern(command: &SimpleCommand, cwd: &Cwd<'_>) -> Option<String> {
    match every_time::concern(command)? {
        Concern::Effect(why) => Some(why),
        Concern::Writes(written, args) => {
            writes::arguments_concern(&args, cwd).map(|why| format!("`{written}` {why}"))
        }
    }
}

/// Returns a command as rules know it; see [`AssessedCommand::forms`].
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

/// Returns the target of `cd`, if it is known.
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
