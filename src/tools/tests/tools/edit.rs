//! Tools that change files: what is asked about, what is written, and what stays unchanged.

mod bytes;
mod editor;
mod files;
mod patch;
mod replace;
mod write;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tandem_host::workspace::Workspace;
use tandem_host::{
    Access, AnswerContent, Invocation, ResultContent, ToolContext, ToolError, ToolLimits,
    ToolOutput,
};
use tandem_tools::all;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use test_support::host::context;

/// A directory with a workspace, `ws`, and files outside the workspace.
struct Place {
    dir: TempDir,
    cx: ToolContext,
    runtime: Runtime,
}

impl Place {
    /// Makes a workspace with files that the model has read.
    fn new(files: &[(&str, &[u8])]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("ws");
        fs::create_dir(&root).unwrap();
        for (path, bytes) in files {
            fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            fs::write(root.join(path), bytes).unwrap();
        }
        let limits = ToolLimits { file_bytes: 1 << 20, ..ToolLimits::default() };
        let cx = context(Workspace::new(&root, &[]).unwrap(), limits);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let place = Self { dir, cx, runtime };
        for (path, _) in files {
            // An error is ignored: a file that is no text cannot be read.
            let _ = place.call("read_file", json!({ "file_path": path }));
        }
        place
    }

    fn path(&self, path: &str) -> PathBuf {
        self.cx.host.workspace.root().join(path)
    }

    fn read(&self, path: &str) -> Vec<u8> {
        fs::read(self.path(path)).unwrap()
    }

    fn prepare(&self, tool: &str, args: Value) -> Result<Invocation, ToolError> {
        let tool = all().into_iter().find(|known| known.spec().name == tool).unwrap();
        self.runtime.block_on(tool.prepare(args, &self.cx))
    }

    fn run(&self, call: Invocation, edited: Option<&str>) -> Result<ToolOutput, ToolError> {
        let given = edited.map(|edited| AnswerContent::Edited(edited.to_owned()));
        let result = self.runtime.block_on(call.run(self.cx.clone(), given));
        check_clean(self.dir.path());
        result
    }

    fn call(&self, tool: &str, args: Value) -> Result<ToolOutput, ToolError> {
        self.run(self.prepare(tool, args)?, None)
    }

    /// Checks that a call shows no change, needs no question, fails with this kind, and changes no file. Returns the
    /// message.
    fn check_failing(&self, tool: &str, args: Value, kind: &str) -> String {
        let before = everything(self.dir.path());
        let call = self.prepare(tool, args).unwrap();
        // The error may quote the file, so the call may have the access of a reading call.
        assert!(matches!(call.access, Access::Nothing | Access::ReadFiles { .. }));
        assert_eq!(call.summary.diff, None);
        let error = self.run(call, None).unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
        assert_eq!(everything(self.dir.path()), before);
        error.message
    }
}

/// Checks that no temporary file is left.
fn check_clean(dir: &Path) {
    for (path, _) in everything(dir) {
        let name = path.file_name().unwrap().to_string_lossy();
        assert!(!name.starts_with(".tmp"), "{name}");
    }
}

/// Returns all files and directories below a directory, with the contents of the files.
fn everything(dir: &Path) -> Vec<(PathBuf, Option<Vec<u8>>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let path = entry.path();
        let kind = entry.file_type().unwrap();
        found.push((path.clone(), kind.is_file().then(|| fs::read(&path).unwrap())));
        if kind.is_dir() {
            found.extend(everything(&path));
        }
    }
    found.sort();
    found
}

fn write_args(content: &str) -> Value {
    json!({ "file_path": "a.txt", "content": content })
}

fn replace_args(old: &str, new: &str) -> Value {
    json!({ "file_path": "a.txt", "instruction": "test", "old_string": old, "new_string": new })
}

/// Returns the model's report without the change itself.
fn report(said: &str) -> &str {
    said.split_once(" What changed:\n").expect("no change is shown").0
}

/// Returns the texts before and after in the diff that people are shown.
fn shown(output: &ToolOutput) -> (Option<&str>, &str) {
    match &output.shown {
        Some(ResultContent::Diff(diff)) => (diff.old.as_deref(), &diff.new),
        other => panic!("no diff: {other:?}"),
    }
}
