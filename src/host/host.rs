//! The host of a session: its files, commands and limits.

use std::borrow::Cow;
use std::io::ErrorKind::{NotADirectory, NotFound};
use std::path::PathBuf;
use std::sync::Arc;

use super::background::Background;
use super::client_terminals::OpenTerminals;
use super::command_sandbox::{CommandSandbox, SandboxSetup};
use super::command_times::CommandTimes;
use super::disk::Disk;
use super::files::{FileKind, Files};
use super::limits::ToolLimits;
use super::off_thread::off_thread;
use super::output::ToolError;
use super::outputs::Outputs;
use super::preimages::Preimages;
use super::scratch::Scratch;
use super::seen_files::SeenFiles;
use super::session_files::{OpenEditors, SessionFiles};
use super::terminals::Terminals;
use super::workspace::{FilesOutside, OUTSIDE_KIND, PathToRead, Workspace};

/// Files, commands and limits of one session. Each host is made from the settings of its own folder, so two sessions in
/// two folders share none of these.
pub struct Host {
    /// Directories that tools may touch, and the rules for the files in them.
    pub workspace: Arc<Workspace>,
    /// The workspace's files as they are on the disk, without the unsaved texts of editors.
    pub disk: Disk,
    /// Contents of files, with the unsaved texts of editors.
    pub files: Arc<dyn Files>,
    /// Editors that the session is open in, whose unsaved texts are used.
    pub editors: Arc<OpenEditors>,
    /// Starter of commands.
    pub terminals: Arc<Terminals>,
    /// Clients in whose terminals commands run; `None` if commands run in no client's terminals.
    pub client_terminals: Option<Arc<OpenTerminals>>,
    /// Commands that run in the background, after their call has ended.
    pub background: Background,
    /// Times at which commands ran in the foreground.
    pub commands: Arc<CommandTimes>,
    /// Directory on the disk for files that the session stores beside its log.
    pub scratch: Arc<Scratch>,
    /// Files with output that was too long for the model.
    pub outputs: Arc<Outputs>,
    /// Contents of files that the model has been shown.
    pub seen: SeenFiles,
    /// Contents of files before they were changed.
    pub preimages: Preimages,
    /// Sandbox of commands, if they have one.
    pub sandbox: Option<Arc<CommandSandbox>>,
    /// `true` if commands run without the sandbox while a client is connected that runs them in its terminals.
    pub sandbox_gives_way: bool,
    /// The user's home, which `~` means. No answer to a question permits reading all of it.
    pub home: Option<PathBuf>,
    /// Files outside the workspace that the user lets the session read without a question.
    pub readable: Vec<PathBuf>,
    /// Limits of tools.
    pub limits: ToolLimits,
}

/// A resolved path that may be read, with a person's consent or without.
pub struct ReadablePath {
    /// Real path.
    pub real: PathBuf,
    /// Kind of the file at the path, if there is one.
    pub kind: Option<FileKind>,
    /// `true` if a person has to agree first.
    pub is_asked: bool,
}

impl Host {
    /// Returns a host on the disk of this machine, without a sandbox. Files are read and made later.
    pub fn new(
        workspace: Workspace,
        terminals: Arc<Terminals>,
        scratch: Scratch,
        limits: ToolLimits,
    ) -> Self {
        let (workspace, scratch) = (Arc::new(workspace), Arc::new(scratch));
        let (commands, editors) = (Arc::<CommandTimes>::default(), Arc::<OpenEditors>::default());
        let outputs = Arc::new(Outputs::new(Arc::clone(&scratch), limits.kept_output_bytes));
        let disk = Disk::new(Arc::clone(&workspace), Arc::clone(&outputs));
        Self {
            files: Arc::new(SessionFiles::new(
                Arc::clone(&workspace),
                disk.clone(),
                Arc::clone(&commands),
                Arc::clone(&editors),
                &limits,
            )),
            disk,
            commands,
            editors,
            workspace,
            terminals,
            background: Background::new(&limits),
            outputs,
            seen: SeenFiles::default(),
            preimages: Preimages::new(Arc::clone(&scratch), limits.undo_bytes),
            scratch,
            client_terminals: None,
            sandbox: None,
            sandbox_gives_way: false,
            home: None,
            readable: Vec::new(),
            limits,
        }
    }

    /// Adds a sandbox for commands, or removes it with `None`.
    #[must_use]
    pub fn sandboxed(self, setup: Option<SandboxSetup>) -> Self {
        Self { sandbox: setup.map(|setup| self.sandbox_of(setup)), ..self }
    }

    /// Sets the user's home, and the files outside the workspace that the user lets the session read.
    #[must_use]
    pub fn of_user(self, home: Option<PathBuf>, readable: Vec<PathBuf>) -> Self {
        Self { home, readable, ..self }
    }

    /// Returns a sandbox for programs that work on this host's workspace.
    pub fn sandbox_of(&self, mut setup: SandboxSetup) -> Arc<CommandSandbox> {
        setup.hosts.limits.clone_from(&self.limits.proxy);
        Arc::new(CommandSandbox::new(setup, Arc::clone(&self.workspace)))
    }

    /// Lets commands run in terminals of clients.
    #[must_use]
    pub fn with_client_terminals(self) -> Self {
        Self { client_terminals: Some(Arc::default()), ..self }
    }

    /// Lets the sandbox give way to a client in whose terminals commands run. Such commands have no sandbox, so a
    /// session cannot use both at the same time.
    #[must_use]
    pub fn with_sandbox_that_gives_way(self) -> Self {
        Self { sandbox_gives_way: true, ..self }
    }

    /// Returns whether commands have no sandbox at the moment, because they run in terminals of a client.
    pub fn sandbox_has_given_way(&self) -> bool {
        self.sandbox_gives_way
            && self.client_terminals.as_ref().is_some_and(|terminals| terminals.last().is_some())
    }

    /// Returns the real path that a path from the model leads to, if that is inside the workspace:
    /// see [`Workspace::resolve`].
    pub async fn resolve(&self, path: &str) -> Result<PathBuf, ToolError> {
        let (workspace, path) = (Arc::clone(&self.workspace), self.with_home(path).into_owned());
        off_thread(move || workspace.resolve(&path)).await
    }

    /// Resolves a path that is only read. Unlike with [`Self::resolve`], it may also lie in the session's own `/tmp` or
    /// outside the workspace.
    pub async fn resolve_to_read(&self, path: &str) -> Result<PathToRead, ToolError> {
        let path = &*self.with_home(path);
        if Workspace::may_be_temporary(path)
            && let Some(sandbox) = &self.sandbox
            && let Some(directory) = sandbox.own_temporary().await
        {
            self.workspace.set_temporary(directory);
        }
        let resolve = || {
            let (workspace, path) = (Arc::clone(&self.workspace), path.to_owned());
            off_thread(move || workspace.resolve_to_read(&path))
        };
        let resolved = resolve().await;
        // The rules for files outside may be out of date. If they do not permit the path without a question, the path
        // is resolved again with new rules.
        let is_open = match &resolved {
            Ok(path) => !path.is_asked,
            Err(error) => error.kind != OUTSIDE_KIND,
        };
        if is_open {
            return resolved;
        }
        self.workspace.set_files_outside(self.files_outside().await?);
        resolve().await
    }

    /// Resolves a path that is only read, and looks up the kind of the file on the disk.
    pub async fn look_up_to_read(&self, path: &str) -> Result<ReadablePath, ToolError> {
        let PathToRead { real, is_asked } = self.resolve_to_read(path).await?;
        // The disk refuses paths outside without a permit. A person has not agreed yet, so the permit ends with the
        // look-up.
        let permit = is_asked.then(|| self.workspace.permit(vec![real.clone()]));
        let kind = match self.disk.kind(&real).await {
            Ok(kind) => Some(kind),
            Err(error) if matches!(error.kind(), NotFound | NotADirectory) => None,
            // The tool that is to read the path reports any other error.
            Err(_) => Some(FileKind::Other),
        };
        drop(permit);
        Ok(ReadablePath { real, kind, is_asked })
    }

    /// Replaces a leading `~` by the user's home, as a shell does.
    pub fn with_home<'p>(&self, path: &'p str) -> Cow<'p, str> {
        let Some(home) = self.home.as_ref().and_then(|home| home.to_str()) else {
            return path.into();
        };
        match path.strip_prefix('~') {
            Some("") => Cow::Owned(home.to_owned()),
            Some(below) if below.starts_with('/') => Cow::Owned(format!("{home}{below}")),
            _ => path.into(),
        }
    }

    /// Returns the rules for files outside the workspace.
    async fn files_outside(&self) -> Result<FilesOutside, ToolError> {
        if let Some(sandbox) = self.sandbox.as_ref().filter(|_| !self.sandbox_has_given_way())
            && let Some(files) = sandbox.files_outside().await
        {
            return Ok(files);
        }
        let (home, readable) = (self.home.clone(), self.readable.clone());
        let secrets = self.workspace.secrets().clone();
        off_thread(move || {
            FilesOutside::unsandboxed(home, &readable, secrets)
                .map_err(|error| ToolError::new(OUTSIDE_KIND, error.to_string()))
        })
        .await
    }
}
