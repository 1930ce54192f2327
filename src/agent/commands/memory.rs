//! `/memory`: the memory files, in which people write instructions for the model.

use super::registry::{Argument, Command, CommandRequest};
use crate::session::{CommandReply, MemoryFile};

pub(super) const COMMAND: Command = Command {
    name: "memory",
    description: "the memory files: GEMINI.md and AGENTS.md, with instructions for the model",
    sub_commands: &[
        Command {
            name: "show",
            description: "the content that the model is told",
            run: Some(|request| {
                Box::pin(async move { Ok(CommandReply::Say(show(&request.turn.memory().await))) })
            }),
            ..Command::BLANK_COMMAND
        },
        Command {
            name: "list",
            description: "the paths of the memory files",
            run: Some(|request| {
                Box::pin(async move { Ok(CommandReply::Say(list(&request.turn.memory().await))) })
            }),
            ..Command::BLANK_COMMAND
        },
        Command {
            name: "add",
            description: "add a line to your own memory file, for every project",
            arguments: &[Argument {
                name: "text",
                description: "the text to remember",
                is_required: true,
            }],
            run: Some(|request| Box::pin(add(request))),
            ..Command::BLANK_COMMAND
        },
        Command {
            name: "refresh",
            description: "reload the memory files",
            run: Some(|request| {
                Box::pin(async move {
                    Ok(CommandReply::Say(list(&request.turn.refresh_memory().await)))
                })
            }),
            ..Command::BLANK_COMMAND
        },
    ],
    ..Command::BLANK_COMMAND
};

const NO_MEMORY_FILES: &str = "No memory files were found: neither you nor the project has a GEMINI.md or \
    AGENTS.md. `/init` writes one for the project, `/memory add` one for you.";

fn show(files: &[MemoryFile]) -> String {
    if files.is_empty() {
        return NO_MEMORY_FILES.to_owned();
    }
    let part = |file: &MemoryFile| {
        let path = file.path.display();
        match &file.content {
            Ok(text) => format!("**{path}**\n\n{text}"),
            Err(why) => format!("**{path}** is not sent to the model: {why}"),
        }
    };
    files.iter().map(part).collect::<Vec<_>>().join("\n\n---\n\n")
}

fn list(files: &[MemoryFile]) -> String {
    if files.is_empty() {
        return NO_MEMORY_FILES.to_owned();
    }
    let line = |file: &MemoryFile| {
        let path = file.path.display();
        match &file.content {
            Ok(text) => format!("- `{path}`: {} characters\n", text.chars().count()),
            Err(why) => format!("- `{path}`: not sent to the model: {why}\n"),
        }
    };
    format!(
        "The model is told the contents of these files:\n\n{}",
        files.iter().map(line).collect::<String>()
    )
}

async fn add(request: CommandRequest<'_>) -> Result<CommandReply, String> {
    if request.args.trim_matches(['-', ' ']).is_empty() {
        return Err(
            "Nothing was added: the text is empty. Write it after the command: `/memory add TEXT`."
                .to_owned(),
        );
    }
    let file = request.turn.remember(request.args).await;
    let file = file.map_err(|why| format!("Nothing was added: {why}"))?;
    Ok(CommandReply::Say(format!(
        "The text is added to `{}`. The model reads the file again with your next prompt.",
        file.display()
    )))
}
