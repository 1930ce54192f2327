//! Examples: each `console` block is run with the built program, and its output compared. Each block with `screen=`
//! is a screen of `fixtures/tui`.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use super::picture::screen;
use super::{blocks, pages, read, root, updates};
use crate::needs::{Need, lacking};
use crate::sandboxed::{SANDBOXED, can_show};

/// Port in the examples. A server takes any free port, which the examples then use.
const PORT: &str = "41242";

/// The machine of a page's examples: a home with a project in it, `~/src/project`.
struct Machine {
    home: TempDir,
    /// Port of the running server.
    port: Option<String>,
    /// Processes that were started with `&`.
    servers: Vec<Child>,
}

impl Machine {
    fn new() -> Self {
        let home = TempDir::new().unwrap();
        let machine = Self { home, port: None, servers: Vec::new() };
        let project = machine.project();
        fs::create_dir_all(&project).unwrap();
        fs::write(project.join("README.md"), "# Project\nA short text.\n").unwrap();
        // The examples read as if the repository itself were the project.
        std::os::unix::fs::symlink(root().join("fixtures"), project.join("fixtures")).unwrap();
        let bin = machine.home.path().join("bin");
        fs::create_dir(&bin).unwrap();
        let program = env!("CARGO_BIN_EXE_tandem");
        std::os::unix::fs::symlink(program, bin.join("tandem")).unwrap();
        machine
    }

    fn project(&self) -> PathBuf {
        self.home.path().join("src/project")
    }

    /// Writes a file of the page: its name is relative to the project, or begins with `~/`.
    fn write(&self, name: &str, text: &str) {
        let path = match name.strip_prefix("~/") {
            Some(name) => self.home.path().join(name),
            None => self.project().join(name),
        };
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn shell(&self, line: &str) -> Command {
        let port = self.port.as_deref().unwrap_or("0");
        let line = line.replace("cargo run -- ", "tandem ").replace("cargo run -q -- ", "tandem ");
        let line = line.replace(PORT, port);
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new("bash");
        command
            .arg("-c")
            .arg(format!("{{ {line}\n}} 2>&1"))
            .env_clear()
            .env("PATH", format!("{}:{path}", self.home.path().join("bin").display()))
            .env("HOME", self.home.path())
            // Programs on the machine of the person who runs the tests are not asked for models.
            .env("TANDEM_LOCAL_SERVERS", "")
            .current_dir(self.project())
            .stdin(Stdio::null());
        command
    }

    /// Runs a command line and returns its output. A line that ends in `&` runs until the page ends; it is ready
    /// when it has printed its address.
    fn run(&mut self, line: &str) -> String {
        if let Some(line) = line.strip_suffix('&') {
            // With `exec`, the server replaces the shell, so that ending the process ends the server.
            self.port = None;
            let mut command = self.shell(&format!("exec {line}"));
            let mut server = command.stdout(Stdio::piped()).spawn().unwrap();
            let mut said = String::new();
            let mut output = BufReader::new(server.stdout.take().unwrap());
            output.read_line(&mut said).unwrap();
            // Later output is read, so that the server never waits for a reader.
            std::thread::spawn(move || output.read_to_end(&mut Vec::new()));
            self.servers.push(server);
            let port = said.trim_end().trim_end_matches('/').rsplit(':').next();
            self.port = port.map(str::to_owned);
            return self.as_printed(&said);
        }
        let output = self.shell(line).output().unwrap();
        self.as_printed(&String::from_utf8(output.stdout).unwrap())
    }

    /// Returns an output with the manual's names in place of paths and ports of this machine.
    fn as_printed(&self, output: &str) -> String {
        let home = self.home.path().display().to_string();
        let home = fs::canonicalize(&home).map_or(home, |path| path.display().to_string());
        let printed = output
            .replace(&home, "/home/me")
            .replace(&self.home.path().display().to_string(), "/home/me")
            .replace(&root().display().to_string(), "/home/me/tandem");
        match &self.port {
            Some(port) => printed.replace(port, PORT),
            None => printed,
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        for server in &mut self.servers {
            // Errors are ignored: the server may have ended by itself.
            drop(server.kill());
            drop(server.wait());
        }
    }
}

/// A command line of an example, and its printed output.
struct Step {
    /// The line as printed, with its `$`.
    shown: String,
    line: String,
    output: String,
}

/// Returns the commands of a block. A command goes on in the next line where a line ends with `\`.
fn steps(block: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut goes_on = false;
    for line in block.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            let (shown, line) = (format!("{line}\n"), format!("{command}\n"));
            steps.push(Step { shown, line, output: String::new() });
        } else {
            let step = steps.last_mut().expect("an example begins with `$ `");
            if goes_on {
                step.shown += &format!("{line}\n");
                step.line += &format!("{line}\n");
            } else {
                step.output += &format!("{line}\n");
                continue;
            }
        }
        goes_on = line.ends_with('\\');
    }
    steps
}

/// Returns whether an output is as printed: a line `...` stands for any lines, `...` in a line for
/// any text.
fn matches(printed: &[&str], output: &[&str]) -> bool {
    match (printed, output) {
        ([], []) => true,
        (["...", rest @ ..], _) => {
            (0..=output.len()).any(|skipped| matches(rest, &output[skipped..]))
        }
        ([first, rest @ ..], [line, lines @ ..]) => {
            line_matches(first, line) && matches(rest, lines)
        }
        _ => false,
    }
}

fn line_matches(printed: &str, line: &str) -> bool {
    let pieces: Vec<_> = printed.trim_end().split("...").collect();
    let line = line.trim_end();
    let [first, middle @ .., last] = pieces.as_slice() else { return printed == line };
    let Some(mut rest) = line.strip_prefix(first) else { return false };
    for piece in middle {
        let Some((_, after)) = rest.split_once(piece) else { return false };
        rest = after;
    }
    rest.ends_with(last)
}

/// Corrected text of a block, and descriptions of the outputs that differ from the page.
struct Comparison {
    text: String,
    wrong: Vec<String>,
}

/// Compares an output with the page; the page's text stays if it matches.
fn compared(printed: &str, output: &str, shown: &str) -> Comparison {
    let as_printed: Vec<_> = printed.trim_end().lines().collect();
    let lines: Vec<_> = output.trim_end().lines().collect();
    if matches(&as_printed, &lines) {
        return Comparison { text: printed.to_owned(), wrong: Vec::new() };
    }
    let text = lines.iter().map(|line| format!("{line}\n")).collect();
    Comparison { text, wrong: vec![format!("{shown}\n{output}")] }
}

/// Runs the commands of a `console` block.
fn session(machine: &mut Machine, block: &str) -> Comparison {
    let mut now = Comparison { text: String::new(), wrong: Vec::new() };
    for step in steps(block) {
        let output = machine.run(step.line.trim_end());
        let next = compared(&step.output, &output, &step.shown);
        now.text += &(step.shown + &next.text);
        now.wrong.extend(next.wrong);
    }
    now
}

/// Runs a page's examples in order. Returns the page with their output, and the differences.
fn played(page: &Path) -> (String, Vec<String>) {
    let text = read(page);
    let mut machine = Machine::new();
    let (mut now, mut wrong, mut end, mut output) = (String::new(), Vec::new(), 0, String::new());
    for block in blocks(&text) {
        now += &text[end..block.at.start];
        end = block.at.end;
        if let Some(name) = block.attribute("file") {
            machine.write(name, &block.text);
        }
        if block.is("sh", "run") {
            output = machine.run(block.text.trim_end());
        }
        let mut next = match block.attribute("screen") {
            Some(name) => compared(&block.text, &screen(name), name),
            None if block.is("text", "output") => compared(&block.text, &output, &block.info),
            None if block.language() == "console" => session(&mut machine, &block.text),
            None => Comparison { text: block.text.clone(), wrong: Vec::new() },
        };
        // The examples show a sandbox with namespaces. On a machine without namespaces, the output would differ.
        let is_shown =
            !block.has("sandbox") || can_show(SANDBOXED) && !lacking(Need::ProtectingSandbox);
        if !is_shown || (block.text.contains("curl ") && lacking(Need::Curl)) {
            next = Comparison { text: block.text.clone(), wrong: Vec::new() };
        }
        now += &next.text;
        wrong.extend(next.wrong);
    }
    now += &text[end..];
    (now, wrong)
}

#[test]
fn every_example_prints_what_the_manual_says() {
    let mut wrong = Vec::new();
    for page in pages() {
        let (now, differences) = played(&page);
        if updates() && !differences.is_empty() {
            fs::write(&page, now).unwrap();
            continue;
        }
        wrong.extend(differences.iter().map(|it| format!("{}: {it}", page.display())));
    }
    assert!(wrong.is_empty(), "UPDATE_DOCS=1 writes it anew:\n{}", wrong.join("\n"));
}

#[test]
fn an_output_is_compared_but_for_what_is_left_out() {
    let check = |printed: &[&str], output: &[&str]| matches(printed, output);
    assert!(check(&["a", "b"], &["a", "b"]));
    assert!(check(&["a", "...", "d"], &["a", "b", "c", "d"]));
    assert!(check(&["...", "a"], &["a"]));
    assert!(check(&["id ... of ..."], &["id 7 of 9"]));
    assert!(!check(&["a"], &["a", "b"]));
    assert!(!check(&["a", "...", "d"], &["a", "b"]));
    assert!(!check(&["id ... of"], &["id 7 of 9"]));
    assert!(!check(&["aba...a"], &["aba"]), "a text is not used twice");
}

/// Returns the names that a command prints and a page of the manual lacks.
fn missing(page: &str, line: &str, name: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let page = read(&root().join(page));
    let output = Machine::new().run(line);
    let names: Vec<_> = output.lines().filter_map(name).collect();
    assert!(names.len() > 5, "{output}");
    names.into_iter().filter(|name| !page.contains(name)).collect()
}

#[test]
fn every_setting_is_in_the_manual() {
    let name = |line: &str| Some(format!("`{}`", line.split_once(" = ")?.0));
    assert_eq!(missing("docs/settings.md", "tandem config", name), Vec::<String>::new());
}

#[test]
fn every_command_is_in_the_manual() {
    let name = |line: &str| {
        let name = line.strip_prefix("- `")?.split([' ', '`']).next()?;
        Some(format!("`{name}"))
    };
    let line = "tandem -p /help --model replay";
    assert_eq!(missing("docs/commands.md", line, name), Vec::<String>::new());
}

#[test]
fn every_flag_is_in_the_manual() {
    let name = |line: &str| {
        let (_, rest) = line.trim_start().strip_prefix('-').map(|_| line.split_once("--"))??;
        let ends = |c: char| !(c.is_ascii_alphanumeric() || c == '-');
        Some(format!("`--{}", rest.split(ends).next()?))
    };
    for line in ["tandem --help", "tandem serve --help"] {
        assert_eq!(missing("docs/command-line.md", line, name), Vec::<String>::new());
    }
}

#[test]
fn every_environment_variable_is_in_the_manual() {
    let line = "tandem --help | sed -n '/^Environment:/,/^Limits:/p' | tr -s ' ,[$/' '\\n'";
    let is_part = |c: char| c.is_ascii_uppercase() || c == '_';
    let name = |word: &str| {
        let is_name = word.len() > 4 && word.chars().all(is_part);
        is_name.then(|| format!("`{word}"))
    };
    assert_eq!(missing("docs/command-line.md", line, name), Vec::<String>::new());
}
