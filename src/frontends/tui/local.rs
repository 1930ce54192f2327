//! Commands of the screen. The session does not know them.

use tandem_agent::commands::{Registry, unknown};

/// A command that the screen carries out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Local {
    Auth,
    Copy,
    Fork,
    Help,
    Mode,
    Model,
    Quit,
    Resume,
    ResumeCheckpoint,
    Rewind,
    Thinking,
}

impl Local {
    /// Returns `true` if the command leaves the session for another. If the screen cannot do that, the session gets
    /// the command. Its own command of the same name then explains what to do.
    pub(super) fn goes_over(self) -> bool {
        matches!(self, Self::Fork | Self::ResumeCheckpoint)
    }

    /// Returns `true` if the command opens a menu that needs the session in this process. Elsewhere the session gets the
    /// command, and lists in its answer what can be chosen.
    pub(super) fn is_menu(self) -> bool {
        matches!(self, Self::Model | Self::Thinking)
    }
}

/// Names as they are typed, commands, and descriptions for the completion.
pub(super) const LOCAL_COMMANDS: [(&str, Local, &str); 9] = [
    ("/auth", Local::Auth, "log in with a key, or try the demonstration"),
    ("/copy", Local::Copy, "put the last answer on the clipboard; /copy code: its last code block"),
    ("/help", Local::Help, "the most important keys and commands, on one screen"),
    ("/mode", Local::Mode, "show the approval mode; /mode NAME: change it"),
    ("/model", Local::Model, "choose the model that answers"),
    ("/quit", Local::Quit, "leave"),
    (
        "/resume",
        Local::Resume,
        "go on with another session; /resume WORDS: one with these words in its title",
    ),
    ("/rewind", Local::Rewind, "go back to before an earlier prompt, to word it in another way"),
    ("/thinking", Local::Thinking, "choose how much the model thinks"),
];

/// Returns the screen's command that the user has typed, and its argument; `None` for text that goes to the session,
/// such as `/help COMMAND` and `/rewind N`.
pub(super) fn parse_command(typed: &str) -> Option<(Local, &str)> {
    let typed = typed.trim();
    if unknown::leaves(typed) {
        return Some((Local::Quit, ""));
    }
    let (name, rest) = typed.split_once(char::is_whitespace).unwrap_or((typed, ""));
    let rest = rest.trim();
    let (verb, tag) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    if name == "/chat" && verb == "resume" && !tag.trim().is_empty() {
        return Some((Local::ResumeCheckpoint, tag.trim()));
    }
    let local = match name {
        "/login" => Local::Auth,
        "/fork" => Local::Fork,
        name => {
            LOCAL_COMMANDS.iter().find(|(known, ..)| *known == name).map(|(_, local, _)| *local)?
        }
    };
    let takes_more = matches!(local, Local::Copy | Local::Mode | Local::Resume);
    (takes_more || rest.is_empty()).then_some((local, rest))
}

/// Returns the names of all commands of the screen and of the session.
pub(super) fn names() -> String {
    let known = Registry::default();
    let shared = known.list().iter().map(|command| format!("/{}", command.name));
    let mut names: Vec<_> = LOCAL_COMMANDS.iter().map(|(name, ..)| (*name).to_owned()).collect();
    names.extend(shared);
    names.sort();
    names.dedup();
    names.join(" ")
}

#[cfg(test)]
mod tests {
    use super::{Local, parse_command};

    #[test]
    fn a_word_that_leaves_elsewhere_leaves_here_too() {
        for typed in ["/quit", "/exit", "exit", "quit", ":q", " quit\n"] {
            assert_eq!(parse_command(typed), Some((Local::Quit, "")), "{typed}");
        }
        for typed in ["quit smoking", "exit 1", "/quit now", "q"] {
            assert_eq!(parse_command(typed), None, "{typed}");
        }
    }

    #[test]
    fn a_command_of_the_screen_is_known_by_its_name() {
        assert_eq!(parse_command(" /mode  yolo "), Some((Local::Mode, "yolo")));
        assert_eq!(parse_command("/copy"), Some((Local::Copy, "")));
        assert_eq!(parse_command("/exit"), Some((Local::Quit, "")));
        assert_eq!(parse_command("/rewind "), Some((Local::Rewind, "")));
        assert_eq!(parse_command("/rewind 3"), None);
        assert_eq!(parse_command("/help about"), None);
        assert_eq!(parse_command("/model"), Some((Local::Model, "")));
        assert_eq!(parse_command("/model set x"), None);
        assert_eq!(parse_command("/thinking high"), None);
        assert_eq!(parse_command("/fork"), Some((Local::Fork, "")));
        assert_eq!(parse_command("/fork it"), None);
        assert_eq!(
            parse_command("/chat  resume  a tag "),
            Some((Local::ResumeCheckpoint, "a tag"))
        );
        assert_eq!(parse_command("/chat resume"), None);
        assert_eq!(parse_command("/chat save a"), None);
        assert_eq!(parse_command("copy"), None);
    }
}
