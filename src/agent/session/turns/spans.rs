//! Spans of a turn, for traces: the operations that OpenTelemetry's conventions define for agents. Spans have names,
//! numbers and sizes. They have prompts, answers, arguments and results only if the user's settings say so.

use serde_json::json;
use tandem_model::provider::Provider;
use tandem_model::{Call, Finish, Prompt};
use tandem_trace::{LOG_TARGET, TRACE_TARGET, TraceContext, record_newest, record_value};
use tracing::Span;
use tracing::field::Empty;

use super::span_content as content;
use crate::session::events::event::{PromptPart, StopReason, ToolOutcome, TurnId};
use tandem_approval::Answer;

/// Names of the attributes with prompts, answers, arguments and results.
const INSTRUCTIONS_KEY: &str = "gen_ai.system_instructions";
const INPUT_KEY: &str = "gen_ai.input.messages";
const OUTPUT_KEY: &str = "gen_ai.output.messages";
const ARGUMENTS_KEY: &str = "gen_ai.tool.call.arguments";
const RESULT_KEY: &str = "gen_ai.tool.call.result";

/// Returns the span of the work for a session outside of its turns. The span is for log lines only, and is not in
/// traces.
pub(crate) fn session(id: &str) -> Span {
    tracing::info_span!(target: LOG_TARGET, parent: None, "session", "gen_ai.conversation.id" = id)
}

/// Returns the span of a turn, within the request that queued the turn.
pub(super) fn turn(
    session: &str,
    turn: TurnId,
    prompt: &[PromptPart],
    caller: &TraceContext,
) -> Span {
    let span = tracing::info_span!(
        target: TRACE_TARGET,
        parent: None,
        "invoke_agent",
        "otel.name" = "invoke_agent tandem",
        "otel.status_code" = Empty,
        "gen_ai.operation.name" = "invoke_agent",
        "gen_ai.agent.name" = "tandem",
        "gen_ai.conversation.id" = session,
        "tandem.turn" = turn.0,
        "tandem.stop_reason" = Empty,
        "gen_ai.input.messages" = Empty,
    );
    caller.adopt(&span);
    record_value(&span, INPUT_KEY, || json!([content::prompt(prompt)]));
    span
}

/// Records the reason of the turn's end in the current span.
pub(super) fn turn_ended(reason: &StopReason) {
    let span = Span::current();
    span.record("tandem.stop_reason", reason.name());
    if matches!(reason, StopReason::Failed(_) | StopReason::Crashed) {
        span.record("otel.status_code", "ERROR");
    }
}

/// Returns the span of one answer of a model.
pub(crate) fn chat(model: &str) -> Span {
    let (provider, own) = Provider::parse_id(model, Provider::Gemini);
    let provider = match (provider, own.split_once(':')) {
        _ if model == "replay" => "replay",
        // Ids of the Gemini API have no colon, so the id names a server of the settings.
        (Provider::Gemini, Some((name, _))) => name,
        (Provider::Gemini, None) => "gcp.gemini",
        _ => provider.name(),
    };
    tracing::info_span!(
        target: TRACE_TARGET,
        "chat",
        "otel.name" = format!("chat {model}"),
        "otel.kind" = "client",
        "otel.status_code" = Empty,
        "gen_ai.operation.name" = "chat",
        "gen_ai.provider.name" = provider,
        "gen_ai.request.model" = model,
        "gen_ai.usage.input_tokens" = Empty,
        "gen_ai.usage.cache_read.input_tokens" = Empty,
        "gen_ai.usage.output_tokens" = Empty,
        "gen_ai.system_instructions" = Empty,
        "gen_ai.input.messages" = Empty,
        "gen_ai.output.messages" = Empty,
    )
}

/// Records the prompt to the model in the current span, if the user wants content in traces.
pub(crate) fn chat_asked(prompt: &Prompt) {
    let span = Span::current();
    record_value(&span, INSTRUCTIONS_KEY, || json!([content::text(&prompt.system)]));
    let newest_first = prompt.messages.iter().rev();
    record_newest(&span, INPUT_KEY, newest_first.map(|message| content::message(message)));
}

/// Records the tokens of an answer in the current span, and the answer itself if the user wants content in traces.
pub(crate) fn chat_ended(text: &str, calls: &[Call], finish: &Finish) {
    let span = Span::current();
    record_value(&span, OUTPUT_KEY, || json!([content::answer(text, calls, &finish.reason)]));
    let usage = &finish.usage;
    for (name, tokens) in [
        ("gen_ai.usage.input_tokens", usage.input),
        ("gen_ai.usage.cache_read.input_tokens", usage.cached),
        ("gen_ai.usage.output_tokens", usage.output.saturating_add(usage.thoughts)),
    ] {
        span.record(name, i64::try_from(tokens).unwrap_or(i64::MAX));
    }
}

/// Marks the current span as failed.
pub(crate) fn failed() {
    Span::current().record("otel.status_code", "ERROR");
}

/// Returns the span of a call. `name` is the name of an existing tool; `None` if the model has made up a tool, whose
/// name the span does not get.
pub(crate) fn tool(name: Option<&str>, call: &Call) -> Span {
    let name = name.unwrap_or("unknown");
    let span = tracing::info_span!(
        target: TRACE_TARGET,
        "execute_tool",
        "otel.name" = format!("execute_tool {name}"),
        "otel.status_code" = Empty,
        "gen_ai.operation.name" = "execute_tool",
        "gen_ai.tool.name" = name,
        "gen_ai.tool.call.id" = call.id.as_str(),
        "tandem.outcome" = Empty,
        "gen_ai.tool.call.arguments" = Empty,
        "gen_ai.tool.call.result" = Empty,
    );
    record_value(&span, ARGUMENTS_KEY, || call.args.clone());
    span
}

/// Records the outcome of a call in the current span.
pub(crate) fn tool_ended(outcome: &ToolOutcome) {
    let span = Span::current();
    span.record("tandem.outcome", outcome.name());
    match outcome {
        ToolOutcome::Done(output) => {
            record_value(&span, RESULT_KEY, || output.text.as_str().into());
        }
        ToolOutcome::Failed(error) => record_value(&span, RESULT_KEY, || error.to_string().into()),
        ToolOutcome::Rejected
        | ToolOutcome::Cancelled
        | ToolOutcome::Interrupted
        | ToolOutcome::Unknown(_) => {}
    }
    if matches!(outcome, ToolOutcome::Failed(_)) {
        span.record("otel.status_code", "ERROR");
    }
}

/// Returns the span of the wait for an answer to a question.
pub(crate) fn question() -> Span {
    tracing::info_span!(target: TRACE_TARGET, "wait_for_answer", "tandem.answer" = Empty)
}

/// Records in the current span the answer to a question, or that the question was withdrawn.
pub(crate) fn question_ended(answer: Option<&Answer>) {
    Span::current().record("tandem.answer", answer.map_or("withdrawn", Answer::name));
}
