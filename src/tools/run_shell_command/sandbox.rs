//! The sandbox of a command line: the requests of the model about it, and the notes for the model after the command.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};
use serde_json::{Value, json};
use tandem_sandbox::{Profile, SandboxMode, Temporary};

use tandem_content::shorten::one_line;
use tandem_host::command_sandbox::Confinement;
use tandem_host::network::{BlockedHost, NetworkAccess};
use tandem_host::off_thread::off_thread;
use tandem_host::{SandboxRequest, ToolAudience, ToolContext, ToolError, ToolSpec};

/// Value of the argument `sandbox` that asks for no sandbox.
const OUTSIDE_MODE: &str = "outside";

/// Maximum length of the name of a command in messages, in characters.
const NAME_CHARS: usize = 80;

/// Maximum number of hidden files that a note names.
const MAX_NAMED: usize = 5;

/// Adds the sandbox to the description of the tool for the model, and its arguments to the parameters.
pub(super) fn describe(spec: &mut ToolSpec, audience: ToolAudience) {
    let (agreed, decided) = if audience.is_attended {
        (" unless the command line names them and the user agrees", "the user is asked")
    } else {
        ("", "this is refused unless the user has allowed it before")
    };
    spec.description.push_str(&format!(
        " In the sandbox, what git keeps (`.git`), and files that editors and agents run by \
         themselves, cannot be written. Of the home directory it sees tool chains and package \
         caches; the rest, and files with secrets that git does not track (`.env`, keys), are \
         hidden{agreed}. If a command fails for that, or is bound to (`git commit`), say in `sandbox` \
         what it needs, and why in `justification`: {decided}."
    ));
    let more = json!({
        "sandbox": {
            "type": "string",
            "enum": ["read-only", "workspace-write", OUTSIDE_MODE],
            "description": "What the command needs: a mode of the sandbox, or `outside` for none. \
                Default: the mode that you are told."
        },
        "justification": {
            "type": "string",
            "description": "With `sandbox`: why, in one sentence for the user."
        }
    });
    if let (Some(Value::Object(properties)), Value::Object(more)) =
        (spec.parameters.get_mut("properties"), more)
    {
        properties.extend(more);
    }
}

/// Prepares the sandbox of a command. `None` if the command runs without a sandbox; an error if it should have a
/// sandbox and there is none.
pub(super) async fn confinement(cx: &ToolContext) -> Result<Option<Confinement>, ToolError> {
    match &cx.host.sandbox {
        Some(sandbox) if cx.sandbox != SandboxMode::DangerFullAccess => {
            let confinement = sandbox.confine(cx.sandbox, &cx.shown).await?;
            if let (Some(network), Some(connect)) = (confinement.network(), &cx.connect) {
                network.decide_by(Arc::clone(connect));
            }
            Ok(Some(confinement))
        }
        // The policy has allowed the command because of the sandbox. Without a sandbox the command must not run.
        None if cx.sandbox != SandboxMode::DangerFullAccess => {
            Err(ToolError::new("no_sandbox", "The command was not run: it has no sandbox."))
        }
        _ => Ok(None),
    }
}

/// Returns the future that reports protected files which a background command has made; to be awaited when the command
/// has ended.
pub(super) fn look_at_end(
    cx: &ToolContext,
    command: &str,
    confinement: Option<&Confinement>,
) -> BoxFuture<'static, ()> {
    let Some((sandbox, confinement)) = cx.host.sandbox.clone().zip(confinement) else {
        return ready(()).boxed();
    };
    let name = format!("`{}`", one_line(command, NAME_CHARS));
    let runs_on = sandbox.runs_on(confinement, name);
    async move {
        if let Some(runs_on) = runs_on {
            sandbox.has_ended(runs_on).await;
        }
    }
    .boxed()
}

/// Returns the request of a call for another mode of the sandbox; `None` if the call asks for none. The error says
/// which argument is wrong.
pub(super) fn request(
    mode: Option<&str>,
    justification: Option<&str>,
) -> Result<Option<SandboxRequest>, String> {
    let mode = match mode {
        None | Some("" | "default") => return Ok(None),
        Some(OUTSIDE_MODE) => SandboxMode::DangerFullAccess,
        Some(name) => name.parse().map_err(|error| format!("`sandbox`: {error}"))?,
    };
    let justification = justification.map(str::trim);
    let justification = justification.filter(|text| !text.is_empty()).map(ToOwned::to_owned);
    Ok(Some(SandboxRequest { mode, justification }))
}

/// Notes on the sandbox for the model, after a command.
#[derive(Default)]
pub(super) struct SandboxNotes {
    /// Note on files that were moved out of the workspace.
    pub(super) taken: Option<String>,
    /// Note on what the sandbox may have prevented; shown only if the command has failed.
    pub(super) blocked: Option<String>,
    /// Note on the limits that the command may have reached; shown only if the command has failed.
    pub(super) limits: Option<String>,
    /// Note on hosts that the command could not connect to.
    pub(super) hosts: Option<String>,
    /// Note on hidden files with secrets whose names are in the command line or the output.
    pub(super) hidden: Option<String>,
    /// Note on a file in the hidden part of the home; shown only if the command has failed.
    pub(super) home: Option<String>,
    /// Note on a socket that the command cannot connect to; shown only if the command has failed.
    pub(super) sockets: Option<String>,
}

/// Error messages of the system and of programs, in lower case, as C's library and Go's write the same words with
/// different capitals. They only hint at a cause: a note is made only if the profile of the sandbox confirms it.
const READ_ONLY: [&str; 2] = ["read-only file system", "erofs"];
const NO_NETWORK: [&str; 6] = [
    "network is unreachable",
    "enetunreach",
    "could not resolve host",
    "temporary failure in name resolution",
    "eai_again",
    "dns error",
];

/// A limit of the sandbox: the error messages, in lower case, of programs that reach it, and the note for the model
/// then.
struct MetLimit {
    words: &'static [&'static str],
    describe: fn(&Profile) -> Option<String>,
}

const KNOWN_LIMITS: [MetLimit; 2] = [
    MetLimit {
        words: &["no space left on device", "enospc"],
        describe: |profile| {
            let bytes = profile.limits.temporary_bytes?;
            let shared = "the files in `/dev/shm` of one command";
            let bounded = match &profile.temporary {
                Some(Temporary::Memory) => {
                    format!("the files in `/tmp` of the session, and {shared},")
                }
                _ => shared.to_owned(),
            };
            Some(format!(
                "In the sandbox {bounded} have at most {bytes} bytes. Remove those that are not needed any more, \
                 or write to the workspace."
            ))
        },
    },
    MetLimit {
        words: &["cannot allocate memory", "out of memory", "memoryerror", "enomem", "bad_alloc"],
        describe: |profile| {
            let bytes = profile.limits.memory_bytes?;
            Some(format!(
                "Each process of a command has at most {bytes} bytes of memory in the sandbox."
            ))
        },
    },
];

/// Number of lines before and after such an error message in which a path is looked for, and the maximum number of
/// paths that are looked up.
const LINES_AROUND: usize = 3;
const MAX_LOOKUPS: usize = 50;

/// End of a note on a hidden file where nobody can be asked to show the file.
const NOT_SHOWN: &str = "Nobody can be asked to show it: go on without it.";

/// Maximum length of output that the model always gets uncut, even if its context window is almost full, in bytes.
const MAX_UNCUT_OUTPUT: usize = 1000;

/// Maximum number of moved files that a note names.
const MAX_TAKEN: usize = 20;

impl SandboxNotes {
    /// Makes notes on a command that ran in `directory` and wrote `output`. `taken` are the files that were moved out of
    /// the workspace, each with its new path.
    pub(super) async fn new(
        taken: &[(PathBuf, PathBuf)],
        output: &str,
        directory: &Path,
        confinement: &Confinement,
        cx: &ToolContext,
    ) -> Self {
        let mode = cx.sandbox;
        let way = if cx.audience.is_attended {
            " If the user wants it, write it with write_file, which asks."
        } else {
            ""
        };
        let unnamed = taken.len().saturating_sub(MAX_TAKEN);
        let unnamed = (unnamed > 0).then(|| format!("\n[{unnamed} more files were moved, too.]"));
        let taken = taken.iter().take(MAX_TAKEN).map(|(path, to)| {
            format!(
                "\n[The command made {}, which other programs run by themselves; it was moved to {}.{way}]",
                path.display(),
                to.display()
            )
        });
        let taken: String = taken.chain(unnamed).collect();
        let network = confinement.network();
        let hosts = network.and_then(|network| hosts(network, output));
        let says = |words: &[&str]| {
            let output = output.to_ascii_lowercase();
            words.iter().any(|words| output.contains(words))
        };
        let held = if says(&READ_ONLY) {
            let (output, directory) = (output.to_owned(), directory.to_owned());
            let confinement = confinement.clone();
            let held = move || Ok::<_, ToolError>(held_path(&output, &directory, &confinement));
            off_thread(held).await.ok().flatten()
        } else {
            None
        };
        let blocked = match held {
            Some((path, needed)) => {
                let needed = match needed {
                    SandboxMode::DangerFullAccess => OUTSIDE_MODE,
                    needed => needed.name(),
                };
                Some(format!(
                    "\n[Blocked by the sandbox ({mode}): {} cannot be written there. If the command must, \
                     call again with `sandbox` (`{needed}`) and `justification`.]",
                    path.display()
                ))
            }
            // This guess is left out if the proxy has blocked hosts: the note on hosts is certain.
            None if !confinement.profile().network && hosts.is_none() && says(&NO_NETWORK) => {
                let way = match network {
                    Some(_) => "no network other than through the proxy in `HTTP_PROXY`",
                    None => "no network",
                };
                Some(format!("\n[The command ran in the sandbox ({mode}), which has {way}.]"))
            }
            None => None,
        };
        let taken = Some(taken).filter(|taken| !taken.is_empty());
        let met = KNOWN_LIMITS.iter().filter(|limit| says(limit.words));
        let met = met.filter_map(|limit| (limit.describe)(confinement.profile()));
        let met: Vec<_> = met.map(|met| format!("\n[{met}]")).collect();
        let limits = Some(met.concat()).filter(|met| !met.is_empty());
        Self { taken, blocked, limits, hosts, ..Self::default() }
    }

    /// Adds a note on a file in the hidden part of the home that one of the texts names: the command line or its
    /// output.
    pub(super) fn about_home(self, profile: &Profile, texts: [&str; 2], is_attended: bool) -> Self {
        let way = if is_attended {
            format!(
                "The user is asked about it where read_file, or a command line such as `cat`, names it; a program that \
                 has to read it by itself can be called again with `sandbox` (`{OUTSIDE_MODE}`) and `justification`."
            )
        } else {
            NOT_SHOWN.to_owned()
        };
        let home = hidden_in_home(profile, texts).map(|path| {
            let path = path.display();
            format!("\n[Hidden by the sandbox, as it is in the home directory: {path}. {way}]")
        });
        Self { home, ..self }
    }

    /// Adds a note on a masked socket whose file name is in one of the texts: the command line or its output. Of
    /// several sockets, the note names the likeliest: sockets elsewhere often have names that are common words.
    pub(super) fn about_sockets(self, profile: &Profile, texts: [&str; 2]) -> Self {
        let is_named = |path: &&PathBuf| {
            let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
            texts.iter().any(|text| text.contains(&*name))
        };
        let likelihood = |path: &&PathBuf| {
            let whole = path.to_string_lossy();
            let is_spelled = texts.iter().any(|text| text.contains(&*whole));
            let is_inside = profile.roots.iter().any(|root| path.starts_with(root.path()));
            (is_spelled, is_inside, whole.len())
        };
        let named = profile.foreign_sockets.iter().filter(is_named).max_by_key(likelihood);
        let sockets = named.map(|path| {
            format!(
                "\n[Masked by the sandbox, as a program outside has bound it: the socket {}. If the command must \
                 connect to it, the user can name it in the setting `tools.sandboxSockets`.]",
                path.display()
            )
        });
        Self { sockets, ..self }
    }

    /// Adds a note on the hidden files whose names are in the command line or its output.
    pub(super) fn about_hidden(
        self,
        hidden: &[&Path],
        texts: [&str; 2],
        is_attended: bool,
    ) -> Self {
        let is_named = |path: &&&Path| {
            let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
            texts.iter().any(|text| text.contains(&*name))
        };
        let mut names: Vec<_> = hidden.iter().filter(is_named).map(|path| path.display()).collect();
        let more = names.len().saturating_sub(MAX_NAMED);
        names.truncate(MAX_NAMED);
        let mut names: Vec<_> = names.iter().map(ToString::to_string).collect();
        names.extend((more > 0).then(|| format!("{more} more")));
        let way = if is_attended {
            format!(
                "A command line that names it, such as `cat`, is asked about; a program that has to read it can be \
                 called again with `sandbox` (`{OUTSIDE_MODE}`) and `justification`."
            )
        } else {
            NOT_SHOWN.to_owned()
        };
        let hidden = (!names.is_empty()).then(|| {
            let names = names.join(", ");
            format!("\n[Hidden by the sandbox, because it may hold secrets: {names}. {way}]")
        });
        Self { hidden, ..self }
    }
}

/// Returns the first path in the hidden part of the home that one of the texts names.
fn hidden_in_home(profile: &Profile, texts: [&str; 2]) -> Option<PathBuf> {
    let home = &profile.home.as_ref()?.path;
    let is_end = |letter: char| letter.is_whitespace() || "'\"`,;:|&<>()".contains(letter);
    let words = texts.into_iter().flat_map(|text| text.split(is_end));
    let mut paths = words.filter_map(|word| {
        let below = ["~/", "$HOME/", "${HOME}/"].iter().find_map(|start| word.strip_prefix(start));
        let path = below.map_or_else(|| PathBuf::from(word), |below| home.join(below));
        let is_plain = path.components().all(|part| part != Component::ParentDir);
        (is_plain && path != *home && profile.hides_in_home(&path)).then_some(path)
    });
    paths.next()
}

/// Returns a path that the output names near a message about a read-only file system, if only the sandbox prevents
/// writing it, and the mode in which the command could write it. Blocks.
fn held_path(
    output: &str,
    directory: &Path,
    confinement: &Confinement,
) -> Option<(PathBuf, SandboxMode)> {
    let lines: Vec<_> = output.lines().collect();
    let says = |line: &str| {
        let line = line.to_ascii_lowercase();
        READ_ONLY.iter().any(|words| line.contains(words))
    };
    let at = lines.iter().enumerate().filter(|(_, line)| says(line)).map(|(at, _)| at);
    let around = at.flat_map(|at| {
        let (first, last) = (at.saturating_sub(LINES_AROUND), at + LINES_AROUND);
        let others = (first..=last).filter(move |other| *other != at);
        [at].into_iter().chain(others)
    });
    let named = around.filter_map(|at| lines.get(at)).flat_map(|line| names(line));
    named.take(MAX_LOOKUPS).find_map(|name| {
        let needed = confinement.needs(&directory.join(name))?;
        Some((PathBuf::from(name), needed))
    })
}

/// Returns the words of a line that may be a path: absolute paths, and words behind the program's own name between
/// colons or quotes. Later words, which are likelier, come before earlier words of the same kind.
fn names(line: &str) -> Vec<&str> {
    let parts = line.split(['\'', '"', '`', '\u{2018}', '\u{2019}']);
    let parts: Vec<_> = parts.flat_map(|part| part.split(": ")).map(str::trim).collect();
    let is_word = |part: &str| !part.is_empty() && !part.contains(char::is_whitespace);
    let marked = parts.iter().skip(1).copied().filter(|part| is_word(part));
    // The word before the first colon is the name of the program that complains, not a path that it writes.
    let own = line.split(": ").next().unwrap_or_default().trim_start();
    let words = line.split_whitespace();
    let words = words.map(|word| word.trim_matches([':', ',', '\'', '"', '`']));
    let absolute = words.filter(|word| word.starts_with('/') && *word != own);
    absolute.chain(marked).rev().collect()
}

/// Returns the error of a command that was not run because the sandbox has failed.
pub(super) fn failed(why: &str) -> ToolError {
    let message = format!(
        "The command was not run, as the sandbox failed: {why}. The fault is the sandbox's, and no reason to \
         run the command in another way. Go on without it, or say in your answer what is wrong: `/sandbox` \
         shows the user what the sandbox holds here."
    );
    ToolError::new("sandbox_failed", message)
}

/// Returns a note on the hosts that a command could not connect to. Hosts that its output names already, in the proxy's
/// words, are left out.
pub(super) fn hosts(network: &NetworkAccess, output: &str) -> Option<String> {
    // Long output may be shortened for the model, and the host may be in the part that is left out.
    let told = if output.len() <= MAX_UNCUT_OUTPUT { output } else { "" };
    let blocked = network.blocked();
    let blocked = blocked.iter().filter(|it| !told.contains(&it.to_string()));
    let hosts = blocked.map(|BlockedHost { host, why }| format!("{host} ({why})"));
    let hosts: Vec<_> = hosts.collect();
    (!hosts.is_empty()).then(|| {
        format!(
            "\n[Blocked by the sandbox: the command wanted to connect to {}.]",
            hosts.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use tandem_sandbox::Home;

    use super::*;

    #[test]
    fn hidden_paths_of_the_home_are_found_as_people_write_them() {
        let (path, readable) =
            (PathBuf::from("/home/me"), vec![PathBuf::from("/home/me/.cargo/bin")]);
        let home = Some(Home { path, readable, links: Vec::new() });
        let profile = Profile { home, ..Profile::default() };
        for (text, expected) in [
            ("cat ~/notes/x", Some("/home/me/notes/x")),
            ("cat <$HOME/notes", Some("/home/me/notes")),
            ("open '/home/me/notes': no such file", Some("/home/me/notes")),
            ("/home/me/.cargo/bin/cargo build", None),
            ("cd /home/me; ls ~/ /home/other/x", None),
            ("cat ~/../other/x", None),
        ] {
            let found = hidden_in_home(&profile, [text, ""]);
            assert_eq!(found.as_deref(), expected.map(Path::new), "{text}");
        }
    }

    #[test]
    fn a_note_on_a_hidden_file_speaks_of_asking_only_where_there_is_a_user() {
        let home = Some(Home { path: "/home/me".into(), readable: Vec::new(), links: Vec::new() });
        let profile = Profile { home, ..Profile::default() };
        for is_attended in [true, false] {
            let notes = SandboxNotes::default()
                .about_home(&profile, ["make", "~/notes: no such file"], is_attended)
                .about_hidden(&[Path::new("/p/.env")], ["make", ".env is missing"], is_attended);
            for note in [notes.home.unwrap(), notes.hidden.unwrap()] {
                assert_eq!(note.contains("asked about"), is_attended, "{note}");
                assert_eq!(note.ends_with(&format!("{NOT_SHOWN}]")), !is_attended, "{note}");
            }
        }
    }

    #[track_caller]
    fn check(line: &str, expected: &[&str]) {
        assert_eq!(names(line), expected, "{line}");
    }

    #[test]
    fn paths_are_found_where_programs_write_them() {
        check("touch: cannot touch 'a': Read-only file system", &["a"]);
        check("bash: line 1: README.md: Read-only file system", &["README.md"]);
        check("OSError: [Errno 30] Read-only file system: '/x/y'", &["/x/y", "/x/y"]);
        check("Error: EROFS: read-only file system, open '/x'", &["/x", "EROFS", "/x"]);
        check("open /etc/a: read-only file system", &["/etc/a"]);
        check("npm error path /home/me/.npm/_cacache", &["/home/me/.npm/_cacache"]);
        check("/bin/bash: line 1: a: Read-only file system", &["a"]);
        check("make: Read-only file system", &[]);
        check("the disk has a read-only file system", &[]);
    }
}
