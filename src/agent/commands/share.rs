//! `/share` and `/unshare`: other people and services who may use the session, at a server that authenticates its
//! clients.

use super::registry::{Argument, Command, CommandRequest, SHARE_NAME, UNSHARE_NAME};
use super::words::{list, word};
use crate::session::{CommandReply, PrincipalId, ShareRole};

pub(super) const SHARE_COMMAND: Command = Command {
    name: SHARE_NAME,
    description: "share the session with a person or service of your tenant, or show with whom it is shared",
    arguments: &[
        Argument { name: "name", description: "the person or service", is_required: false },
        Argument {
            name: "role",
            description: "watch (the default), answer or drive",
            is_required: false,
        },
    ],
    run: Some(|request| Box::pin(async move { share(&request).map(CommandReply::Say) })),
    ..Command::BLANK_COMMAND
};

pub(super) const UNSHARE_COMMAND: Command = Command {
    name: UNSHARE_NAME,
    description: "end the sharing of the session with a person or service",
    arguments: &[Argument {
        name: "name",
        description: "the person or service",
        is_required: true,
    }],
    run: Some(|request| Box::pin(async move { unshare(&request).map(CommandReply::Say) })),
    ..Command::BLANK_COMMAND
};

/// Returns the rights of a role, in words.
fn rights(role: ShareRole) -> &'static str {
    match role {
        ShareRole::Watch => "may watch",
        ShareRole::Answer => "may watch, and answer what is asked",
        ShareRole::Drive => "may watch, answer, send prompts and cancel",
    }
}

fn share(request: &CommandRequest<'_>) -> Result<String, String> {
    let owner = owner(request)?;
    let (name, rest) = word(request.args);
    if name.is_empty() {
        return Ok(described(request, &owner));
    }
    let role = match rest.trim() {
        "" => ShareRole::Watch,
        role => role.parse().map_err(|why| format!("Not shared: {why}."))?,
    };
    if !PrincipalId::is_name(name) {
        return Err(format!("Not shared: `{}` is not a name.", name.replace('`', "'")));
    }
    if name == owner.name {
        return Err(format!("Not shared: `{name}` owns the session."));
    }
    request.turn.share(name, role);
    let (tenant, id) = (&owner.tenant, request.turn.id());
    Ok(format!(
        "`{name}` of the tenant `{tenant}` {}. The session's id is `{id}`; `/unshare {name}` ends the sharing.",
        rights(role)
    ))
}

fn unshare(request: &CommandRequest<'_>) -> Result<String, String> {
    owner(request)?;
    let name = request.args.trim();
    if request.turn.unshare(name) {
        return Ok(format!("The session is not shared with `{name}` any more."));
    }
    Err(format!("The session is not shared with `{}`.", name.replace('`', "'")))
}

/// Returns the owner of the session, if the sender of the prompt may change with whom the session is shared.
fn owner(request: &CommandRequest<'_>) -> Result<PrincipalId, String> {
    let turn = request.turn;
    let owner = turn.access().owner.ok_or(
        "This session cannot be shared: it belongs to the user of this machine. Only sessions of people and \
         services with a token of `tandem serve` can be shared.",
    )?;
    // The operator of the server may do everything. The operator's prompts have no principal.
    if turn.origin().principal().is_some_and(|principal| *principal != owner) {
        return Err(format!("Only `{owner}`, the owner of the session, can share it."));
    }
    Ok(owner)
}

fn described(request: &CommandRequest<'_>, owner: &PrincipalId) -> String {
    let shares = request.turn.access().shares;
    if shares.is_empty() {
        return format!("The session of `{owner}` is shared with nobody.");
    }
    let shares = shares.iter().map(|(name, role)| format!("`{name}` ({role})"));
    format!("The session of `{owner}` is shared with {}.", list(shares))
}
