//! Figures of the source code (`cargo run -p tidy`), the texts that people meet (`cargo run -p tidy -- messages`), and
//! the rules that the compiler does not know (`cargo test -p tidy`).

mod circles;
mod messages;
mod rebuilds;
mod source;

use std::collections::BTreeMap;
use std::io::{self, Write as _, stdout};
use std::path::Path;

use self::source::{Source, program_files, test_files, workspace};

/// Constants whose name is one word, each with the reason why that word says enough.
const ONE_WORD: &[(&str, &str)] = &[
    ("ALL", "all values of a type, which stands before: `Mode::ALL`"),
    ("COMMAND", "the slash command of its file, of which each file has one"),
];

fn main() -> io::Result<()> {
    let root = workspace();
    let sources = program_files(&root);
    let mut out = stdout().lock();
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() == Some("messages") {
        let wanted = arguments.next().unwrap_or_default();
        return messages::write_listing(&mut out, &root, &sources, &wanted);
    }
    for (what, figure) in figures(&root, &sources) {
        writeln!(out, "{what:<66} {figure:>8}")?;
    }
    for circle in circles::circles(&sources) {
        writeln!(out, "circle: {}", circle.join(" "))?;
    }
    for (krate, percent) in rebuilds::rebuilds(&root, &sources) {
        let name = if krate.is_empty() { "the program" } else { &krate };
        writeln!(out, "percent of src that an edit of {name:<34} recompiles {percent:>4}")?;
    }
    Ok(())
}

/// The figures, each with its description.
fn figures(root: &Path, sources: &[Source]) -> Vec<(&'static str, String)> {
    let types = type_names(sources);
    let total: usize = types.values().sum();
    let shared: usize = types.values().filter(|count| **count > 1).sum();
    let code: usize = sources.iter().map(Source::code_lines).sum();
    let reasons: usize = sources.iter().map(Source::plain_comments).sum();
    let openings = sources.iter().flat_map(Source::doc_openings);
    let (clauses, all) = openings.fold((0, 0), |(clauses, all), opening| {
        (clauses + usize::from(source::opens_with_clause(opening)), all + 1)
    });
    let circles = circles::circles(sources);
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap_or_default();
    let tests = test_files(root);
    let contains = sources.iter().chain(&tests).map(Source::wording_asserts).sum::<usize>();
    vec![
        ("crates of ours", crates(sources).to_string()),
        ("files in src", sources.len().to_string()),
        ("files in src of fewer than 60 lines", count(sources, |it| it.lines() < 60)),
        ("files in src of more than 500 lines", count(sources, |it| it.lines() > 500)),
        ("lines in src", sources.iter().map(Source::lines).sum::<usize>().to_string()),
        ("lines in tests", tests.iter().map(Source::lines).sum::<usize>().to_string()),
        ("public items", sources.iter().map(Source::public_items).sum::<usize>().to_string()),
        ("types", total.to_string()),
        ("types that share their name with another, in percent", percent(shared, total)),
        ("`//` comments for 100 lines of code", format!("{:.1}", ratio(reasons, code) * 100.0)),
        ("doc comments", all.to_string()),
        (
            "doc comments that open with What, Whether, How, Who, Where or Which",
            clauses.to_string(),
        ),
        (
            "comments that open with a word that hides their subject",
            sources.iter().map(|source| source.riddles().count()).sum::<usize>().to_string(),
        ),
        (
            "constants of one word, without a reason",
            sources
                .iter()
                .flat_map(Source::constants)
                .filter(|name| !has_enough_words(name))
                .count()
                .to_string(),
        ),
        ("import circles", circles.len().to_string()),
        ("files in import circles", circles.iter().map(Vec::len).sum::<usize>().to_string()),
        ("asserts in tests that look for words with `contains`", contains.to_string()),
        ("words of README.md", readme.split_whitespace().count().to_string()),
    ]
}

/// Returns `true` if a constant's name has several words, or one that says enough.
fn has_enough_words(name: &str) -> bool {
    name.contains('_') || ONE_WORD.iter().any(|(allowed, _)| *allowed == name)
}

fn count(sources: &[Source], is_counted: impl Fn(&Source) -> bool) -> String {
    sources.iter().filter(|source| is_counted(source)).count().to_string()
}

fn percent(part: usize, whole: usize) -> String {
    format!("{:.0}", ratio(part, whole) * 100.0)
}

#[expect(clippy::cast_precision_loss, reason = "counts of lines are small")]
fn ratio(part: usize, whole: usize) -> f64 {
    part as f64 / whole.max(1) as f64
}

/// The number of folders with a `Cargo.toml` that hold sources.
fn crates(sources: &[Source]) -> usize {
    let mut roots: Vec<_> = sources.iter().map(|source| &source.krate).collect();
    roots.sort_unstable();
    roots.dedup();
    roots.len()
}

/// Each type's name, and how many types have it.
fn type_names(sources: &[Source]) -> BTreeMap<&str, usize> {
    let mut names = BTreeMap::new();
    for name in sources.iter().flat_map(Source::types) {
        *names.entry(name).or_default() += 1;
    }
    names
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::source::rust_files;
    use super::*;

    /// Names that say nothing to a reader who does not know the code.
    const POOR: &[&str] = &[
        "Asked", "Beside", "Found", "Given", "Kept", "Known", "Offered", "Place", "Rest", "Said",
        "Standing", "Told", "Wanted",
    ];

    /// The sentence that a comment with a forbidden opener gets.
    const RIDDLE: &str = "A comment's first word is its subject or its verb. A doc comment on a thing begins with a \
        noun phrase (\"Time of the last write.\", not \"When something was written last.\"), on a function with a verb \
        (\"Returns\", \"Waits for\"); no pronoun stands for the noun, because the reader has not seen it yet.";

    fn all() -> Vec<Source> {
        let root = workspace();
        ["src", "tests", "benches", "evals", ".ci"]
            .iter()
            .flat_map(|dir| rust_files(&root, dir))
            .collect()
    }

    #[test]
    fn every_file_begins_with_its_purpose() {
        let without = |source: &Source| !source.text.starts_with("//! ");
        assert_eq!(paths(all(), without), [""; 0]);
    }

    #[test]
    fn no_folder_has_a_mod_file() {
        assert_eq!(paths(all(), |source| source.path.ends_with("mod.rs")), [""; 0]);
    }

    #[test]
    fn no_type_has_a_name_that_explains_nothing() {
        let sources = program_files(&workspace());
        let poor = |source: &Source| source.types().any(|name| POOR.contains(&name));
        assert_eq!(paths(sources, poor), [""; 0]);
    }

    /// A constant of one word says neither what it bounds nor its unit: `CANCEL_GRACE`, `MAX_LABEL_CHARS`, not `GRACE`.
    #[test]
    fn no_constant_has_a_name_of_one_word() {
        let sources = program_files(&workspace());
        let short = |source: &Source| {
            let names = source.constants().filter(|name| !has_enough_words(name));
            names.map(|name| format!("{} {name}", source.path)).collect::<Vec<_>>()
        };
        let short: Vec<_> = sources.iter().flat_map(short).collect();
        assert_eq!(short, [""; 0], "a constant has its quantity in its name, as in CANCEL_GRACE");
        for (name, _) in ONE_WORD {
            assert!(
                sources.iter().any(|source| source.constants().any(|it| it == *name)),
                "{name} is not used"
            );
        }
    }

    #[test]
    fn no_comment_begins_with_a_word_that_hides_its_subject() {
        let sources = program_files(&workspace());
        let riddles = |source: &Source| {
            source
                .riddles()
                .map(|opening| format!("{}: {opening}", source.path))
                .collect::<Vec<_>>()
        };
        let riddles: Vec<_> = sources.iter().flat_map(riddles).collect();
        assert_eq!(riddles, [""; 0], "{RIDDLE}");
    }

    #[test]
    fn an_edit_of_a_leaf_compiles_little_of_the_program_again() {
        let root = workspace();
        let rebuilds = rebuilds::rebuilds(&root, &program_files(&root));
        assert!(rebuilds["src/tools"] <= 15, "{rebuilds:?}");
        assert!(rebuilds["src/policy"] <= 15, "{rebuilds:?}");
    }

    #[test]
    fn plain_cargo_commands_mean_every_room() {
        let root = workspace();
        let manifest = fs::read_to_string(root.join("Cargo.toml")).unwrap();
        let list = |name: &str| {
            let begin = manifest.find(&format!("\n{name} = [")).unwrap();
            manifest[begin..].split(']').next().unwrap()
        };
        let rooms: BTreeSet<_> = program_files(&root)
            .iter()
            .filter_map(|source| Path::new(&source.path).parent())
            .filter(|folder| root.join(folder).join("Cargo.toml").exists())
            .map(|folder| format!("\"{}\"", folder.display()))
            .collect();
        assert!(rooms.len() > 15, "{rooms:?}");
        for name in ["members", "default-members"] {
            let missing: Vec<_> = rooms.iter().filter(|room| !list(name).contains(*room)).collect();
            assert!(missing.is_empty(), "{name}: {missing:?}");
        }
    }

    fn paths(sources: Vec<Source>, is_wrong: impl Fn(&Source) -> bool) -> Vec<String> {
        sources.into_iter().filter(is_wrong).map(|source| source.path).collect()
    }
}
