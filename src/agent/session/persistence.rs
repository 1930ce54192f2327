//! Persistence of a session: the store, the writer of a log, and recovery after the end of a process.

pub(crate) mod file_uploads;
pub(crate) mod followed;
pub(crate) mod recover;
pub(crate) mod resumption;
pub(crate) mod session_writer;
pub(crate) mod storage;
pub(crate) mod store;
pub(crate) mod store_health;
pub(crate) mod workspace_saving;
