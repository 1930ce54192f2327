//! The commands that only this screen has: the session knows nothing of them.

use crate::commands::{Registry, unknown};

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Local {
    Auth,
    Help,
    Quit,
}

/// As they are typed, and what they do.
pub(super) const LOCAL: [(&str, Local, &str); 3] = [
    ("/auth", Local::Auth, "log in with a key, or take the demonstration"),
    ("/help", Local::Help, "what matters, on one screen"),
    ("/quit", Local::Quit, "leave"),
];

/// The one that is typed. `/help COMMAND` is the session's.
pub(super) fn of(typed: &str) -> Option<Local> {
    match typed.trim() {
        "/login" => Some(Local::Auth),
        typed if unknown::leaves(typed) => Some(Local::Quit),
        typed => LOCAL.iter().find(|(name, ..)| *name == typed).map(|(_, local, _)| *local),
    }
}

/// The names of all commands, these and the session's.
pub(super) fn names() -> String {
    let known = Registry::default();
    let shared = known.list().iter().map(|command| format!("/{}", command.name));
    let mut names: Vec<_> = LOCAL.iter().map(|(name, ..)| (*name).to_owned()).collect();
    names.extend(shared);
    names.sort();
    names.dedup();
    names.join(" ")
}

#[cfg(test)]
mod tests {
    use super::{Local, of};

    #[test]
    fn a_word_that_leaves_elsewhere_leaves_here_too() {
        for typed in ["/quit", "/exit", "exit", "quit", ":q", " quit\n"] {
            assert_eq!(of(typed), Some(Local::Quit), "{typed}");
        }
        for typed in ["quit smoking", "exit 1", "/quit now", "q"] {
            assert_eq!(of(typed), None, "{typed}");
        }
    }
}
