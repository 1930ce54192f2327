//! Which commands and files are harmless, and which must always be asked for.

mod environment;
mod forced;
mod git;
mod git_config;
mod loops;
mod options;
mod part;
mod place;
mod prefix;
mod repository;
mod safe;
mod secrets;
mod sed;
mod sensitive;
mod variables;

use std::path::{Path, PathBuf};

pub use self::environment::Environment;
use self::loops::Loops;
pub use self::part::{Part, Risk};
use self::place::Place;
pub use self::sensitive::sensitive;
use self::variables::assignments_risk;
use crate::shell::{self, Command, Direction, Dynamic, Redirect, Step, Word, brief};
use crate::tools::secrets::Secrets;

/// Judges what each command of a line may do in this process's own environment; an error says why
/// that cannot be said.
pub fn judge(
    line: &str,
    directory: &Path,
    roots: &[PathBuf],
    secrets: &Secrets,
) -> Result<Vec<Part>, String> {
    judge_in(&Environment::own(), line, directory, roots, secrets)
}

/// What each command of a line may do; or why that cannot be said.
pub fn judge_in(
    environment: &Environment,
    line: &str,
    directory: &Path,
    roots: &[PathBuf],
    secrets: &Secrets,
) -> Result<Vec<Part>, String> {
    let mut place = Place::new(directory, roots);
    let mut shells = Vec::new();
    let mut parts = Vec::new();
    let (mut makers, mut patterns) = (Vec::new(), Vec::new());
    let mut wrappers = Vec::new();
    let steps = shell::parse(line)?;
    let mut loops = Loops::new(line, &steps);
    let mut steps = steps.into_iter().peekable();
    while let Some(step) = steps.next() {
        match step {
            Step::Enter => {
                shells.push(place.here().to_vec());
                loops.enter();
            }
            Step::Leave => {
                place.back(shells.pop().unwrap_or_default());
                loops.leave();
            }
            Step::Bind(name, words) => loops.bind(name, words),
            Step::Unbind(name) => loops.unbind(&name),
            Step::Function(name) => {
                let risk = Risk::Forced(format!("defines `{}`", brief(&name)));
                parts.push(Part::nameless(name, risk, "functions"));
            }
            Step::Wrapper(words) => {
                if words.first().is_some_and(|name| shell::is_shell(&name.text)) {
                    loops.start();
                }
                wrappers.push(words);
            }
            Step::Command(command) => {
                if forced::makes_options(&command) {
                    makers.push(parts.len());
                }
                if has_bare_pattern(&command) {
                    patterns.push((parts.len(), said(&command), command.repeated));
                }
                let reads = matches!(steps.peek(), Some(Step::Bind(_, None)));
                if let Some(mut part) = looped_part(&command, &loops, &place, secrets, reads) {
                    let found = environment.risk(&command, &wrappers, &place);
                    if found.level() > part.risk.level() {
                        (part.risk, part.rule) = (found, "environment");
                    }
                    part.forms.append(&mut wrappers);
                    parts.push(part);
                }
                if command.name() == Some("cd") {
                    // A redirection that fails keeps its command from running; and others may
                    // have moved what is there now.
                    let fails = |redirect: &Redirect| redirect.target.text != "/dev/null";
                    let unsure = command.conditional
                        || command.redirects.iter().any(fails)
                        || parts.iter().any(|part| part.risk != Risk::None);
                    place.go(cd_target(&command), !unsure);
                }
            }
        }
    }
    parts.extend(idle_wrapper(environment, &wrappers, &place));
    doubt(&mut parts, &makers, patterns);
    Ok(parts)
}

/// A wrapper that was given nothing to run, and is run all the same, if it is one to ask about.
fn idle_wrapper(
    environment: &Environment,
    wrappers: &[Vec<Word>],
    place: &Place<'_>,
) -> Option<Part> {
    let risk = environment.risk(&Command::default(), wrappers, place);
    let name = wrappers.first()?.first()?.source.clone();
    (risk != Risk::None).then(|| Part::nameless(name, risk, "environment"))
}

/// Judges one command among loops; `reads`: it reads a line for one, and does nothing else.
fn looped_part(
    command: &Command,
    loops: &Loops,
    place: &Place<'_>,
    secrets: &Secrets,
    reads: bool,
) -> Option<Part> {
    let mut part = command_part(command, place, secrets)?;
    let variants = loops.variants(command);
    let is_harmless = |variant: &Command| {
        command_part(variant, place, secrets).is_none_or(|part| part.risk == Risk::None)
    };
    if reads || (!variants.is_empty() && variants.iter().all(is_harmless)) {
        (part.risk, part.rule) = (Risk::None, "read-only");
    }
    Some(part)
}

/// Whether an argument is a pattern that may come to stand for a name like `--option`.
fn has_bare_pattern(command: &Command) -> bool {
    command.name() != Some("[[") && command.args().iter().any(|word| word.glob == Some(0))
}

/// Judges anew the commands with such patterns (by their place in the list, as written, and
/// whether they run again) if another command of the line may make such a name.
fn doubt(parts: &mut [Part], makers: &[usize], patterns: Vec<(usize, String, bool)>) {
    for (at, said, repeated) in patterns {
        if let Some(part) = parts.get_mut(at)
            && makers.iter().any(|maker| repeated || *maker != at)
        {
            let why = format!("what `{said}` stands for may change before it runs");
            if part.risk.level() < 2 {
                (part.risk, part.rule) = (Risk::Runs(why), "patterns");
            }
        }
    }
}

/// What one command may do. None if it is not worth a word: `x=1`, `< file`.
fn command_part(command: &Command, place: &Place<'_>, secrets: &Secrets) -> Option<Part> {
    let (redirect, writes) = redirects_risk(&command.redirects, place);
    let overwrites = overwritten(&command.redirects, place);
    let (variable, assignment) = assignments_risk(command);
    let secret = (secrets::risk(command, place, secrets), "secrets");
    let Some(first) = command.words.first() else {
        let redirects = redirect.0.level() >= assignment.0.level();
        let name = match secret.0 {
            Risk::None if redirects => ">".to_owned(),
            Risk::None => format!("{variable}="),
            _ => "<".to_owned(),
        };
        let (risk, rule) = greatest([assignment, redirect, secret]);
        let part = Part { writes, overwrites, ..Part::nameless(name, risk, rule) };
        return (part.risk != Risk::None).then_some(part);
    };
    let own = match command.name() {
        None => {
            let why = format!("which command `{}` is, only running it tells", said(command));
            (Risk::Forced(why), "unknown-command")
        }
        Some("cd") => (cd_risk(command, place), "cd"),
        Some(_) => {
            let safe = || safe::check(command, place).map_or_else(Risk::Runs, |()| Risk::None);
            let forced = forced::why(command, place).map(|why| (Risk::Forced(why), "every-time"));
            forced.unwrap_or_else(|| (safe(), "read-only"))
        }
    };
    let name = match command.name() {
        Some(name) => name.to_owned(),
        None => brief(&first.source),
    };
    let (risk, rule) = greatest([own, assignment, redirect, secret]);
    let repository = if name == "git" { git::other_repository(command, place) } else { None };
    let mut prefix = prefix::of(command);
    let mut program = prefix::program(command);
    if let Some(repository) = &repository {
        // What was always allowed in one repository may run other commands in the next.
        let there = format!("git -C {}", repository.display());
        prefix = prefix.replacen("git", &there, 1);
        program = Some(there);
    }
    let forms = forms(command, repository.as_deref());
    let hides = forced::hides_commands(command);
    Some(Part { name, prefix, program, risk, rule, writes, overwrites, forms, hides })
}

/// The gravest; of equals, the first.
fn greatest<const N: usize>(risks: [(Risk, &'static str); N]) -> (Risk, &'static str) {
    let graver = |found: (Risk, _), next: (Risk, _)| {
        if next.0.level() > found.0.level() { next } else { found }
    };
    risks.into_iter().reduce(graver).unwrap_or((Risk::None, "read-only"))
}

/// A command as rules know it; see [`Part::forms`].
fn forms(command: &Command, repository: Option<&Path>) -> Vec<Vec<Word>> {
    let words = command.words.clone();
    let git = (command.name() == Some("git")).then(|| git::Git::read(command.args())).flatten();
    let Some(git) = git else { return [vec![words.clone()], forced::run_by(&words)].concat() };
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

/// The files that redirections write and that can be run already, as written.
fn overwritten(redirects: &[Redirect], place: &Place<'_>) -> Option<String> {
    let can_run = |redirect: &&Redirect| {
        redirect.direction == Direction::Write && place.can_run(&redirect.target)
    };
    let files: Vec<_> =
        redirects.iter().filter(can_run).map(|redirect| redirect.target.plain()).collect();
    (!files.is_empty()).then(|| files.join(" > "))
}

/// What a command's redirections do, and whether one writes a file of the workspace.
fn redirects_risk(
    redirects: &[Redirect],
    place: &Place<'_>,
) -> ((Risk, &'static str), Option<String>) {
    let mut risk = Risk::None;
    let mut writes = None;
    for Redirect { direction, target } in redirects {
        let file = brief(&target.source);
        let found = match (direction, target.literal()) {
            (Direction::Text, _) if target.dynamic <= Dynamic::Number => Risk::None,
            (Direction::Text, _) => Risk::Runs("a text has what only running it tells".to_owned()),
            (_, Some("/dev/null" | "/dev/stdin" | "/dev/stdout" | "/dev/stderr")) => Risk::None,
            (Direction::Read, Some(path)) if place.reaches_inside(path) => Risk::None,
            (Direction::Read, _) => {
                Risk::Runs(format!("`< {file}` may read outside the workspace"))
            }
            (Direction::Write, None) => {
                Risk::Forced(format!("which file `> {file}` is, only running it tells"))
            }
            (Direction::Write, Some(_)) => match place.inside_root(target) {
                None => Risk::Forced(format!("writes to `{file}`, outside the workspace")),
                Some(paths) => {
                    let said = format!("writes to `{file}`");
                    if let Some(why) = paths.iter().find_map(|path| sensitive(path)) {
                        Risk::Forced(format!("{said}: {why}"))
                    } else {
                        writes.get_or_insert_with(|| said.clone());
                        Risk::Writes(said)
                    }
                }
            },
        };
        risk = risk.or(found);
    }
    ((risk, "redirections"), writes)
}

/// Where `cd` goes, if that is known.
fn cd_target(command: &Command) -> Option<&str> {
    let mut operands = command.args().iter().filter(|word| word.text != "--");
    let target = operands.next()?.literal().filter(|target| !target.starts_with('-'))?;
    if operands.next().is_some() { None } else { Some(target) }
}

fn cd_risk(command: &Command, place: &Place<'_>) -> Risk {
    let said = said(command);
    let Some(target) = cd_target(command) else {
        return Risk::Runs(format!("where `{said}` goes is not known"));
    };
    if command.repeated {
        return Risk::Forced(format!("where `{said}` goes changes each time"));
    }
    if place.reaches_inside(target) {
        return Risk::None;
    }
    Risk::Runs(format!("`{said}` leaves the workspace"))
}

/// A command as it was written, shortened.
fn said(command: &Command) -> String {
    let words = command.words.iter().take(20).map(|word| word.source.as_str());
    brief(&words.collect::<Vec<_>>().join(" "))
}
