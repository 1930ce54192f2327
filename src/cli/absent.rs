//! Flags and subcommands that tandem does not have, but other agents do, and misspelt subcommands: the answer to each,
//! so that none is taken for a prompt.

mod flags;
mod subcommands;

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use self::flags::ABSENT_FLAGS;
use self::subcommands::ABSENT_SUBCOMMANDS;

/// The error for a subcommand that tandem does not have, if these arguments begin with one: alone,
/// or followed by a flag or one of its own words. Anything else is a prompt.
pub(super) fn subcommand<'a>(args: impl IntoIterator<Item = &'a str>) -> Option<clap::Error> {
    let mut args = args.into_iter();
    let (first, next) = (args.next()?, args.next());
    let known = ABSENT_SUBCOMMANDS.iter().find(|known| known.name == first)?;
    let is_alone = next.is_none_or(|next| next.starts_with('-'));
    let answer = match next {
        _ if is_alone => format!("{} {}", known.answer, as_prompt(first)),
        Some(next) if known.words.contains(&next) => known.answer.to_owned(),
        _ => return None,
    };
    Some(error(&format!("tandem {first}"), &answer))
}

/// The error for a prompt that is a misspelt subcommand: one word that is near the name of a subcommand, alone or
/// followed by a subcommand of that one. `known` returns the program's command line.
pub(super) fn misspelt<'a>(
    args: impl IntoIterator<Item = &'a str>,
    known: impl FnOnce() -> Command,
) -> Option<clap::Error> {
    let mut args = args.into_iter();
    let (first, next) = (args.next()?, args.next());
    if first.contains(char::is_whitespace) {
        return None;
    }
    let mut known = known();
    // Adds clap's own `help`, and the `help` of each subcommand, because users can misspell these, too.
    known.build();
    let near = known.get_subcommands().filter_map(|it| Some((distance(it.get_name(), first)?, it)));
    let (_, meant) = near.min_by_key(|(distance, _)| *distance)?;
    let name = meant.get_name();
    let line = match next {
        None => format!("tandem {name}"),
        Some(next) => format!("tandem {name} {}", meant.find_subcommand(next)?.get_name()),
    };
    let answer = format!("did you mean `{line}`? {}", as_prompt(first));
    Some(error(&format!("tandem {first}"), &answer))
}

/// Returns the number of changes that make a word a name, if they are few.
fn distance(name: &str, word: &str) -> Option<usize> {
    let distance = strsim::osa_distance(name, &word.to_lowercase());
    (distance <= name.len().min(word.len()) / 3).then_some(distance)
}

/// Says how a word that is taken for a subcommand becomes a prompt.
fn as_prompt(word: &str) -> String {
    format!("`tandem -p {word}` sends the word to the model.")
}

/// The same error, or a better one if it is about a flag that tandem does not have.
pub(super) fn flag(error_: clap::Error) -> clap::Error {
    let Some(ContextValue::String(flag)) = error_.get(ContextKind::InvalidArg) else {
        return error_;
    };
    let known = ABSENT_FLAGS.iter().find(|(flags, _)| flags.contains(&flag.as_str()));
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
    use clap::CommandFactory as _;

    use super::{ABSENT_FLAGS, ABSENT_SUBCOMMANDS, misspelt, subcommand};

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
        check(&["doctor"], true);
        check(&["serve"], cfg!(not(feature = "serve")));
        check(&["run", "the", "tests"], false);
        check(&["init", "the", "database"], false);
        check(&["undo"], true);
        check(&["undo", "that"], false);
        check(&["resume", "--last"], true);
        check(&["fork", "the", "repository"], false);
        check(&[], false);
    }

    #[test]
    fn no_flag_and_no_subcommand_of_tandem_is_called_absent() {
        let mut command = crate::cli::Cli::command();
        command.build();
        // Subcommands lack these flags of sessions, and are what their answer is about.
        let of_sessions = ["--yolo", "-y", "--approval-mode", "--model", "-m", "--thinking"];
        let names = command.get_arguments().flat_map(|arg| {
            let long = arg.get_long_and_visible_aliases().unwrap_or_default();
            let short = arg.get_short().map(|short| format!("-{short}"));
            long.into_iter().map(|name| format!("--{name}")).chain(short).collect::<Vec<_>>()
        });
        let known: Vec<_> = names.filter(|name| !of_sessions.contains(&name.as_str())).collect();
        let flags = ABSENT_FLAGS.iter().flat_map(|(flags, _)| flags.iter().copied());
        let wrong: Vec<_> = flags.filter(|flag| known.iter().any(|known| known == flag)).collect();
        assert_eq!(wrong, [""; 0], "tandem has these flags");
        let is_known = |name: &&str| command.find_subcommand(name).is_some();
        let names = ABSENT_SUBCOMMANDS.iter().map(|subcommand| subcommand.name);
        assert_eq!(names.filter(is_known).collect::<Vec<_>>(), [""; 0]);
    }

    #[test]
    fn a_word_near_a_subcommand_is_no_prompt_and_other_words_are() {
        let check = |args: &[&str], expected: Option<&str>| {
            let error = misspelt(args.iter().copied(), crate::cli::Cli::command);
            let meant = error.map(|error| error.to_string());
            let meant = meant.as_deref().and_then(|it| it.split("did you mean `").nth(1));
            assert_eq!(meant.and_then(|it| it.split('`').next()), expected, "{args:?}");
        };
        check(&["sesions"], Some("tandem sessions"));
        check(&["session"], Some("tandem sessions"));
        #[cfg(feature = "serve")]
        {
            check(&["Serve"], Some("tandem serve"));
            check(&["sevre"], Some("tandem serve"));
        }
        check(&["logn"], Some("tandem login"));
        check(&["confg"], Some("tandem config"));
        check(&["sesions", "list"], Some("tandem sessions list"));
        check(&["sesions", "are", "slow"], None);
        check(&["hepl"], Some("tandem help"));
        check(&["sesions", "help"], Some("tandem sessions help"));
        check(&["hello"], None);
        check(&["why"], None);
        check(&["go"], None);
        check(&["session is slow"], None);
        check(&[], None);
    }
}
