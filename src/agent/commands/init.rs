//! `/init`: lets the model study the project and write a memory file with the facts that it will need.

use super::registry::{Command, CommandRequest};
use crate::session::CommandReply;
use tandem_model::Part;

pub(super) const COMMAND: Command = Command {
    name: "init",
    description: "let the model study the project and write GEMINI.md, its instructions from then on",
    asks_model: true,
    run: Some(|request| {
        Box::pin(async move { Ok(CommandReply::Ask(vec![Part::Text(prompt(&request))])) })
    }),
    ..Command::BLANK_COMMAND
};

fn prompt(request: &CommandRequest<'_>) -> String {
    let root = request.turn.engine.host.workspace.roots().first();
    let file = root
        .map(|root| root.join(request.turn.engine.instructions.memory().name()))
        .unwrap_or_default();
    format!("Write `{}`{INIT_TASK}", file.display())
}

const INIT_TASK: &str = ": what a coding agent must know that begins to work in this project and has \
seen nothing of it. You will be told its content at the beginning of every later conversation.

1. Look around: list the root, read the README and what says how the project is built \
(Cargo.toml, package.json, pyproject.toml, Makefile, CI and the like), then the few files that show \
how it is laid out and written. Ten files are usually enough; do not read everything.
2. If the file is there already, read it first: keep what is right, correct what is not, add what \
is missing.
3. Write the file with write_file, in Markdown, in at most 150 lines: what the project is, in a \
few sentences; the exact commands that build it, run it, test it (all, and a single test) and \
check its style; how the code is laid out, and where what is changed; the conventions that its \
code keeps and that a newcomer would get wrong. If it is no software project, say what is in it \
and what it is for.

Write only what you have seen, nothing that is true of every project, no secrets. Then say in two \
sentences what you found.";
