//! The commands that are asked about every time, whatever was allowed before.
//!
//! Not a list of all that can do harm: whatever is not known to be harmless is asked about
//! anyway. It says what an earlier "always" must not cover.

use super::options::{gives, value};
use super::place::Place;
use super::prefix::{self, INTERPRETERS, Interpreter};
use super::sed::Sed;
use super::variables::{DECISIVE, is_listed};
use super::{git, said, sensitive};
use crate::shell::{Command, Direction, Dynamic, Redirect, Word, brief};

/// Programs, by what they do.
const ALWAYS: &[(&[&str], &str)] = &[
    (&["doas", "pkexec", "run0", "runas", "su", "sudo"], "runs as another user"),
    (
        &["dd", "fdisk", "mkfs", "mkswap", "parted", "shred", "wipefs"],
        "overwrites what cannot be restored",
    ),
    (&["halt", "poweroff", "reboot", "shutdown"], "stops the machine"),
    (&["at", "batch", "crontab", "systemd-run"], "runs something later"),
    (&["ln"], "makes a link, which may lead anywhere"),
    (
        &[
            "busybox", "chroot", "chrt", "ed", "emacs", "entr", "ex", "expect", "flock", "gdb",
            "ltrace", "nsenter", "nvim", "parallel", "script", "setarch", "ssh", "strace",
            "taskset", "toybox", "unshare", "vi", "vim", "watch",
        ],
        "may run any other command",
    ),
    (
        &[
            ".",
            "alias",
            "bind",
            "builtin",
            "compgen",
            "complete",
            "declare",
            "enable",
            "eval",
            "exec",
            "fc",
            "getopts",
            "hash",
            "let",
            "local",
            "mapfile",
            "popd",
            "pushd",
            "readarray",
            "readonly",
            "set",
            "shopt",
            "source",
            "trap",
            "typeset",
            "unalias",
        ],
        "may change what the rest of the line does",
    ),
];

/// Programs and their options that do more than the program is known for.
const OPTIONS: &[(&[&str], &[&str], &str)] = &[
    (
        &["rm"],
        &["-r", "-R", "-f", "--recursive", "--force"],
        "deletes recursively, or without asking",
    ),
    (&["chgrp", "chmod", "chown"], &["-R", "--recursive"], "changes everything below"),
    (
        &["find"],
        &["-delete", "-fls", "-fprint", "-fprint0", "-fprintf"],
        "deletes what it finds, or writes a file",
    ),
    (&["cp"], &["-l", "-s", "--link", "--symbolic-link"], "makes links, which may lead anywhere"),
    (
        &["sort"],
        &["-o", "--output", "--compress-program"],
        "writes a file, or runs another program",
    ),
    (&["rg"], &["--hostname-bin", "--pre"], "runs another program"),
    (
        &["tar"],
        &["-I", "--checkpoint-action", "--to-command", "--use-compress-program"],
        "runs another program",
    ),
    (&["rsync"], &["-e", "--delete", "--rsh", "--rsync-path"], "deletes, or runs another program"),
    (&["printf"], &["-v"], "sets a variable, whose name bash evaluates"),
    (&["jobs"], &["-x"], "runs another command"),
];

/// Programs whose arguments are, or may be, files that they write or delete.
const WRITERS: &[&str] = &[
    "chmod", "chown", "cp", "curl", "install", "mkdir", "mv", "rm", "rmdir", "rsync", "scp", "tee",
    "touch", "truncate", "uniq", "unlink", "unzip", "wget",
];

/// Whether a command may make a file whose name looks like an option.
pub(super) fn makes_options(command: &Command) -> bool {
    let makes_it = |redirect: &Redirect| {
        let name = redirect.target.text.rsplit('/').next().unwrap_or_default();
        redirect.direction == Direction::Write && name.starts_with('-')
    };
    let name = command.name().map(program).unwrap_or_default();
    WRITERS.contains(&name.as_str()) || command.redirects.iter().any(makes_it)
}

/// Options that are followed by a text, which is no option then, whatever it is.
pub(super) const TEXT_FOLLOWS: &[&str] = &["--body", "--message", "--title", "-am", "-m"];

/// Why a command must always be asked about.
pub(super) fn why(command: &Command, place: &Place<'_>) -> Option<String> {
    let name = program(command.name()?);
    let said = || said(command);
    if name == "set" && super::safe::check(command, place).is_ok() {
        return None;
    }
    let named = |names: &&(&[&str], &str)| names.0.contains(&name.as_str());
    if let Some((_, why)) = ALWAYS.iter().find(named) {
        return Some(format!("`{}` {why}", said()));
    }
    let args = command.args();
    let options = OPTIONS.iter().find(|(names, ..)| names.contains(&name.as_str()));
    if let Some((_, options, why)) = options {
        let given = |word: &Word| options.iter().any(|option| gives(&word.text, option));
        if args.iter().any(given) {
            return Some(format!("`{}` {why}", said()));
        }
    }
    let flagged = options.is_some() || name == "git";
    if (flagged || prefix::has_subcommands(&name)) && hides_option(args, !flagged) {
        return Some(format!("what `{}` does, only running it tells", said()));
    }
    if let Some(rest) = prefix::run_by(command) {
        return why(&rest, place);
    }
    if let Some(interpreter) = INTERPRETERS.iter().find(|it| it.is(&name)) {
        return code(interpreter, args).map(|why| format!("`{}` {why}", said()));
    }
    if WRITERS.contains(&name.as_str()) {
        return written(args, place).map(|why| format!("`{}` {why}", said()));
    }
    match name.as_str() {
        "git" => git::forced(command),
        "awk" | "gawk" | "mawk" | "nawk" => {
            awk(args).then(|| format!("`{}` may run or write", said()))
        }
        "sed" => sed(args, place).map(|why| format!("`{}` {why}", said())),
        "[" | "[[" | "test" | "printf" | "read" | "unset" | "wait" | "export" => {
            builtin(&name, args).map(|why| format!("`{}` {why}", said()))
        }
        _ => None,
    }
}

/// The shells that a command may be given to as a text.
const SHELLS: &[&str] = &["bash", "dash", "fish", "ksh", "sh", "zsh"];

/// Whether a program is there to run what follows its own options.
fn runs_another(name: &str) -> bool {
    let why = ALWAYS.iter().find(|(names, _)| names.contains(&name)).map(|(_, why)| *why);
    matches!(why, Some("runs as another user" | "may run any other command"))
}

/// What a command may run that follows it: each end of its words, for one that is there to run
/// another.
pub(super) fn run_by(words: &[Word]) -> Vec<Vec<Word>> {
    /// More options than this come before no command.
    const MAX: usize = 8;
    let name = words.first().and_then(Word::literal).map(program).unwrap_or_default();
    if !runs_another(&name) {
        return Vec::new();
    }
    (1..words.len().min(MAX)).map(|at| words[at..].to_vec()).collect()
}

/// Whether a command runs others that are not seen in it: from a text, its input or a file.
pub(super) fn hides_commands(command: &Command) -> bool {
    let Some(name) = command.name().map(program) else { return true };
    let args = command.args();
    let has_text = || args.iter().any(|word| word.text.contains(char::is_whitespace));
    match INTERPRETERS.iter().find(|it| it.is(&name)) {
        Some(shell) if SHELLS.contains(&name.as_str()) => code(shell, args).is_some(),
        _ => {
            matches!(name.as_str(), "eval" | "source" | ".") || (runs_another(&name) && has_text())
        }
    }
}

/// A program's name without its directory, in small letters: some file systems take any.
fn program(name: &str) -> String {
    let base = name.rsplit('/').next().unwrap_or(name).to_lowercase();
    match base.strip_suffix(".exe") {
        Some(base) => base.to_owned(),
        None if base.starts_with("mkfs.") => "mkfs".to_owned(),
        None => base,
    }
}

/// Whether an argument may turn out to be an option; or, if only the first word counts, whether
/// that is not known.
fn hides_option(args: &[Word], first_only: bool) -> bool {
    let mut text_follows = false;
    for word in args {
        if !text_follows && (word.may_be_option() || (first_only && word.dynamic > Dynamic::No)) {
            return true;
        }
        if first_only && !word.text.starts_with('-') {
            return false;
        }
        text_follows = word.literal().is_some_and(|text| TEXT_FOLLOWS.contains(&text));
    }
    false
}

/// Why an interpreter runs code that no file has.
fn code(interpreter: &Interpreter, args: &[Word]) -> Option<&'static str> {
    const INLINE: &str = "runs code from the line itself, or from its input";
    const UNKNOWN: &str = "runs code that only running it tells";
    for (at, word) in args.iter().enumerate() {
        let Some(text) = word.literal() else { return Some(UNKNOWN) };
        let Some(letters) = text.strip_prefix('-') else {
            return text.starts_with("/dev/").then_some(INLINE);
        };
        if text == "-m" && interpreter.modules {
            let known = args.get(at + 1).is_some_and(|module| module.literal().is_some());
            return (!known).then_some(UNKNOWN);
        }
        if args.len() == 1 && matches!(text, "--version" | "--help" | "-V" | "-v" | "-h") {
            return None;
        }
        let known = !letters.is_empty() && letters.chars().all(|c| interpreter.flags.contains(c));
        if !known && !interpreter.long.contains(&text) {
            return Some(INLINE);
        }
    }
    Some(INLINE)
}

/// Why what a program changes must be asked about.
fn written(args: &[Word], place: &Place<'_>) -> Option<String> {
    for word in args {
        if word.dynamic > Dynamic::Number {
            return Some("may change what only running it tells".to_owned());
        }
        let mut file = word.clone();
        if word.glob.is_none() {
            let Some(value) = value(&word.text) else { continue };
            value.clone_into(&mut file.text);
        }
        let Some(paths) = place.inside_root(&file) else {
            return Some("may change files outside the workspace".to_owned());
        };
        if let Some(why) = paths.iter().find_map(|path| sensitive(path)) {
            return Some(format!("may change `{}`: {why}", brief(&word.source)));
        }
    }
    None
}

/// Whether an `awk` program may run commands or write files.
fn awk(args: &[Word]) -> bool {
    let does =
        |text: &str| ["|", ">", "@", "system", "getline"].iter().any(|does| text.contains(does));
    let mut value_follows = false;
    for word in args {
        let text = word.text.as_str();
        if word.may_be_option() || does(text) {
            return true;
        }
        let is_option = !value_follows && text.starts_with('-') && text.len() > 1;
        if is_option && !text.starts_with("-F") && !text.starts_with("-v") {
            return true;
        }
        value_follows = is_option && text.len() == 2;
        if !is_option && !value_follows && word.dynamic != Dynamic::No {
            return true;
        }
    }
    false
}

fn sed(args: &[Word], place: &Place<'_>) -> Option<String> {
    match Sed::read(args) {
        Some(sed) if !sed.edits() => Some("may run commands or write files".to_owned()),
        Some(sed) if sed.in_place => {
            let files: Vec<Word> = sed.files.into_iter().cloned().collect();
            written(&files, place)
        }
        Some(_) => None,
        None => Some("has options that are not known".to_owned()),
    }
}

/// Why a builtin may run a command: bash evaluates subscripts, in names and in arithmetic, and
/// the commands in them.
fn builtin(name: &str, args: &[Word]) -> Option<&'static str> {
    const EVALUATES: &str = "may have bash evaluate a text";
    let evaluates = match name {
        "[[" => {
            let is_number = |word: Option<&Word>| {
                word.is_some_and(|word| {
                    word.dynamic <= Dynamic::Number
                        && word.text.trim_start_matches('-').chars().all(|c| c.is_ascii_digit())
                })
            };
            let compares =
                |text: &str| matches!(text, "-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge");
            args.iter().enumerate().any(|(at, word)| match word.text.as_str() {
                "-v" | "-R" => true,
                text if compares(text) => {
                    !is_number(at.checked_sub(1).and_then(|at| args.get(at)))
                        || !is_number(args.get(at + 1))
                }
                _ => false,
            })
        }
        "[" | "test" => !is_plain_test(name, args),
        "printf" => args.iter().any(|word| word.glob.is_some() || counts(&word.text)),
        "export" => {
            let decisive = |word: &Word| {
                let name = word.text.split(['=', '+']).next().unwrap_or_default();
                word.may_be_option()
                    || name.starts_with('-')
                    || name.contains('[')
                    || is_listed(DECISIVE, name)
            };
            return args.iter().any(decisive).then_some("may change what is run");
        }
        // All of these take names; `wait` takes one after `-p`, and otherwise numbers.
        _ => {
            let plain = |word: &Word| word.literal().is_some_and(|text| !text.contains('['));
            let number = |word: &Word| name == "wait" && word.source == "$!";
            !args.iter().all(|word| plain(word) || number(word))
        }
    };
    evaluates.then_some(EVALUATES)
}

/// Whether `printf` would put how much it has printed into a variable, such as `PATH`: `%n`.
fn counts(format: &str) -> bool {
    let between = |c: char| "#'-+ .*0123456789hjlLtqz".contains(c);
    let mut parts = format.split('%').skip(1);
    while let Some(part) = parts.next() {
        if part.is_empty() {
            // `%%` is a percent sign.
            parts.next();
        } else if part.trim_start_matches(between).starts_with('n') {
            return true;
        }
    }
    false
}

/// Whether it is known which operators a test has, and that none of them evaluates a text.
fn is_plain_test(name: &str, args: &[Word]) -> bool {
    let mut args = if name == "[" { &args[..args.len().saturating_sub(1)] } else { args };
    while let [not, rest @ ..] = args
        && not.literal() == Some("!")
    {
        args = rest;
    }
    let is_operator = |word: &Word| word.literal().is_some_and(|text| !matches!(text, "-v" | "-R"));
    let is_one = |word: &Word| word.dynamic < Dynamic::Many;
    match args {
        [] => true,
        [one] => is_one(one),
        [operator, one] => is_operator(operator) && is_one(one),
        [one, operator, other] => is_operator(operator) && is_one(one) && is_one(other),
        _ => args.iter().all(|word| is_operator(word) || word.dynamic == Dynamic::Number),
    }
}
