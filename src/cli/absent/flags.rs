//! Flags of other agents that tandem does not have, each with the answer to it.

/// Flags, and the answer to them.
pub(super) const ABSENT_FLAGS: &[(&[&str], &str)] = &[
    (
        &["--session-id", "--session-file"],
        "tandem gives sessions their ids: `--resume SESSION` goes on with a session, and `tandem sessions` lists \
         them.",
    ),
    (
        &["--list-sessions", "--delete-session"],
        "use `tandem sessions` and `tandem sessions delete SESSION`.",
    ),
    (&["--extensions", "-e", "--list-extensions", "-l"], EXTENSIONS_HINT),
    (
        &["--worktree", "-w"],
        "tandem makes no worktrees: make one with `git worktree add`, and start tandem in it.",
    ),
    (
        &["--checkpointing"],
        "tandem needs no flag for this: `/restore` takes back what its calls changed in files.",
    ),
];

/// Answer to flags and subcommands about extensions.
pub(super) const EXTENSIONS_HINT: &str = "tandem has no extensions yet. MCP servers (`mcpServers` in `settings.json`), \
    custom commands (`.gemini/commands/NAME.toml`) and instructions (`GEMINI.md`) work without extensions.";
