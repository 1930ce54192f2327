//! Chat completions, the API of nearly every server: any address, any model.

mod answer;
mod messages;
mod quirks;
mod request;
mod wire;

use std::sync::Arc;

use reqwest::Method;

use self::answer::OpenAiAnswer;
use self::messages::BACKEND_NAME;
use self::quirks::Quirk;
use self::request::ChatCompletionRequest;
use super::facts::{self, KEY_HEADER};
use super::quirks::{CurrentQuirks, ServerQuirks};
use super::server::OpenAiServer;
use crate::chat;
use crate::chat::answer::ChatAnswer;
use crate::chat::echo::AnswerSource;
use crate::endpoint::Endpoint;
use crate::report::Report;
use crate::request_loop::{AnswerVerdict, Api, ApiClient};
use crate::retry::{AttemptFailure, RequestFailure};
use crate::{Chunk, Error, Finish, FinishReason, Prompt};

/// Chat completions of one model.
pub(super) struct CompletionsApi {
    server: Arc<OpenAiServer>,
    /// Quirks of the server of the last request.
    quirks: CurrentQuirks<Quirk>,
}

impl CompletionsApi {
    /// Creates the API.
    pub(super) fn new(server: Arc<OpenAiServer>) -> Self {
        Self { server, quirks: CurrentQuirks::default() }
    }
}

impl Api for CompletionsApi {
    type Answer = OpenAiAnswer;

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
        _: &OpenAiAnswer,
    ) -> Result<reqwest::Request, Error> {
        self.server.check(endpoint, prompt)?;
        let (server, refused_images) = (self.quirks(endpoint), self.server.refused_images());
        let limit = self.server.set_limit().or_else(|| self.derived_limit(endpoint, prompt));
        let request = ChatCompletionRequest {
            prompt,
            model: &self.server.model.id,
            server: &server,
            refused_images: &refused_images,
            effort: self.server.effort(prompt)?.filter(|_| !server.has(Quirk::NoEffort)),
            output_tokens: limit.unwrap_or(0),
            answer_schema: self
                .server
                .model
                .enforced_schema(endpoint, prompt)
                .filter(|_| !server.has(Quirk::NoAnswerSchema)),
            nudge,
        };
        let body = request.body()?;
        let mut request = endpoint.request(Method::POST, "/chat/completions", KEY_HEADER)?;
        *request.body_mut() = Some(body.into());
        Ok(request)
    }

    fn begin(&self) -> OpenAiAnswer {
        OpenAiAnswer(ChatAnswer::new(self.server.client.options.max_answer))
    }

    fn classify(&self, report: &Report, endpoint: &Endpoint, prompt: &Prompt) -> AttemptFailure {
        let asked = endpoint.request_info(&self.server.model.id);
        // This test comes before the one for quirks: a message that points to `v1/responses` also names fields of that
        // API, which would be taken for fields that the server refuses.
        let names_other = report.says(&["v1/responses"]) || report.is_other_operation();
        if matches!(report.status, 400 | 422) && names_other {
            return AttemptFailure::OtherApi(Box::new(report.classify(asked)));
        }
        let is_limited = self.derived_limit(endpoint, prompt).is_some();
        if report.may_pass(asked, is_limited)
            && (self.server.refuse_images(report, prompt) || self.learn(report, endpoint, prompt))
        {
            return RequestFailure::adapted("").into();
        }
        let trouble = report.classify(asked);
        if report.status == 404 && !report.is_unknown_deployment() {
            return AttemptFailure::OtherApi(Box::new(trouble));
        }
        OpenAiServer::explain(trouble, report, endpoint, prompt)
    }

    fn answer_verdict(
        &self,
        OpenAiAnswer(answer): &mut OpenAiAnswer,
        prompt: &Prompt,
    ) -> AnswerVerdict {
        chat::answer_verdict(answer, prompt)
    }

    fn finish(
        &self,
        OpenAiAnswer(answer): OpenAiAnswer,
        prompt: &Prompt,
        reason: FinishReason,
    ) -> (Vec<Chunk>, Finish) {
        let source = AnswerSource { backend: BACKEND_NAME, model: &self.server.model.id };
        chat::finish(answer, prompt, reason, source)
    }

    async fn models(&self, endpoint: &Endpoint) -> Result<Vec<String>, Error> {
        facts::models(&self.server.client.http, endpoint).await
    }
}

impl CompletionsApi {
    /// Returns the limit of an answer that follows from the context window, unless the server refuses one.
    fn derived_limit(&self, endpoint: &Endpoint, prompt: &Prompt) -> Option<u64> {
        let is_refused = self.quirks(endpoint).has(Quirk::NoAnswerLimit);
        self.server.derived_limit(endpoint, prompt).filter(|_| !is_refused)
    }

    /// Returns the server's known quirks.
    fn quirks(&self, endpoint: &Endpoint) -> Arc<ServerQuirks<Quirk>> {
        self.quirks.at(endpoint, |url| quirks::assumed(url, &self.server.model.id))
    }

    /// Learns a quirk from an error; returns `true` if there was one to learn.
    fn learn(&self, report: &Report, endpoint: &Endpoint, prompt: &Prompt) -> bool {
        let features = self.server.features(endpoint, prompt);
        self.quirks.learn(|known| quirks::suspects(report, known, features))
    }
}
