//! A text in the user's own editor.

use std::io::Write as _;
use std::process::Stdio;

use anyhow::Context as _;
use tokio::process::Command;

/// The user's editor.
#[derive(Debug, Clone, Default)]
pub struct ExternalEditor {
    /// The command line that edits the file whose name follows.
    pub command: String,
    /// The environment variables that it is not given: commands can read its environment.
    pub without: Vec<String>,
}

/// The text as the editor leaves it. The terminal must have been given back.
pub(super) async fn edit(
    editor: &ExternalEditor,
    text: &str,
    suffix: &str,
) -> anyhow::Result<String> {
    let ExternalEditor { command: editor, without } = editor;
    let mut file = tempfile::Builder::new().prefix("tandem-").suffix(suffix).tempfile()?;
    file.write_all(text.as_bytes())?;
    file.flush()?;
    // An editor may be a command line with options of its own. The signals of the terminal are for
    // it, not for the shell.
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
    // Many editors write a new file in the place of the old one.
    std::fs::read_to_string(file.path()).context("the text cannot be read again")
}
