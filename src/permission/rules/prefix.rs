//! What "always" remembers of a command: as much of its beginning as says what it does.

use super::git::Git;
use crate::permission::shell::{Command, Word};

/// Programs that do what their first argument says.
const SUBCOMMANDS: &[&str] = &[
    "apt",
    "apt-get",
    "brew",
    "bun",
    "bundle",
    "cargo",
    "composer",
    "conda",
    "deno",
    "dnf",
    "docker",
    "dotnet",
    "flutter",
    "gem",
    "go",
    "gradle",
    "helm",
    "jj",
    "just",
    "kubectl",
    "make",
    "mix",
    "mvn",
    "nix",
    "npm",
    "npx",
    "nx",
    "pip",
    "pip3",
    "pipenv",
    "pipx",
    "pnpm",
    "podman",
    "poetry",
    "rails",
    "rake",
    "rustup",
    "svn",
    "swift",
    "systemctl",
    "task",
    "terraform",
    "tox",
    "uv",
    "xcodebuild",
    "yarn",
];

/// Of these, the first two arguments.
const TWO_WORDS: &[(&str, &[&str])] = &[
    ("bun", &["run"]),
    ("deno", &["task"]),
    ("docker", &["buildx", "compose", "container", "image", "network", "system", "volume"]),
    ("git", &["notes", "reflog", "remote", "stash", "submodule", "worktree"]),
    ("go", &["mod", "tool", "work"]),
    ("kubectl", &["config", "rollout"]),
    ("npm", &["run"]),
    ("pnpm", &["run"]),
    ("podman", &["compose", "container", "image", "network", "system", "volume"]),
    ("terraform", &["state", "workspace"]),
    ("uv", &["pip", "tool"]),
    ("yarn", &["run"]),
];

/// Programs that do what their first two arguments say.
const ALWAYS_TWO_WORDS: &[&str] = &["aws", "az", "gcloud", "gh", "glab"];

/// What runs another program in an environment of its own; the program counts, too.
const RUNNERS: &[&[&str]] = &[
    &["bundle", "exec"],
    &["npm", "exec"],
    &["npx"],
    &["pipenv", "run"],
    &["pnpm", "exec"],
    &["poetry", "run"],
    &["uv", "run"],
];

/// A program that runs files of code.
pub(super) struct Interpreter {
    name: &'static str,
    /// Options of one letter that only say how.
    pub(super) flags: &'static str,
    /// Other options that only say how.
    pub(super) long: &'static [&'static str],
    /// Whether `-m` names a module to run.
    pub(super) modules: bool,
}

impl Interpreter {
    /// Whether a program is this one: `python3.12` is `python`.
    pub(super) fn is(&self, program: &str) -> bool {
        program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.') == self.name
    }
}

const fn interpreter(name: &'static str, flags: &'static str) -> Interpreter {
    Interpreter { name, flags, long: &[], modules: false }
}

pub(super) const INTERPRETERS: &[Interpreter] = &[
    interpreter("bash", "eux"),
    interpreter("dash", "eux"),
    interpreter("fish", ""),
    interpreter("julia", ""),
    interpreter("ksh", "eux"),
    interpreter("lua", ""),
    Interpreter { long: &["--check", "--test", "--watch"], ..interpreter("node", "") },
    interpreter("nodejs", ""),
    interpreter("osascript", ""),
    interpreter("perl", "w"),
    interpreter("php", ""),
    interpreter("powershell", ""),
    interpreter("pwsh", ""),
    Interpreter { modules: true, ..interpreter("python", "BIOsu") },
    interpreter("rscript", ""),
    interpreter("ruby", "w"),
    interpreter("sh", "eux"),
    interpreter("tclsh", ""),
    interpreter("tsx", ""),
    interpreter("zsh", "eux"),
];

/// What "always" remembers of a command.
pub(super) fn of(command: &Command) -> String {
    let Some((name, args)) = command.words.split_first() else { return String::new() };
    let program = name.text.as_str();
    if let Some(by) = runner(command) {
        return match run_by(command) {
            Some(run) => format!("{} {}", joined(&command.words[..by]), of(&run)),
            None => joined(&command.words),
        };
    }
    match program {
        "find"
            if args
                .iter()
                .any(|word| word.text.starts_with("-exec") || word.text.starts_with("-ok")) =>
        {
            return "find -exec".to_owned();
        }
        "sed"
            if args
                .iter()
                .any(|word| word.text.starts_with("-i") || word.text.starts_with("--i")) =>
        {
            return "sed -i".to_owned();
        }
        "git" => {
            let words = Git::read(args).map_or(args, |git| git.words);
            return with_words(name, words, words_that_count(program, words));
        }
        _ => {}
    }
    let is_interpreter = INTERPRETERS.iter().any(|it| it.is(program));
    match args {
        [m, module, ..] if is_interpreter && m.text == "-m" => {
            format!("{program} -m {}", module.source)
        }
        _ if is_interpreter || has_subcommands(program) => {
            with_words(name, args, words_that_count(program, args))
        }
        _ => name.plain().to_owned(),
    }
}

/// What "always" would remember of the whole program: none of one that is there to run others, and
/// none if it is all that is remembered anyway.
pub(super) fn program(command: &Command) -> Option<String> {
    let name = command.name()?;
    let is_interpreter = INTERPRETERS.iter().any(|it| it.is(name));
    (!is_interpreter && runner(command).is_none()).then(|| name.to_owned())
}

/// Whether what a program does depends on its first argument.
pub(super) fn has_subcommands(program: &str) -> bool {
    SUBCOMMANDS.contains(&program) || ALWAYS_TWO_WORDS.contains(&program)
}

/// The command that a command runs in an environment of its own.
pub(super) fn run_by(command: &Command) -> Option<Command> {
    let words = command.words[runner(command)?..].to_vec();
    let run = Command { words, ..Command::default() };
    (!run.words[0].text.starts_with('-') && runner(&run).is_none()).then_some(run)
}

/// How many words come before what is run in an environment of its own.
fn runner(command: &Command) -> Option<usize> {
    let begins = |runner: &&&[&str]| {
        command.words.len() > runner.len()
            && runner.iter().zip(&command.words).all(|(name, word)| word.literal() == Some(name))
    };
    RUNNERS.iter().find(begins).map(|runner| runner.len())
}

fn words_that_count(program: &str, args: &[Word]) -> usize {
    if ALWAYS_TWO_WORDS.contains(&program) {
        return 2;
    }
    let two = |(name, subs): &(&str, &[&str])| {
        *name == program && args.first().is_some_and(|sub| subs.contains(&sub.text.as_str()))
    };
    if TWO_WORDS.iter().any(two) { 2 } else { 1 }
}

/// A name and the first of its arguments; all of them if one of the first is an option.
fn with_words(name: &Word, args: &[Word], count: usize) -> String {
    // A toolchain's name does not say what cargo does.
    let count = count + usize::from(args.first().is_some_and(|word| word.text.starts_with('+')));
    let first = args.get(..count).unwrap_or(args);
    let plain = first.iter().all(|word| word.literal().is_some_and(|text| !text.starts_with('-')));
    let words = if plain { first } else { args };
    joined(std::iter::once(name).chain(words))
}

fn joined<'a>(words: impl IntoIterator<Item = &'a Word>) -> String {
    words.into_iter().map(Word::plain).collect::<Vec<_>>().join(" ")
}
