//! Questions of the model to the user: a form, or one choice after another for an editor that shows no forms.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::{Map, Value};

use super::calls::asking;
use super::client::SessionClient;
use tandem_agent::session::{
    Answer, CallStarted, ChoiceKind, InputOption, InputQuestion, MAX_INPUT_ANSWER_CHARS, Question,
    is_answer,
};
use tandem_content::visible::{visible_line, visible_prose};
use tandem_wire::acp::v1::{
    CREATE_ELICITATION, ElicitationOption, ElicitationProperty, ElicitationResponse,
    ElicitationSchema, FormElicitationParams, PermissionOption, PermissionOptionKind,
    PermissionOutcome, REQUEST_PERMISSION, RequestPermissionParams, RequestPermissionResponse,
};
use tandem_wire::rpc::CallError;

/// Id of the option that leaves a question without an answer.
const NO_ANSWER: &str = "none";

/// Label of a form's field for a text of the user's own.
const OWN_TEXT: &str = "Other, or a remark";

/// Characters between the label of a chosen option and the text beside it.
const BETWEEN_LABEL_AND_TEXT: &str = ": ";

/// Asks the editor the questions of a call. Dropping the future withdraws what is open.
pub(super) fn ask(
    client: &Arc<SessionClient>,
    started: &CallStarted,
) -> BoxFuture<'static, Result<Answer, CallError>> {
    let (client, started) = (Arc::clone(client), started.clone());
    if !client.kind.has_forms {
        return choose(client, started).boxed();
    }
    let params = form(&client, &started);
    let reply = client.peer.call::<ElicitationResponse>(CREATE_ELICITATION, &params);
    async move {
        match reply.await {
            Ok(reply) => Ok(filled_in(started.input_questions(), &reply)),
            Err(CallError::Gone) => Err(CallError::Gone),
            // An editor that says that it shows forms, and then does not, can still show choices.
            Err(_) => choose(client, started).await,
        }
    }
    .boxed()
}

/// Returns the form: for each question a field with its options, and one for a text.
fn form<'a>(client: &'a SessionClient, started: &'a CallStarted) -> FormElicitationParams<'a> {
    let questions = started.input_questions();
    let message = match questions {
        [only] => visible_prose(&only.question).into_owned(),
        _ => format!("{} questions", questions.len()),
    };
    let mut properties = BTreeMap::new();
    for (n, InputQuestion { question, header, options }) in questions.iter().enumerate() {
        let title = if questions.len() > 1 || header.is_empty() { question } else { header };
        let choice = ElicitationProperty {
            title: visible_prose(title).into_owned(),
            one_of: options.iter().map(form_option).collect(),
            ..ElicitationProperty::default()
        };
        let text = ElicitationProperty {
            title: OWN_TEXT.to_owned(),
            max_length: Some(max_text_chars(options)),
            ..ElicitationProperty::default()
        };
        properties.extend([(choice_field(n), choice), (text_field(n), text)]);
    }
    FormElicitationParams {
        session_id: &client.id,
        tool_call_id: &started.call.id,
        mode: "form",
        message,
        requested_schema: ElicitationSchema { r#type: "object", properties },
    }
}

/// Returns the maximum length of a text, in characters: with the longest label before it, the text is still an answer.
fn max_text_chars(options: &[InputOption]) -> usize {
    let longest = options.iter().map(|option| option.label.chars().count()).max();
    MAX_INPUT_ANSWER_CHARS
        .saturating_sub(longest.unwrap_or_default() + BETWEEN_LABEL_AND_TEXT.len())
}

fn form_option(option: &InputOption) -> ElicitationOption {
    ElicitationOption {
        value: option.label.clone(),
        title: visible_line(&option.label).into_owned(),
        description: visible_line(&option.description).into_owned(),
    }
}

/// Returns the names of a question's fields: those of another agent whose forms editors know.
fn choice_field(n: usize) -> String {
    format!("question_{n}")
}

fn text_field(n: usize) -> String {
    format!("question_{n}_custom")
}

/// Returns the answers that a form gives. Where an option is chosen and a text is typed, both are the answer.
fn filled_in(questions: &[InputQuestion], reply: &ElicitationResponse) -> Answer {
    if reply.action != "accept" {
        return Answer::Reject;
    }
    let mut answers = Vec::new();
    for n in 0..questions.len() {
        let choice = field(&reply.content, &choice_field(n));
        let text = field(&reply.content, &text_field(n));
        let (Some(choice), Some(text)) = (choice, text) else {
            return Answer::Unclear(format!("the answer to question {} is no text", n + 1));
        };
        let is_one = choice.is_empty() || text.is_empty();
        let between = if is_one { "" } else { BETWEEN_LABEL_AND_TEXT };
        let answer = format!("{choice}{between}{text}");
        if !is_answer(&answer) {
            return Answer::Unclear(format!(
                "the answer to question {} has more than {MAX_INPUT_ANSWER_CHARS} characters",
                n + 1
            ));
        }
        answers.push(answer);
    }
    Answer::of_texts(answers)
}

/// Returns the text of a form's field, which is empty if the field is missing; `None` if the field is no text.
fn field<'a>(content: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    match content.get(name) {
        None | Some(Value::Null) => Some(""),
        Some(value) => value.as_str().map(str::trim),
    }
}

/// Asks one question after another, each as a choice. A choice that the user dismisses leaves out its question and the
/// ones after it.
async fn choose(client: Arc<SessionClient>, started: CallStarted) -> Result<Answer, CallError> {
    let questions = started.input_questions();
    let mut answers = Vec::new();
    for (n, question) in questions.iter().enumerate() {
        let params = RequestPermissionParams {
            session_id: &client.id,
            tool_call: asking(&started, n),
            options: options(question, started.question.as_ref()),
        };
        let reply = client.peer.call::<RequestPermissionResponse>(REQUEST_PERMISSION, &params);
        let PermissionOutcome::Selected { option_id } = reply.await?.outcome else {
            break;
        };
        let chosen = option_id.parse().ok().and_then(|at: usize| question.options.get(at));
        match chosen {
            Some(option) => answers.push(option.label.clone()),
            None if option_id == NO_ANSWER => answers.push(String::new()),
            None => {
                return Ok(Answer::Unclear(format!("`{option_id}` is not among the options")));
            }
        }
    }
    answers.resize(questions.len(), String::new());
    Ok(Answer::of_texts(answers))
}

/// Returns the options of one question. They all are of one kind, as no kind of the protocol fits.
fn options(question: &InputQuestion, asked: Option<&Question>) -> Vec<PermissionOption> {
    let option = |(n, option): (usize, &InputOption)| PermissionOption {
        option_id: n.to_string(),
        name: visible_line(&option.label).into_owned(),
        kind: PermissionOptionKind::AllowOnce,
    };
    let choices = asked.map(Question::choices).unwrap_or_default();
    let none = choices.into_iter().find(|choice| choice.kind == ChoiceKind::RejectOnce);
    let none = none.map(|choice| PermissionOption {
        option_id: NO_ANSWER.to_owned(),
        name: choice.label,
        kind: PermissionOptionKind::RejectOnce,
    });
    question.options.iter().enumerate().map(option).chain(none).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_longest_text_that_a_form_takes_is_an_answer_beside_the_longest_label() {
        let option =
            |label: &str| InputOption { label: label.to_owned(), description: String::new() };
        let options = vec![option("Red"), option("Grün")];
        let text = "x".repeat(max_text_chars(&options));
        let questions =
            [InputQuestion { question: "?".to_owned(), header: String::new(), options }];
        let filled_in = |choice: &str, text: &str| {
            let content = json!({ "question_0": choice, "question_0_custom": text });
            let reply = json!({ "action": "accept", "content": content });
            filled_in(&questions, &serde_json::from_value(reply).unwrap())
        };
        assert_eq!(filled_in("Grün", &text), Answer::Input(vec![format!("Grün: {text}")]));
        assert!(matches!(filled_in("Grün", &format!("{text}x")), Answer::Unclear(_)));
    }
}
