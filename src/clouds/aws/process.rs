//! Programs of the user that print credentials (`credential_process`).

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use aws_credential_types::Credentials;
use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;
use tandem_model::Error;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::Command;
use tokio::time::timeout;

use super::TemporaryKeys;
use super::profile::CredentialProcess;
use crate::IsHidden;
use crate::cache::Expiring;

/// Maximum time for which a program may run.
const MAX_RUN_TIME: Duration = Duration::from_mins(1);
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

/// Runs the program of a profile, without a shell, and reads its output. The program receives the variables of this
/// process, except those that `is_hidden` names.
pub(super) async fn run(
    process: &CredentialProcess,
    is_hidden: &IsHidden,
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
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    for (name, value) in std::env::vars_os() {
        if is_hidden(&name.to_string_lossy(), &value.to_string_lossy()) {
            command.env_remove(name);
        }
    }
    command.kill_on_drop(true).process_group(0);
    if let Some(directory) = process.directory.as_deref().filter(|directory| directory.is_dir()) {
        command.current_dir(directory);
    }
    let ran = timeout(MAX_RUN_TIME, output(command)).await;
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

/// The process group of a program. It is killed when the value is dropped.
struct ProcessGroup(Option<Pid>);

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // An error is ignored, as the group usually has ended by itself.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// Runs a program, which leads a process group, to its end, and returns its output. The error is the end of a sentence.
async fn output(mut command: Command) -> Result<String, String> {
    let mut child = command.spawn().map_err(|error| format!("cannot be started: {error}"))?;
    let group = child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
    let group = ProcessGroup(group);
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let ended = async {
        let status = child.wait().await;
        // A process that the program has left behind would hold the pipes open.
        drop(group);
        status
    };
    // Both are read at once: a program that writes much to one of them would wait for its reader.
    let (status, output, message) = futures::join!(ended, bounded(stdout), bounded(stderr));
    let status = status.map_err(|error| format!("cannot be waited for: {error}"))?;
    // The output is looked at before the status: a program that prints too much may be ended by a signal, because the
    // rest of its output is not read. The amount of output is the true reason then.
    let output = output?;
    if status.success() {
        return Ok(output);
    }
    let message = message.unwrap_or_default();
    let words: Vec<_> = message.split_whitespace().collect();
    let mut line = words.join(" ");
    line.truncate(line.floor_char_boundary(MAX_MESSAGE_BYTES));
    let said = if line.is_empty() { String::new() } else { format!(" and says: {line}") };
    Err(format!("has failed ({status}){said}"))
}

/// Reads a stream to its end. The error is the end of a sentence.
async fn bounded(stream: Option<impl AsyncRead + Unpin>) -> Result<String, String> {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        let read = stream.take(MAX_OUTPUT_BYTES + 1).read_to_end(&mut bytes).await;
        read.map_err(|error| format!("cannot be read: {error}"))?;
    }
    if bytes.len() as u64 > MAX_OUTPUT_BYTES {
        return Err(format!("has printed more than {MAX_OUTPUT_BYTES} bytes"));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
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
    use std::sync::Arc;

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
        let (profile, command) = ("work".to_owned(), command.to_owned());
        let is_hidden: IsHidden = Arc::new(|_, _| false);
        run(&CredentialProcess { profile, command, directory: None }, &is_hidden).await
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
    async fn a_process_that_a_program_leaves_behind_is_ended_and_not_waited_for() {
        let line = r#"sh -c 'sleep 1000 & echo "{\"Version\":1,\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"s\"}"'"#;
        // A process that the program left behind holds the pipe open, and must not be waited for.
        let found = timeout(MAX_RUN_TIME / 2, ran(line)).await.expect("it is waited for");
        assert_eq!(found.unwrap().value.access_key_id(), "A");
    }

    #[tokio::test(start_paused = true)]
    async fn a_program_that_does_not_end_is_ended() {
        assert!(failure("sleep 1000").await.ends_with("has not ended within 60 s."));
    }
}
