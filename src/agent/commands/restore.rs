//! `/restore`: restores files to the content before the model's changes.

use super::registry::{Argument, Command, CommandRequest};
use crate::session::{CallChange, CommandReply, Selection, TurnId, prompt_text};
use tandem_content::shorten::ellipsis;

/// Maximum number of characters of a prompt that the list shows beside its turn.
const MAX_PROMPT_CHARS: usize = 60;

/// End of a reply: the changes that command lines make in files are not recorded, so they cannot be undone.
const COMMANDS_NOTE: &str = "Changes that commands made are not undone.\n";

const TURN_ARGUMENT: Argument = Argument {
    name: "n",
    description: "the turn's number, as `/restore list` has it",
    is_required: true,
};

pub(super) const COMMAND: Command = Command {
    name: "restore",
    description: "undo a call's changes of files; without CALL, list the changes",
    arguments: &[Argument {
        name: "call",
        description: "the call, as `/restore list` has it",
        is_required: false,
    }],
    sub_commands: &[
        Command {
            name: "list",
            description: "the file changes that can be undone",
            run: Some(|request| Box::pin(async move { Ok(CommandReply::Say(list(&request))) })),
            ..Command::BLANK_COMMAND
        },
        Command {
            name: "turn",
            description: "undo all changes of a turn",
            arguments: &[TURN_ARGUMENT],
            run: Some(|request| {
                Box::pin(async move {
                    let turn = turn(&request)?;
                    restore(&request, Selection::Turn(turn)).await
                })
            }),
            ..Command::BLANK_COMMAND
        },
        Command {
            name: "since",
            description: "undo all changes of a turn and of the turns after it",
            arguments: &[TURN_ARGUMENT],
            run: Some(|request| {
                Box::pin(async move {
                    let turn = turn(&request)?;
                    restore(&request, Selection::Since(turn)).await
                })
            }),
            ..Command::BLANK_COMMAND
        },
    ],
    run: Some(|request| {
        Box::pin(async move {
            match request.args {
                "" => Ok(CommandReply::Say(list(&request))),
                call => restore(&request, Selection::Call(call.to_owned())).await,
            }
        })
    }),
    ..Command::BLANK_COMMAND
};

fn list(request: &CommandRequest<'_>) -> String {
    let changes = request.turn.changes();
    let Some(last) = changes.last() else {
        return "No call has changed a file in this session.".to_owned();
    };
    let mut said = format!(
        "Files that calls have changed. `/restore CALL` undoes one change, `/restore turn {n}` all changes of \
         that turn, `/restore since {n}` all changes since that turn began. Changes that commands made are not \
         listed.\n",
        n = last.turn.0
    );
    let mut turn = None;
    for change in &changes {
        if turn != Some(change.turn) {
            turn = Some(change.turn);
            said.push_str(&format!(
                "\nTurn {}: {}\n\n",
                change.turn.0,
                one_line(&prompt_text(&change.prompt))
            ));
        }
        let file = request.turn.engine.host.workspace.relative(&change.path);
        let made = if change.made { ", made" } else { "" };
        let restored = if change.restored { ", undone" } else { "" };
        said.push_str(&format!("- `{}`: `{file}`{made}{restored}\n", change.call));
    }
    said
}

/// Returns the beginning of a prompt on one line, as inline code.
pub(super) fn one_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ").replace('`', "'");
    format!("`{}`", ellipsis(&line, MAX_PROMPT_CHARS))
}

fn turn(request: &CommandRequest<'_>) -> Result<TurnId, String> {
    let number = request.args.parse().map_err(|_| {
        format!("`{}` is not the number of a turn. `/restore list` has them.", request.args)
    })?;
    Ok(TurnId(number))
}

async fn restore(
    request: &CommandRequest<'_>,
    selection: Selection,
) -> Result<CommandReply, String> {
    let came = request.turn.restore(selection).await?;
    if came.is_empty() {
        return Err("Unknown change. `/restore list` shows all changes.".to_owned());
    }
    Ok(CommandReply::Say(outcome(request, &came)))
}

/// Describes the outcome of restoring files, with a line for each change.
pub(super) fn outcome(
    request: &CommandRequest<'_>,
    changes: &[(CallChange, Result<(), String>)],
) -> String {
    let line = |(change, result): &(CallChange, Result<(), String>)| {
        let file = request.turn.engine.host.workspace.relative(&change.path);
        match result {
            Ok(()) if change.made => {
                format!("- `{file}`, which `{}` created, is removed again\n", change.call)
            }
            Ok(()) => format!("- `{file}` is as it was before `{}`\n", change.call),
            Err(why) => format!("- `{file}` was left alone (`{}`): the file {why}\n", change.call),
        }
    };
    let said: String = changes.iter().map(line).collect();
    let any = changes.iter().any(|(_, result)| result.is_ok());
    if any { format!("{said}\n{COMMANDS_NOTE}") } else { said }
}
