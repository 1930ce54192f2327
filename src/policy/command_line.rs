//! The policy on command lines: a verdict on each command of a line, and one verdict on the whole line.

use std::collections::HashSet;
use std::hash::Hash;
use std::path::{Path, PathBuf};

use super::always::{self, program, remembered};
use super::check::{Check, ask, denied, not_in_plan};
use super::confined::Confined;
use super::findings::{self, AssessedCommand, ProjectContent, Risk, SECRETS};
use super::mode::Mode;
use super::reads;
use super::rules::{Rank, Rule, RuleEffect, Ruling, Subject};
use super::scope::Scope;
use super::verdict::{Question, RuleName, Verdict};
use tandem_host::SandboxRequest;
use tandem_host::command_sandbox::ShownFiles;
use tandem_host::workspace::OutsideFile;
use tandem_sandbox::SandboxMode;
use tandem_shell::brief;

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
    rule: RuleName,
    /// Reason of a written rule that asks; `None`: the risk of the command is the reason.
    why: Option<String>,
}

impl CommandQuestion<'_> {
    /// Returns whether the command is asked about every time, so that no "always" is offered.
    fn every_time(&self) -> bool {
        self.why.is_some() || matches!(self.command.risk, Risk::Forced(_))
    }
}

/// Verdict on a command line.
pub(super) struct LineVerdict {
    pub(super) verdict: Verdict,
    /// `true` if the commands of the line only read the workspace, except for redirections that write ordinary files.
    pub(super) only_reads: bool,
    /// Mode of the sandbox that the line runs in.
    pub(super) sandbox: SandboxMode,
    /// Files that the command line sees in the sandbox beside those that every command sees.
    pub(super) shown: ShownFiles,
}

impl LineVerdict {
    /// Returns a verdict on a line that runs without a sandbox.
    pub(super) fn outside(verdict: Verdict, only_reads: bool) -> Self {
        let sandbox = SandboxMode::DangerFullAccess;
        Self { verdict, only_reads, sandbox, shown: ShownFiles::default() }
    }
}

/// Returns the verdict on a line. Blocks on file look-ups: thousands of them for a very long line.
pub(super) fn verdict(
    check: &Check<'_>,
    line: &str,
    directory: &Path,
    request: Option<&SandboxRequest>,
) -> LineVerdict {
    // 1. In mode `yolo`, without a sandbox and without a rule that restricts, every line is allowed.
    // 2. A rule that denies the line as written decides.
    // 3. The commands of the line are assessed, the sandbox mode is chosen, and then each command is decided on.
    // 4. The question about files of the hidden home is added if the line runs in the sandbox.
    let assess =
        || findings::assess(check.environment, line, directory, check.roots, check.secrets);
    let only_read = |commands: &[AssessedCommand]| commands.iter().all(AssessedCommand::only_reads);
    let sandboxed = check.environment.sandbox().is_some();
    if check.mode() == Mode::Yolo && !check.policy.restricts() && !sandboxed {
        let only_reads = assess().is_ok_and(|commands| only_read(&commands));
        return LineVerdict::outside(Verdict::Allow, only_reads);
    }
    let whole = check.ruling(Subject::Line(line)).filter(|ruling| ruling.rule.reads());
    if let Some(Ruling { rule, effect: RuleEffect::Deny }) = whole {
        return LineVerdict::outside(denied(rule, &brief(line)), false);
    }
    let (verdict, only_reads, confined, mut shown) = match assess() {
        Ok(commands) => {
            let always = check.always.covers_line(&always::line(line, &commands), directory);
            let confined = Confined::new(check, &commands, always, request);
            let verdict = assessed(check, (line, directory), &commands, whole, confined);
            let secrets = commands.iter().flat_map(|command| command.secrets.iter().cloned());
            let mut shown = ShownFiles { secrets: secrets.collect(), ..ShownFiles::default() };
            if check.mode() == Mode::Yolo {
                // In mode `yolo` no person is asked about secrets outside the workspace, so that the sandbox hides
                // these.
                let is_inside = |file: &PathBuf| check.roots.iter().any(|it| file.starts_with(it));
                shown.secrets.retain(is_inside);
            }
            let verdict = match confined {
                Some(confined) if confined.shows_hidden(check) => {
                    about_hidden(check, verdict, &commands, &mut shown)
                }
                _ => verdict,
            };
            (verdict, only_read(&commands), confined, shown)
        }
        Err(why) => {
            let confined = Confined::unclear(check, line, request);
            (unclear(check, line, why, confined), false, confined, ShownFiles::default())
        }
    };
    let sandbox = confined.map_or(SandboxMode::DangerFullAccess, |confined| confined.mode);
    shown.of_home.extend(check.always.readable().cloned());
    LineVerdict { verdict, only_reads, sandbox, shown }
}

/// Adds to a verdict the question about the files of the hidden home that the commands name, and adds these files to
/// `shown`.
fn about_hidden(
    check: &Check<'_>,
    verdict: Verdict,
    commands: &[AssessedCommand],
    shown: &mut ShownFiles,
) -> Verdict {
    let hidden: Vec<_> = commands.iter().flat_map(|command| command.hidden.clone()).collect();
    shown.of_home = hidden.iter().map(|file| file.path.clone()).collect();
    // A link may lead to a store of secrets. A file in that store is not known as a secret by its name, and stays
    // hidden in the sandbox unless it is named here.
    let is_unnamed =
        |file: &&OutsideFile| file.folder.is_none() && !shown.secrets.contains(&file.path);
    let unnamed: Vec<_> = unique(hidden.iter().filter(is_unnamed).map(|file| file.path.clone()));
    let Some(mut question) = reads::question(&check.always, &hidden) else { return verdict };
    if !unnamed.is_empty() {
        let names: Vec<_> = unnamed.iter().map(|path| reads::name(path)).collect();
        let why = format!("{} may hold secrets", names.join(", "));
        question = question.with(&why, RuleName::BuiltIn(SECRETS.to_owned()));
        shown.secrets.extend(unnamed);
    }
    let names = commands.iter().filter(|command| !command.hidden.is_empty());
    let names = names.map(|command| command.name.clone());
    match verdict {
        Verdict::Allow => Verdict::Ask(Question { commands: unique(names), ..question }),
        // One answer is for the command and the hidden files together, so that no "always" is offered: it would be
        // meant for one of the two.
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

/// Returns the verdict on a line with these commands; `whole`: the ruling on the line as written.
fn assessed(
    check: &Check<'_>,
    (line, directory): (&str, &Path),
    commands: &[AssessedCommand],
    whole: Option<Ruling<'_>>,
    confined: Option<Confined<'_>>,
) -> Verdict {
    // A line may have no commands, or only `cd` commands within the workspace. Rules on commands do not fit such a
    // line, so the rules on the tool as a whole decide on the line.
    let only_goes = commands.iter().all(AssessedCommand::only_goes);
    let tool = if only_goes { check.ruling(Subject::Call) } else { None };
    if let Some(Ruling { rule, effect: RuleEffect::Deny }) = tool {
        return denied(rule, &brief(line));
    }
    let always = check.always.covers_line(&always::line(line, commands), directory);
    let mut asks = Vec::new();
    let mut planned = false;
    for command in commands {
        match on_command(check, command, always, confined.as_ref()) {
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
        let others = commands.iter().filter(|command| command.risk != Risk::None);
        asked.extend(others.map(|command| command.name.clone()));
    }
    let outside = confined.as_ref().is_some_and(Confined::is_outside);
    let is_held = confined.is_some() && !outside;
    let unknown = asks
        .iter()
        .map(|ask| ask.command)
        .filter(|command| !is_held && command.content == ProjectContent::Unknown);
    let unknown = unique(unknown.map(|command| format!("`{}`", command.prefix)));
    let mut question = if outside {
        outside_question(check, commands, by_rule, asks, line)
    } else {
        question(check, commands, by_rule, asks, (line, directory))
    };
    if !question.every_time() && !unknown.is_empty() {
        question.why.push_str(&format!(
            "; after an \"always\", {} runs whatever the workspace says then",
            unknown.join(", ")
        ));
    }
    Verdict::Ask(about_sandbox(question, confined, &unique(asked.into_iter())))
}

/// Adds the sandbox to a question, if it is a reason to ask; `asked`: names of the commands that are
/// asked about.
fn about_sandbox(
    mut question: Question,
    confined: Option<Confined<'_>>,
    asked: &[String],
) -> Question {
    if confined.is_some_and(|confined| confined.asks_to_leave()) {
        question.rules.insert(0, RuleName::BuiltIn("sandbox".to_owned()));
    }
    if let Some(why) = confined.and_then(|confined| confined.why(asked)) {
        let rest = Some(question.why).filter(|why| !why.is_empty());
        question.why = [Some(why), rest].into_iter().flatten().collect::<Vec<_>>().join("; ");
    }
    question
}

/// Returns the verdict on a line that cannot be analysed.
fn unclear(check: &Check<'_>, line: &str, why: String, confined: Option<Confined<'_>>) -> Verdict {
    let verdict = match check.ruling(Subject::Unclear(line)) {
        Some(Ruling { rule, effect: RuleEffect::Deny }) => denied(rule, &brief(line)),
        Some(Ruling { rule, effect: RuleEffect::Allow })
            if rule.rank >= Rank::EVERY_TIME && is_within(rule, confined.as_ref()) =>
        {
            Verdict::Allow
        }
        _ if check.mode() == Mode::Plan => not_in_plan(),
        Some(Ruling { rule, effect: RuleEffect::Ask }) => {
            let why = format!("a rule may apply to this command line; {why}");
            Verdict::Ask(Question { why, rules: vec![rule.name.clone()], ..Question::default() })
        }
        _ if check.mode() == Mode::Yolo && confined.is_none() => Verdict::Allow,
        _ if confined.is_some_and(|confined| confined.runs_unclear(check)) => Verdict::Allow,
        _ => ask("unclear", why, Vec::new()),
    };
    match verdict {
        Verdict::Ask(question) => Verdict::Ask(about_sandbox(question, confined, &[brief(line)])),
        verdict => verdict,
    }
}

/// Returns the verdict on one command; `always`: the user always allows the whole line.
fn on_command<'a>(
    check: &Check<'_>,
    command: &'a AssessedCommand,
    always: bool,
    confined: Option<&Confined<'_>>,
) -> CommandVerdict<'a> {
    let built_in = || built_in(check, command, always, confined);
    let Some(Ruling { rule, effect }) = check.ruling(Subject::Command(command)) else {
        return built_in();
    };
    let name = command.forms.first().map_or_else(
        || command.name.clone(),
        |form| brief(&form.iter().map(|word| word.source.as_str()).collect::<Vec<_>>().join(" ")),
    );
    match effect {
        RuleEffect::Deny => CommandVerdict::Denied(denied(rule, &name)),
        RuleEffect::Ask if check.mode() == Mode::Plan && command.risk != Risk::None => {
            CommandVerdict::NotInPlan
        }
        RuleEffect::Ask => {
            let asks = if rule.effect == RuleEffect::Deny { "may forbid" } else { "asks about" };
            let why = Some(format!("a rule {asks} `{name}`"));
            CommandVerdict::Asks(CommandQuestion { command, rule: rule.name.clone(), why })
        }
        RuleEffect::Allow => match &command.risk {
            Risk::Forced(_) if rule.rank < Rank::EVERY_TIME => built_in(),
            _ if !is_within(rule, confined) => built_in(),
            _ if command.writes.is_some() && !rule.allow_redirection && !check.edits_freely() => {
                built_in()
            }
            _ => CommandVerdict::Runs,
        },
        RuleEffect::BuiltIn => built_in(),
    }
}

/// Returns `true` if a rule allows a command where the command would run. In the sandbox, a rule allows a command up to
/// the mode that the rule names, else `workspace-write`. Without a sandbox, a rule allows the command only if the rule
/// names no mode, or `danger-full-access`.
fn is_within(rule: &Rule, confined: Option<&Confined<'_>>) -> bool {
    match confined {
        Some(confined) => confined.mode <= rule.most_sandbox_mode(),
        None => rule.sandbox.is_none_or(|mode| mode == SandboxMode::DangerFullAccess),
    }
}

/// Returns the verdict of the built-in rules on one command, without any written rule.
fn built_in<'a>(
    check: &Check<'_>,
    command: &'a AssessedCommand,
    always: bool,
    confined: Option<&Confined<'_>>,
) -> CommandVerdict<'a> {
    // In a sandbox, mode `yolo` allows without a question only what runs within the sandbox mode that the user has
    // named.
    let is_yolo = check.mode() == Mode::Yolo;
    let edits = check.edits_freely() || is_yolo;
    let asks = || {
        CommandVerdict::Asks(CommandQuestion {
            command,
            rule: RuleName::BuiltIn(command.rule.to_owned()),
            why: None,
        })
    };
    if check.mode() != Mode::Plan
        && let Some(runs) = confined.and_then(|confined| confined.runs(check, command))
    {
        return if runs { CommandVerdict::Runs } else { asks() };
    }
    match (check.mode(), &command.risk) {
        (_, Risk::None) => CommandVerdict::Runs,
        (Mode::Yolo, _) if confined.is_none() => CommandVerdict::Runs,
        (Mode::Plan, _) => CommandVerdict::NotInPlan,
        (_, Risk::Forced(_)) => asks(),
        (_, Risk::Writes(_)) if edits => CommandVerdict::Runs,
        (_, Risk::Writes(_) | Risk::Runs(_)) => {
            let tool = Scope::Tool(check.request.tool.to_owned());
            let always = always && !command.own;
            let known = always || check.always.has(&tool) || check.always.covers(command, edits);
            if known { CommandVerdict::Runs } else { asks() }
        }
    }
}

/// Returns the question about the commands that are asked about; `by_rule`: the rule that asks about
/// the whole line.
fn question(
    check: &Check<'_>,
    assessed: &[AssessedCommand],
    by_rule: Option<Ruling<'_>>,
    asks: Vec<CommandQuestion<'_>>,
    (line, directory): (&str, &Path),
) -> Question {
    let edits = check.edits_freely();
    let open = |command: &&AssessedCommand| {
        matches!(command.risk, Risk::Forced(_)) || !check.always.covers(command, edits)
    };
    let commands = unique(assessed.iter().filter(open).map(|command| command.name.clone()));
    let mut scopes = Vec::new();
    // One command that is asked about every time forbids "always" for the others of the line as well:
    // the one answer would be taken for both.
    if by_rule.is_none() && !asks.iter().any(CommandQuestion::every_time) {
        let asked = || asks.iter().map(|ask| ask.command);
        let prefixes = unique(asked().map(|command| remembered(command, edits)));
        let programs: Option<Vec<_>> = asked().map(|command| program(command, edits)).collect();
        let programs = programs.map(|programs| unique(programs.into_iter()));
        let programs = programs.filter(|programs| *programs != prefixes);
        scopes.push(Scope::Commands(prefixes));
        if !asked().any(|command| command.own) {
            scopes.push(Scope::Line {
                line: always::line(line, assessed),
                directory: directory.to_owned(),
            });
        }
        scopes.extend(programs.map(Scope::Programs));
        if asked().all(|command| matches!(command.risk, Risk::Writes(_))) {
            scopes.push(Scope::Edits);
        }
        scopes.push(Scope::Tool(check.request.tool.to_owned()));
    }
    let whole = by_rule
        .map(|ruling| (format!("a rule asks about `{}`", brief(line)), ruling.rule.name.clone()));
    let (why, rules) = reasons(check, whole, asks);
    Question { why, rules, commands, scopes, ..Question::default() }
}

/// Returns the question about commands that are to run outside of the sandbox.
fn outside_question(
    check: &Check<'_>,
    assessed: &[AssessedCommand],
    by_rule: Option<Ruling<'_>>,
    asks: Vec<CommandQuestion<'_>>,
    line: &str,
) -> Question {
    let commands = unique(assessed.iter().map(|command| command.name.clone()));
    let every_time = by_rule.is_some() || asks.iter().any(CommandQuestion::every_time);
    let prefixes = unique(asks.iter().map(|ask| remembered(ask.command, false)));
    let scopes = if every_time { Vec::new() } else { vec![Scope::Outside(prefixes)] };
    let whole = by_rule
        .map(|ruling| (format!("a rule asks about `{}`", brief(line)), ruling.rule.name.clone()));
    let (why, rules) = reasons(check, whole, asks);
    Question { why, rules, commands, scopes, ..Question::default() }
}

/// Returns the reasons to ask about these commands, and the rules that ask. The secrets come first, then the reason for
/// the whole line, then the gravest risks. At most four reasons are named, except that every secret is.
fn reasons(
    check: &Check<'_>,
    whole: Option<(String, RuleName)>,
    mut asks: Vec<CommandQuestion<'_>>,
) -> (String, Vec<RuleName>) {
    // The question shows the whole line besides; the gravest reasons must not drown.
    const MAX: usize = 4;
    asks.sort_by_key(|ask| !ask.every_time());
    let built_in = |rule: &str| RuleName::BuiltIn(rule.to_owned());
    let mut found: Vec<_> = whole.into_iter().collect();
    for ask in asks {
        let command = ask.command;
        if ask.every_time() || !check.always.covers(command, true) {
            let own = [(command.why().to_owned(), built_in(command.rule))];
            let also = command.also.iter();
            let also = also.map(|finding| (finding.why.clone(), built_in(finding.rule)));
            // A yes to a rule's question also allows the use of the secrets, so that these are named, too.
            let is_rule = ask.why.is_some();
            found.extend(ask.why.map(|why| (why, ask.rule)));
            let counts = |(_, rule): &(String, RuleName)| !is_rule || *rule == built_in(SECRETS);
            found.extend(own.into_iter().chain(also).filter(counts));
        }
        if let Some(writes) = command.writes.clone().filter(|_| !check.edits_freely()) {
            found.push((writes, built_in("redirections")));
        }
    }
    let mut found = unique(found.into_iter());
    // A yes shows the secret files to the command, so that every one of them is named.
    found.sort_by_key(|(_, rule)| *rule != built_in(SECRETS));
    let secrets = found.iter().filter(|(_, rule)| *rule == built_in(SECRETS)).count();
    let (reasons, rules): (Vec<_>, Vec<_>) = found.into_iter().unzip();
    let mut reasons = unique(reasons.into_iter());
    let most = secrets.max(MAX);
    let more = reasons.len().saturating_sub(most);
    reasons.truncate(most);
    if more > 0 {
        reasons.push(format!("and {more} more"));
    }
    (reasons.join("; "), unique(rules.into_iter()))
}

/// Returns the items without repetitions, in their order.
fn unique<T: Clone + Eq + Hash>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = HashSet::new();
    items.filter(|item| seen.insert(item.clone())).collect()
}
