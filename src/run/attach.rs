//! `tandem attach`: a terminal on a session of another tandem process.

use std::fs;
use std::io::{Write as _, stderr};
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;

use super::ending::{EndSignals, ExitReason};
use super::keys::credentials;
use super::terminal;
use crate::cli::AttachArgs;
use tandem_content::visible::visible_line;
use tandem_model::Secret;
use tandem_settings::{Credentials, Settings, read_settings};
use tandem_tui::{
    self as tui, AttachableAgent, Attached, Conversation, ListedSession, SessionSelector,
};

/// Name of the environment variable with the token that callers must send.
const TOKEN_VARIABLE: &str = "TANDEM_A2A_TOKEN";

/// Exit code if the user has to choose one of several sessions.
const CHOICE_EXIT_CODE: i32 = 2;

/// Number of characters of a session's id that are shown.
const SHOWN_ID_CHARS: usize = 8;

/// Serves the user in the terminal until the user quits or the agent ends.
pub(crate) async fn attach(attach: &AttachArgs) -> anyhow::Result<ExitReason> {
    let mut signals = EndSignals::listen()?;
    let credentials = credentials()?;
    let env = credentials.env();
    let agent = AttachableAgent {
        address: attach.agent.clone(),
        token: token(attach.a2a_token_file.as_deref(), &credentials)?,
        line_bytes: Settings::default().limits(&attach.limits).line_bytes,
    };
    let here = env.directory().display().to_string();
    let wanted = match &attach.session {
        Some(id) => SessionSelector::Id(id.clone()),
        None if attach.new => SessionSelector::New(here),
        None => SessionSelector::Only(here),
    };
    let remote = match tui::attach(agent, wanted).await? {
        Attached::To(remote) => *remote,
        Attached::Choose(sessions) => {
            list_choices(attach, &sessions);
            return Ok(ExitReason::Failed(CHOICE_EXIT_CODE));
        }
    };
    let directory = remote.directory().to_owned();
    let settings = read_settings(env, env.directory(), &[]);
    let session = Conversation::There(Box::new(remote));
    let service = terminal::service(session, Path::new(&directory), &credentials, &settings);
    tokio::select! {
        served = tui::run(service) => {
            served.map(terminal::exit_reason)
        }
        // `end` waits for the signals that end a program, except SIGINT (Ctrl+C). The screen handles SIGINT, which may be
        // meant for the external editor that has the terminal.
        signal = signals.end() => Ok(ExitReason::Signal(signal)),
    }
}

/// Lists the sessions on standard error, so that the user can choose one.
fn list_choices(attach: &AttachArgs, sessions: &[ListedSession]) {
    let mut text = match &attach.session {
        Some(id) => format!(
            "tandem: no session, or more than one, has an id that begins or ends with `{id}`. "
        ),
        None => "tandem: there are several sessions. ".to_owned(),
    };
    text.push_str("Choose one with `--session ID`, or begin a new one with `--new`:\n");
    for session in sessions {
        text.push_str(&row(session));
    }
    // If standard error is closed there is nobody to tell.
    let _ = stderr().write_all(text.as_bytes());
}

fn row(session: &ListedSession) -> String {
    // Shows the end of the id, because ids of sessions that were made at nearly the same time have the same beginning.
    let skipped = session.id.chars().count().saturating_sub(SHOWN_ID_CHARS);
    let id: String = session.id.chars().skip(skipped).collect();
    let busy = if session.busy { ", at work" } else { "" };
    let said = match session.prompts {
        0 => "nothing said yet".to_owned(),
        1 => format!("1 prompt: {}", session.last),
        prompts => format!("{prompts} prompts, the last: {}", session.last),
    };
    let row = format!("  {id}  {}  {said}{busy}", session.directory);
    // The row has text from prompts of other clients. `visible_line` keeps escape sequences in this text from the
    // terminal, which would execute them.
    format!("{}\n", visible_line(&row))
}

/// Returns the token that callers must send, if the user has set one.
pub(super) fn token(
    file: Option<&Path>,
    credentials: &Arc<Credentials>,
) -> anyhow::Result<Option<String>> {
    let token = match file {
        Some(file) => {
            let text = fs::read_to_string(file);
            text.with_context(|| format!("cannot read the token in {}", file.display()))?
        }
        None => match credentials.env().var(TOKEN_VARIABLE) {
            Some(token) => token.to_owned(),
            None => return Ok(None),
        },
    };
    let token = token.trim().to_owned();
    anyhow::ensure!(!token.is_empty(), "the A2A token is empty");
    // `know` hides the token from the model's commands. With the token, a command could answer the questions about the
    // model's own calls.
    credentials.redact_key(&Secret::new(&token));
    Ok(Some(token))
}
