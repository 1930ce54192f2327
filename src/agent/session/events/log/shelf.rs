//! Old events of a log, in a file: what is seldom read needs no memory.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use crate::session::events::event::Event;
use tandem_host::scratch::Scratch;

/// A file of events, each as JSON. It has no name, and is gone with the session.
pub(crate) struct Shelf {
    scratch: Arc<Scratch>,
    /// Bytes of events in memory from which on the oldest go into the file.
    max_bytes: usize,
    /// Made when first needed.
    file: Option<Arc<File>>,
    end: u64,
}

/// Offset and length of an event in the file.
#[derive(Debug, Clone, Copy)]
pub(super) struct FileSlice {
    offset: u64,
    len: usize,
}

impl Shelf {
    pub(in crate::session) fn new(scratch: Arc<Scratch>, max_bytes: usize) -> Self {
        Self { scratch, max_bytes, file: None, end: 0 }
    }

    pub(super) fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    /// Lets nothing more go into the file.
    pub(super) fn stop(&mut self) {
        self.max_bytes = usize::MAX;
    }

    /// Puts events into the file. Returns the place of each.
    pub(super) fn put(&mut self, events: &[Arc<Event>]) -> io::Result<Vec<FileSlice>> {
        let file = match &self.file {
            Some(file) => file,
            None => self.file.insert(Arc::new(tempfile::tempfile_in(self.scratch.dir()?)?)),
        };
        let mut text = Vec::new();
        let mut places = Vec::with_capacity(events.len());
        for event in events {
            let start = text.len();
            serde_json::to_writer(&mut text, event)?;
            places.push(FileSlice { offset: self.end + start as u64, len: text.len() - start });
        }
        file.write_all_at(&text, self.end)?;
        self.end += text.len() as u64;
        Ok(places)
    }

    /// Returns the file, to read events without the shelf.
    pub(super) fn file(&self) -> Option<Arc<File>> {
        self.file.clone()
    }
}

/// Reads an event.
pub(super) fn read(file: &File, place: FileSlice) -> io::Result<Event> {
    let mut text = vec![0; place.len];
    file.read_exact_at(&mut text, place.offset)?;
    Ok(serde_json::from_slice(&text)?)
}

/// Bytes that an event takes, about.
pub(super) fn size(event: &Event) -> usize {
    let text = match event {
        // These come often.
        Event::Text(text) | Event::Thought(text) | Event::CallProgress { output: text, .. } => {
            text.len()
        }
        event => {
            let mut count = ByteCounter(0);
            // Counting cannot fail.
            let _ = serde_json::to_writer(&mut count, event);
            count.0
        }
    };
    size_of::<Event>() + text
}

/// Counts what is written.
struct ByteCounter(usize);

impl Write for ByteCounter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
