//! What `git` would do.

use std::path::PathBuf;

use super::options::{gives, value};
use super::place::Place;
use super::{prefix, said};
use crate::shell::{Command, Dynamic, Word, brief};

/// Sub-commands that only read.
const READ: &[&str] = &[
    "blame",
    "cat-file",
    "check-ignore",
    "count-objects",
    "describe",
    "diff",
    "diff-files",
    "diff-index",
    "diff-tree",
    "for-each-ref",
    "grep",
    "log",
    "ls-files",
    "ls-tree",
    "merge-base",
    "name-rev",
    "rev-list",
    "rev-parse",
    "shortlog",
    "show",
    "show-branch",
    "show-ref",
    "status",
    "version",
];

/// Sub-commands that only read if what follows is one of these.
const READ_IF: &[(&str, &[&str])] = &[
    ("reflog", &["", "show"]),
    ("remote", &["", "get-url"]),
    ("stash", &["list", "show"]),
    ("worktree", &["list"]),
];

/// Sub-commands that list, unless they are given a name; and then only with one of [`LISTING`].
const LIST: &[&str] = &["branch", "tag"];

const LISTING: &[&str] =
    &["--contains", "--list", "--merged", "--no-contains", "--no-merged", "--points-at", "-l"];

/// Options with which they still only list.
const LIST_OPTIONS: &[&str] = &[
    "--abbrev",
    "--all",
    "--color",
    "--column",
    "--contains",
    "--format",
    "--ignore-case",
    "--list",
    "--merged",
    "--no-abbrev",
    "--no-color",
    "--no-column",
    "--no-contains",
    "--no-merged",
    "--points-at",
    "--remotes",
    "--show-current",
    "--sort",
    "--verbose",
    "-a",
    "-i",
    "-l",
    "-n",
    "-r",
    "-v",
    "-vv",
];

/// Options of `git config` with which it prints.
const CONFIG_READS: &[&str] = &["--get", "--get-all", "--get-regexp", "--list", "-l"];

/// Options of `git config` with which it still only prints.
const CONFIG_OPTIONS: &[&str] = &[
    "--all",
    "--bool",
    "--get",
    "--get-all",
    "--get-regexp",
    "--global",
    "--int",
    "--list",
    "--local",
    "--name-only",
    "--null",
    "--path",
    "--regexp",
    "--show-names",
    "--show-origin",
    "--show-scope",
    "--system",
    "--worktree",
    "-l",
    "-z",
];

/// Options that write a file, run a program, or look elsewhere, whatever the sub-command.
const REACHING: &[&str] = &[
    "--exec",
    "--ext-diff",
    "--filters",
    "--no-index",
    "--open-files-in-pager",
    "--output",
    "--receive-pack",
    "--textconv",
    "--upload-pack",
];

/// Sub-commands that only read, and options with which they read what git leaves out.
const DOES_MORE: &[(&str, &[&str])] = &[("grep", &["--no-exclude-standard", "--untracked"])];

/// What cannot be undone, or runs other commands: words, options of which one must be given (or
/// none), and what that does.
const FORCED: &[(&[&str], &[&str], &str)] = &[
    (
        &["push"],
        &["-f", "-d", "--force", "--force-with-lease", "--mirror", "--delete", "--prune"],
        "overwrites or deletes what others have",
    ),
    (&["reset"], &["--hard", "--merge", "--keep"], "discards changes"),
    (&["checkout"], &["-f", "--force"], "discards changes"),
    (&["clean"], &[], "deletes files"),
    (&["branch"], &["-D"], "deletes a branch that is not merged"),
    (&["stash", "drop"], &[], "discards changes"),
    (&["stash", "clear"], &[], "discards changes"),
    (&["rebase"], &["-x", "--exec"], "runs other commands"),
    (&["bisect", "run"], &[], "runs other commands"),
    (&["submodule", "foreach"], &[], "runs other commands"),
    (&["filter-branch"], &[], "runs other commands"),
    (&["difftool"], &[], "runs other commands"),
    (&["mergetool"], &[], "runs other commands"),
    (&["grep"], &["-O"], "runs other commands"),
    (&["config"], &[], "changes what git does"),
];

/// A call of `git`, its own options read.
pub(super) struct Git<'a> {
    /// From the sub-command on.
    pub(super) words: &'a [Word],
    /// Where it looks, if not here.
    directory: Option<&'a str>,
}

impl<'a> Git<'a> {
    /// None if git's own options do more than choose a directory.
    pub(super) fn read(args: &'a [Word]) -> Option<Self> {
        let mut git = Self { words: args, directory: None };
        while let Some(word) = git.words.first() {
            match word.literal()? {
                "--no-pager" | "-P" | "--no-optional-locks" => git.words = &git.words[1..],
                "-C" if git.directory.is_none() => {
                    git.directory = Some(git.words.get(1)?.literal()?);
                    git.words = &git.words[2..];
                }
                "--version" => break,
                option if option.starts_with('-') => return None,
                _ => break,
            }
        }
        Some(git)
    }
}

/// Why this call must always be asked about.
pub(super) fn forced(command: &Command) -> Option<String> {
    let Some(git) = Git::read(command.args()) else {
        return Some(format!("`{}` has options that may change what git runs", said(command)));
    };
    let args = git.words.get(1..).unwrap_or_default();
    if git.words.first().is_some_and(|word| word.text == "config") && reads_config(args) {
        return None;
    }
    let given = |options: &[&str]| {
        args.iter().any(|word| options.iter().any(|option| gives(&word.text, option)))
    };
    for (words, options, why) in FORCED {
        let begins = git.words.len() >= words.len()
            && words.iter().zip(git.words).all(|(name, word)| word.text == *name);
        if begins && (options.is_empty() || given(options)) {
            return Some(format!("`{}` {why}", said(command)));
        }
    }
    // `+main` forces, `:main` deletes.
    let is_push = git.words.first().is_some_and(|word| word.text == "push");
    if is_push && args.iter().any(|word| word.text.starts_with(['+', ':'])) {
        return Some(format!("`{}` overwrites or deletes what others have", said(command)));
    }
    let runs = args.iter().any(|word| word.text.starts_with("ext::"));
    if given(REACHING) || runs {
        return Some(format!("`{}` may run other commands or write files", said(command)));
    }
    None
}

/// The repository that this call works in, if it is not the workspace's own.
pub(super) fn other_repository(command: &Command, place: &Place<'_>) -> Option<PathBuf> {
    let directory = Git::read(command.args()).and_then(|git| git.directory);
    place.moved(directory).other_repository()
}

/// Why this call is not known to be harmless; nothing if it is.
pub(super) fn check(command: &Command, place: &Place<'_>) -> Result<(), String> {
    let git = Git::read(command.args());
    let (sub, args, directory) = match &git {
        Some(Git { words: [sub, args @ ..], directory }) => (sub.text.as_str(), args, *directory),
        _ => return Err(format!("`{}` is not known to only read", said(command))),
    };
    let given = |option: &&str| args.iter().any(|word| gives(&word.text, option));
    let does_more =
        DOES_MORE.iter().any(|(name, options)| *name == sub && options.iter().any(given));
    if does_more || !reads(sub, args) {
        return Err(format!("`{}` is not known to only read", brief(&prefix::of(command))));
    }
    if command.args().iter().any(|word| word.dynamic != Dynamic::No) {
        return Err(format!("what `{}` reads, only running it tells", said(command)));
    }
    let place = place.moved(directory);
    let known = |word: &Word| match value(&word.text) {
        // From the top of the repository, which may be above the workspace.
        _ if word.text.starts_with(":/") || word.text.starts_with(":(") => false,
        _ if word.glob.is_some() => place.has(word),
        // Of an option of one letter a text as well as a path may follow at once.
        Some(text) if word.text.starts_with('-') && !word.text.starts_with("--") => {
            !text.contains('/') && place.has_glued(&word.text)
        }
        Some(path) => place.reaches_inside(path),
        None => true,
    };
    if !place.inside() || !args.iter().all(known) {
        return Err(format!("`{}` may read outside the workspace", said(command)));
    }
    match place.other_repository() {
        Some(path) => Err(format!("the repository `{}` may run commands", path.display())),
        None if matches!(sub, "version" | "--version") => Ok(()),
        None => place.repositories_only_read(),
    }
}

/// Returns whether `git config` prints settings: those that git itself would find.
fn reads_config(args: &[Word]) -> bool {
    let is_option = |text: &str| {
        CONFIG_OPTIONS.contains(&text)
            || ["--default=", "--type="].iter().any(|it| text.starts_with(it))
    };
    let Some(texts) = args.iter().map(Word::literal).collect::<Option<Vec<&str>>>() else {
        return false;
    };
    let (options, operands): (Vec<&str>, Vec<&str>) =
        texts.into_iter().partition(|text| text.starts_with('-'));
    // A newer git has actions without dashes.
    let action = operands.first().is_some_and(|first| ["get", "list"].contains(first));
    let prints = action || options.iter().any(|option| CONFIG_READS.contains(option));
    prints && options.into_iter().all(is_option) && operands.len() <= 2
}

fn reads(sub: &str, args: &[Word]) -> bool {
    if sub == "config" {
        return reads_config(args);
    }
    if READ.contains(&sub) || (sub == "--version" && args.is_empty()) {
        return true;
    }
    if let Some((_, then)) = READ_IF.iter().find(|(name, _)| *name == sub) {
        let options = args.iter().take_while(|word| matches!(&*word.text, "-v" | "--verbose"));
        let next = args.get(options.count()).map_or("", |word| word.text.as_str());
        return then.contains(&next);
    }
    if !LIST.contains(&sub) {
        return false;
    }
    let name = |word: &Word| word.text.split('=').next().unwrap_or_default().to_owned();
    let is_number = |text: &str| text.strip_prefix("-n").is_some_and(|n| n.parse::<u32>().is_ok());
    let lists = |option: &str| LIST_OPTIONS.contains(&option) || is_number(option);
    let (options, names): (Vec<_>, Vec<_>) =
        args.iter().map(name).partition(|arg| arg.starts_with('-'));
    let listing = options.iter().any(|option| LISTING.contains(&option.as_str()));
    options.iter().all(|option| lists(option)) && (names.is_empty() || listing)
}
