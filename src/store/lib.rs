//! The places where logs of sessions are kept (`docs/sessions.md` has the format): one append-only file of JSON
//! Lines a session, and nothing that could disagree with it; or the same lines in a database that several
//! machines share.

mod backwards;
mod files;
mod lines;
#[cfg(feature = "postgres")]
mod postgres;

pub use self::files::FileStore;
#[cfg(feature = "postgres")]
pub use self::postgres::{
    AddressError, DatabaseAddress, DatabaseFinding, PostgresLimits, PostgresStore,
};
