//! Standard input and output of every kind, non-blocking or not: every message goes through.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, IsTerminal as _, Write as _};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Child;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::agent::{HANG, Setup};

/// Line that the model repeats, so often that no stream can hold all of it.
const LINE: &str = "0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 {n}\n";
const TIMES: usize = 6000;

/// A stream: the agent's end, and the editor's.
struct Stream {
    agent: OwnedFd,
    editor: File,
    /// Bytes with which the editor ends the stream, if closing it is not enough.
    end: &'static [u8],
}

fn input_pipe() -> Stream {
    let (agent, editor) = std::io::pipe().unwrap();
    Stream { agent: agent.into(), editor: OwnedFd::from(editor).into(), end: b"" }
}

fn output_pipe() -> Stream {
    let (editor, agent) = std::io::pipe().unwrap();
    Stream { agent: agent.into(), editor: OwnedFd::from(editor).into(), end: b"" }
}

fn socket() -> Stream {
    let (agent, editor) = UnixStream::pair().unwrap();
    Stream { agent: agent.into(), editor: OwnedFd::from(editor).into(), end: b"" }
}

fn terminal() -> Stream {
    let editor = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&editor).unwrap();
    unlockpt(&editor).unwrap();
    let name = ptsname(&editor, Vec::new()).unwrap().into_string().unwrap();
    let agent = File::options().read(true).write(true).open(name).unwrap();
    Stream { agent: agent.into(), editor: editor.into(), end: b"\x04" }
}

fn talkative() -> Setup {
    let said = json!([[{ "repeat": { "text": LINE, "times": TIMES } }]]);
    Setup::answers(said).arg("--acp")
}

/// Talks to an agent over streams of these kinds, whose ends for the agent are non-blocking or not.
async fn check(input: fn() -> Stream, output: fn() -> Stream) {
    for non_blocking in [false, true] {
        let (input, output) = (input(), output());
        for Stream { agent, .. } in [&input, &output] {
            set_non_blocking(agent, non_blocking);
        }
        let home = TempDir::new().unwrap();
        let mut command = talkative().command(home.path());
        let ends = [&input, &output].map(|stream| stream.agent.try_clone().unwrap());
        let [stdin, stdout] = ends;
        let child = command.stdin(stdin).stdout(stdout).spawn().unwrap();
        // `command` holds the agent's ends of the streams, which the test must not keep open.
        drop(command);
        on_thread(move || converse(input, output, non_blocking)).await;
        ends_well(child).await;
    }
}

/// Waits for a conversation on a thread that the runtime does not wait for, so that a conversation that hangs fails
/// the test.
async fn on_thread(talk: impl FnOnce() + Send + 'static) {
    let (done, ended) = oneshot::channel();
    std::thread::spawn(move || {
        talk();
        let _ = done.send(());
    });
    timeout(HANG, ended).await.expect("the agent is silent").expect("the conversation failed");
}

async fn ends_well(mut child: Child) {
    let status = timeout(HANG, child.wait()).await.expect("the agent does not exit").unwrap();
    assert_eq!(status.code(), Some(0));
}

fn set_non_blocking(fd: impl AsFd, non_blocking: bool) {
    let mut flags = fcntl_getfl(&fd).unwrap();
    flags.set(OFlags::NONBLOCK, non_blocking);
    fcntl_setfl(&fd, flags).unwrap();
}

fn converse(input: Stream, output: Stream, non_blocking: bool) {
    let Stream { agent: stdin, editor: mut writer, end } = input;
    let Stream { agent: stdout, editor: reader, .. } = output;
    let mut lines = BufReader::new(reader).lines();
    // Between two requests, the agent finds nothing to read.
    for id in 0..5 {
        writeln!(writer, r#"{{"id":{id},"method":"initialize"}}"#).unwrap();
        let answer = message(&lines.next().expect("the agent has gone").unwrap());
        assert_eq!(answer["id"], id);
    }
    let prompt = json!({ "chunks": [{ "text": "go" }] });
    let prompt = json!({ "id": 5, "method": "sendUserMessage", "params": prompt });
    writeln!(writer, "{prompt}").unwrap();
    // The agent must wait until its output is read. A terminal may have room again and not say so
    // before it is read: it takes more for as long as one likes, and the agent waits all the same.
    let patience = if stdout.is_terminal() { Duration::from_secs(1) } else { HANG / 2 };
    let begun = Instant::now();
    while takes_more(&stdout) && begun.elapsed() < patience {
        std::thread::yield_now();
    }
    assert!(stdout.is_terminal() || !takes_more(&stdout), "the agent does not fill its output");
    for fd in [stdin, stdout] {
        let flags = fcntl_getfl(fd).unwrap();
        assert_eq!(flags.contains(OFlags::NONBLOCK), non_blocking, "flags that others share");
    }
    let mut text = String::new();
    loop {
        let message = message(&lines.next().expect("the agent has gone").unwrap());
        if message["id"] == 5 && message.get("method").is_none() {
            break;
        }
        text.push_str(message["params"]["chunk"]["text"].as_str().unwrap());
    }
    let expected: String = (0..TIMES).map(|n| LINE.replace("{n}", &n.to_string())).collect();
    assert!(text == expected, "{} bytes of {}", text.len(), expected.len());
    writer.write_all(end).unwrap();
    // A terminal loses what was not read when its last end closes, so one end stays open.
    let kept = (!end.is_empty()).then_some(&writer).map(|writer| writer.try_clone().unwrap());
    drop(writer);
    // Reading from a closed terminal gives an error in place of an end.
    assert!(lines.next().is_none_or(|line| line.is_err()), "more than was asked for");
    drop(kept);
}

fn takes_more(fd: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(fd, PollFlags::OUT)];
    poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap();
    fds[0].revents().contains(PollFlags::OUT)
}

fn message(line: &str) -> Value {
    serde_json::from_str(line.trim()).unwrap_or_else(|err| panic!("{err}: {line}"))
}

#[tokio::test]
async fn pipes_lose_no_message() {
    check(input_pipe, output_pipe).await;
}

#[tokio::test]
async fn sockets_lose_no_message() {
    check(socket, socket).await;
}

#[tokio::test]
async fn a_terminal_as_input_loses_no_message() {
    check(terminal, output_pipe).await;
}

#[tokio::test]
async fn a_terminal_as_output_loses_no_message() {
    check(input_pipe, terminal).await;
}

#[tokio::test]
async fn one_socket_may_be_input_and_output() {
    let (agent, mut editor) = UnixStream::pair().unwrap();
    agent.set_nonblocking(true).unwrap();
    let home = TempDir::new().unwrap();
    let mut command = talkative().command(home.path());
    command.stdin(OwnedFd::from(agent.try_clone().unwrap())).stdout(OwnedFd::from(agent));
    let child = command.spawn().unwrap();
    drop(command);
    let talk = move || {
        let mut lines = BufReader::new(editor.try_clone().unwrap()).lines();
        for id in 0..5 {
            writeln!(editor, r#"{{"id":{id},"method":"initialize"}}"#).unwrap();
            assert_eq!(message(&lines.next().unwrap().unwrap())["id"], id);
        }
        editor.shutdown(Shutdown::Write).unwrap();
        assert!(lines.next().is_none());
    };
    on_thread(talk).await;
    ends_well(child).await;
}

#[tokio::test]
async fn input_and_output_may_be_files() {
    let home = TempDir::new().unwrap();
    let [input, output] = ["input", "output"].map(|name| home.path().join(name));
    fs::write(&input, "{\"id\":1,\"method\":\"initialize\"}\n").unwrap();
    let mut command = Setup::default().command(home.path());
    let stdin = File::open(&input).unwrap();
    command.stdin(stdin).stdout(File::create(&output).unwrap());
    ends_well(command.spawn().unwrap()).await;
    assert_eq!(message(&fs::read_to_string(&output).unwrap())["id"], 1);
}

#[tokio::test]
async fn without_input_and_output_it_ends_well() {
    let home = TempDir::new().unwrap();
    let mut command = Setup::default().command(home.path());
    ends_well(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap()).await;
}
