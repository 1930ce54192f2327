//! Which commands and files are harmless, and which must always be asked for.

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

pub use self::part::{Part, Risk};
use self::place::Place;
pub use self::sensitive::sensitive;
use self::variables::assignments_risk;
use super::shell::{self, Command, Direction, Dynamic, Redirect, Step, Word, brief};
use crate::tools::secrets::Secrets;

/// What each command of a line may do; or why that cannot be said.
pub fn judge(
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
    for step in shell::parse(line)? {
        match step {
            Step::Enter => shells.push(place.here().to_vec()),
            Step::Leave => place.back(shells.pop().unwrap_or_default()),
            Step::Function(name) => {
                let risk = Risk::Forced(format!("defines `{}`", brief(&name)));
                parts.push(Part::nameless(name, risk, "functions"));
            }
            Step::Wrapper(words) => wrappers.push(words),
            Step::Bind(..) | Step::Unbind(_) => {}
            Step::Command(command) => {
                if forced::makes_options(&command) {
                    makers.push(parts.len());
                }
                if has_bare_pattern(&command) {
                    patterns.push((parts.len(), said(&command), command.repeated));
                }
                if let Some(mut part) = command_part(&command, &place, secrets) {
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
    doubt(&mut parts, &makers, patterns);
    Ok(parts)
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
