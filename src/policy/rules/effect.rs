//! Effect and weight of a rule, and the certainty that something is meant.

/// Effect of a rule on the calls that it is about. The stricter is the greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RuleEffect {
    /// The verdict is the one without the rule.
    BuiltIn,
    /// The calls run.
    Allow,
    /// The calls are asked about, every time.
    Ask,
    /// The calls do not run.
    Deny,
}

/// Owner of a rule: a rule of a greater tier outranks all of a lesser.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// The user's own.
    User = 4,
    /// The machine's.
    Admin = 5,
}

/// Weight of a rule: its tier, then its priority (0 to 999).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank(u32);

impl Rank {
    /// Rank of the built-in rules that ask every time: a rule that allows such a call must weigh as
    /// much.
    pub const EVERY_TIME: Self = Self::new(Tier::User, 900);

    /// The rank of a rule.
    pub const fn new(tier: Tier, priority: u32) -> Self {
        Self(tier as u32 * 1000 + priority)
    }
}

/// Certainty that a rule is about something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Certainty {
    No,
    /// Only running it would tell.
    Perhaps,
    Yes,
}
