//! Flags of other agents that tandem does not have, each with the answer to it.

/// Flags, and the answer to them. A flag of another agent whose name stands for something else here is no row.
pub(super) const ABSENT_FLAGS: &[(&[&str], &str)] = &[
    // The model.
    (&["--effort", "--reasoning-effort"], "use `--thinking LEVEL`."),
    (&["--oss", "--local-provider"], "use a model of this machine with `--model ollama:ID`."),
    (
        &["--fallback-model", "--provider"],
        "use `--model PROVIDER:ID`, such as `--model openai:gpt-6.1-sol`. Only `tandem login` and `tandem logout` take \
         `--provider`.",
    ),
    (
        &["--system-prompt", "--append-system-prompt", "--system-prompt-file"],
        "write what the model should know into `AGENTS.md` or `GEMINI.md`.",
    ),
    // Consent.
    (
        &["--permission-mode", "--ask-for-approval", "-a"],
        "use `--approval-mode MODE`: default, auto_edit (edits without a question), plan, or yolo.",
    ),
    (
        &["--full-auto", "--auto"],
        "use `--approval-mode auto_edit`: edits need no question, and commands run in a sandbox that can write the \
         working directory.",
    ),
    (
        &[
            "--dangerously-skip-permissions",
            "--allow-dangerously-skip-permissions",
            "--dangerously-bypass-approvals-and-sandbox",
        ],
        "use `--yolo`: nothing is asked but to leave the sandbox. With `--sandbox danger-full-access` added, commands \
         run without a sandbox: do this only where nothing of value can be harmed.",
    ),
    (
        &["--allowedTools", "--tools"],
        "use `--allowed-tools TOOL`, with the names of tools here: `run_shell_command(git status)`.",
    ),
    (
        &["--disallowedTools", "--disallowed-tools"],
        "write a rule with `decision = \"deny\"` and give its file with `--policy FILE`, or name the tools in \
         `tools.exclude` of `~/.gemini/settings.json`.",
    ),
    (&["--trust"], "use `--skip-trust`: the folder's own settings count in this run."),
    (
        &["--yolo", "-y", "--approval-mode", "--model", "-m", "--thinking"],
        "this subcommand begins no session. In a session that runs, `/model set ID` changes the model, and Shift+Tab \
         or `/mode NAME` changes the approval mode.",
    ),
    // The session.
    (
        &["--session-id", "--session-file", "--session"],
        "tandem gives sessions their ids: `--resume SESSION` goes on with a session, and `tandem sessions` lists \
         them.",
    ),
    (&["--last"], "use `tandem -c`: it goes on with the newest session of this directory."),
    (
        &["--fork-session", "--fork"],
        "copy the session with `tandem sessions fork SESSION`, and go on with the copy: `tandem -r ID`.",
    ),
    (
        &["--no-session-persistence", "--ephemeral"],
        "an empty `TANDEM_SESSIONS` stores no session: `TANDEM_SESSIONS= tandem -p PROMPT`.",
    ),
    (
        &["--list-sessions", "--delete-session"],
        "use `tandem sessions` and `tandem sessions delete SESSION`.",
    ),
    (&["--add-dir"], "use `--include-directories DIR`."),
    (&["--cd", "-C", "--cwd"], "start tandem in the directory: `cd DIR && tandem`."),
    (
        &["--worktree", "-w"],
        "tandem makes no worktrees: make one with `git worktree add`, and start tandem in it.",
    ),
    (
        &["--checkpointing"],
        "tandem needs no flag for this: `/restore` takes back what its calls changed in files.",
    ),
    (&["--skip-git-repo-check"], "tandem needs no flag for this: it works without git, too."),
    // Scripts.
    (&["--print", "--query"], "use `tandem -p PROMPT`."),
    (
        &["--json"],
        "for one prompt, use `-o json` (one object at the end) or `-o stream-json` (an object for each event).",
    ),
    (&["--output-last-message"], "redirect the output: `tandem -p PROMPT > FILE`."),
    (&["--json-schema"], "use `--output-schema FILE`: the JSON Schema is in a file."),
    (
        &["--max-turns", "--max-budget-usd"],
        "use `--limit rounds=N`: the number of requests to the model in one turn. `/stats` shows the cost.",
    ),
    (&["--image", "--file"], "name the file in the prompt: `@FILE`."),
    // Flags for MCP servers, for files of settings and for the program itself.
    (
        &["--mcp-config", "--strict-mcp-config"],
        "tandem reads MCP servers from `mcpServers` in `~/.gemini/settings.json` or the project's \
         `.gemini/settings.json`: write them there. `--allowed-mcp-server-names` uses some of them alone.",
    ),
    (
        &["--settings", "--setting-sources", "--config", "--profile"],
        "tandem reads `~/.gemini/settings.json` and the project's `.gemini/settings.json`. `tandem config` shows all \
         settings and their origins.",
    ),
    (&["--ide"], "editors start `tandem --acp`. The manual has the settings of each editor."),
    (&["--verbose"], "use `--debug`."),
    (&["--extensions", "-e", "--list-extensions", "-l", "--plugin-dir"], EXTENSIONS_HINT),
];

/// Answer to flags and subcommands about extensions.
pub(super) const EXTENSIONS_HINT: &str = "tandem has no extensions yet. MCP servers (`mcpServers` in `settings.json`), \
    custom commands (`.gemini/commands/NAME.toml`) and instructions (`GEMINI.md`) work without extensions.";
