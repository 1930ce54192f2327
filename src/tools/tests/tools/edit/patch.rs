//! `apply_patch`, as the model calls it.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::{fs, io};

use async_trait::async_trait;
use expect_test::expect;
use serde_json::{Value, json};
use tandem_host::disk::Disk;
use tandem_host::files::{FileKind, Files};
use tandem_host::preimages::{FileChange, Preimage};
use tandem_host::workspace::Workspace;
use tandem_host::{Access, FileDiff, FileLocation, Host, ResultContent, ToolError, ToolLimits};
use test_support::host::host_with;
use tokio_util::sync::CancellationToken;

use super::{Place, everything, report};

fn patch(lines: &str) -> Value {
    json!({ "input": format!("*** Begin Patch\n{lines}\n*** End Patch") })
}

const FILES: [(&str, &[u8]); 3] =
    [("a.txt", b"one\ntwo\nthree\n"), ("b.txt", b"b\r\nc\r\n"), ("old/c.txt", b"c\n")];

/// A patch that changes, creates, removes and moves files.
const ALL: &str = "*** Update File: a.txt\n@@\n one\n-two\n+2\n*** Add File: new/d.txt\n+d\n\
    *** Delete File: b.txt\n*** Update File: old/c.txt\n*** Move to: e.txt\n-c\n+e";

#[test]
fn a_patch_of_one_file_is_an_edit_that_the_user_can_change() {
    let place = Place::new(&FILES);
    let args = patch("*** Update File: a.txt\n two\n-three\n+3");
    let call = place.prepare("apply_patch", args).unwrap();
    assert_eq!(call.access, Access::edit(place.path("a.txt")));
    assert_eq!(call.summary.label, "Edit a.txt");
    let path = place.path("a.txt").display().to_string();
    assert_eq!(call.summary.locations, [FileLocation { path, line: Some(3) }]);
    assert!(call.summary.diff.as_ref().unwrap().is_editable());
    let output = place.run(call, Some("one\ntwo\ndrei\n")).unwrap();
    assert_eq!(place.read("a.txt"), b"one\ntwo\ndrei\n");
    assert!(output.text.contains("the user changed the text"), "{}", output.text);
    let output = place.call("apply_patch", patch("*** Update File: a.txt\n-drei\n+3")).unwrap();
    assert_eq!(report(&output.text), "Changed a.txt.");
}

#[test]
fn a_patch_of_several_files_is_one_call_and_all_of_it_is_shown() {
    let place = Place::new(&FILES);
    let call = place.prepare("apply_patch", patch(ALL)).unwrap();
    expect!["Remove b.txt, move old/c.txt to e.txt, create new/d.txt, edit a.txt"]
        .assert_eq(&call.summary.label);
    let paths = ["a.txt", "new/d.txt", "e.txt", "old/c.txt", "b.txt"].map(|path| place.path(path));
    let mut changed: Vec<_> = call.access.changed_files().cloned().collect();
    changed.sort();
    let mut expected = paths.to_vec();
    expected.sort();
    assert_eq!(changed, expected);
    let root = place.path("");
    let shown = call.summary.diff.as_ref().unwrap().unified();
    let shown = shown.replace(&*root.to_string_lossy(), "");
    expect![[r"
        --- a.txt
        +++ a.txt
        @@ -1,3 +1,3 @@
         one
        -two
        +2
         three
        --- /dev/null
        +++ new/d.txt
        @@ -0,0 +1 @@
        +d
        --- old/c.txt
        +++ e.txt
        @@ -1 +1 @@
        -c
        +e
        --- b.txt
        +++ /dev/null
        @@ -1,2 +0,0 @@
        -b
        -c
    "]]
    .assert_eq(&shown);
    assert!(everything(&root).iter().all(|(path, _)| !path.ends_with("e.txt")), "nothing is made");
    let output = place.run(call, None).unwrap();
    expect![[r"
        Changed a.txt.
        Created new/d.txt with 1 line.
        Moved old/c.txt to e.txt.
        Removed b.txt."]]
    .assert_eq(&output.text);
    let Some(ResultContent::Diff(diff)) = output.shown else { panic!("no diff") };
    assert_eq!(diff.each().count(), 4);
    assert_eq!(place.read("a.txt"), b"one\n2\nthree\n");
    assert_eq!(place.read("new/d.txt"), b"d\n");
    assert_eq!(place.read("e.txt"), b"e\n");
    assert!(!place.path("b.txt").exists() && !place.path("old/c.txt").exists());
}

#[test]
fn a_patch_with_a_fault_changes_nothing() {
    let place = Place::new(&FILES);
    let refused = |lines: &str, kind: &str| {
        place.check_failing("apply_patch", patch(&format!("{ALL}\n{lines}")), kind)
    };
    let message = refused("*** Update File: a.txt\n-four\n+4", "patch_lines_not_found");
    expect![[r"
        Nothing was changed: these lines are not in a.txt, or not after the group of lines before:
        four
        Nothing in the file is like them.
        Read the file again, and copy the lines that stay or go exactly."]]
    .assert_eq(&message);
    refused("*** Update File: a.txt\n@@ def f\n-four\n+4", "patch_lines_not_found");
    refused("*** Update File: a.txt\n-  three\n+  3", "patch_indentation_mismatch");
    let message = refused("*** Delete File: b.text", "file_not_found");
    expect!["Nothing was changed: b.text does not exist. Did you mean b.txt, a.txt?"]
        .assert_eq(&message);
    refused("*** Update File: a.txt\n*** Move to: new/d.txt", "target_exists");
    refused("*** Delete File: b.txt", "file_not_found");
    refused("*** Add File: f.py\n+# ... rest of the code ...", "omission_placeholder");
    refused("*** Delete File: old", "is_directory");
    let wrong = |args| place.prepare("apply_patch", args).err().unwrap();
    assert_eq!(wrong(json!({ "input": "x" })).kind, "invalid_patch");
    let cut = json!({ "input": "*** Begin Patch\n*** Delete File: b.txt" });
    expect!["Nothing was changed: this is no patch: the last line is not `*** End Patch`."]
        .assert_eq(&wrong(cut).message);
}

#[test]
fn nothing_outside_the_workspace_is_changed() {
    let place = Place::new(&FILES);
    let outside = place.dir.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("file"), "theirs\n").unwrap();
    symlink(&outside, place.path("link")).unwrap();
    let file = outside.join("file").display().to_string();
    for path in ["../outside/file", "link/file", &file, "/etc/passwd", "old/../../outside/file"] {
        for part in [
            format!("*** Update File: {path}\n-theirs\n+mine"),
            format!("*** Delete File: {path}"),
            format!("*** Add File: {path}\n+mine"),
            format!("*** Update File: a.txt\n*** Move to: {path}"),
        ] {
            let lines = format!("*** Update File: a.txt\n-one\n+1\n{part}");
            place.check_failing("apply_patch", patch(&lines), "path_not_in_workspace");
        }
    }
}

#[test]
fn a_link_is_neither_removed_nor_moved_and_an_update_changes_the_file_that_it_leads_to() {
    let place = Place::new(&FILES);
    symlink("a.txt", place.path("link")).unwrap();
    place.check_failing("apply_patch", patch("*** Delete File: link"), "is_link");
    let moves = "*** Update File: link\n*** Move to: other";
    place.check_failing("apply_patch", patch(moves), "is_link");
    place.call("apply_patch", patch("*** Update File: link\n-two\n+2")).unwrap();
    assert_eq!(place.read("a.txt"), b"one\n2\nthree\n");
    assert!(place.path("link").is_symlink());
}

#[test]
fn a_file_that_exists_is_replaced_only_if_the_model_has_read_it() {
    let place = Place::new(&[("a.txt", b"one\n")]);
    fs::write(place.path("unread.txt"), "theirs\n").unwrap();
    let add = |path: &str| patch(&format!("*** Add File: {path}\n+new"));
    place.check_failing("apply_patch", add("unread.txt"), "file_not_read");
    place.call("apply_patch", add("a.txt")).unwrap();
    assert_eq!(place.read("a.txt"), b"new\n");
}

#[test]
fn a_failing_patch_may_read_the_file_whose_text_it_has_moved() {
    let place = Place::new(&[(".env", b"TOKEN=1\n")]);
    let lines = "*** Update File: .env\n*** Move to: x.txt\n*** Update File: x.txt\n-TOKEN\n+y";
    let call = place.prepare("apply_patch", patch(lines)).unwrap();
    let paths = ["x.txt", ".env"].map(|path| place.path(path)).to_vec();
    assert_eq!(call.access, Access::ReadFiles { paths, outside: Vec::new() });
    assert_eq!(place.run(call, None).unwrap_err().kind, "patch_lines_not_found");
}

#[test]
fn a_moved_file_is_known_only_if_the_file_before_was() {
    let place = Place::new(&[("known.txt", b"one\n")]);
    fs::write(place.path("unread.txt"), "theirs\n").unwrap();
    let moved =
        |from: &str, to: &str| patch(&format!("*** Update File: {from}\n*** Move to: {to}"));
    let add = |path: &str| patch(&format!("*** Add File: {path}\n+new"));
    place.call("apply_patch", moved("unread.txt", "a.txt")).unwrap();
    place.check_failing("apply_patch", add("a.txt"), "file_not_read");
    place.call("apply_patch", moved("known.txt", "b.txt")).unwrap();
    place.call("apply_patch", add("b.txt")).unwrap();
}

#[test]
fn a_file_is_not_moved_to_the_place_of_a_file_that_the_patch_removes() {
    let place = Place::new(&FILES);
    let lines = "*** Delete File: b.txt\n*** Update File: a.txt\n*** Move to: b.txt";
    place.check_failing("apply_patch", patch(lines), "target_exists");
}

#[test]
fn the_title_says_that_a_file_is_replaced() {
    let place = Place::new(&FILES);
    let lines = "*** Add File: a.txt\n+1\n*** Add File: d.txt\n+2";
    let call = place.prepare("apply_patch", patch(lines)).unwrap();
    assert_eq!(call.summary.label, "Replace a.txt, create d.txt");
}

#[test]
fn the_files_of_a_patch_are_limited_together() {
    let mut place = Place::new(&FILES);
    let limits = ToolLimits { file_bytes: 16, ..ToolLimits::default() };
    let workspace = Workspace::new(place.cx.host.workspace.root(), &[]).unwrap();
    place.cx.host = Arc::new(host_with(workspace, limits));
    let call = |lines: &str| place.prepare("apply_patch", patch(lines)).unwrap();
    let change = "*** Update File: a.txt\n-one\n+1\n";
    assert_eq!(call(change).access, Access::edit(place.path("a.txt")));
    let both = call(&format!("{change}*** Delete File: b.txt"));
    assert_eq!(place.run(both, None).unwrap_err().kind, "file_too_large");
}

#[test]
fn encoding_line_endings_and_permissions_are_kept_when_a_file_is_moved() {
    let place = Place::new(&[("a.sh", b"\xff\xfea\0\r\0\n\0b\0\r\0\n\0")]);
    fs::set_permissions(place.path("a.sh"), fs::Permissions::from_mode(0o750)).unwrap();
    let lines = "*** Update File: a.sh\n*** Move to: bin/b.sh\n a\n-b\n+c";
    place.call("apply_patch", patch(lines)).unwrap();
    assert_eq!(place.read("bin/b.sh"), b"\xff\xfea\0\r\0\n\0c\0\r\0\n\0");
    let mode = fs::metadata(place.path("bin/b.sh")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o750);
    // The same holds where another file takes the old path.
    let lines = "*** Update File: bin/b.sh\n*** Move to: c.sh\n*** Add File: bin/b.sh\n+new";
    place.call("apply_patch", patch(lines)).unwrap();
    assert_eq!(place.read("c.sh"), b"\xff\xfea\0\r\0\n\0c\0\r\0\n\0");
    let mode = fs::metadata(place.path("c.sh")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o750);
}

#[test]
fn parts_about_one_file_build_on_each_other() {
    let place = Place::new(&FILES);
    let lines = "*** Update File: a.txt\n-one\n+1\n*** Update File: ./a.txt\n 1\n-two\n+2\n\
        *** Add File: tmp\n+x\n*** Delete File: tmp";
    let call = place.prepare("apply_patch", patch(lines)).unwrap();
    assert_eq!(call.access, Access::edit(place.path("a.txt")));
    place.run(call, None).unwrap();
    assert_eq!(place.read("a.txt"), b"1\n2\nthree\n");
    assert!(!place.path("tmp").exists());
}

#[test]
fn paths_begin_in_the_directory_of_the_command_line_that_the_patch_was_in() {
    let place = Place::new(&FILES);
    let mut args = patch("*** Update File: c.txt\n-c\n+d");
    args["dir_path"] = json!("old");
    place.call("apply_patch", args).unwrap();
    assert_eq!(place.read("old/c.txt"), b"d\n");
}

/// Prepares the patch, lets `meanwhile` change the workspace, and runs the patch.
fn run_after(place: &Place, meanwhile: impl FnOnce()) -> ToolError {
    let call = place.prepare("apply_patch", patch(ALL)).unwrap();
    meanwhile();
    let before = everything(place.dir.path());
    let error = place.run(call, None).unwrap_err();
    assert_eq!(everything(place.dir.path()), before);
    error
}

#[test]
fn a_file_that_has_changed_since_the_proposal_stops_all_of_the_patch() {
    for path in ["a.txt", "b.txt", "old/c.txt", "e.txt"] {
        let place = Place::new(&FILES);
        let error = run_after(&place, || fs::write(place.path(path), "theirs\n").unwrap());
        assert_eq!(error.kind, "file_changed", "{path}");
    }
}

#[test]
fn all_changes_are_announced_before_the_first_file_is_touched() {
    let mut place = Place::new(&FILES);
    let announced = Arc::<Mutex<Vec<FileChange>>>::default();
    let (kept, a) = (Arc::clone(&announced), place.path("a.txt"));
    place.cx.announce = Arc::new(move |change| {
        kept.lock().unwrap().push(change);
        let is_untouched = fs::read(&a).unwrap() == FILES[0].1;
        assert!(is_untouched);
        Box::pin(std::future::ready(Ok(())))
    });
    place.call("apply_patch", patch(ALL)).unwrap();
    let announced = announced.lock().unwrap();
    let said = |change: &FileChange| {
        let name = change.path.file_name().unwrap().to_string_lossy().into_owned();
        (name, change.removes, change.before == Preimage::Nothing)
    };
    let said: Vec<_> = announced.iter().map(said).collect();
    let expected = [
        ("a.txt", false, false),
        ("d.txt", false, true),
        ("e.txt", false, true),
        ("c.txt", true, false),
        ("b.txt", true, false),
    ];
    let mut expected = expected.map(|(name, removes, made)| (name.to_owned(), removes, made));
    let mut said = said;
    said.sort();
    expected.sort();
    assert_eq!(said, expected);
    // Each announced change can be undone, the newest first.
    let host = Arc::clone(&place.cx.host);
    for change in announced.iter().rev() {
        place.runtime.block_on(host.preimages.restore(change, &*host.files)).unwrap();
    }
    for (path, content) in FILES {
        assert_eq!(place.read(path), content);
    }
    assert!(!place.path("e.txt").exists() && !place.path("new/d.txt").exists());
}

/// A disk on which `b.txt` cannot be removed.
struct FaultyDisk(Disk);

#[async_trait]
impl Files for FaultyDisk {
    async fn kind(&self, path: &Path) -> io::Result<FileKind> {
        self.0.kind(path).await
    }

    async fn read(&self, path: &Path, max: u64) -> Result<Vec<u8>, ToolError> {
        self.0.read(path, max).await
    }

    async fn check_writable(&self, path: &Path) -> Result<(), ToolError> {
        self.0.check_writable(path).await
    }

    async fn missing_directories(&self, path: &Path) -> Result<Vec<PathBuf>, ToolError> {
        self.0.missing_directories(path).await
    }

    async fn write(
        &self,
        path: &Path,
        old: Option<&[u8]>,
        new: &[u8],
        cancel: &CancellationToken,
    ) -> Result<Option<Vec<u8>>, ToolError> {
        self.0.write(path, old, new, cancel).await
    }

    async fn remove(&self, path: &Path, expected: &[u8]) -> io::Result<bool> {
        if path.ends_with("b.txt") {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        self.0.remove(path, expected).await
    }

    async fn permissions(&self, path: &Path) -> io::Result<fs::Permissions> {
        self.0.permissions(path).await
    }

    async fn create(
        &self,
        path: &Path,
        content: &[u8],
        permissions: fs::Permissions,
        cancel: &CancellationToken,
    ) -> Result<(), ToolError> {
        self.0.create(path, content, permissions, cancel).await
    }

    async fn remove_directory(&self, path: &Path) -> io::Result<()> {
        self.0.remove_directory(path).await
    }
}

#[test]
fn what_was_made_before_a_failure_is_taken_back() {
    let mut place = Place::new(&FILES);
    let workspace = Workspace::new(place.cx.host.workspace.root(), &[]).unwrap();
    let host = host_with(workspace, ToolLimits::default());
    let files = Arc::new(FaultyDisk(host.disk.clone()));
    place.cx.host = Arc::new(Host { files, ..host });
    let set = |path: &str, mode| {
        fs::set_permissions(place.path(path), fs::Permissions::from_mode(mode)).unwrap();
    };
    let mode = |path: &str| fs::metadata(place.path(path)).unwrap().permissions().mode() & 0o777;
    set("old/c.txt", 0o750);
    // Removing `b.txt` fails and is the last step: files are written,
    // moved, and then removed in the order of the patch.
    let parts: Vec<_> = ALL.splitn(2, "*** Delete File: b.txt\n").collect();
    let lines = format!("{}{}\n*** Delete File: b.txt", parts[0], parts[1]);
    let call = place.prepare("apply_patch", patch(&lines)).unwrap();
    let before = everything(place.dir.path());
    let error = place.run(call, None).unwrap_err();
    assert_eq!(error.kind, "file_write_failure", "{error}");
    assert_eq!(everything(place.dir.path()), before);
    assert_eq!(mode("old/c.txt"), 0o750);
}

#[test]
fn of_several_files_the_user_cannot_edit_the_text() {
    let place = Place::new(&FILES);
    let call = place.prepare("apply_patch", patch(ALL)).unwrap();
    assert!(!call.summary.diff.as_ref().is_some_and(FileDiff::is_editable));
    let before = everything(place.dir.path());
    assert_eq!(place.run(call, Some("x")).unwrap_err().kind, "not_editable");
    assert_eq!(everything(place.dir.path()), before);
}
