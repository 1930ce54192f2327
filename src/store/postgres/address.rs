//! The address of a database, as operators write it.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

/// The address of a database: `postgres://USER:PASSWORD@HOST:PORT/DATABASE`.
///
/// The parameter `sslmode` is `disable` or `require`; `verify-ca` and `verify-full` mean `require`, which always
/// checks the server's certificate. Without the parameter, TLS is required unless all hosts are this machine.
#[derive(Clone)]
pub struct DatabaseAddress {
    config: Config,
}

/// Reason why a text is not the address of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AddressError {
    /// The text does not begin with `postgres://` or `postgresql://`.
    Scheme,
    /// `sslmode` has this unknown value.
    SslMode(String),
    /// Another fault, described by the text.
    Other(String),
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scheme => {
                f.write_str("a store is an address such as postgres://USER:PASSWORD@HOST/DATABASE")
            }
            Self::SslMode(mode) => {
                write!(f, "`sslmode={mode}` is not known; use `disable` or `require`")
            }
            Self::Other(why) => write!(f, "the store's address cannot be read: {why}"),
        }
    }
}

impl std::error::Error for AddressError {}

impl FromStr for DatabaseAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if !text.starts_with("postgres://") && !text.starts_with("postgresql://") {
            return Err(AddressError::Scheme);
        }
        let (address, mode) = without_ssl_mode(text)?;
        // The error text of `tokio-postgres` repeats no part of the address, so it cannot show the password.
        let mut config: Config = address
            .parse()
            .map_err(|err: tokio_postgres::Error| AddressError::Other(cause(&err)))?;
        if config.get_dbname().is_none() {
            return Err(AddressError::Other("it names no database: add `/DATABASE`".to_owned()));
        }
        if config.get_hosts().is_empty() {
            return Err(AddressError::Other("it names no host".to_owned()));
        }
        config.ssl_mode(mode.unwrap_or_else(|| {
            let is_near = config.get_hosts().iter().all(is_this_machine);
            if is_near { SslMode::Disable } else { SslMode::Require }
        }));
        if config.get_application_name().is_none() {
            config.application_name("tandem");
        }
        // With these settings, a connection to a host that is gone is noticed in seconds, not in hours.
        config.keepalives_idle(Duration::from_secs(2)).keepalives_retries(3);
        config.keepalives_interval(Duration::from_secs(1));
        config.tcp_user_timeout(Duration::from_secs(3));
        Ok(Self { config })
    }
}

/// Takes `sslmode` out of an address: `tokio-postgres` knows fewer modes than other programs do.
fn without_ssl_mode(text: &str) -> Result<(String, Option<SslMode>), AddressError> {
    let Some((address, query)) = text.split_once('?') else { return Ok((text.to_owned(), None)) };
    let mut mode = None;
    let mut rest = Vec::new();
    for pair in query.split('&') {
        match pair.strip_prefix("sslmode=") {
            Some("disable") => mode = Some(SslMode::Disable),
            Some("require" | "verify-ca" | "verify-full") => mode = Some(SslMode::Require),
            Some(other) => return Err(AddressError::SslMode(other.to_owned())),
            None => rest.push(pair),
        }
    }
    let rest = rest.join("&");
    Ok((if rest.is_empty() { address.to_owned() } else { format!("{address}?{rest}") }, mode))
}

fn is_this_machine(host: &Host) -> bool {
    match host {
        Host::Tcp(name) if name == "localhost" => true,
        Host::Tcp(name) => name.parse().is_ok_and(|address: IpAddr| address.is_loopback()),
        Host::Unix(_) => true,
    }
}

/// Returns the message of the innermost error.
pub(super) fn cause(err: &dyn std::error::Error) -> String {
    let mut cause = err;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

impl DatabaseAddress {
    /// Returns the password, if the address has one.
    pub fn password(&self) -> Option<String> {
        self.config.get_password().map(|password| String::from_utf8_lossy(password).into_owned())
    }

    /// Sets the password, unless the address has one.
    pub fn set_password(&mut self, password: &str) {
        if self.config.get_password().is_none() {
            self.config.password(password);
        }
    }

    pub(super) fn config(&self) -> &Config {
        &self.config
    }

    pub(super) fn user(&self) -> &str {
        self.config.get_user().unwrap_or_default()
    }

    pub(super) fn database(&self) -> &str {
        self.config.get_dbname().unwrap_or_default()
    }

    /// Returns `true` if connections are encrypted.
    pub(super) fn has_tls(&self) -> bool {
        self.config.get_ssl_mode() != SslMode::Disable
    }
}

/// Database and hosts, without the password.
impl fmt::Display for DatabaseAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` at ", self.database())?;
        let ports = self.config.get_ports();
        for (n, host) in self.config.get_hosts().iter().enumerate() {
            let separator = if n > 0 { ", " } else { "" };
            let port = ports.get(n).or(ports.first()).unwrap_or(&5432);
            match host {
                Host::Tcp(name) => write!(f, "{separator}{name}:{port}")?,
                Host::Unix(path) => write!(f, "{separator}{}", path.display())?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for DatabaseAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DatabaseAddress({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> DatabaseAddress {
        text.parse().unwrap()
    }

    #[test]
    fn an_address_is_shown_without_its_password() {
        let address = read("postgres://me:se%20cret@db.example:6000/team");
        assert_eq!(address.to_string(), "`team` at db.example:6000");
        assert_eq!(format!("{address:?}"), "DatabaseAddress(`team` at db.example:6000)");
        assert_eq!((address.user(), address.password().as_deref()), ("me", Some("se cret")));
        let two = read("postgresql://me@a,b:7/team?target_session_attrs=read-write");
        assert_eq!(two.to_string(), "`team` at a:5432, b:7");
    }

    #[test]
    fn tls_is_required_of_every_server_but_those_of_this_machine() {
        for (text, has_tls) in [
            ("postgres://me@db.example/team", true),
            ("postgres://me@10.0.0.7/team", true),
            ("postgres://me@127.0.0.1,db.example/team", true),
            ("postgres://me@localhost/team", false),
            ("postgres://me@[::1]/team", false),
            ("postgres://me@127.0.0.1:1/team?sslmode=require", true),
            ("postgres://me@db.example/team?connect_timeout=3&sslmode=disable", false),
            ("postgres://me@db.example/team?sslmode=verify-full&connect_timeout=3", true),
        ] {
            assert_eq!(read(text).has_tls(), has_tls, "{text}");
        }
    }

    #[test]
    fn the_password_of_an_address_outranks_another() {
        let mut address = read("postgres://me@localhost/team");
        address.set_password("a");
        address.set_password("b");
        assert_eq!(address.password().as_deref(), Some("a"));
    }

    #[test]
    fn what_is_no_address_is_refused_without_its_password() {
        for (text, expected) in [
            ("", AddressError::Scheme),
            ("mysql://me:secret@a/b", AddressError::Scheme),
            ("postgres://me:secret@a/b?sslmode=prefer", AddressError::SslMode("prefer".to_owned())),
        ] {
            assert_eq!(text.parse::<DatabaseAddress>().unwrap_err(), expected);
        }
        for text in [
            "postgres://me:secret@a",
            "postgres:///team",
            "postgres://me:secret@a:x/b",
            "postgres://me:secret@a/b?unknown=1",
        ] {
            let error = text.parse::<DatabaseAddress>().unwrap_err();
            let shown = error.to_string();
            assert!(
                matches!(error, AddressError::Other(_)) && !shown.contains("secret"),
                "{shown}"
            );
        }
    }
}
