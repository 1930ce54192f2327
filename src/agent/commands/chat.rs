//! `/chat`: checkpoints of the conversation, under tags.

use std::path::{Path, PathBuf};

use super::export::{FILE_ARGUMENT, export};
use super::registry::{Argument, Command, CommandRequest};
use crate::session::{CommandReply, Listed};
use crate::sessions::{CheckpointError, checkpoints, fork_ended};

/// Maximum number of characters of a tag.
const LONGEST_TAG: usize = 100;

const TAG_ARGUMENT: Argument =
    Argument { name: "tag", description: "the checkpoint's tag", is_required: true };

pub(super) const COMMAND: Command = Command {
    name: "chat",
    description: "checkpoints of this conversation, to come back to",
    sub_commands: &[
        Command {
            name: "save",
            description: "save the conversation so far under a tag",
            arguments: &[TAG_ARGUMENT],
            run: Some(|request| Box::pin(save(request, false))),
            ..Command::BLANK_COMMAND
        },
        Command {
            name: "overwrite",
            description: "save the conversation so far in place of the checkpoint with this tag",
            arguments: &[TAG_ARGUMENT],
            run: Some(|request| Box::pin(save(request, true))),
            ..Command::BLANK_COMMAND
        },
        Command {
            name: "resume",
            description: "go on from a checkpoint, which stays as it is",
            arguments: &[TAG_ARGUMENT],
            run: Some(|request| Box::pin(resume(request))),
            ..Command::BLANK_COMMAND
        },
        Command {
            name: "list",
            description: "the checkpoints of this directory",
            run: Some(|request| Box::pin(list(request))),
            ..Command::BLANK_COMMAND
        },
        Command {
            name: "delete",
            description: "delete a checkpoint",
            arguments: &[TAG_ARGUMENT],
            run: Some(|request| Box::pin(delete(request))),
            ..Command::BLANK_COMMAND
        },
        Command {
            name: "share",
            description: "the same as /export",
            arguments: &[FILE_ARGUMENT],
            run: Some(|request| Box::pin(export(request))),
            ..Command::BLANK_COMMAND
        },
    ],
    ..Command::BLANK_COMMAND
};

/// Lists the checkpoints of the directory that this session may know, the newest first. A session that a client of the
/// A2A server began knows only the checkpoints of such sessions.
async fn visible_checkpoints(request: &CommandRequest<'_>) -> Result<Vec<Listed>, String> {
    let mut known = all(request).await?;
    known.retain(|listed| listed.head.served || !request.turn.is_served());
    Ok(known)
}

async fn all(request: &CommandRequest<'_>) -> Result<Vec<Listed>, String> {
    let directory =
        request.turn.engine.host.workspace.roots().first().map_or(Path::new(""), PathBuf::as_path);
    let listed = checkpoints(&**request.turn.engine.store()?, directory).await;
    let mut listed = listed
        .map_err(|error| format!("The checkpoints cannot be read: {}.", error.for_clients()))?;
    // An owner sees only checkpoints of their own, and has tags of their own, although other owners may use the same
    // directory.
    let owner = request.turn.access().owner;
    listed.retain(|listed| listed.head.owner == owner);
    Ok(listed)
}

fn is_tagged(listed: &Listed, tag: &str) -> bool {
    listed.head.tag.as_deref() == Some(tag)
}

/// Returns the tag that a person has typed.
fn typed_tag(args: &str) -> Result<&str, String> {
    if args.chars().any(char::is_control) || args.chars().count() > LONGEST_TAG {
        return Err(format!("A tag is one line of at most {LONGEST_TAG} characters."));
    }
    Ok(args)
}

async fn save(request: CommandRequest<'_>, overwrites: bool) -> Result<CommandReply, String> {
    let tag = typed_tag(request.args)?;
    let not_saved = |why: String| format!("Not saved: {why}.");
    let store = request.turn.engine.wait_stored().await.map_err(not_saved)?;
    let mut same = all(&request).await?;
    same.retain(|listed| is_tagged(listed, tag));
    let may_overwrite = same.iter().all(|listed| listed.head.served || !request.turn.is_served());
    match same.first() {
        Some(_) if !may_overwrite => {
            return Err(not_saved(format!(
                "another checkpoint has the tag `{tag}`; choose another tag"
            )));
        }
        Some(old) if !overwrites => {
            let old = described(old);
            return Err(format!(
                "Not saved: a checkpoint has the tag `{tag}` already ({old}). `/chat overwrite {tag}` replaces \
                 that checkpoint."
            ));
        }
        _ => {}
    }
    let saved = fork_ended(&**store, request.turn.id(), Some(tag.to_owned())).await;
    saved.map_err(|error| not_saved(error.to_string()))?;
    // The old checkpoints are deleted last, so that at any time there is one with the tag.
    for old in &same {
        let deleted = store.delete(&old.head.id).await;
        deleted.map_err(|error| {
            format!(
                "The conversation is saved, but the old checkpoint `{tag}` could not be deleted: {}.",
                error.for_clients()
            )
        })?;
    }
    Ok(CommandReply::Say(format!(
        "The conversation is saved as `{tag}`. `/chat resume {tag}` goes on from here."
    )))
}

/// Explains how to go on from a checkpoint: a session cannot switch to another session. The terminal's front end
/// resumes a checkpoint by itself, and does not call this.
async fn resume(request: CommandRequest<'_>) -> Result<CommandReply, String> {
    let tagged = tagged(&request).await?;
    let id = tagged.first().map(|listed| listed.head.id.as_str()).unwrap_or_default();
    Ok(CommandReply::Say(format!(
        "`tandem -r {id}` in a terminal goes on from a copy of the checkpoint `{}`. This conversation stays as \
         it is.",
        request.args
    )))
}

/// Lists the checkpoints with the tag in the arguments: at least one.
async fn tagged(request: &CommandRequest<'_>) -> Result<Vec<Listed>, String> {
    let mut known = visible_checkpoints(request).await?;
    known.retain(|listed| is_tagged(listed, request.args));
    if known.is_empty() {
        return Err(CheckpointError::Unknown(request.args.to_owned()).to_string());
    }
    Ok(known)
}

async fn list(request: CommandRequest<'_>) -> Result<CommandReply, String> {
    let known = visible_checkpoints(&request).await?;
    if known.is_empty() {
        let none = "There is no checkpoint of this directory. `/chat save TAG` makes one.";
        return Ok(CommandReply::Say(none.to_owned()));
    }
    let line = |listed: &Listed| {
        let tag = listed.head.tag.as_deref().unwrap_or_default();
        format!("- `{tag}`: {}\n", described(listed))
    };
    let lines: String = known.iter().map(line).collect();
    Ok(CommandReply::Say(format!("{lines}\n`/chat resume TAG` goes on from one of them.")))
}

/// Describes a checkpoint by its title and its number of turns.
fn described(listed: &Listed) -> String {
    let turns = if listed.turns == 1 { "turn" } else { "turns" };
    format!("{} {turns}, {}", listed.turns, listed.title.trim().replace('`', "'"))
}

async fn delete(request: CommandRequest<'_>) -> Result<CommandReply, String> {
    let tag = request.args;
    let store = request.turn.engine.store()?;
    for listed in tagged(&request).await? {
        let deleted = store.delete(&listed.head.id).await;
        deleted.map_err(|error| {
            format!("The checkpoint `{tag}` is not deleted: {}.", error.for_clients())
        })?;
    }
    Ok(CommandReply::Say(format!("The checkpoint `{tag}` is deleted.")))
}
