//! Spill file for the old events of a log, which are seldom read and should not need memory.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use crate::session::events::event::Event;
use tandem_host::scratch::Scratch;

/// A file of events, each as JSON. The file has no name in its directory, and is deleted when the last handle is
/// closed.
pub(super) struct SpillFile {
    scratch: Arc<Scratch>,
    /// The file, which is made when it is first needed.
    file: Option<Arc<File>>,
    /// Number of bytes in the file.
    end: u64,
}

/// Offset and length of an event in the file, in bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct FileSlice {
    offset: u64,
    len: usize,
}

impl SpillFile {
    pub(super) fn new(scratch: Arc<Scratch>) -> Self {
        Self { scratch, file: None, end: 0 }
    }

    /// Appends events to the file. Returns the place of each.
    pub(super) fn put<'a>(
        &mut self,
        events: impl Iterator<Item = &'a Event>,
    ) -> io::Result<Vec<FileSlice>> {
        let file = match &self.file {
            Some(file) => file,
            None => self.file.insert(Arc::new(tempfile::tempfile_in(self.scratch.dir()?)?)),
        };
        let mut text = Vec::new();
        let mut places = Vec::new();
        for event in events {
            let start = text.len();
            serde_json::to_writer(&mut text, event)?;
            places.push(FileSlice { offset: self.end + start as u64, len: text.len() - start });
        }
        file.write_all_at(&text, self.end)?;
        self.end += text.len() as u64;
        Ok(places)
    }

    /// Returns a handle of the file, with which a caller can read events while others are written.
    pub(super) fn file(&self) -> Option<Arc<File>> {
        self.file.clone()
    }
}

/// Reads an event from the file.
pub(super) fn read(file: &File, place: FileSlice) -> io::Result<Event> {
    let mut text = vec![0; place.len];
    file.read_exact_at(&mut text, place.offset)?;
    Ok(serde_json::from_slice(&text)?)
}
