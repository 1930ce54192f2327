//! The Responses API of `OpenAI`, which its current models need for tools.
//!
//! Nothing is stored at the server: each request has the whole conversation, with the model's encrypted reasoning as it
//! came.

mod answer;
mod events;
mod finish;
mod input;
mod item;
mod quirks;
mod request;

use std::sync::Arc;

use parking_lot::Mutex;
use reqwest::Method;

use self::answer::ResponsesAnswer;
use self::input::{RefusedReasoning, ResponsesTarget};
use self::quirks::ResponsesQuirk;
use self::request::ResponsesRequest;
use super::facts::{self, KEY_HEADER};
use super::quirks::{CurrentQuirks, ServerQuirks};
use super::server::OpenAiServer;
use crate::endpoint::Endpoint;
use crate::report::Report;
use crate::request_loop::{AnswerVerdict, Api, ApiClient, follows_results};
use crate::retry::{AttemptFailure, RequestFailure};
use crate::{Chunk, Error, Finish, FinishReason, Prompt};

/// The Responses API of one model.
pub(super) struct ResponsesApi {
    server: Arc<OpenAiServer>,
    /// Quirks of the server of the last request.
    quirks: CurrentQuirks<ResponsesQuirk>,
    /// Reasoning that a server has refused, and which is not sent again.
    refused: Mutex<Arc<RefusedReasoning>>,
}

impl ResponsesApi {
    /// Creates the API.
    pub(super) fn new(server: Arc<OpenAiServer>) -> Self {
        Self { server, quirks: CurrentQuirks::default(), refused: Mutex::default() }
    }

    /// Returns the limit of an answer that follows from the context window, unless the server refuses one.
    fn derived_limit(&self, endpoint: &Endpoint, prompt: &Prompt) -> Option<u64> {
        let is_refused = self.quirks(endpoint).has(ResponsesQuirk::NoAnswerLimit);
        self.server.derived_limit(endpoint, prompt).filter(|_| !is_refused)
    }

    /// Returns the server's known quirks.
    fn quirks(&self, endpoint: &Endpoint) -> Arc<ServerQuirks<ResponsesQuirk>> {
        self.quirks.at(endpoint, quirks::assumed)
    }

    /// Learns a quirk from an error; returns `true` if there was one to learn.
    fn learn(&self, report: &Report, endpoint: &Endpoint, prompt: &Prompt) -> bool {
        self.quirks.learn(|_| {
            quirks::suspects(report, self.server.features(endpoint, prompt), &endpoint.url)
        })
    }

    /// Leaves out the conversation's reasoning from now on; returns `false` if none of it is new. The error has another
    /// cause then.
    fn refuse_reasoning(&self, prompt: &Prompt) -> bool {
        let mut refused = self.refused.lock();
        let before = refused.len();
        Arc::make_mut(&mut refused).extend(input::reasoning(&prompt.messages));
        refused.len() > before
    }
}

impl Api for ResponsesApi {
    type Answer = ResponsesAnswer;

    fn client(&self) -> &ApiClient {
        &self.server.client
    }

    async fn probe(&self) {
        self.server.probe().await;
    }

    async fn prepare(&self, endpoint: &Endpoint) -> Result<(), RequestFailure> {
        self.server.prepare(endpoint).await;
        Ok(())
    }

    fn request(
        &self,
        endpoint: &Endpoint,
        prompt: &Prompt,
        nudge: Option<&str>,
        _: &ResponsesAnswer,
    ) -> Result<reqwest::Request, Error> {
        self.server.check(endpoint, prompt)?;
        let (quirks, refused) = (self.quirks(endpoint), Arc::clone(&self.refused.lock()));
        let refused_images = self.server.refused_images();
        let limit = self.server.set_limit().or_else(|| self.derived_limit(endpoint, prompt));
        let body = ResponsesRequest {
            prompt,
            target: ResponsesTarget {
                model: &self.server.model.id,
                quirks: &quirks,
                refused: &refused,
                refused_images: &refused_images,
            },
            effort: self.server.effort(prompt)?,
            max_output_tokens: limit,
            answer_schema: self
                .server
                .model
                .enforced_schema(endpoint, prompt)
                .filter(|_| !quirks.has(ResponsesQuirk::NoAnswerSchema)),
            nudge,
        }
        .body()?;
        let mut request = endpoint.request(Method::POST, "/responses", KEY_HEADER)?;
        *request.body_mut() = Some(body.into());
        Ok(request)
    }

    fn begin(&self) -> ResponsesAnswer {
        ResponsesAnswer::new(self.server.client.options.max_answer)
    }

    fn classify(&self, report: &Report, endpoint: &Endpoint, prompt: &Prompt) -> AttemptFailure {
        let asked = endpoint.request_info(&self.server.model.id);
        if quirks::refuses_reasoning(report) && self.refuse_reasoning(prompt) {
            return RequestFailure::adapted("").into();
        }
        let is_limited = self.derived_limit(endpoint, prompt).is_some();
        if report.may_pass(asked, is_limited)
            && (self.server.refuse_images(report, prompt) || self.learn(report, endpoint, prompt))
        {
            return RequestFailure::adapted("").into();
        }
        let trouble = report.classify(asked);
        // Gateways name the address of chat completions in other errors, too: "Server error '503 Service Unavailable' for
        // url '.../v1/chat/completions'".
        let names_other = report.says(&["v1/chat/completions"]) || report.is_other_operation();
        let names_other = matches!(report.status, 400 | 422) && names_other;
        // Servers without this API answer with any of these.
        let lacks_api = matches!(report.status, 404 | 405 | 501) && !report.is_unknown_deployment();
        if lacks_api || names_other {
            return AttemptFailure::OtherApi(Box::new(trouble));
        }
        OpenAiServer::explain(trouble, report, endpoint, prompt)
    }

    fn answer_verdict(&self, answer: &mut ResponsesAnswer, prompt: &Prompt) -> AnswerVerdict {
        finish::answer_verdict(answer, follows_results(prompt))
    }

    fn finish(
        &self,
        answer: ResponsesAnswer,
        prompt: &Prompt,
        reason: FinishReason,
    ) -> (Vec<Chunk>, Finish) {
        // Calls count only when the answer is complete: until then, the provider may refuse it.
        let calls = match reason {
            FinishReason::Refused(_) => Vec::new(),
            _ => answer.calls(&prompt.tools).map(Chunk::Call).collect(),
        };
        let (usage, native) = (answer.usage(), answer.native(&self.server.model.id));
        (calls, Finish { reason, usage, native })
    }

    async fn models(&self, endpoint: &Endpoint) -> Result<Vec<String>, Error> {
        facts::models(&self.server.client.http, endpoint).await
    }
}
