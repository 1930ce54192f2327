//! The user's decisions on projects whose own settings run programs. They are stored in a file of tandem's own,
//! `{"/path": {"agreed": true, "to": "HASH"}}`, where HASH is the SHA-256 of the programs that would run, in base64.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};

use super::env::Env;
use super::owned_file;
use super::trust::{Trust, trust};
use tandem_approval::consent::{Consent, ConsentStatus, Executable, Review};

/// The user's decision on the programs of one folder.
#[derive(Serialize, Deserialize)]
struct FolderDecision {
    agreed: bool,
    /// Digest of the programs that the user was asked about.
    to: String,
}

type Folders = BTreeMap<PathBuf, FolderDecision>;

/// Returns the consent to the programs that the settings of the project in `folder` would run. `look` reads these
/// settings; [`Consent`] describes the times at which it is called. No question is needed for a folder that
/// `trustedFolders.json` or `GEMINI_CLI_TRUST_WORKSPACE` decides on.
pub fn consent(
    env: Env,
    folder: &Path,
    look: impl Fn() -> Vec<Executable> + Send + Sync + 'static,
) -> Arc<Consent> {
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let file = env.config_dir().map(|dir| dir.join("folders.json"));
    let kept = (file.clone(), folder.clone());
    let find = move || {
        let mut executables = look();
        // The digest must not depend on the order.
        executables.sort();
        let status = match trust(&env, &folder) {
            Trust::Trusted => ConsentStatus::Given,
            Trust::Never => ConsentStatus::Refused,
            Trust::Unjudged => earlier_decision(file.as_deref(), &folder, &executables),
        };
        Review { executables, status }
    };
    Consent::new(find, move |executables, agreed| {
        let (file, folder) = &kept;
        let file = file.as_ref().ok_or("there is no home directory: set HOME")?;
        save_decision(file, folder, FolderDecision { agreed, to: digest(executables) })
    })
}

/// Returns the earlier decision on exactly these programs; a decision on other programs of the folder does not count.
fn earlier_decision(
    file: Option<&Path>,
    folder: &Path,
    executables: &[Executable],
) -> ConsentStatus {
    let folders = file.map_or(Ok(Folders::new()), read).unwrap_or_else(|why| {
        tracing::warn!("{why}; your earlier answers do not count, and you are asked again");
        Folders::new()
    });
    match folders.get(folder) {
        Some(said) if said.to != digest(executables) => ConsentStatus::Pending,
        Some(said) if said.agreed => ConsentStatus::Given,
        Some(_) => ConsentStatus::Refused,
        None => ConsentStatus::Pending,
    }
}

fn save_decision(file: &Path, folder: &Path, said: FolderDecision) -> Result<(), String> {
    let mut folders = read(file)?;
    folders.insert(folder.to_owned(), said);
    let text = serde_json::to_string_pretty(&folders).map_err(|err| err.to_string())?;
    owned_file::write(file, &format!("{text}\n"))
}

fn read(file: &Path) -> Result<Folders, String> {
    let wrong = |why: String| format!("{} {why}", file.display());
    match owned_file::read(file, owned_file::MAX_SMALL_FILE_KIB).map_err(wrong)? {
        None => Ok(Folders::new()),
        Some(read) if read.others_may_write() => Err(wrong(format!(
            "can be written by other users (run `chmod go-w {}`)",
            file.display()
        ))),
        Some(read) => {
            serde_json::from_str(&read.text).map_err(|err| wrong(format!("is not valid: {err}")))
        }
    }
}

/// Returns the digest of the programs that would run.
fn digest(executables: &[Executable]) -> String {
    let mut context = Context::new(&SHA256);
    for Executable { kind, name, runs, .. } in executables {
        // The length stands before each text, so that two different lists cannot be hashed as the same bytes.
        for text in [*kind, name.as_str(), runs.as_str()] {
            context.update(&text.len().to_le_bytes());
            context.update(text.as_bytes());
        }
    }
    STANDARD.encode(context.finish())
}
