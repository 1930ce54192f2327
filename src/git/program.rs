//! Runs git, so that nothing of a clone decides what it does.

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

use super::name::is_object_id;
use super::paths::Paths;
use super::repository::Repository;

/// Bytes that git may write: lists of files.
const MOST_OUTPUT: u64 = 64 << 20;

/// Bytes of what git complains about.
const MOST_COMPLAINTS: u64 = 4 << 10;

/// Time for what git complains about to come when it has ended.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Characters of that which people are shown.
const LONGEST_COMPLAINT: usize = 500;

/// Git's own variables that the user of the node may have set: how servers are reached. All others would change
/// what commands of this room work with.
const KEPT: [&str; 9] = [
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

/// Configuration of every command, which outranks that of the user of the node and of the machine. What a
/// clone has set is not read at all.
const CONFIGURATION: [(&str, &str); 16] = [
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
const FIXED: [(&str, &str); 13] = [
    ("LC_ALL", "C"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_ATTR_NOSYSTEM", "1"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    ("GIT_LITERAL_PATHSPECS", "1"),
    // References of clones are read as files.
    ("GIT_DEFAULT_REF_FORMAT", "files"),
    ("GIT_DEFAULT_HASH", "sha1"),
    ("GIT_AUTHOR_NAME", "tandem"),
    ("GIT_AUTHOR_EMAIL", "tandem@localhost"),
    ("GIT_COMMITTER_NAME", "tandem"),
    ("GIT_COMMITTER_EMAIL", "tandem@localhost"),
];

/// Helper that gives git the credentials that a URL had: on a command line others could read them.
const CREDENTIALS: &str = r#"!f() { test "$1" = get && printf 'username=%s\npassword=%s\n' "$TANDEM_GIT_USER" "$TANDEM_GIT_PASSWORD"; }; f"#;

/// The tree without files, which every repository has.
const EMPTY_TREE: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

/// Attributes of all files, which outrank those that are in the clone: files are what they are, byte by byte, and
/// no program filters them.
pub(crate) const ATTRIBUTES: &str =
    "* -filter -text -eol -crlf -ident -working-tree-encoding -diff -merge -export-subst\n";

/// Returns `true` if git does not get a variable of the node's environment.
pub(crate) fn hides(name: &str) -> bool {
    name.starts_with("GIT_") && !KEPT.contains(&name)
}

/// Git, for one repository.
#[derive(Clone)]
pub(crate) struct Git {
    terminals: Arc<Terminals>,
    repository: Arc<Repository>,
    time: Duration,
    /// Ends the command that runs; none begins then.
    cancel: CancellationToken,
}

/// A command of git.
#[derive(Default)]
pub(crate) struct GitCommand<'a> {
    /// Its arguments.
    pub(crate) args: &'a [&'a str],
    /// The git directory; without one, that of the session's own one.
    pub(crate) git: Option<&'a Path>,
    /// The files that it works with.
    pub(crate) files: Option<&'a Path>,
    /// What it reads.
    pub(crate) input: Vec<u8>,
    /// The protocol by which it reaches another repository.
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

    /// Returns the same whose commands end when this fires.
    pub(crate) fn until(&self, cancel: &CancellationToken) -> Self {
        Self { cancel: cancel.clone(), ..self.clone() }
    }

    pub(crate) fn repository(&self) -> &Repository {
        &self.repository
    }

    /// Runs a command that only works with the session's own git directory; returns what it writes.
    pub(crate) async fn run(&self, paths: &Paths, args: &[&str]) -> Result<String, String> {
        let written = self.run_command(paths, GitCommand { args, ..GitCommand::default() }).await?;
        Ok(String::from_utf8_lossy(&written).trim_end().to_owned())
    }

    /// Runs a command that reaches the repository.
    pub(crate) async fn reach(&self, paths: &Paths, args: &[&str]) -> Result<String, String> {
        let protocol = self.repository.protocol();
        let command = GitCommand { args, protocol, ..GitCommand::default() };
        let written = self.run_command(paths, command).await?;
        Ok(String::from_utf8_lossy(&written).trim_end().to_owned())
    }

    /// Runs a command; returns what it writes. The error says, for people, what failed.
    pub(crate) async fn run_command(
        &self,
        paths: &Paths,
        command: GitCommand<'_>,
    ) -> Result<Vec<u8>, String> {
        let git = command.git.unwrap_or(&paths.own);
        let mut variables = vec![("GIT_DIR".to_owned(), text(git)?)];
        if let Some(files) = command.files {
            variables.push(("GIT_WORK_TREE".to_owned(), text(files)?));
        }
        let directory = paths.own.parent().unwrap_or(Path::new("/")).to_owned();
        self.run_in(directory, variables, command).await
    }

    /// Checks that the repository can be read, and has the branch or the tag that is named. Whether it has a commit is
    /// not looked at: that would be fetched with all that it is made from.
    pub(crate) async fn check_read(&self) -> Result<(), String> {
        let revision = self.repository.origin().revision.as_deref();
        let names =
            revision.map(|name| ["heads", "tags"].map(|kind| format!("refs/{kind}/{name}")));
        let mut args = vec!["ls-remote", "--quiet", "origin", "HEAD"];
        args.extend(names.iter().flatten().map(String::as_str));
        // Without a directory of git's: which repository is meant, the configuration of the command says.
        let listed = self.reach_in(PathBuf::from("/"), Vec::new(), &args).await?;
        let listed = String::from_utf8_lossy(&listed);
        // Git also lists what only ends like it.
        let is_named = |line: &str| {
            let name = line.split_once('\t').map(|(_, name)| name);
            names.iter().flatten().any(|wanted| name == Some(wanted))
        };
        match revision {
            Some(name) if !is_object_id(name) && !listed.lines().any(is_named) => {
                Err(format!("it has no branch or tag `{name}`"))
            }
            _ => Ok(()),
        }
    }

    /// Checks that the repository's server lets this user push. Nothing is pushed, so what hooks and other rules of the
    /// repository would refuse does not show. The empty directory is for git.
    pub(crate) async fn check_push(&self, directory: &Path) -> Result<(), String> {
        let env = vec![("GIT_DIR".to_owned(), text(directory)?)];
        let init = &["init", "--quiet", "--bare", "--template="];
        let init = GitCommand { args: init, ..GitCommand::default() };
        self.run_in(directory.to_owned(), env.clone(), init).await?;
        let what = format!("{EMPTY_TREE}:refs/tandem/check");
        let push = ["push", "--dry-run", "--quiet", "--no-verify", "origin", &what];
        self.reach_in(directory.to_owned(), env, &push).await.map(drop)
    }

    /// Runs a command that reaches the repository in a directory; returns what it writes.
    async fn reach_in(
        &self,
        directory: PathBuf,
        env: Vec<(String, String)>,
        args: &[&str],
    ) -> Result<Vec<u8>, String> {
        let protocol = self.repository.protocol();
        self.run_in(directory, env, GitCommand { args, protocol, ..GitCommand::default() }).await
    }

    async fn run_in(
        &self,
        directory: PathBuf,
        mut env: Vec<(String, String)>,
        GitCommand { args, input, protocol, .. }: GitCommand<'_>,
    ) -> Result<Vec<u8>, String> {
        env.extend(self.environment(protocol));
        let program = Program {
            command: "git".to_owned(),
            args: args.iter().map(|&arg| arg.to_owned()).collect(),
            env,
            directory,
        };
        let what = args.first().copied().unwrap_or_default();
        let ran = self.output_of(&program, input).await;
        let (written, complaints, is_done) = ran.map_err(|failure| match failure {
            Failure::NotRun(error) => format!("git cannot be run: {error}"),
            Failure::Cancelled => "the turn was cancelled".to_owned(),
            Failure::TooLong => {
                let seconds = self.time.as_secs();
                format!(
                    "`git {what}` took longer than {seconds} s (`--limit git-seconds=N` allows more)"
                )
            }
        })?;
        if written.len() as u64 > MOST_OUTPUT {
            return Err(format!("`git {what}` names too many files"));
        }
        if is_done {
            Ok(written)
        } else {
            Err(format!("`git {what}`: {}", self.shown(&complaints)))
        }
    }

    /// Returns what a program writes and complains about, and whether it has succeeded. After an error, nothing of
    /// it runs any more.
    async fn output_of(
        &self,
        program: &Program,
        input: Vec<u8>,
    ) -> Result<(Vec<u8>, Vec<u8>, bool), Failure> {
        let may_start = self.cancel.run_until_cancelled(self.terminals.may_start()).await;
        may_start.ok_or(Failure::Cancelled)?;
        let RunningProgram { input: to, output, errors, mut life } =
            self.terminals.serve(program, None).map_err(Failure::NotRun)?;
        let ended = life.exit.wait().map(|status| status.is_some_and(|it| it.success()));
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
        let fixed = FIXED.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let mut env: Vec<_> = fixed.collect();
        env.push(("GIT_ALLOW_PROTOCOL".to_owned(), protocol.to_owned()));
        let mut configuration = CONFIGURATION.to_vec();
        let helper;
        if protocol == self.repository.protocol() {
            configuration.push(("remote.origin.url", &self.repository.origin().url));
            if let Some(credentials) = self.repository.credentials() {
                helper = format!("credential.{}.helper", credentials.server);
                configuration.extend([(&*helper, ""), (&*helper, CREDENTIALS)]);
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

    /// Returns what git complains about, for people.
    fn shown(&self, complaints: &[u8]) -> String {
        let mut text = String::from_utf8_lossy(complaints).into_owned();
        if let Some(secret) = self.repository.secret() {
            text = text.replace(secret, "***");
        }
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let line = lines.collect::<Vec<_>>().join("; ");
        let shown: String =
            line.chars().filter(|c| !c.is_control()).take(LONGEST_COMPLAINT).collect();
        if shown.is_empty() { "it has failed".to_owned() } else { shown }
    }
}

/// Reason why a program did not come to its own end.
enum Failure {
    NotRun(io::Error),
    TooLong,
    Cancelled,
}

/// Gives a program its input; returns what it writes and complains about, and whether it has succeeded.
async fn talk(
    input: Vec<u8>,
    mut to: ChildStdin,
    output: ChildStdout,
    mut errors: ChildStderr,
    succeeds: impl Future<Output = bool>,
) -> io::Result<(Vec<u8>, Vec<u8>, bool)> {
    let feed = async move {
        // One that has ended early says why itself.
        let _ = to.write_all(&input).await;
    };
    let mut complaints = Vec::new();
    let listening = async {
        let _ = (&mut errors).take(MOST_COMPLAINTS).read_to_end(&mut complaints).await;
        // A program that nobody listens to would end.
        let _ = tokio::io::copy(&mut errors, &mut tokio::io::sink()).await;
    };
    let running = async {
        let ((), written) = join!(feed, read(output, MOST_OUTPUT + 1));
        (written, succeeds.await)
    };
    let (written, is_done) = match select(pin!(running), pin!(listening)).await {
        Either::Left((ran, listening)) => {
            // A connection of ssh that stays open may keep this open, too.
            let _ = timeout(LAST_WORDS, listening).await;
            ran
        }
        Either::Right(((), running)) => running.await,
    };
    Ok((written?, complaints, is_done))
}

/// Reads this many bytes at most; nothing further is read.
async fn read(from: impl AsyncRead + Unpin, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(most).read_to_end(&mut bytes).await?;
    Ok(bytes)
}

fn text(path: &Path) -> Result<String, String> {
    let text = path.to_str().ok_or("the directory of the workspaces must have a name in UTF-8")?;
    Ok(text.to_owned())
}
