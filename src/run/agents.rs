//! Other agents as the settings name them, made ready to be called.

use tandem_a2a_client::AgentConfig;
use tandem_settings::{A2aAgent, Settings};

/// The agents that the settings name.
pub(super) fn of(settings: &Settings) -> Vec<AgentConfig> {
    settings.a2a_servers.iter().map(|(name, agent)| config(name, agent)).collect()
}

fn config(name: &str, agent: &A2aAgent) -> AgentConfig {
    let from = agent.entry.origin.as_ref().map(ToString::to_string).unwrap_or_default();
    let url = agent.url.as_ref().map_or("", |url| url.expose());
    let headers = agent.headers.iter().map(|(name, it)| (name.clone(), it.expose().to_owned()));
    let token = agent.token.as_ref().map(tandem_settings::Concealed::expose);
    // A variable that is not set stays as it is written.
    let (unset, token) = match token {
        Some(token) if token.starts_with('$') => (Some(token), None),
        token => (None, token),
    };
    let bearer = token.map(|token| ("Authorization".to_owned(), format!("Bearer {token}")));
    let wrong = match (url, unset) {
        ("", _) => Some("it has no `url`".to_owned()),
        (_, Some(variable)) => Some(format!("its `token` names {variable}, which is not set")),
        _ => None,
    };
    AgentConfig {
        headers: headers.chain(bearer).collect(),
        description: agent.description.clone(),
        trust: agent.trust,
        timeout: agent.silence(),
        needs_consent: agent.entry.unjudged(),
        wrong,
        ..AgentConfig::new(name, url, &from)
    }
}
