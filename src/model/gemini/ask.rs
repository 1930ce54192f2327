//! One answer, over as many requests as it takes.

use std::sync::Arc;

use super::answer::Answer;
use super::contents::{self, Refused};
use super::errors::{Report, Trouble};
use super::finish::{self, LEFT_OUT, Verdict};
use super::request::Request;
use super::{Inner, call};
use crate::model::again::Again;
use crate::model::asking::naming;
use crate::model::emit::Emit;
use crate::model::endpoint::Endpoint;
use crate::model::retry::{Advice, Failure, Policy};
use crate::model::stream::{self, Wrong, broke_off};
use crate::model::{Error, Finish, FinishReason, Prompt};

/// How many requests one answer may go on over; no model says more.
const MOST_REQUESTS: u32 = 64;

/// An answer that is asked for.
struct Asking {
    inner: Arc<Inner>,
    prompt: Prompt,
    emit: Emit,
    answer: Answer,
    nudge: Option<&'static str>,
    /// As whom the last request was made.
    endpoint: Option<Endpoint>,
    /// How many requests have failed, since the last that did not.
    failed: u32,
    /// How many answers were worthless.
    worthless: u32,
    /// How often the answer broke off after the last checkpoint, and how many those were.
    broken: u32,
    checkpoints: u32,
    /// How many requests have been continued.
    continued: u32,
}

/// Asks until there is an answer, or none to be had.
pub(super) async fn ask(inner: Arc<Inner>, prompt: Prompt, emit: Emit) -> Result<Finish, Error> {
    let mut asking = Asking {
        answer: Answer::new(inner.options.max_answer),
        inner,
        prompt,
        emit,
        nudge: None,
        endpoint: None,
        failed: 0,
        worthless: 0,
        broken: 0,
        checkpoints: 0,
        continued: 0,
    };
    // Servers repeat what they are told, keys too.
    match asking.until_done().await {
        Ok(mut reason) => {
            if let FinishReason::Refused(why) = &mut reason {
                asking.redact(why);
            }
            let usage = asking.answer.usage();
            let native = asking.answer.into_native(&asking.inner.model.id);
            Ok(Finish { reason, usage, native })
        }
        Err(mut error) => {
            asking.redact(error.text_mut());
            Err(error)
        }
    }
}

impl Inner {
    /// Asks for an answer to the prompt, in the plainest way.
    pub(super) fn request<'a>(&'a self, prompt: &'a Prompt, refused: &'a Refused) -> Request<'a> {
        Request {
            prompt,
            listener: self.listener(refused),
            generation: &self.generation,
            nudge: None,
            token: None,
        }
    }
}

impl Asking {
    async fn until_done(&mut self) -> Result<FinishReason, Error> {
        let after_results = Request::answers_calls(&self.prompt);
        loop {
            if let Err(trouble) = self.request().await {
                self.recover(trouble).await?;
                continue;
            }
            match finish::judge(&self.answer, after_results) {
                Verdict::Whole(reason) => return Ok(reason),
                Verdict::TooManyCalls => {
                    self.answer.note(LEFT_OUT);
                    return Ok(FinishReason::Stop);
                }
                Verdict::GoesOn => self.go_on()?,
                Verdict::BrokeOff => self.recover(broke_off().into()).await?,
                Verdict::Again(again) => self.again(again).await?,
                Verdict::Unsigned(error) => self.recover(Trouble::Signatures(error)).await?,
                Verdict::Failed(error) => return Err(error),
            }
        }
    }

    /// Makes one request and takes what it brings.
    async fn request(&mut self) -> Result<(), Trouble> {
        self.answer.begin_request();
        let endpoint = (self.inner.connect)()
            .map_err(|why| Trouble::terminal(Error::NotAuthenticated(why)))?;
        let result = self.exchange(&endpoint).await;
        self.endpoint = Some(endpoint);
        result
    }

    async fn exchange(&mut self, endpoint: &Endpoint) -> Result<(), Trouble> {
        let inner = Arc::clone(&self.inner);
        let refused = Arc::clone(&inner.refused.lock());
        let request = Request {
            nudge: self.nudge,
            token: self.answer.token(),
            ..inner.request(&self.prompt, &refused)
        };
        let body = request.body().map_err(Trouble::terminal)?;
        let response = call::post(&inner, endpoint, "streamGenerateContent?alt=sse", body).await?;
        if !response.status().is_success() {
            let report = call::report(response, inner.options.idle).await;
            return Err(report.meaning(inner.asked(&self.prompt)));
        }
        let read = stream::read(response, &mut self.answer, &mut self.emit, &inner.options).await;
        read.map_err(|wrong| self.trouble(wrong))
    }

    fn trouble(&self, wrong: Wrong) -> Trouble {
        match wrong {
            Wrong::Reported(json) => {
                Report::read(None, json.as_bytes()).meaning(self.inner.asked(&self.prompt))
            }
            Wrong::Garbled(why) => Trouble::Garbled(Error::BadAnswer(format!(
                "What the server sent is not what the Gemini API sends: {why}."
            ))),
            Wrong::Failed(failure) => failure.into(),
        }
    }

    /// Makes ready to ask again, or gives up.
    async fn recover(&mut self, trouble: Trouble) -> Result<(), Error> {
        let inner = Arc::clone(&self.inner);
        let options = &inner.options;
        match trouble {
            Trouble::Signatures(error) => {
                if !self.refuse_signatures() {
                    return Err(error);
                }
                let failure = Failure::passing("the model's signatures were refused", error);
                let once = Policy { attempts: 2, ..options.retry.clone() };
                self.retry(failure.advised(Advice::Now), &once, 1).await
            }
            Trouble::NoModel(error) => Err(self.with_models(error).await),
            Trouble::Garbled(error) => {
                self.worthless += 1;
                let failure = Failure::passing("the answer was garbled", error);
                self.retry(failure, &options.content_retry, self.worthless).await
            }
            Trouble::Failed(failure)
                if self.answer.has_begun() && self.answer.token().is_some() =>
            {
                self.reconnect(failure).await
            }
            Trouble::Failed(failure) => {
                self.failed += 1;
                self.retry(failure, &options.retry, self.failed).await
            }
        }
    }

    /// Remembers that the signatures are not accepted; false if none of them is new.
    fn refuse_signatures(&self) -> bool {
        let mut refused = self.inner.refused.lock();
        let before = refused.len();
        Arc::make_mut(&mut refused).extend(contents::signatures(&self.prompt.messages));
        refused.len() > before
    }

    /// Takes up at its last checkpoint an answer that broke off.
    async fn reconnect(&mut self, failure: Failure) -> Result<(), Error> {
        if self.checkpoints != self.answer.checkpoints() {
            self.checkpoints = self.answer.checkpoints();
            self.broken = 0;
        }
        self.broken += 1;
        let options = &self.inner.options;
        let policy = Policy { attempts: options.reconnects + 1, ..options.retry.clone() };
        let advice = match failure.advice {
            Advice::Unknown => Advice::Soon,
            advice => advice,
        };
        self.retry(failure.advised(advice), &policy, self.broken).await
    }

    async fn retry(
        &mut self,
        mut failure: Failure,
        policy: &Policy,
        failed: u32,
    ) -> Result<(), Error> {
        self.redact(&mut failure.reason);
        let again = self.answer.rewind();
        self.emit.retry(failure, policy, failed, again).await
    }

    /// Asks anew: what came is worthless.
    async fn again(&mut self, again: Again) -> Result<(), Error> {
        self.worthless += 1;
        self.nudge = again.nudge;
        let shown = self.answer.is_shown();
        self.answer.clear();
        let failure = Failure::passing(again.reason, Error::BadAnswer(again.error.to_owned()));
        let policy = &self.inner.options.content_retry;
        self.emit.retry(failure, policy, self.worthless, shown.then(Vec::new)).await
    }

    fn go_on(&mut self) -> Result<(), Error> {
        self.failed = 0;
        self.continued += 1;
        if self.continued < MOST_REQUESTS {
            return Ok(());
        }
        Err(Error::BadAnswer(format!(
            "The model's answer did not end within {MOST_REQUESTS} requests, and was given up."
        )))
    }

    /// The error, with the models that there are.
    async fn with_models(&self, error: Error) -> Error {
        let Ok(endpoint) = (self.inner.connect)() else { return error };
        naming(error, &call::list(&self.inner.http, &endpoint, 1000).await.unwrap_or_default())
    }

    fn redact(&self, text: &mut String) {
        if let Some(endpoint) = &self.endpoint {
            endpoint.redact(text);
        }
    }
}
