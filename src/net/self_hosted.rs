//! Recognition of servers that people run themselves.

use std::net::IpAddr;

use reqwest::Url;

/// Endings of names that are never public.
const LOCAL_SUFFIXES: [&str; 4] = [".local", ".lan", ".internal", ".home.arpa"];

/// Returns `true` if a URL probably leads to a server that people run themselves: its scheme is `http:`, its host has
/// no dot, or its host is on this machine or in a private network.
pub fn is_self_hosted(url: &Url) -> bool {
    let Some(host) = url.host_str() else { return false };
    if url.scheme() == "http" || !host.contains(['.', ':']) {
        return true;
    }
    match host.trim_matches(['[', ']']).parse::<IpAddr>() {
        Ok(IpAddr::V4(ip)) => ip.is_loopback() || ip.is_private() || ip.is_link_local(),
        Ok(IpAddr::V6(ip)) => {
            ip.is_loopback() || ip.is_unique_local() || ip.is_unicast_link_local()
        }
        Err(_) => LOCAL_SUFFIXES.iter().any(|end| host.ends_with(end)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(url: &str, own: bool) {
        assert_eq!(is_self_hosted(&Url::parse(url).unwrap()), own, "{url}");
    }

    #[test]
    fn servers_of_the_own_network_are_self_hosted() {
        for url in [
            "http://127.0.0.1:8080",
            "https://localhost/v1",
            "https://127.0.0.1/v1",
            "https://[::1]/v1",
            "https://192.168.1.7:8000/v1",
            "https://[fd00::1]/v1",
            "https://gpu-box:8000",
            "https://gpu.local/v1",
            "http://gpu.example.com:8000/v1",
        ] {
            check(url, true);
        }
        for url in ["https://api.openai.com/v1", "https://8.8.8.8/v1", "https://[2001:db8::1]"] {
            check(url, false);
        }
    }
}
