//! Which commands and files are harmless, and which must always be asked for.

mod forced;
mod git;
mod options;
mod place;
mod prefix;
mod safe;
mod sed;
mod sensitive;

use std::path::{Path, PathBuf};

use self::place::Place;
pub use self::sensitive::sensitive;
use super::shell::{self, Command, Direction, Dynamic, Redirect, Step, brief};

/// One command of a command line, judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The command's name, for people: `git`.
    pub name: String,
    /// What "always" would remember: `git commit`.
    pub prefix: String,
    /// What it may do.
    pub risk: Risk,
    /// That it writes files of the workspace by redirections, whatever else it does.
    pub writes: Option<String>,
    /// Which of these can be run already, as written: an "always" for others does not cover them.
    pub overwrites: Option<String>,
}

/// What a command may do. Each says why, in a few words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Risk {
    /// Known to do nothing but read inside the workspace.
    None,
    /// Harmless but for a file of the workspace that it writes.
    Writes(String),
    /// Not known to be harmless.
    Runs(String),
    /// To be asked about every time.
    Forced(String),
}

impl Risk {
    fn level(&self) -> u8 {
        match self {
            Self::None => 0,
            Self::Writes(_) => 1,
            Self::Runs(_) => 2,
            Self::Forced(_) => 3,
        }
    }

    /// The greater of the two.
    fn or(self, other: Self) -> Self {
        if other.level() > self.level() { other } else { self }
    }
}

impl Part {
    /// Why it is asked about.
    pub fn why(&self) -> &str {
        match &self.risk {
            Risk::None => "",
            Risk::Writes(why) | Risk::Runs(why) | Risk::Forced(why) => why,
        }
    }
}

/// What each command of a line may do; or why that cannot be said.
pub fn judge(line: &str, directory: &Path, roots: &[PathBuf]) -> Result<Vec<Part>, String> {
    let mut place = Place::new(directory, roots);
    let mut shells = Vec::new();
    let mut parts = Vec::new();
    let (mut makers, mut patterns) = (Vec::new(), Vec::new());
    for step in shell::parse(line)? {
        match step {
            Step::Enter => shells.push(place.here().to_vec()),
            Step::Leave => place.back(shells.pop().unwrap_or_default()),
            Step::Function(name) => {
                let risk = Risk::Forced(format!("defines `{}`", brief(&name)));
                let prefix = name.clone();
                parts.push(Part { prefix, name, risk, writes: None, overwrites: None });
            }
            Step::Command(command) => {
                if forced::makes_options(&command) {
                    makers.push(parts.len());
                }
                if has_bare_pattern(&command) {
                    patterns.push((parts.len(), said(&command), command.repeated));
                }
                parts.extend(command_part(&command, &place));
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
            part.risk = std::mem::replace(&mut part.risk, Risk::None).or(Risk::Runs(why));
        }
    }
}

/// What one command may do. None if it is not worth a word: `x=1`, `< file`.
fn command_part(command: &Command, place: &Place<'_>) -> Option<Part> {
    let (redirect, writes) = redirects_risk(&command.redirects, place);
    let overwrites = overwritten(&command.redirects, place);
    let (variable, assignment) = assignments_risk(command);
    let Some(first) = command.words.first() else {
        let redirects = redirect.level() >= assignment.level();
        let name = if redirects { ">".to_owned() } else { format!("{variable}=") };
        let risk = assignment.or(redirect);
        let prefix = name.clone();
        return (risk != Risk::None).then_some(Part { name, prefix, risk, writes, overwrites });
    };
    let own = match command.name() {
        None => {
            Risk::Forced(format!("which command `{}` is, only running it tells", said(command)))
        }
        Some("cd") => cd_risk(command, place),
        Some(_) => match forced::why(command, place) {
            Some(why) => Risk::Forced(why),
            None => safe::check(command, place).map_or_else(Risk::Runs, |()| Risk::None),
        },
    };
    let name = match command.name() {
        Some(name) => name.to_owned(),
        None => brief(&first.source),
    };
    let risk = own.or(assignment).or(redirect);
    let mut prefix = prefix::of(command);
    if name == "git"
        && let Some(repository) = git::other_repository(command, place)
    {
        // What was always allowed in one repository may run other commands in the next.
        prefix = prefix.replacen("git", &format!("git -C {}", repository.display()), 1);
    }
    Some(Part { name, prefix, risk, writes, overwrites })
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
fn redirects_risk(redirects: &[Redirect], place: &Place<'_>) -> (Risk, Option<String>) {
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
    (risk, writes)
}

/// Variables that change no more than how something looks.
const HARMLESS: &[&str] = &[
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "COLUMNS",
    "FORCE_COLOR",
    "LANG",
    "LC_*",
    "LINES",
    "NO_COLOR",
    "TERM",
    "TZ",
];

/// Variables that decide what programs run, or where they look; and those whose value bash
/// evaluates, with the commands in it.
const DECISIVE: &[&str] = &[
    "*EDITOR",
    "*PAGER",
    "*_COMMAND",
    "*_PROXY",
    "*_WRAPPER",
    "BASH*",
    "BROWSER",
    "CARGO_*",
    "CC",
    "CDPATH",
    "CXX",
    "DYLD_*",
    "ENV",
    "GIT_*",
    "GLOBIGNORE",
    "HISTCMD",
    "HOME",
    "IFS",
    "JAVA_TOOL_OPTIONS",
    "LD_*",
    "LESS*",
    "MAKEFLAGS",
    "NODE_*",
    "NPM_CONFIG_*",
    "OLDPWD",
    "OPTIND",
    "PATH",
    "PERL*",
    "PIP_*",
    "PROMPT_COMMAND",
    "PS4",
    "PWD",
    "PYTHON*",
    "RANDOM",
    "RIPGREP_CONFIG_PATH",
    "RUBY*",
    "RUSTC*",
    "RUSTFLAGS",
    "SHELL*",
    "SRANDOM",
    "SSH_*",
    "XDG_*",
];

/// What a command's assignments do, and the first variable that counts.
fn assignments_risk(command: &Command) -> (&str, Risk) {
    let mut risk = Risk::None;
    let mut variable = "";
    for assignment in &command.assignments {
        let name = assignment.name.as_str();
        let source = brief(&assignment.source);
        // Small letters are for the line itself, by custom, unless a command is given them.
        let own = command.words.is_empty() && !name.contains(|c: char| c.is_ascii_uppercase());
        // `IFS= read line` changes how that one line is split.
        let splits = name == "IFS" && command.name() == Some("read");
        let found = if is_listed(DECISIVE, name) && !splits {
            Risk::Forced(format!("`{source}` may change what is run"))
        } else if own || is_listed(HARMLESS, name) {
            Risk::None
        } else {
            Risk::Runs(format!("`{source}` may change what a command does"))
        };
        if found.level() > risk.level() {
            (variable, risk) = (name, found);
        }
    }
    (variable, risk)
}

fn is_listed(list: &[&str], name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    list.iter().any(|pattern| match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(end), _) => name.ends_with(end),
        (_, Some(start)) => name.starts_with(start),
        _ => name == *pattern,
    })
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
