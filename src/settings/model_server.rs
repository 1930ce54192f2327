//! Servers of models as settings describe them.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::mcp_server::Concealed;
use tandem_model::model_api::ModelApi;
use tandem_model::provider::Provider;
use tandem_model::providers::Providers;
use tandem_model::server_name::ServerName;

/// A server of models: its address, its API, its key and its models. In the entry of a built-in provider, a field
/// that is set replaces the provider's own value. If a variable sets the provider's address, only `models` count.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ModelServer {
    /// Base URL, as the API's other clients take it. Always set for a server that is no built-in provider.
    pub url: Option<Concealed>,
    /// API of the server. Always set for a server that is no built-in provider, and never for a built-in provider.
    #[serde(deserialize_with = "read_api")]
    pub api: Option<ModelApi>,
    /// Name of the environment variable that has the key; `None` if the key is a stored one, or if none is needed.
    pub key_variable: Option<String>,
    /// HTTP headers for each request.
    pub headers: BTreeMap<String, Concealed>,
    /// Ids of models that people can choose; any other id is possible, too. The first id is the default.
    pub models: Vec<String>,
}

/// Servers of models that the settings describe.
#[derive(Debug, Clone, Default)]
pub struct ModelServers {
    entries: BTreeMap<Provider, ModelServer>,
    providers: Providers,
}

impl ModelServers {
    /// Returns the servers of the setting `modelServers`, whose names have been checked.
    pub(super) fn new(entries: &BTreeMap<String, ModelServer>) -> Self {
        let provider = |name: &str| {
            let named = || Some(Provider::Named(name.parse().ok()?));
            name.parse().ok().or_else(named)
        };
        let entries =
            entries.iter().filter_map(|(name, entry)| Some((provider(name)?, entry.clone())));
        let entries: BTreeMap<_, _> = entries.collect();
        let api = |(provider, entry): (&Provider, &ModelServer)| match (provider, entry.api) {
            (Provider::Named(name), Some(api)) => Some((*name, api)),
            _ => None,
        };
        let providers = Providers::new(entries.iter().filter_map(api).collect());
        Self { entries, providers }
    }

    /// Returns the entry of a provider.
    pub fn get(&self, provider: Provider) -> Option<&ModelServer> {
        self.entries.get(&provider)
    }

    /// Returns all entries.
    pub fn iter(&self) -> impl Iterator<Item = (Provider, &ModelServer)> {
        self.entries.iter().map(|(provider, entry)| (*provider, entry))
    }

    /// Returns the names of the variables that have the servers' keys.
    pub(super) fn key_variables(&self) -> impl Iterator<Item = &str> {
        self.entries.values().filter_map(|server| server.key_variable.as_deref())
    }

    /// Returns the providers that ids can name.
    pub fn providers(&self) -> &Providers {
        &self.providers
    }
}

/// Reads the setting, and checks that each name is valid, and that each server has what its name demands.
pub(super) fn read<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<BTreeMap<String, ModelServer>, D::Error> {
    let servers = BTreeMap::<String, ModelServer>::deserialize(from)?;
    for (name, server) in &servers {
        check(name, server).map_err(D::Error::custom)?;
    }
    Ok(servers)
}

/// Checks a server. The error is the rest of a sentence that begins with the name of the setting.
fn check(name: &str, server: &ModelServer) -> Result<(), String> {
    if name.parse::<Provider>().is_ok() {
        return match server.api {
            Some(_) => {
                Err(format!("must not give `{name}` an `api`: a built-in provider has its own"))
            }
            None => Ok(()),
        };
    }
    if let Err(why) = name.parse::<ServerName>() {
        return Err(format!("has the name `{name}`, which {why}"));
    }
    // Ids that begin with this name already have a meaning.
    if name == "replay" || ["openai-chat", "openai-responses"].contains(&name) {
        return Err(format!(
            "must not have a server of the name `{name}`: it has a meaning of its own"
        ));
    }
    match (&server.url, server.api) {
        (Some(_), Some(_)) => Ok(()),
        (None, _) => Err(format!("must have a `url` for the server `{name}`")),
        (_, None) => Err(format!("must have an `api` for the server `{name}`")),
    }
}

fn read_api<'de, D: Deserializer<'de>>(from: D) -> Result<Option<ModelApi>, D::Error> {
    let name = Option::<String>::deserialize(from)?;
    name.map(|name| name.parse().map_err(D::Error::custom)).transpose()
}
