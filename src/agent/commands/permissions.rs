//! `/permissions`: the approval mode, "always" answers, and rules.

use std::fmt::Write as _;
use std::sync::Arc;

use super::registry::{Argument, Command, CommandRequest};
use crate::session::CommandReply;
use tandem_approval::consent::{ConsentError, ConsentStatus, Review};
use tandem_approval::{Permissions, Saved, Scope};
use tandem_content::blocking::{blocking, try_blocking};

const YES_ARGUMENT: Argument =
    Argument { name: "yes or no", description: "yes (the default), or no", is_required: false };

pub(super) const COMMAND: Command = Command {
    name: "permissions",
    description: "calls that need no question: \"always\" answers, rules, this folder",
    sub_commands: &[
        Command {
            name: "list",
            description: "list the calls that need no question",
            run: Some(|request| Box::pin(list(request))),
            ..Command::BLANK_COMMAND
        },
        Command {
            name: "remove",
            description: "remove an \"always\" answer",
            arguments: &[Argument {
                name: "number",
                description: "its number in the list",
                is_required: true,
            }],
            run: Some(|request| Box::pin(remove(request))),
            ..Command::BLANK_COMMAND
        },
        Command {
            name: "trust",
            description: "trust or distrust the programs that this folder's settings name",
            arguments: &[YES_ARGUMENT],
            run: Some(|request| Box::pin(trust(request))),
            ..Command::BLANK_COMMAND
        },
        Command {
            name: "reload",
            description: "reload the rule files",
            run: Some(|request| Box::pin(reload(request))),
            ..Command::BLANK_COMMAND
        },
    ],
    run: Some(|request| Box::pin(list(request))),
    ..Command::BLANK_COMMAND
};

/// An "always" answer.
enum AlwaysAnswer {
    Session(Scope),
    Saved(Saved),
}

/// Returns all "always" answers, in the order of their numbers.
fn answered(permissions: &Permissions) -> Vec<AlwaysAnswer> {
    let session = permissions.allowed().into_iter().map(AlwaysAnswer::Session);
    let saved = permissions.loaded().saved.clone().into_iter().map(AlwaysAnswer::Saved);
    session.chain(saved).collect()
}

async fn list(request: CommandRequest<'_>) -> Result<CommandReply, String> {
    let consent = &request.turn.engine.approvals.consent;
    let Review { executables, status } = consent.review().await;
    let permissions = Arc::clone(&request.turn.engine.approvals.permissions);
    let mut text = blocking(move || written(&permissions)).await?;
    if !executables.is_empty() {
        let may = match status {
            ConsentStatus::Given => "are trusted",
            ConsentStatus::Refused => {
                "are not trusted, and not used (`/permissions trust` trusts them)"
            }
            ConsentStatus::Pending => "are not used until you trust them (`/permissions trust`)",
        };
        let _ =
            write!(text, "\n**Programs and servers that this folder's settings name** {may}:\n\n");
        for executable in executables {
            let _ = writeln!(text, "- {executable}");
        }
    }
    Ok(CommandReply::Say(text))
}

fn written(permissions: &Permissions) -> String {
    let mut text = format!("The approval mode is `{}`.\n", permissions.mode());
    let answered = answered(permissions);
    if answered.is_empty() {
        text.push_str("\nNo question was answered with \"always\".\n");
    } else {
        text.push_str("\n**Always** (`/permissions remove N` removes one):\n\n");
    }
    for (at, answer) in answered.iter().enumerate() {
        let _ = match answer {
            AlwaysAnswer::Session(scope) => {
                writeln!(text, "{}. {scope}, until the session ends", at + 1)
            }
            AlwaysAnswer::Saved(Saved { scope, folder, mode }) => {
                let folder = folder.display();
                writeln!(text, "{}. {scope}, in {folder}, from the mode `{mode}` on", at + 1)
            }
        };
    }
    let loaded = permissions.loaded();
    let rules = loaded.policy.rules();
    if !rules.is_empty() {
        text.push_str("\n**Rules**, the highest priority first:\n\n");
    }
    for rule in rules {
        let _ = writeln!(text, "- {} ({})", rule.text, rule.name);
    }
    let broken = loaded.policy.broken();
    if !broken.is_empty() {
        text.push_str("\n**Rules that cannot be used**:\n\n");
    }
    for broken in broken {
        let _ = writeln!(text, "- {}", broken.text);
    }
    text
}

async fn remove(request: CommandRequest<'_>) -> Result<CommandReply, String> {
    let number: usize = request.args.parse().map_err(|_| {
        format!("`{}` is not a number. `/permissions` shows the numbers.", request.args)
    })?;
    let permissions = Arc::clone(&request.turn.engine.approvals.permissions);
    let removed = try_blocking(move || {
        let at = number.checked_sub(1);
        let answer = at.and_then(|at| answered(&permissions).into_iter().nth(at));
        let answer = answer.ok_or(format!(
            "No \"always\" answer has the number {number}. `/permissions` shows the numbers."
        ))?;
        if let AlwaysAnswer::Saved(saved) = &answer {
            permissions
                .unsave(saved)
                .map_err(|why| format!("The \"always\" answer was not removed: {why}."))?;
        }
        Ok::<_, String>(answer)
    });
    let scope = match removed.await? {
        AlwaysAnswer::Session(scope) => {
            request.turn.engine.approvals.remove_always(scope.clone());
            scope
        }
        AlwaysAnswer::Saved(saved) => saved.scope,
    };
    Ok(CommandReply::Say(format!("This \"always\" answer no longer counts: {scope}.")))
}

async fn trust(request: CommandRequest<'_>) -> Result<CommandReply, String> {
    let yes = match request.args {
        "" | "yes" => true,
        "no" => false,
        other => {
            return Err(format!(
                "Nothing was changed: `{other}` is neither `yes` nor `no`. `/permissions trust` trusts the \
                 folder's programs, `/permissions trust no` distrusts them."
            ));
        }
    };
    let shown = request.turn.engine.approvals.consent.review().await.executables;
    if shown.is_empty() {
        return Ok(CommandReply::Say(
            "This folder's settings name no programs or servers.".to_owned(),
        ));
    }
    request.turn.check_user().map_err(|why| format!("Nothing was changed: {why}."))?;
    let kept = request.turn.engine.servers.trust_folder(&shown, yes).await;
    if let Err(why @ ConsentError::Changed) = kept {
        return Err(why.to_string());
    }
    let may = if yes { "are trusted from now on" } else { "are not used from now on" };
    let mut text = format!("The programs and servers that this folder's settings name {may}.");
    if let Err(why) = kept {
        text.push_str(&format!(" {why}"));
    }
    Ok(CommandReply::Say(text))
}

async fn reload(request: CommandRequest<'_>) -> Result<CommandReply, String> {
    let permissions = Arc::clone(&request.turn.engine.approvals.permissions);
    let news = blocking(move || {
        permissions.reload();
        let news = permissions.unseen_remarks();
        let rules = permissions.loaded().policy.rules().len();
        format!("{rules} rules are in force.\n{}", news.join("\n"))
    });
    Ok(CommandReply::Say(news.await?.trim_end().to_owned()))
}
