//! Workspaces in which a directory and a link that leads outside change places all the time, as a command could do.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use serde_json::{Value, json};
use tandem_host::workspace::Workspace;
use tandem_host::{ToolContext, ToolLimits};
use tandem_tools::all;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use test_support::exchange::Exchange;
use test_support::host::context;

/// Number of calls during the exchanges. Without the protection, some of these calls would read files outside.
const CALLS: usize = 150;

/// Text of the files outside.
const OUTSIDE: &str = "said outside";

/// A workspace in which `a/sub` and `link`, a link to a directory outside, change places.
struct Place {
    /// Dropped first, so that the exchanges end before the directory is removed.
    exchange: Exchange,
    dir: TempDir,
    cx: ToolContext,
    runtime: Runtime,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (root, outside) = (dir.path().join("ws"), dir.path().join("outside"));
        for (directory, text) in [(&root.join("a/sub"), "said inside"), (&outside, OUTSIDE)] {
            fs::create_dir_all(directory).unwrap();
            fs::write(directory.join("file.txt"), text).unwrap();
        }
        fs::write(outside.join("only-outside.txt"), OUTSIDE).unwrap();
        symlink(&outside, root.join("link")).unwrap();
        let cx = context(Workspace::new(&root, &[]).unwrap(), ToolLimits::default());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let exchange = Exchange::of(&root.join("a/sub"), &root.join("link"));
        Self { exchange, dir, cx, runtime }
    }

    fn outside(&self) -> PathBuf {
        self.dir.path().join("outside")
    }

    fn call(&self, name: &str, args: &Value) -> String {
        call(&self.runtime, &self.cx, name, args)
    }

    /// Checks that calls of a tool say nothing of the files outside, and succeed afterwards.
    #[track_caller]
    fn check_reads(self, name: &str, args: &Value) {
        for _ in 0..CALLS {
            let said = self.call(name, args);
            assert!(!said.contains(OUTSIDE), "{said}");
            assert!(!said.contains("only-outside"), "{said}");
        }
        let Self { exchange, dir: _dir, cx, runtime } = self;
        exchange.end();
        let said = call(&runtime, &cx, name, args);
        assert!(said.contains("Ok("), "{said}");
    }
}

/// Calls a tool, and returns all texts about the call.
fn call(runtime: &Runtime, cx: &ToolContext, name: &str, args: &Value) -> String {
    let tool = all().into_iter().find(|tool| tool.spec().name == name).unwrap();
    runtime.block_on(async {
        let call = match tool.prepare(args.clone(), cx).await {
            Ok(call) => call,
            Err(error) => return error.to_string(),
        };
        let summary = format!("{:?}", call.summary);
        format!("{summary} {:?}", call.run(cx.clone(), None).await)
    })
}

#[test]
fn no_write_leads_out() {
    let place = Place::new();
    let host = &place.cx.host;
    for call in 0..CALLS {
        let exported = format!("a/sub/export{call}.md");
        if let Ok(path) = place.runtime.block_on(host.resolve(&exported)) {
            let _ = host.disk.create_private(&path);
        }
        let path = format!("a/sub/new{call}.txt");
        place.call("write_file", &json!({ "file_path": path, "content": "new" }));
        place.call("write_file", &json!({ "file_path": "a/sub/file.txt", "content": path }));
    }
    let mut names: Vec<_> =
        fs::read_dir(place.outside()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["file.txt", "only-outside.txt"]);
    assert_eq!(fs::read_to_string(place.outside().join("file.txt")).unwrap(), OUTSIDE);
}

#[test]
fn no_replacement_leads_out() {
    let place = Place::new();
    for _ in 0..CALLS {
        let args = json!({
            "file_path": "a/sub/file.txt",
            "instruction": "",
            "old_string": "said",
            "new_string": "says",
        });
        let said = place.call("replace", &args);
        assert!(!said.contains("outside\""), "{said}");
    }
    assert_eq!(fs::read_to_string(place.outside().join("file.txt")).unwrap(), OUTSIDE);
}

#[test]
fn no_file_outside_is_read() {
    Place::new().check_reads("read_file", &json!({ "file_path": "a/sub/file.txt" }));
}

#[test]
fn none_of_many_files_is_read_outside() {
    Place::new().check_reads("read_many_files", &json!({ "include": ["a/**/*.txt"] }));
    Place::new().check_reads("read_many_files", &json!({ "include": ["a/sub"] }));
}

#[test]
fn no_file_outside_is_searched() {
    Place::new().check_reads("grep_search", &json!({ "pattern": "said" }));
    Place::new().check_reads("grep_search", &json!({ "pattern": "said", "dir_path": "a/sub" }));
}

#[test]
fn no_file_outside_is_found() {
    Place::new().check_reads("glob", &json!({ "pattern": "**/*.txt" }));
    Place::new().check_reads("glob", &json!({ "pattern": "a/sub/*.txt" }));
}

#[test]
fn no_directory_outside_is_listed() {
    Place::new().check_reads("list_directory", &json!({ "dir_path": "a/sub" }));
}

#[test]
fn a_directory_that_a_client_names_is_the_one_that_was_checked() {
    let dir = tempfile::tempdir().unwrap();
    let (root, outside) = (dir.path().join("served"), dir.path().join("outside"));
    for (directory, text) in [(&root.join("project"), "said inside"), (&outside, OUTSIDE)] {
        fs::create_dir_all(directory).unwrap();
        fs::write(directory.join("file.txt"), text).unwrap();
    }
    symlink(&outside, root.join("link")).unwrap();
    let served = Workspace::new(&root, &[]).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let read_in = |workspace: Workspace| {
        let files = context(workspace, ToolLimits::default()).host;
        let file = files.workspace.root().join("file.txt");
        let read = runtime.block_on(files.files.read(&file, 100)).unwrap();
        String::from_utf8(read).unwrap()
    };
    let exchange = Exchange::of(&root.join("project"), &root.join("link"));
    for _ in 0..CALLS {
        let Ok(workspace) = served.narrowed(&root.join("project")) else { continue };
        assert_eq!(read_in(workspace), "said inside");
    }
    exchange.end();
    assert_eq!(read_in(served.narrowed(&root.join("project")).unwrap()), "said inside");
}

#[test]
fn a_command_does_not_start_where_a_link_leads_that_has_come_up_since() {
    for background in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let (root, outside) = (dir.path().join("ws"), dir.path().join("outside"));
        fs::create_dir_all(root.join("sub")).unwrap();
        fs::create_dir(&outside).unwrap();
        let cx = context(Workspace::new(&root, &[]).unwrap(), ToolLimits::default());
        let tool = all().into_iter().find(|tool| tool.spec().name == "run_shell_command").unwrap();
        let args = json!({
            "command": "touch made", "dir_path": "sub", "is_background": background, "delay_ms": 500,
        });
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let call = runtime.block_on(tool.prepare(args, &cx)).unwrap();
        fs::rename(root.join("sub"), root.join("was")).unwrap();
        symlink(&outside, root.join("sub")).unwrap();
        let error = runtime.block_on(call.run(cx, None)).unwrap_err();
        assert_eq!(error.kind, "file_changed", "{error}");
        assert!(!outside.join("made").exists() && !root.join("was/made").exists());
    }
}
