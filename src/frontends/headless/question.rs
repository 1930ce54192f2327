//! Refusal of calls that a person would have to allow: the text for the model, and a hint for people.

use tandem_agent::session::{BuiltInRule, Question, QuestionSubject, RuleName, Scope};

/// Text for the model in place of an answer to its own questions.
const NO_ANSWER: &str = "Not asked: this run has nobody who can be asked, now or later. Decide yourself, go on, and \
    say in your answer what you assumed.";

/// Returns the text that tells the model why a call is not run, and what to do instead. The text does not say how the
/// call could be allowed: [`allowing`] tells people.
pub(super) fn refusal(question: &Question) -> String {
    if question.subject == QuestionSubject::UserInput {
        return NO_ANSWER.to_owned();
    }
    format!(
        "Not run: this needs a person's permission ({}), and this run has nobody who can be asked, \
         now or later. Do not try it again in another way. Go on without it; if the task cannot be \
         done without it, say in your answer what you would need.",
        question.reason(),
    )
}

/// Returns, for people, the narrowest flag, variable, setting or rule with which the question would not have been
/// asked; `None` if a rule that a person has written asks the question.
pub(super) fn allowing(question: &Question) -> Option<String> {
    match question.subject {
        QuestionSubject::FolderPrograms => return Some("`GEMINI_CLI_TRUST_WORKSPACE=true`".into()),
        QuestionSubject::Repetition => return Some("`model.disableLoopDetection`".into()),
        QuestionSubject::UserInput => return None,
        QuestionSubject::Call | QuestionSubject::Connection => {}
    }
    if question.rules.iter().any(|rule| matches!(rule, RuleName::Written(_))) {
        return None;
    }
    let asks = |rule: BuiltInRule| question.rules.contains(&rule.into());
    if asks(BuiltInRule::Network) {
        return Some("`sandbox.network.allowedDomains`".to_owned());
    }
    if asks(BuiltInRule::Reads) {
        return Some("`tools.sandboxReadablePaths`".to_owned());
    }
    let is_edit = asks(BuiltInRule::Edits) || question.scopes.contains(&Scope::Edits);
    if is_edit {
        return Some("`--approval-mode auto_edit`".to_owned());
    }
    let rule = |keys: &str| Some(format!("a rule that allows this call, with `{keys}`"));
    let outside = "sandbox = \"danger-full-access\"";
    Some(match question.scopes.first() {
        Some(scope @ Scope::Commands(_)) => match &scope.prefixes()[..] {
            [prefix] if is_plain(prefix) => {
                format!("`--allowed-tools \"run_shell_command({prefix})\"`")
            }
            _ => return rule("commandPrefix"),
        },
        Some(Scope::Tool(tool)) => format!("`--allowed-tools {tool}`"),
        Some(Scope::Outside(_)) => return rule(outside),
        None if asks(BuiltInRule::Sandbox) => {
            return rule(&format!("priority = 900` and `{outside}"));
        }
        None => return rule("priority = 900"),
        Some(_) => "`--yolo`".to_owned(),
    })
}

/// Returns `true` if a flag can hold the beginning of a command without quoting.
fn is_plain(prefix: &str) -> bool {
    prefix.chars().all(|c| c.is_ascii_alphanumeric() || " -_./:=@".contains(c))
}
