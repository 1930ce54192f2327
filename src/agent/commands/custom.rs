//! The user's own commands: TOML files, each a prompt with gaps. The command of `git/commit.toml` is `/git:commit`.

mod load;
mod template;

pub(super) use self::load::CommandFile;
use self::load::CommandFileCache;
pub use self::load::{CommandDirectory, CommandOwner, CustomLimits};
use crate::session::{CommandReply, PromptPiece, Template};
use parking_lot::Mutex;
use tandem_approval::consent::Executable;

/// The commands in files. Each listing searches the directories, and reads the files that have changed.
pub struct Custom {
    places: Box<dyn Fn() -> Vec<CommandDirectory> + Send + Sync>,
    limits: CustomLimits,
    cache: Mutex<CommandFileCache>,
}

impl Custom {
    /// Makes the commands in the directories that `places` returns, in the order of rising precedence. `places` is
    /// called for each listing, and may read files.
    pub fn new(
        places: impl Fn() -> Vec<CommandDirectory> + Send + Sync + 'static,
        limits: CustomLimits,
    ) -> Self {
        Self { places: Box::new(places), limits, cache: Mutex::default() }
    }

    /// Returns the commands that the files have now, in the order of their names, including files that are no usable
    /// command.
    pub(super) fn list(&self) -> Vec<CommandFile> {
        let places = (self.places)();
        self.cache.lock().current_commands(&places, &self.limits)
    }

    /// Returns the command lines in prompts of a project that the user has neither trusted nor refused.
    pub fn executables(&self) -> Vec<Executable> {
        self.list().iter().filter_map(executable).collect()
    }
}

/// Returns the command lines in a prompt, as one executable, if they need the user's consent.
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

/// Returns the prompt of a command for the model, with these arguments filled in. If the prompt has no place for
/// arguments, the typed command is added to its end.
pub(super) fn run(found: &CommandFile, args: &str) -> Result<CommandReply, String> {
    let written = found.read.as_ref().as_ref().map_err(Clone::clone)?;
    let name = &found.name;
    let mut pieces = written.prompt.filled(args);
    if !args.is_empty() && !written.prompt.takes_arguments() {
        pieces.push(PromptPiece::Text(format!("\n\n/{name} {args}")));
    }
    Ok(CommandReply::Fill(Template { command: name.clone(), pieces, needs: executable(found) }))
}
