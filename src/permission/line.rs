//! What the policy says of a command line: of each of its commands, and of all of them together.

use std::collections::HashSet;
use std::hash::Hash;
use std::path::Path;

use super::check::{Check, PLAN, ask, denied, nothing};
use super::policy::{Decision, Rank, RuleName, Ruling, Subject};
use super::rules::{self, Part, Risk};
use super::scope::{program, remembered};
use super::{Mode, Question, Scope, Verdict};
use crate::shell::brief;

/// What is said of one command.
enum Said<'a> {
    Runs,
    Asks(Asking<'a>),
    /// It is asked about in other modes.
    NotInPlan,
    /// Not at all; what the model is told.
    Denied(Verdict),
}

/// A command that is asked about.
struct Asking<'a> {
    part: &'a Part,
    rule: RuleName,
    /// Why, if not for what it would do.
    why: Option<String>,
}

impl Asking<'_> {
    /// Whether no "always" is offered.
    fn every_time(&self) -> bool {
        self.why.is_some() || matches!(self.part.risk, Risk::Forced(_))
    }
}

/// What the policy says of a line. Looks files up: of a very long one, thousands.
pub(super) fn verdict(check: &Check<'_>, line: &str, directory: &Path) -> Verdict {
    if check.mode() == Mode::Yolo && !check.policy.restricts() {
        return Verdict::Allow;
    }
    let whole = check.ruling(Subject::Line(line)).filter(|ruling| ruling.rule.reads());
    if let Some(Ruling { rule, decision: Decision::Deny }) = whole {
        return denied(rule, &brief(line));
    }
    let parts =
        match rules::judge_in(check.environment, line, directory, check.roots, check.secrets) {
            Ok(parts) => parts,
            Err(why) => return unclear(check, line, why),
        };
    // Nothing, or a way to somewhere, is for rules about the tool alone.
    let tool = if parts.iter().all(Part::only_goes) { check.ruling(Subject::Call) } else { None };
    if let Some(Ruling { rule, decision: Decision::Deny }) = tool {
        return denied(rule, &brief(line));
    }
    let always = check.always.covers_line(line, directory);
    let mut asking = Vec::new();
    let mut planned = false;
    for part in &parts {
        match said(check, part, always) {
            Said::Runs => {}
            Said::Asks(asks) => asking.push(asks),
            Said::NotInPlan => planned = true,
            Said::Denied(verdict) => return verdict,
        }
    }
    if planned {
        return Verdict::Deny(PLAN.to_owned());
    }
    let by_rule: Vec<_> = [whole, tool].into_iter().flatten().collect();
    let by_rule = by_rule.into_iter().find(|ruling| ruling.decision == Decision::Ask);
    if let Some(Ruling { rule, .. }) = by_rule {
        let why = format!("a rule asks about `{}`", brief(line));
        return Verdict::Ask(Question { why, rules: vec![rule.name.clone()], ..nothing() });
    }
    if asking.is_empty() {
        return Verdict::Allow;
    }
    Verdict::Ask(question(check, &parts, asking, (line, directory)))
}

/// Returns whether a line does no more than read the workspace, whatever was allowed.
pub(super) fn only_reads(check: &Check<'_>, line: &str, directory: &Path) -> bool {
    let parts = rules::judge_in(check.environment, line, directory, check.roots, check.secrets);
    parts.is_ok_and(|parts| parts.iter().all(|part| part.risk == Risk::None))
}

/// A line that cannot be taken apart.
fn unclear(check: &Check<'_>, line: &str, why: String) -> Verdict {
    let ruling = check.ruling(Subject::Unclear(line));
    match ruling {
        Some(Ruling { rule, decision: Decision::Deny }) => denied(rule, &brief(line)),
        Some(Ruling { rule, decision: Decision::Allow }) if rule.rank >= Rank::EVERY_TIME => {
            Verdict::Allow
        }
        _ if check.mode() == Mode::Plan => Verdict::Deny(PLAN.to_owned()),
        Some(Ruling { rule, decision: Decision::Ask }) => {
            let why = format!("a rule may be about it; {why}");
            Verdict::Ask(Question { why, rules: vec![rule.name.clone()], ..nothing() })
        }
        _ if check.mode() == Mode::Yolo => Verdict::Allow,
        _ => ask("unclear", why, Vec::new()),
    }
}

/// What is said of one command; `always`: the whole line is always allowed.
fn said<'a>(check: &Check<'_>, part: &'a Part, always: bool) -> Said<'a> {
    let built_in = || built_in(check, part, always);
    let Some(Ruling { rule, decision }) = check.ruling(Subject::Part(part)) else {
        return built_in();
    };
    let name = part.forms.first().map_or_else(
        || part.name.clone(),
        |form| brief(&form.iter().map(|word| word.source.as_str()).collect::<Vec<_>>().join(" ")),
    );
    match decision {
        Decision::Deny => Said::Denied(denied(rule, &name)),
        Decision::Ask if check.mode() == Mode::Plan && part.risk != Risk::None => Said::NotInPlan,
        Decision::Ask => {
            let asks = if rule.decision == Decision::Deny { "may forbid" } else { "asks about" };
            let why = Some(format!("a rule {asks} `{name}`"));
            Said::Asks(Asking { part, rule: rule.name.clone(), why })
        }
        Decision::Allow => match &part.risk {
            Risk::Forced(_) if rule.rank < Rank::EVERY_TIME => built_in(),
            _ if part.writes.is_some() && !rule.allow_redirection && !check.edits_freely() => {
                built_in()
            }
            _ => Said::Runs,
        },
        Decision::BuiltIn => built_in(),
    }
}

/// What is said of it without any written rule.
fn built_in<'a>(check: &Check<'_>, part: &'a Part, always: bool) -> Said<'a> {
    let edits = check.edits_freely();
    let asks =
        || Said::Asks(Asking { part, rule: RuleName::BuiltIn(part.rule.to_owned()), why: None });
    match (check.mode(), &part.risk) {
        (Mode::Yolo, _) | (_, Risk::None) => Said::Runs,
        (Mode::Plan, _) => Said::NotInPlan,
        (_, Risk::Forced(_)) => asks(),
        (_, Risk::Writes(_)) if edits => Said::Runs,
        (_, Risk::Writes(_) | Risk::Runs(_)) => {
            let tool = Scope::Tool(check.request.tool.to_owned());
            let known = always || check.always.has(&tool) || check.always.covers(part, edits);
            if known { Said::Runs } else { asks() }
        }
    }
}

fn question(
    check: &Check<'_>,
    parts: &[Part],
    asking: Vec<Asking<'_>>,
    (line, directory): (&str, &Path),
) -> Question {
    let edits = check.edits_freely();
    let open =
        |part: &&Part| matches!(part.risk, Risk::Forced(_)) || !check.always.covers(part, edits);
    let commands = unique(parts.iter().filter(open).map(|part| part.name.clone()));
    let mut scopes = Vec::new();
    if !asking.iter().any(Asking::every_time) {
        let parts = || asking.iter().map(|asking| asking.part);
        let prefixes = unique(parts().map(|part| remembered(part, edits)));
        let programs: Option<Vec<_>> = parts().map(|part| program(part, edits).cloned()).collect();
        let programs = programs.map(|programs| unique(programs.into_iter()));
        let programs = programs.filter(|programs| *programs != prefixes);
        scopes.push(Scope::Commands(prefixes));
        scopes.push(Scope::Line { line: line.to_owned(), directory: directory.to_owned() });
        scopes.extend(programs.map(Scope::Programs));
        if parts().all(|part| matches!(part.risk, Risk::Writes(_))) {
            scopes.push(Scope::Edits);
        }
        scopes.push(Scope::Tool(check.request.tool.to_owned()));
    }
    let (why, rules) = reasons(check, asking);
    Question { why, rules, commands, scopes, can_save: false }
}

/// Why these commands are asked about, and by which rules: the gravest reasons first, and not too
/// many.
fn reasons(check: &Check<'_>, mut asking: Vec<Asking<'_>>) -> (String, Vec<RuleName>) {
    const MAX: usize = 4;
    asking.sort_by_key(|asking| !asking.every_time());
    let (mut reasons, mut rules) = (Vec::new(), Vec::new());
    for asking in asking {
        let part = asking.part;
        if asking.every_time() || !check.always.covers(part, true) {
            reasons.push(asking.why.unwrap_or_else(|| part.why().to_owned()));
            rules.push(asking.rule);
        }
        if let Some(writes) = part.writes.clone().filter(|_| !check.edits_freely()) {
            reasons.push(writes);
            rules.push(RuleName::BuiltIn("redirections".to_owned()));
        }
    }
    let rules = unique(rules.into_iter());
    let mut reasons = unique(reasons.into_iter());
    let more = reasons.len().saturating_sub(MAX);
    reasons.truncate(MAX);
    if more > 0 {
        reasons.push(format!("and {more} more"));
    }
    (reasons.join("; "), rules)
}

/// The items without repetitions, in their order.
fn unique<T: Clone + Eq + Hash>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = HashSet::new();
    items.filter(|item| seen.insert(item.clone())).collect()
}
