//! Quirks of servers with the Responses API.

use std::collections::BTreeSet;

use crate::http;
use crate::openai::quirks::{Features, MediaPlace, ServerQuirks};
use crate::report::Report;

/// A property in which servers differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ResponsesQuirk {
    /// The limit of an answer is refused.
    NoAnswerLimit,
    /// Summaries of reasoning are refused, as `OpenAI` does for organizations that are not verified.
    NoSummary,
    /// A thinking level is refused.
    NoEffort,
    /// Encrypted reasoning is refused: the model does not reason.
    NoEncryption,
    /// `reasoning` is refused.
    NoReasoning,
    /// `prompt_cache_key` is refused.
    NoCacheKey,
    /// `parallel_tool_calls` is refused.
    NoParallel,
    /// The `phase` of a message is refused.
    NoPhase,
    /// Custom tools are refused: every tool is a function.
    NoCustomTools,
    /// The output of a call can only be text.
    TextOutputs,
    /// Images are refused.
    NoImages,
    /// Documents are refused.
    NoDocuments,
    /// Only the simplest JSON Schemas are understood.
    SimpleSchemas,
    /// A schema of the answer is refused.
    NoAnswerSchema,
}

/// Returns the quirks that are assumed before the first request to a server.
pub(super) fn assumed(url: &str) -> ServerQuirks<ResponsesQuirk> {
    let mut quirks = BTreeSet::new();
    if http::is_self_hosted(url) {
        // These servers skip, or refuse, tools that are no functions.
        quirks.extend([ResponsesQuirk::SimpleSchemas, ResponsesQuirk::NoCustomTools]);
    }
    ServerQuirks::new(url, quirks)
}

/// Returns the quirks that may be behind an error of the server at `url`, the likeliest first.
pub(super) fn suspects(report: &Report, features: Features, url: &str) -> Vec<ResponsesQuirk> {
    // Servers that people run themselves also refuse a field with 500. Elsewhere such an error passes.
    let may_refuse = match report.status {
        400 | 415 | 422 => true,
        500 => http::is_self_hosted(url),
        _ => false,
    };
    if !may_refuse {
        return Vec::new();
    }
    let says = |words: &[&str]| report.says(words) || report.is(words);
    let refused =
        says(&["support", "unknown", "unrecognized", "unexpected", "permitted", "invalid"]);
    let has_media = features.media != MediaPlace::Nowhere && !report.is_about_one_image();
    let image = has_media && says(&["image", "vision", "multimodal", "mmproj"]);
    let document = has_media && says(&["pdf", "input_file", "file content"]);
    // The bare word is not tested: "Please include the request ID" is in messages of errors that pass.
    let include = report.is(&["include"])
        || report.says(&["'include'", "`include`", "\"include\"", "supplied: include"]);
    let output = features.media == MediaPlace::Results && says(&["output"]);
    // Names of fields are tested first, because the words further down also occur in messages about other things.
    let table = [
        (ResponsesQuirk::NoAnswerSchema, features.answer_schema && report.is_about_answer_schema()),
        (ResponsesQuirk::NoAnswerLimit, report.is_about_answer_limit()),
        (ResponsesQuirk::NoAnswerLimit, refused && says(&["max_output_tokens"])),
        (ResponsesQuirk::NoSummary, says(&["reasoning.summary", "reasoning summar"])),
        (ResponsesQuirk::NoEffort, says(&["reasoning.effort"])),
        (
            ResponsesQuirk::NoEncryption,
            include || says(&["encrypted content is not", "reasoning.encrypted_content"]),
        ),
        (ResponsesQuirk::NoCacheKey, says(&["prompt_cache_key"])),
        (ResponsesQuirk::NoParallel, says(&["parallel_tool_calls"])),
        (ResponsesQuirk::NoPhase, says(&["phase"])),
        (ResponsesQuirk::NoReasoning, refused && says(&["reasoning"])),
        (ResponsesQuirk::NoCustomTools, says(&["custom_tool", "'custom'", "\"custom\"", "lark"])),
        (ResponsesQuirk::TextOutputs, output && says(&["string", "text", "type"])),
        (ResponsesQuirk::NoImages, image),
        // Models without vision also refuse documents, whose pages are images.
        (ResponsesQuirk::NoDocuments, image || document),
        (ResponsesQuirk::SimpleSchemas, says(&["grammar", "schema"])),
    ];
    table.into_iter().filter(|(_, suspected)| *suspected).map(|(quirk, _)| quirk).collect()
}

/// Returns `true` if the server refuses earlier reasoning.
pub(super) fn refuses_reasoning(report: &Report) -> bool {
    if !matches!(report.status, 400 | 404 | 422) {
        return false;
    }
    let encrypted = report.says(&["encrypted content", "encrypted_content"]);
    report.is(&["invalid_encrypted_content"])
        || encrypted && report.says(&["verified", "decrypt"])
        // The server names a reasoning item without the item that must follow it, or the other way round.
        || report.says(&["without its required"])
        || report.says(&["items are not persisted"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_server_has_refused_a_field_only_if_people_run_it_themselves() {
        let body = br#"{"error": {"message": "unknown field 'include'"}}"#;
        let suspected =
            |status, url| suspects(&Report::read(Some(status), body), Features::default(), url);
        let (own, remote) = ("http://127.0.0.1:8080/v1", "https://api.openai.com/v1");
        assert_eq!(suspected(500, own), [ResponsesQuirk::NoEncryption]);
        assert_eq!(suspected(400, remote), [ResponsesQuirk::NoEncryption]);
        assert_eq!(suspected(500, remote), []);
    }
}
