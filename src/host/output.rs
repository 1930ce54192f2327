//! Results of calls, in one form for the model and one for people.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::diff::{self, LineDiff};
use tandem_content::media::Media;
use tandem_content::visible::visible_line;

/// Maximum time to compare two texts while a person waits for the difference.
const MAX_SHOWING_TIME: Duration = Duration::from_millis(20);

/// First line of the report to the model if no file of several could be read.
pub const NO_FILES_READ: &str = "No files were read.";

/// Result of a call that worked.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolOutput {
    /// Text for the model.
    pub text: String,
    /// Images and other media for the model.
    pub media: Vec<Media>,
    /// Result for people; `None` if the label of the call says enough.
    pub shown: Option<ResultContent>,
}

impl ToolOutput {
    /// Returns a result with text for the model and Markdown for people.
    pub fn new(text: impl Into<String>, shown: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            media: Vec::new(),
            shown: Some(ResultContent::Markdown(shown.into())),
        }
    }
}

/// Result of a call, for people.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ResultContent {
    /// A sentence or a list.
    Markdown(String),
    /// A program's output: plain text.
    Output(String),
    /// A change of a file.
    Diff(Box<FileDiff>),
    /// The todo list as it is now.
    Todos(Vec<Todo>),
    /// Numbered pages that an answer is based on.
    Sources(Vec<WebSource>),
    /// The answer of an MCP server.
    Server(Box<ServerAnswer>),
}

/// A page of the web that an answer is based on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebSource {
    /// Title on one line; may be empty.
    pub title: String,
    /// Address on one line; may be empty.
    pub url: String,
}

impl WebSource {
    /// Returns a numbered list of pages, in Markdown.
    pub fn list(sources: &[Self]) -> String {
        let line = |(number, Self { title, url }): (usize, &Self)| match title.as_str() {
            "" => format!("{number}. {url}\n"),
            title => format!("{number}. [{}]({url})\n", title.replace(['[', ']'], "")),
        };
        (1..).zip(sources).map(line).collect()
    }
}

/// Answer of an MCP server, without the text that is added for the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerAnswer {
    /// Text for people: Markdown, or JSON. A very long text is cut.
    pub text: String,
    /// Data for programs: the answer's `structuredContent`.
    pub structured: Option<Value>,
}

impl ServerAnswer {
    /// Returns whether the text is data rather than Markdown.
    pub fn is_json(&self) -> bool {
        self.text.starts_with(['{', '[']) && serde_json::from_str::<Value>(&self.text).is_ok()
    }
}

/// A change of a file, with those of further files that the same call changes. The log holds it for as long as the log
/// is in memory, so equal texts are shared.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileDiff {
    /// Absolute path.
    pub path: String,
    /// The text before; `None` if the file is new.
    pub old: Option<Arc<str>>,
    /// The text after; empty if the file is removed.
    pub new: Arc<str>,
    /// `true` if the file is removed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub removes: bool,
    /// Absolute path of the file before, if the change moves the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved_from: Option<String>,
    /// Changes of further files. These have no others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<Self>,
}

impl FileDiff {
    /// Returns a change of the content of one file.
    pub fn new(path: impl Into<String>, old: Option<Arc<str>>, new: impl Into<Arc<str>>) -> Self {
        Self { path: path.into(), old, new: new.into(), ..Self::default() }
    }

    /// Returns the change of each file.
    pub fn each(&self) -> impl Iterator<Item = &Self> {
        [self].into_iter().chain(&self.others)
    }

    /// Returns whether this is a change of the content of one file, in place of which a person can put another content.
    pub fn is_editable(&self) -> bool {
        self.others.is_empty() && !self.removes && self.moved_from.is_none()
    }

    /// Returns the whole change as `diff -u` shows it, with file names and with hidden characters written out. The
    /// comparison is cut short, as a person waits for it: of large texts, more lines than necessary are shown as
    /// changed.
    pub fn unified(&self) -> String {
        self.each().map(Self::unified_alone).collect()
    }

    /// Returns the change of the file without those of the others.
    fn unified_alone(&self) -> String {
        let path = visible_line(&self.path);
        let before = visible_line(self.moved_from.as_deref().unwrap_or(&self.path));
        let old = if self.old.is_some() { &*before } else { "/dev/null" };
        let new = if self.removes { "/dev/null" } else { &*path };
        let text = self.old.as_deref().unwrap_or_default();
        format!("--- {old}\n+++ {new}\n{}", diff::whole(MAX_SHOWING_TIME, text, &self.new))
    }

    /// Returns the change of the file line by line, for a person to approve. The comparison is cut short, as a person
    /// waits for it: of large texts, more lines than necessary are shown as changed.
    pub fn lines(&self) -> LineDiff {
        diff::lines(MAX_SHOWING_TIME, self.old.as_deref().unwrap_or_default(), &self.new)
    }
}

/// An item of the todo list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Todo {
    /// The task, in a sentence.
    pub description: String,
    /// Progress of the task.
    pub status: TodoStatus,
}

/// Progress of a todo.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the tool's own names")]
pub enum TodoStatus {
    Pending,
    InProgress,
    Completed,
    Cancelled,
    Blocked,
}

/// Kind of the error for a file that does not exist.
const FILE_NOT_FOUND: &str = "file_not_found";

/// Error of a call, for the model and for people.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolError {
    /// Name of the error for programs, such as `file_not_found`.
    pub kind: String,
    /// Reason of the error, and advice to the model.
    pub message: String,
    /// Text for people, if it is not the message.
    pub shown: Option<ResultContent>,
    /// Name of the rule that denies the call, if one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<Box<str>>,
    /// Exit status of the command, if the error is that of a command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<i32>,
}

impl ToolError {
    /// Returns an error of a kind.
    pub fn new(kind: &str, message: impl Into<String>) -> Self {
        let (kind, message) = (kind.to_owned(), message.into());
        Self { kind, message, shown: None, rule: None, status: None }
    }

    /// Returns the error of a call that the policy denies. `rule`: name of the rule, if a single rule denies it.
    pub fn denied(why: impl Into<String>, rule: Option<String>) -> Self {
        Self { rule: rule.map(Into::into), ..Self::new("policy_denied", why) }
    }

    /// Returns the error of a call whose arguments do not fit the tool's schema.
    pub fn invalid_args(message: impl fmt::Display) -> Self {
        Self::new("invalid_tool_params", message.to_string())
    }

    /// Returns the error for a file that does not exist.
    pub fn file_not_found(message: impl Into<String>) -> Self {
        Self::new(FILE_NOT_FOUND, message)
    }

    /// Returns `true` if the error is that a file does not exist.
    pub fn is_file_not_found(&self) -> bool {
        self.kind == FILE_NOT_FOUND
    }

    /// Returns the error of a call whose turn was cancelled.
    pub fn cancelled() -> Self {
        Self::new("cancelled", "The user cancelled this call.")
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ToolError {}
