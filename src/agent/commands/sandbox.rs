//! `/sandbox`: describes the sandbox in which commands run.

use super::registry::{Command, CommandRequest};
use crate::session::CommandReply;

pub(super) const COMMAND: Command = Command {
    name: "sandbox",
    description: "what commands can do in the sandbox, or how to switch the sandbox on",
    run: Some(|request| Box::pin(async move { show(&request).await.map(CommandReply::Say) })),
    ..Command::BLANK_COMMAND
};

const SANDBOX_OFF: &str = "Commands run without a sandbox, as the settings have it. To switch it on, start \
    tandem with `--sandbox`, or set `tools.sandbox` to `true`. `tandem sandbox` in a shell shows what commands \
    could do in it here.";

const GIVEN_WAY: &str = "Commands run in the editor's terminals, as `acp.clientTerminals` has it, and so without \
    a sandbox. To run commands in a sandbox instead, set `tools.sandbox` to `true`, or start tandem with \
    `--sandbox`.";

async fn show(request: &CommandRequest<'_>) -> Result<String, String> {
    let turn = request.turn;
    let Some(sandbox) = turn.engine.host.sandbox.as_ref() else {
        return Ok(SANDBOX_OFF.to_owned());
    };
    if turn.engine.host.sandbox_has_given_way() {
        return Ok(GIVEN_WAY.to_owned());
    }
    let mode = turn.engine.approvals.permissions.sandbox_mode(sandbox.mode());
    let held = sandbox.describe(mode).await.map_err(|error| error.message)?;
    let lines = held.lines().map(|line| format!("    {line}\n"));
    let held: String = lines.collect();
    let because = match sandbox.mode() {
        Some(_) => "as the settings have it".to_owned(),
        None => format!("as the approval mode `{}` has it", turn.engine.modes.current()),
    };
    let probe = sandbox.probe().await;
    let state = if let Some(why) = sandbox.refusal(&probe) {
        format!("Commands are refused: {why}.")
    } else if probe.sandbox.is_some() {
        format!("The sandbox mode of commands is `{mode}`, {because}.")
    } else {
        "No sandbox works here.".to_owned()
    };
    Ok(format!("{state}\n\n{held}"))
}
