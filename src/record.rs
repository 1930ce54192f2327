//! Records of connections. A record has a line of JSON for each message: `{"dir":"c2a"|"a2c","t":...,"msg":...}`.
//!
//! [`to_file`] writes a record, and [`read`] reads it. A record for `tandem replay` can begin with
//! `{"dir":"setup",...}` ([`RecordSetup`]). The line `{"dir":"end"}` means that the client hangs up.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{BufWriter, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use parking_lot::Mutex;
use tandem_wire::rpc::{LineDirection, Tap};

/// A line of a record, as it is written.
#[derive(Serialize)]
struct RecordEntry<'a> {
    /// Direction: client to agent, or agent to client.
    dir: &'static str,
    /// Milliseconds since the record began.
    t: u64,
    /// The message, if the line is JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    msg: Option<&'a RawValue>,
    /// The line as text, if the line is not JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    raw: Option<String>,
}

/// Begins a record in a file that only its owner may read. Deletes the previous content of the file.
pub(crate) fn to_file(path: &Path) -> anyhow::Result<Tap> {
    let file = open(path).with_context(|| format!("cannot record to {}", path.display()))?;
    let file = Mutex::new(BufWriter::new(file));
    let begun = Instant::now();
    Ok(Arc::new(move |direction, line| {
        let msg = serde_json::from_slice(line).ok();
        let entry = RecordEntry {
            dir: match direction {
                LineDirection::In => "c2a",
                LineDirection::Out => "a2c",
            },
            t: u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
            raw: msg.is_none().then(|| String::from_utf8_lossy(line).into_owned()),
            msg,
        };
        let mut file = file.lock();
        let written = serde_json::to_writer(&mut *file, &entry).map_err(std::io::Error::from);
        // Flushes after each line, so that the record is complete even if the program crashes.
        let written = written.and_then(|()| file.write_all(b"\n")).and_then(|()| file.flush());
        if let Err(err) = written {
            tracing::warn!(%err, "the record is not complete");
        }
    }))
}

/// A record that was read from a file.
#[derive(Debug, PartialEq)]
pub(crate) struct Record {
    /// Setup with which the agent is started, if the record has one.
    pub(crate) setup: Option<RecordSetup>,
    /// Events of the connection, in order, each with the number of its line.
    pub(crate) steps: Vec<(usize, RecordedStep)>,
}

/// Setup that the agent of a record is started with.
#[derive(Debug, PartialEq)]
pub(crate) struct RecordSetup {
    /// The agent's arguments.
    pub(crate) args: Vec<String>,
    /// Files of the agent's workspace. A name that ends in `/` is a directory.
    pub(crate) files: BTreeMap<String, String>,
    /// Answers of the agent's model: the lines of a script for `--model replay:FILE`.
    pub(crate) script: Vec<Value>,
    /// Lines for people about next steps, printed after the conversation was shown.
    pub(crate) next: Vec<String>,
}

/// Event in a connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RecordedStep {
    /// The client wrote a line.
    Client(String),
    /// The agent wrote a line.
    Agent(String),
    /// The client hung up.
    End,
}

/// A line of a record, as it is read. Unknown fields, such as explanations for people, and `t` are ignored.
#[derive(Deserialize)]
struct RecordLine<'a> {
    dir: &'a str,
    #[serde(borrow, default, deserialize_with = "present")]
    msg: Option<&'a RawValue>,
    #[serde(default)]
    raw: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    files: BTreeMap<String, String>,
    #[serde(default)]
    script: Vec<Value>,
    #[serde(default)]
    next: Vec<String>,
}

/// Reads the field `msg`, so that `"msg": null`, which is a message, differs from a line without `msg`.
fn present<'de: 'a, 'a, D>(deserializer: D) -> Result<Option<&'a RawValue>, D::Error>
where
    D: Deserializer<'de>,
{
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// Reads a record.
pub(crate) fn read(path: &Path) -> anyhow::Result<Record> {
    let file = path.display();
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {file}"))?;
    let mut record = Record { setup: None, steps: Vec::new() };
    for (n, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        let line: RecordLine<'_> = serde_json::from_str(line)
            .with_context(|| format!("{file}:{n} is not a line of a record"))?;
        let step = match (line.dir, line.msg, line.raw) {
            ("setup", ..) => {
                let RecordLine { args, files, script, next, .. } = line;
                record.setup = Some(RecordSetup { args, files, script, next });
                continue;
            }
            ("c2a", Some(msg), _) => RecordedStep::Client(msg.get().to_owned()),
            ("c2a", None, Some(raw)) => RecordedStep::Client(raw),
            ("a2c", Some(msg), _) => RecordedStep::Agent(msg.get().to_owned()),
            ("a2c", None, Some(raw)) => RecordedStep::Agent(raw),
            ("end", ..) => RecordedStep::End,
            _ => anyhow::bail!(
                "{file}:{n}: `dir` is none of setup, c2a, a2c and end, or the line has \
                neither `msg` nor `raw`"
            ),
        };
        record.steps.push((n, step));
    }
    Ok(record)
}

fn open(path: &Path) -> anyhow::Result<File> {
    // An existing file keeps its mode when it is opened. It is emptied only after its mode is changed, so that other
    // users cannot read the new record.
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(false).mode(0o600).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Ok(file);
    }
    if found.permissions().mode() & 0o077 != 0 {
        file.set_permissions(Permissions::from_mode(0o600)).context(
            "other users can read the file, and its permissions cannot be changed; record to a file of your own",
        )?;
    }
    file.set_len(0)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_record_is_its_owners_alone() {
        let dir = tempfile::tempdir().unwrap();
        let (new, old) = (dir.path().join("new"), dir.path().join("old"));
        fs::write(&old, "what was there before").unwrap();
        fs::set_permissions(&old, Permissions::from_mode(0o644)).unwrap();
        for path in [&new, &old] {
            to_file(path).unwrap()(LineDirection::In, b"{}");
            assert_eq!(mode(path), 0o600, "{}", path.display());
            let text = fs::read_to_string(path).unwrap();
            assert!(text.starts_with(r#"{"dir":"c2a","#) && text.lines().count() == 1, "{text}");
        }
    }

    #[test]
    fn what_is_no_file_is_left_as_it_is() {
        let before = mode(Path::new("/dev/null"));
        to_file(Path::new("/dev/null")).unwrap()(LineDirection::In, b"{}");
        assert_eq!(mode(Path::new("/dev/null")), before);
    }
}
