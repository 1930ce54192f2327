//! Authorization of requests by more than a key in a header: signatures, and tokens that expire.

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use reqwest::Request;

use super::{Error, Secret};

/// A way to authorize requests, which keeps its credentials until they expire.
pub trait Authorizer: Send + Sync {
    /// Adds the authorization to a request that is otherwise complete. May fetch credentials first. The error says what
    /// is missing and what to do.
    fn authorize<'a>(&'a self, request: &'a mut Request) -> BoxFuture<'a, Result<(), Error>>;

    /// Forgets the credentials, because a server has refused them. The next request looks for others.
    fn forget(&self);

    /// Returns the current credentials, which messages must not show.
    fn secrets(&self) -> Vec<Secret>;
}

/// The authorizer of an endpoint.
#[derive(Clone)]
pub struct Authorization(pub Arc<dyn Authorizer>);

/// Two endpoints are equal if they share the authorizer.
impl PartialEq for Authorization {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Authorization {}

impl fmt::Debug for Authorization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authorization(..)")
    }
}
