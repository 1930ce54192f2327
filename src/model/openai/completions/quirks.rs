//! Quirks of servers. Each is found out once, from an error, and remembered.

use std::collections::BTreeSet;

use crate::report::Report;
use crate::{Message, Part, Prompt, http};

/// A property in which servers differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Quirk {
    /// `stream_options` is refused, so tokens are not counted.
    NoUsage,
    /// The limit of an answer that follows from the window alone is left out, because prompt and limit together did
    /// not fit.
    NoAnswerLimit,
    /// The limit of an answer is `max_completion_tokens`, not `max_tokens`.
    CompletionTokens,
    /// The system text has the role `developer`, not `system`.
    Developer,
    /// `parallel_tool_calls` is refused.
    NoParallel,
    /// A message with calls and no text has `""` for its content, not `null`.
    EmptyContent,
    /// Only the simplest JSON Schemas are understood.
    SimpleSchemas,
    /// Earlier reasoning is refused.
    NoReasoning,
    /// Earlier reasoning must be sent, if only as `""`.
    WantsReasoning,
    /// A thinking level is refused.
    NoEffort,
    /// Images are refused.
    NoImages,
    /// The id of a call has nine letters and digits.
    ShortIds,
}

/// A server's known quirks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ServerQuirks {
    /// Base URL of the server.
    url: String,
    quirks: BTreeSet<Quirk>,
    /// Quirks that have been toggled. Each is toggled at most once, so that requests do not alternate between two
    /// forms.
    tried: BTreeSet<Quirk>,
}

/// Features of a prompt that a server may refuse.
#[derive(Debug, Clone, Copy, Default)]
struct Features {
    images: bool,
    silent_calls: bool,
    answers: bool,
}

impl ServerQuirks {
    /// Returns the quirks that are assumed before the first request to a server.
    pub(super) fn new(url: &str, model: &str) -> Self {
        let mut quirks = BTreeSet::new();
        if http::is_on_host(url, "api.openai.com") {
            quirks.insert(Quirk::CompletionTokens);
            if thinks(model) {
                quirks.insert(Quirk::Developer);
            }
        }
        if http::is_self_hosted(url) {
            quirks.insert(Quirk::SimpleSchemas);
        }
        Self { url: url.to_owned(), quirks, ..Self::default() }
    }

    /// Returns the base URL of the server.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    pub(super) fn has(&self, quirk: Quirk) -> bool {
        self.quirks.contains(&quirk)
    }

    /// Toggles the likeliest quirk behind an error and returns it; `None` if no suspected quirk is left to try.
    pub(super) fn learn(&mut self, report: &Report, prompt: &Prompt) -> Option<Quirk> {
        let suspected = suspects(report, self, Features::of(prompt));
        let quirk = suspected.into_iter().find(|quirk| !self.tried.contains(quirk))?;
        self.tried.insert(quirk);
        if !self.quirks.remove(&quirk) {
            self.quirks.insert(quirk);
        }
        Some(quirk)
    }
}

/// Returns `true` if this is one of `OpenAI`'s reasoning models.
fn thinks(model: &str) -> bool {
    let is_o =
        model.strip_prefix('o').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    is_o || model.starts_with("gpt-5")
}

/// Returns the quirks that may be behind an error, the likeliest first.
fn suspects(report: &Report, server: &ServerQuirks, features: Features) -> Vec<Quirk> {
    // Templates of local servers fail with 500. Gateways report 404 for some fields, because no server takes them.
    if !matches!(report.status, 400 | 404 | 415 | 422 | 500 | 501) {
        return Vec::new();
    }
    let says = |words: &[&str]| report.says(words) || report.is(words);
    let refused =
        says(&["support", "unknown", "unrecognized", "unexpected", "permitted", "invalid"]);
    let template = says(&["template", "jinja", "nonetype", "undefined"]);
    let developer = server.has(Quirk::Developer);
    let role = says(&["developer"]) || says(&["role"]) && (developer || says(&["system"]));
    let reasoning = says(&["reasoning_content", "reasoning_details", "thinking"]);
    let missing = says(&["must be passed back", "missing"]);
    let image = says(&["image", "vision", "multimodal", "multi-modal", "mmproj"]);
    let content =
        says(&["content"]) && says(&["null", "none", "string", "required", "empty", "missing"]);
    // Names of fields are tested first, because the words further down also occur in messages about other things.
    let table = [
        (Quirk::NoAnswerLimit, report.is_about_answer_limit()),
        (Quirk::NoUsage, says(&["stream_options", "include_usage"])),
        (Quirk::CompletionTokens, refused && says(&["max_completion_tokens", "max_tokens"])),
        (Quirk::NoParallel, says(&["parallel_tool_calls"])),
        (Quirk::NoEffort, says(&["reasoning_effort", "reasoning.effort"])),
        (Quirk::ShortIds, says(&["length of 9", "must be a-z"])),
        (Quirk::WantsReasoning, reasoning && missing),
        (Quirk::NoReasoning, reasoning && !missing && features.answers),
        (Quirk::NoImages, image && features.images),
        (Quirk::Developer, role && !says(&["alternate"])),
        (Quirk::SimpleSchemas, says(&["grammar", "schema"])),
        (Quirk::EmptyContent, (content || template) && features.silent_calls),
    ];
    table.into_iter().filter(|(_, suspected)| *suspected).map(|(quirk, _)| quirk).collect()
}

impl Features {
    fn of(prompt: &Prompt) -> Self {
        let mut features = Self::default();
        for message in &prompt.messages {
            match &**message {
                Message::User(parts) => {
                    features.images |= parts.iter().any(|part| matches!(part, Part::Media(_)));
                }
                Message::Assistant(answer) => {
                    features.answers = true;
                    features.silent_calls |=
                        !answer.calls.is_empty() && answer.text.trim().is_empty();
                }
                Message::Results(results) => {
                    features.images |= results.iter().any(|result| !result.media.is_empty());
                }
            }
        }
        features
    }
}
