//! Writes every line of a connection into a file: `{"dir":"c2a"|"a2c","t":...,"msg":...}`.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context as _;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::rpc::{Direction, Tap};
use crate::sync::Mutex;

/// A line of the record.
#[derive(Serialize)]
struct Entry<'a> {
    /// Who says it: client to agent, or agent to client.
    dir: &'static str,
    /// Milliseconds since the record began.
    t: u64,
    /// The message, if the line is JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    msg: Option<&'a RawValue>,
    /// The line, if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    raw: Option<String>,
}

/// Begins a record; what the file held before is gone.
pub fn to_file(path: &Path) -> anyhow::Result<Tap> {
    let file =
        File::create(path).with_context(|| format!("cannot record to {}", path.display()))?;
    let file = Mutex::new(BufWriter::new(file));
    let begun = Instant::now();
    Ok(Arc::new(move |direction, line| {
        let msg = serde_json::from_slice(line).ok();
        let entry = Entry {
            dir: match direction {
                Direction::In => "c2a",
                Direction::Out => "a2c",
            },
            t: u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
            raw: msg.is_none().then(|| String::from_utf8_lossy(line).into_owned()),
            msg,
        };
        let mut file = file.lock();
        let written = serde_json::to_writer(&mut *file, &entry).map_err(std::io::Error::from);
        // Whole after each line: the record is read when something went wrong.
        let written = written.and_then(|()| file.write_all(b"\n")).and_then(|()| file.flush());
        if let Err(err) = written {
            tracing::warn!(%err, "the record is not complete");
        }
    }))
}
