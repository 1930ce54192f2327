//! Title of a call: a verb, and the object of the call.

use tandem_agent::session::{Access, CallStarted, ToolKind};

/// Beginnings of labels, and the verbs that stand for them.
const VERBS: [(&str, &str); 14] = [
    ("Ask ", "Ask"),
    ("Clearing ", "Clear"),
    ("Commands in the background", "List the commands in the background"),
    ("Connect ", "Connect"),
    ("Create ", "Create"),
    ("Go on", "Go on"),
    ("Output of ", "Read the output of"),
    ("Reading ", "Read"),
    ("Remembering: ", "Remember:"),
    ("Searching ", "Search"),
    ("Stop ", "Stop"),
    ("Use ", "Use"),
    ("Will attempt to read and concatenate files using patterns: ", "Read"),
    ("Writing ", "Write"),
];

/// Title of a call.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Title {
    /// Verb in the imperative.
    pub(super) verb: &'static str,
    /// Object of the verb, on one line.
    pub(super) object: String,
}

impl Title {
    /// Returns the title of a call.
    pub(super) fn of(started: &CallStarted) -> Self {
        let label = started.summary.label.trim();
        if matches!(started.access, Access::Execute { .. }) || started.kind == ToolKind::Execute {
            let stops = label.starts_with("Stop PID ");
            let verb = if stops { "" } else { "Run" };
            return Self { verb, object: label.to_owned() };
        }
        let is_edit = started.kind == ToolKind::Edit;
        if let Some(file) = label.strip_prefix("Writing to ").filter(|_| is_edit) {
            return Self { verb: "Write", object: file.to_owned() };
        }
        if let Some((beginning, verb)) = VERBS.iter().find(|(it, _)| label.starts_with(it)) {
            return Self { verb, object: label[beginning.len()..].to_owned() };
        }
        let is_unread = label.strip_prefix(&*started.call.name);
        if is_unread.is_some_and(|args| args.is_empty() || args.starts_with(" {")) {
            return Self { verb: "Call", object: label.to_owned() };
        }
        // The change is shown below the title, so its texts are left out of the title.
        let file = label.split_once(": `").map_or(label, |(file, _)| file);
        let object = if is_edit { file } else { label }.to_owned();
        Self { verb: verb(started.kind), object }
    }

    /// Returns the whole title.
    pub(super) fn text(&self) -> String {
        format!("{} {}", self.verb, self.object.trim_start()).trim().to_owned()
    }
}

fn verb(kind: ToolKind) -> &'static str {
    match kind {
        ToolKind::Read => "Read",
        ToolKind::List => "List",
        ToolKind::Find => "Find",
        ToolKind::Search => "Search",
        ToolKind::Edit => "Edit",
        ToolKind::Execute => "Run",
        ToolKind::Fetch => "Fetch",
        ToolKind::Think => "Note",
        ToolKind::Other => "Call",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Title;

    #[track_caller]
    fn check(kind: &str, label: &str, expected: &str) {
        let started = json!({
            "call": { "id": "1", "name": "tool", "args": {} }, "caller": "Model", "kind": kind,
            "summary": { "label": label, "locations": [], "diff": null }, "access": "Nothing", "question": null,
        });
        let started = serde_json::from_value(started).unwrap();
        assert_eq!(Title::of(&started).text(), expected);
    }

    #[test]
    fn every_call_has_a_verb() {
        for (kind, label, expected) in [
            ("Edit", "src/cart.py: `    total = 0` => `    total = 1`", "Edit src/cart.py"),
            ("Edit", "Writing to a.txt", "Write a.txt"),
            ("Edit", "Create a.txt", "Create a.txt"),
            ("Execute", "  cargo test", "Run cargo test"),
            ("Execute", "Writing to x", "Run Writing to x"),
            ("Execute", "Stop PID 7: sleep 9", "Stop PID 7: sleep 9"),
            ("Read", "README.md", "Read README.md"),
            (
                "Read",
                "Will attempt to read and concatenate files using patterns: `a`, `b`",
                "Read `a`, `b`",
            ),
            ("List", "src", "List src"),
            ("Find", "'*.rs' within src", "Find '*.rs' within src"),
            ("Search", "'main' in src", "Search 'main' in src"),
            ("Fetch", "Reading https://a.example/", "Read https://a.example/"),
            ("Search", "Searching the web: crabs", "Search the web: crabs"),
            ("Think", "Writing 3 todos", "Write 3 todos"),
            ("Think", "Remembering: tabs", "Remember: tabs"),
            ("Other", "create_issue (github) {}", "Call create_issue (github) {}"),
            ("Edit", "tool {\"path\":\"x\"}", "Call tool {\"path\":\"x\"}"),
            ("Read", "tool", "Call tool"),
        ] {
            check(kind, label, expected);
        }
    }
}
