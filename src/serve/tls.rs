//! TLS for the server, with a certificate from files that are read again when they change.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::tokens::{FileStamp, stamp};
use tandem_content::blocking::blocking;

/// Names of the HTTP versions in a TLS handshake (ALPN).
const HTTP_2: &[u8] = b"h2";
const HTTP_1_1: &[u8] = b"http/1.1";

/// Maximum size in bytes of a file of certificates, or of a key.
const LARGEST_FILE: u64 = 1 << 20;

/// Interval between two checks of the files.
const FILE_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// PEM files of a certificate and of its key.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// The server's certificate, followed by the certificates of the authorities up to the root.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// TLS with the last valid certificate from the files.
#[derive(Debug)]
pub struct Tls {
    files: TlsFiles,
    current: Mutex<Current>,
}

#[derive(Debug)]
struct Current {
    config: Arc<ServerConfig>,
    /// Stamps of the files at the last attempt to read them, successful or not.
    stamps: Stamps,
}

type Stamps = [Option<FileStamp>; 2];

impl Tls {
    /// Reads the files for the first time.
    pub fn read(files: TlsFiles) -> anyhow::Result<Self> {
        let stamps = files.stamps();
        let config = files.config()?;
        Ok(Self { files, current: Mutex::new(Current { config, stamps }) })
    }

    /// Performs the TLS handshake on a connection, for at most the time `most`. `may_multiplex`: `true` if
    /// the client may choose HTTP/2.
    pub async fn accept<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: S,
        may_multiplex: bool,
        most: Duration,
    ) -> io::Result<TlsStream<S>> {
        let mut config = Arc::clone(&self.current.lock().config);
        if !may_multiplex {
            Arc::make_mut(&mut config).alpn_protocols.retain(|name| name != HTTP_2);
        }
        timeout(most, TlsAcceptor::from(config).accept(stream)).await?
    }

    /// Checks the files at intervals. Never returns.
    pub(super) async fn keep_certificate_fresh(self: &Arc<Self>) {
        loop {
            tokio::time::sleep(FILE_CHECK_INTERVAL).await;
            let tls = Arc::clone(self);
            // A panic is ignored, since the next check may succeed.
            let _ = blocking(move || tls.reload_if_changed()).await;
        }
    }

    /// Reads the files if they have changed. If they cannot be read, or the key does not fit the certificate,
    /// the previous certificate stays in use: one of the files may have been replaced before the other.
    fn reload_if_changed(&self) {
        let stamps = self.files.stamps();
        if self.current.lock().stamps == stamps {
            return;
        }
        let config = self.files.config();
        let mut current = self.current.lock();
        current.stamps = stamps;
        match config {
            // TLS sessions that began with the old certificate are not resumed with the new one.
            Ok(config) => {
                current.config = config;
                tracing::info!("new connections get the certificate that is in the file now");
            }
            Err(err) => tracing::warn!("new connections get the certificate as it was: {err:#}"),
        }
    }
}

/// Returns `true` if the client has chosen HTTP/2.
pub fn is_http2<S>(stream: &TlsStream<S>) -> bool {
    stream.get_ref().1.alpn_protocol() == Some(HTTP_2)
}

impl TlsFiles {
    fn stamps(&self) -> Stamps {
        // If `stamp` fails or finds no file, `config` cannot read the file either, and reports the error.
        [&self.certificate, &self.key].map(|path| stamp(path).ok().flatten())
    }

    fn config(&self) -> anyhow::Result<Arc<ServerConfig>> {
        let (certificate, key) = (self.certificate.display(), self.key.display());
        let chain = chain(&self.certificate)?;
        let private = PrivateKeyDer::from_pem_slice(&read(&self.key)?).with_context(|| {
            format!("there is no private key in PEM form, without a passphrase, in {key}")
        })?;
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, private);
        let mut config = config.with_context(|| {
            format!("the certificate in {certificate} cannot be used with the key in {key}")
        })?;
        config.alpn_protocols = vec![HTTP_2.to_vec(), HTTP_1_1.to_vec()];
        Ok(Arc::new(config))
    }
}

/// Reads the certificates of a file. Fails if there is none.
pub(super) fn chain(file: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let shown = file.display();
    let bytes = read(file)?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let chain = chain.with_context(|| format!("cannot read the certificates in {shown}"))?;
    ensure!(!chain.is_empty(), "there is no certificate in PEM form in {shown}");
    Ok(chain)
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let wrong = || format!("cannot read {}", path.display());
    let file = File::open(path).with_context(wrong)?;
    let mut bytes = Vec::new();
    file.take(LARGEST_FILE + 1).read_to_end(&mut bytes).with_context(wrong)?;
    let is_whole = bytes.len() as u64 <= LARGEST_FILE;
    ensure!(is_whole, "{}: the file has more than {LARGEST_FILE} bytes", path.display());
    Ok(bytes)
}
