//! Flags and subcommands of Gemini CLI that tandem does not have: the answer to each, so that none
//! is taken for a prompt.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Flags, and the answer to them.
const FLAGS: &[(&[&str], &str)] = &[
    (
        &["--session-id", "--session-file"],
        "tandem names sessions itself: `--resume SESSION` goes on with one, and `tandem sessions` lists \
         them.",
    ),
    (
        &["--list-sessions", "--delete-session"],
        "use `tandem sessions` and `tandem sessions delete SESSION`.",
    ),
    (&["--extensions", "-e", "--list-extensions", "-l"], EXTENSIONS),
    (
        &["--worktree", "-w"],
        "tandem makes no worktrees: make one with `git worktree add`, and start tandem in it.",
    ),
    (
        &["--checkpointing"],
        "tandem needs no flag for this: `/restore` takes back what its calls changed in files.",
    ),
];

/// A subcommand, the words that can follow it, and the answer.
struct Subcommand {
    name: &'static str,
    words: &'static [&'static str],
    answer: &'static str,
}

const SUBCOMMANDS: &[Subcommand] = &[
    Subcommand {
        name: "mcp",
        words: &["list", "ls", "add", "remove", "enable", "disable"],
        answer: "tandem reads MCP servers from `mcpServers` in `~/.gemini/settings.json` or the \
                 project's `.gemini/settings.json`: write them there. `tandem -p '/mcp list'` lists \
                 them, and `/help mcp` in a session says what else can be done.",
    },
    Subcommand {
        name: "extensions",
        words: &[
            "list",
            "install",
            "uninstall",
            "update",
            "enable",
            "disable",
            "link",
            "new",
            "validate",
            "config",
            "settings",
        ],
        answer: EXTENSIONS,
    },
    Subcommand {
        name: "skills",
        words: &["list", "install", "uninstall", "link", "enable", "disable"],
        answer: "tandem has no skills yet: write what the model should know into `GEMINI.md` or \
                 `AGENTS.md`, or a prompt of your own into `.gemini/commands/NAME.toml`.",
    },
    Subcommand {
        name: "hooks",
        words: &["list", "migrate", "enable", "disable"],
        answer: "tandem runs no hooks: rules in policy files (`--policy`) decide about calls.",
    },
    Subcommand {
        name: "gemma",
        words: &[],
        answer: "use a model of this machine with `--model ollama:ID`.",
    },
    Subcommand {
        name: "update",
        words: &[],
        answer: "tandem does not update itself: install a new version the way this one was installed.",
    },
];

const EXTENSIONS: &str = "tandem has no extensions yet. MCP servers (`mcpServers` in `settings.json`), \
    custom commands (`.gemini/commands/NAME.toml`) and instructions (`GEMINI.md`) work without.";

/// The error for a subcommand that tandem does not have, if these arguments begin with one: alone,
/// or followed by a flag or one of its own words. Anything else is a prompt.
pub(super) fn subcommand<'a>(args: impl IntoIterator<Item = &'a str>) -> Option<clap::Error> {
    let mut args = args.into_iter();
    let (first, next) = (args.next()?, args.next());
    let known = SUBCOMMANDS.iter().find(|known| known.name == first)?;
    let follows = |next: &str| next.starts_with('-') || known.words.contains(&next);
    next.is_none_or(follows).then(|| error(&format!("tandem {first}"), known.answer))
}

/// The same error, or a better one if it is about a flag that tandem does not have.
pub(super) fn flag(error_: clap::Error) -> clap::Error {
    let Some(ContextValue::String(flag)) = error_.get(ContextKind::InvalidArg) else {
        return error_;
    };
    let known = FLAGS.iter().find(|(flags, _)| flags.contains(&flag.as_str()));
    match known.filter(|_| error_.kind() == ErrorKind::UnknownArgument) {
        Some((_, answer)) => error(flag, answer),
        None => error_,
    }
}

fn error(what: &str, answer: &str) -> clap::Error {
    let message = format!("`{what}` is not available: {answer}\n");
    clap::Error::raw(ErrorKind::InvalidSubcommand, message)
}

#[cfg(test)]
mod tests {
    use super::subcommand;

    #[test]
    fn a_subcommand_is_no_prompt_and_a_prompt_is_no_subcommand() {
        let check = |args: &[&str], expected| {
            assert_eq!(subcommand(args.iter().copied()).is_some(), expected, "{args:?}");
        };
        check(&["mcp", "list"], true);
        check(&["mcp"], true);
        check(&["mcp", "add", "name", "npx", "server"], true);
        check(&["mcp", "--help"], true);
        check(&["extensions", "install", "https://example.org"], true);
        check(&["skills", "list"], true);
        check(&["hooks", "migrate"], true);
        check(&["update"], true);
        check(&["mcp", "servers", "do", "not", "connect"], false);
        check(&["mcp list"], false);
        check(&["update", "the", "readme"], false);
        check(&["hooks", "are", "slow"], false);
        check(&["explain", "mcp", "list"], false);
        check(&[], false);
    }
}
