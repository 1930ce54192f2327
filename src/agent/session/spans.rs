//! Spans of a turn, for traces: the steps that OpenTelemetry's conventions name for agents. They have names,
//! numbers and sizes, and nothing of what is said.

use tandem_model::Finish;
use tandem_model::provider::Provider;
use tandem_trace::{LOG_TARGET, TARGET, TraceContext};
use tracing::Span;
use tracing::field::Empty;

use super::event::{Answer, StopReason, ToolOutcome, TurnId};

/// Returns the span of what is done for a session beside its turns, which is for the log alone.
pub(super) fn session(id: &str) -> Span {
    tracing::info_span!(target: LOG_TARGET, parent: None, "session", "gen_ai.conversation.id" = id)
}

/// Returns the span of a turn, within the request that it was queued by.
pub(super) fn turn(session: &str, turn: TurnId, caller: &TraceContext) -> Span {
    let span = tracing::info_span!(
        target: TARGET,
        parent: None,
        "invoke_agent",
        "otel.name" = "invoke_agent tandem",
        "otel.status_code" = Empty,
        "gen_ai.operation.name" = "invoke_agent",
        "gen_ai.agent.name" = "tandem",
        "gen_ai.conversation.id" = session,
        "tandem.turn" = turn.0,
        "tandem.stop_reason" = Empty,
    );
    caller.adopt(&span);
    span
}

/// Notes in the current span why the turn has ended.
pub(super) fn turn_ended(reason: &StopReason) {
    let span = Span::current();
    span.record("tandem.stop_reason", reason.name());
    if matches!(reason, StopReason::Failed(_) | StopReason::Crashed) {
        span.record("otel.status_code", "ERROR");
    }
}

/// Returns the span of an answer of a model.
pub(super) fn chat(model: &str) -> Span {
    let provider = match Provider::of(model, Provider::Gemini).0 {
        _ if model == "replay" => "replay",
        Provider::Gemini => "gcp.gemini",
        provider => provider.name(),
    };
    tracing::info_span!(
        target: TARGET,
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
    )
}

/// Notes in the current span what an answer took.
pub(super) fn chat_ended(finish: &Finish) {
    let span = Span::current();
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
pub(super) fn failed() {
    Span::current().record("otel.status_code", "ERROR");
}

/// Returns the span of a call. `name`: of a tool that there is, because the model may make up others.
pub(super) fn tool(name: Option<&str>, call: &str) -> Span {
    let name = name.unwrap_or("unknown");
    tracing::info_span!(
        target: TARGET,
        "execute_tool",
        "otel.name" = format!("execute_tool {name}"),
        "otel.status_code" = Empty,
        "gen_ai.operation.name" = "execute_tool",
        "gen_ai.tool.name" = name,
        "gen_ai.tool.call.id" = call,
        "tandem.outcome" = Empty,
    )
}

/// Notes in the current span what came of a call.
pub(super) fn tool_ended(outcome: &ToolOutcome) {
    let span = Span::current();
    span.record("tandem.outcome", outcome.name());
    if matches!(outcome, ToolOutcome::Failed(_)) {
        span.record("otel.status_code", "ERROR");
    }
}

/// Returns the span of a question, until somebody has answered.
pub(super) fn question() -> Span {
    tracing::info_span!(target: TARGET, "wait_for_answer", "tandem.answer" = Empty)
}

/// Notes in the current span how a question was closed.
pub(super) fn question_ended(answer: Option<&Answer>) {
    Span::current().record("tandem.answer", answer.map_or("withdrawn", Answer::name));
}
