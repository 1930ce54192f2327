//! The request loop: sends requests to a provider's API until there is an answer or an error.
//!
//! The loop has everything that all providers share: retries, waits, answers that broke off, answers that cannot be
//! used, and answers that take several responses. A provider is an [`Api`]: it writes the request, reads the stream,
//! and classifies its errors.

use std::sync::Arc;

use futures::stream::BoxStream;
use reqwest::Request;

use super::emit::{self, Emitter};
use super::endpoint::{Connect, Endpoint};
use super::http::{self, Http};
use super::options::RequestOptions;
use super::report::Report;
use super::retry::{AttemptFailure, RequestFailure, RetryHint, RetryPolicy};
use super::stream::{self, Assemble, StreamError};
use super::unusable::UnusableAnswer;
use super::words::shortened;
use super::{Chunk, Error, Finish, FinishReason, Message, Prompt};

/// Maximum number of responses that one answer may take; no model needs more.
const MAX_RESPONSES: u32 = 64;
/// Maximum number of models that the error about an unknown model lists.
const MAX_LISTED_MODELS: usize = 30;
/// Maximum length of the reason for a retry, in bytes: people see it on one line.
const RETRY_REASON_BYTES: usize = 160;

/// A provider's API: what differs between providers.
pub(super) trait Api: Send + Sync + 'static {
    /// The answer as far as it has been received.
    type Answer: Assemble + Send;

    /// Returns the HTTP client, the options and the endpoint.
    fn client(&self) -> &ApiClient;

    /// Collects facts about the server and its model for later requests, while a request runs. The future is dropped
    /// when the request ends.
    fn probe(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// Collects the facts without which a request cannot be written.
    fn prepare(&self, _: &Endpoint) -> impl Future<Output = Result<(), RequestFailure>> + Send {
        std::future::ready(Ok(()))
    }

    /// Returns an empty answer.
    fn begin(&self) -> Self::Answer;

    /// Writes the request for an answer, or for the rest of an answer that goes on after `answer`. `nudge` is a text
    /// for the model, which follows the last message of the user.
    fn request(
        &self,
        endpoint: &Endpoint,
        prompt: &Prompt,
        nudge: Option<&str>,
        answer: &Self::Answer,
    ) -> Result<Request, Error>;

    /// Classifies an error that the server reports, and remembers the facts about the server that the error tells.
    fn classify(&self, report: &Report, endpoint: &Endpoint, prompt: &Prompt) -> AttemptFailure;

    /// Returns the message for a server on this machine that does not answer. With `None`, such a server is waited
    /// for like a remote one.
    fn not_running(&self, endpoint: &Endpoint) -> Option<String> {
        Some(format!(
            "Nothing answers at {}. Start the server, or correct the address.",
            endpoint.url
        ))
    }

    /// Decides what to do with an answer whose response has ended.
    fn answer_verdict(&self, answer: &mut Self::Answer, prompt: &Prompt) -> AnswerVerdict;

    /// Ends a complete answer. Returns the chunks that had to wait for the end: the calls of providers that may still
    /// reject an answer until it is complete.
    fn finish(
        &self,
        answer: Self::Answer,
        prompt: &Prompt,
        reason: FinishReason,
    ) -> (Vec<Chunk>, Finish);

    /// Fetches the ids of the endpoint's models.
    fn models(
        &self,
        endpoint: &Endpoint,
    ) -> impl Future<Output = Result<Vec<String>, Error>> + Send;
}

/// HTTP client, options and endpoint of one model.
pub(super) struct ApiClient {
    connect: Connect,
    pub(super) options: RequestOptions,
    pub(super) http: Http,
}

impl ApiClient {
    /// Creates a client; opens no connection yet.
    pub(super) fn new(connect: Connect, options: RequestOptions) -> Self {
        let http = Http::new(options.connect_timeout);
        Self { connect, options, http }
    }

    /// Looks up the current endpoint. The error says what is missing and what to do.
    pub(super) fn endpoint(&self) -> Result<Endpoint, Error> {
        (self.connect)()
    }

    /// Checks, without the network, that requests can be sent.
    pub(super) fn ready(&self) -> Result<(), Error> {
        self.endpoint()?.check()
    }
}

/// Verdict on an answer whose response has ended.
#[derive(Debug, PartialEq)]
pub(super) enum AnswerVerdict {
    /// The answer is complete.
    Whole(FinishReason),
    /// The answer continues in the response to another request.
    GoesOn,
    /// The answer is dropped, and the model asked again.
    Unusable(UnusableAnswer),
    /// The response ended, but reports a failure.
    Failed(AttemptFailure),
}

impl From<RequestFailure> for AnswerVerdict {
    fn from(failure: RequestFailure) -> Self {
        Self::Failed(failure.into())
    }
}

impl AnswerVerdict {
    /// Returns the verdict for an answer that another attempt would not improve.
    pub(super) fn terminal(error: Error) -> Self {
        RequestFailure::terminal(error).into()
    }
}

/// Returns `true` if the prompt ends with the results of calls. An empty answer is valid then: the work is done.
pub(super) fn follows_results(prompt: &Prompt) -> bool {
    matches!(prompt.messages.last().map(|last| &**last), Some(Message::Results(_)))
}

/// Streams the answer to a prompt.
pub(super) fn stream<A: Api>(
    api: Arc<A>,
    prompt: Prompt,
) -> BoxStream<'static, Result<Chunk, Error>> {
    emit::answer(|mut emitter| async move {
        match run(Arc::clone(&api), prompt, &mut emitter).await {
            Ok(finish) => Ok(finish),
            Err(PromptFailure::Failed(error)) => Err(error),
            Err(PromptFailure::OtherApi(trouble)) => Err(final_error(&*api, trouble).await),
        }
    })
}

/// A prompt that got no answer from an API.
#[derive(Debug)]
pub(super) enum PromptFailure {
    /// The requests failed, and no retry is left.
    Failed(Error),
    /// The server does not have this API, or does not have the model in it. Another API may have an answer; if none
    /// has, [`final_error`] returns the error.
    OtherApi(AttemptFailure),
}

impl From<Error> for PromptFailure {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// Sends requests until there is an answer or an error, and emits the chunks of the answer but for its end.
pub(super) async fn run<A: Api>(
    api: Arc<A>,
    prompt: Prompt,
    emitter: &mut Emitter,
) -> Result<Finish, PromptFailure> {
    let probed = Arc::clone(&api);
    let mut requests = Requests {
        prompt,
        emitter,
        nudge: None,
        endpoint: None,
        failed: 0,
        unusable: 0,
        broken: (0, 0),
        api,
    };
    let result = {
        let done = requests.until_done();
        tokio::pin!(done);
        tokio::select! {
            // The answer is polled first: the probe must not delay it.
            biased;
            result = &mut done => result,
            () = probed.probe() => done.await,
        }
    };
    // Servers repeat parts of requests in their messages, and also keys.
    match result {
        Ok(mut finish) => {
            if let FinishReason::Refused(why) = &mut finish.reason {
                requests.redact(why);
            }
            Ok(finish)
        }
        Err(PromptFailure::Failed(mut error)) => {
            requests.redact(error.text_mut());
            Err(error.into())
        }
        other => other,
    }
}

/// The requests for one answer.
struct Requests<'a, A> {
    api: Arc<A>,
    prompt: Prompt,
    emitter: &'a mut Emitter,
    nudge: Option<&'static str>,
    /// Endpoint and key used by the last request.
    endpoint: Option<Endpoint>,
    /// Number of failed requests since the last response that ended at a checkpoint, or since the beginning. Progress
    /// without a checkpoint does not reset the number, because the next failure undoes that progress.
    failed: u32,
    /// Number of answers that could not be used or parsed.
    unusable: u32,
    /// Number of times that the answer broke off after the last checkpoint, and the number of that checkpoint.
    broken: (u32, u32),
}

impl<A: Api> Requests<'_, A> {
    /// Sends requests until the answer is complete or a failure is final. After each response:
    /// - A complete answer is ended and returned.
    /// - An answer that goes on gets another request.
    /// - An unusable answer is dropped, and the model is asked again.
    /// - After a failure, the answer goes back to its last checkpoint, or to its beginning, and the request is sent
    ///   again.
    async fn until_done(&mut self) -> Result<Finish, PromptFailure> {
        let api = Arc::clone(&self.api);
        let mut answer = api.begin();
        let mut responses = 0;
        loop {
            let verdict = match self.exchange(&mut answer).await {
                Ok(()) => api.answer_verdict(&mut answer, &self.prompt),
                Err(trouble) => AnswerVerdict::Failed(trouble),
            };
            match verdict {
                AnswerVerdict::Whole(reason) => {
                    let (chunks, finish) = api.finish(answer, &self.prompt, reason);
                    for chunk in chunks {
                        self.emitter.send(chunk).await;
                    }
                    return Ok(finish);
                }
                AnswerVerdict::GoesOn => {
                    responses += 1;
                    if responses == MAX_RESPONSES {
                        return Err(endless().into());
                    }
                    // Without a checkpoint, the next failure undoes this progress, so the failures before it still
                    // count.
                    if answer.checkpoint().is_some() {
                        self.failed = 0;
                    }
                }
                AnswerVerdict::Unusable(unusable) => {
                    self.ask_again(unusable, answer.is_shown()).await?;
                    answer = api.begin();
                }
                AnswerVerdict::Failed(trouble) => self.recover(trouble, &mut answer).await?,
            }
        }
    }

    /// Sends one request and reads its response.
    async fn exchange(&mut self, answer: &mut A::Answer) -> Result<(), AttemptFailure> {
        let api = Arc::clone(&self.api);
        let ApiClient { options, http, .. } = api.client();
        // The endpoint is looked up for each request, so that a login in the meantime has an effect at once.
        let endpoint = api.client().endpoint().map_err(RequestFailure::terminal)?;
        self.endpoint = Some(endpoint.clone());
        api.prepare(&endpoint).await.map_err(|failure| self.unanswered(failure, &endpoint))?;
        let request = api.request(&endpoint, &self.prompt, self.nudge, answer);
        let request = request.map_err(RequestFailure::terminal)?;
        let sent = http.send(&endpoint, request, options.idle).await;
        let response = sent.map_err(|failure| self.unanswered(failure, &endpoint))?;
        if !response.status().is_success() {
            let report = Report::from_response(response, options.idle).await;
            return Err(api.classify(&report, &endpoint, &self.prompt));
        }
        let read = stream::read(response, answer, self.emitter, options).await;
        read.map_err(|wrong| match wrong {
            StreamError::Reported(json) => {
                let report = Report::read(None, json.as_bytes());
                api.classify(&report, &endpoint, &self.prompt)
            }
            StreamError::Garbled(why) => AttemptFailure::Garbled(Error::BadAnswer(format!(
                "The response breaks the rules of the API: {why}. Try again, or try another model."
            ))),
            StreamError::Failed(failure) => failure.into(),
        })
    }

    /// Makes a failure final if a server on this machine is not running, because waiting would not start it.
    fn unanswered(&self, failure: RequestFailure, endpoint: &Endpoint) -> RequestFailure {
        if failure.reason != http::NO_CONNECTION || !http::is_local(&endpoint.url) {
            return failure;
        }
        match self.api.not_running(endpoint) {
            Some(why) => RequestFailure::terminal(Error::Unavailable(why)),
            None => failure,
        }
    }

    /// Rewinds the answer and waits until the next attempt is due. Returns the error if there is no further attempt.
    async fn recover(
        &mut self,
        trouble: AttemptFailure,
        answer: &mut A::Answer,
    ) -> Result<(), PromptFailure> {
        let api = Arc::clone(&self.api);
        let options = &api.client().options;
        // This must precede the rewind, which forgets whether the failed request has brought anything.
        let resumes = answer.checkpoint().filter(|_| answer.has_begun());
        let void = answer.rewind();
        let trouble = match trouble {
            // An API that has begun to answer serves the model, so the error is no reason to try the other API.
            AttemptFailure::OtherApi(trouble) if void.is_some() => *trouble,
            trouble => trouble,
        };
        match trouble {
            AttemptFailure::Failed(failure) if failure.advice == RetryHint::Now => {
                if failure.reason.is_empty() && void.is_none() {
                    return Ok(());
                }
                Ok(self.adapt(failure, void).await?)
            }
            AttemptFailure::NoModel(error) => {
                Err(with_models(&*api, self.endpoint.as_ref(), error).await.into())
            }
            AttemptFailure::OtherApi(trouble) => Err(PromptFailure::OtherApi(*trouble)),
            AttemptFailure::Garbled(error) => {
                self.unusable += 1;
                let failure = RequestFailure::passing("unreadable answer", error);
                Ok(self.emitter.retry(failure, &options.content_retry, self.unusable, void).await?)
            }
            AttemptFailure::Failed(mut failure) => {
                self.redact(&mut failure.reason);
                // This must follow the redaction, which does not recognise half of a key.
                failure.reason = shortened(&failure.reason, RETRY_REASON_BYTES);
                if let Some(checkpoint) = resumes {
                    return Ok(self.resume(failure, checkpoint, void).await?);
                }
                self.failed += 1;
                // The provider charges for an answer that has begun, so such an answer gets only a few attempts.
                let policy = match void {
                    Some(_) => RetryPolicy {
                        attempts: options.content_retry.attempts,
                        ..options.retry.clone()
                    },
                    None => options.retry.clone(),
                };
                Ok(self.emitter.retry(failure, &policy, self.failed, void).await?)
            }
        }
    }

    /// Announces a request that leaves out the part that the server refused. This does not count as a retry: each
    /// part is left out only once, so the requests come to an end.
    async fn adapt(
        &mut self,
        mut failure: RequestFailure,
        void: Option<Vec<Chunk>>,
    ) -> Result<(), Error> {
        if failure.reason.is_empty() {
            "request adapted to the server".clone_into(&mut failure.reason);
        }
        let retry = self.api.client().options.retry.clone();
        let policy = RetryPolicy { attempts: self.failed + 2, ..retry };
        self.emitter.retry(failure, &policy, self.failed + 1, void).await
    }

    /// Waits until an answer that broke off can go on at its checkpoint. Attempts are counted for each checkpoint:
    /// long answers break off more often than short answers.
    async fn resume(
        &mut self,
        failure: RequestFailure,
        checkpoint: u32,
        void: Option<Vec<Chunk>>,
    ) -> Result<(), Error> {
        let (broken, since) = self.broken;
        let broken = if since == checkpoint { broken + 1 } else { 1 };
        self.broken = (broken, checkpoint);
        let options = &self.api.client().options;
        let policy = RetryPolicy { attempts: options.reconnects + 1, ..options.retry.clone() };
        let advice = match failure.advice {
            RetryHint::Unknown => RetryHint::Soon,
            advice => advice,
        };
        self.emitter.retry(failure.advised(advice), &policy, broken, void).await
    }

    /// Waits before the model is asked again for a usable answer, with the nudge of the unusable one.
    async fn ask_again(&mut self, unusable: UnusableAnswer, shown: bool) -> Result<(), Error> {
        self.unusable += 1;
        self.nudge = unusable.nudge;
        let error = Error::BadAnswer(unusable.error.to_owned());
        let failure = RequestFailure::passing(unusable.reason, error);
        let policy = &self.api.client().options.content_retry;
        self.emitter.retry(failure, policy, self.unusable, shown.then(Vec::new)).await
    }

    fn redact(&self, text: &mut String) {
        if let Some(endpoint) = &self.endpoint {
            endpoint.redact(text);
        }
    }
}

/// Returns the error for a failure that no other API could mend.
pub(super) async fn final_error<A: Api>(api: &A, trouble: AttemptFailure) -> Error {
    let endpoint = api.client().endpoint().ok();
    let mut error = match trouble {
        AttemptFailure::NoModel(error) => with_models(api, endpoint.as_ref(), error).await,
        trouble => trouble.into_error(),
    };
    if let Some(endpoint) = endpoint {
        endpoint.redact(error.text_mut());
    }
    error
}

/// Adds the ids of the endpoint's models to an error, if they can be fetched.
async fn with_models<A: Api>(api: &A, endpoint: Option<&Endpoint>, mut error: Error) -> Error {
    let Some(endpoint) = endpoint else { return error };
    let models = api.models(endpoint).await.unwrap_or_default();
    if !models.is_empty() {
        let more = if models.len() > MAX_LISTED_MODELS { ", …" } else { "" };
        let names = models[..models.len().min(MAX_LISTED_MODELS)].join(", ");
        error.text_mut().push_str(&format!(" Available models: {names}{more}."));
    }
    error
}

fn endless() -> Error {
    Error::BadAnswer(format!(
        "The model's answer did not end within {MAX_RESPONSES} requests, and was dropped. Ask for less \
         at once, or try another model."
    ))
}
