//! Workspaces of sessions that are clones of git repositories, each with snapshots in its repository, so that any
//! node can go on with the session.
//!
//! A model can write whatever it likes into a clone. So no git command of this room works with a clone's own
//! `.git`: beside the clone there is a git directory that no session works in, with its own configuration, index and
//! objects. Of the clone's `.git`, only `HEAD`, references and objects are read, as plain files.

mod clone;
mod limits;
mod making;
mod name;
mod paths;
mod program;
mod repository;
mod snapshot;
mod store;
mod sweeping;
mod workspace;
mod workspaces;

pub use self::limits::GitLimits;
pub use self::repository::Repository;
pub use self::store::cleaning;
pub use self::workspace::GitWorkspace;
pub use self::workspaces::GitWorkspaces;
