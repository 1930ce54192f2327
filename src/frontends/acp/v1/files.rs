//! Files read and written through an editor, which may have texts that are not saved yet.

use std::path::{Path, PathBuf};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde::de::IgnoredAny;

use super::client::SessionClient;
use tandem_agent::session::TextBuffers;
use tandem_wire::acp::v1::{
    READ_TEXT_FILE, ReadTextFileParams, ReadTextFileResponse, WRITE_TEXT_FILE, WriteTextFileParams,
};
use tandem_wire::rpc::Peer;

/// Files of a session, read and written through an editor.
pub(super) struct EditorFiles {
    peer: Peer,
    session: String,
    takes_writes: bool,
    /// Directories of the session: the canonical path of each, and the path that the editor uses.
    directories: Vec<(PathBuf, PathBuf)>,
}

impl EditorFiles {
    /// Returns the files of an editor, if the editor can be asked for the texts of files. `directories` are the
    /// session's directories, by the paths that the editor uses.
    pub(super) fn new(client: &SessionClient, directories: &[PathBuf]) -> Option<Self> {
        let capabilities = client.kind.files;
        let real = |path: &PathBuf| Some((path.canonicalize().ok()?, path.clone()));
        capabilities.read_text_file.then(|| Self {
            peer: client.peer.clone(),
            session: client.id.clone(),
            takes_writes: capabilities.write_text_file,
            directories: directories.iter().filter_map(real).collect(),
        })
    }

    /// Returns the path that the editor uses for a canonical path.
    fn editor_path(&self, path: &Path) -> PathBuf {
        let named = self.directories.iter().find_map(|(real, named)| {
            let below = path.strip_prefix(real).ok()?;
            Some(named.join(below))
        });
        named.unwrap_or_else(|| path.to_owned())
    }
}

impl TextBuffers for EditorFiles {
    fn cover(&self, path: &Path) -> bool {
        self.directories.iter().any(|(real, _)| path.starts_with(real))
    }

    fn takes_writes(&self) -> bool {
        self.takes_writes
    }

    fn read(&self, path: &Path) -> BoxFuture<'static, Option<String>> {
        let path = self.editor_path(path);
        let params = ReadTextFileParams { session_id: &self.session, path: &path };
        let answer = self.peer.call::<ReadTextFileResponse>(READ_TEXT_FILE, &params);
        let text = async move {
            // Editors answer with an error for a file that does not exist, and for a file that they do not handle.
            // In both cases the answer is `None`.
            let failed =
                |error| tracing::debug!(path = %path.display(), %error, "not in the editor");
            answer.await.map_err(failed).ok().map(|response| response.content)
        };
        text.boxed()
    }

    fn write(&self, path: &Path, text: &str) -> BoxFuture<'static, Result<(), String>> {
        let path = self.editor_path(path);
        let params = WriteTextFileParams { session_id: &self.session, path: &path, content: text };
        // Some editors answer with `null` in place of an object.
        let answer = self.peer.call::<IgnoredAny>(WRITE_TEXT_FILE, &params);
        async move { answer.await.map(drop).map_err(|error| error.to_string()) }.boxed()
    }
}
