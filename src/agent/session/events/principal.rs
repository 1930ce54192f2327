//! Principals: people and services that a server knows by name, and their rights in a session.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Identity of a person or a service to whom a server gives access: a tenant, and a name in it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PrincipalId {
    /// The tenant. A session can be shared only with members of its owner's tenant.
    pub tenant: String,
    /// The principal's name, which is unique in the tenant.
    pub name: String,
}

/// Maximum number of characters of a principal's name or of a tenant's name.
const LONGEST_NAME: usize = 64;

impl PrincipalId {
    /// Returns `true` if a text can be the name of a person, a service or a tenant: the text can be typed, and is safe
    /// in logs and in names of files.
    pub fn is_name(text: &str) -> bool {
        let is_good = |c: char| c.is_ascii_alphanumeric() || "._@+-".contains(c);
        !text.is_empty() && text.len() <= LONGEST_NAME && text.chars().all(is_good)
    }
}

impl fmt::Display for PrincipalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// Role of a member with whom a session is shared. Each role includes the rights of the roles before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ShareRole {
    /// The member reads the session.
    Watch,
    /// The member also answers the agent's questions.
    Answer,
    /// The member also sends prompts and commands, and cancels turns.
    Drive,
}

impl ShareRole {
    /// Returns the role's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Watch => "watch",
            Self::Answer => "answer",
            Self::Drive => "drive",
        }
    }
}

impl fmt::Display for ShareRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ShareRole {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let roles = [Self::Watch, Self::Answer, Self::Drive];
        let role = roles.into_iter().find(|role| role.name() == name);
        role.ok_or_else(|| format!("`{name}` is not a role; the roles are watch, answer and drive"))
    }
}

/// The members of the owner's tenant with whom a session is shared, by their names.
pub type Shares = BTreeMap<String, ShareRole>;

/// Owner of a session, and the members with whom the session is shared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionAccess {
    /// The owner. A session without one belongs to the user of the machine.
    pub owner: Option<PrincipalId>,
    /// The members of the owner's tenant with whom the session is shared.
    pub shares: Shares,
}

impl SessionAccess {
    /// Returns `true` if a principal owns the session.
    pub fn is_owner(&self, principal: &PrincipalId) -> bool {
        self.owner.as_ref() == Some(principal)
    }

    /// Returns the role in which the session is shared with a principal; `None` if the session is not shared with the
    /// principal, or has no owner.
    pub fn role(&self, principal: &PrincipalId) -> Option<ShareRole> {
        let owner = self.owner.as_ref()?;
        // Shares have names without a tenant: the same name in another tenant is another principal.
        if owner.tenant != principal.tenant {
            return None;
        }
        self.shares.get(&principal.name).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(tenant: &str, name: &str) -> PrincipalId {
        PrincipalId { tenant: tenant.to_owned(), name: name.to_owned() }
    }

    #[test]
    fn a_share_counts_in_the_owners_tenant_alone() {
        let shares = Shares::from([("bob".to_owned(), ShareRole::Answer)]);
        let access = SessionAccess { owner: Some(id("a", "alice")), shares };
        assert!(access.is_owner(&id("a", "alice")) && !access.is_owner(&id("b", "alice")));
        assert_eq!(access.role(&id("a", "bob")), Some(ShareRole::Answer));
        assert_eq!(access.role(&id("b", "bob")), None);
        assert_eq!(access.role(&id("a", "carol")), None);
        let unowned = SessionAccess { owner: None, ..access };
        assert_eq!(unowned.role(&id("a", "bob")), None);
    }

    #[test]
    fn a_name_is_one_that_can_be_typed() {
        for good in ["alice", "ci-bot_2", "a.b@example.org", &"a".repeat(64)] {
            assert!(PrincipalId::is_name(good), "{good}");
        }
        for bad in ["", "a b", "a/b", "ä", "a\n", "\u{202e}a", &"a".repeat(65)] {
            assert!(!PrincipalId::is_name(bad), "{bad:?}");
        }
    }

    #[test]
    fn a_role_is_read_by_its_name() {
        assert_eq!("drive".parse(), Ok(ShareRole::Drive));
        assert!("own".parse::<ShareRole>().is_err());
        assert!(ShareRole::Watch < ShareRole::Answer && ShareRole::Answer < ShareRole::Drive);
    }
}
