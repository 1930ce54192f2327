//! The methods of A2A: one table for JSON-RPC in both versions, for HTTP+JSON, and for the client.

use self::Method::{
    Cancel, Commands, DeletePush, Execute, ExtendedCard, Get, GetPush, List, ListPush, Send,
    SetPush, Stream, Subscribe,
};
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

/// A row: the method, its names in 0.3 and 1.0, its verb and path in HTTP+JSON if the binding has the method, and
/// `true` if the method streams.
type Row = (Method, &'static str, &'static str, Option<(Verb, &'static str)>, bool);

/// The rows, in the order of the methods. A method of tandem's own has the same name in both versions.
#[rustfmt::skip] // one line for each method
const METHOD_ROWS: [Row; 13] = [
    (Send, "message/send", "SendMessage", Some((Post, "/message:send")), false),
    (Stream, "message/stream", "SendStreamingMessage", Some((Post, "/message:stream")), true),
    (Get, "tasks/get", "GetTask", Some((Read, "/tasks/{id}")), false),
    (Cancel, "tasks/cancel", "CancelTask", Some((Post, "/tasks/{id}:cancel")), false),
    (Subscribe, "tasks/resubscribe", "SubscribeToTask", Some((Read, "/tasks/{id}:subscribe")), true),
    (List, "tasks/list", "ListTasks", Some((Read, "/tasks")), false),
    (SetPush, "tasks/pushNotificationConfig/set", "CreateTaskPushNotificationConfig", Some((Post, CONFIGS_PATH)), false),
    (GetPush, "tasks/pushNotificationConfig/get", "GetTaskPushNotificationConfig", Some((Read, CONFIG_PATH)), false),
    (ListPush, "tasks/pushNotificationConfig/list", "ListTaskPushNotificationConfigs", Some((Read, CONFIGS_PATH)), false),
    (DeletePush, "tasks/pushNotificationConfig/delete", "DeleteTaskPushNotificationConfig", Some((Delete, CONFIG_PATH)), false),
    (ExtendedCard, "agent/getAuthenticatedExtendedCard", "GetExtendedAgentCard", Some((Read, "/extendedAgentCard")), false),
    (Commands, "commands/get", "commands/get", None, false),
    (Execute, "command/execute", "command/execute", None, false),
];

// A variant without a row does not compile, as long as `Execute` is the last variant.
const _: () = assert!(METHOD_ROWS.len() == Execute as usize + 1);

/// Paths of the configurations of push notifications.
const CONFIGS_PATH: &str = "/tasks/{taskId}/pushNotificationConfigs";
const CONFIG_PATH: &str = "/tasks/{taskId}/pushNotificationConfigs/{id}";

impl Method {
    /// Returns all methods.
    pub fn all() -> impl Iterator<Item = Self> {
        METHOD_ROWS.iter().map(|row| row.0)
    }

    /// Returns the method and the version of a name. A name that both versions have counts as one of 0.3.
    pub fn named(name: &str) -> Option<(Self, ProtocolVersion)> {
        let v03 = || Self::all().find(|method| method.name(ProtocolVersion::V03) == name);
        let v1 = || Self::all().find(|method| method.name(ProtocolVersion::V1) == name);
        let v03 = v03().map(|method| (method, ProtocolVersion::V03));
        v03.or_else(|| Some((v1()?, ProtocolVersion::V1)))
    }

    fn row(self) -> &'static Row {
        &METHOD_ROWS[self as usize]
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
        let (verb, path) = self.row().3?;
        Some(MethodAddress { verb, path })
    }

    /// Returns `true` if the reply is a stream.
    pub fn streams(self) -> bool {
        self.row().4
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
    fn each_method_of_http_json_has_the_address_of_the_specification() {
        // The table of section 5.3 of A2A 1.0, in its order.
        let expected = [
            (Send, Post, "/message:send"),
            (Stream, Post, "/message:stream"),
            (Get, Read, "/tasks/{id}"),
            (List, Read, "/tasks"),
            (Cancel, Post, "/tasks/{id}:cancel"),
            (Subscribe, Read, "/tasks/{id}:subscribe"),
            (SetPush, Post, "/tasks/{taskId}/pushNotificationConfigs"),
            (GetPush, Read, "/tasks/{taskId}/pushNotificationConfigs/{id}"),
            (ListPush, Read, "/tasks/{taskId}/pushNotificationConfigs"),
            (DeletePush, Delete, "/tasks/{taskId}/pushNotificationConfigs/{id}"),
            (ExtendedCard, Read, "/extendedAgentCard"),
        ];
        for (method, verb, path) in expected {
            assert_eq!(method.address(), Some(MethodAddress { verb, path }), "{method:?}");
        }
        let with_address = Method::all().filter(|method| method.address().is_some());
        assert_eq!(with_address.count(), expected.len());
    }
}
