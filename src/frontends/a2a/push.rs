//! Push notifications: configurations of their receivers, and the tasks that notify these (RFC 2.1).

use std::sync::Arc;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::context::Context;
use super::dialect::Dialect;
use super::fields;
use super::follow::Follow;
use super::frames::End;
use super::requests::{PushName, SetPush, push_id};
use super::server::Server;
use super::webhook::{self, Delivery, Target, Webhooks};
use tandem_agent::session::{PushConfig, TaskEvent, TurnId};
use tandem_wire::a2a::Error;

impl Server {
    /// Reads a configuration; where it leads must be somewhere that may be called.
    pub(super) fn check_config(&self, config: &Value) -> Result<Target, Error> {
        let url = fields::text(config, &["url"])
            .ok_or_else(|| Error::invalid_params("`url` must say where to send notifications"))?;
        let target = webhook::check(url, self.options.webhook_loopback);
        let target = target.map_err(|why| Error::invalid_params(format!("`url`: {why}")))?;
        for (name, value) in headers(config) {
            webhook::check_header(&name, &value).map_err(Error::invalid_params)?;
        }
        Ok(target)
    }

    /// Returns an error unless a session has room for a configuration, before anything begins. In
    /// 1.0 the configuration is for a task that is not there yet.
    pub(super) fn check_room(
        context: &Context,
        config: &Value,
        dialect: Dialect,
    ) -> Result<(), Error> {
        let key = (dialect != Dialect::V1).then(|| format!("{}/{}", context.id, push_id(config)));
        context.push.room(&context.session, key.as_deref())
    }

    /// Notifies from now on; the configuration as it is kept.
    pub(super) fn add_push(
        &self,
        context: &Arc<Context>,
        turn: Option<TurnId>,
        config: &Value,
        dialect: Dialect,
    ) -> Result<Value, Error> {
        let target = self.check_config(config)?;
        let id = push_id(config).to_owned();
        let mut set = config.clone();
        set["id"] = json!(id);
        let task =
            turn.map_or_else(|| context.id.clone(), |turn| dialect.task_id(&context.id, turn));
        let key = format!("{task}/{id}");
        context.push.room(&context.session, Some(&key))?;
        let notify = Notify {
            // What has begun already is told of from its beginning.
            follow: Follow::new(context, from(context, turn), dialect),
            key: key.clone(),
            target,
            headers: headers(&set),
            webhooks: self.webhooks.clone(),
            dialect,
            turn,
            over: self.over.clone(),
        };
        let notifies = AbortOnDropHandle::new(tokio::spawn(notify.run()));
        let shown = shown(&task, &set, dialect);
        let config = PushConfig { task, turn, protocol: dialect.name().to_owned(), set };
        let mut push = context.push.0.lock();
        context.session.record(TaskEvent::PushConfigSet { key: key.clone(), config });
        push.insert(key, notifies);
        Ok(shown)
    }

    pub(super) fn set_push(&self, request: &SetPush, dialect: Dialect) -> Result<Value, Error> {
        let (context, turn) = self.contexts.task(&request.task)?;
        self.add_push(&context, turn, &request.config, dialect)
    }

    pub(super) fn get_push(&self, name: &PushName, dialect: Dialect) -> Result<Value, Error> {
        let (context, key) = self.config(name)?;
        context.story(|story| {
            let config = story.push().get(&key).ok_or_else(|| not_there(&key))?;
            Ok(shown(&config.task, &config.set, dialect))
        })
    }

    pub(super) fn list_push(&self, task: &str, dialect: Dialect) -> Result<Value, Error> {
        let (context, _) = self.contexts.task(task)?;
        let found: Vec<Value> = context.story(|story| {
            let found = story.push().values().filter(|config| config.task == task);
            found.map(|config| shown(task, &config.set, dialect)).collect()
        });
        Ok(if dialect == Dialect::V1 { json!({ "configs": found }) } else { json!(found) })
    }

    pub(super) fn delete_push(&self, name: &PushName) -> Result<Value, Error> {
        let (context, key) = self.config(name)?;
        // One that is gone already is what was wanted.
        let removed = context.push.0.lock().remove(&key);
        if removed.is_some() {
            context.session.record(TaskEvent::PushConfigDeleted { key: key.clone() });
        }
        self.webhooks.forget(&key);
        Ok(Value::Null)
    }

    /// Returns the session of a configuration, and the key that the session has for it.
    fn config(&self, PushName { task, id }: &PushName) -> Result<(Arc<Context>, String), Error> {
        let (context, _) = self.contexts.task(task)?;
        Ok((context, format!("{task}/{id}")))
    }
}

fn not_there(key: &str) -> Error {
    Error::new(Error::TASK_NOT_FOUND, format!("there is no such configuration: {key}"))
}

/// The configuration as clients are shown it.
fn shown(task: &str, set: &Value, dialect: Dialect) -> Value {
    if dialect == Dialect::V1 {
        return flat_config(task, set);
    }
    json!({ "taskId": task, "pushNotificationConfig": set })
}

/// Returns a client's configuration as version 1.0 has it: flat, and with one scheme.
fn flat_config(task: &str, config: &Value) -> Value {
    let mut flat = config.as_object().cloned().unwrap_or_default();
    flat.insert("taskId".to_owned(), json!(task));
    if let Some(authentication) = flat.get_mut("authentication").and_then(Value::as_object_mut)
        && let Some(schemes) = authentication.remove("schemes")
    {
        let scheme = schemes.get(0).cloned().unwrap_or_else(|| json!("Bearer"));
        authentication.insert("scheme".to_owned(), scheme);
    }
    Value::Object(flat)
}

/// Returns the headers of a notification that show its receiver who sends it.
fn headers(config: &Value) -> Vec<(String, String)> {
    let mut headers = Vec::new();
    if let Some(token) = fields::text(config, &["token"]) {
        headers.push(("X-A2A-Notification-Token".to_owned(), token.to_owned()));
    }
    let authentication = config.get("authentication").unwrap_or(&Value::Null);
    if let Some(credentials) = fields::text(authentication, &["credentials"]) {
        let schemes = authentication.get("schemes").and_then(|schemes| schemes.get(0));
        let scheme = fields::text(authentication, &["scheme"]).or_else(|| schemes?.as_str());
        let value = format!("{} {credentials}", scheme.unwrap_or("Bearer"));
        headers.push(("Authorization".to_owned(), value));
    }
    headers
}

/// From where in the log on a task is told of.
fn from(context: &Context, turn: Option<TurnId>) -> usize {
    let turn = turn.or_else(|| context.session.running());
    let queued = turn.and_then(|id| context.story(|story| Some(story.turn(id)?.queued.0)));
    queued.unwrap_or_else(|| context.session.position())
}

/// Notifies one receiver of one task.
struct Notify {
    follow: Follow,
    key: String,
    target: Target,
    headers: Vec<(String, String)>,
    webhooks: Webhooks,
    dialect: Dialect,
    turn: Option<TurnId>,
    over: CancellationToken,
}

impl Notify {
    /// Runs until its task has ended; the session's task has no end but the server's.
    async fn run(mut self) {
        loop {
            let next = self.over.run_until_cancelled(self.follow.next()).await;
            let Some(frame) = next.or_else(|| self.follow.try_next()) else { return };
            let ours = self.turn.is_none_or(|turn| turn == frame.turn);
            if !ours || !frame.notable {
                continue;
            }
            // 1.0: what is sent is the event; 0.3: the task as it stands.
            let (kind, body) = if self.dialect == Dialect::V1 {
                ("application/a2a+json", frame.json)
            } else {
                let task = self.follow.context.task(self.turn, None);
                ("application/json", self.dialect.first(&task))
            };
            let mut headers = self.headers.clone();
            headers.push(("Content-Type".to_owned(), kind.to_owned()));
            let (key, target) = (self.key.clone(), self.target.clone());
            self.webhooks.send(Delivery { key, target, headers, body });
            if frame.end == End::Turn && self.turn.is_some() {
                return;
            }
        }
    }
}
