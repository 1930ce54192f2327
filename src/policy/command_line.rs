//! The policy on command lines: a verdict on each command of a line, and one verdict on the whole line.

use std::collections::HashSet;
use std::hash::Hash;
use std::path::{Path, PathBuf};

use super::always::{self, program, remembered};
use super::check::{Check, denied, not_in_plan};
use super::confined::Confined;
use super::decide::{Action, Confinement, Gravity, decide, decide_all, gravity, reasons};
use super::findings::{self, AssessedCommand, Fact, Finding, ProjectContent};
use super::reads;
use super::rules::{Rank, Rule, RuleEffect, Ruling, Subject};
use tandem_approval::{BuiltInRule, Checked, Mode, Question, RuleName, Scope, Verdict};
use tandem_host::SandboxRequest;
use tandem_host::command_sandbox::ShownFiles;
use tandem_host::workspace::OutsideFile;
use tandem_sandbox::SandboxMode;
use tandem_shell::{ShellDialect, Word, brief};

/// Verdict on one command.
enum CommandVerdict<'a> {
    Runs,
    Asks(CommandQuestion<'a>),
    /// Plan mode denies the command; other modes ask about it.
    NotInPlan,
    Denied(Verdict),
}

/// A command that is asked about.
struct CommandQuestion<'a> {
    command: &'a AssessedCommand,
    /// `true` if the command is asked about every time. Then no "always" is offered.
    every_time: bool,
    /// Reason of a written rule that asks; `None`: the findings of the command are the reasons.
    by_rule: Option<Reason>,
}

/// Reason for a question, and the rule that asks.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Reason {
    why: String,
    rule: RuleName,
}

impl From<&Finding> for Reason {
    fn from(finding: &Finding) -> Self {
        Self { why: finding.why.clone(), rule: finding.rule.into() }
    }
}

/// Returns the verdict on a line. Blocks on file look-ups: thousands of them for a very long line.
pub(super) fn verdict(
    check: &Check<'_>,
    text: &str,
    directory: &Path,
    request: Option<&SandboxRequest>,
) -> Checked {
    // 1. In mode `yolo`, without a sandbox and without a rule that restricts, every line is allowed.
    // 2. A rule that denies the line as written decides.
    // 3. The commands of the line are assessed, the sandbox mode is chosen, and then each command is decided on.
    // 4. The question about files of the hidden home is added if the line runs in the sandbox.
    let assess =
        || findings::assess(check.environment, text, directory, check.roots, check.secrets);
    let sandboxed = check.environment.sandbox().is_some();
    if check.mode() == Mode::Yolo && !check.policy.restricts() && !sandboxed {
        let only_reads = assess().is_ok_and(|commands| only_read(&commands));
        return Checked { only_reads, ..Verdict::Allow.into() };
    }
    let whole = match line_ruling(check, text) {
        Ok(whole) => whole,
        Err(denied) => return denied.into(),
    };
    let (verdict, only_reads, confined, mut shown) = match assess() {
        Ok(commands) => {
            let remembered = always::line(text, &commands);
            let always = check.always.covers_line(&remembered, directory);
            let confined = Confined::new(check, &commands, always, request);
            let line = Line { check, text, directory, remembered, always, commands, confined };
            let (verdict, shown) = line.verdict_with_files(whole);
            (verdict, only_read(&line.commands), confined, shown)
        }
        Err(why) => {
            let confined = Confined::unclear(check, text, request);
            (unclear(check, text, why, confined), false, confined, ShownFiles::default())
        }
    };
    let sandbox = confined.map_or(SandboxMode::DangerFullAccess, |confined| confined.mode);
    shown.of_home.extend(check.always.readable().cloned());
    Checked { sandbox, shown, only_reads, ..verdict.into() }
}

/// Returns the verdict on a text for a running program, judged as a line of bash and of `sh` that runs where the
/// program runs. The sandbox of the program shows the files that it showed when the program started, whatever the text
/// names. So files of the hidden home are not asked about.
pub(super) fn input_verdict<'a>(
    check: &'a Check<'a>,
    text: &'a str,
    directory: &'a Path,
    confined: Option<Confined<'a>>,
) -> Verdict {
    let whole = match line_ruling(check, text) {
        Ok(whole) => whole,
        Err(denied) => return denied,
    };
    let verdict =
        match findings::assess(check.environment, text, directory, check.roots, check.secrets) {
            Ok(commands) => {
                let remembered = always::line(text, &commands);
                let always = check.always.covers_line(&remembered, directory);
                let line = Line { check, text, directory, remembered, always, commands, confined };
                line.verdict(whole)
            }
            Err(why) => return unclear(check, text, why, confined),
        };
    // The program may be a shell other than bash.
    match tandem_shell::parse(text, ShellDialect::Plain) {
        Ok(_) => verdict,
        Err(why) => stricter_reading(verdict, unclear(check, text, why, confined)),
    }
}

/// Returns the stricter of the verdicts on two readings of one text. Two grave questions become one question with both
/// reasons.
pub(super) fn stricter_reading(first: Verdict, other: Verdict) -> Verdict {
    match (first, other) {
        (denied @ Verdict::Deny { .. }, _) | (_, denied @ Verdict::Deny { .. }) => denied,
        (verdict, Verdict::Allow) | (Verdict::Allow, verdict) => verdict,
        (Verdict::Ask(first), Verdict::Ask(other))
            if !is_grave_question(&other) || first.why.contains(&other.why) =>
        {
            Verdict::Ask(first)
        }
        (Verdict::Ask(first), Verdict::Ask(other))
            if !is_grave_question(&first) || other.why.contains(&first.why) =>
        {
            Verdict::Ask(other)
        }
        (Verdict::Ask(first), Verdict::Ask(other)) => Verdict::Ask(Question {
            why: format!("{}; {}", first.why, other.why),
            rules: unique(first.rules.into_iter().chain(other.rules)),
            commands: unique(first.commands.into_iter().chain(other.commands)),
            scopes: Vec::new(),
            ..first
        }),
    }
}

/// Returns `true` if a question is asked every time, for more than a line that cannot be analysed.
pub(super) fn is_grave_question(question: &Question) -> bool {
    question.every_time() && question.rules != [BuiltInRule::Unclear.into()]
}

/// Returns the ruling on a line as written; the error is the verdict of a rule that denies the line.
fn line_ruling<'a>(check: &Check<'a>, text: &str) -> Result<Option<Ruling<'a>>, Verdict> {
    let whole = check.ruling(Subject::Line(text)).filter(|ruling| ruling.rule.reads());
    match whole {
        Some(Ruling { rule, effect: RuleEffect::Deny }) => Err(denied(rule, &brief(text))),
        whole => Ok(whole),
    }
}

fn only_read(commands: &[AssessedCommand]) -> bool {
    commands.iter().all(AssessedCommand::only_reads)
}

/// A line that is checked.
struct Line<'a> {
    check: &'a Check<'a>,
    text: &'a str,
    directory: &'a Path,
    /// The line as an "always" remembers it.
    remembered: String,
    /// `true` if the user always allows the whole line.
    always: bool,
    commands: Vec<AssessedCommand>,
    confined: Option<Confined<'a>>,
}

impl Line<'_> {
    fn confinement(&self) -> Confinement {
        self.confined.map_or(Confinement::Unsandboxed, |confined| confined.confinement)
    }

    /// Returns the verdict on the line, and the files that the line sees in the sandbox, at once or after a yes.
    /// `whole`: the ruling on the line as written.
    fn verdict_with_files(&self, whole: Option<Ruling<'_>>) -> (Verdict, ShownFiles) {
        let verdict = self.verdict(whole);
        let secrets = self.commands.iter().flat_map(|command| command.secrets.iter().cloned());
        let mut shown = ShownFiles { secrets: secrets.collect(), ..ShownFiles::default() };
        if self.check.mode() == Mode::Yolo {
            // In mode `yolo`, no person is asked about secrets outside the workspace. So the sandbox keeps such
            // secrets hidden.
            let is_inside = |file: &PathBuf| self.check.roots.iter().any(|it| file.starts_with(it));
            shown.secrets.retain(is_inside);
        }
        // Outside of the sandbox, and without a sandbox, no file is hidden. If no person is asked about the hidden
        // home, the home stays hidden.
        let is_inside = self.confined.is_some_and(|confined| !confined.is_outside());
        if is_inside && self.check.decide(Fact::ReadsHiddenHome) != Action::Run {
            (self.about_hidden(verdict, &mut shown), shown)
        } else {
            (verdict, shown)
        }
    }

    /// Adds to a verdict the question about the files of the hidden home that the commands name, and adds these files
    /// to `shown`.
    fn about_hidden(&self, verdict: Verdict, shown: &mut ShownFiles) -> Verdict {
        let commands = &self.commands;
        let hidden: Vec<_> = commands.iter().flat_map(|command| command.hidden.clone()).collect();
        shown.of_home = hidden.iter().map(|file| file.path.clone()).collect();
        // A link may lead to a store of secrets. A file in that store is not known as a secret by its name, and stays
        // hidden in the sandbox unless it is named here.
        let is_unnamed =
            |file: &&OutsideFile| file.folder.is_none() && !shown.secrets.contains(&file.path);
        let unnamed = hidden.iter().filter(is_unnamed).map(|file| file.path.clone());
        let unnamed: Vec<_> = unique(unnamed);
        let Some(mut question) = reads::question(&self.check.always, &hidden) else {
            return verdict;
        };
        if !unnamed.is_empty() {
            let names: Vec<_> = unnamed.iter().map(|path| reads::name(path)).collect();
            let why = format!("{} may hold secrets", names.join(", "));
            question = question.with(&why, BuiltInRule::Secrets);
            shown.secrets.extend(unnamed);
        }
        let names = commands.iter().filter(|command| !command.hidden.is_empty());
        let names = names.map(|command| command.name.clone());
        match verdict {
            Verdict::Allow => Verdict::Ask(Question { commands: unique(names), ..question }),
            // The question is about the command and about the hidden files. An "always" would be meant for one of them,
            // so none is offered.
            Verdict::Ask(asked) => Verdict::Ask(Question {
                why: format!("{}; {}", asked.why, question.why),
                rules: [asked.rules, question.rules].concat(),
                commands: unique(asked.commands.into_iter().chain(names)),
                scopes: Vec::new(),
                ..question
            }),
            denied @ Verdict::Deny { .. } => denied,
        }
    }

    /// Returns the verdict on the line; `whole`: the ruling on the line as written.
    fn verdict(&self, whole: Option<Ruling<'_>>) -> Verdict {
        // A line may have no commands, or only `cd` commands within the workspace. Rules on commands do not fit such a
        // line, so the rules on the tool as a whole decide on the line.
        let only_goes = self.commands.iter().all(AssessedCommand::only_goes);
        let tool = if only_goes { self.check.ruling(Subject::Call) } else { None };
        if let Some(Ruling { rule, effect: RuleEffect::Deny }) = tool {
            return denied(rule, &brief(self.text));
        }
        let mut asks = Vec::new();
        let mut planned = false;
        for command in &self.commands {
            match self.on_command(command) {
                CommandVerdict::Runs => {}
                CommandVerdict::Asks(ask) => asks.push(ask),
                CommandVerdict::NotInPlan => planned = true,
                CommandVerdict::Denied(verdict) => return verdict,
            }
        }
        if planned {
            return not_in_plan();
        }
        let mut by_rule = [whole, tool].into_iter().flatten();
        let by_rule = by_rule.find(|ruling| ruling.effect == RuleEffect::Ask);
        if asks.is_empty() && by_rule.is_none() {
            return Verdict::Allow;
        }
        let mut asked: Vec<_> = asks.iter().map(|ask| ask.command.name.clone()).collect();
        if asked.is_empty() {
            let others = self.commands.iter().filter(|command| !command.findings.is_empty());
            asked.extend(others.map(|command| command.name.clone()));
        }
        let question = self.question(by_rule, asks);
        Verdict::Ask(about_sandbox(question, self.confined, &unique(asked.into_iter())))
    }

    /// Returns the verdict on one command: that of the written rule about it, or else that of the built-in rules.
    fn on_command<'a>(&self, command: &'a AssessedCommand) -> CommandVerdict<'a> {
        let Some(Ruling { rule, effect }) = self.check.ruling(Subject::Command(command)) else {
            return self.built_in(command);
        };
        let written = |form: &Vec<Word>| {
            brief(&form.iter().map(|word| word.source.as_str()).collect::<Vec<_>>().join(" "))
        };
        let name = command.forms.first().map_or_else(|| command.name.clone(), written);
        match effect {
            RuleEffect::Deny => CommandVerdict::Denied(denied(rule, &name)),
            RuleEffect::Ask if self.check.mode() == Mode::Plan && !command.findings.is_empty() => {
                CommandVerdict::NotInPlan
            }
            RuleEffect::Ask => {
                let asks =
                    if rule.effect == RuleEffect::Deny { "may forbid" } else { "asks about" };
                let why = format!("a rule {asks} `{name}`");
                let by_rule = Some(Reason { why, rule: rule.name.clone() });
                CommandVerdict::Asks(CommandQuestion { command, every_time: true, by_rule })
            }
            RuleEffect::Allow if self.is_allowed_by(rule, command) => CommandVerdict::Runs,
            RuleEffect::Allow | RuleEffect::BuiltIn => self.built_in(command),
        }
    }

    /// Returns `true` if a rule that allows a command allows everything that was found of the command, in the place
    /// where it would run.
    fn is_allowed_by(&self, rule: &Rule, command: &AssessedCommand) -> bool {
        let is_grave = is_grave(command);
        let writes = command.first_finding(Fact::WritesFile).is_some();
        (!is_grave || rule.rank >= Rank::EVERY_TIME)
            && is_within(rule, self.confined.as_ref())
            && (!writes || rule.allow_redirection || self.check.edits_freely())
    }

    /// Returns the verdict of the built-in rules on one command, without any written rule.
    fn built_in<'a>(&self, command: &'a AssessedCommand) -> CommandVerdict<'a> {
        let mode = self.check.editing_mode();
        let leaves = self.confined.is_some_and(|confined| confined.leaves_harmless());
        let action = if leaves {
            decide(Fact::LeavesSandbox, mode, self.confinement())
        } else {
            decide_all(&command.findings, mode, self.confinement())
        };
        match action {
            Action::Run => CommandVerdict::Runs,
            Action::Refuse => CommandVerdict::NotInPlan,
            Action::Ask if self.is_always_allowed(command) => CommandVerdict::Runs,
            Action::Ask | Action::AskEveryTime => CommandVerdict::Asks(CommandQuestion {
                command,
                every_time: action == Action::AskEveryTime,
                by_rule: None,
            }),
        }
    }

    /// Returns whether an "always" covers a command where it would run.
    fn is_always_allowed(&self, command: &AssessedCommand) -> bool {
        let always = &self.check.always;
        if self.confinement() == Confinement::Outside {
            return always.covers_outside(command);
        }
        let edits = self.check.edits_freely() || self.check.mode() == Mode::Yolo;
        (self.always && !command.remembered.own)
            || always.has(&self.check.whole_tool())
            || always.covers(command, edits)
    }

    /// Returns the question about the commands that are asked about; `by_rule`: the rule that asks about the whole
    /// line.
    fn question(&self, by_rule: Option<Ruling<'_>>, asks: Vec<CommandQuestion<'_>>) -> Question {
        let is_outside = self.confinement() == Confinement::Outside;
        let edits = self.check.edits_freely();
        let open = |command: &&AssessedCommand| {
            is_outside || is_grave(command) || !self.check.always.covers(command, edits)
        };
        let commands = unique(self.commands.iter().filter(open).map(|it| it.name.clone()));
        // If one command of the line is asked about every time, no "always" is offered for the line: one answer counts
        // for all its commands.
        let every_time = by_rule.is_some() || asks.iter().any(|ask| ask.every_time);
        let scopes = if every_time { Vec::new() } else { self.scopes(&asks) };
        let is_held = self.confined.is_some() && !is_outside;
        let unknown = asks.iter().map(|ask| &ask.command.remembered);
        let unknown = unknown.filter(|it| !is_held && it.content == ProjectContent::Unknown);
        let unknown = unique(unknown.map(|it| format!("`{}`", it.prefix)));
        let whole = by_rule.map(|ruling| Reason {
            why: format!("a rule asks about `{}`", brief(self.text)),
            rule: ruling.rule.name.clone(),
        });
        let (mut why, rules) = self.reasons(whole, asks);
        if !scopes.is_empty() && !unknown.is_empty() {
            why.push_str(&format!(
                "; after an \"always\", {} runs without a question even if files of the workspace change what it \
                 does",
                unknown.join(", ")
            ));
        }
        Question { why, rules, commands, scopes, ..Question::default() }
    }

    /// Returns the scopes that an "always" can have, the usual one first.
    fn scopes(&self, asks: &[CommandQuestion<'_>]) -> Vec<Scope> {
        let asked = || asks.iter().map(|ask| ask.command);
        if self.confinement() == Confinement::Outside {
            return vec![Scope::Outside(unique(asked().map(|it| remembered(it, false))))];
        }
        let edits = self.check.edits_freely();
        let prefixes = unique(asked().map(|command| remembered(command, edits)));
        let programs: Option<Vec<_>> = asked().map(|command| program(command, edits)).collect();
        let programs = programs.map(|programs| unique(programs.into_iter()));
        let programs = programs.filter(|programs| *programs != prefixes);
        let mut scopes = vec![Scope::Commands(prefixes)];
        if !asked().any(|command| command.remembered.own) {
            let (line, directory) = (self.remembered.clone(), self.directory.to_owned());
            scopes.push(Scope::Line { line, directory });
        }
        scopes.extend(programs.map(Scope::Programs));
        if asked().all(|command| gravity(&command.findings) == Some(Gravity::Edit)) {
            scopes.push(Scope::Edits);
        }
        scopes.push(self.check.whole_tool());
        scopes
    }

    /// Returns the reasons to ask about these commands, and the rules that ask. The secrets come first, then the reason
    /// for the whole line, then the gravest findings. At most four reasons are named, except that every secret is.
    fn reasons(
        &self,
        whole: Option<Reason>,
        mut asks: Vec<CommandQuestion<'_>>,
    ) -> (String, Vec<RuleName>) {
        // The gravest reasons come first, and there are no more than a person can read. The question also shows the
        // whole line, so the person can see what the other reasons would be about.
        const MAX_REASONS: usize = 4;
        let secrets = RuleName::from(BuiltInRule::Secrets);
        asks.sort_by_key(|ask| !ask.every_time);
        let mut found: Vec<_> = whole.into_iter().collect();
        for CommandQuestion { command, every_time, by_rule } in asks {
            // A yes to a rule's question also lets the command use secrets. Therefore the question names them as well.
            let is_by_rule = by_rule.is_some();
            if every_time || !self.check.always.covers(command, true) {
                found.extend(by_rule);
                let own = reasons(&command.findings).into_iter().map(Reason::from);
                found.extend(own.filter(|reason| !is_by_rule || reason.rule == secrets));
            }
            if let Some(writes) = command.first_finding(Fact::WritesFile)
                && !self.check.edits_freely()
            {
                found.push(writes.into());
            }
        }
        let mut found = unique(found.into_iter());
        // A yes shows the secret files to the command. Therefore the question names every one of them.
        found.sort_by_key(|reason| reason.rule != secrets);
        let most = found.iter().filter(|reason| reason.rule == secrets).count().max(MAX_REASONS);
        let rules = unique(found.iter().map(|reason| reason.rule.clone()));
        let mut reasons = unique(found.into_iter().map(|reason| reason.why));
        let more = reasons.len().saturating_sub(most);
        reasons.truncate(most);
        if more > 0 {
            reasons.push(format!("and {more} more"));
        }
        (reasons.join("; "), rules)
    }
}

/// Returns `true` if a command is asked about every time in a place where no sandbox holds it back.
fn is_grave(command: &AssessedCommand) -> bool {
    gravity(&command.findings) == Some(Gravity::EveryTime)
}

/// Adds the sandbox to a question, if it is a reason to ask; `asked`: names of the commands that are
/// asked about.
fn about_sandbox(
    mut question: Question,
    confined: Option<Confined<'_>>,
    asked: &[String],
) -> Question {
    if confined.is_some_and(|confined| confined.asks_to_leave()) {
        question.rules.insert(0, BuiltInRule::Sandbox.into());
    }
    if let Some(why) = confined.and_then(|confined| confined.why(asked)) {
        let rest = Some(question.why).filter(|why| !why.is_empty());
        question.why = [Some(why), rest].into_iter().flatten().collect::<Vec<_>>().join("; ");
    }
    question
}

/// Returns the verdict on a line that cannot be analysed.
fn unclear(check: &Check<'_>, line: &str, why: String, confined: Option<Confined<'_>>) -> Verdict {
    let confinement = confined.map_or(Confinement::Unsandboxed, |confined| confined.confinement);
    let action = decide(Fact::Unresolved, check.editing_mode(), confinement);
    let question = match check.ruling(Subject::Unclear(line)) {
        Some(Ruling { rule, effect: RuleEffect::Deny }) => return denied(rule, &brief(line)),
        Some(Ruling { rule, effect: RuleEffect::Allow })
            if rule.rank >= Rank::EVERY_TIME && is_within(rule, confined.as_ref()) =>
        {
            return Verdict::Allow;
        }
        _ if action == Action::Refuse => return not_in_plan(),
        Some(Ruling { rule, effect: RuleEffect::Ask }) => {
            let why = format!("a rule may apply to this command line; {why}");
            Question { why, rules: vec![rule.name.clone()], ..Question::default() }
        }
        _ if action == Action::Run => return Verdict::Allow,
        _ => Question { why, rules: vec![BuiltInRule::Unclear.into()], ..Question::default() },
    };
    Verdict::Ask(about_sandbox(question, confined, &[brief(line)]))
}

/// Returns `true` if a rule allows a command where the command would run. In the sandbox, a rule allows a command up to
/// the mode that the rule names, else `workspace-write`. Without a sandbox, a rule allows the command only if the rule
/// names no mode, or `danger-full-access`.
pub(super) fn is_within(rule: &Rule, confined: Option<&Confined<'_>>) -> bool {
    match confined {
        Some(confined) => confined.mode <= rule.most_sandbox_mode(),
        None => rule.sandbox.is_none_or(|mode| mode == SandboxMode::DangerFullAccess),
    }
}

/// Returns the items without repetitions, in their order.
fn unique<T: Clone + Eq + Hash>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = HashSet::new();
    items.filter(|item| seen.insert(item.clone())).collect()
}
