//! Results of a turn in addition to its answer: its plan and its changed files.

use std::collections::BTreeMap;
use std::mem;
use std::panic;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use tokio::task::JoinError;

use super::session_records::{ResultCalls, SessionRecords};
use tandem_agent::session::{FileDiff, ResultContent, Todo, TodoStatus, TurnId};
use tandem_content::visible::visible_line;
use tandem_wire::a2a::{Artifact, FilePart, Part};

/// Maximum number of changed files among the results of a turn.
const MAX_FILES: usize = 100;

/// Maximum size in bytes of a file whose whole content is sent with its diff.
const MAX_CONTENT_BYTES: usize = 64 << 10;

/// Maximum size in bytes of a file, before and after its change, for which a diff is made.
const MAX_COMPARED_BYTES: usize = 4 << 20;

/// Maximum size of a diff in bytes; the end of a longer diff is cut off.
const MAX_DIFF_BYTES: usize = 256 << 10;

/// Plan and changed files of an ended turn, before the files are compared.
pub(super) struct TurnChanges {
    calls: ResultCalls,
    /// The directory that the session works in.
    directory: PathBuf,
}

impl TurnChanges {
    pub(super) fn of(records: &SessionRecords, turn: TurnId) -> Self {
        Self { calls: records.result_calls(turn), directory: records.directory().to_owned() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Returns the plan and the diffs of the changed files, as artifacts. Blocks if there are any, since it
    /// reads the log and compares files.
    pub(super) fn artifacts(self) -> Vec<Artifact> {
        artifacts(self.calls, &self.directory)
    }

    /// Returns the artifacts, made on a thread for blocking work.
    pub(super) async fn artifacts_off_thread(self) -> Vec<Artifact> {
        if self.is_empty() {
            return Vec::new();
        }
        made_or_empty(tokio::task::spawn_blocking(move || self.artifacts()).await)
    }
}

/// Returns the output of work off the runtime's thread, or an empty one if the runtime shuts down, since then
/// no client is left to notice. A panic of the work is resumed here.
pub(super) fn made_or_empty<T: Default>(made: Result<T, JoinError>) -> T {
    made.unwrap_or_else(|error| match error.try_into_panic() {
        Ok(panicked) => panic::resume_unwind(panicked),
        Err(_) => T::default(),
    })
}

fn artifacts(calls: ResultCalls, directory: &Path) -> Vec<Artifact> {
    let mut plan = None;
    let mut files: BTreeMap<String, FileDiff> = BTreeMap::new();
    for shown in calls.read() {
        match shown {
            ResultContent::Todos(todos) => plan = Some(todos),
            ResultContent::Diff(diff) => each_file(*diff).for_each(|diff| note(&mut files, diff)),
            _ => {}
        }
    }
    let plan = plan.filter(|todos| !todos.is_empty()).map(|todos| self::plan(&todos));
    let is_changed = |diff: &FileDiff| match &diff.old {
        Some(old) => diff.removes || *old != diff.new,
        None => !diff.removes,
    };
    let changed = files.into_values().filter(is_changed);
    plan.into_iter().chain(changed.map(|diff| file(&diff, directory))).collect()
}

/// Returns the change of each file. A moved file counts as a removed file and a new file.
fn each_file(mut diff: FileDiff) -> impl Iterator<Item = FileDiff> {
    let others = mem::take(&mut diff.others);
    [diff].into_iter().chain(others).flat_map(|mut diff| {
        let moved = diff.moved_from.take().map(|path| {
            let old = diff.old.take();
            FileDiff { removes: true, ..FileDiff::new(path, old, "") }
        });
        moved.into_iter().chain([diff])
    })
}

/// Adds a change to the earlier changes of the file.
fn note(files: &mut BTreeMap<String, FileDiff>, diff: FileDiff) {
    let is_full = files.len() == MAX_FILES;
    match files.get_mut(&diff.path) {
        Some(first) => (first.new, first.removes) = (diff.new, diff.removes),
        None if is_full => {}
        None => _ = files.insert(diff.path.clone(), diff),
    }
}

/// Returns the plan as a Markdown file.
fn plan(todos: &[Todo]) -> Artifact {
    let line = |todo: &Todo| {
        let (mark, remark) = match todo.status {
            TodoStatus::Completed => ("x", ""),
            TodoStatus::Pending => (" ", ""),
            TodoStatus::InProgress => (" ", " (in progress)"),
            TodoStatus::Cancelled => (" ", " (cancelled)"),
            TodoStatus::Blocked => (" ", " (blocked)"),
        };
        format!("- [{mark}] {}{remark}\n", visible_line(&todo.description))
    };
    let text: String = todos.iter().map(line).collect();
    let part = part("plan.md".to_owned(), "text/markdown", &text);
    Artifact { artifact_id: "plan".to_owned(), name: "plan".to_owned(), parts: vec![part] }
}

/// Returns the artifact of a changed file: its diff, and its content if that is short.
fn file(diff: &FileDiff, directory: &Path) -> Artifact {
    let path = Path::new(&diff.path);
    let name = path.strip_prefix(directory).unwrap_or(path).display().to_string();
    let old_len = diff.old.as_ref().map_or(0, |old| old.len());
    let compared = if old_len.max(diff.new.len()) <= MAX_COMPARED_BYTES {
        cut(diff.unified())
    } else {
        format!("[The file has more than {MAX_COMPARED_BYTES} bytes: there is no diff of it.]\n")
    };
    let mut parts = vec![part(format!("{name}.diff"), "text/x-diff", &compared)];
    if diff.new.len() <= MAX_CONTENT_BYTES && !diff.removes {
        parts.push(part(name.clone(), "text/plain", &diff.new));
    }
    Artifact { artifact_id: format!("file:{name}"), name, parts }
}

/// Returns a diff, cut at a line end if it is too long.
fn cut(mut diff: String) -> String {
    if diff.len() > MAX_DIFF_BYTES {
        let lines = &diff[..diff.floor_char_boundary(MAX_DIFF_BYTES)];
        let end = lines.rfind('\n').map_or(lines.len(), |at| at + 1);
        diff.truncate(end);
        diff.push_str("[the rest of the diff is left out]\n");
    }
    diff
}

fn part(name: String, media_type: &'static str, content: &str) -> Part {
    let base64 = Some(BASE64_STANDARD.encode(content));
    let (name, media_type) = (Some(name), Some(media_type.into()));
    FilePart { name, media_type, base64, uri: None }.into()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn change(path: &str, old: Option<&str>, new: &str) -> FileDiff {
        FileDiff::new(path, old.map(Arc::from), new)
    }

    /// Returns the names and contents of an artifact's files.
    fn files(artifact: &Artifact) -> Vec<(String, String)> {
        let file = |part: &Part| {
            let file = part.file.as_ref().unwrap();
            let content = BASE64_STANDARD.decode(file.base64.as_ref().unwrap()).unwrap();
            (file.name.clone().unwrap(), String::from_utf8(content).unwrap())
        };
        artifact.parts.iter().map(file).collect()
    }

    #[test]
    fn a_changed_file_has_its_diff_and_its_content() {
        let artifact = file(&change("/w/src/a.rs", Some("one\n"), "two\n"), Path::new("/w"));
        assert_eq!((&*artifact.artifact_id, &*artifact.name), ("file:src/a.rs", "src/a.rs"));
        let diff = "--- /w/src/a.rs\n+++ /w/src/a.rs\n@@ -1 +1 @@\n-one\n+two\n";
        let expected = [("src/a.rs.diff", diff), ("src/a.rs", "two\n")];
        let expected = expected.map(|(name, text)| (name.to_owned(), text.to_owned()));
        assert_eq!(files(&artifact), expected);
        // A file outside the workspace is named by its whole path.
        let artifact = file(&change("/x/a", None, "a"), Path::new("/w"));
        assert_eq!(artifact.name, "/x/a");
    }

    #[test]
    fn a_large_file_comes_without_its_content_and_a_long_diff_is_cut() {
        let large = "line of a file\n".repeat(MAX_DIFF_BYTES / 10);
        let artifact = file(&change("/w/a", None, &large), Path::new("/w"));
        let [(name, diff)] = &files(&artifact)[..] else { panic!("{artifact:?}") };
        assert_eq!(name, "a.diff");
        assert!(
            diff.len() < MAX_DIFF_BYTES + 100 && diff.ends_with("left out]\n"),
            "{}",
            diff.len()
        );
        let huge = "x".repeat(MAX_COMPARED_BYTES + 1);
        let artifact = file(&change("/w/a", None, &huge), Path::new("/w"));
        assert!(files(&artifact)[0].1.contains("there is no diff"));
    }

    #[test]
    fn a_plan_is_a_list() {
        let todo = |description: &str, status| Todo { description: description.to_owned(), status };
        let artifact = plan(&[
            todo("Look", TodoStatus::Completed),
            todo("Write\nit", TodoStatus::InProgress),
            todo("Test", TodoStatus::Pending),
        ]);
        let text = "- [x] Look\n- [ ] Write\\nit (in progress)\n- [ ] Test\n";
        assert_eq!(files(&artifact), [("plan.md".to_owned(), text.to_owned())]);
    }
}
