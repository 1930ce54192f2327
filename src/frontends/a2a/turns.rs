//! Effects of a message on the turns of a session: a turn begins, or a question of the current turn is
//! answered.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::attachments::{ReceivedFile, not_beside};
use super::context::SessionContext;
use super::dialect::Dialect;
use super::messages::MessageSender;
use super::server::CallOrigin;
use super::subscription::Span;
use super::tool_call::{
    self, ALWAYS_OPTION, ANSWERS_OPTION, CANCEL_OPTION, ONCE_OPTION, YES_WORD, chosen,
};
use tandem_agent::session::{
    Answer, AnswerError, CallStarted, MAX_INPUT_ANSWER_CHARS, Origin, PromptPart, PromptTags,
    QuestionSubject, Session, StoreError, TurnId, is_answer, prompt_text,
};
use tandem_serve::audit::Audit;
use tandem_wire::a2a::error;
use tandem_wire::development_tool::ToolCallConfirmation;
use tandem_wire::jsonrpc::Error;

/// Maximum number of prompts that wait in a session.
const MAX_WAITING_PROMPTS: usize = 1000;

/// Facts about a message that matter to the turn that it begins, without the content of the message.
pub(super) struct MessageTarget {
    /// `true` if the message names a task.
    pub(super) task: bool,
    /// Key of the message in the log.
    pub(super) key: Option<String>,
}

/// Stores the files of a prompt beside the session; a note in the prompt replaces each file that cannot be stored.
/// Does not await: if the client disconnected at an await, only part of the message would be carried out. The caller
/// runs off the runtime's thread if there are files.
pub(super) fn attach(
    session: &Session,
    mut prompt: Vec<PromptPart>,
    files: &[ReceivedFile],
) -> Vec<PromptPart> {
    for ReceivedFile { file, content } in files {
        let Err(why) = session.attach(file, content) else { continue };
        let parts = prompt.iter_mut().filter(|part| **part == PromptPart::File(file.clone()));
        parts.for_each(|part| *part = not_beside(file, &why));
    }
    prompt
}

/// Begins a turn.
pub(super) fn begin(
    context: &Arc<SessionContext>,
    prompt: Vec<PromptPart>,
    origin: &Origin,
    target: &MessageTarget,
    dialect: Dialect,
) -> Result<Span, Error> {
    let session = context.session()?;
    check_room(session)?;
    let tags = PromptTags { key: target.key.clone(), ..PromptTags::default() };
    // Events that are not durable yet are not in the records, so the log's position is taken as the lower bound
    // of the turn's index.
    let from = session.position();
    let turn = session.prompt_tagged(prompt, origin.clone(), tags);
    let waits = session.turns().running() != Some(turn);
    let describes = !target.task || waits || dialect == Dialect::V1;
    Ok(Span { describes, ..Span::begun(turn, from, None) })
}

/// Returns the stream of the turn that a message began before, if the log has the message under one of
/// `keys`. Unlike [`Messages`](super::messages::Messages), the log survives a restart of the server. `retry`:
/// the sender of a message that names no session, and the time for which the message may be a retry.
pub(super) fn begun_before(
    context: &Arc<SessionContext>,
    keys: &[String],
    prompt: &[PromptPart],
    retry: Option<(MessageSender, Duration)>,
) -> Result<Option<Span>, Error> {
    let begun = context.records(|records| {
        keys.iter().find_map(|key| {
            let turn = records.sent(key)?;
            Some((key, turn.id, turn.queued.0, turn.prompt.clone()))
        })
    });
    let Some((key, turn, from, said)) = begun else { return Ok(None) };
    if retry.is_some_and(|(sender, window)| !context.may_be_retry(turn, &sender, window)) {
        return Ok(None);
    }
    if said != prompt_text(prompt) {
        return Err(sent_before(key));
    }
    Ok(Some(joined(context, turn, from)))
}

/// Returns the error for a message that has the id of an earlier message and another content.
pub(super) fn sent_before(id: &str) -> Error {
    error::invalid_params(format!(
        "`messageId` {id} was sent before, with other content: every message needs an id of its own"
    ))
}

/// Returns the stream of a turn that was begun before, from the turn's beginning.
pub(super) fn joined(context: &Arc<SessionContext>, turn: TurnId, from: usize) -> Span {
    Span { describes: true, again: true, ..Span::since(context, turn, from) }
}

/// Fails if the maximum number of prompts waits already.
pub(super) fn check_room(session: &Session) -> Result<(), Error> {
    if session.turns().waiting() < MAX_WAITING_PROMPTS {
        return Ok(());
    }
    Err(error::unavailable(&format!("{MAX_WAITING_PROMPTS} prompts wait already")))
}

/// Answers questions, and returns the stream of the events that follow.
pub(super) fn answer(
    context: &Arc<SessionContext>,
    answers: &[ToolCallConfirmation],
    caller: &CallOrigin,
    audit: &Audit,
) -> Result<Span, Error> {
    let mut span = None;
    for given in answers {
        let call = context.records(|records| records.call(&given.tool_call_id).cloned());
        let Some(call) = call else { return Err(stale(given, &AnswerError::NotAsked)) };
        let Some(question) = &call.started.question else {
            return Err(stale(given, &AnswerError::NotAsked));
        };
        let answer = read_answer(given, &call.started)?;
        if question.is_permitted_for_good(&answer) && !caller.principal.changes_for_all() {
            let instead = if question.subject == QuestionSubject::FolderPrograms {
                format!(
                    "can trust the programs of a folder: answer `{CANCEL_OPTION}` to work without the programs"
                )
            } else {
                format!("can save a rule: answer `{ALWAYS_OPTION}`")
            };
            return Err(error::invalid_params(format!(
                "this answer would count for everybody at this server, so only the operator {instead}"
            )));
        }
        let session = context.session()?;
        let origin = caller.origin.clone();
        let answered = session.answer(&given.tool_call_id, answer.clone(), origin);
        answered.map_err(|error| match error {
            AnswerError::Withdrawn if session.persistence().is_handed_over() => {
                error::unavailable(&StoreError::TakenOver.for_clients())
            }
            error => stale(given, &error),
        })?;
        audit.answered(
            caller.acting_in(context),
            &given.tool_call_id,
            Some(&call.started),
            &answer,
        );
        span = span.or(call.turn.zip(call.index.map(|index| index + 1)));
    }
    let (turn, from) = span.ok_or_else(|| error::invalid_params("no answer"))?;
    let span = answered(context, turn, from);
    Ok(Span { again: false, ..span })
}

/// Returns the stream of the events that follow an answer, which was given at the log index `from`.
pub(super) fn answered(context: &Arc<SessionContext>, turn: TurnId, from: usize) -> Span {
    let span = Span { again: true, ..Span::since(context, turn, from) };
    let earlier = context.records(|records| {
        let asking = records.turn(turn).map_or(&[][..], |turn| &turn.questions);
        // The records may still list questions that were answered just now.
        let mut open = asking.iter().filter(|call| context.asks(call));
        open.any(|call| records.call(call).is_some_and(|call| call.index < Some(from)))
    });
    if !earlier {
        return span;
    }
    // An earlier question is still open. The turn goes on only after its answer, so the stream ends with the
    // current task, and the stream of that answer brings the rest.
    Span { stands: true, over: true, ..span }
}

/// Meaning of a prompt that may come while a question is open.
pub(super) enum PromptReply {
    /// The prompt begins a turn: no question is open, or the prompt is a command that runs beside the turn.
    Prompt,
    /// The prompt is an answer to an open question.
    Answer(ToolCallConfirmation),
    /// The prompt is no answer although a question is open: the stream asks the question again.
    Unanswered(Span),
}

/// Returns the meaning of a prompt that is for the task of the turn `named`, or for the context. `may_answer`:
/// predicate that is `true` if the client knows of a turn. Only then can its text be an answer to the turn's
/// question.
pub(super) fn read_reply(
    context: &SessionContext,
    named: Option<TurnId>,
    prompt: &[PromptPart],
    may_answer: impl Fn(TurnId) -> bool,
) -> Result<PromptReply, Error> {
    let is_at_once = context.here().is_some_and(|session| session.turns().is_at_once(prompt));
    let Some(turn) = context.running_now().or(named).filter(|_| !is_at_once) else {
        return Ok(PromptReply::Prompt);
    };
    // A message for the task of a queued turn is no answer: its sender may not have seen the running turn's question.
    let may_answer = named.is_none_or(|named| named == turn) && may_answer(turn);
    let (open, asked_at) = context.records(|records| {
        let asking = records.turn(turn).map_or(&[][..], |turn| &turn.questions);
        let open = asking.iter().filter(|call| context.asks(call));
        let open: Vec<_> = open.filter_map(|call| records.call(call)).collect();
        let started: Vec<_> = open.iter().map(|call| Arc::clone(&call.started)).collect();
        (started, open.last().and_then(|call| call.index))
    });
    let is_command = |said: &str| {
        let said = [PromptPart::Text(said.to_owned())];
        context.here().is_some_and(|session| session.is_command(&said))
    };
    let answer = match only_text(prompt) {
        Some(said) if may_answer => in_words(&open, said.trim(), is_command)?,
        _ => None,
    };
    Ok(match (answer, asked_at) {
        (Some(answer), _) => PromptReply::Answer(answer),
        (None, Some(index)) => {
            let span = Span::since(context, turn, index);
            PromptReply::Unanswered(Span { again: true, asked_back: true, ..span })
        }
        (None, None) => PromptReply::Prompt,
    })
}

/// Returns the text of a prompt that has exactly one text, perhaps beside files: some clients (`CrewAI`) send
/// the files of a task with each of its messages, even with an answer.
fn only_text(prompt: &[PromptPart]) -> Option<&str> {
    let mut texts = prompt.iter().filter_map(|part| match part {
        PromptPart::Text(said) => Some(said.as_str()),
        _ => None,
    });
    let said = texts.next();
    if texts.next().is_some() { None } else { said }
}

/// Returns the answer that a text gives: the whole text must be an answer to the only open question, or an
/// answer followed by the id of the call that it is for. `is_command`: predicate that is `true` for a command, which is
/// no answer to a question of the model.
fn in_words(
    open: &[Arc<CallStarted>],
    said: &str,
    is_command: impl Fn(&str) -> bool,
) -> Result<Option<ToolCallConfirmation>, Error> {
    let means = |started: &CallStarted, word: &str| {
        let answer = |option: &str, answers| ToolCallConfirmation {
            tool_call_id: started.call.id.clone(),
            selected_option_id: option.to_owned(),
            new_content: None,
            answers,
        };
        match chosen(started, word) {
            Some(option) => Some(answer(option, Vec::new())),
            None if started.input_questions().is_empty() || is_command(word) => None,
            None => {
                let answers = tool_call::input_answers(started.input_questions(), word)?;
                Some(answer(ANSWERS_OPTION, answers))
            }
        }
    };
    let named = open.iter().find_map(|started| {
        let word = said.strip_suffix(started.call.id.as_str())?;
        means(started, word.strip_suffix(char::is_whitespace)?.trim_end())
    });
    if named.is_some() {
        return Ok(named);
    }
    match open {
        [started] => Ok(means(started, said)),
        open if open.iter().any(|started| means(started, said).is_some()) => {
            let ways = open.iter().map(|started| format!("`{said} {}`", started.call.id));
            let ways = ways.collect::<Vec<_>>().join(" or ");
            let count = open.len();
            let message =
                format!("{count} questions are open: name the one that you answer, with {ways}");
            Err(error::invalid_params(message))
        }
        _ => Ok(None),
    }
}

fn read_answer(given: &ToolCallConfirmation, started: &CallStarted) -> Result<Answer, Error> {
    let edit = started.editable().is_some();
    let plain = [ONCE_OPTION, YES_WORD].contains(&given.selected_option_id.as_str());
    if given.new_content.is_some() && !(edit && plain) {
        let message =
            format!("`new_content` is allowed only with `{ONCE_OPTION}`, for a change of a file");
        return Err(error::invalid_params(message));
    }
    if given.selected_option_id == ANSWERS_OPTION {
        return read_input(given, started);
    }
    match tool_call::answer(started, &given.selected_option_id) {
        Some(Answer::Once { .. }) => Ok(Answer::Once { edited: given.new_content.clone() }),
        Some(answer) => Ok(answer),
        None => {
            let message = format!(
                "the option `{}` is not offered for {}",
                given.selected_option_id, given.tool_call_id
            );
            Err(error::invalid_params(message))
        }
    }
}

/// Reads the answers to the questions that a call asks. An empty answer leaves its question out.
fn read_input(given: &ToolCallConfirmation, started: &CallStarted) -> Result<Answer, Error> {
    let questions = started.input_questions();
    if given.answers.len() != questions.len() {
        let (count, asked) = (given.answers.len(), questions.len());
        return Err(error::invalid_params(format!(
            "`answers` has {count} texts, and {} asks {asked} questions",
            given.tool_call_id
        )));
    }
    if given.answers.iter().any(|answer| !is_answer(answer)) {
        let most = MAX_INPUT_ANSWER_CHARS;
        return Err(error::invalid_params(format!("an answer has at most {most} characters")));
    }
    let answers = questions.iter().zip(&given.answers);
    let answers: Vec<_> =
        answers.map(|(asked, answer)| asked.read_answer(answer).unwrap_or_default()).collect();
    if answers.iter().all(String::is_empty) {
        let message =
            format!("`answers` is empty: `{CANCEL_OPTION}` leaves the decision to the agent");
        return Err(error::invalid_params(message));
    }
    Ok(Answer::Input(answers))
}

/// Returns the error for an answer that has no effect.
fn stale(given: &ToolCallConfirmation, error: &AnswerError) -> Error {
    let why = match error {
        AnswerError::AlreadyAnswered { by, answer } => {
            format!("already answered by {by}: {}", answer.decision().label())
        }
        AnswerError::Withdrawn => "the turn was cancelled".to_owned(),
        AnswerError::NotAsked => "the call has no open question".to_owned(),
        AnswerError::NotOffered => "the question does not offer this answer".to_owned(),
    };
    let message = format!("tool call {} is not awaiting confirmation ({why})", given.tool_call_id);
    error::invalid_params(message).with(json!({ "tool_call_id": given.tool_call_id }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_agent::session::Question;

    /// Returns a call by which the model asks a question with these options.
    fn asked_input(labels: &[&str]) -> Arc<CallStarted> {
        let options: Vec<_> = labels.iter().map(|label| json!({ "label": label })).collect();
        let question = Question { subject: QuestionSubject::UserInput, ..Question::default() };
        let started = json!({
            "call": { "id": "1", "name": "x", "args": {} }, "caller": "Model", "kind": "Other",
            "summary": { "label": "x", "locations": [], "diff": null }, "question": question,
            "access": { "UserInput": { "questions": [{ "question": "a", "options": options }] } },
        });
        Arc::new(serde_json::from_value(started).unwrap())
    }

    /// Checks the answer that a text gives to a question with these options; `None` if the text is no answer.
    #[track_caller]
    fn check(labels: &[&str], said: &str, expected: Option<&Answer>) {
        let started = asked_input(labels);
        let is_command = |said: &str| said.starts_with("/help");
        let given = in_words(&[Arc::clone(&started)], said, is_command).unwrap();
        let answer = given.map(|given| read_answer(&given, &started).unwrap());
        assert_eq!(answer.as_ref(), expected, "{said}");
    }

    fn input(text: &str) -> Answer {
        Answer::Input(vec![text.to_owned()])
    }

    #[test]
    fn a_text_chooses_an_id_unless_an_option_of_the_question_has_that_name() {
        let usual = ["Red", "Blue"];
        check(&usual, "`option_2`", Some(&input("Blue")));
        check(&usual, "option_1 1", Some(&input("Red")));
        check(&usual, "option_3", Some(&input("option_3")));
        check(&usual, "Cancel.", Some(&Answer::Reject));
        let named = ["Cancel", "option_1"];
        check(&named, "cancel", Some(&input("Cancel")));
        check(&named, "option_1", Some(&input("option_1")));
        check(&named, "option_2", Some(&input("option_1")));
    }

    #[test]
    fn the_way_to_leave_a_question_out_is_told_unless_an_option_has_its_name() {
        let told = |labels: &[&str]| {
            let text = tool_call::question(&asked_input(labels)).into_iter().next().unwrap().text;
            text.unwrap().contains("`cancel` leaves the decision")
        };
        assert!(told(&["Red", "Blue"]));
        assert!(!told(&["Go on", "Cancel"]));
    }

    #[test]
    fn a_text_that_begins_with_a_slash_is_an_answer_unless_it_is_a_command() {
        check(&["Red", "Blue"], "/etc/hosts", Some(&input("/etc/hosts")));
        check(&["Red", "Blue"], "/etc/hosts 1", Some(&input("/etc/hosts")));
        check(&["Red", "Blue"], "/help", None);
        check(&["Red", "Blue"], "/help 1", None);
    }
}
