//! The manual's table of what is asked about. It must be that of the policy, for each fact in each approval mode,
//! without a sandbox and with one.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use tandem_approval::{Mode, SandboxSituation, Verdict};
use tandem_host::workspace::OutsideFile;
use tandem_host::{Access, Hints};
use tandem_policy::decide::{Action, Confinement, decide};
use tandem_policy::findings::Fact;
use tandem_sandbox::SandboxMode;

use super::program_input::{Running, feed};
use super::questions::{Session, call};
use super::repository_file;
use super::sandbox::{WHOLE, check};

/// Page with the table, and the beginning of its first line.
const PAGE: &str = "docs/permissions.md";
const HEADER: &str = "| a call that | for example |";

/// Calls with the same facts. The manual shows the first call, and the table of the policy decides each.
struct Row {
    name: &'static str,
    facts: &'static [Fact],
    calls: &'static [Call],
}

enum Call {
    Line(&'static str),
    /// Line that the model wants to run outside of the sandbox.
    Leaving(&'static str),
    Edit(&'static str),
    Read(&'static str),
    /// A call that reads this file outside of the workspace. The question offers an "always" for the folder.
    ReadOutside(&'static str),
    /// A call of the tool with this name.
    Tool(&'static str, fn() -> Access),
    /// A text for a program that runs where commands run without a question.
    Feed(&'static str),
    /// A text for a program that runs outside of the sandbox, if there is one.
    FeedOutside(&'static str),
}

use Call::{Edit, Feed, FeedOutside, Leaving, Line, Read, ReadOutside, Tool};

const ROWS: [Row; 30] = [
    Row {
        name: "only reads the workspace",
        facts: &[],
        calls: &[Line("git status"), Line("grep x README.md | head"), Line("cd src && ls")],
    },
    Row {
        name: "is not on the list of commands that only read",
        facts: &[Fact::RunsUnknown],
        calls: &[Line("make"), Line("cargo test"), Line("npm install"), Line("X=1 ls")],
    },
    Row {
        name: "runs code from the line, or any other program",
        facts: &[Fact::RunsDangerous],
        calls: &[Line("python3 -c 'print(1)'"), Line("ssh host ls"), Line("sh")],
    },
    Row {
        name: "runs as another user",
        facts: &[Fact::RunsDangerous],
        calls: &[Line("sudo ls"), Line("su -c ls")],
    },
    Row {
        name: "is known only when it runs, or cannot be analysed",
        facts: &[Fact::Unresolved],
        calls: &[Line("$X"), Line("ls > $X"), Line("ls '"), Line("echo $(")],
    },
    Row {
        name: "changes which programs run",
        facts: &[Fact::ChangesPrograms],
        calls: &[Line("PATH=. ls"), Line("LD_PRELOAD=x.so ls")],
    },
    Row {
        name: "writes a file of the workspace by a redirection",
        facts: &[Fact::WritesFile],
        calls: &[Line("echo x > out.txt"), Line("ls >> src/list")],
    },
    Row {
        name: "changes, moves or deletes files that it names",
        facts: &[Fact::RunsUnknown],
        calls: &[Line("rm a.txt"), Line("mv two/a.txt b.txt"), Line("truncate -s 0 README.md")],
    },
    Row {
        name: "deletes recursively, or without asking",
        facts: &[Fact::Deletes],
        calls: &[Line("rm -r src"), Line("rm -f a.txt"), Line("find . -delete")],
    },
    Row {
        name: "changes a file outside the workspace",
        facts: &[Fact::ChangesOutside],
        calls: &[Line("echo x > ../x"), Line("touch /etc/x"), Line("cp README.md ../x")],
    },
    Row {
        name: "changes a file that takes effect by itself",
        facts: &[Fact::ChangesSensitive],
        calls: &[
            Line("echo x > AGENTS.md"),
            Line("touch src/.vscode/tasks.json"),
            Line("rm .bashrc"),
        ],
    },
    Row {
        name: "changes one that package managers write, too",
        facts: &[Fact::ChangesUnprotected],
        calls: &[
            Line("echo x > package.json"),
            Line("rm web/package.json"),
            Line("mkdir node_modules"),
        ],
    },
    Row {
        name: "reads or writes a secret",
        facts: &[Fact::NamesSecret],
        calls: &[Line("cat .env"), Line("cat < .env"), Line("grep x .env")],
    },
    Row {
        name: "may read one, which only running it would tell",
        facts: &[Fact::RunsUnknown, Fact::MayNameSecret],
        calls: &[Line("cat $X")],
    },
    Row {
        name: "changes what git keeps",
        facts: &[Fact::RunsUnknown, Fact::ChangesRepository],
        calls: &[Line("git commit -m x"), Line("git push"), Line("git add README.md")],
    },
    Row {
        name: "has git discard what cannot be restored",
        facts: &[Fact::RunsDangerous, Fact::ChangesRepository],
        calls: &[Line("git reset --hard"), Line("git clean -fd"), Line("git push --force")],
    },
    Row {
        name: "only reads, and is to leave the sandbox",
        facts: &[Fact::LeavesSandbox],
        calls: &[Leaving("git status"), Leaving("ls")],
    },
    Row {
        name: "writes to a program that runs",
        facts: &[Fact::FeedsProgram],
        calls: &[Feed("print(1)\n"), Feed("ls\n"), Feed("")],
    },
    Row {
        name: "writes to one that runs outside the sandbox",
        facts: &[Fact::FeedsProgram],
        calls: &[FeedOutside("print(1)\n"), FeedOutside("ls\n")],
    },
    Row {
        name: "edits a file with a tool",
        facts: &[Fact::WritesFile],
        calls: &[Edit("src/main.rs"), Edit("Makefile")],
    },
    Row {
        name: "edits one that takes effect by itself, or a secret",
        facts: &[Fact::ChangesSensitive],
        calls: &[Edit("package.json"), Edit("src/.envrc"), Edit(".env")],
    },
    Row {
        name: "reads a secret with a tool",
        facts: &[Fact::ReadsSecret],
        calls: &[Read(".env"), Read("src/.npmrc")],
    },
    Row {
        name: "reads a file of the hidden home with a tool",
        facts: &[Fact::ReadsHiddenHome],
        calls: &[ReadOutside("~/notes/x"), ReadOutside("/home/me/.bashrc")],
    },
    Row {
        name: "calls a tool of an MCP server",
        facts: &[Fact::CallsServer],
        calls: &[Tool("mcp_git_push", || server(Hints::default()))],
    },
    Row {
        name: "calls one that only reads, as the server says",
        facts: &[Fact::CallsReadingServer],
        calls: &[Tool("mcp_git_log", || {
            server(Hints { read_only: Some(true), ..Hints::default() })
        })],
    },
    Row {
        name: "sends something to another agent",
        facts: &[Fact::CallsAgent],
        calls: &[Tool("call_agent", || Access::Agent {
            agent: "a".to_owned(),
            description: String::new(),
            trusted: false,
        })],
    },
    Row {
        name: "is done by another agent, which asks",
        facts: &[Fact::AgentActs],
        calls: &[Tool("call_agent", || agent_question(false))],
    },
    Row {
        name: "is done by another agent, and may do harm there",
        facts: &[Fact::AgentDoesHarm],
        calls: &[Tool("call_agent", || agent_question(true))],
    },
    Row {
        name: "reads a page of a host that is not allowed",
        facts: &[Fact::Connects],
        calls: &[Tool("web_fetch", || Access::Fetch {
            urls: vec!["https://a.test".to_owned()],
            allowed: Vec::new(),
        })],
    },
    Row {
        name: "does anything else",
        facts: &[Fact::DoesMore],
        calls: &[Tool("other", || Access::Other { description: String::new() })],
    },
];

fn agent_question(danger: bool) -> Access {
    let (agent, tool, description) = ("a".to_owned(), "t".to_owned(), String::new());
    Access::AgentQuestion { agent, tool, description, danger }
}

fn server(hints: Hints) -> Access {
    let (server, tool, display_name) = ("git".to_owned(), "log".to_owned(), String::new());
    Access::Mcp { server, tool, display_name, hints }
}

/// Returns the verdict on a call.
fn verdict(
    session: &Session,
    of: &Call,
    sandbox: Option<SandboxSituation>,
) -> (Verdict, SandboxMode) {
    let of_line = |line, leaves: Option<SandboxMode>| {
        let checked = check(session, sandbox, line, leaves);
        (checked.verdict, checked.sandbox)
    };
    let of_tool = |tool, access: &Access| {
        (call(&session.permissions, tool, access), SandboxMode::DangerFullAccess)
    };
    let of_text = |text, inside| {
        let sandbox_mode = sandbox.map_or(SandboxMode::DangerFullAccess, |_| inside);
        let running = Running {
            sandbox: sandbox_mode,
            situation: sandbox,
            unfinished: "",
            sees_secrets: false,
        };
        let checked = feed(session, running, text);
        (checked.verdict, checked.sandbox)
    };
    match of {
        Line(line) => of_line(line, None),
        Leaving(line) => of_line(line, Some(SandboxMode::DangerFullAccess)),
        Edit(path) => of_tool("write_file", &Access::edit(session.workspace.root.join(path))),
        Read(path) => {
            let (paths, outside) = (vec![session.workspace.root.join(path)], Vec::new());
            of_tool("read_file", &Access::ReadFiles { paths, outside })
        }
        ReadOutside(path) => {
            let folder = Path::new(path).parent().map(Path::to_owned);
            let outside = vec![OutsideFile { path: path.into(), folder }];
            of_tool("read_file", &Access::ReadFiles { paths: vec![path.into()], outside })
        }
        Tool(tool, access) => of_tool(tool, &access()),
        Feed(text) => of_text(text, session.permissions.sandbox_mode(None)),
        FeedOutside(text) => of_text(text, SandboxMode::DangerFullAccess),
    }
}

/// Returns the action that the table of the policy has for these facts, in the place where a call runs.
fn action(session: &Session, row: &Row, of: &Call, sandbox: Option<SandboxMode>) -> Action {
    let mode = session.permissions.mode();
    let confinement = match sandbox {
        Some(SandboxMode::DangerFullAccess) => Confinement::Outside,
        Some(inside) if inside <= session.permissions.sandbox_mode(None) && mode != Mode::Plan => {
            Confinement::Inside(inside)
        }
        _ => Confinement::Unsandboxed,
    };
    // A model's request to leave the sandbox counts only where a sandbox works, and not in plan mode.
    let is_ignored = matches!(of, Leaving(_)) && confinement != Confinement::Outside;
    let facts = row.facts.iter().filter(|_| !is_ignored);
    facts.map(|fact| decide(*fact, mode, confinement)).max().unwrap_or(Action::Run)
}

/// Returns the part of a cell for a call without a sandbox, or with one.
fn part(session: &Session, row: &Row, of: &Call, situation: Option<SandboxSituation>) -> String {
    let (verdict, sandbox) = verdict(session, of, situation);
    let is_run = matches!(of, Line(_) | Leaving(_) | Feed(_) | FeedOutside(_));
    let action = action(session, row, of, situation.filter(|_| is_run).map(|_| sandbox));
    let decided = match &verdict {
        Verdict::Allow => Action::Run,
        Verdict::Ask(question) if question.every_time() => Action::AskEveryTime,
        Verdict::Ask(_) => Action::Ask,
        Verdict::Deny { .. } => Action::Refuse,
    };
    let (mode, what) = (session.permissions.mode(), shown(of));
    assert_eq!(decided, action, "{what} in mode {mode} with {situation:?}: {verdict:?}");
    match action {
        Action::Run if sandbox == SandboxMode::DangerFullAccess => "runs".to_owned(),
        Action::Run => format!("`{sandbox}`"),
        Action::AskEveryTime => "**asks**".to_owned(),
        Action::Ask => "asks".to_owned(),
        Action::Refuse => "refused".to_owned(),
    }
}

/// Returns the cells of a call, one for each mode: without a sandbox, and with one.
fn cells(sessions: &[Session], row: &Row, of: &Call) -> String {
    let cell = |session| {
        let [without, with] = [None, Some(WHOLE)].map(|it| part(session, row, of, it));
        if without == with { without } else { format!("{without} / {with}") }
    };
    sessions.iter().map(cell).collect::<Vec<_>>().join(" | ")
}

/// Checks that these facts, and no others, are found of a line.
fn check_facts(session: &Session, row: &Row, of: &Call) {
    let Line(line) = of else { return };
    let found: HashSet<Fact> = match session.workspace.judge(line) {
        Ok(parts) => parts.iter().flat_map(|it| &it.findings).map(|it| it.fact).collect(),
        Err(_) => HashSet::from([Fact::Unresolved]),
    };
    assert_eq!(found, row.facts.iter().copied().collect(), "{line}");
}

fn shown(call: &Call) -> String {
    match call {
        Line(line) => format!("`{}`", line.replace('|', "\\|")),
        Leaving(line) => format!("`{line}`, outside"),
        Edit(path) => format!("`write_file`, `{path}`"),
        Read(path) | ReadOutside(path) => format!("`read_file`, `{path}`"),
        Feed(_) => "`write_stdin`".to_owned(),
        FeedOutside(_) => "`write_stdin`, outside".to_owned(),
        Tool("other", _) => "another tool".to_owned(),
        Tool(tool, _) => format!("`{tool}`"),
    }
}

/// With `UPDATE_DOCS=1` in the environment the table is written anew, for a look at the diff.
#[test]
fn the_table_in_the_docs_is_that_of_the_policy_and_calls_are_decided_by_it() {
    let sessions = Mode::ALL.map(|(_, mode)| Session::new(mode));
    for session in &sessions {
        fs::write(session.workspace.root.join(".env"), "").unwrap();
    }
    let modes = Mode::ALL.map(|(name, _)| format!("`{name}`"));
    let mut table = format!("{HEADER} {} |\n|{}\n", modes.join(" | "), "---|".repeat(6));
    for row @ Row { name, calls, .. } in &ROWS {
        let first = cells(&sessions, row, &calls[0]);
        for call in *calls {
            check_facts(&sessions[0], row, call);
            assert_eq!(cells(&sessions, row, call), first, "{name}: {}", shown(call));
        }
        table.push_str(&format!("| {name} | {} | {first} |\n", shown(&calls[0])));
    }
    let path = repository_file(PAGE);
    let page = fs::read_to_string(&path).unwrap();
    let start = page.find(HEADER).expect("the page has the table");
    let end = page[start..].find("\n\n").map_or(page.len(), |end| start + end + 1);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, format!("{}{table}{}", &page[..start], &page[end..])).unwrap();
        return;
    }
    assert_eq!(&page[start..end], table, "UPDATE_DOCS=1 writes it anew");
}
