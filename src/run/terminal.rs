//! The session of a person in a terminal, which others may join.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::a2a::SessionServer;
use super::ending::{EndSignals, ExitReason, saved};
use super::keys::check;
use super::making::Making;
use super::models;
use super::retention::Cleanup;
use super::sessions::below_home;
use crate::cli::AgentArgs;
use tandem_a2a::CLOSING;
use tandem_agent::session::{Origin, PromptPart};
use tandem_model::ollama;
use tandem_model::provider::Provider;
use tandem_settings::{self as config, Credentials, Settings};
use tandem_tui as tui;

/// Maximum time for an Ollama of this machine to say which models it has.
const OLLAMA: Duration = Duration::from_millis(500);

/// Serves a person in the terminal, until they quit.
pub(crate) async fn terminal(agent: &AgentArgs) -> anyhow::Result<ExitReason> {
    let mut signals = EndSignals::listen()?;
    let (making, settings) = Making::new(&agent.work)?;
    let env = making.env();
    let (sessions, loaded) = making.one_session(agent, &settings).await?;
    let session = loaded.session();
    let limits = making.limits(&settings);
    let joined = SessionServer::begin(agent, &loaded, &making.credentials, &limits).await?;
    if let Some(prompt) = agent.first_prompt() {
        session.prompt(vec![PromptPart::Text(prompt)], Origin::Terminal);
    }
    let service = tui::TerminalSetup {
        a2a: joined.place(),
        login: Some(Box::new(login(&making.credentials))),
        providers: providers(&making, &settings),
        ollama: Some(Box::new(ollama(&making.credentials))),
        ..service(
            tui::Conversation::here(Arc::clone(session)),
            env.directory(),
            &making.credentials,
            &settings,
        )
    };
    let cleanup = Cleanup::begin(&settings, &sessions, session);
    let end = tokio::select! {
        served = tui::run(service) => {
            served.map(|signal| signal.map_or(ExitReason::Done, ExitReason::Signal))
        }
        // An interrupt is the screen's: an editor may have the terminal.
        signal = signals.end() => Ok(ExitReason::Signal(signal)),
    };
    if matches!(end, Ok(ExitReason::Signal(_))) {
        joined.drain(session, agent.drain_timeout, &mut signals).await;
    }
    sessions.close(CLOSING);
    joined.end().await;
    making.supervisor.end_all().await;
    cleanup.end().await;
    saved(&sessions).await;
    end
}

/// Returns what a person is shown of a session that works in `directory`, as they have set up
/// things.
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
        colour: env.var("NO_COLOR").is_none(),
        notifies: settings.general.enable_notifications,
        in_tmux: env.var("TMUX").is_some(),
        login: None,
        providers: None,
        ollama: None,
    }
}

/// Returns the providers whose keys the person may give, if no setting names a provider.
fn providers(making: &Making, settings: &Settings) -> Option<tui::KeyProviders> {
    if settings.model.name.is_some() || settings.model.provider != Provider::Gemini {
        return None;
    }
    let credentials = Arc::clone(&making.credentials);
    Some(Box::new(move || {
        let provider = |provider: Provider| {
            let model = models::default_of(&credentials, provider)?;
            let made_at = config::keys_made_at(provider);
            Some(tui::KeyProvider { title: provider.title(), made_at, model })
        };
        let order = [Provider::Gemini, Provider::Anthropic, Provider::OpenAi];
        order.into_iter().filter_map(provider).collect()
    }))
}

/// Asks the Ollama of this machine, or the one that is set up, for its models.
fn ollama(
    credentials: &Arc<Credentials>,
) -> impl Fn() -> BoxFuture<'static, Vec<String>> + Send + Sync + use<> {
    let credentials = Arc::clone(credentials);
    move || {
        let credentials = Arc::clone(&credentials);
        let asked = async move {
            let endpoint = credentials.endpoint(Provider::Ollama).ok()?;
            let models = ollama::models(&endpoint);
            let models = tokio::time::timeout(OLLAMA, models).await.ok()?.ok()?;
            // Names come from whoever listens there.
            let plain = |c: char| c.is_ascii_alphanumeric() || "-._/:@+".contains(c);
            let usable = move |name: &String| name.chars().all(plain) && !name.contains("embed");
            Some(models.into_iter().filter(usable).map(|name| Provider::Ollama.qualify(&name)))
        };
        asked.map(|models| models.into_iter().flatten().collect()).boxed()
    }
}

/// Returns the ways in which the person can give a key for a model.
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
