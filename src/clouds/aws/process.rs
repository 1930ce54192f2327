//! Programs of the user that print credentials (`credential_process`).

use std::io;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use aws_credential_types::Credentials;
use futures::future::{Either, join, select};
use serde::Deserialize;
use tandem_host::terminals::{Program, RunningProgram, Terminals};
use tandem_model::Error;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::time::timeout;

use super::TemporaryKeys;
use super::profile::CredentialProcess;
use crate::cache::Expiring;

/// Maximum time for which a program may run.
const MAX_RUN_TIME: Duration = Duration::from_mins(1);
/// Maximum time for reading the rest of a program's output after the program's end.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);
/// Maximum size of the output of a program in bytes.
const MAX_OUTPUT_BYTES: u64 = 64 << 10;
/// Maximum length of a program's own message that is shown, in bytes.
const MAX_MESSAGE_BYTES: usize = 300;
/// Version of the form of the output.
const OUTPUT_VERSION: u32 = 1;

/// Output of a program.
#[derive(Deserialize)]
struct ProcessOutput {
    #[serde(rename = "Version")]
    version: u32,
    #[serde(flatten)]
    keys: TemporaryKeys,
}

/// Runs the program of a profile, without a shell, and reads its output. The program receives the variables that commands
/// may have.
pub(super) async fn run(
    process: &CredentialProcess,
    terminals: &Arc<Terminals>,
) -> Result<Expiring<Credentials>, Error> {
    let failed = |why: &str| {
        Error::NotAuthenticated(format!(
            "The program of the profile `{}` of AWS (`credential_process`) {why}.",
            process.profile
        ))
    };
    let words = words(&process.command)
        .ok_or_else(|| failed("has a quotation mark without its end. Correct the profile"))?;
    let Some((program, arguments)) = words.split_first() else {
        return Err(failed("is not named. Correct the profile"));
    };
    // A path that begins in the working directory would lead to a program of the project.
    if program.contains('/') && !Path::new(program).is_absolute() {
        return Err(failed(
            "must be named by its whole path, or by a name in PATH. Correct the profile",
        ));
    }
    let directory = process.directory.as_deref().filter(|directory| directory.is_dir());
    let program = Program {
        command: program.to_owned(),
        args: arguments.to_vec(),
        env: Vec::new(),
        directory: directory.map_or_else(|| PathBuf::from("/"), Path::to_owned),
    };
    // Neither of the two counts for the program's time: the login shell may be slow, and a server that has lost its
    // database waits for it. A task of its own goes on after a cancel; otherwise the next try would start the login
    // shell anew.
    let finder = Arc::clone(terminals);
    let _ = tokio::spawn(async move { finder.find_programs().await }).await;
    terminals.may_start().await;
    let ran = timeout(MAX_RUN_TIME, output(&program, terminals)).await;
    let ran =
        ran.map_err(|_| failed(&format!("has not ended within {} s", MAX_RUN_TIME.as_secs())))?;
    let output = ran.map_err(|why| failed(&why))?;
    // The parser's own message may repeat a part of the output, which is secret.
    let output: ProcessOutput = serde_json::from_str(&output)
        .map_err(|_| failed("has printed no credentials in the form that AWS describes"))?;
    if output.version != OUTPUT_VERSION {
        return Err(failed(&format!(
            "has printed `Version` {}, and not {OUTPUT_VERSION}",
            output.version
        )));
    }
    Ok(output.keys.into_credentials())
}

/// Runs a program to its end, and returns its output. The error is the end of a sentence that begins with
/// "The program of the profile".
async fn output(program: &Program, terminals: &Arc<Terminals>) -> Result<String, String> {
    let running = terminals.serve(program, None);
    let RunningProgram { input, output, errors, mut life } =
        running.map_err(|error| format!("cannot be started: {error}"))?;
    drop(input);
    let (mut printed, mut message) = (Vec::new(), Vec::new());
    let status = {
        // Both are read at once. If only one pipe were read, a program that fills the other would block, and never end.
        let reading = pin!(join(bounded(output, &mut printed), bounded(errors, &mut message)));
        match select(reading, pin!(life.exit.wait())).await {
            Either::Left(((Err(error), _), _)) => return Err(format!("cannot be read: {error}")),
            Either::Left((_, exit)) => exit.await,
            Either::Right((status, reading)) => {
                // A process that the program has left behind, such as a daemon, may hold the pipes open for ever. What
                // the program itself has written is in the pipes by now.
                let _ = timeout(DRAIN_TIMEOUT, reading).await;
                status
            }
        }
    };
    // The output is looked at before the status: a program that prints too much may be ended by a signal, because the
    // rest of its output is not read. The amount of output is the true reason then.
    if printed.len() as u64 > MAX_OUTPUT_BYTES {
        return Err(format!("has printed more than {MAX_OUTPUT_BYTES} bytes"));
    }
    let status = status.ok_or("has ended in an unknown way")?;
    if status.success() {
        return Ok(String::from_utf8_lossy(&printed).into_owned());
    }
    let message = String::from_utf8_lossy(&message);
    let words: Vec<_> = message.split_whitespace().collect();
    let mut line = words.join(" ");
    line.truncate(line.floor_char_boundary(MAX_MESSAGE_BYTES));
    let said = if line.is_empty() { String::new() } else { format!(" and says: {line}") };
    Err(format!("has failed ({status}){said}"))
}

/// Reads a stream to its end, or to one byte more than the maximum.
async fn bounded(stream: impl AsyncRead + Unpin, bytes: &mut Vec<u8>) -> io::Result<()> {
    stream.take(MAX_OUTPUT_BYTES + 1).read_to_end(bytes).await.map(drop)
}

/// Splits a command line into words, as a shell does with quotation marks and backslashes, and no more. Returns `None`
/// if a quotation mark has no end.
fn words(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.chars();
    while let Some(char) = chars.next() {
        match char {
            '\'' | '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next()? {
                        end if end == char => break,
                        '\\' if char == '"' => match chars.next()? {
                            escaped @ ('"' | '\\') => word.push(escaped),
                            other => word.extend(['\\', other]),
                        },
                        other => word.push(other),
                    }
                }
            }
            '\\' => word.get_or_insert_default().push(chars.next()?),
            space if space.is_whitespace() => words.extend(word.take()),
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    Some(words)
}

#[cfg(test)]
mod tests {
    use tandem_host::terminals::{EnvironmentFilter, Supervisor};
    use test_support::fifo::{is_gone, make_fifo};
    use tokio::net::unix::pipe;

    use super::*;

    #[test]
    fn a_command_line_is_split_and_no_shell_reads_it() {
        let check = |line: &str, expected: &[&str]| {
            assert_eq!(words(line).unwrap(), expected, "{line}");
        };
        check("/bin/get --user me", &["/bin/get", "--user", "me"]);
        check(" '/a b/get'  \"x \\\"y\\\" \\z\" '' ", &["/a b/get", "x \"y\" \\z", ""]);
        check("a\\ b$HOME;c|d", &["a b$HOME;c|d"]);
        check("", &[]);
        assert_eq!(words("a 'b"), None);
        assert_eq!(words("a \"b"), None);
        assert_eq!(words("a\\"), None);
    }

    async fn ran(command: &str) -> Result<Expiring<Credentials>, Error> {
        ran_by(&Supervisor::new(), command).await
    }

    async fn ran_by(
        supervisor: &Arc<Supervisor>,
        command: &str,
    ) -> Result<Expiring<Credentials>, Error> {
        let (profile, command) = ("work".to_owned(), command.to_owned());
        let terminals = Terminals::new(supervisor, EnvironmentFilter::default());
        run(&CredentialProcess { profile, command, directory: None }, &terminals).await
    }

    async fn failure(command: &str) -> String {
        ran(command).await.err().unwrap().to_string()
    }

    #[tokio::test]
    async fn a_program_prints_keys_with_their_expiry() {
        let line = r#"echo '{"Version": 1, "AccessKeyId": "A", "SecretAccessKey": "s", "SessionToken": "t",
            "Expiration": "2030-01-01T00:00:00Z"}'"#;
        let found = ran(line).await.unwrap();
        let keys = &found.value;
        let token = keys.session_token();
        assert_eq!((keys.access_key_id(), keys.secret_access_key(), token), ("A", "s", Some("t")));
        assert!(found.expires_at.is_some());
        let lasting = r#"echo '{"Version": 1, "AccessKeyId": "A", "SecretAccessKey": "s"}'"#;
        assert_eq!(ran(lasting).await.unwrap().expires_at, None);
    }

    #[tokio::test]
    async fn a_program_that_fails_is_named_with_its_message_and_no_secret() {
        let begins = "The program of the profile `work` of AWS (`credential_process`) ";
        for (command, expected) in [
            (
                "sh -c 'echo no login >&2; exit 3'",
                "has failed (exit status: 3) and says: no login.",
            ),
            ("echo 'secret key'", "has printed no credentials in the form that AWS describes."),
            (
                r#"echo '{"Version": 2, "AccessKeyId": "A", "SecretAccessKey": "s"}'"#,
                "has printed `Version` 2, and not 1.",
            ),
            (
                "./get",
                "must be named by its whole path, or by a name in PATH. Correct the profile.",
            ),
            ("'get", "has a quotation mark without its end. Correct the profile."),
            ("  ", "is not named. Correct the profile."),
            ("head -c 70000 /dev/zero", "has printed more than 65536 bytes."),
        ] {
            assert_eq!(failure(command).await, format!("{begins}{expected}"), "{command}");
        }
        let error = failure("/no/such/program").await;
        assert!(error.starts_with(&format!("{begins}cannot be started: ")), "{error}");
    }

    #[tokio::test]
    async fn a_process_that_a_program_leaves_behind_is_not_waited_for_and_ends_with_the_agent() {
        // The process holds the pipes open. The second process has also left the program's group, as a daemon does.
        for left_behind in ["sleep 1000", "setsid sleep 1000"] {
            let dir = tempfile::tempdir().unwrap();
            let fifo = dir.path().join("family");
            make_fifo(&fifo);
            let family = pipe::OpenOptions::new().open_receiver(&fifo).unwrap();
            let keys = r#"{\"Version\":1,\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"s\"}"#;
            let fifo = fifo.display();
            let line = format!(r#"sh -c 'exec 3>{fifo}; {left_behind} & echo "{keys}"'"#);
            let supervisor = Supervisor::new();
            let found = timeout(MAX_RUN_TIME / 2, ran_by(&supervisor, &line)).await;
            assert_eq!(found.expect("it is waited for").unwrap().value.access_key_id(), "A");
            supervisor.end_all().await;
            is_gone(family).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_program_that_does_not_end_is_ended() {
        assert!(failure("sleep 1000").await.ends_with("has not ended within 60 s."));
    }
}
