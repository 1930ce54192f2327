//! A store that has the sessions of another store and, beside them, the chats of Gemini CLI.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt as _;
use futures::stream;
use tandem_agent::session::{
    Batch, Claim, Head, Listed, Orphan, Query, Secrets, SharedStore, Store, StoreError, Stored,
    StoredLog,
};
use tandem_agent::sessions::create_whole;

use super::chats::{GeminiCli, ListedChat, PROGRAM};

/// A store that shows the chats of Gemini CLI as sessions. A chat that is claimed becomes a session of the inner store,
/// with the same id, and is listed as that session from then on.
#[derive(Clone)]
pub struct WithGeminiCli {
    own: Arc<dyn Store>,
    chats: Arc<GeminiCli>,
}

impl WithGeminiCli {
    /// Returns a store that shows `chats` beside the sessions of the store `own`.
    pub fn new(own: Arc<dyn Store>, chats: GeminiCli) -> Self {
        Self { own, chats: Arc::new(chats) }
    }

    /// Finds a chat by its id, for which the inner store has no session.
    async fn chat(&self, id: &str) -> Result<ListedChat, StoreError> {
        let (chats, wanted) = (Arc::clone(&self.chats), id.to_owned());
        let chat = blocking(move || Ok(chats.find(&wanted))).await?;
        chat.ok_or_else(|| StoreError::NotFound(id.to_owned()))
    }

    /// Lists the chats that are not yet sessions of the inner store.
    async fn chats(&self, query: &Query) -> Result<Vec<Listed>, StoreError> {
        let (chats, directory) = (Arc::clone(&self.chats), query.directory.clone());
        let listed = blocking(move || Ok(chats.list(directory.as_deref()))).await?;
        let mut others = Vec::new();
        for ListedChat { listed, .. } in listed {
            if matches!(self.own.head(&listed.head.id).await, Err(StoreError::NotFound(_))) {
                others.push(listed);
            }
        }
        Ok(others)
    }
}

#[async_trait]
impl Store for WithGeminiCli {
    async fn create(&self, head: &Head) -> Result<Box<dyn Claim>, StoreError> {
        self.own.create(head).await
    }

    async fn claim(&self, id: &str) -> Result<Box<dyn Claim>, StoreError> {
        match self.own.claim(id).await {
            Err(StoreError::NotFound(_)) => {}
            claimed => return claimed,
        }
        let chat = self.chat(id).await?;
        let (head, batches) = (chat.listed.head.clone(), batches(chat).await?);
        create_whole(&*self.own, &head, batches).await
    }

    async fn claim_orphan(&self, orphan: &Orphan) -> Result<Box<dyn Claim>, StoreError> {
        self.own.claim_orphan(orphan).await
    }

    async fn is_held(&self, id: &str) -> Result<bool, StoreError> {
        match self.own.is_held(id).await {
            Err(StoreError::NotFound(_)) => self.chat(id).await.map(|_| false),
            is_held => is_held,
        }
    }

    async fn id(&self) -> Result<String, StoreError> {
        self.own.id().await
    }

    async fn head(&self, id: &str) -> Result<Head, StoreError> {
        match self.own.head(id).await {
            Err(StoreError::NotFound(_)) => Ok(self.chat(id).await?.listed.head),
            head => head,
        }
    }

    async fn read(&self, id: &str) -> Result<StoredLog, StoreError> {
        match self.own.read(id).await {
            Err(StoreError::NotFound(_)) => {}
            read => return read,
        }
        let batches = batches(self.chat(id).await?).await?;
        let pieces = batches.into_iter().map(|batch| Ok(vec![Stored::Batch(batch)]));
        Ok(stream::iter(pieces).boxed())
    }

    async fn orphans(&self) -> Result<Vec<Orphan>, StoreError> {
        self.own.orphans().await
    }

    async fn orphaned(&self) {
        self.own.orphaned().await;
    }

    async fn opened(&self) -> Result<Vec<String>, StoreError> {
        self.own.opened().await
    }

    async fn secrets(&self, id: &str) -> Result<Secrets, StoreError> {
        self.own.secrets(id).await
    }

    async fn list(&self, query: &Query) -> Result<Vec<Listed>, StoreError> {
        // Chats are not checkpoints, so a query for checkpoints alone needs none of them.
        if !query.others || query.checkpoints == Some(true) {
            return self.own.list(query).await;
        }
        // Sessions and chats are merged in order of time before any are skipped, so the inner store must not skip.
        let most = query.most.map(|most| most.saturating_add(query.skip));
        let own = Query { skip: 0, most, ..query.clone() };
        let mut list = self.own.list(&own).await?;
        list.extend(self.chats(query).await?);
        // Equal times are sorted by id, because the list must not depend on the order of files in a directory.
        list.sort_by(|a, b| (b.changed, &b.head.id).cmp(&(a.changed, &a.head.id)));
        Ok(list.into_iter().skip(query.skip).take(query.most.unwrap_or(usize::MAX)).collect())
    }

    async fn may_say(&self, id: &str, lower: &str) -> Result<bool, StoreError> {
        match self.own.may_say(id, lower).await {
            // Only reading the chat could show that it does not have the text.
            Err(StoreError::NotFound(_)) => Ok(true),
            may_say => may_say,
        }
    }

    async fn delete(&self, id: &str) -> Result<(), StoreError> {
        match self.own.delete(id).await {
            Err(StoreError::NotFound(_)) if self.chat(id).await.is_ok() => {
                Err(StoreError::Foreign(PROGRAM))
            }
            deleted => deleted,
        }
    }

    fn shared(&self) -> Option<&dyn SharedStore> {
        self.own.shared()
    }

    fn directory(&self, id: &str) -> Option<PathBuf> {
        self.own.directory(id)
    }
}

/// Reads a chat as the batches of a session's log.
async fn batches(chat: ListedChat) -> Result<Vec<Batch>, StoreError> {
    blocking(move || chat.batches()).await
}

/// Runs blocking work on a thread for blocking work, so that the runtime's threads stay free.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, StoreError> {
    let done = tokio::task::spawn_blocking(work).await;
    Ok(done.unwrap_or_else(|_| Err(io::Error::other("the agent is ending")))?)
}
