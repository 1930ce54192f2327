//! The program in a terminal: a person works with a session, which other clients may join.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use parking_lot::Mutex;

use super::ending::{EndSignals, ExitReason, wait_all_stored};
use super::keys::check;
use super::models;
use super::retention::Cleanup;
use super::session_factory::{OpenedSession, SessionFactory};
use super::session_server::SessionServer;
use super::sessions::below_home;
use crate::cli::AgentArgs;
use tandem_agent::session::{AGENT_ENDS, NOT_STORED, Origin, PromptPart};
use tandem_agent::sessions::WantedSession;
use tandem_content::blocking::blocking;
use tandem_import::{GeminiCli, has_new_sessions};
use tandem_model::provider::Provider;
use tandem_settings::{self as config, Credentials, Env, Settings};
use tandem_tui as tui;

/// Reason for the end of a session that other clients see when the person in the terminal switches to another session.
const TERMINAL_LEFT: &str = "the terminal has switched to another session";

/// Serves a person in the terminal until the person quits: the first session, and then each session that the person
/// switches to.
pub(crate) async fn terminal(agent: &AgentArgs) -> anyhow::Result<ExitReason> {
    let mut signals = EndSignals::listen()?;
    let (factory, settings) = SessionFactory::new(&agent.work)?;
    let mut opened = match chosen(agent, &factory, &settings, &mut signals).await? {
        ChosenSession::Session(opened) => opened,
        ChosenSession::End(end) => return Ok(end),
    };
    if let Some(prompt) = agent.first_prompt() {
        opened.1.session().prompt(vec![PromptPart::Text(prompt)], Origin::Terminal);
    }
    let cleanup = Cleanup::begin(&settings, opened.0.store(), opened.1.session());
    let end = loop {
        match show(agent, &factory, &settings, &opened, &mut signals).await {
            Ok(ShowOutcome::Other(other)) => opened = other,
            Ok(ShowOutcome::End(end)) => break Ok(end),
            Err(error) => break Err(error),
        }
    };
    factory.supervisor.end_all().await;
    cleanup.end().await;
    wait_all_stored(&opened.0).await;
    end
}

/// Result of choosing the session to begin with.
enum ChosenSession {
    Session(OpenedSession),
    /// No session: the program ends.
    End(ExitReason),
}

/// Opens the session that the command line asks for. If the command line asks for a stored session but names none,
/// lets the user choose.
async fn chosen(
    agent: &AgentArgs,
    factory: &SessionFactory,
    settings: &Settings,
    signals: &mut EndSignals,
) -> anyhow::Result<ChosenSession> {
    let wanted = agent.wanted_session();
    if wanted != WantedSession::Pick {
        return Ok(ChosenSession::Session(factory.one_session(agent, settings, &wanted).await?));
    }
    let opened = Arc::<Mutex<Option<OpenedSession>>>::default();
    let sessions = stored_sessions(agent, factory, settings, &opened).context(NOT_STORED)?;
    let choice = tokio::select! {
        choice = tui::choose(sessions, is_coloured(factory.env())) => choice?,
        signal = signals.end() => tui::Choice::Ended(tui::TerminalEnd::Signal(signal)),
    };
    let opened = opened.lock().take();
    match (choice, opened) {
        (tui::Choice::New, _) => {
            let session = factory.one_session(agent, settings, &WantedSession::New).await?;
            Ok(ChosenSession::Session(session))
        }
        (tui::Choice::Ended(tui::TerminalEnd::Opened), Some(opened)) => {
            Ok(ChosenSession::Session(opened))
        }
        (tui::Choice::Ended(end), _) => Ok(ChosenSession::End(exit_reason(end))),
    }
}

/// Outcome of showing a session on the screen.
enum ShowOutcome {
    /// Another session is to be shown.
    Other(OpenedSession),
    /// The program ends.
    End(ExitReason),
}

/// Shows a session until the user quits or switches to another session, and then closes it.
async fn show(
    agent: &AgentArgs,
    factory: &SessionFactory,
    settings: &Settings,
    opened: &OpenedSession,
    signals: &mut EndSignals,
) -> anyhow::Result<ShowOutcome> {
    let (sessions, loaded) = opened;
    let session = loaded.session();
    let joined = SessionServer::begin(agent, opened, factory, settings).await?;
    let other = Arc::<Mutex<Option<OpenedSession>>>::default();
    let directory = session.roots().first().map_or(factory.directory(), PathBuf::as_path);
    let service = tui::TerminalSetup {
        a2a: joined.join_address(),
        sessions: stored_sessions(agent, factory, settings, &other),
        login: Some(Box::new(login(&factory.credentials))),
        providers: providers(factory, settings),
        importable: importable(factory),
        make_default: Some(Box::new(make_default(factory.env()))),
        ..service(
            tui::Conversation::here(Arc::clone(session)),
            directory,
            &factory.credentials,
            settings,
        )
    };
    let end = tokio::select! {
        served = tui::run(service) => served,
        // `signals.end` does not wait for SIGINT (Ctrl+C). `tui::run` receives that signal, because it knows whether
        // the user's editor has the terminal: then SIGINT is meant for the editor, and must not end this program.
        signal = signals.end() => Ok(tui::TerminalEnd::Signal(signal)),
    };
    if matches!(end, Ok(tui::TerminalEnd::Signal(_))) {
        joined.drain(sessions, agent.drain_timeout, signals).await;
    }
    let other = other.lock().take().filter(|_| matches!(end, Ok(tui::TerminalEnd::Opened)));
    sessions.close(if other.is_some() { TERMINAL_LEFT } else { AGENT_ENDS });
    joined.end().await;
    let Some(other) = other else { return end.map(|end| ShowOutcome::End(exit_reason(end))) };
    wait_all_stored(sessions).await;
    Ok(ShowOutcome::Other(other))
}

/// Returns the stored sessions that the person may switch to; `None` if sessions are not stored. A session that the
/// person opens is put into `opened`.
fn stored_sessions(
    agent: &AgentArgs,
    factory: &SessionFactory,
    settings: &Settings,
    opened: &Arc<Mutex<Option<OpenedSession>>>,
) -> Option<tui::StoredSessions> {
    let store = factory.store()?;
    let directory = factory.directory().to_owned();
    let make = factory.maker(agent, settings);
    let (factory, settings, opened) = (factory.clone(), settings.clone(), Arc::clone(opened));
    let open = move |id: String| {
        let (factory, settings) = (factory.clone(), settings.clone());
        let (make, opened) = (Arc::clone(&make), Arc::clone(&opened));
        let open = async move {
            let session = factory.stored_session(make, &settings, &id).await;
            *opened.lock() = Some(session.map_err(|error| format!("{error:#}"))?);
            Ok(())
        };
        open.boxed()
    };
    Some(tui::StoredSessions { store, directory, open: Arc::new(open) })
}

/// Returns the reason for the program's end that follows from the end of the terminal.
pub(super) fn exit_reason(end: tui::TerminalEnd) -> ExitReason {
    match end {
        tui::TerminalEnd::Quit | tui::TerminalEnd::Opened => ExitReason::Done,
        tui::TerminalEnd::Signal(signal) => ExitReason::Signal(signal),
    }
}

/// Returns the setup of the terminal for a session that works in `directory`, from the person's environment and
/// settings.
pub(super) fn service(
    session: tui::Conversation,
    directory: &Path,
    credentials: &Credentials,
    settings: &Settings,
) -> tui::TerminalSetup {
    let env = credentials.env();
    let editor = env.var("VISUAL").or(env.var("EDITOR")).unwrap_or("vi").to_owned();
    tui::TerminalSetup {
        session,
        workspace: below_home(directory, env),
        a2a: None,
        history: env.config_dir().map(|dir| dir.join("history.jsonl")),
        editor: tui::ExternalEditor { command: editor, without: credentials.secret_variables() },
        colour: is_coloured(env),
        notifies: settings.general.enable_notifications,
        in_tmux: env.var("TMUX").is_some(),
        sessions: None,
        login: None,
        providers: None,
        importable: None,
        make_default: None,
    }
}

/// Returns a look for sessions of Gemini CLI that were not imported yet; `None` if sessions are not stored.
fn importable(factory: &SessionFactory) -> Option<BoxFuture<'static, bool>> {
    let store = factory.store()?;
    let gemini_cli = GeminiCli::new(factory.env().gemini_dir()?, factory.directory().to_owned());
    Some(has_new_sessions(gemini_cli, store).boxed())
}

/// Returns `true` if the person wants colours.
fn is_coloured(env: &Env) -> bool {
    env.var("NO_COLOR").is_none()
}

/// Returns the function that lists the providers whose keys the person may enter; `None` if the settings name a model
/// or another provider than Gemini.
fn providers(factory: &SessionFactory, settings: &Settings) -> Option<tui::KeyProviders> {
    if settings.model.name.is_some() || settings.model.provider != Provider::Gemini {
        return None;
    }
    let credentials = Arc::clone(&factory.credentials);
    Some(Box::new(move || {
        let provider = |provider: Provider| {
            let model = models::default_of(&credentials, provider)?;
            let (title, made_at) =
                (provider.title().to_owned(), credentials.keys_made_at(provider));
            Some(tui::KeyProvider { title, made_at, model })
        };
        let order = [Provider::Gemini, Provider::Anthropic, Provider::OpenAi];
        order.into_iter().filter_map(provider).collect()
    }))
}

/// Returns the function that makes a model the one that new sessions begin with.
fn make_default(
    env: &Env,
) -> impl Fn(String) -> BoxFuture<'static, Result<String, String>> + Send + Sync + use<> {
    let env = env.clone();
    move |id| {
        let env = env.clone();
        let stored = blocking(move || {
            let path = config::store_default_model(&env, &id)?;
            Ok(format!("New sessions begin with `{id}` ({}).", below_home(&path, &env)))
        });
        stored
            .map(|stored| stored.map_err(|_| "The choice was not stored.".to_owned()).flatten())
            .boxed()
    }
}

/// Returns the function that gives the ways to enter a key for a model.
fn login(credentials: &Arc<Credentials>) -> impl Fn(&str) -> tui::Login + use<> {
    let credentials = Arc::clone(credentials);
    move |model| {
        let (provider, _) = credentials.servers().providers().parse_id(model, Provider::Gemini);
        let (typed, browser) = (Arc::clone(&credentials), Arc::clone(&credentials));
        tui::Login {
            whose: provider.title().to_owned(),
            made_at: credentials.keys_made_at(provider),
            typed: Box::new(move |key| {
                let credentials = Arc::clone(&typed);
                let accept = async move {
                    config::accept_key(&credentials, &check(&credentials), provider, &key).await
                };
                accept.boxed()
            }),
            browser: Box::new(move |opened| {
                let credentials = Arc::clone(&browser);
                let ask = async move {
                    config::ask_in_browser(&credentials, &check(&credentials), provider, &*opened)
                        .await
                };
                ask.boxed()
            }),
        }
    }
}
