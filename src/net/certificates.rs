//! TLS configurations of clients, also for a machine without root certificates.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use rustls_platform_verifier::BuilderVerifierExt as _;

/// Message to people whose machine has no root certificates.
pub(super) const NO_CERTIFICATES: &str = "this machine has no root certificates, without which no \
    server can be trusted over https: install the package ca-certificates, or set SSL_CERT_FILE to \
    a file of certificates";

/// Returns the configuration of a TLS client that trusts the servers that the operating system trusts.
pub fn tls() -> Result<ClientConfig, Error> {
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions()?.with_platform_verifier();
    let config = config.map_err(|_| Error::General(NO_CERTIFICATES.to_owned()))?;
    Ok(config.with_no_client_auth())
}

/// Returns a TLS configuration that trusts no server. Each handshake fails with [`NO_CERTIFICATES`].
pub(super) fn no_certificates() -> Option<ClientConfig> {
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(Arc::clone(&provider));
    let config = config.with_safe_default_protocol_versions().ok()?;
    let verifier = Arc::new(TrustsNobody { provider });
    Some(config.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth())
}

/// A verifier that accepts no certificate.
#[derive(Debug)]
struct TrustsNobody {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for TrustsNobody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Err(Error::General(NO_CERTIFICATES.to_owned()))
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General(NO_CERTIFICATES.to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General(NO_CERTIFICATES.to_owned()))
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
