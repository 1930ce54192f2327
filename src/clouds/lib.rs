//! Credentials of clouds: found where the clouds' own tools keep them, and turned into the authorization of requests.

pub mod aws;
pub mod google;

mod cache;
mod fetch;
mod files;

use std::sync::Arc;

use parking_lot::Mutex;
use tandem_host::terminals::Terminals;
use tandem_model::authorization::{Authorization, Authorizer};

use self::aws::{AwsAuthorizer, AwsConfig};
use self::google::{GoogleAuthorizer, GoogleConfig};

/// Authorizers of the process. Each keeps its credentials until they expire, so one is made for each way to find them.
pub struct Authorizers {
    aws: Mutex<Vec<(AwsConfig, Arc<AwsAuthorizer>)>>,
    google: Mutex<Vec<(GoogleConfig, Arc<GoogleAuthorizer>)>>,
    terminals: Arc<Terminals>,
}

impl Authorizers {
    /// Returns no authorizers yet. `terminals` starts the programs that print credentials.
    pub fn new(terminals: Arc<Terminals>) -> Self {
        Self { aws: Mutex::default(), google: Mutex::default(), terminals }
    }

    /// Returns the authorizer that signs requests for AWS.
    pub fn aws(&self, config: AwsConfig) -> Authorization {
        let make = |config| AwsAuthorizer::new(config, Arc::clone(&self.terminals));
        find_or_make(&self.aws, config, make)
    }

    /// Returns the authorizer that sends access tokens of Google.
    pub fn google(&self, config: GoogleConfig) -> Authorization {
        find_or_make(&self.google, config, GoogleAuthorizer::new)
    }
}

/// Returns the known authorizer for a way to find credentials, or makes one.
fn find_or_make<C: Clone + PartialEq, A: Authorizer + 'static>(
    known: &Mutex<Vec<(C, Arc<A>)>>,
    config: C,
    make: impl FnOnce(C) -> A,
) -> Authorization {
    let mut known = known.lock();
    if let Some((_, authorizer)) = known.iter().find(|(known, _)| *known == config) {
        return Authorization(Arc::<A>::clone(authorizer));
    }
    let authorizer = Arc::new(make(config.clone()));
    known.push((config, Arc::clone(&authorizer)));
    Authorization(authorizer)
}
