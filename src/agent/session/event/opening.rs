//! The event that a log begins with.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::permission::Mode;

/// Version of the format of events. Another one only if a program that knows this one would do harm.
pub const FORMAT: u32 = 1;

/// Conditions under which a session begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionStarted {
    /// Version of the format of the events that follow: [`FORMAT`].
    pub version: u32,
    /// The session's id, a UUID of version 7: those that are newer come later in their order.
    pub id: String,
    /// The directory that the session starts in.
    pub directory: PathBuf,
    /// The other directories that it works in.
    #[serde(default)]
    pub roots: Vec<PathBuf>,
    /// The id of the model that answers first.
    pub model: String,
    /// The approval mode at first.
    pub mode: Mode,
    /// The program that wrote the event, with its version: `tandem 0.1.0`.
    #[serde(default)]
    pub by: String,
}

impl SessionStarted {
    /// Describes a session of this program that begins now, under an id of its own.
    pub(in crate::session) fn now(roots: &[PathBuf], model: &str, mode: Mode) -> Self {
        let (directory, roots) = match roots {
            [directory, roots @ ..] => (directory.clone(), roots.to_vec()),
            [] => (PathBuf::new(), Vec::new()),
        };
        Self {
            version: FORMAT,
            id: uuid::Uuid::now_v7().to_string(),
            directory,
            roots,
            model: model.to_owned(),
            mode,
            by: concat!("tandem ", env!("CARGO_PKG_VERSION")).to_owned(),
        }
    }
}
