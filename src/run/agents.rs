//! Conversion of the settings of other A2A agents into the configurations that calls to them need.

use tandem_a2a_client::AgentConfig;
use tandem_settings::{A2aAgent, Settings};

/// Returns the configurations of the other agents that the settings name.
pub(super) fn configs(settings: &Settings) -> Vec<AgentConfig> {
    settings.a2a_servers.iter().map(|(name, agent)| config(name, agent)).collect()
}

fn config(name: &str, agent: &A2aAgent) -> AgentConfig {
    let from = agent.entry.origin.as_ref().map(ToString::to_string).unwrap_or_default();
    let url = agent.url.as_ref().map_or("", |url| url.expose());
    let headers = agent.headers.iter().map(|(name, it)| (name.clone(), it.expose().to_owned()));
    let token = agent.token.as_ref().map(tandem_settings::Concealed::expose);
    // The settings replace `$NAME` by the variable's value, but leave `$NAME` if the variable is not set. So a token
    // that begins with `$` names an unset variable, and must not be sent.
    let (unset, token) = match token {
        Some(token) if token.starts_with('$') => (Some(token), None),
        token => (None, token),
    };
    let bearer = token.map(|token| ("Authorization".to_owned(), format!("Bearer {token}")));
    let wrong = match (url, unset) {
        ("", _) => Some("it has no `url`".to_owned()),
        (_, Some(variable)) => {
            Some(format!("its `token` names the variable {variable}, which is not set"))
        }
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
