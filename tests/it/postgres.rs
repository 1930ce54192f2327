//! Sessions in a Postgres database, which several nodes share.

pub(crate) mod server;
mod shared;
mod store;

use std::sync::LazyLock;

use self::server::{Cluster, programs};
use crate::needs::{Need, lacking};

impl Cluster {
    /// Returns the server that the tests of this process share; `None` if the package is not installed.
    pub(crate) fn shared() -> Option<&'static Self> {
        static CLUSTER: LazyLock<Cluster> = LazyLock::new(|| Cluster::of(programs().unwrap()));
        (!lacking(Need::Postgres)).then(|| &*CLUSTER)
    }

    /// Starts a server that only one test uses; `None` if the package is not installed.
    pub(crate) fn start() -> Option<Self> {
        (!lacking(Need::Postgres)).then(|| Self::of(programs().unwrap()))
    }
}
