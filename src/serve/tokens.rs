//! The token file: one or several tokens for each person or service, stored as hashes only.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom as _, SystemRandom};
use serde::{Deserialize, Serialize};
use tandem_agent::session::PrincipalId;

/// Prefix of every token, by which people and secret scanners recognize one.
pub(crate) const TOKEN_PREFIX: &str = "tdm_";

/// Number of random bytes in a token. 256 random bits cannot be guessed, so an unsalted hash of them is
/// enough.
const TOKEN_BYTES: usize = 32;

/// Maximum size of the token file in bytes: enough for some 30,000 tokens.
const LARGEST_FILE: u64 = 8 << 20;

/// Version of the file's format.
const FORMAT_VERSION: u32 = 1;

/// Role of a principal in its tenant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PrincipalRole {
    /// Member, with access to its own sessions and to sessions that are shared with it.
    #[default]
    Member,
    /// Administrator, with access to all sessions of the tenant as if it owned them.
    Admin,
}

impl PrincipalRole {
    /// Returns the role's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Member => "member",
            Self::Admin => "admin",
        }
    }
}

impl std::str::FromStr for PrincipalRole {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let role = [Self::Member, Self::Admin].into_iter().find(|role| role.name() == name);
        role.ok_or_else(|| format!("`{name}` is not a role; the roles are member and admin"))
    }
}

/// A token as it is stored in the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredToken {
    /// Short id, which tells apart several tokens of one principal.
    pub id: String,
    /// Name of the person or service.
    pub name: String,
    /// The tenant.
    pub tenant: String,
    /// Role in the tenant.
    #[serde(default)]
    pub role: PrincipalRole,
    /// SHA-256 of the token, in hexadecimal.
    pub sha256: String,
    /// Time of the creation, RFC 3339.
    pub created: String,
    /// Time of the revocation (RFC 3339), from which on the token is not valid; `None` if it was not revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<String>,
}

impl StoredToken {
    /// Returns the principal that the token authenticates.
    pub fn principal(&self) -> PrincipalId {
        PrincipalId { tenant: self.tenant.clone(), name: self.name.clone() }
    }
}

/// Content of the token file.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Content {
    version: u32,
    tokens: Vec<StoredToken>,
}

/// Tokens, by their hashes.
#[derive(Debug, Default)]
pub(super) struct TokenList(HashMap<String, StoredToken>);

impl TokenList {
    /// Returns the entry of a token; the entry may be revoked. Hashes are compared rather than tokens, so
    /// that the time of the comparison reveals nothing about a token.
    pub(super) fn find(&self, token: &str) -> Option<&StoredToken> {
        self.of_hash(&hash(token))
    }

    /// Returns the entry of the token with this hash.
    pub(super) fn of_hash(&self, sha256: &str) -> Option<&StoredToken> {
        self.0.get(sha256)
    }
}

/// Identity of a file's content. Each change of the content is written as a new file, so the identity changes too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileStamp {
    device: u64,
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

/// Returns the identity of a file's content; `None` if there is no file.
pub(super) fn stamp(path: &Path) -> io::Result<Option<FileStamp>> {
    match fs::metadata(path) {
        Ok(it) => Ok(Some(FileStamp {
            device: it.dev(),
            inode: it.ino(),
            size: it.size(),
            changed: (it.ctime(), it.ctime_nsec()),
        })),
        Err(err) if err.kind() == ErrorKind::NotFound => Ok(None),
        Err(err) => Err(err),
    }
}

/// Reads all tokens of the file, for look-up by hash.
pub(super) fn read_list(path: &Path) -> anyhow::Result<TokenList> {
    let tokens = read(path)?.into_iter();
    Ok(TokenList(tokens.map(|token| (token.sha256.clone(), token)).collect()))
}

/// Reads the token file. A missing file counts as empty.
pub fn read(path: &Path) -> anyhow::Result<Vec<StoredToken>> {
    let wrong = || format!("cannot read the tokens in {}", path.display());
    let mut text = String::new();
    match File::open(path) {
        Ok(file) => file.take(LARGEST_FILE + 1).read_to_string(&mut text).with_context(wrong)?,
        Err(err) if err.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(err) => return Err(err).with_context(wrong),
    };
    ensure!(
        text.len() as u64 <= LARGEST_FILE,
        "{}: the file has more than {LARGEST_FILE} bytes; delete revoked tokens from it",
        wrong()
    );
    let content: Content = serde_json::from_str(&text).with_context(wrong)?;
    ensure!(
        content.version == FORMAT_VERSION,
        "{}: a newer tandem wrote it (format {}); update tandem",
        wrong(),
        content.version
    );
    Ok(content.tokens)
}

/// Adds a token for a person or a service, and returns the token with its entry. Only the hash is stored, so
/// the caller must hand the token over now.
pub fn add(
    path: &Path,
    principal: &PrincipalId,
    role: PrincipalRole,
) -> anyhow::Result<(String, StoredToken)> {
    check_name("name", &principal.name)?;
    check_name("tenant", &principal.tenant)?;
    let mut random = [0; TOKEN_BYTES];
    SystemRandom::new().fill(&mut random).ok().context("the system gives no random numbers")?;
    let token = format!("{TOKEN_PREFIX}{}", hex(&random));
    let sha256 = hash(&token);
    let added = StoredToken {
        id: sha256[..8].to_owned(),
        name: principal.name.clone(),
        tenant: principal.tenant.clone(),
        role,
        sha256,
        created: now(),
        revoked: None,
    };
    let entry = added.clone();
    change(path, move |tokens| {
        tokens.push(entry);
        Ok(())
    })?;
    Ok((token, added))
}

/// Revokes all tokens of a person or a service, or only the token with this id. Returns the tokens that were valid
/// until now.
pub fn revoke(
    path: &Path,
    principal: &PrincipalId,
    id: Option<&str>,
) -> anyhow::Result<Vec<StoredToken>> {
    change(path, |tokens| {
        let mut revoked = Vec::new();
        for token in tokens {
            let is_meant = token.principal() == *principal
                && token.revoked.is_none()
                && id.is_none_or(|id| token.id == id);
            if is_meant {
                token.revoked = Some(now());
                revoked.push(token.clone());
            }
        }
        if revoked.is_empty() {
            bail!(
                "`{}` has no such token in the tenant `{}`; `tandem serve token list` shows all",
                principal.name,
                principal.tenant
            );
        }
        Ok(revoked)
    })
}

fn check_name(what: &str, name: &str) -> anyhow::Result<()> {
    ensure!(
        PrincipalId::is_name(name),
        "`{name}` is not a {what}: use letters, digits and `._@+-`, at most 64"
    );
    Ok(())
}

/// Rewrites the file with a change, under a lock, so that two processes do not overwrite each other's change.
fn change<T>(
    path: &Path,
    change: impl FnOnce(&mut Vec<StoredToken>) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
    made.with_context(|| format!("cannot make {}", directory.display()))?;
    // The directory is locked instead of the file, since the file itself is replaced.
    let lock = File::open(directory).and_then(|directory| directory.lock().map(|()| directory));
    let _lock = lock.with_context(|| format!("cannot lock {}", directory.display()))?;
    let mut tokens = read(path)?;
    let changed = change(&mut tokens)?;
    let text = serde_json::to_string_pretty(&Content { version: FORMAT_VERSION, tokens })?;
    ensure!(
        text.len() as u64 <= LARGEST_FILE,
        "{} has no room for another token; delete revoked tokens from the file",
        path.display()
    );
    replace(path, &text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(changed)
}

/// Replaces a file by a new file that only its owner may read.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new = PathBuf::from(path).with_file_name(name);
    match fs::remove_file(&new) {
        Err(err) if err.kind() != ErrorKind::NotFound => return Err(err),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    file.write_all(text.as_bytes())?;
    file.write_all(b"\n")?;
    file.sync_all()?;
    fs::rename(&new, path)
}

/// Returns the SHA-256 of a text, in hexadecimal.
pub fn hash(text: &str) -> String {
    hex(digest(&SHA256, text.as_bytes()).as_ref())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a `String` cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn now() -> String {
    format!("{:.0}", jiff::Timestamp::now())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn alice() -> PrincipalId {
        PrincipalId { tenant: "acme".to_owned(), name: "alice".to_owned() }
    }

    #[test]
    fn only_hashes_are_stored_and_only_the_owner_may_read_them() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("config/tokens.json");
        let (token, entry) = add(&path, &alice(), PrincipalRole::Member).unwrap();
        assert!(
            token.starts_with(TOKEN_PREFIX) && token.len() == TOKEN_PREFIX.len() + 64,
            "{token}"
        );
        let text = fs::read_to_string(&path).unwrap();
        assert!(!text.contains(&token[TOKEN_PREFIX.len()..]), "{text}");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let list = read_list(&path).unwrap();
        assert_eq!(list.find(&token), Some(&entry));
        assert_eq!(list.find(&token[1..]), None);
        assert_eq!(list.find(&token.to_uppercase()), None);
    }

    #[test]
    fn a_name_can_have_several_tokens_and_lose_one_or_all() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("tokens.json");
        let bob = PrincipalId { name: "bob".to_owned(), ..alice() };
        let (_, first) = add(&path, &alice(), PrincipalRole::Member).unwrap();
        let (_, second) = add(&path, &alice(), PrincipalRole::Admin).unwrap();
        add(&path, &bob, PrincipalRole::Member).unwrap();
        assert_eq!(revoke(&path, &alice(), Some(&first.id)).unwrap().len(), 1);
        assert!(revoke(&path, &alice(), Some(&first.id)).is_err(), "it is revoked twice");
        let other = PrincipalId { tenant: "other".to_owned(), ..alice() };
        assert!(revoke(&path, &other, None).is_err(), "another tenant's is revoked");
        let revoked = revoke(&path, &alice(), None).unwrap();
        assert_eq!(revoked.iter().map(|it| &it.id).collect::<Vec<_>>(), [&second.id]);
        let left = read(&path).unwrap().into_iter().filter(|it| it.revoked.is_none());
        assert_eq!(left.map(|it| it.name).collect::<Vec<_>>(), ["bob"]);
    }

    #[test]
    fn what_is_no_file_of_tokens_is_an_error_and_stays_as_it_is() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("tokens.json");
        for text in ["", "{", "[]", r#"{"version":2,"tokens":[]}"#] {
            fs::write(&path, text).unwrap();
            assert!(read_list(&path).is_err(), "{text}");
            assert!(add(&path, &alice(), PrincipalRole::Member).is_err(), "{text}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
    }
}
