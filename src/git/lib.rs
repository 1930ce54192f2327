//! Workspaces of sessions that are clones of git repositories. Each workspace has snapshots in its repository, so that
//! any node can go on with the session.
//!
//! A model can write anything into a clone. So no git command of this crate uses a clone's own `.git`. Beside each
//! clone is a git directory that no session works in, with a configuration, an index and objects of its own. Of the
//! clone's `.git`, this crate reads only `HEAD`, references and objects, as plain files.

mod clone;
mod clone_maker;
mod error;
mod limits;
mod name;
mod paths;
mod program;
mod repository;
mod snapshot;
mod store;
mod sweeping;
mod workspace;
mod workspaces;

pub use self::error::GitError;
pub use self::limits::GitLimits;
pub use self::repository::Repository;
pub use self::store::cleaning;
pub use self::workspace::GitWorkspace;
pub use self::workspaces::GitWorkspaces;
