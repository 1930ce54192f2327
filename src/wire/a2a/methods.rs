//! The methods of A2A: one table for JSON-RPC in both versions, for HTTP+JSON, and for the client.

use self::Method::{
    Cancel, Commands, DeletePush, Execute, ExtendedCard, Get, GetPush, List, ListPush, Send,
    SetPush, Stream, Subscribe,
};
use self::MethodRight::{Drive, Own, Watch};
use self::Verb::{Delete, Get as Read, Post};

/// A version of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProtocolVersion {
    /// A2A 0.3.
    V03,
    /// A2A 1.0.
    V1,
}

/// A method, independent of the names that the versions give it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Sends a message, and waits for the task.
    Send,
    /// Sends a message, and streams the updates of the task.
    Stream,
    /// Returns a task.
    Get,
    /// Cancels a task.
    Cancel,
    /// Streams the updates of a task.
    Subscribe,
    /// Lists tasks.
    List,
    /// Sets a receiver of push notifications.
    SetPush,
    /// Returns a receiver of push notifications.
    GetPush,
    /// Lists the receivers of push notifications.
    ListPush,
    /// Deletes a receiver of push notifications.
    DeletePush,
    /// Returns the agent card for authenticated clients.
    ExtendedCard,
    /// Lists the slash commands.
    Commands,
    /// Runs a slash command.
    Execute,
}

/// Right that a call of a method needs in the session that it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MethodRight {
    /// Right to read the session.
    Watch,
    /// Right to send prompts. A message that answers a question needs less.
    Drive,
    /// Right of the session's owner.
    Own,
}

/// Verb of HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// `GET`.
    Get,
    /// `POST`.
    Post,
    /// `DELETE`.
    Delete,
}

/// Address of a method in HTTP+JSON (1.0, section 11.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MethodAddress {
    /// The verb.
    pub verb: Verb,
    /// The path, with the names of parameters in braces.
    pub path: &'static str,
}

/// A row: the method, its names in 0.3 and 1.0, its verb and path, the right that it needs, and `true` if it streams.
/// The path is empty if HTTP+JSON does not have the method.
type Row = (Method, &'static str, &'static str, Verb, &'static str, MethodRight, bool);

/// The rows, in the order of the methods. A method of tandem's own has the same name in both versions.
#[rustfmt::skip] // one line for each method
const ROWS: [Row; 13] = [
    (Send, "message/send", "SendMessage", Post, "/message:send", Drive, false),
    (Stream, "message/stream", "SendStreamingMessage", Post, "/message:stream", Drive, true),
    (Get, "tasks/get", "GetTask", Read, "/tasks/{id}", Watch, false),
    (Cancel, "tasks/cancel", "CancelTask", Post, "/tasks/{id}:cancel", Drive, false),
    (Subscribe, "tasks/resubscribe", "SubscribeToTask", Read, "/tasks/{id}:subscribe", Watch, true),
    (List, "tasks/list", "ListTasks", Read, "/tasks", Watch, false),
    (SetPush, "tasks/pushNotificationConfig/set", "CreateTaskPushNotificationConfig", Post, CONFIGS, Own, false),
    (GetPush, "tasks/pushNotificationConfig/get", "GetTaskPushNotificationConfig", Read, CONFIG, Own, false),
    (ListPush, "tasks/pushNotificationConfig/list", "ListTaskPushNotificationConfigs", Read, CONFIGS, Own, false),
    (DeletePush, "tasks/pushNotificationConfig/delete", "DeleteTaskPushNotificationConfig", Delete, CONFIG, Own, false),
    (ExtendedCard, "agent/getAuthenticatedExtendedCard", "GetExtendedAgentCard", Read, "/extendedAgentCard", Watch, false),
    (Commands, "commands/get", "commands/get", Read, "", Watch, false),
    (Execute, "command/execute", "command/execute", Post, "", Drive, false),
];

/// Paths of the configurations of push notifications.
const CONFIGS: &str = "/tasks/{taskId}/pushNotificationConfigs";
const CONFIG: &str = "/tasks/{taskId}/pushNotificationConfigs/{id}";

impl Method {
    /// Returns all methods.
    pub fn all() -> impl Iterator<Item = Self> {
        ROWS.iter().map(|row| row.0)
    }

    /// Returns the method and the version of a name. A name that both versions have counts as one of 0.3.
    pub fn named(name: &str) -> Option<(Self, ProtocolVersion)> {
        let v03 = || Self::all().find(|method| method.name(ProtocolVersion::V03) == name);
        let v1 = || Self::all().find(|method| method.name(ProtocolVersion::V1) == name);
        let v03 = v03().map(|method| (method, ProtocolVersion::V03));
        v03.or_else(|| Some((v1()?, ProtocolVersion::V1)))
    }

    fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }

    /// Returns the name in a version.
    pub fn name(self, version: ProtocolVersion) -> &'static str {
        match version {
            ProtocolVersion::V03 => self.row().1,
            ProtocolVersion::V1 => self.row().2,
        }
    }

    /// Returns the address in HTTP+JSON; `None` if the binding does not have the method.
    pub fn address(self) -> Option<MethodAddress> {
        let (_, _, _, verb, path, ..) = *self.row();
        (!path.is_empty()).then_some(MethodAddress { verb, path })
    }

    /// Returns the right that a call needs in the session that it names.
    pub fn right(self) -> MethodRight {
        self.row().5
    }

    /// Returns `true` if the reply is a stream.
    pub fn streams(self) -> bool {
        self.row().6
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_method_has_its_row_and_is_found_by_its_names() {
        for (n, method) in Method::all().enumerate() {
            assert_eq!(method as usize, n);
            assert_eq!(method.row().0, method);
            for version in [ProtocolVersion::V03, ProtocolVersion::V1] {
                let found = Method::named(method.name(version)).unwrap();
                assert_eq!(found.0, method);
                let is_own = matches!(method, Commands | Execute);
                assert!(is_own || found.1 == version);
            }
        }
        assert_eq!(Method::named(""), None);
    }

    #[test]
    fn no_two_methods_have_the_same_address() {
        let addresses: Vec<_> = Method::all().filter_map(Method::address).collect();
        for (n, address) in addresses.iter().enumerate() {
            assert!(!addresses[..n].contains(address), "{address:?}");
        }
    }
}
