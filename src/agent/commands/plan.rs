//! `/plan`: nothing but reading, until the plan is there.

use super::{Command, Reply, Request};

pub(super) const COMMAND: Command = Command {
    name: "plan",
    description: "plan first: nothing but reading is allowed, and nothing else asked about",
    arguments: &[],
    sub_commands: &[Command {
        name: "off",
        description: "go back to the mode that it was begun in",
        arguments: &[],
        sub_commands: &[],
        asks_model: false,
        run: Some(|request| Box::pin(async move { end(&request) })),
    }],
    asks_model: false,
    run: Some(|request| Box::pin(async move { begin(&request) })),
};

fn begin(request: &Request<'_>) -> Result<Reply, String> {
    if !request.turn.begin_plan()? {
        return Ok(Reply::Say("The mode is `plan` already.".to_owned()));
    }
    Ok(Reply::Say(
        "The mode is `plan` now: reading is allowed, of the web too, and all else is refused. \
         `/plan off` ends it."
            .to_owned(),
    ))
}

fn end(request: &Request<'_>) -> Result<Reply, String> {
    let mode = request.turn.end_plan()?;
    let mode = mode.ok_or("The mode is not one that `/plan` has begun.")?;
    Ok(Reply::Say(format!("The mode is `{mode}` again.")))
}
