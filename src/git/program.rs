//! Runs git in such a way that no content of a clone decides what git does.

use std::io;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{Either, FutureExt as _, select};
use futures::join;
use tandem_host::terminals::{Program, RunningProgram, Terminals};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::error::GitError;
use super::name::is_object_id;
use super::paths::Paths;
use super::repository::Repository;

/// Maximum length of git's output, which may be a list of files, in bytes.
const MOST_OUTPUT: u64 = 64 << 20;

/// Maximum length of git's error output that is read, in bytes.
const MOST_COMPLAINTS: u64 = 4 << 10;

/// Maximum time to wait for the rest of the error output after git has ended.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Maximum length of the error output that people are shown, in characters.
const LONGEST_COMPLAINT: usize = 500;

/// Variables of git that git gets from the node's environment, because they decide how git reaches servers. All
/// others are hidden from git, because they would change the files and settings that the commands of this crate work
/// with.
const KEPT_VARIABLES: [&str; 9] = [
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_SSH_VARIANT",
    "GIT_ASKPASS",
    "GIT_SSL_CAINFO",
    "GIT_SSL_CAPATH",
    "GIT_SSL_CERT",
    "GIT_SSL_KEY",
    "GIT_EXEC_PATH",
];

/// Configuration of every command, which outranks that of the node's user and of the machine. The configuration of a
/// clone is not read at all.
const GIT_CONFIGURATION: [(&str, &str); 16] = [
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.untrackedCache", "false"),
    ("core.autocrlf", "false"),
    ("core.fileMode", "true"),
    ("core.attributesFile", "/dev/null"),
    ("core.protectHFS", "true"),
    ("core.protectNTFS", "true"),
    ("commit.gpgSign", "false"),
    ("push.gpgSign", "false"),
    ("push.followTags", "false"),
    ("push.recurseSubmodules", "no"),
    ("fetch.recurseSubmodules", "false"),
    ("submodule.recurse", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
];

/// Variables of every command.
const FIXED_VARIABLES: [(&str, &str); 13] = [
    ("LC_ALL", "C"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_ATTR_NOSYSTEM", "1"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    ("GIT_LITERAL_PATHSPECS", "1"),
    // The references of clones have to be plain files, because they are read as plain files.
    ("GIT_DEFAULT_REF_FORMAT", "files"),
    ("GIT_DEFAULT_HASH", "sha1"),
    ("GIT_AUTHOR_NAME", "tandem"),
    ("GIT_AUTHOR_EMAIL", "tandem@localhost"),
    ("GIT_COMMITTER_NAME", "tandem"),
    ("GIT_COMMITTER_EMAIL", "tandem@localhost"),
];

/// Credential helper that gives git the credentials of a URL. It reads them from variables, because other users could
/// read them on a command line.
const CREDENTIAL_HELPER: &str = r#"!f() { test "$1" = get && printf 'username=%s\npassword=%s\n' "$TANDEM_GIT_USER" "$TANDEM_GIT_PASSWORD"; }; f"#;

/// Id of the empty tree, which every repository has.
const EMPTY_TREE: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

/// Attributes of all files, which outrank those in the clone: files are stored byte by byte, and no program filters
/// them.
pub(crate) const ATTRIBUTES_TEXT: &str =
    "* -filter -text -eol -crlf -ident -working-tree-encoding -diff -merge -export-subst\n";

/// Returns `true` if a variable of the node's environment is hidden from git.
pub(crate) fn hides(name: &str) -> bool {
    name.starts_with("GIT_") && !KEPT_VARIABLES.contains(&name)
}

/// Git, for one repository.
#[derive(Clone)]
pub(crate) struct Git {
    terminals: Arc<Terminals>,
    repository: Arc<Repository>,
    time: Duration,
    /// Token whose cancel ends the running command; no command starts after it.
    cancel: CancellationToken,
}

/// A command of git.
#[derive(Default)]
pub(crate) struct GitCommand<'a> {
    /// Arguments of the command.
    pub(crate) args: &'a [&'a str],
    /// Git directory; `None`: the git directory beside the session's clone.
    pub(crate) git: Option<&'a Path>,
    /// Work tree of the command, if it works with files.
    pub(crate) files: Option<&'a Path>,
    /// Input of the command.
    pub(crate) input: Vec<u8>,
    /// Protocol by which the command may reach another repository; empty if it may reach none.
    pub(crate) protocol: &'a str,
}

impl Git {
    pub(crate) fn new(
        terminals: Arc<Terminals>,
        repository: Arc<Repository>,
        time: Duration,
    ) -> Self {
        Self { terminals, repository, time, cancel: CancellationToken::new() }
    }

    /// Returns a copy whose commands end when `cancel` fires.
    pub(crate) fn until(&self, cancel: &CancellationToken) -> Self {
        Self { cancel: cancel.clone(), ..self.clone() }
    }

    pub(crate) fn repository(&self) -> &Repository {
        &self.repository
    }

    /// Runs a command that only uses the git directory beside the session's clone. Returns its output.
    pub(crate) async fn run(&self, paths: &Paths, args: &[&str]) -> Result<String, GitError> {
        let written = self.run_command(paths, GitCommand { args, ..GitCommand::default() }).await?;
        Ok(String::from_utf8_lossy(&written).trim_end().to_owned())
    }

    /// Runs a command that may reach the repository. Returns its output.
    pub(crate) async fn reach(&self, paths: &Paths, args: &[&str]) -> Result<String, GitError> {
        let protocol = self.repository.protocol();
        let command = GitCommand { args, protocol, ..GitCommand::default() };
        let written = self.run_command(paths, command).await?;
        Ok(String::from_utf8_lossy(&written).trim_end().to_owned())
    }

    /// Runs a command. Returns its output.
    pub(crate) async fn run_command(
        &self,
        paths: &Paths,
        command: GitCommand<'_>,
    ) -> Result<Vec<u8>, GitError> {
        let git = command.git.unwrap_or(&paths.own);
        let mut variables = vec![("GIT_DIR".to_owned(), text(git)?)];
        if let Some(files) = command.files {
            variables.push(("GIT_WORK_TREE".to_owned(), text(files)?));
        }
        let directory = paths.own.parent().unwrap_or(Path::new("/")).to_owned();
        self.run_in(directory, variables, command).await
    }

    /// Checks that the repository can be read, and has the named branch or tag. A named commit is not checked, because
    /// git would have to fetch it with its history.
    pub(crate) async fn check_read(&self) -> Result<(), GitError> {
        let revision = self.repository.origin().revision.as_deref();
        let names =
            revision.map(|name| ["heads", "tags"].map(|kind| format!("refs/{kind}/{name}")));
        let mut args = vec!["ls-remote", "--quiet", "origin", "HEAD"];
        args.extend(names.iter().flatten().map(String::as_str));
        // The command needs no git directory: its configuration names the repository.
        let listed = self.reach_in(PathBuf::from("/"), Vec::new(), &args).await?;
        let listed = String::from_utf8_lossy(&listed);
        // Git also lists references whose names only end with the wanted name.
        let is_named = |line: &str| {
            let name = line.split_once('\t').map(|(_, name)| name);
            names.iter().flatten().any(|wanted| name == Some(wanted))
        };
        match revision {
            Some(name) if !is_object_id(name) && !listed.lines().any(is_named) => {
                Err(GitError::NoBranch(name.to_owned()))
            }
            _ => Ok(()),
        }
    }

    /// Checks that the repository's server lets this user push. Nothing is pushed, so the check does not find pushes
    /// that hooks and other rules of the repository would refuse. `directory` is an empty directory, which git needs.
    pub(crate) async fn check_push(&self, directory: &Path) -> Result<(), GitError> {
        let env = vec![("GIT_DIR".to_owned(), text(directory)?)];
        let init = &["init", "--quiet", "--bare", "--template="];
        let init = GitCommand { args: init, ..GitCommand::default() };
        self.run_in(directory.to_owned(), env.clone(), init).await?;
        let what = format!("{EMPTY_TREE}:refs/tandem/check");
        let push = ["push", "--dry-run", "--quiet", "--no-verify", "origin", &what];
        self.reach_in(directory.to_owned(), env, &push).await.map(drop)
    }

    /// Runs a command that may reach the repository, in a directory. Returns its output.
    async fn reach_in(
        &self,
        directory: PathBuf,
        env: Vec<(String, String)>,
        args: &[&str],
    ) -> Result<Vec<u8>, GitError> {
        let protocol = self.repository.protocol();
        self.run_in(directory, env, GitCommand { args, protocol, ..GitCommand::default() }).await
    }

    /// Runs a command in a directory. `env` is added to the variables of every command. Returns the output.
    async fn run_in(
        &self,
        directory: PathBuf,
        mut env: Vec<(String, String)>,
        GitCommand { args, input, protocol, .. }: GitCommand<'_>,
    ) -> Result<Vec<u8>, GitError> {
        env.extend(self.environment(protocol));
        let program = Program {
            command: "git".to_owned(),
            args: args.iter().map(|&arg| arg.to_owned()).collect(),
            env,
            directory,
        };
        let command = args.first().copied().unwrap_or_default().to_owned();
        let ran = self.output_of(&program, input).await.map_err(|failure| match failure {
            Failure::NotRun(error) => GitError::NotRun(error),
            Failure::Cancelled => GitError::Cancelled,
            Failure::TooLong => GitError::TooLong { command: command.clone(), limit: self.time },
        })?;
        if ran.output.len() as u64 > MOST_OUTPUT {
            return Err(GitError::TooMuchOutput { command });
        }
        if ran.code == Some(0) {
            Ok(ran.output)
        } else {
            let output = self.errors_for_people(&ran.errors);
            Err(GitError::Failed { command, code: ran.code, output })
        }
    }

    /// Runs a program until it ends. After an error, none of its processes runs any more.
    async fn output_of(&self, program: &Program, input: Vec<u8>) -> Result<EndedProgram, Failure> {
        let may_start = self.cancel.run_until_cancelled(self.terminals.may_start()).await;
        may_start.ok_or(Failure::Cancelled)?;
        let RunningProgram { input: to, output, errors, mut life } =
            self.terminals.serve(program, None).map_err(Failure::NotRun)?;
        let ended = life.exit.wait().map(|status| status.and_then(|it| it.code()));
        let talk = timeout(self.time, talk(input, to, output, errors, ended));
        let failure = match self.cancel.run_until_cancelled(talk).await {
            Some(Ok(Ok(ran))) => return Ok(ran),
            Some(Ok(Err(error))) => Failure::NotRun(error),
            Some(Err(_)) => Failure::TooLong,
            None => Failure::Cancelled,
        };
        life.end().await;
        Err(failure)
    }

    /// Returns the variables of every command.
    fn environment(&self, protocol: &str) -> Vec<(String, String)> {
        let fixed =
            FIXED_VARIABLES.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let mut env: Vec<_> = fixed.collect();
        env.push(("GIT_ALLOW_PROTOCOL".to_owned(), protocol.to_owned()));
        let mut configuration = GIT_CONFIGURATION.to_vec();
        let helper;
        if protocol == self.repository.protocol() {
            configuration.push(("remote.origin.url", &self.repository.origin().url));
            if let Some(credentials) = self.repository.credentials() {
                helper = format!("credential.{}.helper", credentials.server);
                configuration.extend([(&*helper, ""), (&*helper, CREDENTIAL_HELPER)]);
                env.push(("TANDEM_GIT_USER".to_owned(), credentials.user.clone()));
                env.push(("TANDEM_GIT_PASSWORD".to_owned(), credentials.password.clone()));
            }
        }
        env.push(("GIT_CONFIG_COUNT".to_owned(), configuration.len().to_string()));
        for (n, (name, value)) in configuration.into_iter().enumerate() {
            env.push((format!("GIT_CONFIG_KEY_{n}"), name.to_owned()));
            env.push((format!("GIT_CONFIG_VALUE_{n}"), value.to_owned()));
        }
        env
    }

    /// Returns git's error output for people: on one line, short, and without the secret of the URL.
    fn errors_for_people(&self, complaints: &[u8]) -> String {
        let mut text = String::from_utf8_lossy(complaints).into_owned();
        if let Some(secret) = self.repository.secret() {
            text = text.replace(secret, "***");
        }
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let line = lines.collect::<Vec<_>>().join("; ");
        line.chars().filter(|c| !c.is_control()).take(LONGEST_COMPLAINT).collect()
    }
}

/// A program that has ended by itself.
struct EndedProgram {
    output: Vec<u8>,
    /// The beginning of the error output.
    errors: Vec<u8>,
    /// Exit code; `None` if a signal ended the program, or if the end is not known.
    code: Option<i32>,
}

/// Reason for which a program did not end by itself.
enum Failure {
    NotRun(io::Error),
    TooLong,
    Cancelled,
}

/// Gives a program its input, and waits for its end.
async fn talk(
    input: Vec<u8>,
    mut to: ChildStdin,
    output: ChildStdout,
    mut errors: ChildStderr,
    code: impl Future<Output = Option<i32>>,
) -> io::Result<EndedProgram> {
    let feed = async move {
        // If the program has ended early, its error output says why.
        let _ = to.write_all(&input).await;
    };
    let mut complaints = Vec::new();
    let listening = async {
        let _ = (&mut errors).take(MOST_COMPLAINTS).read_to_end(&mut complaints).await;
        // The rest is read and dropped, so that the program can go on writing.
        let _ = tokio::io::copy(&mut errors, &mut tokio::io::sink()).await;
    };
    let running = async {
        let ((), written) = join!(feed, read(output, MOST_OUTPUT + 1));
        (written, code.await)
    };
    let (written, code) = match select(pin!(running), pin!(listening)).await {
        Either::Left((ran, listening)) => {
            // A connection of ssh that stays open may keep the error output open, too, so the wait for its end is
            // limited.
            let _ = timeout(LAST_WORDS, listening).await;
            ran
        }
        Either::Right(((), running)) => running.await,
    };
    Ok(EndedProgram { output: written?, errors: complaints, code })
}

/// Reads at most `most` bytes.
async fn read(from: impl AsyncRead + Unpin, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(most).read_to_end(&mut bytes).await?;
    Ok(bytes)
}

fn text(path: &Path) -> Result<String, GitError> {
    path.to_str().map(ToOwned::to_owned).ok_or(GitError::DirectoryName)
}
