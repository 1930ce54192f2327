//! Parsers for values of variables: keys, addresses, headers. No error repeats the value.

use std::net::IpAddr;

use reqwest::Url;
use reqwest::header::{HeaderName, HeaderValue};

use tandem_model::Secret;

/// Port that Ollama listens at by default.
const OLLAMA_PORT: u16 = 11434;

/// Reads a key as people copy it, and drops white space and quotes around it. The error is the rest of a sentence that
/// begins with the name of the key.
pub(crate) fn clean_key(text: &str) -> Result<Secret, &'static str> {
    let key = text.trim_matches(|c: char| c.is_whitespace() || "\"'`".contains(c));
    if key.is_empty() {
        return Err("is empty");
    }
    if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("has characters that no key has, such as white space: copy the key again");
    }
    Ok(Secret::new(key))
}

/// Reads a base URL, and drops the slash at its end. If a `key` is sent to the URL, it must be `https:` or of this
/// computer, so that the key cannot be read on the way. The error does not repeat the URL, since people put keys into
/// URLs.
pub(super) fn base_url(text: &str, key: bool) -> Result<String, &'static str> {
    let url = Url::parse(text).map_err(|_| "is not a URL such as https://example.com/v1")?;
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let is_local = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    match url.scheme() {
        "https" => {}
        "http" if is_local || !key => {}
        "http" => {
            return Err("must begin with https:// (http:// is for this computer only, and for \
                        servers that need no key)");
        }
        _ => return Err("must begin with https:// or http://"),
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("must not have a name or password in it: set custom headers instead");
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("must not have a `?` or `#` in it");
    }
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

/// Reads an address as `ollama` itself takes it: a host, a port, both, or a URL. Returns its base URL.
pub(super) fn ollama_host(text: &str, key: bool) -> Result<String, &'static str> {
    let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
    let named = text.contains("://");
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let host = if host.is_empty() || host.starts_with(':') {
        format!("127.0.0.1{host}")
    } else {
        host.to_owned()
    };
    let url = base_url(&format!("{scheme}://{host}/{path}"), key)?;
    let mut url = Url::parse(&url).map_err(|_| "is not an address such as 127.0.0.1:11434")?;
    if !named && url.port().is_none() && !host.ends_with(":80") {
        url.set_port(Some(OLLAMA_PORT))
            .map_err(|()| "is not an address such as 127.0.0.1:11434")?;
    }
    // A server listens at an unspecified address, but a client cannot call it: the loopback address stands for it.
    match url.host_str() {
        Some("0.0.0.0") => url.set_host(Some("127.0.0.1")),
        Some("[::]") => url.set_host(Some("[::1]")),
        _ => Ok(()),
    }
    .map_err(|_| "is not an address such as 127.0.0.1:11434")?;
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

/// Reads the endpoint of a resource of Azure `OpenAI` as the portal shows it. Returns the base URL of version 1 of the
/// API, which has both APIs of `OpenAI`.
pub(super) fn azure_url(text: &str, key: bool) -> Result<String, &'static str> {
    if text.contains("/deployments/") {
        return Err(
            "must be the endpoint of the resource, such as https://RESOURCE.openai.azure.com: leave out \
                    `/openai/deployments/` and the rest. The id of the model is the name of the deployment \
                    (`azure:DEPLOYMENT`)",
        );
    }
    let url = base_url(text, key)?;
    let resource = url.trim_end_matches("/v1").trim_end_matches("/openai");
    Ok(format!("{resource}/openai/v1"))
}

/// Reads headers from `Name: value, Name2: value2`. A comma is part of a value unless a name and a colon follow.
pub(super) fn headers(text: &str) -> Result<Vec<(String, String)>, &'static str> {
    let mut headers: Vec<(String, String)> = Vec::new();
    for part in text.split(',') {
        let header = part.split_once(':').map(|(name, value)| (name.trim(), value.trim()));
        match (header, headers.last_mut()) {
            (Some((name, value)), _) if is_header_name(name) => {
                headers.push((name.to_owned(), value.to_owned()));
            }
            (_, Some((_, value))) => {
                value.push(',');
                value.push_str(part.trim_end());
            }
            (_, None) if part.trim().is_empty() => {}
            (_, None) => return Err("must be like `Name: value, Name2: value2`"),
        }
    }
    // A comma at the end of a value separates no headers, and is removed.
    for (_, value) in &mut headers {
        value.truncate(value.trim_end_matches(',').len());
    }
    if headers.iter().any(|(_, value)| HeaderValue::from_str(value).is_err()) {
        return Err("has a value with characters that no header can have");
    }
    Ok(headers)
}

fn is_header_name(name: &str) -> bool {
    HeaderName::from_bytes(name.as_bytes()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::{azure_url, base_url, clean_key, headers, ollama_host};

    fn check_key(text: &str, expected: Option<&str>) {
        let key = clean_key(text).ok();
        assert_eq!(key.as_ref().map(tandem_model::Secret::expose), expected, "{text:?}");
    }

    fn check_url(text: &str, expected: Option<&str>) {
        assert_eq!(base_url(text, true).ok().as_deref(), expected, "{text:?}");
    }

    fn check_ollama(text: &str, expected: Option<&str>) {
        assert_eq!(ollama_host(text, false).ok().as_deref(), expected, "{text:?}");
    }

    fn check_azure(text: &str, expected: Option<&str>) {
        assert_eq!(azure_url(text, true).ok().as_deref(), expected, "{text:?}");
    }

    fn check_headers(text: &str, expected: Option<&[(&str, &str)]>) {
        let found = headers(text).ok();
        let found: Option<Vec<_>> = found
            .as_ref()
            .map(|found| found.iter().map(|(name, value)| (&**name, &**value)).collect());
        assert_eq!(found.as_deref(), expected, "{text:?}");
    }

    #[test]
    fn what_is_around_a_key_is_not_of_it() {
        check_key(" \"AIza-x_1\"\r\n", Some("AIza-x_1"));
        check_key("'k'", Some("k"));
    }

    #[test]
    fn what_cannot_be_a_key_is_refused() {
        check_key("", None);
        check_key(" '' ", None);
        check_key("AIza\u{7}x", None);
        check_key("AIza\nx", None);
        check_key("AIza x", None);
        check_key("sch\u{fc}ssel", None);
    }

    #[test]
    fn the_endpoint_of_azure_is_the_resource_or_its_version_1() {
        let resource = "https://r.openai.azure.com/openai/v1";
        check_azure("https://r.openai.azure.com", Some(resource));
        check_azure("https://r.openai.azure.com/", Some(resource));
        check_azure("https://r.openai.azure.com/openai", Some(resource));
        check_azure("https://r.openai.azure.com/openai/v1/", Some(resource));
        let project = "https://r.services.ai.azure.com/api/projects/p";
        check_azure(project, Some("https://r.services.ai.azure.com/api/projects/p/openai/v1"));
        check_azure("http://r.openai.azure.com", None);
        check_azure("https://r.openai.azure.com/openai/responses?api-version=preview", None);
        let old = "https://r.openai.azure.com/openai/deployments/d/chat/completions?api-version=x";
        check_azure(old, None);
        assert!(azure_url(old, true).unwrap_err().contains("azure:DEPLOYMENT"));
    }

    #[test]
    fn base_urls_are_https_or_of_this_computer() {
        check_url("https://gate.example/gemini/", Some("https://gate.example/gemini"));
        check_url("http://localhost:8080", Some("http://localhost:8080"));
        check_url("http://127.0.0.1:8080/", Some("http://127.0.0.1:8080"));
        check_url("http://[::1]:8080", Some("http://[::1]:8080"));
        check_url("http://gate.example", None);
        check_url("http://localhost.example", None);
        check_url("http://127.0.0.1.example", None);
        check_url("ftp://localhost", None);
        check_url("gate.example", None);
    }

    #[test]
    fn a_server_that_needs_no_key_may_be_anywhere() {
        let url = "http://gpu-box:8000/v1";
        assert_eq!(base_url(url, false).as_deref(), Ok(url));
        assert!(base_url(url, true).is_err());
        assert!(base_url("file:///etc/passwd", false).is_err());
    }

    #[test]
    fn ollamas_address_is_written_as_ollama_takes_it() {
        check_ollama("127.0.0.1", Some("http://127.0.0.1:11434"));
        check_ollama("127.0.0.1:8080", Some("http://127.0.0.1:8080"));
        check_ollama(":8080", Some("http://127.0.0.1:8080"));
        check_ollama("0.0.0.0", Some("http://127.0.0.1:11434"));
        check_ollama("[::]:11434", Some("http://[::1]:11434"));
        check_ollama("http://gpu-box:11434/", Some("http://gpu-box:11434"));
        check_ollama("https://ollama.example/api-root", Some("https://ollama.example/api-root"));
        check_ollama("gpu-box:80", Some("http://gpu-box"));
        check_ollama("a b", None);
        check_ollama("ftp://gpu-box", None);
        check_ollama("http://user:secret@gpu-box", None);
    }

    #[test]
    fn base_urls_are_nothing_more() {
        check_url("https://u:p@gate.example", None);
        check_url("https://gate.example/?key=x", None);
        check_url("https://gate.example/#x", None);
    }

    #[test]
    fn headers_are_separated_by_commas() {
        check_headers("A: 1", Some(&[("A", "1")]));
        check_headers("A: 1, X-B:2,", Some(&[("A", "1"), ("X-B", "2")]));
    }

    #[test]
    fn values_of_headers_may_have_colons_and_commas() {
        check_headers("A: b:c:d, E: f", Some(&[("A", "b:c:d"), ("E", "f")]));
        check_headers("A: x, y, E: f", Some(&[("A", "x, y"), ("E", "f")]));
        check_headers("A: http://x:1/y", Some(&[("A", "http://x:1/y")]));
    }

    #[test]
    fn what_is_no_header_is_refused() {
        check_headers("A", None);
        check_headers("A B: c", None);
        check_headers(": c", None);
        check_headers("A: b\nC", None);
        check_headers("A: b\u{1}", None);
    }
}
