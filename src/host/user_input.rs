//! Questions of the model to the user. Each offers options, and also takes a text of the user's own.

use std::iter;

use serde::{Deserialize, Serialize};

use super::output::{ResultContent, ToolOutput};

/// Maximum length of an answer, in characters.
pub const MAX_INPUT_ANSWER_CHARS: usize = 4000;

/// A question of the model to the user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputQuestion {
    /// The question, one line or several.
    pub question: String,
    /// Subject in a word or two; empty if the model has named none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub header: String,
    /// Options to choose from.
    pub options: Vec<InputOption>,
}

/// An answer that a question of the model offers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputOption {
    /// Label, which is the answer.
    pub label: String,
    /// Effect of the choice; empty if the model has named none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
}

impl InputQuestion {
    /// Returns the answer that a text of the user gives: the label of the option whose number or label the text is, else
    /// the text itself. `None` for an empty text, and for one that is too long.
    pub fn read_answer(&self, text: &str) -> Option<String> {
        let text = text.trim();
        if text.is_empty() || !is_answer(text) {
            return None;
        }
        let named = |option: &&InputOption| option.label.to_lowercase() == text.to_lowercase();
        let numbered = || self.options.get(text.parse::<usize>().ok()?.checked_sub(1)?);
        let option = self.options.iter().find(named).or_else(numbered);
        Some(option.map_or(text, |option| &option.label).to_owned())
    }

    /// Returns the question and its options as Markdown, with a number before each option.
    pub fn markdown(&self) -> String {
        let options = self.options.iter().enumerate().map(|(n, option)| {
            let InputOption { label, description } = option;
            let between = if description.is_empty() { "" } else { ": " };
            format!("\n{}. {label}{between}{description}", n + 1)
        });
        format!("{}\n{}", self.question, options.collect::<String>())
    }
}

/// Returns the result of a call that asked the user these questions: each question with its answer. An answer that is
/// empty or missing is none.
pub fn answered(questions: &[InputQuestion], answers: &[String]) -> ToolOutput {
    let answers = answers.iter().map(String::as_str).chain(iter::repeat(""));
    let lines = questions.iter().zip(answers).map(|(asked, answer)| {
        let answer = if answer.is_empty() { "(no answer)" } else { answer };
        format!("{}\nAnswer: {answer}", asked.question)
    });
    let text = lines.collect::<Vec<_>>().join("\n\n");
    let shown = Some(ResultContent::Output(text.clone()));
    ToolOutput { text, media: Vec::new(), shown }
}

/// Returns `true` if a text is short enough for an answer.
pub fn is_answer(text: &str) -> bool {
    text.chars().nth(MAX_INPUT_ANSWER_CHARS).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<&str>) {
        let option =
            |label: &str| InputOption { label: label.to_owned(), description: String::new() };
        let question = InputQuestion {
            question: "Which?".to_owned(),
            header: String::new(),
            options: ["Red", "Blue", "1"].map(option).into(),
        };
        assert_eq!(question.read_answer(text).as_deref(), expected, "{text:?}");
    }

    #[test]
    fn a_number_and_a_label_choose_an_option_and_other_words_are_the_answer() {
        check("2", Some("Blue"));
        check(" red\n", Some("Red"));
        check("1", Some("1"));
        check("4", Some("4"));
        check("0", Some("0"));
        check("neither, take green", Some("neither, take green"));
        check(" \n", None);
        check(&"x".repeat(MAX_INPUT_ANSWER_CHARS), Some(&"x".repeat(MAX_INPUT_ANSWER_CHARS)));
        check(&"x".repeat(MAX_INPUT_ANSWER_CHARS + 1), None);
    }
}
