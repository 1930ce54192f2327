//! Prompt templates of commands. Their gaps are filled with the content of files and the output of command lines. Each
//! read and each command line is a call that every front end sees, and that the policy judges as it judges a call of
//! the model.

use serde_json::{Value, json};

use crate::session::calls::call;
use crate::session::calls::consent;
use crate::session::engine::{CurrentTurn, Engine};
use crate::session::events::event::{Event, ToolOutcome};
use tandem_approval::consent::Executable;
use tandem_model::{Call, Part};

use tandem_host::{NO_FILES_READ, ToolOutput};

/// A prompt with gaps that files and command lines fill.
#[derive(Debug, Clone, PartialEq)]
pub struct Template {
    /// Name of the command, without the slash.
    pub command: String,
    /// Pieces of the prompt, in order.
    pub pieces: Vec<PromptPiece>,
    /// Executable that the user must have agreed to before any part of the template runs.
    pub needs: Option<Executable>,
}

/// A piece of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PromptPiece {
    /// Text that is used unchanged.
    Text(String),
    /// Content of this file, or of all files of this directory.
    File(String),
    /// Output of this command line.
    Shell(String),
}

/// Texts that the shell tool puts before, in place of and after a command's output.
const OUTPUT_LABEL: &str = "Output: ";
const EMPTY_OUTPUT: &str = "(empty)";
const EXIT_CODE_LABEL: &str = "\nExit Code: ";

/// Fills a template. Returns `None` if the turn is cancelled. The error is a text for people; the model is not asked
/// then.
pub(super) async fn fill_template(
    engine: &Engine,
    turn: CurrentTurn<'_>,
    template: Template,
) -> Option<Result<Vec<Part>, String>> {
    let not_run = |why: String| Some(Err(format!("`/{}` was not run: {why}", template.command)));
    if let Some(needed) = &template.needs {
        engine.approvals.consent.review_again();
        consent::ask(engine, turn.cancel).await;
        let agreed = engine.approvals.consent.is_given()
            && engine.approvals.consent.executables().contains(needed);
        if turn.cancel.is_cancelled() {
            return None;
        }
        if !agreed {
            let why = "this command of the folder runs programs, and you have not trusted the folder yet \
                (`/permissions trust`).";
            return not_run(why.to_owned());
        }
    }
    let mut parts = Vec::new();
    for piece in &template.pieces {
        match piece {
            PromptPiece::Text(text) => say(&mut parts, text),
            PromptPiece::File(path) => {
                let args = json!({ "include": [path], "plain": true });
                match run(engine, turn, "read_many_files", args).await? {
                    ToolOutcome::Done(ToolOutput { text, media, .. }) => {
                        say(&mut parts, &text);
                        parts.extend(media.into_iter().map(Part::Media));
                    }
                    outcome => {
                        let why = why_not_read(&why(outcome));
                        engine.log.append(Event::Notice(format!("@{{{path}}}: {why}")));
                        say(&mut parts, &format!("@{{{path}}}"));
                    }
                }
            }
            PromptPiece::Shell(command) => {
                let args = json!({ "command": command });
                match run(engine, turn, "run_shell_command", args).await? {
                    ToolOutcome::Done(output) => say(&mut parts, &written(&output.text, command)),
                    // A command line that has run and failed has an output, too, and its exit code tells the model of
                    // the failure.
                    ToolOutcome::Failed(error) if error.message.starts_with(OUTPUT_LABEL) => {
                        say(&mut parts, &written(&error.message, command));
                    }
                    outcome => return not_run(format!("`{command}`: {}", why(outcome))),
                }
            }
        }
    }
    Some(Ok(parts))
}

/// Runs a call of a tool and returns its outcome, as the log has it; `None` if the call was cancelled.
async fn run(
    engine: &Engine,
    turn: CurrentTurn<'_>,
    tool: &str,
    args: Value,
) -> Option<ToolOutcome> {
    let call = Call { id: String::new(), name: tool.to_owned(), args };
    let call = engine.calls.with_unique_id(call);
    let (id, mut log) = (call.id.clone(), engine.log.read(engine.log.len()));
    call::run_for_command(engine, turn, call).await;
    while let Some(event) = log.try_next() {
        match &*event {
            Event::CallFinished { call, outcome } if *call == id => {
                let cancelled = turn.cancel.is_cancelled() || *outcome == ToolOutcome::Cancelled;
                return Some(outcome.clone()).filter(|_| !cancelled);
            }
            _ => {}
        }
    }
    None
}

/// Appends a text to the last part if that is text, else adds it as a new part.
fn say(parts: &mut Vec<Part>, more: &str) {
    match parts.last_mut() {
        Some(Part::Text(text)) => text.push_str(more),
        _ => parts.push(Part::Text(more.to_owned())),
    }
}

/// Returns the output of a command line without the words that the shell tool adds, and the exit code if the command
/// line failed.
fn written(told: &str, command: &str) -> String {
    let told = told.strip_prefix(OUTPUT_LABEL).unwrap_or(told);
    let (output, ended) = match told.rsplit_once(EXIT_CODE_LABEL) {
        Some((output, code)) => {
            (output, format!("\n[Shell command `{command}` exited with code {code}]"))
        }
        None => (told, String::new()),
    };
    let output = if output == EMPTY_OUTPUT { "" } else { output };
    format!("{output}{ended}")
}

/// Returns the reason why a call has no result for the gap.
fn why(outcome: ToolOutcome) -> String {
    match outcome {
        ToolOutcome::Failed(error) => error.message,
        _ => "you have not allowed this call.".to_owned(),
    }
}

/// Returns the lines of a failed read that name the files, joined into one line, without the frame that only the
/// model needs.
fn why_not_read(told: &str) -> String {
    let frame = |line: &&str| line.is_empty() || line.starts_with("---") || *line == NO_FILES_READ;
    let lines: Vec<_> = told.lines().filter(|line| !frame(line)).collect();
    lines.join("; ")
}
