//! The user's external editor.

use std::io::Write as _;
use std::process::Stdio;

use anyhow::Context as _;
use tokio::process::Command;

/// The user's editor.
#[derive(Debug, Clone, Default)]
pub struct ExternalEditor {
    /// Command line of the editor; the name of the file is appended.
    pub command: String,
    /// Environment variables that the editor must not inherit: commands that the agent runs can read the editor's
    /// environment.
    pub without: Vec<String>,
}

/// Lets the user edit a text, and returns the text that the editor has saved. The terminal must have been given back.
pub(super) async fn edit(
    editor: &ExternalEditor,
    text: &str,
    suffix: &str,
) -> anyhow::Result<String> {
    let ExternalEditor { command: editor, without } = editor;
    let mut file = tempfile::Builder::new().prefix("tandem-").suffix(suffix).tempfile()?;
    file.write_all(text.as_bytes())?;
    file.flush()?;
    // A shell runs the editor, because the setting may have options. On Ctrl+C and Ctrl+\ the shell does nothing,
    // because these signals are meant for the editor.
    let mut command = Command::new("sh");
    for name in without {
        command.env_remove(name);
    }
    let status = command
        .arg("-c")
        .arg(format!("trap : INT QUIT; {editor} \"$1\""))
        .arg("sh")
        .arg(file.path())
        .stdin(Stdio::inherit())
        .stdout(Stdio::inherit())
        .stderr(Stdio::inherit())
        .status()
        .await
        .with_context(|| format!("`{editor}` cannot be started"))?;
    anyhow::ensure!(status.success(), "`{editor}` failed ({status})");
    // The file is read by its name, because many editors replace the file by a new one.
    std::fs::read_to_string(file.path()).context("the text cannot be read again")
}
