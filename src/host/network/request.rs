//! Parser for the heads of requests to the proxy.

use super::hosts::Destination;

/// Maximum number of header lines.
const MAX_HEADER_LINES: usize = 100;

/// Port of `http:` addresses that name none.
const HTTP_PORT: u16 = 80;

/// Names of headers that are for the next hop alone.
const HOP_BY_HOP: [&str; 8] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "upgrade",
];

/// Names of headers that say where a body ends. They are passed on even if `Connection` names them.
const FRAMING_HEADERS: [&str; 2] = ["content-length", "transfer-encoding"];

/// A request to the proxy.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ProxyRequest {
    /// Tunnel all bytes to a destination.
    Tunnel(Destination),
    /// Send one request, with a new head, to a destination.
    Forward { destination: Destination, head: Vec<u8>, body: BodyLength },
}

impl ProxyRequest {
    /// Returns the destination.
    pub(super) fn destination(&self) -> &Destination {
        match self {
            Self::Tunnel(destination) | Self::Forward { destination, .. } => destination,
        }
    }
}

/// Length of a request's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyLength {
    /// Number of bytes.
    Bytes(u64),
    /// Chunked encoding, in which the body marks its own end.
    Chunked,
}

impl BodyLength {
    /// Returns the length of the body and the `head` bytes before it.
    pub(super) fn after(self, head: usize) -> Self {
        match self {
            Self::Bytes(length) => Self::Bytes(length.saturating_add(head as u64)),
            Self::Chunked => Self::Chunked,
        }
    }
}

/// Parses the complete head of a request. The error says what is wrong with it.
pub(super) fn read(bytes: &[u8]) -> Result<ProxyRequest, &'static str> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADER_LINES];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(httparse::Status::Complete(length)) if length == bytes.len() => {}
        _ => return Err("this is not an HTTP/1 request"),
    }
    let (Some(method), Some(target)) = (request.method, request.path) else {
        return Err("this is not an HTTP/1 request");
    };
    if method == "CONNECT" {
        let destination = authority(target, None).ok_or("CONNECT takes a host and a port")?;
        return Ok(ProxyRequest::Tunnel(destination));
    }
    let Some((scheme, rest)) = target.split_once("://") else {
        return Err("this is a proxy: requests name the host, as in `GET http://host/path`");
    };
    if !scheme.eq_ignore_ascii_case("http") {
        return Err("only `http:` is forwarded; for all else there is CONNECT");
    }
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (host, path) = rest.split_at(end);
    let destination = authority(host, Some(HTTP_PORT)).ok_or("the address has no host")?;
    let headers = &*request.headers;
    let body = body(headers)?;
    let mut head = format!("{method} ").into_bytes();
    if !path.starts_with('/') {
        head.push(b'/');
    }
    let path = path.split('#').next().unwrap_or_default();
    head.extend_from_slice(path.as_bytes());
    // The `Host` header is set to the host that was judged, so that the server cannot be told another one.
    let port = if destination.port == HTTP_PORT {
        String::new()
    } else {
        format!(":{}", destination.port)
    };
    let host = &destination.host;
    head.extend_from_slice(format!(" HTTP/1.1\r\nHost: {host}{port}\r\n").as_bytes());
    for header in headers.iter().filter(|header| is_passed_on(header.name, headers)) {
        head.extend_from_slice(header.name.as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(header.value);
        head.extend_from_slice(b"\r\n");
    }
    // The connection ends after this request, as the next one may be for another host.
    head.extend_from_slice(b"Connection: close\r\n\r\n");
    Ok(ProxyRequest::Forward { destination, head, body })
}

/// Parses a host with a port; `port` is the default.
fn authority(text: &str, port: Option<u16>) -> Option<Destination> {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, digits)) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            let port = if digits.is_empty() { port } else { digits.parse().ok() };
            (host, port)
        }
        _ => (text, port),
    };
    Destination::new(host, port?)
}

/// Returns whether a header is passed on to the server.
fn is_passed_on(name: &str, headers: &[httparse::Header<'_>]) -> bool {
    let is_named = || {
        let connection = headers.iter().filter(|it| it.name.eq_ignore_ascii_case("connection"));
        let mut names = connection.flat_map(|it| it.value.split(|byte| *byte == b','));
        names.any(|it| it.trim_ascii().eq_ignore_ascii_case(name.as_bytes()))
    };
    let is_among = |names: &[&str]| names.iter().any(|it| name.eq_ignore_ascii_case(it));
    is_among(&FRAMING_HEADERS) || !(is_among(&["host"]) || is_among(&HOP_BY_HOP) || is_named())
}

/// Returns the length of the body. A head that two parsers could understand differently is refused, to prevent request
/// smuggling.
fn body(headers: &[httparse::Header<'_>]) -> Result<BodyLength, &'static str> {
    let of = |name: &'static str| {
        headers.iter().filter(move |header| header.name.eq_ignore_ascii_case(name))
    };
    let (mut lengths, mut encodings) = (of("content-length"), of("transfer-encoding"));
    let (length, encoding) = (lengths.next(), encodings.next());
    if lengths.next().is_some() || encodings.next().is_some() {
        return Err("the length of the body is given twice");
    }
    match (length, encoding) {
        (None, None) => Ok(BodyLength::Bytes(0)),
        (None, Some(encoding)) if encoding.value.eq_ignore_ascii_case(b"chunked") => {
            Ok(BodyLength::Chunked)
        }
        (Some(length), None) if length.value.iter().all(u8::is_ascii_digit) => {
            let length = std::str::from_utf8(length.value).ok().and_then(|it| it.parse().ok());
            length.map(BodyLength::Bytes).ok_or("the length of the body is not a number")
        }
        _ => Err("the length of the body is not clear"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn destination(host: &str, port: u16) -> Destination {
        Destination::new(host, port).unwrap()
    }

    #[track_caller]
    fn forwards(head: &str, destination: &Destination, sent: &str) {
        match read(head.as_bytes()) {
            Ok(ProxyRequest::Forward { destination: read, head, .. }) => {
                assert_eq!(&read, destination);
                assert_eq!(String::from_utf8(head).unwrap(), sent);
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn connect_takes_a_host_and_a_port() {
        let check = |target: &str| {
            let request =
                read(format!("CONNECT {target} HTTP/1.1\r\nHost: other\r\n\r\n").as_bytes());
            request.map(|it| it.destination().to_string())
        };
        assert_eq!(check("Example.org:443"), Ok("example.org:443".to_owned()));
        assert_eq!(check("[::1]:8080"), Ok("[::1]:8080".to_owned()));
        for bad in
            ["example.org", "example.org:", "example.org:0", ":443", "a:70000", "a@b:443", "/"]
        {
            assert!(check(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_request_is_forwarded_with_the_host_that_was_judged_and_without_what_is_for_the_proxy() {
        forwards(
            "GET http://Example.org/a?b=http://c#d HTTP/1.1\r\nHost: other\r\nAccept: */*\r\n\
             Proxy-Authorization: Basic x\r\nConnection: keep-alive, X-Own\r\nX-Own: 1\r\n\r\n",
            &destination("example.org", 80),
            "GET /a?b=http://c HTTP/1.1\r\nHost: example.org\r\nAccept: */*\r\n\
             Connection: close\r\n\r\n",
        );
        forwards(
            "POST HTTP://a:8080?q HTTP/1.0\r\nContent-Length: 3\r\nConnection: content-length\r\n\r\n",
            &destination("a", 8080),
            "POST /?q HTTP/1.1\r\nHost: a:8080\r\nContent-Length: 3\r\nConnection: close\r\n\r\n",
        );
    }

    #[test]
    fn what_is_not_clear_is_refused() {
        for bad in [
            "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET https://a/ HTTP/1.1\r\n\r\n",
            "GET ftp://a/ HTTP/1.1\r\n\r\n",
            "GET http:///a HTTP/1.1\r\n\r\n",
            "GET http://user@a/ HTTP/1.1\r\n\r\n",
            "GET http://a/\r\n\r\n",
            "\x16\x03\x01\x02\r\n\r\n",
            "POST http://a/ HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "POST http://a/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
            "POST http://a/ HTTP/1.1\r\nContent-Length: +1\r\n\r\n",
            "POST http://a/ HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
            "POST http://a/ HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            "GET http://a/ HTTP/1.1\r\nA: b\r\n c\r\n\r\n",
            "GET http://a/ HTTP/1.1\r\n\r\nmore",
        ] {
            assert!(read(bad.as_bytes()).is_err(), "{bad:?}");
        }
        let many =
            format!("GET http://a/ HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(MAX_HEADER_LINES + 1));
        assert!(read(many.as_bytes()).is_err());
    }
}
