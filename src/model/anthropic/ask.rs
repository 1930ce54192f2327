//! One answer, over as many requests as it takes.

use std::sync::Arc;

use serde_json::Value;

use super::answer::Answer;
use super::errors::{Report, Trouble};
use super::finish::{self, Verdict};
use super::request::Request;
use super::{Inner, call, messages};
use crate::model::again::Again;
use crate::model::emit::Emit;
use crate::model::endpoint::Endpoint;
use crate::model::retry::{Advice, Failure, Policy};
use crate::model::stream::{self, Wrong, broke_off};
use crate::model::{Chunk, Error, Finish, FinishReason, Message, Prompt};

/// How many requests one answer may go on over.
const MOST_REQUESTS: u32 = 64;
/// How many models are named when one is not found.
const NAMED: usize = 30;

/// An answer that is asked for.
struct Asking {
    inner: Arc<Inner>,
    prompt: Prompt,
    emit: Emit,
    answer: Answer,
    /// What there is of it from the requests before.
    so_far: Vec<Value>,
    max_tokens: u64,
    nudge: Option<&'static str>,
    /// As whom the last request was made.
    endpoint: Option<Endpoint>,
    /// How many requests have failed, since the last that did not.
    failed: u32,
    /// How many answers were worthless.
    worthless: u32,
    /// How many requests have been continued.
    continued: u32,
}

/// Asks until there is an answer, or none to be had.
pub(super) async fn ask(inner: Arc<Inner>, prompt: Prompt, emit: Emit) -> Result<Finish, Error> {
    let mut asking = Asking {
        answer: Answer::new(inner.options.max_answer),
        so_far: Vec::new(),
        max_tokens: inner.max_tokens,
        inner,
        prompt,
        emit,
        nudge: None,
        endpoint: None,
        failed: 0,
        worthless: 0,
        continued: 0,
    };
    // Servers repeat what they are told, keys too.
    match asking.until_done().await {
        Ok(mut reason) => {
            if let FinishReason::Refused(why) = &mut reason {
                asking.redact(why);
            } else {
                asking.hand_out_calls().await;
            }
            let usage = asking.answer.usage();
            let native = asking.answer.native(&asking.inner.model.id);
            Ok(Finish { reason, usage, native })
        }
        Err(mut error) => {
            asking.redact(error.text_mut());
            Err(error)
        }
    }
}

impl Asking {
    async fn until_done(&mut self) -> Result<FinishReason, Error> {
        let last = self.prompt.messages.last();
        let after_results = last.is_some_and(|last| matches!(&**last, Message::Results(_)));
        loop {
            if let Err(trouble) = self.request().await {
                self.recover(trouble).await?;
                continue;
            }
            match finish::judge(&self.answer, after_results) {
                Verdict::Whole(reason) => return Ok(reason),
                Verdict::GoesOn => self.go_on()?,
                Verdict::BrokeOff => self.recover(broke_off().into()).await?,
                Verdict::Again(again) => self.again(again).await?,
                Verdict::Failed(error) => return Err(error),
            }
        }
    }

    /// Calls are worth something only when the answer is whole: until then it may be refused.
    async fn hand_out_calls(&mut self) {
        for call in self.answer.calls(&self.prompt.tools) {
            self.emit.send(Chunk::Call(call)).await;
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
            prompt: &self.prompt,
            listener: inner.listener(&refused),
            thinking: &inner.thinking,
            more: &inner.more,
            max_tokens: self.max_tokens,
            nudge: self.nudge,
            so_far: &self.so_far,
        };
        let body = request.body().map_err(Trouble::terminal)?;
        let response = call::post(&inner, endpoint, "/messages", body).await?;
        if !response.status().is_success() {
            let report = call::report(response, inner.options.idle).await;
            return Err(report.meaning(inner.asked(&self.prompt)));
        }
        let read = stream::read(response, &mut self.answer, &mut self.emit, &inner.options).await;
        read.map_err(|wrong| self.trouble(wrong))
    }

    fn trouble(&self, wrong: Wrong) -> Trouble {
        match wrong {
            Wrong::Reported(json) => Report::of(&json).meaning(self.inner.asked(&self.prompt)),
            Wrong::Garbled(why) => Trouble::Garbled(Error::BadAnswer(format!(
                "What the server sent is not what the Anthropic API sends: {why}."
            ))),
            Wrong::Failed(failure) => failure.into(),
        }
    }

    /// Makes ready to ask again, or gives up.
    async fn recover(&mut self, trouble: Trouble) -> Result<(), Error> {
        let inner = Arc::clone(&self.inner);
        let options = &inner.options;
        match trouble {
            Trouble::Signatures(error) if self.refuse_signatures() => {
                self.at_once("the model's earlier thinking was refused", error).await
            }
            Trouble::Room(room, error) if room < self.max_tokens => {
                self.max_tokens = room;
                self.at_once("there is room for a shorter answer only", error).await
            }
            Trouble::Signatures(error) | Trouble::Room(_, error) => Err(error),
            Trouble::NoModel(error) => Err(self.with_models(error).await),
            Trouble::Garbled(error) => {
                self.worthless += 1;
                let failure = Failure::passing("the answer was garbled", error);
                self.retry(failure, &options.content_retry, self.worthless).await
            }
            Trouble::Failed(failure) => {
                self.failed += 1;
                self.retry(failure, &options.retry, self.failed).await
            }
        }
    }

    /// Remembers that the thinking is not accepted; false if none of it is new.
    fn refuse_signatures(&self) -> bool {
        let mut refused = self.inner.refused.lock();
        let before = refused.len();
        let signatures = messages::signatures(&self.prompt.messages).map(str::to_owned);
        Arc::make_mut(&mut refused).extend(signatures);
        refused.len() > before
    }

    /// Asks again with something changed.
    async fn at_once(&mut self, reason: &str, error: Error) -> Result<(), Error> {
        let failure = Failure::passing(reason, error).advised(Advice::Now);
        let once = Policy { attempts: 2, ..self.inner.options.retry.clone() };
        self.retry(failure, &once, 1).await
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
        self.so_far.clear();
        let discard = self.answer.clear().then(Vec::new);
        let failure = Failure::passing(again.reason, Error::BadAnswer(again.error.to_owned()));
        let policy = &self.inner.options.content_retry;
        self.emit.retry(failure, policy, self.worthless, discard).await
    }

    /// Sends back what came, and has the model go on.
    fn go_on(&mut self) -> Result<(), Error> {
        self.failed = 0;
        self.continued += 1;
        self.so_far = self.answer.parts();
        if self.continued < MOST_REQUESTS {
            return Ok(());
        }
        Err(Error::BadAnswer(format!(
            "The model's answer did not end within {MOST_REQUESTS} requests, and was given up."
        )))
    }

    /// The error, with the models that there are.
    async fn with_models(&self, mut error: Error) -> Error {
        let Ok(endpoint) = (self.inner.connect)() else { return error };
        let models = call::list(&self.inner.http, &endpoint, 1000).await.unwrap_or_default();
        if !models.is_empty() {
            let more = if models.len() > NAMED { ", …" } else { "" };
            let names = models[..models.len().min(NAMED)].join(", ");
            let there_are = format!(" There are: {names}{more}.");
            error.text_mut().push_str(&there_are);
        }
        error
    }

    fn redact(&self, text: &mut String) {
        if let Some(endpoint) = &self.endpoint {
            endpoint.redact(text);
        }
    }
}
