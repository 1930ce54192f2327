//! Limits and refusals of a server. Each is found out once, from an error, and respected from then on.

use std::sync::Arc;

use super::messages::{self, RefusedSignatures};
use super::thinking;
use crate::report::Report;
use crate::{Error, Prompt, ToolDeclaration};

/// Minimum room for an answer in tokens. With less room, the conversation is too long.
const MIN_ANSWER_TOKENS: u64 = 1024;

/// Limits and refusals of a server.
#[derive(Debug, Clone, Default)]
pub(super) struct Quirks {
    /// Signatures of thinking that the server has refused, and which are not sent again.
    pub(super) refused: Arc<RefusedSignatures>,
    /// `true` if the server refuses the `thinking` of a request, as gateways to other models do.
    no_thinking: bool,
    /// `true` if the server refuses the `output_config` of a request.
    no_effort: bool,
    /// `true` if the server refuses a schema of the answer.
    pub(super) no_answer_schema: bool,
    /// Maximum number of tokens of an answer that the server allows, if it has said so.
    most: Option<u64>,
    /// Number of messages of a conversation, and the room for an answer after them in tokens.
    room: Option<(usize, u64)>,
}

impl Quirks {
    /// Returns the maximum number of tokens for the answer to a prompt, at most `wanted`.
    pub(super) fn max_tokens(&self, prompt: &Prompt, wanted: u64) -> u64 {
        let room = self.room.filter(|(messages, _)| *messages == prompt.messages.len());
        let room = room.map_or(u64::MAX, |(_, room)| room);
        wanted.min(self.most.unwrap_or(u64::MAX)).min(room)
    }

    /// Returns the fields of `asked` that the server accepts.
    pub(super) fn thinking(&self, asked: &thinking::ThinkingConfig) -> thinking::ThinkingConfig {
        thinking::ThinkingConfig {
            thinking: asked.thinking.filter(|_| !self.no_thinking),
            effort: asked.effort.clone().filter(|_| !self.no_effort),
        }
    }

    /// Learns from an error that the server refuses the schema of a request; returns `true` if the error is about it.
    pub(super) fn learn_no_schema(&mut self, report: &Report) -> bool {
        let is_new = !self.no_answer_schema && report.is_about_answer_schema();
        self.no_answer_schema |= is_new;
        is_new
    }

    /// Learns limits and refusals of the server from an error; returns `true` if the error told anything new.
    /// `wanted`: limit of the answer in tokens, before limits of the server apply. `asked`: the thinking settings
    /// before refused fields are removed.
    pub(super) fn learn(
        &mut self,
        report: &Report,
        prompt: &Prompt,
        wanted: u64,
        asked: &thinking::ThinkingConfig,
    ) -> bool {
        if !matches!(report.status, 400 | 422) {
            return false;
        }
        if refuses_thinking(report) {
            let before = self.refused.len();
            let signatures = messages::signatures(&prompt.messages).map(str::to_owned);
            Arc::make_mut(&mut self.refused).extend(signatures);
            return self.refused.len() > before;
        }
        let sent = self.thinking(asked);
        // Tested before `thinking`, because such messages often also name that field.
        if sent.effort.is_some() && refuses(report, &["output_config", "effort"]) {
            self.no_effort = true;
            return true;
        }
        if sent.thinking.is_some() && refuses(report, &["thinking"]) {
            self.no_thinking = true;
            return true;
        }
        let sent = self.max_tokens(prompt, wanted);
        let less = |tokens: &u64| *tokens < sent;
        if let Some(most) = most(&report.message).filter(less) {
            self.most = Some(most);
            return true;
        }
        let room = room(&report.message).filter(less);
        self.room = room.map(|room| (prompt.messages.len(), room)).or(self.room);
        room.is_some()
    }
}

fn refuses_thinking(report: &Report) -> bool {
    let changed = report.says(&["signature", "cannot be modified"]);
    report.says(&["thinking"]) && changed
        || report.says(&["expected `thinking` or `redacted_thinking`"])
}

/// Returns `true` if the server refuses a field with one of these names.
fn refuses(report: &Report, names: &[&str]) -> bool {
    const QUIRK_WORDS: [&str; 6] =
        ["support", "unknown", "unrecognized", "unexpected", "not permitted", "not allowed"];
    report.says(names) && report.says(&QUIRK_WORDS)
}

/// Returns the limit in a message such as `max_tokens: 64000 > 8192, which is the maximum allowed number of output
/// tokens`.
fn most(message: &str) -> Option<u64> {
    let (_, asked) = message.split_once("max_tokens: ")?;
    number(asked.split_once('>')?.1).filter(|most| *most > 0)
}

/// Returns the room for an answer in a message such as `exceed context limit: 190000 + 64000 > 200000`.
fn room(message: &str) -> Option<u64> {
    let (_, sum) = message.split_once("exceed context limit: ")?;
    let (told, rest) = sum.split_once('+')?;
    let (_, limit) = rest.split_once('>')?;
    number(limit)?.checked_sub(number(told)?).filter(|room| *room >= MIN_ANSWER_TOKENS)
}

fn number(text: &str) -> Option<u64> {
    let text = text.trim_start();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

/// Classifies errors that only this API has.
pub(super) fn classify(report: &Report, tools: &[ToolDeclaration]) -> Option<Error> {
    if report.status != 400 {
        return None;
    }
    let what = if let Some(tool) = declaration(&report.message, tools) {
        format!("The API does not accept the declaration of the tool `{tool}`; leave it out.")
    } else if report.says(&["tool_use", "tool_result"]) {
        "The API finds the conversation's calls and their results out of order. This is a bug in tandem: please report it. A new conversation will work."
            .to_owned()
    } else if refuses_thinking(report) {
        "The API does not accept the model's earlier thinking. Begin a new conversation.".to_owned()
    } else {
        return None;
    };
    Some(Error::Rejected(report.with_message(&what)))
}

/// Returns the tool whose declaration a message names: `tools.3.custom.input_schema`.
fn declaration<'a>(message: &str, tools: &'a [ToolDeclaration]) -> Option<&'a str> {
    let (_, after) = message.split_once("tools.")?;
    let index: usize = after.split('.').next()?.parse().ok()?;
    Some(&tools.get(index)?.name)
}
