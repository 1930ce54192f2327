//! Files that an editor has open with unsaved changes: tools read and change the editor's text.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, pending, ready};
use tandem_host::buffers::TextBuffers;
use tandem_host::session_files::BuffersGuard;
use tokio_util::sync::CancellationToken;

use super::*;
use test_support::host::host_with;

/// An editor with unsaved texts, by path. The editor saves each text that it is told to write.
#[derive(Default)]
struct Editor {
    texts: Mutex<HashMap<PathBuf, String>>,
    /// Number of texts that the editor was asked for.
    asked: AtomicUsize,
    is_read_only: bool,
    /// `true` if the editor answers nothing.
    is_silent: AtomicBool,
    saving: Saving,
}

/// Behaviour of an editor that is told to write.
#[derive(Default, PartialEq)]
enum Saving {
    #[default]
    Saves,
    /// The editor changes the text before saving, as a formatter does.
    Formats,
    /// The editor keeps the text, and saves later.
    Keeps,
    /// The editor reports a write that it has not made.
    Lies,
    Refuses,
}

impl Editor {
    fn text(&self, path: &Path) -> Option<String> {
        self.texts.lock().unwrap().get(path).cloned()
    }

    fn set(&self, path: &Path, text: &str) {
        self.texts.lock().unwrap().insert(path.to_owned(), text.to_owned());
    }
}

impl TextBuffers for Editor {
    fn cover(&self, path: &Path) -> bool {
        !path.components().any(|part| part.as_os_str() == "elsewhere")
    }

    fn takes_writes(&self) -> bool {
        !self.is_read_only
    }

    fn read(&self, path: &Path) -> BoxFuture<'static, Option<String>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        if self.is_silent.load(Ordering::Relaxed) {
            return pending().boxed();
        }
        ready(self.text(path)).boxed()
    }

    fn write(&self, path: &Path, text: &str) -> BoxFuture<'static, Result<(), String>> {
        if self.is_silent.load(Ordering::Relaxed) {
            return pending().boxed();
        }
        if self.saving == Saving::Refuses {
            return ready(Err("the user said no".to_owned())).boxed();
        }
        if self.saving != Saving::Lies {
            let text = if self.saving == Saving::Formats {
                text.replace("  ", " ")
            } else {
                text.to_owned()
            };
            self.set(path, &text);
            if self.saving != Saving::Keeps {
                fs::write(path, text).unwrap();
            }
        }
        ready(Ok(())).boxed()
    }
}

/// A workspace with an editor.
struct Desk {
    place: Place,
    editor: Arc<Editor>,
    guard: Option<BuffersGuard>,
}

impl Desk {
    /// Makes a workspace in which `a.txt` has these bytes.
    fn new(bytes: &[u8], editor: Editor) -> Self {
        let mut place = Place::new(&[("a.txt", bytes)]);
        let workspace = Workspace::new(place.cx.host.workspace.root(), &[]).unwrap();
        let limits = ToolLimits {
            file_bytes: 1 << 20,
            editor_bytes: 100,
            editor_time: Duration::from_millis(50),
            ..ToolLimits::default()
        };
        place.cx.host = Arc::new(host_with(workspace, limits));
        place.runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let editor = Arc::new(editor);
        let guard = Some(place.cx.host.editors.join(Arc::<Editor>::clone(&editor)));
        Self { place, editor, guard }
    }

    /// Makes a workspace in which `a.txt` has the text `saved`, and an editor that has `unsaved` for the same file.
    fn unsaved(editor: Editor) -> Self {
        let desk = Self::new(b"saved\n", editor);
        desk.types("unsaved\n");
        desk
    }

    /// Changes the editor's text of `a.txt`.
    fn types(&self, text: &str) {
        self.editor.set(&self.place.path("a.txt"), text);
    }

    fn text(&self) -> Option<String> {
        self.editor.text(&self.place.path("a.txt"))
    }

    fn read(&self) -> String {
        let args = json!({ "file_path": "a.txt" });
        let read = self.place.call("read_file", args).unwrap().text;
        // The line numbers of `read_file` are cut off.
        read.split_inclusive('\n').map(|line| line.split_once('\t').unwrap().1).collect()
    }

    fn runs(&self, command: &str) {
        self.place.call("run_shell_command", json!({ "command": command })).unwrap();
    }

    /// Lets the model read the file, and then overwrite it.
    fn rewrites(&self, content: &str) -> Result<ToolOutput, ToolError> {
        self.read();
        self.place.call("write_file", write_args(content))
    }

    #[track_caller]
    fn check_refused(&self, kind: &str) {
        let error = self.rewrites("new\n").unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
    }
}

#[test]
fn a_read_gives_the_model_what_is_in_the_editor() {
    let desk = Desk::unsaved(Editor::default());
    assert_eq!(desk.read(), "unsaved\n");
    let read = desk.place.call("read_many_files", json!({ "include": ["a.txt"] })).unwrap().text;
    assert_eq!(read, "--- a.txt ---\n\n     1\tunsaved\n\n\n--- End of content ---");
}

#[test]
fn an_edit_starts_from_the_editors_text_and_is_written_by_the_editor() {
    let desk = Desk::unsaved(Editor { saving: Saving::Keeps, ..Editor::default() });
    let output = desk.place.call("replace", replace_args("unsaved", "edited")).unwrap();
    assert_eq!(shown(&output), (Some("unsaved\n"), "edited\n"));
    desk.rewrites("written\n").unwrap();
    assert_eq!(desk.text().unwrap(), "written\n");
    assert_eq!(desk.place.read("a.txt"), b"saved\n", "the editor saves, or does not");
}

#[test]
fn a_file_that_is_only_in_the_editor_can_be_read_and_edited() {
    let desk = Desk::new(b"", Editor::default());
    let path = desk.place.path("new.txt");
    desk.editor.set(&path, "new\n");
    let args = json!({ "file_path": "new.txt" });
    assert_eq!(desk.place.call("read_file", args).unwrap().text, "     1\tnew\n");
    let args = json!({ "file_path": "new.txt", "content": "newer\n" });
    let output = desk.place.call("write_file", args).unwrap();
    assert_eq!(shown(&output), (Some("new\n"), "newer\n"));
    assert_eq!(fs::read(path).unwrap(), b"newer\n");
}

#[test]
fn a_file_that_is_nowhere_is_made_by_the_editor_in_a_directory_that_is_made() {
    let desk = Desk::new(b"", Editor::default());
    let path = desk.place.path("x/y/new.txt");
    // For a file that does not exist, some editors answer with an empty text.
    desk.editor.set(&path, "");
    let args = json!({ "file_path": "x/y/new.txt", "content": "new\n" });
    let output = desk.place.call("write_file", args).unwrap();
    assert_eq!(shown(&output), (None, "new\n"));
    assert_eq!(desk.editor.text(&path).unwrap(), "new\n");
    assert_eq!(fs::read(path).unwrap(), b"new\n");
}

#[test]
fn what_changes_in_the_editor_after_the_question_is_not_lost() {
    let desk = Desk::unsaved(Editor::default());
    desk.read();
    let call = desk.place.prepare("write_file", write_args("new\n")).unwrap();
    desk.types("typed meanwhile\n");
    assert_eq!(desk.place.run(call, None).unwrap_err().kind, "file_changed");
    assert_eq!(desk.text().unwrap(), "typed meanwhile\n");
    assert_eq!(desk.place.read("a.txt"), b"saved\n");
}

#[test]
fn an_editor_that_takes_no_writes_is_read_and_keeps_what_is_not_saved() {
    let desk = Desk::unsaved(Editor { is_read_only: true, ..Editor::default() });
    assert_eq!(desk.read(), "unsaved\n");
    desk.check_refused("unsaved_changes");
    assert_eq!(desk.place.read("a.txt"), b"saved\n");
    desk.types("saved\n");
    desk.rewrites("new\n").unwrap();
    assert_eq!(desk.place.read("a.txt"), b"new\n");
    assert_eq!(desk.read(), "new\n", "the editor has not loaded it again");
}

#[test]
fn an_editors_text_from_before_a_command_does_not_count() {
    let desk = Desk::new(b"old\n", Editor::default());
    desk.types("old\n");
    assert_eq!(desk.read(), "old\n");
    desk.runs("echo new > a.txt");
    assert_eq!(desk.read(), "new\n");
    let output = desk.place.call("replace", replace_args("new", "newer")).unwrap();
    assert_eq!(shown(&output), (Some("new\n"), "newer\n"));
    assert_eq!(desk.text().unwrap(), "newer\n");
}

#[test]
fn an_edit_of_what_a_person_and_a_command_have_changed_waits_for_the_person() {
    let desk = Desk::new(b"old\n", Editor::default());
    desk.types("typed\n");
    desk.runs("echo new > a.txt");
    for _ in 0..2 {
        assert_eq!(desk.read(), "new\n", "the model sees what the command has done");
        desk.check_refused("unsaved_changes");
    }
    assert_eq!(
        (desk.text().unwrap().as_str(), desk.place.read("a.txt")),
        ("typed\n", b"new\n".to_vec())
    );
    desk.types("new\n");
    desk.place.call("write_file", write_args("newer\n")).unwrap();
    assert_eq!(desk.place.read("a.txt"), b"newer\n");
}

#[test]
fn what_a_person_types_after_a_command_that_left_the_file_alone_counts() {
    let desk = Desk::new(b"old\n", Editor::default());
    desk.types("old\n");
    assert_eq!(desk.read(), "old\n");
    desk.runs("echo x > other.txt");
    desk.types("typed\n");
    assert_eq!(desk.read(), "typed\n");
    desk.place.call("write_file", write_args("new\n")).unwrap();
    assert_eq!(desk.place.read("a.txt"), b"new\n");
}

#[test]
fn what_editors_leave_out_of_a_file_stays_in_it() {
    let desk = Desk::new(b"\xEF\xBB\xBFa\r\nb\r\n", Editor::default());
    desk.types("a\nb");
    let output = desk.place.call("replace", replace_args("b", "c")).unwrap();
    assert_eq!(shown(&output), (Some("a\r\nb\r\n"), "a\r\nc\r\n"));
    assert_eq!(desk.text().unwrap(), "a\r\nc\r\n", "the editor adds the mark");
    desk.types("unsaved\nb");
    assert_eq!(desk.read(), "unsaved\r\nb\r\n");
}

#[test]
fn what_the_editor_changes_as_it_saves_is_told() {
    let desk = Desk::new(b"x\n", Editor { saving: Saving::Formats, ..Editor::default() });
    let output = desk.rewrites("a  b\n").unwrap();
    assert!(output.text.contains("-a  b\n+a b\n"), "{}", output.text);
    assert_eq!(shown(&output), (Some("x\n"), "a b\n"));
}

#[test]
fn a_write_that_the_editor_only_claims_is_a_failure() {
    let desk = Desk::new(b"x\n", Editor { saving: Saving::Lies, ..Editor::default() });
    desk.check_refused("write_unconfirmed");
    assert_eq!(desk.place.read("a.txt"), b"x\n");
}

#[test]
fn a_write_that_the_editor_refuses_is_not_made_on_the_disk() {
    let desk = Desk::new(b"x\n", Editor { saving: Saving::Refuses, ..Editor::default() });
    desk.check_refused("file_write_failure");
    assert_eq!(desk.place.read("a.txt"), b"x\n");
}

#[test]
fn a_file_outside_of_the_editors_directories_is_on_the_disk() {
    let desk = Desk::new(b"", Editor::default());
    let args = json!({ "file_path": "elsewhere/a.txt", "content": "new\n" });
    desk.place.call("write_file", args).unwrap();
    assert_eq!(desk.place.read("elsewhere/a.txt"), b"new\n");
    assert_eq!(desk.editor.asked.load(Ordering::Relaxed), 0);
}

#[test]
fn what_no_editor_can_have_is_on_the_disk() {
    for bytes in [b"a\0b".to_vec(), b"caf\xE9 au lait\n".to_vec(), "x".repeat(101).into_bytes()] {
        let desk = Desk::new(&bytes, Editor::default());
        desk.types("another\n");
        // Errors are ignored: a binary file, for example, cannot be read.
        let _ = desk.place.call("read_file", json!({ "file_path": "a.txt" }));
        let _ = desk.place.call("write_file", write_args("new\n"));
        assert_eq!(desk.editor.asked.load(Ordering::Relaxed), 0);
        assert_eq!(desk.text().unwrap(), "another\n");
    }
}

#[test]
fn a_silent_editor_holds_nothing_up_but_once() {
    let desk = Desk::unsaved(Editor { is_silent: true.into(), ..Editor::default() });
    assert_eq!(desk.read(), "saved\n");
    desk.place.call("write_file", write_args("new\n")).unwrap();
    assert_eq!(desk.place.read("a.txt"), b"new\n");
    assert_eq!(desk.editor.asked.load(Ordering::Relaxed), 1);
}

#[test]
fn a_cancel_ends_the_wait_for_an_editor() {
    let mut desk = Desk::new(b"x\n", Editor::default());
    let limits = ToolLimits { editor_time: Duration::from_hours(1), ..ToolLimits::default() };
    let workspace = Workspace::new(desk.place.cx.host.workspace.root(), &[]).unwrap();
    desk.place.cx.host = Arc::new(host_with(workspace, limits));
    let _guard = desk.place.cx.host.editors.join(Arc::<Editor>::clone(&desk.editor));
    desk.read();
    let write = desk.place.prepare("write_file", write_args("new\n")).unwrap();
    let read = desk.place.prepare("read_file", json!({ "file_path": "a.txt" })).unwrap();
    desk.editor.is_silent.store(true, Ordering::Relaxed);
    for call in [write, read] {
        desk.place.cx.cancel = CancellationToken::new();
        let cancel = desk.place.cx.cancel.clone();
        let (run, cancelled) = (call.run(desk.place.cx.clone(), None), async {
            tokio::task::yield_now().await;
            cancel.cancel();
        });
        let (result, ()) = desk.place.runtime.block_on(async { tokio::join!(run, cancelled) });
        assert_eq!(result.unwrap_err().kind, "cancelled");
    }
    assert_eq!(desk.place.read("a.txt"), b"x\n");
}

#[test]
fn the_disk_takes_the_place_of_an_editor_that_has_gone() {
    let mut desk = Desk::unsaved(Editor::default());
    assert_eq!(desk.read(), "unsaved\n");
    let other = Arc::new(Editor::default());
    other.set(&desk.place.path("a.txt"), "of the other\n");
    let joined = desk.place.cx.host.editors.join(other);
    assert_eq!(desk.read(), "of the other\n");
    drop(joined);
    assert_eq!(desk.read(), "unsaved\n");
    desk.guard = None;
    assert_eq!(desk.read(), "saved\n");
}
