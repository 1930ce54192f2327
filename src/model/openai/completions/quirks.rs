//! Quirks of servers with chat completions.

use std::collections::BTreeSet;

use crate::http;
use crate::openai::quirks::{Features, MediaPlace, ServerQuirks};
use crate::report::Report;

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
    /// Documents are refused.
    NoDocuments,
    /// The id of a call has nine letters and digits.
    ShortIds,
    /// A schema of the answer is refused.
    NoAnswerSchema,
}

/// Returns the quirks that are assumed before the first request to a server.
pub(super) fn assumed(url: &str, model: &str) -> ServerQuirks<Quirk> {
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
    ServerQuirks::new(url, quirks)
}

/// Returns `true` if this is one of `OpenAI`'s reasoning models.
fn thinks(model: &str) -> bool {
    let is_o =
        model.strip_prefix('o').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    is_o || model.starts_with("gpt-5") || model.starts_with("gpt-6")
}

/// Returns the quirks that may be behind an error, the likeliest first.
pub(super) fn suspects(
    report: &Report,
    server: &ServerQuirks<Quirk>,
    features: Features,
) -> Vec<Quirk> {
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
    let has_media = features.media != MediaPlace::Nowhere && !report.is_about_one_image();
    let image = has_media && says(&["image", "vision", "multimodal", "multi-modal", "mmproj"]);
    let document = has_media && says(&["pdf", "file content"]);
    let content =
        says(&["content"]) && says(&["null", "none", "string", "required", "empty", "missing"]);
    // Names of fields are tested first, because the words further down also occur in messages about other things.
    let table = [
        (Quirk::NoAnswerSchema, features.answer_schema && report.is_about_answer_schema()),
        (Quirk::NoAnswerLimit, report.is_about_answer_limit()),
        (Quirk::NoUsage, says(&["stream_options", "include_usage"])),
        (Quirk::CompletionTokens, refused && says(&["max_completion_tokens", "max_tokens"])),
        (Quirk::NoParallel, says(&["parallel_tool_calls"])),
        (Quirk::NoEffort, says(&["reasoning_effort", "reasoning.effort"])),
        (Quirk::ShortIds, says(&["length of 9", "must be a-z"])),
        (Quirk::WantsReasoning, reasoning && missing),
        (Quirk::NoReasoning, reasoning && !missing && features.answers),
        (Quirk::NoImages, image),
        // Models without vision also refuse documents, whose pages are images.
        (Quirk::NoDocuments, image || document),
        (Quirk::Developer, role && !says(&["alternate"])),
        (Quirk::SimpleSchemas, says(&["grammar", "schema"])),
        (Quirk::EmptyContent, (content || template) && features.silent_calls),
    ];
    table.into_iter().filter(|(_, suspected)| *suspected).map(|(quirk, _)| quirk).collect()
}
