//! `ask_user`: asks the user questions with options to choose from.

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};

use tandem_host::{
    InputOption, InputQuestion, Invocation, Summary, Tool, ToolContext, ToolError, ToolKind,
    ToolSpec, answered, parse,
};

/// Maximum number of questions in a call.
const MAX_QUESTIONS: usize = 3;

/// Minimum and maximum number of options of a question.
const MIN_OPTIONS: usize = 2;
const MAX_OPTIONS: usize = 4;

/// Maximum length of a question, in characters.
const MAX_QUESTION_CHARS: usize = 500;

/// Maximum length of a question's header, in characters.
const MAX_HEADER_CHARS: usize = 24;

/// Maximum length of an option's label, in characters.
const MAX_LABEL_CHARS: usize = 80;

/// Maximum length of an option's description, in characters.
const MAX_DESCRIPTION_CHARS: usize = 200;

pub(super) struct AskUser;

#[derive(Deserialize)]
struct AskArgs {
    questions: Vec<SentQuestion>,
}

/// A question as models send it. Those of other agents also have an id or a type, for example, which say nothing here.
#[derive(Deserialize)]
struct SentQuestion {
    question: String,
    #[serde(default)]
    header: String,
    options: Vec<SentOption>,
}

/// An option as models send it: some send the label alone.
#[derive(Deserialize)]
#[serde(untagged)]
enum SentOption {
    Label(String),
    Option {
        label: String,
        #[serde(default)]
        description: String,
    },
}

impl AskArgs {
    /// Returns the questions, without white space around their texts. The error tells the model which limit is exceeded.
    fn questions(self) -> Result<Vec<InputQuestion>, ToolError> {
        let count = self.questions.len();
        if !(1..=MAX_QUESTIONS).contains(&count) {
            return Err(ToolError::invalid_args(format_args!(
                "`questions` has {count} questions, and must have 1 to {MAX_QUESTIONS}"
            )));
        }
        let questions = self.questions.into_iter().enumerate();
        questions.map(|(n, sent)| question(&format!("questions[{n}]"), sent)).collect()
    }
}

/// Returns a question that keeps to the limits; `place`: its place in the arguments.
fn question(place: &str, sent: SentQuestion) -> Result<InputQuestion, ToolError> {
    let count = sent.options.len();
    if !(MIN_OPTIONS..=MAX_OPTIONS).contains(&count) {
        return Err(ToolError::invalid_args(format_args!(
            "`{place}.options` has {count} options, and must have {MIN_OPTIONS} to {MAX_OPTIONS}; do not list \
             \"other\": the user can always type an answer"
        )));
    }
    let mut options = Vec::<InputOption>::new();
    for (n, sent) in sent.options.into_iter().enumerate() {
        let place = format!("{place}.options[{n}]");
        let (label, description) = match sent {
            SentOption::Label(label) => (label, String::new()),
            SentOption::Option { label, description } => (label, description),
        };
        let option = InputOption {
            label: needed(&format!("{place}.label"), &label, MAX_LABEL_CHARS)?,
            description: text(
                &format!("{place}.description"),
                &description,
                MAX_DESCRIPTION_CHARS,
            )?,
        };
        if options.iter().any(|other| other.label.to_lowercase() == option.label.to_lowercase()) {
            return Err(ToolError::invalid_args(format_args!(
                "`{place}.label` is the label of an option before it: the user could not tell them apart"
            )));
        }
        options.push(option);
    }
    Ok(InputQuestion {
        question: needed(&format!("{place}.question"), &sent.question, MAX_QUESTION_CHARS)?,
        header: text(&format!("{place}.header"), &sent.header, MAX_HEADER_CHARS)?,
        options,
    })
}

/// Returns a text that must not be empty.
fn needed(place: &str, sent: &str, most: usize) -> Result<String, ToolError> {
    match text(place, sent, most)? {
        text if text.is_empty() => Err(ToolError::invalid_args(format_args!("`{place}` is empty"))),
        text => Ok(text),
    }
}

/// Returns a text of at most `most` characters.
fn text(place: &str, sent: &str, most: usize) -> Result<String, ToolError> {
    let text = sent.trim();
    match text.chars().count() {
        count if count > most => Err(ToolError::invalid_args(format_args!(
            "`{place}` has {count} characters, and may have {most}"
        ))),
        _ => Ok(text.to_owned()),
    }
}

#[async_trait]
impl Tool for AskUser {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "ask_user".to_owned(),
            aliases: &[],
            description: "Asks the user 1 to 3 questions and waits for the answers. For a decision that is \
                the user's and that changes what you do next; not for permission, and not for what you can \
                find out. Put the option that you recommend first. The user can also type another answer."
                .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "questions": {
                        "type": "array",
                        "description": "The questions, in their order.",
                        "minItems": 1,
                        "maxItems": MAX_QUESTIONS,
                        "items": {
                            "type": "object",
                            "properties": {
                                "question": { "type": "string", "description": "The whole question." },
                                "header": { "type": "string", "description": "Its subject in a word or two." },
                                "options": {
                                    "type": "array",
                                    "minItems": MIN_OPTIONS,
                                    "maxItems": MAX_OPTIONS,
                                    "items": {
                                        "type": "object",
                                        "properties": {
                                            "label": { "type": "string", "description": "1 to 5 words." },
                                            "description": {
                                                "type": "string",
                                                "description": "What follows from it, in a sentence."
                                            }
                                        },
                                        "required": ["label"]
                                    }
                                }
                            },
                            "required": ["question", "options"]
                        }
                    }
                },
                "required": ["questions"]
            }),
            kind: ToolKind::Other,
        }
    }

    async fn prepare(&self, args: Value, _: &ToolContext) -> Result<Invocation, ToolError> {
        let questions = parse::<AskArgs>(args)?.questions()?;
        let asked = questions.clone();
        let run = move |answers: Vec<String>| std::future::ready(Ok(answered(&asked, &answers)));
        Ok(Invocation::input(summary(&questions), questions, run))
    }
}

fn summary(questions: &[InputQuestion]) -> Summary {
    let first = questions.first().map_or("", |it| it.question.lines().next().unwrap_or_default());
    Summary::new(match questions.len() {
        1 => format!("Ask: {first}"),
        count => format!("Ask {count} questions, the first: {first}"),
    })
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "the list is a literal")]
    fn check(questions: Value, answers: &[&str], expected: Expect) {
        let asked =
            parse::<AskArgs>(json!({ "questions": questions })).and_then(AskArgs::questions);
        let answers: Vec<_> = answers.iter().map(|answer| (*answer).to_owned()).collect();
        let shown = asked.map(|asked| {
            let markdown =
                asked.iter().map(InputQuestion::markdown).collect::<Vec<_>>().join("\n\n");
            format!(
                "{}\n\n{markdown}\n\n{}",
                summary(&asked).label,
                answered(&asked, &answers).text
            )
        });
        expected.assert_eq(&shown.unwrap_or_else(|error| error.message));
    }

    fn question(options: &[&str]) -> Value {
        json!({ "question": "Which?", "options": options })
    }

    #[test]
    fn the_model_is_told_each_question_with_its_answer() {
        let colour = json!({
            "question": " Which colour?\nOf the door. ",
            "header": "Colour",
            "options": [{ "label": "Red", "description": "Warm" }, { "label": "Blue" }],
        });
        check(
            json!([colour]),
            &["Red"],
            expect![[r"
            Ask: Which colour?

            Which colour?
            Of the door.

            1. Red: Warm
            2. Blue

            Which colour?
            Of the door.
            Answer: Red"]],
        );
        check(
            json!([question(&["a", "b"]), question(&["c", "d"])]),
            &["", "e"],
            expect![[r"
            Ask 2 questions, the first: Which?

            Which?

            1. a
            2. b

            Which?

            1. c
            2. d

            Which?
            Answer: (no answer)

            Which?
            Answer: e"]],
        );
    }

    #[test]
    fn faulty_questions_are_refused_with_the_limit() {
        check(json!([]), &[], expect!["`questions` has 0 questions, and must have 1 to 3"]);
        let four = vec![question(&["a", "b"]); 4];
        check(json!(four), &[], expect!["`questions` has 4 questions, and must have 1 to 3"]);
        check(
            json!([question(&["a", "b"]), question(&["a"])]),
            &[],
            expect![[
                r#"`questions[1].options` has 1 options, and must have 2 to 4; do not list "other": the user can always type an answer"#
            ]],
        );
        check(
            json!([question(&["a", "b", "A"])]),
            &[],
            expect![
                "`questions[0].options[2].label` is the label of an option before it: the user could not tell them apart"
            ],
        );
        check(
            json!([question(&["a", " "])]),
            &[],
            expect!["`questions[0].options[1].label` is empty"],
        );
        check(
            json!([question(&["a", &"b".repeat(MAX_LABEL_CHARS + 1)])]),
            &[],
            expect!["`questions[0].options[1].label` has 81 characters, and may have 80"],
        );
        check(
            json!([{ "question": "Which?" }]),
            &[],
            expect!["`questions[0]`: missing field `options`"],
        );
    }
}
