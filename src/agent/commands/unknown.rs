//! Prompts that look like commands and are none. They are answered here, and not sent to a model.

/// Whole prompts with which people leave a program in many terminals. They leave a front end that can be left.
pub const QUIT_WORDS: [&str; 6] = ["/quit", "/exit", "quit", "exit", ":q", ":quit"];

/// The end of the answer to one of [`QUIT_WORDS`] where a front end cannot be left.
pub const QUIT_HINT: &str = "In tandem's own terminal, this command ends tandem; in an editor or another client, \
    close the session there.";

/// The end of the answer to an unknown command.
pub const HELP_HINT: &str =
    "`/help` lists the commands; to ask the model, begin with another word.";

/// Commands of other agents, each with the command to use here.
const OTHER_COMMANDS: [(&str, &str); 3] =
    [("?", "help"), ("bashes", "shells"), ("policies", "permissions list")];

/// Least length of a name that is completed, in bytes. Shorter names are too much like each other.
const MIN_COMPLETED_BYTES: usize = 3;

/// Returns `true` if a prompt is nothing but a word that leaves a program: one of [`QUIT_WORDS`].
pub fn leaves(prompt: &str) -> bool {
    QUIT_WORDS.contains(&prompt.trim())
}

/// Returns the name of the command that a wrong name most likely means, if a known name is near enough.
pub(super) fn similar(name: &str, known: impl Iterator<Item = String>) -> Option<String> {
    let name = name.to_lowercase();
    if let Some((_, here)) = OTHER_COMMANDS.iter().find(|(elsewhere, _)| *elsewhere == name) {
        return Some((*here).to_owned());
    }
    let near = known.filter_map(|known| {
        let short = known.len().min(name.len());
        let begins = known.starts_with(&name) || name.starts_with(&known);
        let distance = strsim::osa_distance(&known.to_lowercase(), &name);
        let is_near = distance <= short / 3 || (begins && short >= MIN_COMPLETED_BYTES);
        is_near.then_some((distance, known))
    });
    near.min().map(|(_, known)| known)
}

/// Returns `true` if a word has the form of a command's name. Paths, comments and pieces of sentences do not have that
/// form.
pub(super) fn is_name(word: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, ':' | '_' | '-');
    word == "?" || (!word.is_empty() && word.chars().all(plain))
}
