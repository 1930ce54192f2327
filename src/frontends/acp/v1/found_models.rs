//! Models of this machine that an editor is offered: one look for them serves all sessions of a connection.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use parking_lot::Mutex;
use tokio::time::Instant;

/// Time for which the models of one look are offered to further sessions.
const LOOK_LIFETIME: Duration = Duration::from_mins(1);

/// A look for models, which gives their ids. It goes on if the session that began it is closed.
type Look = Shared<BoxFuture<'static, Vec<String>>>;

/// Looks for models on this machine, shared by the sessions of a connection.
#[derive(Default)]
pub(super) struct FoundModels {
    /// Looks of the last minute, with the times of their beginning. The settings of a directory decide which servers are
    /// asked, so each directory has its own look.
    looks: Mutex<HashMap<PathBuf, (Instant, Look)>>,
}

impl FoundModels {
    /// Returns the ids of the models that are found for sessions in the directory. A search of the last minute is used
    /// again; otherwise `find` searches.
    pub(super) fn look<F: Future<Output = Vec<String>> + Send + 'static>(
        &self,
        directory: &Path,
        find: impl FnOnce() -> F,
    ) -> Look {
        let mut looks = self.looks.lock();
        looks.retain(|_, (begun, _)| begun.elapsed() < LOOK_LIFETIME);
        let (_, look) = looks.entry(directory.to_owned()).or_insert_with(|| {
            let found = tokio::spawn(find()).map(Result::unwrap_or_default);
            (Instant::now(), found.boxed().shared())
        });
        look.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::ready;

    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn sessions_of_one_directory_share_a_look_for_a_minute() {
        let (found, count) = (FoundModels::default(), Cell::new(0));
        let look = |directory: &str| {
            let find = || {
                count.set(count.get() + 1);
                ready(vec![format!("look {}", count.get())])
            };
            found.look(Path::new(directory), find)
        };
        let first = look("/a");
        assert_eq!(look("/a").await, ["look 1"]);
        assert_eq!(first.await, ["look 1"]);
        assert_eq!(look("/b").await, ["look 2"]);
        advance(LOOK_LIFETIME).await;
        assert_eq!(look("/a").await, ["look 3"]);
    }
}
