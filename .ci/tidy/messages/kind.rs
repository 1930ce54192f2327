//! The kind of a message, guessed from the names around it.

/// A kind of message, in the order of the listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Question,
    Reason,
    Notice,
    Error,
    Help,
    SlashCommand,
    Other,
}

/// Words of names, with the kind of the texts below such a name.
const KINDS: &[(Kind, &[&str])] = &[
    (Kind::Help, &["help", "limit"]),
    (
        Kind::Error,
        &[
            "anyhow",
            "bail",
            "context",
            "custom",
            "ensure",
            "err",
            "error",
            "fail",
            "failed",
            "failure",
            "fault",
            "invalid",
            "ok_or",
            "ok_or_else",
            "problem",
            "refusal",
            "refuse",
            "refused",
            "reject",
            "rejected",
            "wrong",
        ],
    ),
    (
        Kind::Question,
        &[
            "answer",
            "ask",
            "asked",
            "choice",
            "choices",
            "confirmation",
            "label",
            "question",
            "title",
        ],
    ),
    (
        Kind::Reason,
        &["because", "concern", "fact", "reason", "risk", "rule", "says", "verdict", "why"],
    ),
    (
        Kind::Notice,
        &[
            "eprintln",
            "explain",
            "explained",
            "hint",
            "note",
            "notice",
            "remark",
            "say",
            "status",
            "tell",
            "warn",
            "warning",
            "writeln",
        ],
    ),
];

impl Kind {
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Question => "questions and answers",
            Self::Reason => "reasons",
            Self::Notice => "notices",
            Self::Error => "errors",
            Self::Help => "--help",
            Self::SlashCommand => "/help of slash commands",
            Self::Other => "other texts",
        }
    }
}

/// The kind of a text: that of the innermost name with a word of [`KINDS`].
pub(super) fn kind(names: &[String]) -> Kind {
    names.iter().rev().find_map(|name| of_name(name)).unwrap_or(Kind::Other)
}

fn of_name(name: &str) -> Option<Kind> {
    if matches!(name, "Argument" | "Command") {
        return Some(Kind::SlashCommand);
    }
    let words = words(name);
    let has = |known: &str| known == name || words.iter().any(|word| word == known);
    KINDS.iter().find(|(_, known)| known.iter().any(|it| has(it))).map(|(kind, _)| *kind)
}

/// The words of a name in lower case.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut after_lower = false;
    for c in name.chars() {
        if c == '_' || c == ' ' || (c.is_uppercase() && after_lower) {
            words.push(String::new());
        }
        if c != '_' && c != ' ' {
            words.last_mut().expect("there is a first word").extend(c.to_lowercase());
        }
        after_lower = c.is_lowercase();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(names: &[&str], expected: Kind) {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(kind(&names), expected);
    }

    #[test]
    fn the_innermost_name_counts() {
        check(&["question", "bail"], Kind::Error);
        check(&["refused", "label"], Kind::Question);
    }

    #[test]
    fn words_of_names_count_whatever_their_case() {
        check(&["ok_or_else"], Kind::Error);
        check(&["impl Display for StoreError", "write"], Kind::Error);
        check(&["BadAnswer"], Kind::Question);
    }

    #[test]
    fn a_word_within_a_word_does_not_count() {
        check(&["asking"], Kind::Other);
    }
}
