//! Subcommands of other agents that tandem does not have, each with the answer to it.

use super::flags::EXTENSIONS_HINT;

/// A subcommand, the words that can follow it, and the answer.
pub(super) struct Subcommand {
    pub(super) name: &'static str,
    pub(super) words: &'static [&'static str],
    pub(super) answer: &'static str,
}

pub(super) const ABSENT_SUBCOMMANDS: &[Subcommand] = &[
    #[cfg(not(feature = "serve"))]
    Subcommand {
        name: "serve",
        words: &["token", "check"],
        answer: "this program was built without the feature `serve`: install a tandem with this feature, which \
            is on by default.",
    },
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
        answer: EXTENSIONS_HINT,
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
    Subcommand { name: "update", words: &[], answer: UPDATE_HINT },
    Subcommand { name: "upgrade", words: &[], answer: UPDATE_HINT },
    Subcommand { name: "doctor", words: &[], answer: SET_UP },
    Subcommand { name: "settings", words: &[], answer: SET_UP },
    Subcommand { name: "status", words: &[], answer: SET_UP },
    Subcommand { name: "version", words: &[], answer: "use `tandem --version`." },
    Subcommand {
        name: "init",
        words: &[],
        answer: "`/init` in a session, or `tandem -p /init`, lets the model write `GEMINI.md`.",
    },
    Subcommand { name: "model", words: &["list", "ls"], answer: MODELS_HINT },
    Subcommand { name: "exec", words: &["resume"], answer: ONE_PROMPT },
    Subcommand { name: "run", words: &[], answer: ONE_PROMPT },
    Subcommand {
        name: "chat",
        words: &[],
        answer: "`tandem` in a terminal begins a session, and `tandem -i PROMPT` begins a session with a prompt.",
    },
    Subcommand {
        name: "auth",
        words: &["login", "logout", "list", "ls", "status"],
        answer: LOGIN_HINT,
    },
    Subcommand { name: "setup-token", words: &[], answer: LOGIN_HINT },
    Subcommand { name: "setup", words: &[], answer: LOGIN_HINT },
    Subcommand { name: "resume", words: &["last", "latest"], answer: GO_ON_HINT },
    Subcommand { name: "continue", words: &[], answer: GO_ON_HINT },
    Subcommand { name: "undo", words: &[], answer: UNDO_HINT },
    Subcommand { name: "restore", words: &[], answer: UNDO_HINT },
    Subcommand { name: "rewind", words: &[], answer: UNDO_HINT },
    Subcommand {
        name: "fork",
        words: &["last"],
        answer: "`tandem sessions fork SESSION` copies a stored session, and `tandem -r ID` goes on with the copy.",
    },
    Subcommand { name: "history", words: &[], answer: SESSIONS_HINT },
    Subcommand { name: "list", words: &[], answer: SESSIONS_HINT },
    Subcommand { name: "ls", words: &[], answer: SESSIONS_HINT },
    Subcommand {
        name: "search",
        words: &[],
        answer: "`tandem sessions search TEXT` looks for a text in stored sessions.",
    },
    Subcommand { name: "stats", words: &[], answer: STATS_HINT },
    Subcommand { name: "cost", words: &[], answer: STATS_HINT },
    Subcommand { name: "usage", words: &[], answer: STATS_HINT },
    Subcommand { name: "permissions", words: &[], answer: PERMISSIONS_HINT },
    Subcommand { name: "policy", words: &["list"], answer: PERMISSIONS_HINT },
    Subcommand {
        name: "trust",
        words: &[],
        answer: "`/permissions trust` in a session trusts the programs that the folder's settings name.",
    },
    Subcommand {
        name: "agents",
        words: &["list", "ls"],
        answer: "`tandem -p /agents` lists the other agents that `a2aServers` in `settings.json` names. tandem has no \
            subagents of its own yet.",
    },
    Subcommand {
        name: "review",
        words: &[],
        answer: "ask for it in words: `git diff | tandem -p 'review this'`.",
    },
    Subcommand {
        name: "plugin",
        words: &["list", "install", "uninstall", "enable", "disable", "marketplace"],
        answer: EXTENSIONS_HINT,
    },
    Subcommand { name: "plugins", words: &["list", "install"], answer: EXTENSIONS_HINT },
    Subcommand {
        name: "acp",
        words: &[],
        answer: "`tandem --acp` speaks ACP over standard input and output.",
    },
    Subcommand {
        name: "export",
        words: &[],
        answer: "`tandem sessions export SESSION` writes a stored session as a document.",
    },
];

const GO_ON_HINT: &str = "`tandem -c` goes on with the newest session of this directory, and `tandem -r` lets you \
    choose a session.";

const UNDO_HINT: &str = "go on with the session (`tandem -c`). There, `/restore` takes back changes of files, and \
    `/rewind` goes back to before a prompt.";

const SESSIONS_HINT: &str = "`tandem sessions` lists the stored sessions of this directory.";

const STATS_HINT: &str =
    "`/stats` in a session says how many tokens it has used, and what they cost.";

const PERMISSIONS_HINT: &str =
    "`/permissions` in a session, or `tandem -p /permissions`, lists the rules in force.";

const UPDATE_HINT: &str =
    "tandem does not update itself: install a new version in the same way as this one.";

#[cfg(not(feature = "serve"))]
const SET_UP: &str = "`tandem config` shows all settings and their origins.";

#[cfg(feature = "serve")]
const SET_UP: &str = "`tandem config` shows all settings and their origins, and `tandem serve check` checks the \
    set-up of a server.";

const MODELS_HINT: &str =
    "`tandem models` lists the models that can be used, and `--model ID` chooses one of them.";

const ONE_PROMPT: &str = "`tandem -p PROMPT` runs one prompt.";

const LOGIN_HINT: &str =
    "`tandem login` stores a provider's API key, and `tandem logout` removes the key.";
