//! The translation of calls that use the tool and argument names of other agents, which models know from their
//! training, to the built-in tools and their arguments.

use serde_json::{Map, Value, json};

/// Prefixes that some models put before the name of a tool.
const NAME_PREFIXES: [&str; 2] = ["functions.", "default_api."];

/// Names of other agents' tools, in lower case and without `_` and `-`, each with the built-in tool that does the same.
const TOOL_NAMES: &[(&str, &str)] = &[
    ("bash", "run_shell_command"),
    ("shell", "run_shell_command"),
    ("shellcommand", "run_shell_command"),
    ("localshell", "run_shell_command"),
    ("execcommand", "run_shell_command"),
    ("executecommand", "run_shell_command"),
    ("runcommand", "run_shell_command"),
    ("runterminalcmd", "run_shell_command"),
    ("runinterminal", "run_shell_command"),
    ("terminal", "run_shell_command"),
    ("bashoutput", "read_background_output"),
    ("killbash", "stop_background_command"),
    ("killshell", "stop_background_command"),
    ("read", "read_file"),
    ("view", "read_file"),
    ("openfile", "read_file"),
    ("readmanyfiles", "read_many_files"),
    ("ls", "list_directory"),
    ("list", "list_directory"),
    ("listdir", "list_directory"),
    ("listfiles", "list_directory"),
    ("findfiles", "glob"),
    ("filesearch", "glob"),
    ("globfilesearch", "glob"),
    ("grep", "grep_search"),
    ("search", "grep_search"),
    ("searchfiles", "grep_search"),
    ("ripgrep", "grep_search"),
    ("write", "write_file"),
    ("createfile", "write_file"),
    ("writetofile", "write_file"),
    ("edit", "replace"),
    ("editfile", "replace"),
    ("multiedit", "replace"),
    ("strreplace", "replace"),
    ("searchreplace", "replace"),
    ("applydiff", "apply_patch"),
    ("askuserquestion", "ask_user"),
    ("requestuserinput", "ask_user"),
    ("question", "ask_user"),
    ("todowrite", "write_todos"),
    ("updateplan", "write_todos"),
    ("managetodolist", "write_todos"),
    ("webfetch", "web_fetch"),
    ("fetch", "web_fetch"),
    ("websearch", "google_web_search"),
];

/// Names of other agents' tools that have several commands. The argument `command` names the command.
const EDITOR_NAMES: [&str; 2] = ["strreplaceeditor", "strreplacebasededittool"];

/// Commands of the tools in `EDITOR_NAMES`, each with the built-in tool that does the same. No built-in tool does the
/// same as `insert` and `undo_edit`: these go to `replace`.
const EDITOR_COMMANDS: &[(&str, &str)] = &[
    ("view", "read_file"),
    ("create", "write_file"),
    ("str_replace", "replace"),
    ("insert", "replace"),
    ("undo_edit", "replace"),
];

/// Pairs of another agent's name for an argument and the argument's own name.
type ArgumentNames = &'static [(&'static str, &'static str)];

const FILE_ARGUMENTS: ArgumentNames = &[
    ("path", "file_path"),
    ("filePath", "file_path"),
    ("absolute_path", "file_path"),
    ("target_file", "file_path"),
];

const DIRECTORY_ARGUMENTS: ArgumentNames =
    &[("path", "dir_path"), ("directory", "dir_path"), ("target_directory", "dir_path")];

const PROCESS_ARGUMENTS: ArgumentNames =
    &[("bash_id", "pid"), ("shell_id", "pid"), ("task_id", "pid"), ("session_id", "pid")];

/// The tool that applies patches, and the program of another agent that does the same.
const PATCH_TOOL: &str = "apply_patch";

/// Other agents' names for the arguments of each built-in tool.
const TOOL_ARGUMENTS: &[(&str, &[ArgumentNames])] = &[
    (
        "run_shell_command",
        &[&[
            ("cmd", "command"),
            ("script", "command"),
            ("workdir", "dir_path"),
            ("cwd", "dir_path"),
            ("directory", "dir_path"),
            ("working_directory", "dir_path"),
            ("run_in_background", "is_background"),
            ("isBackground", "is_background"),
            ("timeout_ms", "timeout"),
            ("explanation", "description"),
        ]],
    ),
    ("read_background_output", &[PROCESS_ARGUMENTS]),
    ("write_stdin", &[PROCESS_ARGUMENTS, &[("input", "chars"), ("yield_time_ms", "wait_ms")]]),
    ("stop_background_command", &[PROCESS_ARGUMENTS]),
    ("read_file", &[FILE_ARGUMENTS]),
    ("write_file", &[FILE_ARGUMENTS, &[("file_text", "content"), ("contents", "content")]]),
    (
        "replace",
        &[
            FILE_ARGUMENTS,
            &[
                ("old_str", "old_string"),
                ("oldString", "old_string"),
                ("old_text", "old_string"),
                ("new_str", "new_string"),
                ("newString", "new_string"),
                ("new_text", "new_string"),
                ("replace_all", "allow_multiple"),
                ("replaceAll", "allow_multiple"),
            ],
        ],
    ),
    ("apply_patch", &[&[("patch", "input"), ("patchText", "input"), ("patch_text", "input")]]),
    ("list_directory", &[DIRECTORY_ARGUMENTS]),
    ("glob", &[DIRECTORY_ARGUMENTS, &[("glob_pattern", "pattern")]]),
    (
        "grep_search",
        &[
            DIRECTORY_ARGUMENTS,
            &[
                ("query", "pattern"),
                ("regex", "pattern"),
                ("include", "include_pattern"),
                ("glob", "include_pattern"),
                ("file_pattern", "include_pattern"),
                ("-A", "after"),
                ("-B", "before"),
                ("-C", "context"),
                ("head_limit", "total_max_matches"),
            ],
        ],
    ),
    ("read_many_files", &[&[("paths", "include"), ("files", "include")]]),
    ("write_todos", &[&[("plan", "todos"), ("todoList", "todos")]]),
    ("web_fetch", &[&[("urls", "url")]]),
];

/// Arguments of other agents' tools that do not change the effect of a call, for each built-in tool. They are dropped.
const IDLE_ARGUMENTS: &[(&str, &[&str])] = &[
    (
        "run_shell_command",
        &["shell", "login", "yield_time_ms", "max_output_tokens", "requires_approval"],
    ),
    ("write_stdin", &["max_output_tokens"]),
    ("read_background_output", &["block", "filter"]),
    ("grep_search", &["-n"]),
    ("write_todos", &["explanation"]),
    ("glob", &["explanation"]),
    ("read_file", &["explanation"]),
    ("list_directory", &["explanation"]),
    ("write_file", &["explanation"]),
    ("replace", &["explanation"]),
];

/// A call of a built-in tool.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct BuiltInCall {
    /// Name of the tool.
    pub(super) tool: &'static str,
    /// Arguments of the call, under the tool's own names.
    pub(super) args: Value,
}

/// Returns the call of a built-in tool that means the same as a call of another agent's tool; `None` if no built-in
/// tool does.
pub(super) fn translate(name: &str, args: Value) -> Option<BuiltInCall> {
    let key = key(without_prefix(name));
    if EDITOR_NAMES.contains(&key.as_str()) {
        return editor_call(args);
    }
    let own = TOOL_ARGUMENTS.iter().map(|(tool, _)| *tool).find(|tool| self::key(tool) == key);
    let tool =
        own.or_else(|| TOOL_NAMES.iter().find(|(other, _)| *other == key).map(|(_, tool)| *tool))?;
    Some(BuiltInCall { tool, args: arguments(tool, args) })
}

/// Returns the arguments of a call of a built-in tool under the names that the tool knows. An argument that is there
/// under two names with different values is left as it is, so that the tool refuses the call.
pub(super) fn arguments(tool: &str, args: Value) -> Value {
    let mut args = match args {
        Value::Object(args) => args,
        // Some models write a patch as it is, although the tool is declared as a function.
        Value::String(patch) if tool == PATCH_TOOL => return json!({ "input": patch }),
        other => return other,
    };
    let groups =
        TOOL_ARGUMENTS.iter().filter(|(of, _)| *of == tool).flat_map(|(_, groups)| *groups);
    for (other, own) in groups.copied().flatten() {
        rename(&mut args, other, own);
    }
    for idle in IDLE_ARGUMENTS.iter().filter(|(of, _)| *of == tool).flat_map(|(_, names)| *names) {
        args.remove(*idle);
    }
    match tool {
        "run_shell_command" => {
            join_command(&mut args);
            terminal_flag(&mut args);
        }
        "read_file" => view_range(&mut args),
        "replace" => edits(&mut args),
        "grep_search" => grep_flags(&mut args),
        _ => {}
    }
    Value::Object(args)
}

/// Returns the call of the tool that applies patches, for a command line that does nothing but apply a patch,
/// perhaps in another directory: models know `apply_patch` as a program, too.
pub(super) fn patch_of_command(tool: &str, args: &Value) -> Option<BuiltInCall> {
    if tool != "run_shell_command" {
        return None;
    }
    let line = args.get("command")?.as_str()?.trim();
    let (changed, line) = match line.strip_prefix("cd ") {
        Some(rest) => {
            let (directory, line) = rest.split_once("&&")?;
            (Some(plain_word(directory.trim())?), line.trim_start())
        }
        None => (None, line),
    };
    let rest = line.strip_prefix("apply_patch").or_else(|| line.strip_prefix("applypatch"))?;
    let rest = rest
        .strip_prefix(|c: char| c.is_ascii_whitespace())
        .unwrap_or(rest)
        .trim_start_matches(' ');
    let patch = heredoc(rest).or_else(|| quoted_word(rest))?;
    let directory = args.get("dir_path").and_then(Value::as_str);
    let directory = match (directory, changed) {
        (Some(directory), Some(changed)) if !changed.starts_with('/') => {
            Some(format!("{directory}/{changed}"))
        }
        (_, Some(changed)) => Some(changed),
        (directory, None) => directory.map(str::to_owned),
    };
    let mut args = json!({ "input": patch });
    if let Some(directory) = directory {
        args["dir_path"] = directory.into();
    }
    Some(BuiltInCall { tool: PATCH_TOOL, args })
}

/// Returns a word of a command line that stands for itself, without its quotes.
fn plain_word(word: &str) -> Option<String> {
    let unquoted =
        ['\'', '"'].iter().find_map(|quote| word.strip_prefix(*quote)?.strip_suffix(*quote));
    let is_plain = |word: &str| {
        !word.is_empty()
            && !word
                .contains(['\'', '"', '\\', '$', '`', '*', '?', '[', '~', ';', '&', '|', '<', '>'])
    };
    match unquoted {
        Some(word) => is_plain(word).then(|| word.to_owned()),
        None => (is_plain(word) && !word.contains(char::is_whitespace)).then(|| word.to_owned()),
    }
}

/// Returns the text of a here-document that is all of the rest of a command line.
fn heredoc(rest: &str) -> Option<String> {
    let (head, body) = rest.strip_prefix("<<")?.split_once('\n')?;
    let mark = plain_word(head.trim())?;
    let body = body.trim_end();
    let text = body.strip_suffix(&mark)?;
    // The mark must be a line of its own, and no line before it may end the text.
    let is_whole =
        (text.is_empty() || text.ends_with('\n')) && !text.lines().any(|line| line == mark);
    is_whole.then(|| text.to_owned())
}

/// Returns the text of a word in single quotes that is all of the rest of a command line.
fn quoted_word(rest: &str) -> Option<String> {
    let inside = rest.trim_end().strip_prefix('\'')?.strip_suffix('\'')?;
    // A quote within the word is written as the end of the word, an escaped quote, and its beginning.
    let text = inside.replace(r"'\''", "\0");
    (!text.contains('\'')).then(|| text.replace('\0', "'"))
}

/// Returns the name of a tool without the prefix that a model has put before it.
pub(super) fn without_prefix(name: &str) -> &str {
    NAME_PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name)
}

/// Returns a name in lower case without `_` and `-`. So `TodoWrite`, `todo_write` and `todo-write` get one key.
fn key(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '_' | '-')).map(|c| c.to_ascii_lowercase()).collect()
}

fn editor_call(args: Value) -> Option<BuiltInCall> {
    let Value::Object(mut args) = args else { return None };
    let command = args.remove("command")?;
    let (_, tool) = EDITOR_COMMANDS.iter().find(|(other, _)| command == *other)?;
    Some(BuiltInCall { tool, args: arguments(tool, Value::Object(args)) })
}

/// Renames the argument `other` to `own`, unless `own` is there already with another value.
fn rename(args: &mut Map<String, Value>, other: &str, own: &str) {
    let Some(value) = args.get(other) else { return };
    match args.get(own) {
        Some(same) if same == value || value.is_null() => _ = args.remove(other),
        Some(Value::Null) | None => {
            let value = args.remove(other).unwrap_or_default();
            args.insert(own.to_owned(), value);
        }
        Some(_) => {}
    }
}

/// Replaces a `command` that is a list of words by a command line. Of `["bash", "-lc", LINE]`, only the line is used.
fn join_command(args: &mut Map<String, Value>) {
    let Some(Value::Array(words)) = args.get("command") else { return };
    let Some(words) = words.iter().map(Value::as_str).collect::<Option<Vec<_>>>() else { return };
    let line = match words[..] {
        ["bash" | "sh" | "/bin/bash" | "/bin/sh", "-c" | "-lc", line] => line.to_owned(),
        _ => words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "),
    };
    args.insert("command".to_owned(), Value::String(line));
}

/// Replaces `tty` by `stdin`: only commands that have a terminal are written to by another agent.
fn terminal_flag(args: &mut Map<String, Value>) {
    if args.remove("tty") == Some(Value::Bool(true)) {
        args.entry("stdin").or_insert(json!(true));
    }
}

/// Returns a word quoted, if need be, so that a shell takes it literally.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Replaces `view_range`, the numbers of the first line and of the last one (-1: the end), by `start_line` and
/// `end_line`.
fn view_range(args: &mut Map<String, Value>) {
    let Some(range) = args.get("view_range") else { return };
    if let Some([Some(first), Some(last)]) =
        range.as_array().map(|range| [0, 1].map(|at| range.get(at).and_then(Value::as_i64)))
    {
        args.insert("start_line".to_owned(), json!(first));
        if last != -1 {
            args.insert("end_line".to_owned(), json!(last));
        }
        args.remove("view_range");
    }
}

/// Replaces the options `-i` and `output_mode` by `case_sensitive` and `names_only`.
fn grep_flags(args: &mut Map<String, Value>) {
    if let Some(Value::Bool(ignores_case)) = args.get("-i") {
        let is_sensitive = !ignores_case;
        args.remove("-i");
        args.entry("case_sensitive").or_insert(json!(is_sensitive));
    }
    let names_only = match args.get("output_mode").and_then(Value::as_str) {
        Some("files_with_matches") => true,
        Some("content") => false,
        _ => return,
    };
    args.remove("output_mode");
    args.entry("names_only").or_insert(json!(names_only));
}

/// Renames the arguments of each edit in a list of edits to the names that `replace` knows.
fn edits(args: &mut Map<String, Value>) {
    let Some(Value::Array(edits)) = args.get_mut("edits") else { return };
    for edit in edits {
        *edit = arguments("replace", edit.take());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{BuiltInCall, arguments, patch_of_command, translate};

    fn check(name: &str, args: Value, tool: &'static str, expected: Value) {
        let call = translate(name, args);
        assert_eq!(call, Some(BuiltInCall { tool, args: expected }), "{name}");
    }

    #[test]
    fn commands_of_other_agents_are_commands() {
        let line = || json!({ "command": "ls -a" });
        check("Bash", line(), "run_shell_command", line());
        check("functions.shell", line(), "run_shell_command", line());
        check("exec_command", json!({ "cmd": "ls -a", "tty": false }), "run_shell_command", line());
        check("shell", json!({ "command": ["bash", "-lc", "ls -a"] }), "run_shell_command", line());
        check(
            "exec_command",
            json!({ "cmd": "python3 -i", "tty": true, "yield_time_ms": 9 }),
            "run_shell_command",
            json!({ "command": "python3 -i", "stdin": true }),
        );
        check(
            "shell",
            json!({ "command": ["printf", "%s", "it's", ""], "workdir": "src" }),
            "run_shell_command",
            json!({ "command": r"printf %s 'it'\''s' ''", "dir_path": "src" }),
        );
        check(
            "Bash",
            json!({ "command": "serve", "timeout": 9, "run_in_background": true }),
            "run_shell_command",
            json!({ "command": "serve", "timeout": 9, "is_background": true }),
        );
    }

    #[test]
    fn texts_for_programs_of_other_agents_are_texts_for_commands_in_the_background() {
        check(
            "write_stdin",
            json!({ "session_id": 7, "chars": "x\n", "yield_time_ms": 9, "max_output_tokens": 1 }),
            "write_stdin",
            json!({ "pid": 7, "chars": "x\n", "wait_ms": 9 }),
        );
    }

    #[test]
    fn reads_of_other_agents_name_the_first_line_and_the_number_of_lines() {
        check(
            "Read",
            json!({ "file_path": "a", "offset": 10, "limit": 5 }),
            "read_file",
            json!({ "file_path": "a", "offset": 10, "limit": 5 }),
        );
        check("read", json!({ "filePath": "a" }), "read_file", json!({ "file_path": "a" }));
    }

    #[test]
    fn editors_with_commands_are_the_tool_that_the_command_names() {
        check(
            "str_replace_editor",
            json!({ "command": "view", "path": "a", "view_range": [3, -1] }),
            "read_file",
            json!({ "file_path": "a", "start_line": 3 }),
        );
        check(
            "str_replace_based_edit_tool",
            json!({ "command": "str_replace", "path": "a", "old_str": "x", "new_str": "y" }),
            "replace",
            json!({ "file_path": "a", "old_string": "x", "new_string": "y" }),
        );
        check(
            "str_replace_editor",
            json!({ "command": "create", "path": "a", "file_text": "x" }),
            "write_file",
            json!({ "file_path": "a", "content": "x" }),
        );
        assert_eq!(translate("str_replace_editor", json!({ "command": "fly", "path": "a" })), None);
    }

    #[test]
    fn several_edits_in_one_call_have_their_other_names() {
        check(
            "MultiEdit",
            json!({ "file_path": "a", "edits": [{ "old_str": "x", "new_str": "y", "replace_all": true }] }),
            "replace",
            json!({
                "file_path": "a",
                "edits": [{ "old_string": "x", "new_string": "y", "allow_multiple": true }],
            }),
        );
    }

    #[test]
    fn edits_searches_lists_and_todos_have_their_other_names() {
        check(
            "Edit",
            json!({ "filePath": "a", "oldString": "x", "newString": "y", "replaceAll": true }),
            "replace",
            json!({ "file_path": "a", "old_string": "x", "new_string": "y", "allow_multiple": true }),
        );
        check(
            "Write",
            json!({ "path": "a", "content": "x" }),
            "write_file",
            json!({ "file_path": "a", "content": "x" }),
        );
        check("LS", json!({ "path": "src" }), "list_directory", json!({ "dir_path": "src" }));
        check(
            "Glob",
            json!({ "pattern": "*", "path": "a" }),
            "glob",
            json!({ "pattern": "*", "dir_path": "a" }),
        );
        check(
            "Grep",
            json!({ "pattern": "x", "glob": "*.rs", "-i": true, "-n": true, "-C": 2, "output_mode": "content" }),
            "grep_search",
            json!({ "pattern": "x", "include_pattern": "*.rs", "case_sensitive": false, "context": 2, "names_only": false }),
        );
        check(
            "TodoWrite",
            json!({ "todos": [{ "content": "x", "status": "pending", "activeForm": "doing x" }] }),
            "write_todos",
            json!({ "todos": [{ "content": "x", "status": "pending", "activeForm": "doing x" }] }),
        );
        check(
            "update_plan",
            json!({ "explanation": "so", "plan": [{ "step": "x", "status": "completed" }] }),
            "write_todos",
            json!({ "todos": [{ "step": "x", "status": "completed" }] }),
        );
    }

    #[test]
    fn one_argument_under_two_names_counts_once_if_the_values_are_the_same() {
        let named = |args| arguments("read_file", args);
        assert_eq!(named(json!({ "path": "a", "file_path": "a" })), json!({ "file_path": "a" }));
        assert_eq!(named(json!({ "path": null, "file_path": "a" })), json!({ "file_path": "a" }));
        let two = json!({ "path": "b", "file_path": "a" });
        assert_eq!(named(two.clone()), two);
    }

    #[test]
    fn a_command_line_that_only_applies_a_patch_is_a_patch() {
        const PATCH: &str = "*** Begin Patch\n*** Add File: a\n+it's $HOME\n*** End Patch\n";
        let of = |command: Value| {
            let args = arguments("run_shell_command", json!({ "command": command }));
            patch_of_command("run_shell_command", &args).map(|call| call.args)
        };
        let patch = || Some(json!({ "input": PATCH }));
        let line = |before: &str, mark: &str, after: &str| {
            of(json!(format!("{before}apply_patch <<{mark}\n{PATCH}EOF\n{after}")))
        };
        assert_eq!(line("", "'EOF'", ""), patch());
        assert_eq!(line("", "\"EOF\"", "\n"), patch());
        assert_eq!(line("", " EOF", ""), patch());
        assert_eq!(of(json!(["apply_patch", PATCH])), patch());
        assert_eq!(of(json!(["bash", "-lc", format!("apply_patch <<'EOF'\n{PATCH}EOF")])), patch());
        let below = Some(json!({ "input": PATCH, "dir_path": "a b" }));
        assert_eq!(line("cd 'a b' && ", "'EOF'", ""), below);
        // A line that does more than apply a patch stays a command.
        assert_eq!(line("", "'EOF'", "rm -rf x\n"), None);
        assert_eq!(line("", "'EOF' && rm x", ""), None);
        assert_eq!(line("", "'EOF' > log", ""), None);
        assert_eq!(line("cd $(x) && ", "'EOF'", ""), None);
        assert_eq!(line("rm x; ", "'EOF'", ""), None);
        assert_eq!(of(json!(format!("apply_patch <<E\n{PATCH}E\nrm x\nE"))), None);
        assert_eq!(of(json!(format!("apply_patch '{PATCH}' && rm x"))), None);
        assert_eq!(of(json!("apply_patch patch.txt")), None);
        assert_eq!(of(json!("apply_patches <<E\nE")), None);
    }

    #[test]
    fn a_tool_that_no_agent_has_stays_unknown() {
        assert_eq!(translate("launch_rocket", json!({})), None);
    }
}
