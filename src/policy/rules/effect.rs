//! Effect and rank of a rule, and the certainty that the rule is about a call.

/// Effect of a rule on the calls that it is about. The stricter effect is the greater one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RuleEffect {
    /// The verdict is the same as without the rule.
    BuiltIn,
    /// The calls run.
    Allow,
    /// The calls are asked about, every time.
    Ask,
    /// The calls do not run.
    Deny,
}

/// Owner of a rule. A rule of a greater tier outranks every rule of a lesser tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// Rule of the user.
    User = 4,
    /// Rule of the machine's administrator.
    Admin = 5,
}

/// Weight of a rule among others: its tier, then its priority (0 to 999).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank(u32);

impl Rank {
    /// Rank of the built-in rules that ask every time. A rule that allows such a call needs at least this rank.
    pub const EVERY_TIME: Self = Self::new(Tier::User, 900);

    /// Returns the rank of a rule.
    pub const fn new(tier: Tier, priority: u32) -> Self {
        Self(tier as u32 * 1000 + priority)
    }
}

/// Certainty that a rule is about a call or a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Certainty {
    No,
    /// Known only when the command runs.
    Perhaps,
    Yes,
}
