//! Signatures of AWS (`SigV4`), verified as AWS does: by computing them again.

use std::time::{Duration, SystemTime};

use axum::http::HeaderName;
use ring::digest::{SHA256, digest};
use ring::hmac;

use super::Asked;

/// Maximum difference between the clocks of a client and AWS.
const MAX_CLOCK_DIFFERENCE: Duration = Duration::from_mins(5);

/// A signer as AWS knows it.
pub struct Signer<'a> {
    /// Id of the key.
    pub key_id: &'a str,
    /// The key.
    pub secret: &'a str,
    /// Token of temporary keys.
    pub token: Option<&'a str>,
    /// Region for which the signature must hold.
    pub region: &'a str,
    /// Service for which the signature must hold.
    pub service: &'a str,
}

impl Signer<'_> {
    /// Verifies the signature of a request. The error is the reason why AWS refuses the request.
    pub fn verify(&self, asked: &Asked) -> Result<(), String> {
        let header = |name: &str| asked.headers.get(name).and_then(|value| value.to_str().ok());
        let authorization = header("authorization").ok_or("no signature")?;
        let fields = authorization.strip_prefix("AWS4-HMAC-SHA256 ").ok_or("another algorithm")?;
        let field = |name: &str| {
            let mut fields = fields.split(", ").filter_map(|field| field.split_once('='));
            fields
                .find(|(known, _)| *known == name)
                .map(|(_, value)| value)
                .ok_or("a field is missing")
        };
        let time = header("x-amz-date").ok_or("no date")?;
        let age = SystemTime::from(instant(time)?);
        let difference =
            SystemTime::now().duration_since(age).unwrap_or_else(|early| early.duration());
        if difference > MAX_CLOCK_DIFFERENCE {
            return Err("the signature has expired".to_owned());
        }
        let date = &time[..8];
        let scope = format!("{date}/{}/{}/aws4_request", self.region, self.service);
        if field("Credential")? != format!("{}/{scope}", self.key_id) {
            return Err("another key, region or service".to_owned());
        }
        if header("x-amz-security-token") != self.token {
            return Err("another session".to_owned());
        }
        let signed = field("SignedHeaders")?;
        let names: Vec<_> = signed.split(';').collect();
        let required = asked.headers.keys().map(HeaderName::as_str);
        let mut required = required
            .filter(|name| ["host", "content-type"].contains(name) || name.starts_with("x-amz-"));
        if let Some(missing) = required.find(|name| !names.contains(name)) {
            return Err(format!("{missing} is not signed"));
        }
        let mut headers = String::new();
        for name in &names {
            headers.extend([name, ":", header(name).unwrap_or_default().trim(), "\n"]);
        }
        let (method, place) = asked.what.split_once(' ').ok_or("no path")?;
        let (path, query) = place.split_once('?').unwrap_or((place, ""));
        let body = hex(digest(&SHA256, &asked.raw).as_ref());
        let canonical = format!("{method}\n{path}\n{query}\n{headers}\n{signed}\n{body}");
        let hash = hex(digest(&SHA256, canonical.as_bytes()).as_ref());
        let text = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{hash}");
        let parts = [date, self.region, self.service, "aws4_request", &text];
        let begin = format!("AWS4{}", self.secret).into_bytes();
        let signature = parts.iter().fold(begin, |key, part| mac(&key, part.as_bytes()));
        (field("Signature")? == hex(&signature)).then_some(()).ok_or("another signature".to_owned())
    }
}

/// Returns the instant of a time such as `20261129T101500Z`.
fn instant(time: &str) -> Result<jiff::Timestamp, String> {
    let parsed = jiff::civil::DateTime::strptime("%Y%m%dT%H%M%SZ", time);
    let parsed = parsed.and_then(|time| time.to_zoned(jiff::tz::TimeZone::UTC));
    parsed.map(|time| time.timestamp()).map_err(|error| error.to_string())
}

fn mac(key: &[u8], text: &[u8]) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text).as_ref().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from_digit(nibble.into(), 16).unwrap();
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}
