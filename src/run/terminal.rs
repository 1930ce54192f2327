//! The session of a person in a terminal, which others may join.

use std::path::Path;
use std::sync::Arc;

use super::a2a::Joined;
use super::{End, Making, Signals};
use crate::cli::Agent;
use crate::config::Env;
use crate::frontends::tui;

/// Serves a person in the terminal, until they quit.
pub async fn terminal(agent: &Agent) -> anyhow::Result<End> {
    let mut signals = Signals::listen()?;
    let (making, settings) = Making::new(&agent.work)?;
    let env = making.env();
    let session = making.agents_session(agent, &settings)?;
    let limits = making.limits(&settings);
    let joined = Joined::begin(agent, &session, &making.credentials, &limits).await?;
    let service = tui::Service {
        session: Arc::clone(&session),
        workspace: below_home(env.directory(), env),
        a2a: joined.place(),
        history: env.config_dir().map(|dir| dir.join("history.jsonl")),
        editor: env.var("VISUAL").or(env.var("EDITOR")).unwrap_or("vi").to_owned(),
        colour: env.var("NO_COLOR").is_none(),
    };
    let end = tokio::select! {
        served = tui::run(service) => served.map(|()| End::Done),
        signal = signals.next() => Ok(End::Signal(signal)),
    };
    session.close();
    joined.end().await;
    making.processes.end_all().await;
    end
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
