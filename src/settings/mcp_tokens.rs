//! The store of tokens for MCP servers: one file for each server, which only the user may read and write.

use std::fs::{DirBuilder, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::sync::Arc;

use futures::FutureExt as _;
use ring::digest;
use rustix::fs::{FlockOperation, flock};

use super::browser;
use super::credentials::Credentials;
use super::owned_file;
use tandem_mcp::{Logins, TokenStore};

/// Maximum size of one server's file in KiB.
const MAX_KIB: u64 = 256;

/// Returns the store of MCP servers' tokens, and the function that opens a login page in the browser.
pub fn mcp_logins(credentials: &Arc<Credentials>) -> Logins {
    let store = Arc::new(TokenFiles { dir: credentials.env().config_dir() });
    let credentials = Arc::clone(credentials);
    let open = move |address: String| {
        let credentials = Arc::clone(&credentials);
        async move {
            match browser::programs(credentials.env()) {
                Ok(programs) => browser::open(&programs, &address, &credentials).await,
                Err(why) => why,
            }
        }
        .boxed()
    };
    Logins { store, open: Arc::new(open) }
}

struct TokenFiles {
    dir: Option<PathBuf>,
}

impl TokenFiles {
    /// Returns the path of a server's file with the given ending. The name is a hash of the server's address, since an
    /// address may be too long for a name, or have characters that no name may have.
    fn path(&self, server: &str, ending: &str) -> Result<PathBuf, String> {
        let dir = self.dir.as_ref().ok_or("there is no home directory: set HOME")?;
        let sum = digest::digest(&digest::SHA256, server.as_bytes());
        let hex = |hex: String, byte: &u8| hex + &format!("{byte:02x}");
        let name = sum.as_ref().iter().fold(String::new(), hex);
        Ok(dir.join("mcp-tokens").join(format!("{name}.{ending}")))
    }

    fn lock_file(&self, server: &str) -> Result<File, String> {
        // The lock has a file of its own: each `save` replaces the token file, so a lock on the token file itself would
        // not keep a later process out.
        let path = self.path(server, "lock")?;
        let failed = |err| format!("{} cannot be locked: {err}", path.display());
        if let Some(dir) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(failed)?;
        }
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(&path);
        let file = file.map_err(failed)?;
        flock(&file, FlockOperation::LockExclusive).map_err(|err| failed(err.into()))?;
        Ok(file)
    }
}

impl TokenStore for TokenFiles {
    fn load(&self, server: &str) -> Result<Option<String>, String> {
        let path = self.path(server, "json")?;
        let read = owned_file::read(&path, MAX_KIB);
        let file = read.map_err(|why| format!("{} {why}", path.display()))?;
        let Some(file) = file else { return Ok(None) };
        if file.others_may_touch() {
            let path = path.display();
            return Err(format!(
                "{path} can be read by other users: run `chmod 600 {path}`, or remove the file"
            ));
        }
        Ok(Some(file.text))
    }

    fn save(&self, server: &str, text: Option<&str>) -> Result<(), String> {
        let path = self.path(server, "json")?;
        match text {
            Some(text) => owned_file::write(&path, text),
            None => match std::fs::remove_file(&path) {
                Err(err) if err.kind() != std::io::ErrorKind::NotFound => {
                    Err(format!("{} cannot be removed: {err}", path.display()))
                }
                _ => Ok(()),
            },
        }
    }

    fn lock(&self, server: &str) -> Result<Box<dyn Send>, String> {
        Ok(Box::new(self.lock_file(server)?))
    }
}
