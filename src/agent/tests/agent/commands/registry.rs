//! The list of commands, as front ends use it.

use tandem_agent::commands::{Command, PathError, Registry};

#[track_caller]
fn check(path: &[&str], args: &str, expected: &str) {
    assert_eq!(Registry::default().prompt(path, args, None), Ok(expected.to_owned()));
}

#[test]
fn a_path_and_arguments_become_a_prompt() {
    check(&["stats"], "", "/stats");
    check(&["/stats"], " ", "/stats");
    check(&["memory", "add"], "use tabs", "/memory add use tabs");
    check(&["memory", "add"], " a\nb ", "/memory add a\nb");
    check(&["memory show"], "", "/memory show");
    check(&["memory"], "show", "/memory show");
    check(&["help"], "memory", "/help memory");
}

#[track_caller]
fn unknown(path: &[&str], expected: &str) {
    let Err(PathError::Unknown(why)) = Registry::default().prompt(path, "", None) else {
        panic!("{path:?} is known");
    };
    assert!(why.contains(expected), "{why}");
}

#[test]
fn a_path_to_nothing_is_unknown() {
    unknown(&["nonsense"], "Unknown command `/nonsense`. Known commands: `/help`, ");
    unknown(&[], "Unknown command `/`.");
    unknown(&["", ""], "Unknown command `/`.");
    unknown(&["memory", "lose"], "`/memory` has no `lose`. It has:\n\n- `/memory show`");
    unknown(&["stats", "more"], "`/stats` has no sub-commands, and so no `more`.");
    unknown(&["Stats"], "Unknown command `/Stats`.");
}

#[track_caller]
fn usage(path: &[&str], args: &str, expected: &str) {
    let Err(PathError::Usage(why)) = Registry::default().prompt(path, args, None) else {
        panic!("{path:?} {args} is right");
    };
    assert!(why.contains(expected), "{why}");
}

#[test]
fn a_command_that_is_used_wrongly_is_told_from_an_unknown_one() {
    usage(&["memory"], "", "`/memory` needs one of these");
    usage(&["memory"], "lose", "`/memory` has no `lose`");
    usage(&["memory", "add"], "", "Missing: the text to remember.");
    usage(&["clear"], "all", "`/clear` takes no arguments");
}

#[test]
fn every_command_says_what_it_does() {
    fn visit(command: &Command) {
        assert!(!command.name.is_empty() && !command.description.is_empty());
        assert!(command.name.chars().all(|c| c.is_ascii_lowercase()), "{}", command.name);
        assert!(!command.description.ends_with('.'), "{}", command.description);
        for argument in command.arguments {
            assert!(!argument.name.is_empty() && !argument.description.is_empty());
        }
        command.sub_commands.iter().for_each(visit);
    }
    let registry = Registry::default();
    registry.list().iter().for_each(visit);
    let streaming: Vec<_> = registry.list().iter().filter(|it| it.asks_model).collect();
    assert_eq!(streaming.iter().map(|it| it.name).collect::<Vec<_>>(), ["init", "continue"]);
}
