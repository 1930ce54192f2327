//! `/rewind`: takes the conversation back to before an earlier prompt, and the files, too, if wanted.

use super::registry::{Argument, Command, CommandRequest};
use super::restore::{one_line, outcome};
use crate::session::{CommandReply, EarlierPrompt, Selection, explain_age, now};

const NUMBER_ARGUMENT: Argument = Argument {
    name: "n",
    description: "the prompt's number, as `/rewind list` has it",
    is_required: true,
};

pub(super) const COMMAND: Command = Command {
    name: "rewind",
    description: "go back to before prompt N, with the files as they were then; without N, list the prompts",
    arguments: &[Argument { is_required: false, ..NUMBER_ARGUMENT }],
    sub_commands: &[
        Command {
            name: "list",
            description: "the prompts that the conversation can go back to",
            run: Some(|request| Box::pin(async move { list(&request).await })),
            ..Command::BLANK_COMMAND
        },
        Command {
            name: "conversation",
            description: "go back to before prompt N, and leave the files as they are",
            arguments: &[NUMBER_ARGUMENT],
            run: Some(|request| {
                Box::pin(async move {
                    let prompt = prompt(&request).await?;
                    request.turn.rewind(&prompt).await?;
                    Ok(CommandReply::Say(gone_back(&prompt)))
                })
            }),
            ..Command::BLANK_COMMAND
        },
    ],
    run: Some(|request| {
        Box::pin(async move {
            match request.args {
                "" => list(&request).await,
                _ => with_files(&request).await,
            }
        })
    }),
    ..Command::BLANK_COMMAND
};

async fn list(request: &CommandRequest<'_>) -> Result<CommandReply, String> {
    let prompts = request.turn.earlier_prompts().await?;
    if prompts.is_empty() {
        return Ok(CommandReply::Say("There is no prompt to go back to.".to_owned()));
    }
    let now = now();
    let line = |prompt: &EarlierPrompt| {
        let changed = match prompt.changed_files {
            0 => String::new(),
            1 => ", 1 file changed since".to_owned(),
            files => format!(", {files} files changed since"),
        };
        let (number, text) = (prompt.turn.0, one_line(&prompt.text));
        format!("- {number}: {text} ({}{changed})\n", explain_age(now, prompt.at))
    };
    let lines: String = prompts.iter().map(line).collect();
    Ok(CommandReply::Say(format!(
        "Prompts that the conversation can go back to. `/rewind N` goes back to before prompt N, with the files \
         as they were then. `/rewind conversation N` leaves the files as they are; `/restore since N` leaves the \
         conversation as it is.\n\n{lines}"
    )))
}

/// Returns the prompt with the number in the arguments.
async fn prompt(request: &CommandRequest<'_>) -> Result<EarlierPrompt, String> {
    let wanted = request.args;
    let mut prompts = request.turn.earlier_prompts().await?.into_iter();
    let found = prompts.find(|prompt| prompt.turn.0.to_string() == wanted);
    found.ok_or_else(|| {
        format!(
            "`{}` is not the number of a prompt to go back to. `/rewind list` has them.",
            wanted.replace('`', "'")
        )
    })
}

/// Restores the files, and then rewinds the conversation. If the command is cut off in between, the model still has
/// the conversation, and is told which files were restored.
async fn with_files(request: &CommandRequest<'_>) -> Result<CommandReply, String> {
    let prompt = prompt(request).await?;
    let mut changes = request.turn.restore(Selection::Since(prompt.turn)).await?;
    request.turn.rewind(&prompt).await?;
    changes.retain(|(change, _)| !change.restored);
    let files = outcome(request, &changes);
    let gone_back = gone_back(&prompt);
    Ok(CommandReply::Say(if files.is_empty() {
        gone_back
    } else {
        format!("{gone_back}\n\n{files}")
    }))
}

fn gone_back(prompt: &EarlierPrompt) -> String {
    format!("Went back to before prompt {}: {}", prompt.turn.0, one_line(&prompt.text))
}
