//! The approval of tool calls, as sessions and front ends know it: approval modes, the permissions of a session, questions
//! about calls, answers and their scopes, and consent to the programs of a folder.
//!
//! Calls are judged by a [`Policy`], which is in a room of its own (`tandem_policy`): an edit of a rule compiles no session
//! and no front end again.

pub mod consent;
pub mod sandbox_mark;

mod answer;
mod choice;
mod environment;
mod mode;
mod permissions;
mod policy;
mod program_input;
mod request;
mod saved;
mod scope;
mod store;
mod tool_list;
mod tool_name;
mod verdict;

pub use self::answer::{Answer, Decision};
pub use self::choice::{Choice, ChoiceKind, is_same_word, plain_answer};
pub use self::environment::{Environment, SandboxSituation};
pub use self::mode::Mode;
pub use self::permissions::{Permissions, PolicySetup, sandbox_mode_unasked};
pub use self::policy::{ListedRule, Policy, PolicyCall};
pub use self::program_input::describe_program_input;
pub use self::request::{CONNECT_TOOL, PolicyRequest, Situation};
pub use self::saved::Saved;
pub use self::scope::{CONTENT_SEPARATOR, Scope};
pub use self::store::{LoadedRules, RuleStore};
pub use self::tool_list::{ToolList, current_name};
pub use self::tool_name::NamePattern;
pub use self::verdict::{BuiltInRule, Checked, Question, QuestionSubject, RuleName, Verdict};
