//! Servers that are asked for their models: those that people have set up or chosen, and programs on this machine.

use futures::future::join_all;

use tandem_model::endpoint::Endpoint;
use tandem_model::listing::{self, ListForm, ListedModel, Lister};
use tandem_model::model_api::ModelApi;
use tandem_model::offer::ServerScope;
use tandem_model::provider::Provider;
use tandem_settings::Credentials;

/// A server to ask for its models.
pub(super) struct ModelServerToAsk {
    pub(super) endpoint: Endpoint,
    api: ModelApi,
    form: ListForm,
    /// Ids that the settings list for the server.
    listed: Vec<String>,
}

/// A server that was asked.
pub(super) struct AskedServer {
    pub(super) provider: Provider,
    /// Address, without what may be secret in it.
    pub(super) address: String,
    /// Models that the settings or the server list; `None` if no model server answers.
    pub(super) models: Option<Vec<ListedModel>>,
}

/// Returns the servers to ask. `current` is the provider whose model answers. Reads files.
pub(super) fn to_ask(
    credentials: &Credentials,
    current: Option<Provider>,
    scope: ServerScope,
) -> Vec<ModelServerToAsk> {
    let servers = credentials.servers();
    let server = |provider, form| {
        let endpoint = credentials.endpoint(provider).ok()?;
        let api = servers.providers().api(provider, "");
        let listed = servers.get(provider).map(|server| server.models.clone()).unwrap_or_default();
        // Of other APIs, the catalog has the models. Azure does not list deployments.
        let lists =
            matches!(api, ModelApi::OpenAi(_) | ModelApi::Ollama) && provider != Provider::Azure;
        (lists || !listed.is_empty()).then_some(ModelServerToAsk { endpoint, api, form, listed })
    };
    let is_chosen = |provider: &Provider| match provider {
        Provider::Named(_) => true,
        Provider::OpenAi => !credentials.has_usual_server(*provider),
        provider if provider.is_local() && credentials.is_set_up(*provider) => true,
        // All other providers list hundreds of models.
        provider => Some(*provider) == current,
    };
    let named = servers.iter().map(|(provider, _)| provider);
    let named = named.filter(|provider| matches!(provider, Provider::Named(_)));
    let chosen = Provider::ALL.into_iter().chain(named).filter(is_chosen);
    let mut all: Vec<_> = chosen.filter_map(|provider| server(provider, ListForm::Any)).collect();
    let programs = match scope {
        ServerScope::SetUp => Vec::new(),
        ServerScope::ThisMachine | ServerScope::All => credentials.env().local_servers(),
    };
    for provider in programs {
        let Some(mut found) = server(provider, ListForm::Documented) else { continue };
        // Any user of the machine may listen at a usual address, and nobody has chosen the program there.
        found.endpoint.key = None;
        found.endpoint.headers.clear();
        // A server that people have set up may listen at the usual address of another program.
        let is_known = |known: &ModelServerToAsk| {
            listing::is_same_server(&known.endpoint.url, &found.endpoint.url)
        };
        if !all.iter().any(is_known) {
            all.push(found);
        }
    }
    if scope == ServerScope::ThisMachine {
        all.retain(|server| listing::is_local(&server.endpoint.url));
    }
    all
}

/// Asks all servers at once for their models.
pub(super) async fn ask(servers: Vec<ModelServerToAsk>) -> Vec<AskedServer> {
    let lister = Lister::default();
    let asked = servers.into_iter().map(|server| {
        let lister = &lister;
        async move {
            let ModelServerToAsk { endpoint, api, form, listed } = server;
            let answer = lister.list(api, &endpoint, form).await.ok();
            AskedServer {
                provider: endpoint.provider,
                address: listing::shown_address(&endpoint.url),
                models: merged(listed, answer),
            }
        }
    });
    join_all(asked).await
}

/// Returns the models of a server: first those that the settings list, then the others that the server lists. Returns
/// `None` if there is neither a list in the settings nor an answer.
fn merged(listed: Vec<String>, answer: Option<Vec<ListedModel>>) -> Option<Vec<ListedModel>> {
    if listed.is_empty() {
        return answer;
    }
    let mut answer = answer.unwrap_or_default();
    let mut models: Vec<_> = listed
        .into_iter()
        .map(|id| match answer.iter().position(|model| model.id == id) {
            Some(at) => answer.remove(at),
            None => ListedModel { id, window: None },
        })
        .collect();
    models.append(&mut answer);
    Some(models)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use serde_json::json;
    use tandem_settings::Env;
    use test_support::api_server::{Asked, Reply, Server};

    use super::*;

    /// Returns the credentials that these variables set up, with no file.
    fn credentials(vars: &[(&str, &str)]) -> Arc<Credentials> {
        let vars = vars.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Credentials::new(Env::new(vars, Path::new("/nonexistent")))
    }

    /// Returns the providers that are asked.
    fn asked(
        vars: &[(&str, &str)],
        current: Option<Provider>,
        scope: ServerScope,
    ) -> Vec<Provider> {
        let servers = to_ask(&credentials(vars), current, scope);
        servers.into_iter().map(|server| server.endpoint.provider).collect()
    }

    /// Returns the request that is sent to Ollama with these variables. A stand-in takes the place of its address.
    async fn request_to_ollama(vars: &[(&str, &str)]) -> Asked {
        let vars = [vars, &[("TANDEM_LOCAL_SERVERS", "ollama")]].concat();
        let mut servers = to_ask(&credentials(&vars), None, ServerScope::ThisMachine);
        assert_eq!(servers.len(), 1);
        let list = json!({ "models": [{ "name": "qwen3:8b" }] });
        let server = Server::start(vec![Reply::error(200, list.to_string())]).await;
        server.address().clone_into(&mut servers[0].endpoint.url);
        let found = ask(servers).await;
        assert!(found.iter().all(|server| server.models.is_some()));
        server.asked().remove(0)
    }

    #[tokio::test]
    async fn a_program_that_nobody_has_set_up_is_sent_no_key_and_no_header_of_the_user() {
        let vars = [("OLLAMA_API_KEY", "secret"), ("OLLAMA_CUSTOM_HEADERS", "X-Team: secret")];
        let sent = |asked: &Asked| {
            ["authorization", "x-team"].map(|name| asked.headers.get(name).cloned())
        };
        assert_eq!(sent(&request_to_ollama(&vars).await), [None, None]);
        // A server that people have set up is sent both.
        let asked =
            request_to_ollama(&[vars[0], vars[1], ("OLLAMA_HOST", "127.0.0.1:11435")]).await;
        assert_eq!(sent(&asked).map(|value| value.is_some()), [true, true]);
    }

    #[test]
    fn programs_are_looked_for_only_if_the_scope_says_so() {
        let vars = [("OLLAMA_HOST", "127.0.0.1:11435"), ("TANDEM_LOCAL_SERVERS", "ollama,vllm")];
        assert_eq!(asked(&vars, None, ServerScope::SetUp), [Provider::Ollama]);
        let both = [Provider::Ollama, Provider::Vllm];
        assert_eq!(asked(&vars, None, ServerScope::ThisMachine), both);
        assert_eq!(asked(&vars, Some(Provider::Vllm), ServerScope::SetUp), both);
    }

    #[test]
    fn azure_lists_no_deployments_and_is_not_asked_for_them() {
        let vars = [
            ("AZURE_OPENAI_ENDPOINT", "https://x.openai.azure.com"),
            ("AZURE_OPENAI_API_KEY", "x"),
            ("TANDEM_LOCAL_SERVERS", ""),
        ];
        assert_eq!(asked(&vars, Some(Provider::Azure), ServerScope::All), []);
        let vars = [("OPENROUTER_API_KEY", "x"), vars[2]];
        let asked = asked(&vars, Some(Provider::OpenRouter), ServerScope::All);
        assert_eq!(asked, [Provider::OpenRouter]);
    }

    #[test]
    fn models_of_the_settings_come_first_and_once() {
        let model = |id: &str, window| ListedModel { id: id.to_owned(), window };
        let answer = Some(vec![model("a", Some(1)), model("b", Some(2))]);
        let ids = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>();
        let expected = vec![model("c", None), model("b", Some(2)), model("a", Some(1))];
        assert_eq!(merged(ids(&["c", "b"]), answer.clone()), Some(expected));
        assert_eq!(merged(ids(&["c"]), None), Some(vec![model("c", None)]));
        assert_eq!(merged(Vec::new(), None), None);
        assert_eq!(merged(Vec::new(), answer.clone()), answer);
    }
}
