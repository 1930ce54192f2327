//! `/export`: writes the conversation into a document.

use std::io::{ErrorKind, Write as _};
use std::path::Path;

use super::registry::{Argument, Command, CommandRequest};
use crate::session::{CommandReply, Reader};
use crate::sessions::{Conversation, conversation_of, to_html, to_markdown, to_text};
use tandem_content::blocking::try_blocking;
use tandem_host::disk::Disk;

pub(super) const FILE_ARGUMENT: Argument =
    Argument { name: "file", description: "the file, in the workspace", is_required: true };

pub(super) const COMMAND: Command = Command {
    name: "export",
    description: "write the conversation into a new file: .md, .html or .txt",
    arguments: &[FILE_ARGUMENT],
    run: Some(|request| Box::pin(export(request))),
    ..Command::BLANK_COMMAND
};

pub(super) async fn export(request: CommandRequest<'_>) -> Result<CommandReply, String> {
    let write = match Path::new(request.args).extension().and_then(|it| it.to_str()) {
        Some("md") => to_markdown,
        Some("html") => to_html,
        Some("txt") => to_text,
        _ => {
            return Err(format!(
                "Not written: the file's name `{}` must end in .md, .html or .txt. `tandem sessions export` \
                 writes the log itself.",
                request.args
            ));
        }
    };
    let turn = request.turn;
    let not_written = |why: String| format!("Not written: {why}");
    let path = turn.resolve(request.args).await.map_err(not_written)?;
    let (log, name, disk) =
        (turn.events(), turn.engine.host.workspace.relative(&path), turn.engine.host.disk.clone());
    try_blocking(move || write_document(log, write, &disk, &path)).await.map_err(not_written)?;
    Ok(CommandReply::Say(format!("The conversation is written into `{name}`.")))
}

/// Writes a conversation into a new file that only its owner may read.
fn write_document(
    mut log: Reader,
    write: fn(&Conversation) -> String,
    disk: &Disk,
    path: &Path,
) -> Result<(), String> {
    let conversation = conversation_of(&mut log);
    if conversation.passages.is_empty() {
        return Err("nothing has been said yet.".to_owned());
    }
    let text = write(&conversation);
    let written = disk.create_private(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|err| match err.kind() {
        ErrorKind::AlreadyExists => {
            "the file exists already; delete the file, or name another one.".to_owned()
        }
        _ => format!("{err}."),
    })
}
