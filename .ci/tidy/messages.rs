//! The texts that people meet, found by syntax (`cargo run -p tidy -- messages`).

mod kind;
mod literal;
mod tables;
mod walk;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::Path;

use self::kind::Kind;
use crate::source::Source;

/// Files whose texts are for other readers than people, with those readers.
const NOT_FOR_PEOPLE: &[(&str, &str)] = &[
    ("src/agent/commands/init.rs", "the model: a prompt"),
    ("src/agent/session/context/compress/beginning.rs", "the model: a summary"),
    ("src/agent/session/context/compress/summary.rs", "the model, which writes a summary"),
    ("src/agent/session/context/instructions.rs", "the model: its instructions"),
    ("src/agent/session/context/prompt.rs", "the model: its instructions"),
    ("src/agent/session/context/repository.rs", "the model: the state of git"),
    ("src/agent/session/context/surroundings.rs", "the model: its surroundings"),
    ("src/agent/sessions/export/html.rs", "a browser: HTML"),
    ("src/frontends/tui/highlight.rs", "the program: keywords of languages"),
    ("src/host/terminals/guard.rs", "bash: a script"),
    ("src/sandbox/seatbelt.rs", "macOS: a profile of its sandbox"),
    ("src/store/postgres/schema.rs", "Postgres: tables"),
];

/// A text that people meet.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Message {
    kind: Kind,
    path: String,
    line: usize,
    text: String,
}

/// Writes the messages by room and kind, each with its file and line. `wanted` is the beginning of a room's folder, and
/// empty for all rooms.
pub(super) fn write_listing(
    out: &mut impl Write,
    root: &Path,
    sources: &[Source],
    wanted: &str,
) -> io::Result<()> {
    let mut total = 0;
    for (room, messages) in by_room(root, sources) {
        if messages.is_empty() || !room.starts_with(wanted) {
            continue;
        }
        let name = if room.is_empty() { "the program" } else { &room };
        writeln!(out, "# {name}: {} texts", messages.len())?;
        let mut before = None;
        for message in &messages {
            if before.replace(message.kind) != Some(message.kind) {
                writeln!(out, "\n## {name}, {}\n", message.kind.title())?;
            }
            let text = message.text.trim_matches('\n').replace('\n', "\n    ");
            writeln!(out, "{}:{}  {text}", message.path, message.line)?;
        }
        writeln!(out)?;
        total += messages.len();
    }
    writeln!(out, "{total} texts")
}

/// The messages of each room, sorted by kind and place. A text that a file has several times is there once.
fn by_room(root: &Path, sources: &[Source]) -> BTreeMap<String, Vec<Message>> {
    let mut rooms: BTreeMap<String, Vec<Message>> = BTreeMap::new();
    let tests = test_modules(sources);
    for source in sources {
        let is_test = tests
            .iter()
            .any(|(krate, module)| *krate == source.krate && source.module.starts_with(module));
        if !is_test && NOT_FOR_PEOPLE.iter().all(|(path, _)| *path != source.path) {
            rooms.entry(source.krate.clone()).or_default().extend(walk::messages(source));
        }
    }
    for message in tables::messages(root) {
        let owner = sources.iter().map(|source| &source.krate).find(|krate| {
            !krate.is_empty()
                && message.path.strip_prefix(krate.as_str()).is_some_and(|it| it.starts_with('/'))
        });
        rooms.entry(owner.cloned().unwrap_or_default()).or_default().push(message);
    }
    for messages in rooms.values_mut() {
        messages.sort();
        let mut seen = BTreeSet::new();
        messages.retain(|it| seen.insert((it.kind, it.path.clone(), it.text.clone())));
    }
    rooms
}

/// The modules in files of their own that are compiled for tests alone, each with the folder of its crate.
fn test_modules(sources: &[Source]) -> Vec<(&str, Vec<String>)> {
    let mut modules = Vec::new();
    for source in sources {
        for declared in source.text.split("#[cfg(test)]\nmod ").skip(1) {
            let name = declared.split(|c: char| !c.is_alphanumeric() && c != '_').next();
            if let Some(name) = name.filter(|name| declared[name.len()..].starts_with(';')) {
                let module = source.module.iter().cloned().chain([name.to_owned()]);
                modules.push((source.krate.as_str(), module.collect()));
            }
        }
    }
    modules
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::workspace;

    #[test]
    fn modules_of_tests_in_files_of_their_own_are_known() {
        let text = "mod a;\n#[cfg(test)]\nmod tests;\n#[cfg(test)]\nmod inline {}\n";
        let source = Source {
            path: String::new(),
            krate: String::new(),
            module: vec!["x".to_owned()],
            text: text.to_owned(),
        };
        assert_eq!(test_modules(&[source]), [("", vec!["x".to_owned(), "tests".to_owned()])]);
    }

    #[test]
    fn files_that_are_left_out_exist() {
        let root = workspace();
        let gone: Vec<_> =
            NOT_FOR_PEOPLE.iter().filter(|(path, _)| !root.join(path).exists()).collect();
        assert!(gone.is_empty(), "{gone:?}");
    }
}
