//! Import of what other agents left behind: each session of Gemini CLI can be imported as a session of tandem.  The
//! files of another agent are only read. An imported session is an ordinary session of tandem, whose log has the
//! conversation as events.

mod gemini_cli;
mod import;
mod skip;

pub use self::gemini_cli::{FoundSession, FoundSessions, GeminiCli, ImportScope};
pub use self::import::{ImportOutcome, Importer, has_new_sessions};
pub use self::skip::{SkipReason, SkippedFile};
