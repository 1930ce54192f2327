//! Validity of the server's certificate, as clients check it.

use std::path::Path;

use anyhow::Context as _;
use jiff::{SignedDuration, Timestamp};
use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::ParsedCertificate;
use x509_cert::Certificate;
use x509_cert::der::Decode as _;
use x509_cert::time::Time;

use super::network::PublicUrl;
use super::tls;

/// Time before its expiry from which on a certificate should be renewed.
const EXPIRY_WARNING_TIME: SignedDuration = SignedDuration::from_hours(14 * 24);

/// The server's certificate, with the certificates of authorities from the same file.
pub struct ServerCertificate {
    own: CertificateDer<'static>,
    /// Time in which all certificates of the file are valid.
    validity: Validity,
}

/// Time in which a certificate is valid.
#[derive(Clone, Copy)]
struct Validity {
    begin: Timestamp,
    end: Timestamp,
}

/// State of a certificate at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CertificateState {
    /// A certificate that is not valid yet.
    NotYet,
    /// A valid certificate.
    Good,
    /// A valid certificate that should be renewed.
    EndsSoon,
    /// A certificate that is no longer valid.
    Expired,
}

impl ServerCertificate {
    /// Reads a PEM file of certificates, of which the server's own is the first.
    pub fn read(file: &Path) -> anyhow::Result<Self> {
        let chain = tls::chain(file)?;
        let wrong = || format!("cannot read the dates of a certificate in {}", file.display());
        let all: Vec<_> =
            chain.iter().map(Validity::read).collect::<anyhow::Result<_>>().with_context(wrong)?;
        let begin = all.iter().map(|validity| validity.begin).max().with_context(wrong)?;
        let end = all.iter().map(|validity| validity.end).min().with_context(wrong)?;
        let own = chain.into_iter().next().with_context(wrong)?;
        Ok(Self { own, validity: Validity { begin, end } })
    }

    /// Returns the time from which on the certificates are valid.
    pub fn begin(&self) -> Timestamp {
        self.validity.begin
    }

    /// Returns the time until which the certificates are valid.
    pub fn end(&self) -> Timestamp {
        self.validity.end
    }

    /// Returns the state of the certificates at a time.
    pub fn state(&self, now: Timestamp) -> CertificateState {
        self.validity.state(now)
    }

    /// Returns `true` if the server's certificate is for the host of a URL.
    pub fn is_for(&self, url: &PublicUrl) -> bool {
        let host = ServerName::try_from(url.host());
        let parsed = ParsedCertificate::try_from(&self.own);
        parsed.is_ok_and(|own| host.is_ok_and(|host| verify_server_name(&own, &host).is_ok()))
    }
}

impl Validity {
    fn read(certificate: &CertificateDer<'_>) -> anyhow::Result<Self> {
        let time = |time: Time| {
            let seconds = i64::try_from(time.to_unix_duration().as_secs())?;
            anyhow::Ok(Timestamp::from_second(seconds)?)
        };
        let dates = Certificate::from_der(certificate)?.tbs_certificate.validity;
        Ok(Self { begin: time(dates.not_before)?, end: time(dates.not_after)? })
    }

    fn state(&self, now: Timestamp) -> CertificateState {
        if now < self.begin {
            CertificateState::NotYet
        } else if now > self.end {
            CertificateState::Expired
        } else if self.end.duration_since(now) < EXPIRY_WARNING_TIME {
            CertificateState::EndsSoon
        } else {
            CertificateState::Good
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_counts_from_its_first_moment_to_its_last_and_should_be_renewed_before() {
        let day = |n: i64| Timestamp::from_second(n * 24 * 60 * 60).unwrap();
        let second = SignedDuration::from_secs(1);
        let validity = Validity { begin: day(10), end: day(100) };
        for (now, expected) in [
            (day(10) - second, CertificateState::NotYet),
            (day(10), CertificateState::Good),
            (day(86), CertificateState::Good),
            (day(86) + second, CertificateState::EndsSoon),
            (day(100), CertificateState::EndsSoon),
            (day(100) + second, CertificateState::Expired),
        ] {
            assert_eq!(validity.state(now), expected, "{now}");
        }
    }
}
