//! The result of a call: for the model to read, and for people to see.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::diff::{self, LineDiff};
use tandem_content::media::Media;
use tandem_content::visible::visible_line;

/// Time to compare two texts while somebody waits to be shown the difference.
const SHOWING: Duration = Duration::from_millis(20);

/// First line of the report to the model if no file of several could be read.
pub const NO_FILES_READ: &str = "No files were read.";

/// Result of a call that worked.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolOutput {
    /// For the model to read.
    pub text: String,
    /// For the model to look at.
    pub media: Vec<Media>,
    /// For people; `None` when the label says it all.
    pub shown: Option<ResultContent>,
}

impl ToolOutput {
    /// Text for the model, and Markdown for people.
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
    /// The pages that an answer is from, by numbers.
    Sources(Vec<WebSource>),
    /// The answer of an MCP server.
    Server(Box<ServerAnswer>),
}

/// A page of the web that an answer is from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebSource {
    /// One line; may be empty.
    pub title: String,
    /// One line; may be empty.
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

/// Answer of an MCP server, without what the model is told around it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerAnswer {
    /// For people: Markdown, or JSON. Cut, if it is very long.
    pub text: String,
    /// For programs: `structuredContent`.
    pub structured: Option<Value>,
}

impl ServerAnswer {
    /// Returns whether the text is data rather than Markdown.
    pub fn is_json(&self) -> bool {
        self.text.starts_with(['{', '[']) && serde_json::from_str::<Value>(&self.text).is_ok()
    }
}

/// A change of one file. The log keeps it for as long as it lives, so what is the same is shared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileDiff {
    /// Absolute.
    pub path: String,
    /// The text before; `None` if the file is new.
    pub old: Option<Arc<str>>,
    /// The text after.
    pub new: Arc<str>,
}

impl FileDiff {
    /// Returns the change as `diff -u` shows it, with its file names: all of it, with hidden
    /// characters written out. Whoever shows it waits for it: of large texts it shows more lines as
    /// changed than need be.
    pub fn unified(&self) -> String {
        let path = visible_line(&self.path);
        let old = if self.old.is_some() { &path } else { "/dev/null" };
        let before = self.old.as_deref().unwrap_or_default();
        format!("--- {old}\n+++ {path}\n{}", diff::whole(SHOWING, before, &self.new))
    }

    /// Returns the whole change line by line, for a person to approve. Whoever shows it waits for
    /// it: of large texts it shows more lines as changed than need be.
    pub fn lines(&self) -> LineDiff {
        diff::lines(SHOWING, self.old.as_deref().unwrap_or_default(), &self.new)
    }
}

/// An item of the todo list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Todo {
    /// The task, in a sentence.
    pub description: String,
    /// Its progress.
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

/// Error of a call, for the model and for people.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolError {
    /// A name for programs, such as `file_not_found`.
    pub kind: String,
    /// The reason, and what to do instead.
    pub message: String,
    /// For people, where it is not the message.
    pub shown: Option<ResultContent>,
    /// Name of the rule that denies the call, if one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<Box<str>>,
    /// Status with which a command has ended, if it is the error of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<i32>,
}

impl ToolError {
    /// An error of a kind.
    pub fn new(kind: &str, message: impl Into<String>) -> Self {
        let (kind, message) = (kind.to_owned(), message.into());
        Self { kind, message, shown: None, rule: None, status: None }
    }

    /// The policy denies the call, by the rule of this name if it is one rule.
    pub fn denied(why: impl Into<String>, rule: Option<String>) -> Self {
        Self { rule: rule.map(Into::into), ..Self::new("policy_denied", why) }
    }

    /// The arguments do not fit the tool's schema.
    pub fn invalid_args(message: impl fmt::Display) -> Self {
        Self::new("invalid_tool_params", message.to_string())
    }

    /// The turn was cancelled.
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
