//! Rules that people have written on the calls to allow, to deny or to ask about.
//!
//! Of the rules that are about a call, the rule of the highest rank decides; of two rules of the same rank, the
//! stricter. A command line is decided command by command. A rule that cannot be read, and could do more than allow,
//! turns the calls that it may have been about into questions.

mod command;
mod describe;
mod effect;
mod file;
mod old;
mod rule;
mod stable_json;
mod subject;

use std::cmp::Reverse;

use self::effect::Certainty;
pub use self::effect::{Rank, RuleEffect, Tier};
pub use self::file::{Parsed, parse};
pub use self::old::{ToolSettings, rules as old_rules};
pub use self::rule::{Broken, Rule};
pub use self::subject::Subject;
use tandem_approval::{NamePattern, PolicyRequest, Situation};

/// The rule that decides on a subject.
#[derive(Debug, Clone, Copy)]
pub struct Ruling<'a> {
    /// The rule.
    pub rule: &'a Rule,
    /// Effect on the subject: a rule that only may be about the subject asks, even if the rule denies or allows.
    pub effect: RuleEffect,
}

/// All rules that are in force.
#[derive(Debug, Clone, Default)]
pub struct RuleSet {
    /// Rules, the highest rank first. Of rules with the same rank, the strictest comes first.
    pub(super) rules: Vec<Rule>,
    /// Rules that could not be read.
    pub(super) broken: Vec<Broken>,
}

impl RuleSet {
    /// Returns a set of these rules, and of the rules that could not be read.
    pub fn new(mut rules: Vec<Rule>, broken: Vec<Broken>) -> Self {
        rules.sort_by_key(|rule| Reverse((rule.rank, rule.effect)));
        Self { rules, broken }
    }

    /// Returns the rule that decides on a subject, with its effect.
    pub(crate) fn ruling(
        &self,
        request: &PolicyRequest<'_>,
        situation: &Situation<'_>,
        subject: Subject<'_>,
    ) -> Option<Ruling<'_>> {
        // A rule that only may be about the subject asks, unless a rule of a lower rank surely denies.
        let mut perhaps = None;
        for rule in &self.rules {
            match rule.matches(request, situation, subject) {
                Certainty::No => {}
                Certainty::Perhaps => {
                    perhaps.get_or_insert(Ruling { rule, effect: RuleEffect::Ask });
                }
                Certainty::Yes if rule.effect == RuleEffect::Deny => {
                    return Some(Ruling { rule, effect: RuleEffect::Deny });
                }
                Certainty::Yes => {
                    let effect = rule.effect_in(situation.mode);
                    return perhaps.or(Some(Ruling { rule, effect }));
                }
            }
        }
        perhaps
    }

    /// Returns a rule that could not be read and may be about this call.
    pub(crate) fn unreadable_rule(&self, request: &PolicyRequest<'_>) -> Option<&Broken> {
        let may = |broken: &&Broken| {
            let named = |patterns: &Vec<NamePattern>| {
                patterns.iter().any(|pattern| pattern.matches(request, false))
            };
            broken.asks && broken.tools.as_ref().is_none_or(named)
        };
        self.broken.iter().find(may)
    }

    /// Returns whether a rule denies or asks about any call.
    pub(crate) fn restricts(&self) -> bool {
        self.rules.iter().any(|rule| rule.effect >= RuleEffect::Ask)
    }

    /// Returns the rule that denies every call of a tool in every mode, so that the model need not know of the tool.
    pub(super) fn removing_rule(
        &self,
        request: &PolicyRequest<'_>,
        situation: &Situation<'_>,
    ) -> Option<&Rule> {
        let mut about = self.rules.iter().filter(|rule| rule.about.names(request, situation));
        let first = about.find(|rule| {
            let whole = rule.about.whole();
            whole || rule.effect != RuleEffect::Deny
        });
        first.filter(|rule| rule.effect == RuleEffect::Deny)
    }
}
