//! The HTTP client for servers that are web services.

use reqwest::{Client, Url, redirect};

/// Redirections of one request.
const REDIRECTS: usize = 5;

/// A client for the server at this address. What is sent goes there, and nowhere else.
pub(super) fn client(url: &str) -> Result<Client, String> {
    let url = Url::parse(url).map_err(|err| format!("its address is none: {err}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("its address begins with {}:, not http: or https:", url.scheme()));
    }
    // Fails only if a provider is installed, which will do.
    drop(rustls::crypto::ring::default_provider().install_default());
    Client::builder()
        .user_agent(concat!("tandem/", env!("CARGO_PKG_VERSION")))
        .redirect(redirect::Policy::custom(stay))
        // Streams are left before their end, and such connections cannot be used again.
        .pool_max_idle_per_host(0)
        .build()
        .map_err(|err| format!("the HTTP client could not be made: {err}"))
}

/// Only redirections that keep the method and the body, and only on the same server.
fn stay(attempt: redirect::Attempt<'_>) -> redirect::Action {
    let keeps = matches!(attempt.status().as_u16(), 307 | 308);
    let first = attempt.previous().first();
    let same = first.is_some_and(|first| first.origin() == attempt.url().origin());
    if keeps && same && attempt.previous().len() <= REDIRECTS {
        attempt.follow()
    } else {
        attempt.stop()
    }
}
