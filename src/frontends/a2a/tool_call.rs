//! Translation of a session's tool calls to the extension's `ToolCall`.

use std::path::Path;

use serde_json::Value;

use tandem_agent::session::{
    Access, Answer, CallStarted, Choice, ChoiceKind, FileDiff, InputOption, InputQuestion,
    Question, QuestionSubject, ResultContent, Scope, ServerAnswer, ToolKind, ToolOutcome,
    describe_program_input, explain_unknown_outcome, is_same_word, plain_answer,
    without_sandbox_marks,
};
use tandem_content::visible::{HIDDEN_NOTICE, has_hidden, visible, visible_line};
use tandem_wire::a2a::{Part, PartData};
pub(super) use tandem_wire::development_tool::{ANSWERS_OPTION, CANCEL_OPTION, YES_WORD};
use tandem_wire::development_tool::{
    ConfirmationDetails, ConfirmationOption, ConfirmationRequest, EditedFile, ErrorDetails,
    INPUT_OPTIONS, ToolCall, ToolCallOutput, ToolCallStatus,
};

/// Maximum size in bytes of the output that a running call is shown with; of a longer output, the end is
/// shown.
const MAX_LIVE_OUTPUT_BYTES: usize = 64 << 10;

/// Ids of the options that a client may choose (RFC 3.2, `ConfirmationOption.id`).
pub(super) const ONCE_OPTION: &str = "proceed_once";
pub(super) const ALWAYS_OPTION: &str = "proceed_always";
pub(super) const ALWAYS_TOOL: &str = "proceed_always_tool";
pub(super) const ALWAYS_SERVER: &str = "proceed_always_server";
pub(super) const ALWAYS_AND_SAVE: &str = "proceed_always_and_save";
/// Options of tandem's own: narrower and broader than the usual meaning of "always" for a command.
pub(super) const ALWAYS_EDITS: &str = "proceed_always_edits";
pub(super) const ALWAYS_EXACT: &str = "proceed_always_exact";
pub(super) const ALWAYS_PROGRAM: &str = "proceed_always_program";

/// All option ids.
pub(super) const ALL_OPTIONS: &[&str] = &[
    ONCE_OPTION,
    ALWAYS_OPTION,
    ALWAYS_EDITS,
    ALWAYS_EXACT,
    ALWAYS_PROGRAM,
    ALWAYS_TOOL,
    ALWAYS_SERVER,
    ALWAYS_AND_SAVE,
    INPUT_OPTIONS[0],
    INPUT_OPTIONS[1],
    INPUT_OPTIONS[2],
    INPUT_OPTIONS[3],
    CANCEL_OPTION,
];

/// Returns a call with a status.
pub(super) fn tool_call(started: &CallStarted, status: ToolCallStatus) -> ToolCall {
    let label = &started.summary.label;
    ToolCall {
        tool_call_id: started.call.id.clone(),
        status,
        tool_name: started.call.name.clone(),
        description: (!label.is_empty()).then(|| label.clone()),
        input_parameters: started.call.args.clone(),
        live_content: None,
        output: None,
        error: None,
        confirmation_request: None,
        kind: kind(started.kind).into(),
    }
}

/// Returns a call that waits for its confirmation, with the request for it.
pub(super) fn pending(started: &CallStarted) -> ToolCall {
    let mut call = tool_call(started, ToolCallStatus::Pending);
    call.confirmation_request = started.question.as_ref().map(|asked| request(started, asked));
    call
}

/// Returns the message of a question: a text for people, followed by the call for programs.
pub(super) fn question(started: &CallStarted) -> Vec<Part> {
    let call = pending(started);
    let text = call.confirmation_request.as_ref().map(|asked| {
        let text = match started.input_questions() {
            [] => in_words(asked, &call.input_parameters),
            questions => input_in_words(questions),
        };
        Part::from(visible(&text).into_owned())
    });
    text.into_iter().chain([PartData::Call(Box::new(call)).into()]).collect()
}

/// Describes a question and its possible answers in words.
fn in_words(asked: &ConfirmationRequest, input: &Value) -> String {
    let (details, hides) = match &asked.details {
        ConfirmationDetails::ExecuteDetails { command, working_directory } => {
            (format!("In {}:\n{command}", visible_line(working_directory)), has_hidden(command))
        }
        ConfirmationDetails::FileEditDetails(diff) => {
            let path = visible_line(&diff.file_path);
            let texts = diff.old_content.iter().chain([&diff.new_content, &diff.file_path]);
            let hides = texts.into_iter().any(|text| has_hidden(text));
            (format!("{path}\n{}", diff.formatted_diff), hides)
        }
        ConfirmationDetails::McpDetails { server_name, tool_name } => {
            let (tool, server) = (visible_line(tool_name), visible_line(server_name));
            let input = format!("{input:#}");
            (format!("`{tool}` of the MCP server `{server}`, with:\n{input}"), has_hidden(&input))
        }
        ConfirmationDetails::GenericDetails { description } => {
            (description.clone(), has_hidden(description))
        }
    };
    let mut words = format!("{}\n\n{}\n{}\n", asked.title, indented(&details), asked.prompt);
    if hides {
        words += &format!("{HIDDEN_NOTICE}\n");
    }
    words += "\nAnswer with one of these, in this task:\n";
    for (n, option) in asked.options.iter().enumerate() {
        let word = match &*option.id {
            _ if n == 0 => "`yes` or ",
            CANCEL_OPTION => "`no` or ",
            _ => "",
        };
        words += &format!("- {word}`{}`: {}\n", option.id, option.name);
    }
    words + "Any other text is not an answer: the question stays open, and is asked again.\n"
}

/// Asks the model's questions in words, and says how to answer them.
fn input_in_words(questions: &[InputQuestion]) -> String {
    let how = if questions.len() == 1 {
        "the number of an option, or in your own words".to_owned()
    } else {
        format!(
            "{} lines, one for each question in this order: the number of an option, or your own words",
            questions.len()
        )
    };
    let cancel = if names_option(questions, CANCEL_OPTION) {
        String::new()
    } else {
        format!(" `{CANCEL_OPTION}` leaves the decision to the agent.")
    };
    format!("{}\nAnswer in this task with {how}.{cancel}\n", in_markdown(questions))
}

/// Returns the questions with their options.
fn in_markdown(questions: &[InputQuestion]) -> String {
    questions.iter().map(|question| question.markdown() + "\n").collect::<Vec<_>>().join("\n")
}

/// Returns the answers that a text gives to the model's questions: the whole text to the only question, a line to each
/// of several. `None` if the text does not answer every question.
pub(super) fn input_answers(questions: &[InputQuestion], text: &str) -> Option<Vec<String>> {
    let lines: Vec<&str> = match questions {
        [_] => vec![text],
        _ => text.lines().filter(|line| !line.trim().is_empty()).collect(),
    };
    let is_complete = lines.len() == questions.len();
    let answers = questions.iter().zip(lines).map(|(question, line)| question.read_answer(line));
    answers.collect::<Option<Vec<_>>>().filter(|_| is_complete)
}

/// Returns the text with each line indented, so that no line can pass for a part of the surrounding text.
fn indented(text: &str) -> String {
    text.split_terminator('\n').flat_map(|line| ["    ", line, "\n"]).collect()
}

/// Returns the option that a text names: by an option's id or label, or by a plain yes or no.
pub(super) fn chosen(started: &CallStarted, text: &str) -> Option<&'static str> {
    let offered = options(started);
    if !started.input_questions().is_empty() {
        // The model may give its own option the name of an id, such as "Cancel". The user then means that option.
        let is_label = names_option(started.input_questions(), text);
        let mut ids = offered.iter().map(|(id, _)| *id);
        return ids.find(|id| !is_label && is_same_word(text, id));
    }
    let plain = plain_answer(text);
    let is_meant = |(id, choice): &&(&str, Choice)| match plain {
        Some(is_yes) => choice.kind.allows() == is_yes,
        None => is_same_word(text, id) || is_same_word(text, &choice.label),
    };
    offered.iter().find(is_meant).map(|(id, _)| *id)
}

/// Returns whether a text is the label of an option of the only question.
fn names_option(questions: &[InputQuestion], text: &str) -> bool {
    let [only] = questions else { return false };
    only.options.iter().any(|option| is_same_word(text, &option.label))
}

/// Returns the answer that an option stands for, if the question offers the option.
pub(super) fn answer(started: &CallStarted, option: &str) -> Option<Answer> {
    if !started.input_questions().is_empty() {
        let mut options = options(started).into_iter();
        return options.find(|(id, _)| *id == option).map(|(_, choice)| choice.answer);
    }
    let mut choices = started.question.as_ref()?.choices().into_iter();
    let found = match option {
        YES_WORD => choices.find(|choice| choice.kind.allows()),
        ALWAYS_OPTION => choices.find(|choice| choice.kind == ChoiceKind::AllowAlways),
        _ => choices.find(|choice| id(choice) == Some(option)),
    };
    found.map(|choice| choice.answer)
}

/// Returns a running call with its output so far.
pub(super) fn running(started: &CallStarted, output: &str) -> ToolCall {
    let mut call = tool_call(started, ToolCallStatus::Executing);
    call.live_content = Some(end_of(output));
    call
}

/// Returns a call that has ended, with its outcome.
pub(super) fn ended(started: &CallStarted, outcome: &ToolOutcome) -> ToolCall {
    match outcome {
        ToolOutcome::Done(output) => {
            let mut call = tool_call(started, ToolCallStatus::Succeeded);
            call.output = Some(match &output.shown {
                Some(ResultContent::Diff(change)) => ToolCallOutput::Diff(file_diff(change)),
                Some(ResultContent::Server(answer)) => server_output(answer),
                _ => ToolCallOutput::Text(output.text.clone()),
            });
            call
        }
        ToolOutcome::Failed(error) => {
            let mut call = tool_call(started, ToolCallStatus::Failed);
            let message = match &error.shown {
                Some(ResultContent::Server(answer)) => answer.text.clone(),
                _ => error.message.clone(),
            };
            let r#type = error.kind.clone();
            call.error = Some(ErrorDetails { message, r#type, status_code: error.status });
            call
        }
        ToolOutcome::Rejected | ToolOutcome::Cancelled => {
            tool_call(started, ToolCallStatus::Cancelled)
        }
        ToolOutcome::Unknown(outcome) if outcome.is_done() => {
            let mut call = tool_call(started, ToolCallStatus::Succeeded);
            call.output = Some(ToolCallOutput::Text(explain_unknown_outcome(outcome)));
            call
        }
        ToolOutcome::Unknown(outcome) => {
            let mut call = tool_call(started, ToolCallStatus::Failed);
            let message = explain_unknown_outcome(outcome);
            let r#type = "unknown".to_owned();
            call.error = Some(ErrorDetails { message, r#type, status_code: None });
            call
        }
        ToolOutcome::Interrupted => {
            let mut call = tool_call(started, ToolCallStatus::Failed);
            let message = "The agent was stopped before this call ended.".to_owned();
            let r#type = "interrupted".to_owned();
            call.error = Some(ErrorDetails { message, r#type, status_code: None });
            call
        }
    }
}

/// Returns the answer of an MCP server. The extension has room for only one of its two forms.
fn server_output(answer: &ServerAnswer) -> ToolCallOutput {
    match &answer.structured {
        Some(data @ Value::Object(_)) => {
            ToolCallOutput::StructuredData { data: data.clone(), text: answer.text.clone() }
        }
        _ => ToolCallOutput::Text(answer.text.clone()),
    }
}

/// Returns the end of an output, from the beginning of a line if possible, and with a note if it was cut.
fn end_of(output: &str) -> String {
    if output.len() <= MAX_LIVE_OUTPUT_BYTES {
        return output.to_owned();
    }
    let from = output.ceil_char_boundary(output.len() - MAX_LIVE_OUTPUT_BYTES);
    let end = &output[from..];
    let end = end.split_once('\n').map_or(end, |(_, lines)| lines);
    format!("[the first {} bytes are not shown]\n{end}", output.len() - end.len())
}

fn kind(kind: ToolKind) -> &'static str {
    match kind {
        ToolKind::Read | ToolKind::List => "read",
        ToolKind::Find | ToolKind::Search => "search",
        ToolKind::Edit => "edit",
        ToolKind::Execute => "execute",
        ToolKind::Fetch => "fetch",
        ToolKind::Think => "think",
        ToolKind::Other => "other",
    }
}

fn request(started: &CallStarted, question: &Question) -> ConfirmationRequest {
    let label = &started.summary.label;
    ConfirmationRequest {
        options: wire_options(started),
        details: details(started),
        title: label.clone(),
        prompt: match question.subject {
            QuestionSubject::UserInput => question.why.clone(),
            _ => format!("Allow it? {}", question.reason()),
        },
        // A question that must be asked every time is about something harmful.
        r#type: match (&started.access, question.every_time()) {
            (Access::UserInput { .. }, _) => "info",
            (_, true) => "danger",
            (
                Access::Execute { .. }
                | Access::ProgramInput(_)
                | Access::Edit { .. }
                | Access::Mcp { .. }
                | Access::Agent { .. }
                | Access::AgentQuestion { .. },
                false,
            ) => "warning",
            _ => "info",
        }
        .into(),
    }
}

/// Returns the options of a question in the form for clients.
fn wire_options(started: &CallStarted) -> Vec<ConfirmationOption> {
    let shown = |choice: &Choice| visible_line(&choice.label).into_owned();
    let options = options(started).into_iter();
    let option = |(id, choice): (&'static str, Choice)| ConfirmationOption {
        id: id.into(),
        name: shown(&choice),
    };
    options.map(option).collect()
}

/// Returns the choices of a question that options can express, each with its option. Of the model's questions, only a
/// single one has options here: an option answers the whole call.
fn options(started: &CallStarted) -> Vec<(&'static str, Choice)> {
    let Some(question) = &started.question else { return Vec::new() };
    let own = match started.input_questions() {
        [only] => only.options.as_slice(),
        _ => &[],
    };
    let own = INPUT_OPTIONS.into_iter().zip(own).map(|(id, option)| {
        let InputOption { label, description } = option;
        let between = if description.is_empty() { "" } else { ": " };
        let answer = Answer::Input(vec![label.clone()]);
        let label = format!("{label}{between}{description}");
        (id, Choice { kind: ChoiceKind::AllowOnce, answer, label })
    });
    let mut usual = Some(ALWAYS_OPTION);
    let option = |choice: Choice| {
        let id = match choice.kind {
            ChoiceKind::AllowAlways => usual.take().or_else(|| id(&choice)),
            _ => id(&choice),
        };
        Some((id?, choice))
    };
    own.chain(question.choices().into_iter().filter_map(option)).collect()
}

/// Returns the option of a choice. The first choice of the kind "always" also has the option [`ALWAYS`].
fn id(choice: &Choice) -> Option<&'static str> {
    match choice.kind {
        ChoiceKind::AllowOnce => Some(ONCE_OPTION),
        ChoiceKind::AllowAndSave => Some(ALWAYS_AND_SAVE),
        ChoiceKind::RejectOnce | ChoiceKind::RejectAndSave => Some(CANCEL_OPTION),
        // An option is only an id, so it cannot carry the user's message to the model.
        ChoiceKind::RejectSaying => None,
        ChoiceKind::AllowAlways => match choice.scope()? {
            Scope::Tool(_) => Some(ALWAYS_TOOL),
            Scope::Server(_) => Some(ALWAYS_SERVER),
            Scope::Line { .. } => Some(ALWAYS_EXACT),
            Scope::Programs(_) => Some(ALWAYS_PROGRAM),
            Scope::Edits => Some(ALWAYS_EDITS),
            // A question offers these scopes only as its first "always", which has the option [`ALWAYS`].
            Scope::Commands(_)
            | Scope::Outside(_)
            | Scope::Hosts(_)
            | Scope::Connections(_)
            | Scope::Reads(_)
            | Scope::Agent(_)
            | Scope::AgentTool { .. }
            | Scope::Repetition => None,
        },
    }
}

fn details(started: &CallStarted) -> ConfirmationDetails {
    if let Some(change) = &started.summary.diff {
        // Details of an edit have the texts of one file. A client that shows those would hide the other files of a
        // patch, and that a file is removed or moved.
        return match started.editable() {
            Some(edit) => ConfirmationDetails::FileEditDetails(file_diff(edit)),
            None => ConfirmationDetails::GenericDetails { description: change.unified() },
        };
    }
    match &started.access {
        Access::Execute { command, directory, .. } => ConfirmationDetails::ExecuteDetails {
            command: without_sandbox_marks(command),
            working_directory: directory.display().to_string(),
        },
        Access::Mcp { server, tool, .. } => {
            ConfirmationDetails::McpDetails { server_name: server.clone(), tool_name: tool.clone() }
        }
        Access::Other { description }
        | Access::Agent { description, .. }
        | Access::AgentQuestion { description, .. } => {
            ConfirmationDetails::GenericDetails { description: description.clone() }
        }
        Access::ProgramInput(input) => {
            ConfirmationDetails::GenericDetails { description: describe_program_input(input) }
        }
        Access::Connect { command, .. } => {
            let hosts = started.access.hosts().join("\n");
            let description = format!("{hosts}\nfor {}", visible_line(command));
            ConfirmationDetails::GenericDetails { description }
        }
        Access::Fetch { urls, .. } => {
            ConfirmationDetails::GenericDetails { description: urls.join("\n") }
        }
        Access::ReadFiles { paths, .. } => {
            let paths = paths.iter().map(|path| path.display().to_string());
            let paths = paths.map(|path| visible_line(&path).into_owned());
            ConfirmationDetails::GenericDetails {
                description: paths.collect::<Vec<_>>().join("\n"),
            }
        }
        Access::UserInput { questions } => {
            ConfirmationDetails::GenericDetails { description: in_markdown(questions) }
        }
        Access::Nothing | Access::Read | Access::Edit { .. } => {
            ConfirmationDetails::GenericDetails { description: started.summary.label.clone() }
        }
    }
}

fn file_diff(change: &FileDiff) -> EditedFile {
    let name = Path::new(&change.path).file_name().unwrap_or_default();
    EditedFile {
        file_name: name.to_string_lossy().into_owned(),
        file_path: change.path.clone(),
        old_content: change.old.as_deref().map(str::to_owned),
        new_content: change.new.to_string(),
        formatted_diff: change.unified(),
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_LIVE_OUTPUT_BYTES, end_of};

    #[test]
    fn of_a_long_output_the_last_lines_are_shown() {
        assert_eq!(end_of("short"), "short");
        let long = format!("{}\nlast line\n", "x".repeat(MAX_LIVE_OUTPUT_BYTES));
        assert_eq!(
            end_of(&long),
            format!("[the first {} bytes are not shown]\nlast line\n", MAX_LIVE_OUTPUT_BYTES + 1)
        );
    }
}
