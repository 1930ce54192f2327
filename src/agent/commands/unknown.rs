//! Prompts that look like commands and are none. They are answered here, and not sent to a model.

/// Whole prompts with which people leave a program in many terminals. They leave a front end that can be left.
const QUIT_WORDS: [&str; 6] = ["/quit", "/exit", "quit", "exit", ":q", ":quit"];

/// The end of the answer to one of `QUIT_WORDS` where a front end cannot be left.
pub const QUIT_HINT: &str = "In tandem's own terminal, this command ends tandem; in an editor or another client, \
    close the session there.";

/// The end of the answer to an unknown command.
pub const HELP_HINT: &str =
    "`/help` lists the commands; to ask the model, begin with another word.";

/// Commands of other agents, and of tandem's own terminal, with the sentences that name the ones to use here.
const OTHER_COMMANDS: &[(&[&str], &str)] = &[
    (&["?"], "Did you mean `/help`?"),
    (
        &["undo", "revert", "rollback"],
        "`/restore` takes back changes of files, and `/rewind` goes back to before a prompt.",
    ),
    (&["compact", "summarize"], "Did you mean `/compress`?"),
    (&["cost", "usage", "context", "tokens"], "Did you mean `/stats`?"),
    (
        &["status", "version"],
        "`/about` shows the model and the mode, and `/stats` shows the usage.",
    ),
    (&["new", "reset"], "Did you mean `/clear`?"),
    (&["effort", "reasoning"], "Did you mean `/thinking`?"),
    (&["bashes", "ps", "tasks", "jobs"], "Did you mean `/shells`?"),
    (
        &["stop"],
        "Esc in the terminal ends a turn, and `/shells stop PID` ends a background command.",
    ),
    (&["policies"], "Did you mean `/permissions list`?"),
    (&["approvals", "allowed-tools", "trust"], "Did you mean `/permissions`?"),
    (
        &["mode", "yolo", "approval-mode"],
        "tandem's own terminal has `/mode NAME`, an editor a menu of modes, and the start `--approval-mode`.",
    ),
    (&["config", "settings"], "`tandem config` in a shell shows all settings and their origins."),
    (&["doctor"], "`tandem config` and `tandem sandbox` in a shell show how tandem is set up."),
    (
        &["login", "logout", "auth", "setup"],
        "`tandem login` in a shell stores a key, and `tandem logout` removes the key.",
    ),
    (
        &["resume", "sessions", "history"],
        "`/resume` in tandem's own terminal, or `tandem -r` in a shell, goes on with another session.",
    ),
    (&["checkpoint", "checkpoints"], "`/chat save TAG` keeps a checkpoint of the conversation."),
    (&["copy"], "Only tandem's own terminal has this command."),
    (
        &["add-dir", "directory", "dir", "cd", "cwd"],
        "`--include-directories DIR` at the start adds a directory to the workspace.",
    ),
    (&["mention", "file", "image"], "Name the file in the prompt: `@FILE`."),
    (&["diff"], "`/restore` lists the files that tool calls have changed."),
    (
        &["review", "security-review", "commit"],
        "Ask for it in words, or write a command of your own: `.gemini/commands/NAME.toml`.",
    ),
    (
        &["extensions", "plugin", "plugins", "skills", "hooks"],
        "tandem does not have these yet. `/mcp`, `/commands` and `AGENTS.md` work without them.",
    ),
];

/// Least length of a name that is completed, in bytes. Shorter names are too much like each other.
const MIN_COMPLETED_BYTES: usize = 3;

/// Returns `true` if a prompt is nothing but a word that leaves a program: one of `QUIT_WORDS`.
pub fn leaves(prompt: &str) -> bool {
    QUIT_WORDS.contains(&prompt.trim())
}

/// Returns the sentence that names the command which a wrong name most likely means, if a known name is near enough.
pub(super) fn similar(name: &str, known: impl Iterator<Item = String>) -> Option<String> {
    let name = name.to_lowercase();
    let is_other = |(names, _): &&(&[&str], _)| names.contains(&name.as_str());
    if let Some((_, sentence)) = OTHER_COMMANDS.iter().find(is_other) {
        return Some((*sentence).to_owned());
    }
    let near = known.filter_map(|known| {
        let short = known.len().min(name.len());
        let begins = known.starts_with(&name) || name.starts_with(&known);
        let distance = strsim::osa_distance(&known.to_lowercase(), &name);
        let is_near = distance <= short / 3 || (begins && short >= MIN_COMPLETED_BYTES);
        is_near.then_some((distance, known))
    });
    near.min().map(|(_, known)| format!("Did you mean `/{known}`?"))
}

/// Returns `true` if a word has the form of a command's name. Paths, comments and pieces of sentences do not have that
/// form.
pub(super) fn is_name(word: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, ':' | '_' | '-');
    word == "?" || (!word.is_empty() && word.chars().all(plain))
}

#[cfg(test)]
mod tests {
    use crate::commands::Registry;

    use super::OTHER_COMMANDS;

    #[test]
    fn no_command_of_tandem_is_called_unknown() {
        let registry = Registry::default();
        let names = registry.list().iter().map(|command| command.name);
        let is_other = |name: &&str| OTHER_COMMANDS.iter().any(|(others, _)| others.contains(name));
        assert_eq!(names.filter(is_other).collect::<Vec<_>>(), [""; 0]);
    }
}
