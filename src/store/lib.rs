//! The place where logs of sessions are kept (`docs/sessions.md` has the format): one append-only file of JSON
//! Lines a session, and nothing that could disagree with it.

mod backwards;
mod files;
mod lines;

pub use self::files::FileStore;
