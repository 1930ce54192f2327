//! The policy on texts for running programs. A program may take a text for commands, so a text is asked about every time
//! where no sandbox holds the program back, and is judged as a command line besides.

use serde_json::json;

use super::always::Always;
use super::check::{Check, not_in_plan};
use super::command_line::{self, is_grave_question, is_within, stricter_reading};
use super::confined::Confined;
use super::decide::{Action, Confinement, decide};
use super::findings::Fact;
use super::rules::{Rank, Rule, RuleEffect, Ruling};
use tandem_approval::{BuiltInRule, Checked, PolicyRequest, Question, RuleName, Verdict};
use tandem_host::{Access, ProgramInput};

/// Name of the tool that runs command lines. Its rules hold for what is written to a program, too.
const SHELL_TOOL: &str = "run_shell_command";

impl Check<'_> {
    /// Returns the verdict on a text for a running program: the stricter of the verdict on writing to the program and
    /// of the verdict on the text as a command line. Blocks on file look-ups, as for a command line.
    pub(super) fn program_input(&self, input: &ProgramInput) -> Checked {
        let text = match self.text(input) {
            // A rule that allows what is asked about every time allows every text, unless a rule is about that text.
            Verdict::Ask(asked) if self.allows_every_text() && !is_by_rule(&asked) => {
                Verdict::Allow
            }
            verdict => verdict,
        };
        let verdict = stricter(self.call(), text);
        Checked { sandbox: input.sandbox, ..verdict.into() }
    }

    /// Returns the verdict of the built-in rule on writing to a program, whatever the text is.
    pub(super) fn feeding(&self, input: &ProgramInput) -> Verdict {
        let confined = Confined::running(self, input);
        let confinement = confined.map_or(Confinement::Unsandboxed, |it| it.confinement);
        match decide(Fact::FeedsProgram, self.editing_mode(), confinement) {
            Action::Run => Verdict::Allow,
            Action::Refuse => not_in_plan(),
            Action::Ask | Action::AskEveryTime => {
                let (place, rules) = match confinement {
                    // A rule that allows the text must name the sandbox mode.
                    Confinement::Outside => (
                        ", which runs outside the sandbox,",
                        vec![BuiltInRule::ProgramInput.into(), BuiltInRule::Sandbox.into()],
                    ),
                    _ if input.sees_secrets => {
                        (", which sees secrets,", vec![BuiltInRule::ProgramInput.into()])
                    }
                    _ => ("", vec![BuiltInRule::ProgramInput.into()]),
                };
                let does = if input.text.is_empty() {
                    "act on the end of its input"
                } else {
                    "take the text for commands"
                };
                let why = format!("the program{place} may {does}");
                Verdict::Ask(Question { why, rules, ..Question::default() })
            }
        }
    }

    /// Returns `true` if a rule that allows calls allows this call where the call takes effect. A text takes effect in
    /// the sandbox of its program.
    pub(super) fn is_in_reach_of(&self, rule: &Rule) -> bool {
        match self.request.access {
            Access::ProgramInput(input) => is_within(rule, Confined::running(self, input).as_ref()),
            _ => true,
        }
    }

    /// Returns whether a rule allows writing to the program although it is asked about every time.
    fn allows_every_text(&self) -> bool {
        let ruling = self.call_ruling();
        ruling.is_some_and(|Ruling { rule, effect }| {
            effect == RuleEffect::Allow
                && rule.rank >= Rank::EVERY_TIME
                && self.is_in_reach_of(rule)
        })
    }

    /// Returns the verdict on a text as a command line.
    fn text(&self, input: &ProgramInput) -> Verdict {
        let whole = self.line(input, &format!("{}{}", input.unfinished, input.text));
        if input.unfinished.is_empty() {
            return whole;
        }
        // The program may have read the beginning of the line by itself, as `read -n 1` does, and a shell that it has
        // started reads only the rest.
        stricter_reading(whole, self.line(input, &input.text))
    }

    /// Returns the verdict on a line as a command line where the program runs. The line is judged in the directory in
    /// which the program was started.
    fn line(&self, input: &ProgramInput, line: &str) -> Verdict {
        if line.trim().is_empty() {
            return Verdict::Allow;
        }
        let args = json!({ "command": line });
        let directory = input.directory.clone();
        let access = Access::Execute { command: line.to_owned(), directory, sandbox: None };
        let request =
            PolicyRequest { tool: SHELL_TOOL, aliases: &[], args: &args, access: &access };
        let check = Check { request: &request, always: Always(self.always.0.clone()), ..*self };
        let confined = Confined::running(self, input);
        check.doubted(command_line::input_verdict(&check, line, &input.directory, confined))
    }
}

/// Returns the stricter of two verdicts. Of two questions, one asks for both reasons, and every time: an "always" for a
/// command line is not meant for what other programs are told.
fn stricter(of_program: Verdict, of_text: Verdict) -> Verdict {
    match (of_program, of_text) {
        (denied @ Verdict::Deny { .. }, _) | (_, denied @ Verdict::Deny { .. }) => denied,
        (Verdict::Allow, Verdict::Allow) => Verdict::Allow,
        (Verdict::Ask(asked), Verdict::Allow) => Verdict::Ask(asked),
        (Verdict::Allow, Verdict::Ask(asked)) => {
            Verdict::Ask(Question { scopes: Vec::new(), ..asked })
        }
        // A text that is no command line, or that an "always" could cover as one, is no graver than any other text.
        (Verdict::Ask(asked), Verdict::Ask(text)) if !is_grave_question(&text) => {
            Verdict::Ask(asked)
        }
        (Verdict::Ask(asked), Verdict::Ask(text)) => Verdict::Ask(Question {
            why: format!("{}; {}", asked.why, text.why),
            rules: [asked.rules, text.rules].concat(),
            commands: text.commands,
            ..asked
        }),
    }
}

/// Returns whether a rule that a person has written asks.
fn is_by_rule(question: &Question) -> bool {
    question.rules.iter().any(|rule| matches!(rule, RuleName::Written(_)))
}
