//! The user's own commands: TOML files, each a prompt with gaps. `git/commit.toml` is `/git:commit`.

mod load;
mod template;

pub(super) use self::load::CommandFile;
use self::load::CommandFileCache;
pub use self::load::{CommandDirectory, CommandOwner, CustomLimits};
use crate::session::{CommandReply, PromptPiece, Template};
use parking_lot::Mutex;
use tandem_policy::consent::Executable;

/// The commands that are written in files. They are looked for whenever somebody asks, and read
/// again when they have changed.
pub struct Custom {
    places: Box<dyn Fn() -> Vec<CommandDirectory> + Send + Sync>,
    limits: CustomLimits,
    cache: Mutex<CommandFileCache>,
}

impl Custom {
    /// `places`: where they are, those that count more after the others. May read files.
    pub fn new(
        places: impl Fn() -> Vec<CommandDirectory> + Send + Sync + 'static,
        limits: CustomLimits,
    ) -> Self {
        Self { places: Box::new(places), limits, cache: Mutex::default() }
    }

    /// Those that there are now, in the order of their names; also files that are none.
    pub(super) fn list(&self) -> Vec<CommandFile> {
        let places = (self.places)();
        self.cache.lock().look(&places, &self.limits)
    }

    /// Returns the shell commands in prompts of a project that the user has neither trusted nor
    /// refused.
    pub fn executables(&self) -> Vec<Executable> {
        self.list().iter().filter_map(executable).collect()
    }
}

/// Returns the shell commands of a prompt that need the user's consent, if it has any.
fn executable(found: &CommandFile) -> Option<Executable> {
    let written = found.read.as_ref().as_ref().ok()?;
    let shells = written.prompt.shells();
    if found.owner != CommandOwner::Unjudged || shells.is_empty() {
        return None;
    }
    let name = format!("/{}", found.name);
    let runs = shells.join("; ");
    Some(Executable { kind: "custom command", name, shown: runs.clone(), runs })
}

/// Returns the prompt of a command for the model, with these arguments filled in.
pub(super) fn run(found: &CommandFile, args: &str) -> Result<CommandReply, String> {
    let written = found.read.as_ref().as_ref().map_err(Clone::clone)?;
    let name = &found.name;
    let mut pieces = written.prompt.filled(args);
    if !args.is_empty() && !written.prompt.takes_arguments() {
        pieces.push(PromptPiece::Text(format!("\n\n/{name} {args}")));
    }
    Ok(CommandReply::Fill(Template { command: name.clone(), pieces, needs: executable(found) }))
}
