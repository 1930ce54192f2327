//! The session of a person in a terminal, which others may join.

use std::path::Path;
use std::sync::Arc;

use futures::FutureExt as _;

use super::a2a::Joined;
use super::{End, Making, Signals, check};
use crate::cli::Agent;
use crate::config::{self, Credentials, Env, Settings};
use crate::frontends::a2a::CLOSING;
use crate::frontends::tui;
use crate::model::provider::Provider;
use crate::session::{Origin, PromptPart};

/// Serves a person in the terminal, until they quit.
pub async fn terminal(agent: &Agent) -> anyhow::Result<End> {
    let mut signals = Signals::listen()?;
    let (making, settings) = Making::new(&agent.work)?;
    let env = making.env();
    let session = making.agents_session(agent, &settings)?;
    let limits = making.limits(&settings);
    let joined = Joined::begin(agent, &session, &making.credentials, &limits).await?;
    if let Some(prompt) = agent.first_prompt() {
        session.prompt(vec![PromptPart::Text(prompt)], Origin::Terminal);
    }
    let service = tui::Service {
        a2a: joined.place(),
        login: Some(Box::new(login(&making.credentials))),
        ..service(
            tui::Conversation::here(Arc::clone(&session)),
            env.directory(),
            &making.credentials,
            &settings,
        )
    };
    let end = tokio::select! {
        served = tui::run(service) => served.map(|signal| signal.map_or(End::Done, End::Signal)),
        // An interrupt is the screen's: an editor may have the terminal.
        signal = signals.end() => Ok(End::Signal(signal)),
    };
    if matches!(end, Ok(End::Signal(_))) {
        joined.drain(&session, agent.drain_timeout, &mut signals).await;
    }
    session.close_because(CLOSING);
    joined.end().await;
    making.processes.end_all().await;
    end
}

/// What a person is shown of a session that works in `directory`, as they have set up things.
pub(super) fn service(
    session: tui::Conversation,
    directory: &Path,
    credentials: &Credentials,
    settings: &Settings,
) -> tui::Service {
    let env = credentials.env();
    let editor = env.var("VISUAL").or(env.var("EDITOR")).unwrap_or("vi").to_owned();
    tui::Service {
        session,
        workspace: below_home(directory, env),
        a2a: None,
        history: env.config_dir().map(|dir| dir.join("history.jsonl")),
        editor: tui::Editor { command: editor, without: credentials.secret_variables() },
        colour: env.var("NO_COLOR").is_none(),
        notifies: settings.general.enable_notifications,
        in_tmux: env.var("TMUX").is_some(),
        login: None,
    }
}

/// How the person gives a key for a model.
fn login(credentials: &Arc<Credentials>) -> impl Fn(&str) -> tui::Login + use<> {
    let credentials = Arc::clone(credentials);
    move |model| {
        let (provider, _) = Provider::of(model, Provider::Gemini);
        let (typed, browser) = (Arc::clone(&credentials), Arc::clone(&credentials));
        tui::Login {
            whose: provider.title(),
            made_at: config::keys_made_at(provider),
            typed: Box::new(move |key| {
                let credentials = Arc::clone(&typed);
                let accept =
                    async move { config::accept_key(&credentials, &check(), provider, &key).await };
                accept.boxed()
            }),
            browser: Box::new(move |opened| {
                let credentials = Arc::clone(&browser);
                let ask = async move {
                    config::ask_in_browser(&credentials, &check(), provider, &*opened).await
                };
                ask.boxed()
            }),
        }
    }
}

/// A directory as people write it.
fn below_home(directory: &Path, env: &Env) -> String {
    let home = env.var("HOME").and_then(|home| directory.strip_prefix(home).ok());
    match home {
        Some(rest) if rest.as_os_str().is_empty() => "~".to_owned(),
        Some(rest) => format!("~/{}", rest.display()),
        None => directory.display().to_string(),
    }
}
