//! Lists of the models that servers have now. Nothing in a list is trusted: any program may listen at an address of this
//! machine.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::endpoint::Endpoint;
use super::http::{self, Http};
use super::model_api::ModelApi;
use super::options::RequestOptions;
use super::retry::RequestFailure;
use super::{Error, ollama, openai};

pub use super::http::is_local;
pub use super::queries::ListedModel;

/// Maximum time until a server on this machine accepts a connection.
pub(crate) const LOCAL_CONNECT_TIMEOUT: Duration = Duration::from_millis(300);

/// Maximum time for a server on this machine to list its models. All servers are asked at once.
pub const LOCAL_LIST_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum time for any other server to list its models.
const REMOTE_LIST_TIMEOUT: Duration = Duration::from_secs(3);

/// Maximum time for a server to list its models before a request that depends on the list.
pub(super) const PATIENT_LIST_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of models of one server.
const MAX_LISTED_MODELS: usize = 500;

/// Maximum length of a model's id in bytes.
const MAX_ID_BYTES: usize = 200;

/// A client that asks servers for their models.
pub struct Lister {
    local: Http,
    remote: Http,
    /// Maximum time for a server on this machine.
    local_timeout: Duration,
    /// Maximum time for any other server.
    remote_timeout: Duration,
}

/// Strictness about the form of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListForm {
    /// Any form in which a server of the API has been seen to list its models.
    Any,
    /// The form that the API's documentation has. Nobody has said that the program at the address is a model server.
    Documented,
}

impl Default for Lister {
    fn default() -> Self {
        Self {
            local: Http::on_this_machine(LOCAL_CONNECT_TIMEOUT),
            remote: Http::new(RequestOptions::default().connect_timeout),
            local_timeout: LOCAL_LIST_TIMEOUT,
            remote_timeout: REMOTE_LIST_TIMEOUT,
        }
    }
}

impl Lister {
    /// Returns a client that waits longer for a server's list, because a request depends on the list.
    pub(super) fn patient() -> Self {
        let (local_timeout, remote_timeout) = (PATIENT_LIST_TIMEOUT, PATIENT_LIST_TIMEOUT);
        Self { local_timeout, remote_timeout, ..Self::default() }
    }

    /// Fetches the models of a server. Models that cannot chat, and models whose ids cannot be chosen, are left out.
    pub async fn list(
        &self,
        api: ModelApi,
        endpoint: &Endpoint,
        form: ListForm,
    ) -> Result<Vec<ListedModel>, Error> {
        self.try_list(api, endpoint, form).await.map_err(|failure| failure.error)
    }

    /// Fetches the models of a server as [`Self::list`] does. The failure says if another attempt may succeed.
    pub(super) async fn try_list(
        &self,
        api: ModelApi,
        endpoint: &Endpoint,
        form: ListForm,
    ) -> Result<Vec<ListedModel>, RequestFailure> {
        let is_local = http::is_local(&endpoint.url);
        let limit = if is_local { self.local_timeout } else { self.remote_timeout };
        let is_plain = endpoint.url.starts_with("http:");
        let http = if is_local && is_plain { &self.local } else { &self.remote };
        let list = async {
            match api {
                ModelApi::OpenAi(_) => openai::list(http, endpoint, form).await,
                ModelApi::Ollama => ollama::list(http, endpoint).await,
                // The catalog has the models of the vendors of these APIs.
                ModelApi::Gemini | ModelApi::Anthropic => Ok(Vec::new()),
            }
        };
        let deadline = Instant::now() + limit;
        let mut listed = timeout_at(deadline, list).await.map_err(|_| {
            let address = shown_address(&endpoint.url);
            let why = format!("{address} does not list its models soon. Try again.");
            RequestFailure::passing("server silent", Error::Unavailable(why))
        })??;
        listed.retain(|model| is_plain_id(&model.id) && can_chat(&model.id));
        listed.truncate(MAX_LISTED_MODELS);
        if let ([only], ModelApi::OpenAi(_)) = (listed.as_mut_slice(), api)
            && only.window.is_none()
            && is_local
        {
            // LM Studio, and versions of llama.cpp whose list lacks the context window, tell its size at another path.
            let window = openai::window(http, endpoint, &only.id);
            only.window = timeout_at(deadline, window).await.ok().flatten();
        }
        Ok(listed)
    }
}

/// Returns the scheme, host and port of an address: a path may be secret.
pub fn shown_address(url: &str) -> String {
    let parsed = reqwest::Url::parse(url).map(|url| url.origin().ascii_serialization());
    parsed.unwrap_or_default()
}

/// Returns `true` if two addresses lead to the same port of the same host. All names of this machine are one host.
pub fn is_same_server(one: &str, other: &str) -> bool {
    let (Ok(one), Ok(other)) = (reqwest::Url::parse(one), reqwest::Url::parse(other)) else {
        return false;
    };
    let is_same_host = one.host_str() == other.host_str()
        || (http::is_local(one.as_str()) && http::is_local(other.as_str()));
    is_same_host && one.port_or_known_default() == other.port_or_known_default()
}

/// Returns `true` if a model's id has only characters that are harmless on a screen, in a path and in a command.
pub fn is_plain_id(id: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._/:@+".contains(c);
    !id.is_empty() && id.len() <= MAX_ID_BYTES && !id.contains("..") && id.chars().all(is_plain)
}

/// Returns `false` for models that only compare texts. Servers list them beside the others.
fn can_chat(id: &str) -> bool {
    !["embed", "rerank"].iter().any(|word| id.to_ascii_lowercase().contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_with_anything_but_plain_characters_is_refused() {
        for id in ["qwen3:8b", "Qwen/Qwen3-8B", "/models/x.gguf", "a@b+c_d"] {
            assert!(is_plain_id(id), "{id}");
        }
        let long = "x".repeat(MAX_ID_BYTES + 1);
        for id in ["", "a b", "a\u{1b}[2J", "a\nb", "ä", "../x", "`id`", "$(id)", &long] {
            assert!(!is_plain_id(id), "{id:?}");
        }
    }

    #[test]
    fn models_for_searches_are_no_models_to_talk_to() {
        for id in ["nomic-embed-text", "text-Embedding-3", "bge-reranker-v2"] {
            assert!(!can_chat(id), "{id}");
        }
        assert!(can_chat("qwen3:8b"));
    }

    #[test]
    fn addresses_of_one_port_of_this_machine_are_the_same_server() {
        assert!(is_same_server("http://localhost:8080/v1", "http://127.0.0.1:8080"));
        assert!(is_same_server("http://[::1]:8080", "http://127.0.0.1:8080"));
        assert!(is_same_server("https://x.example/v1", "https://x.example:443"));
        assert!(!is_same_server("http://127.0.0.1:8081", "http://127.0.0.1:8080"));
        assert!(!is_same_server("http://gpu:8080", "http://127.0.0.1:8080"));
        assert!(!is_same_server("nonsense", "nonsense"));
    }

    #[test]
    fn of_an_address_only_the_server_is_shown() {
        assert_eq!(shown_address("https://x.example:8443/secret/v1"), "https://x.example:8443");
        assert_eq!(shown_address("http://127.0.0.1:8080/v1"), "http://127.0.0.1:8080");
    }
}
