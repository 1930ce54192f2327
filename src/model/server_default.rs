//! A model that its server chooses, because the user has named only the server.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use futures::{FutureExt as _, StreamExt as _};
use tokio::time::{Instant, sleep_until};

use super::endpoint::{Connect, Endpoint};
use super::http::{self, NO_CONNECTION};
use super::listing::{ListForm, ListedModel, Lister, PATIENT_LIST_TIMEOUT, shown_address};
use super::model_api::ModelApi;
use super::provider::Provider;
use super::retry::{RequestFailure, RetryHint};
use super::{Chunk, Error, Model, Prompt, ServerModel};

/// Time between two requests for the list of a server that is not ready yet.
const LIST_RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// Function that opens the model with an id of the server.
pub type OpenModel = Box<dyn Fn(&str) -> Result<Arc<dyn Model>, Error> + Send + Sync>;

/// A model that its server chooses: the usual model of the provider if the server has it, else the first one in the
/// server's list. The server is asked when the model is first needed.
pub struct ServerDefault {
    /// Id that names only the server.
    id: String,
    choice: Arc<ServerChoice>,
}

/// The choice of a server's model.
struct ServerChoice {
    provider: Provider,
    api: ModelApi,
    connect: Connect,
    /// Id of the provider's usual model.
    usual: Option<String>,
    open: OpenModel,
}

impl ServerDefault {
    /// Creates the model for a server; opens no connection yet. `usual` is the id of the provider's usual model.
    pub fn new(
        provider: Provider,
        api: ModelApi,
        connect: Connect,
        usual: Option<String>,
        open: OpenModel,
    ) -> Self {
        let choice = Arc::new(ServerChoice { provider, api, connect, usual, open });
        Self { id: format!("{provider}:"), choice }
    }
}

impl Model for ServerDefault {
    fn id(&self) -> &str {
        &self.id
    }

    fn ready(&self) -> Result<(), Error> {
        self.choice.endpoint().map(drop)
    }

    fn server_model(&self) -> BoxFuture<'static, Result<Option<ServerModel>, Error>> {
        let choice = Arc::clone(&self.choice);
        async move { choice.find().await.map(Some) }.boxed()
    }

    fn stream(&self, prompt: Prompt) -> BoxStream<'static, Result<Chunk, Error>> {
        let choice = Arc::clone(&self.choice);
        let stream = async move {
            let opened = choice.find().await.and_then(|found| (choice.open)(&found.id));
            match opened {
                Ok(model) => model.stream(prompt),
                Err(error) => stream::once(ready(Err(error))).boxed(),
            }
        };
        stream.flatten_stream().boxed()
    }
}

impl ServerChoice {
    fn endpoint(&self) -> Result<Endpoint, Error> {
        (self.connect)()
    }

    /// Fetches the server's list. A server of the user's own that is still loading its model, or has another fault that
    /// may pass, is asked again within the time of a patient list.
    async fn list(&self, endpoint: &Endpoint) -> Result<Vec<ListedModel>, RequestFailure> {
        let lister = Lister::patient();
        let deadline = Instant::now() + PATIENT_LIST_TIMEOUT;
        loop {
            let failure = match lister.try_list(self.api, endpoint, ListForm::Any).await {
                Ok(models) => return Ok(models),
                Err(failure) => failure,
            };
            let may_pass = failure.advice != RetryHint::Never && failure.reason != NO_CONNECTION;
            let next = Instant::now() + LIST_RETRY_INTERVAL;
            if !may_pass || !http::is_self_hosted(&endpoint.url) || next > deadline {
                return Err(failure);
            }
            sleep_until(next).await;
        }
    }

    async fn find(&self) -> Result<ServerModel, Error> {
        let endpoint = self.endpoint()?;
        let found = |id: &str, is_first| ServerModel {
            id: self.provider.qualify(id),
            address: shown_address(&endpoint.url),
            is_first,
        };
        let listed = match self.list(&endpoint).await {
            Ok(listed) => listed,
            Err(failure) => {
                let is_down = matches!(failure.error, Error::Unavailable(_));
                return match &self.usual {
                    // A gateway may list nothing, and have the usual models.
                    Some(usual) if !is_down || !http::is_self_hosted(&endpoint.url) => {
                        Ok(found(usual, false))
                    }
                    _ if failure.reason == NO_CONNECTION && http::is_local(&endpoint.url) => {
                        Err(Error::Unavailable(format!(
                            "Nothing answers at {}. Start the server, or correct the address.",
                            endpoint.url
                        )))
                    }
                    _ => Err(failure.error),
                };
            }
        };
        let usual = self.usual.iter().find(|usual| listed.iter().any(|it| it.id == **usual));
        if let Some(usual) = usual {
            return Ok(found(usual, false));
        }
        let first = listed.first().map(|first| found(&first.id, true));
        first.ok_or_else(|| {
            Error::Rejected(format!(
                "The server at {} lists no model that can chat. Load a model there, or name one with `--model \
                 {}:MODEL`.",
                shown_address(&endpoint.url),
                self.provider
            ))
        })
    }
}
