//! Asks an API until there is an answer or none to be had.

use std::sync::Arc;

use futures::stream::BoxStream;
use reqwest::Request;

use super::again::Again;
use super::emit::{self, Emit};
use super::endpoint::{Connect, Endpoint};
use super::http::{self, Http};
use super::options::Options;
use super::report::Report;
use super::retry::{Advice, Failure, Policy};
use super::stream::{self, Assemble, Wrong};
use super::{Chunk, Error, Finish, FinishReason, Prompt};

/// How many responses one answer may go on over.
const MOST_RESPONSES: u32 = 64;
/// How many models are named when one is not found.
const NAMED: usize = 30;

/// What an API does in its own way.
pub(super) trait Api: Send + Sync + 'static {
    /// An answer as far as it has come.
    type Answer: Assemble + Send;

    /// How it is reached.
    fn client(&self) -> &Client;

    /// Finds out, beside the request that runs, what may be of use later. It is given up when that
    /// has ended.
    fn look(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// Finds out what must be known for a request.
    fn prepare(&self, _: &Endpoint) -> impl Future<Output = Result<(), Failure>> + Send {
        std::future::ready(Ok(()))
    }

    /// The request for an answer, as far as it has come; `nudge` is said beside what the user said
    /// last.
    fn request(
        &self,
        endpoint: &Endpoint,
        prompt: &Prompt,
        nudge: Option<&str>,
        answer: &Self::Answer,
    ) -> Result<Request, Error>;

    /// An answer of which nothing has come.
    fn begin(&self) -> Self::Answer;

    /// Whether something has been shown that would have to be taken back.
    fn is_shown(answer: &Self::Answer) -> bool;

    /// What an error means.
    fn trouble(&self, report: &Report, endpoint: &Endpoint, prompt: &Prompt) -> Trouble;

    /// What is said if nobody answers on this machine.
    fn nobody(&self, endpoint: &Endpoint) -> String;

    /// What to do with an answer that has ended.
    fn judge(&self, answer: Self::Answer, prompt: &Prompt) -> Verdict<Self::Answer>;

    /// The ids of the models that there are.
    fn models(
        &self,
        endpoint: &Endpoint,
    ) -> impl Future<Output = Result<Vec<String>, Error>> + Send;
}

/// How an API is reached.
pub(super) struct Client {
    connect: Connect,
    pub(super) options: Options,
    pub(super) http: Http,
}

impl Client {
    /// Nothing is connected yet.
    pub(super) fn new(connect: Connect, options: Options) -> Self {
        let http = Http::new(options.connect_timeout);
        Self { connect, options, http }
    }

    /// Where it is now; or what is missing and what to do.
    pub(super) fn endpoint(&self) -> Result<Endpoint, String> {
        (self.connect)()
    }

    /// Whether it can be asked at all.
    pub(super) fn ready(&self) -> Result<(), Error> {
        self.endpoint().map_err(Error::NotAuthenticated)?.check()
    }
}

/// What to do with an answer that has ended.
#[derive(Debug)]
pub(super) enum Verdict<A> {
    /// It is whole; what is still to be shown of it comes first.
    Whole(Vec<Chunk>, Finish),
    /// It goes on in another response.
    GoesOn(A),
    /// It is worthless; the model is asked again.
    Again(Again),
    /// The request failed after all.
    Failed(Failure),
}

/// A request that failed, or an answer that makes no sense.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The request, or the connection.
    Failed(Failure),
    /// The server wants it otherwise, and that will be done.
    Learnt,
    /// The model is unknown.
    NoModel(Error),
    /// The stream is not what the API promises.
    Garbled(Error),
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// An answer that is asked for.
struct Asking<A> {
    api: Arc<A>,
    prompt: Prompt,
    emit: Emit,
    nudge: Option<&'static str>,
    /// As whom the last request was made.
    endpoint: Option<Endpoint>,
    /// How many requests have failed.
    failed: u32,
    /// How many answers were worthless.
    worthless: u32,
}

/// The answer to a prompt.
pub(super) fn ask<A: Api>(api: Arc<A>, prompt: Prompt) -> BoxStream<'static, Result<Chunk, Error>> {
    emit::answer(|emit| run(api, prompt, emit))
}

async fn run<A: Api>(api: Arc<A>, prompt: Prompt, emit: Emit) -> Result<Finish, Error> {
    let looked = Arc::clone(&api);
    let mut asking =
        Asking { api, prompt, emit, nudge: None, endpoint: None, failed: 0, worthless: 0 };
    let came = {
        let done = asking.until_done();
        tokio::pin!(done);
        tokio::select! {
            biased;
            came = &mut done => came,
            () = looked.look() => done.await,
        }
    };
    // Servers repeat what they are told, keys too.
    match came {
        Ok(mut finish) => {
            if let FinishReason::Refused(why) = &mut finish.reason {
                asking.redact(why);
            }
            Ok(finish)
        }
        Err(mut error) => {
            asking.redact(error.text_mut());
            Err(error)
        }
    }
}

impl<A: Api> Asking<A> {
    async fn until_done(&mut self) -> Result<Finish, Error> {
        let (mut begun, mut responses) = (None, 0);
        loop {
            let mut answer = begun.take().unwrap_or_else(|| self.api.begin());
            let came = self.exchange(&mut answer).await;
            let shown = A::is_shown(&answer);
            let trouble = match came.map(|()| self.api.judge(answer, &self.prompt)) {
                Ok(Verdict::Whole(chunks, finish)) => {
                    for chunk in chunks {
                        self.emit.send(chunk).await;
                    }
                    return Ok(finish);
                }
                Ok(Verdict::GoesOn(answer)) => {
                    responses += 1;
                    if responses == MOST_RESPONSES {
                        return Err(endless());
                    }
                    begun = Some(answer);
                    continue;
                }
                Ok(Verdict::Again(again)) => {
                    self.again(again, shown).await?;
                    continue;
                }
                Ok(Verdict::Failed(failure)) => failure.into(),
                Err(trouble) => trouble,
            };
            self.recover(trouble, shown).await?;
        }
    }

    /// Makes one request and takes what it brings.
    async fn exchange(&mut self, answer: &mut A::Answer) -> Result<(), Trouble> {
        let api = Arc::clone(&self.api);
        let Client { options, http, .. } = api.client();
        let endpoint = api.client().endpoint();
        let endpoint = endpoint.map_err(|why| Failure::terminal(Error::NotAuthenticated(why)))?;
        self.endpoint = Some(endpoint.clone());
        api.prepare(&endpoint).await.map_err(|failure| self.nobody(failure, &endpoint))?;
        let request = api.request(&endpoint, &self.prompt, self.nudge, answer);
        let request = request.map_err(Failure::terminal)?;
        let sent = http.send(request, options.idle).await;
        let response = sent.map_err(|failure| self.nobody(failure, &endpoint))?;
        if !response.status().is_success() {
            let report = Report::of(response, options.idle).await;
            return Err(api.trouble(&report, &endpoint, &self.prompt));
        }
        let read = stream::read(response, answer, &mut self.emit, options).await;
        read.map_err(|wrong| match wrong {
            Wrong::Reported(json) => {
                let report = Report::read(None, json.as_bytes());
                api.trouble(&report, &endpoint, &self.prompt)
            }
            Wrong::Garbled(why) => Trouble::Garbled(Error::BadAnswer(format!(
                "What the server sent is not what its API sends: {why}."
            ))),
            Wrong::Failed(failure) => failure.into(),
        })
    }

    /// A server on this machine that is not there is not running, and will not be by waiting.
    fn nobody(&self, failure: Failure, endpoint: &Endpoint) -> Failure {
        if failure.reason != http::NO_CONNECTION || !http::is_here(&endpoint.url) {
            return failure;
        }
        Failure::terminal(Error::Unavailable(self.api.nobody(endpoint)))
    }

    /// Makes ready to ask again, or gives up.
    async fn recover(&mut self, trouble: Trouble, shown: bool) -> Result<(), Error> {
        let api = Arc::clone(&self.api);
        let options = &api.client().options;
        let discard = shown.then(Vec::new);
        match trouble {
            Trouble::Learnt if !shown => Ok(()),
            Trouble::Learnt => {
                let error = Error::Rejected("The server did not accept the request.".to_owned());
                let failure = Failure::passing("the server wants it otherwise", error);
                let policy = Policy { attempts: self.failed + 2, ..options.retry.clone() };
                let failure = failure.advised(Advice::Now);
                self.emit.retry(failure, &policy, self.failed + 1, discard).await
            }
            Trouble::NoModel(error) => Err(self.with_models(error).await),
            Trouble::Garbled(error) => {
                self.worthless += 1;
                let failure = Failure::passing("the answer was garbled", error);
                self.emit.retry(failure, &options.content_retry, self.worthless, discard).await
            }
            Trouble::Failed(mut failure) => {
                self.failed += 1;
                self.redact(&mut failure.reason);
                self.emit.retry(failure, &options.retry, self.failed, discard).await
            }
        }
    }

    /// Asks anew: what came is worthless.
    async fn again(&mut self, again: Again, shown: bool) -> Result<(), Error> {
        self.worthless += 1;
        self.nudge = again.nudge;
        let failure = Failure::passing(again.reason, Error::BadAnswer(again.error.to_owned()));
        let policy = &self.api.client().options.content_retry;
        self.emit.retry(failure, policy, self.worthless, shown.then(Vec::new)).await
    }

    /// The error, with the models that there are.
    async fn with_models(&self, error: Error) -> Error {
        let Some(endpoint) = &self.endpoint else { return error };
        naming(error, &self.api.models(endpoint).await.unwrap_or_default())
    }

    fn redact(&self, text: &mut String) {
        if let Some(endpoint) = &self.endpoint {
            endpoint.redact(text);
        }
    }
}

/// The error, with the models that there are, if that is known.
pub(super) fn naming(mut error: Error, models: &[String]) -> Error {
    if !models.is_empty() {
        let more = if models.len() > NAMED { ", …" } else { "" };
        let names = models[..models.len().min(NAMED)].join(", ");
        let there_are = format!(" There are: {names}{more}.");
        error.text_mut().push_str(&there_are);
    }
    error
}

fn endless() -> Error {
    Error::BadAnswer(format!(
        "The model's answer did not end within {MOST_RESPONSES} requests, and was given up."
    ))
}
