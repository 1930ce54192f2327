//! Push notifications: configurations of their receivers, and the notifiers that send them (RFC 2.1).

use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize as _;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::context::SessionContext;
use super::contexts::locate::LocatedTask;
use super::dialect::Dialect;
use super::follow::Follow;
use super::frames::StreamEnd;
use super::read;
use super::requests::PushName;
use super::server::A2aServer;
use super::webhook::{self, Delivery, WebhookUrl, Webhooks};
use tandem_agent::session::{PushConfig, TaskEvent, TurnId};
use tandem_wire::a2a::{PushNotificationConfig, TaskPushNotificationConfig, error};
use tandem_wire::jsonrpc::Error;

impl A2aServer {
    /// Returns the receiver of a configuration, or an error if it must not be called.
    pub(super) fn check_config(
        &self,
        config: &PushNotificationConfig,
    ) -> Result<WebhookUrl, Error> {
        let target = webhook::check(&config.url, self.options.webhook_loopback);
        let target = target.map_err(|why| error::invalid_params(format!("`url`: {why}")))?;
        for (name, value) in headers(config) {
            webhook::check_header(&name, &value).map_err(error::invalid_params)?;
        }
        Ok(target)
    }

    /// Fails unless a session has room for a configuration. Called before anything begins: in 1.0, the task
    /// of the configuration does not exist yet.
    pub(super) fn check_room(
        context: &SessionContext,
        config: &PushNotificationConfig,
        dialect: Dialect,
    ) -> Result<(), Error> {
        let key = (dialect != Dialect::V1).then(|| format!("{}/{}", context.id, config.id));
        context.push.room(context.session()?, key.as_deref())
    }

    /// Adds a configuration, and starts its notifier, which sends the frames of `follow`. `turn` is the turn whose task
    /// the configuration is for; `None` means the session's task. Returns the configuration with the task's own id.
    pub(super) fn add_push(
        &self,
        follow: Follow,
        turn: Option<TurnId>,
        config: &PushNotificationConfig,
    ) -> Result<TaskPushNotificationConfig, Error> {
        let (context, dialect) = (Arc::clone(&follow.context), follow.dialect());
        let task =
            turn.map_or_else(|| context.id.clone(), |turn| dialect.task_id(&context.id, turn));
        let key = format!("{task}/{}", config.id);
        let session = context.session()?;
        context.push.room(session, Some(&key))?;
        let notifies = self.notify(follow, &key, turn, config)?;
        let set = TaskPushNotificationConfig { task_id: task.clone(), config: config.clone() };
        let protocol = dialect.name().to_owned();
        // The secret has the form of 0.3, which can hold all authentication schemes.
        let secret = json!(config);
        let config = PushConfig { task, turn, protocol, set: Value::Null };
        // The lock is held until the configuration is recorded, so that the events come in the order of the changes.
        let mut push = context.push.0.lock();
        session.persistence().set_secret(&key, Some(secret));
        session.record(TaskEvent::PushConfigSet { key: key.clone(), config });
        push.insert(key, notifies);
        Ok(set)
    }

    /// Starts a notifier for the receiver of a configuration.
    fn notify(
        &self,
        follow: Follow,
        key: &str,
        turn: Option<TurnId>,
        config: &PushNotificationConfig,
    ) -> Result<AbortOnDropHandle<()>, Error> {
        let notify = Notify {
            lane: lane(&follow.context, key),
            target: self.check_config(config)?,
            headers: headers(config),
            webhooks: self.webhooks.clone(),
            dialect: follow.dialect(),
            follow,
            turn,
            over: self.over.clone(),
        };
        Ok(AbortOnDropHandle::new(tokio::spawn(notify.run())))
    }

    /// Restarts the notifiers of a session that was loaded; they begin after the events that were stored.
    pub(super) fn restore_push(&self, context: &Arc<SessionContext>) {
        let Some(from) = context.restores_from.lock().take() else { return };
        let configs: Vec<_> = context.records(|records| {
            let is_over = |turn| {
                let ended = records.turn(turn).and_then(|turn| turn.ended.as_ref());
                ended.is_some_and(|(index, _)| *index < from)
            };
            let configs = records.push().iter().map(|(key, config)| (key.clone(), config.clone()));
            configs.filter(|(_, config)| !config.turn.is_some_and(is_over)).collect()
        });
        let mut push = context.push.0.lock();
        for (key, config) in configs {
            let Some(dialect) = Dialect::by_name(&config.protocol) else { continue };
            let follow = Follow::new(context, from, dialect);
            let set = receiver(context, &key, &config);
            match set.and_then(|set| self.notify(follow, &key, config.turn, &set)) {
                Ok(notifies) => _ = push.insert(key, notifies),
                Err(error) => tracing::warn!(key, "nobody is notified any more: {error}"),
            }
        }
    }

    pub(super) async fn set_push(
        &self,
        request: &TaskPushNotificationConfig,
        LocatedTask { context, turn }: &LocatedTask,
        dialect: Dialect,
    ) -> Result<Bytes, Error> {
        // Updates of a turn that runs already are sent from the turn's beginning.
        let follow = Follow::new(context, from(context, *turn), dialect);
        let set = self.add_push(follow, *turn, &request.config)?;
        context.promised().await?;
        Ok(dialect.push_config(&set))
    }

    pub(super) fn get_push(
        name: &PushName,
        LocatedTask { context, .. }: &LocatedTask,
        dialect: Dialect,
    ) -> Result<Bytes, Error> {
        let key = name.key();
        let found = context.records(|records| {
            records.push().get(&key).and_then(|config| stored(context, &key, config))
        });
        let found = found.ok_or_else(|| not_there(&key))?;
        Ok(dialect.push_config(&found))
    }

    pub(super) fn list_push(
        task: &str,
        LocatedTask { context, .. }: &LocatedTask,
        dialect: Dialect,
    ) -> Bytes {
        let found: Vec<_> = context.records(|records| {
            let found = records.push().iter().filter(|(_, config)| config.task == task);
            found.filter_map(|(key, config)| stored(context, key, config)).collect()
        });
        dialect.push_configs(&found)
    }

    pub(super) async fn delete_push(
        &self,
        name: &PushName,
        LocatedTask { context, .. }: &LocatedTask,
    ) -> Result<(), Error> {
        let key = name.key();
        // A configuration that does not exist is no error: the client wants it gone.
        {
            // The lock is held until the deletion is recorded, since another call may set the configuration
            // anew at this moment.
            let mut push = context.push.0.lock();
            let notified = push.remove(&key).is_some();
            if notified || context.records(|records| records.push().contains_key(&key)) {
                let session = context.session()?;
                session.persistence().set_secret(&key, None);
                session.record(TaskEvent::PushConfigDeleted { key: key.clone() });
            }
        }
        self.webhooks.forget(&lane(context, &key));
        context.promised().await?;
        Ok(())
    }
}

/// Returns the key of a configuration's deliveries across all sessions. The session's own id is part of it,
/// since contexts of different owners may have the same id.
fn lane(context: &SessionContext, key: &str) -> String {
    format!("{}/{key}", context.session_id())
}

fn not_there(key: &str) -> Error {
    Error::new(error::TASK_NOT_FOUND, format!("there is no push configuration {key}"))
}

/// Returns a stored configuration of a session.
fn stored(
    context: &SessionContext,
    key: &str,
    config: &PushConfig,
) -> Option<TaskPushNotificationConfig> {
    let set = receiver(context, key, config).ok()?;
    Some(TaskPushNotificationConfig { task_id: config.task.clone(), config: set })
}

/// Returns a configuration's receiver as the client has set it: its URL, which may itself be a secret, and
/// its credentials.
fn receiver(
    context: &SessionContext,
    key: &str,
    config: &PushConfig,
) -> Result<PushNotificationConfig, Error> {
    // Older versions of tandem wrote the receiver into the log instead.
    let secret = context.here().and_then(|session| session.persistence().secret(key));
    let set = secret.unwrap_or_else(|| config.set.clone());
    let set = PushNotificationConfig::deserialize(set).unwrap_or_default();
    read::check_address(&set).map(|()| set)
}

/// Returns the headers that authenticate this server to the receiver.
fn headers(config: &PushNotificationConfig) -> Vec<(String, String)> {
    let mut headers = Vec::new();
    if let Some(token) = &config.token {
        headers.push(("X-A2A-Notification-Token".to_owned(), token.clone()));
    }
    if let Some(authentication) = &config.authentication
        && let Some(credentials) = &authentication.credentials
    {
        let value = format!("{} {credentials}", authentication.scheme());
        headers.push(("Authorization".to_owned(), value));
    }
    headers
}

/// Returns the log index from which on a task's updates are sent.
fn from(context: &SessionContext, turn: Option<TurnId>) -> usize {
    let turn = turn.or_else(|| context.running());
    let queued = turn.and_then(|id| context.records(|records| Some(records.turn(id)?.queued.0)));
    queued.unwrap_or_else(|| context.position())
}

/// Notifier of one receiver about one task.
struct Notify {
    follow: Follow,
    /// Key of the deliveries, which keeps them in order.
    lane: String,
    target: WebhookUrl,
    headers: Vec<(String, String)>,
    webhooks: Webhooks,
    dialect: Dialect,
    turn: Option<TurnId>,
    over: CancellationToken,
}

impl Notify {
    /// Runs until the task has ended. The session's task (0.3) ends only with the server.
    async fn run(mut self) {
        loop {
            let next = self.over.run_until_cancelled(self.follow.next()).await;
            let frame = match next {
                Some(frame) => frame,
                None => match self.follow.next_past().await {
                    Some(frame) => frame,
                    None => return,
                },
            };
            let ours = self.turn.is_none_or(|turn| turn == frame.turn);
            if !ours || !frame.notable {
                continue;
            }
            // In 1.0 the event itself is sent; in 0.3, the current task.
            let (kind, body) = if self.dialect == Dialect::V1 {
                ("application/a2a+json", frame.json)
            } else {
                let task = self.follow.context.task(self.turn, None).await;
                ("application/json", self.dialect.first(&task))
            };
            let mut headers = self.headers.clone();
            headers.push(("Content-Type".to_owned(), kind.to_owned()));
            let (key, target) = (self.lane.clone(), self.target.clone());
            let session = self.follow.context.session_id().to_owned();
            self.webhooks.send(Delivery { key, session, target, headers, body });
            if frame.end == StreamEnd::Turn && self.turn.is_some() {
                return;
            }
        }
    }
}
