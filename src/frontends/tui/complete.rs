//! Completion of the word at the cursor to a command, a file or an earlier prompt.

use std::cmp::Reverse;

use super::input::TextInput;
use super::local::LOCAL_COMMANDS;
use tandem_agent::commands::{Command, Registry};
use tandem_agent::session::SessionCommand;

/// Maximum number of candidates.
const MAX_CANDIDATES: usize = 8;

/// Candidates for the text at the cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Completion {
    /// Start of the completed text, in bytes.
    pub(super) from: usize,
    pub(super) candidates: Vec<CompletionCandidate>,
    /// Index of the marked candidate.
    pub(super) selected: usize,
    /// `true` if the candidates are earlier prompts, found by a search.
    pub(super) searches: bool,
}

/// A candidate of a completion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CompletionCandidate {
    /// Text that is put into the line.
    pub(super) text: String,
    /// Description for people.
    pub(super) help: String,
}

/// Kind of text that can be completed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Completable<'a> {
    Command(&'a str),
    /// The typed part of a file's name, and the offset of its `@`.
    File(&'a str, usize),
}

impl Completion {
    fn new(from: usize, candidates: Vec<CompletionCandidate>, searches: bool) -> Option<Self> {
        (!candidates.is_empty()).then_some(Self { from, candidates, selected: 0, searches })
    }

    /// Marks the next candidate, or the previous candidate.
    pub(super) fn select(&mut self, down: bool) {
        let count = self.candidates.len();
        self.selected = (self.selected + if down { 1 } else { count - 1 }) % count;
    }

    /// Puts the marked candidate into the line. Returns `false` if the line has it already.
    pub(super) fn accept(&self, input: &mut TextInput) -> bool {
        let Some(candidate) = self.candidates.get(self.selected) else { return false };
        let there = input.text()[self.from..].trim_end() == candidate.text.trim_end();
        if !there {
            let to = if self.searches { input.text().len() } else { input.cursor() };
            input.replace(self.from, to, &candidate.text);
        }
        !there
    }
}

/// Returns the text at the cursor that can be completed.
pub(super) fn completable_at_cursor(input: &TextInput) -> Option<Completable<'_>> {
    let before = &input.text()[..input.cursor()];
    if before.starts_with('/') && !before.contains('\n') {
        return Some(Completable::Command(before));
    }
    let at = before.rfind(char::is_whitespace).map_or(0, |at| at + 1);
    let name = before[at..].strip_prefix('@')?;
    Some(Completable::File(name, at))
}

/// Command that takes the id of a model.
const SET_MODEL: &str = "/model set ";

/// Returns the typed part of a model's id, if the user is typing a command that takes one.
pub(super) fn model_id(typed: &str) -> Option<&str> {
    typed.strip_prefix(SET_MODEL)
}

/// Models that the user can choose, as they were when the command was last begun.
#[derive(Debug, Default)]
pub(super) struct KnownModels {
    pub(super) ids: Vec<String>,
    /// `true` while the ids are fetched anew.
    pub(super) is_fetching: bool,
}

/// Names of providers in ids, and names of single APIs of a provider.
const API_NAMES: [(&str, &str); 2] =
    [("openai:", "openai-chat:"), ("openai:", "openai-responses:")];

/// Returns the models whose ids contain the typed text; models that begin with it come first. After the name of an
/// API, only models of its provider are returned.
pub(super) fn models(typed: &str, models: &[String]) -> Option<Completion> {
    let (provider, api) = API_NAMES.into_iter().find(|(_, api)| typed.starts_with(api)).unzip();
    let named = |id: &String| match (provider, api) {
        (Some(provider), Some(api)) => Some(format!("{api}{}", id.strip_prefix(provider)?)),
        _ => Some(id.clone()),
    };
    let ids = models.iter().filter_map(named);
    let mut fitting: Vec<_> = ids.filter(|id| id.contains(typed) && id != typed).collect();
    fitting.sort_by_key(|id| !id.starts_with(typed));
    let candidate = |text| CompletionCandidate { text, help: String::new() };
    let candidates = fitting.into_iter().take(MAX_CANDIDATES).map(candidate);
    Completion::new(SET_MODEL.len(), candidates.collect(), false)
}

/// Returns the commands, and the prompts of MCP servers, that begin with the typed text.
pub(super) fn commands(typed: &str, prompts: &[SessionCommand]) -> Option<Completion> {
    let local = LOCAL_COMMANDS.iter().map(|(name, _, help)| CompletionCandidate {
        text: (*name).to_owned(),
        help: (*help).to_owned(),
    });
    let mut known: Vec<_> = local.collect();
    flatten("/", Registry::default().list(), &mut known);
    known.extend(prompts.iter().map(|prompt| {
        let takes = if prompt.arguments.is_empty() { "" } else { " " };
        let text = format!("/{}{takes}", prompt.name);
        CompletionCandidate { text, help: prompt.description.clone() }
    }));
    let name = |it: &CompletionCandidate| it.text.split(' ').next().unwrap_or_default().to_owned();
    known.sort_by_key(name);
    known.dedup_by(|one, other| one.text.trim_end() == other.text.trim_end());
    known.retain(|candidate| candidate.text.starts_with(typed));
    // A command that the user has typed in full comes first and is marked, so that Enter runs the command instead of
    // putting a longer command into the line.
    known.sort_by_key(|candidate| candidate.text.trim_end() != typed);
    if known.iter().all(|candidate| candidate.text.trim_end() == typed) {
        known.clear();
    }
    Completion::new(0, known, false)
}

fn flatten(above: &str, commands: &[Command], known: &mut Vec<CompletionCandidate>) {
    for command in commands {
        let path = format!("{above}{}", command.name);
        if command.runs() {
            let takes = if command.arguments.is_empty() { "" } else { " " };
            let help = command.description.to_owned();
            known.push(CompletionCandidate { text: format!("{path}{takes}"), help });
        }
        flatten(&format!("{path} "), command.sub_commands, known);
    }
}

/// Index of the workspace's files, prepared for a search at every key.
#[derive(Debug, Default)]
pub(super) struct FileIndex(Vec<IndexedFile>);

#[derive(Debug)]
struct IndexedFile {
    path: String,
    /// Path in lower case.
    folded: String,
    /// Offset of the file's name in `folded`.
    name: usize,
}

impl FileIndex {
    pub(super) fn new(paths: Vec<String>) -> Self {
        let file = |path: String| {
            let folded = path.to_lowercase();
            let name = folded.rfind('/').map_or(0, |slash| slash + 1);
            IndexedFile { path, folded, name }
        };
        Self(paths.into_iter().map(file).collect())
    }

    /// Returns the files that match the typed text best. `from` is the offset of the typed `@`.
    pub(super) fn fitting(&self, typed: &str, from: usize) -> Option<Completion> {
        let typed = typed.replace('\\', "").to_lowercase();
        let fits = |file| Some((Reverse(fits(&typed, file)?), file));
        let mut fitting: Vec<_> = self.0.iter().filter_map(fits).collect();
        let order = |one: &(Reverse<u8>, &IndexedFile), other: &(Reverse<u8>, &IndexedFile)| {
            let key = |(fits, file): &(Reverse<u8>, &IndexedFile)| (*fits, file.path.len());
            key(one).cmp(&key(other)).then_with(|| one.1.path.cmp(&other.1.path))
        };
        if fitting.len() > MAX_CANDIDATES {
            // Only the best candidates are sorted: this runs at every key, and a workspace may have many thousands of
            // files.
            fitting.select_nth_unstable_by(MAX_CANDIDATES, order);
            fitting.truncate(MAX_CANDIDATES);
        }
        fitting.sort_by(order);
        let candidates = fitting.into_iter().map(|(_, file)| {
            let text = format!("@{} ", file.path.replace(' ', "\\ "));
            CompletionCandidate { text, help: String::new() }
        });
        Completion::new(from, candidates.collect(), false)
    }
}

/// Returns the rank of a file for the typed text: the highest for the best match; `None` if the file does not match.
fn fits(typed: &str, file: &IndexedFile) -> Option<u8> {
    let (path, name) = (&file.folded, &file.folded[file.name..]);
    if path.starts_with(typed) || name.starts_with(typed) {
        return Some(3);
    }
    if name.contains(typed) {
        return Some(2);
    }
    if path.contains(typed) {
        return Some(1);
    }
    let mut chars = path.chars();
    typed.chars().all(|wanted| chars.any(|c| c == wanted)).then_some(0)
}

/// Returns the earlier prompts that contain the typed text, the newest first.
pub(super) fn history(typed: &str, history: &[String]) -> Option<Completion> {
    let typed = typed.to_lowercase();
    let mut candidates: Vec<CompletionCandidate> = Vec::new();
    for text in history.iter().rev().filter(|text| text.to_lowercase().contains(&typed)) {
        if candidates.len() < MAX_CANDIDATES && candidates.iter().all(|known| known.text != *text) {
            candidates.push(CompletionCandidate { text: text.clone(), help: String::new() });
        }
    }
    Completion::new(0, candidates, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(text: &str) -> TextInput {
        let mut input = TextInput::default();
        input.set(text);
        input
    }

    #[test]
    fn models_are_completed_by_any_part_of_their_ids() {
        let known = ["gemini-pro", "openai:pro-1", "pro", "openai:smol"].map(str::to_owned);
        let texts = |typed: &str| -> Vec<String> {
            let completion = models(model_id(typed).unwrap(), &known);
            completion.into_iter().flat_map(|it| it.candidates).map(|it| it.text).collect()
        };
        assert_eq!(texts("/model set smo"), ["openai:smol"]);
        assert_eq!(texts("/model set pr"), ["pro", "gemini-pro", "openai:pro-1"]);
        assert_eq!(texts("/model set pro"), ["gemini-pro", "openai:pro-1"]);
        assert_eq!(texts("/model set openai-chat:s"), ["openai-chat:smol"]);
        assert_eq!(texts("/model set openai-responses:pro"), ["openai-responses:pro-1"]);
        assert_eq!(model_id("/model show"), None);
    }

    #[test]
    fn what_is_wanted_depends_on_the_word() {
        assert_eq!(completable_at_cursor(&typed("/mem")), Some(Completable::Command("/mem")));
        assert_eq!(
            completable_at_cursor(&typed("see @src/m")),
            Some(Completable::File("src/m", 4))
        );
        assert_eq!(completable_at_cursor(&typed("a@b")), None);
        assert_eq!(completable_at_cursor(&typed("see")), None);
    }

    fn texts(completion: Option<Completion>) -> Vec<String> {
        let candidates = completion.into_iter().flat_map(|completion| completion.candidates);
        candidates.map(|candidate| candidate.text).collect()
    }

    #[test]
    fn commands_come_with_those_in_them() {
        assert_eq!(texts(commands("/mod", &[]))[1..], ["/model", "/model show", "/model set "]);
        let restore = texts(commands("/restore", &[]));
        assert_eq!(restore[..2], ["/restore ", "/restore list"], "the first is run");
        assert_eq!(texts(commands("/xyz", &[])), [""; 0]);
        assert_eq!(texts(commands("/clear", &[])), [""; 0], "it is all there");
    }

    #[test]
    fn the_file_that_fits_best_comes_first() {
        let known = ["docs/main notes.md", "src/main.rs", "src/domain.rs", "maintain"];
        let known = FileIndex::new(known.map(ToOwned::to_owned).to_vec());
        let found = texts(known.fitting("main", 0));
        assert_eq!(
            found,
            ["@maintain ", "@src/main.rs ", "@docs/main\\ notes.md ", "@src/domain.rs "]
        );
        assert_eq!(texts(known.fitting("smr", 0)), ["@src/main.rs ", "@src/domain.rs "]);
    }

    #[test]
    fn what_is_marked_is_put_in_the_place_of_the_word() {
        let mut input = typed("see @ma");
        let files = FileIndex::new(vec!["main.rs".to_owned(), "make".to_owned()]);
        let Some(mut completion) = files.fitting("ma", 4) else { panic!("nothing fits") };
        completion.select(true);
        completion.select(true);
        completion.select(false);
        assert!(completion.accept(&mut input));
        assert_eq!(input.text(), "see @main.rs ");
        assert!(!completion.accept(&mut input));
    }

    #[test]
    fn history_is_searched_backwards() {
        let history = ["run tests", "fix it", "Run all", "run tests"].map(ToOwned::to_owned);
        assert_eq!(texts(super::history("run", &history)), ["run tests", "Run all"]);
    }
}
