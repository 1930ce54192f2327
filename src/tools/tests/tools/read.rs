//! The tools that read, list and search, called as a session calls them.

mod file;
mod find;
mod grep;
mod grep_odd;
mod list;
mod many;
mod secret;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::Poll;
use std::{fmt, fs};

use serde_json::{Value, json};
use tandem_host::workspace::Workspace;
use tandem_host::{
    Access, ResultContent, Summary, Tool, ToolContext, ToolError, ToolLimits, ToolOutput,
};
use tandem_tools::all;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use test_support::host::context;

/// A workspace with some files in it.
struct Project {
    dir: TempDir,
    more: Vec<PathBuf>,
    limits: ToolLimits,
    cancel: CancellationToken,
}

impl Project {
    fn new(files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("work")).unwrap();
        let (limits, cancel) = (ToolLimits::default(), CancellationToken::new());
        let project = Self { dir, more: Vec::new(), limits, cancel };
        for (name, text) in files {
            project.write(name, text);
        }
        project
    }

    fn root(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join("work")
    }

    /// Returns a path beside the workspace.
    fn outside(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join("outside")
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.root().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    fn link(&self, name: &str, target: impl AsRef<Path>) {
        std::os::unix::fs::symlink(target, self.root().join(name)).unwrap();
    }

    fn fifo(&self, name: &str) {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        mknodat(CWD, self.root().join(name), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    }

    /// Makes a file without read permission. Returns `false` if the file can be read nevertheless, because root runs
    /// the test.
    fn unreadable(&self, name: &str) -> bool {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.write(name, "secret\n");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
        fs::read(&path).is_err()
    }

    fn context(&self) -> ToolContext {
        let workspace = Workspace::new(&self.root(), &self.more).unwrap();
        ToolContext { cancel: self.cancel.clone(), ..context(workspace, self.limits.clone()) }
    }

    /// Prepares a call and runs it, unless a person has to be asked first.
    fn call(&self, tool: &str, args: Value) -> Called {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let cx = self.context();
        runtime.block_on(async {
            match tool_named(tool).prepare(args, &cx).await {
                Ok(invocation) => {
                    assert!(matches!(
                        invocation.access,
                        Access::Read | Access::ReadFiles { .. } | Access::Nothing
                    ));
                    let summary = Some(invocation.summary.clone());
                    let result = match asked_about(&invocation.access) {
                        Some(asked) => Err(asked),
                        None => invocation.run(cx, None).await,
                    };
                    Called { summary, result }
                }
                Err(error) => Called { summary: None, result: Err(error) },
            }
        })
    }

    /// Returns a call as people and the model see it.
    fn see(&self, tool: &str, args: Value) -> String {
        self.name_places(&self.call(tool, args).to_string())
    }

    /// Checks that several calls give the same result, and returns the result.
    #[track_caller]
    fn see_same(&self, tool: &str, all: &[Value]) -> String {
        let first = self.see(tool, all[0].clone());
        for args in all {
            assert_eq!(self.see(tool, args.clone()), first, "{args}");
        }
        first
    }

    /// Checks the error of a call.
    #[track_caller]
    fn check_error(&self, tool: &str, args: Value, expected: &str) {
        let error = self.call(tool, args).result.unwrap_err();
        assert_eq!(self.name_places(&format!("{}: {error}", error.kind)), expected);
    }

    fn name_places(&self, text: &str) -> String {
        let named = [
            (self.root(), "$ROOT"),
            (self.outside(), "$OUTSIDE"),
            (self.dir.path().canonicalize().unwrap(), "$ABOVE"),
        ];
        named.iter().fold(text.to_owned(), |text, (path, name)| {
            text.replace(&path.display().to_string(), name)
        })
    }
}

/// A call's summary and result.
struct Called {
    summary: Option<Summary>,
    result: Result<ToolOutput, ToolError>,
}

impl Called {
    fn text(self) -> String {
        self.result.unwrap().text
    }

    /// Returns the text for the model, also of a failed call.
    fn told(self) -> String {
        self.result.map_or_else(|error| format!("{}:\n{error}", error.kind), |output| output.text)
    }

    fn shown(&self) -> Option<&str> {
        match &self.result.as_ref().unwrap().shown {
            Some(ResultContent::Markdown(shown)) => Some(shown),
            Some(shown) => panic!("{shown:?}"),
            None => None,
        }
    }
}

/// Returns an error that names the files outside of the workspace about which a person is asked, if there are any.
fn asked_about(access: &Access) -> Option<ToolError> {
    let Access::ReadFiles { outside, .. } = access else { return None };
    let paths: Vec<_> = outside.iter().map(|file| file.path.display().to_string()).collect();
    (!paths.is_empty()).then(|| ToolError::new("asked", paths.join(", ")))
}

impl fmt::Display for Called {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(summary) = &self.summary {
            writeln!(f, "label: {}", summary.label)?;
            for place in &summary.locations {
                let line = place.line.map(|line| format!(":{line}")).unwrap_or_default();
                writeln!(f, "at: {}{line}", place.path)?;
            }
        }
        match &self.result {
            Err(error) => write!(f, "{}: {}", error.kind, error.message),
            Ok(output) => {
                if let Some(shown) = self.shown() {
                    writeln!(f, "shown: {shown}")?;
                }
                for media in &output.media {
                    writeln!(f, "media: {} {}", media.mime_type, media.data)?;
                }
                write!(f, "---\n{}", output.text)
            }
        }
    }
}

fn tool_named(name: &str) -> Arc<dyn Tool> {
    let is_named = |tool: &Arc<dyn Tool>| {
        let spec = tool.spec();
        spec.name == name || spec.aliases.contains(&name)
    };
    all().into_iter().find(is_named).unwrap()
}

#[test]
fn every_parameter_is_described() {
    for tool in all() {
        let spec = tool.spec();
        assert_eq!(spec.parameters["type"], "object", "{}", spec.name);
        let properties = spec.parameters["properties"].as_object().unwrap();
        for (name, property) in properties {
            assert!(property["type"].is_string(), "{} {name}", spec.name);
            assert!(property["description"].is_string(), "{} {name}", spec.name);
        }
        let required = spec.parameters.get("required").map(|names| names.as_array().unwrap());
        // An empty list says nothing, and costs tokens.
        assert!(required.is_none_or(|names| !names.is_empty()), "{}", spec.name);
        for required in required.into_iter().flatten() {
            assert!(properties.contains_key(required.as_str().unwrap()), "{}", spec.name);
        }
    }
}

#[test]
fn a_cancelled_call_ends_at_once() {
    let project = Project::new(&[("a.txt", "a\n")]);
    project.cancel.cancel();
    let check = |tool, args| {
        let called = project.call(tool, args);
        assert_eq!(called.result.unwrap_err(), ToolError::cancelled(), "{tool}");
    };
    check("read_file", json!({ "file_path": "a.txt" }));
    check("read_many_files", json!({ "include": ["**"] }));
    check("list_directory", json!({ "dir_path": "." }));
    check("glob", json!({ "pattern": "**" }));
    check("grep_search", json!({ "pattern": "a" }));
}

#[test]
fn a_call_that_is_cancelled_in_the_middle_ends_at_once() {
    let project = Project::new(&[]);
    for n in 0..2000 {
        project.write(&format!("{}/{n}.txt", n % 50), "some text\n".repeat(50));
    }
    let check = |tool: &str, args| {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let cancel = CancellationToken::new();
            let cx = ToolContext { cancel: cancel.clone(), ..project.context() };
            let tool = tool_named(tool);
            let mut prepare = tool.prepare(args, &cx);
            assert!(futures::poll!(&mut prepare).is_pending());
            cancel.cancel();
            match futures::poll!(&mut prepare) {
                Poll::Ready(Err(error)) => assert_eq!(error, ToolError::cancelled()),
                _ => panic!("it goes on"),
            }
        });
    };
    check("grep_search", json!({ "pattern": "nowhere" }));
    check("read_many_files", json!({ "include": ["**"] }));
}
