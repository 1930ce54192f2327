//! Recorded conversations, played again against the real binary.
//!
//! A file is what `--record` writes, with one line before it: `{"dir":"setup", ...}` says how the
//! agent is started ([`Recorded`]). The client's lines are sent when what precedes them has
//! arrived, and the agent's are compared, byte by byte but for where the workspace is. A line
//! `{"dir":"end"}` closes standard input. With `UPDATE_TRANSCRIPTS=1` the agent's lines are
//! written into the file instead.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use tokio::time::timeout;

use crate::agent::{Agent, HANG, Setup};
use crate::sandboxed::can_show;

#[derive(Deserialize, Serialize)]
#[serde(tag = "dir", rename_all = "snake_case")]
enum Recorded {
    Setup {
        /// The sentence that the transcript proves.
        about: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        args: Vec<String>,
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        files: BTreeMap<String, String>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        script: Vec<Value>,
        /// Lines that `tandem replay --show` ends with.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        next: Vec<String>,
    },
    #[serde(rename = "c2a")]
    Client(Line),
    #[serde(rename = "a2c")]
    Agent(Line),
    End,
}

#[derive(Deserialize, Serialize)]
struct Line {
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    msg: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    raw: Option<String>,
}

/// Tells `"msg": null`, which is a line too, from no message.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

impl Line {
    fn text(&self) -> String {
        match (&self.msg, &self.raw) {
            (Some(msg), _) => msg.to_string(),
            (None, Some(raw)) => raw.clone(),
            (None, None) => panic!("a line with neither `msg` nor `raw`"),
        }
    }
}

/// Path of the workspace in the files.
const WORKSPACE: &str = "/workspace";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_transcript_plays_as_recorded() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/acp");
    let mut files: Vec<PathBuf> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.retain(|path| fs::read_to_string(path).unwrap().starts_with(r#"{"dir":"setup""#));
    assert!(files.len() >= 40, "only {} transcripts", files.len());
    files.retain(|path| can_show(&fs::read_to_string(path).unwrap()));
    let mut wrong = Vec::new();
    for path in files {
        if let Err(difference) = play(&path).await {
            wrong.push(format!("{}:\n{difference}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

async fn play(path: &Path) -> Result<(), String> {
    let text = fs::read_to_string(path).unwrap();
    let mut lines: Vec<Recorded> = text
        .lines()
        .enumerate()
        .map(|(n, line)| {
            serde_json::from_str(line)
                .unwrap_or_else(|err| panic!("{}:{}: {err}", path.display(), n + 1))
        })
        .collect();
    let Recorded::Setup { args, files, script, .. } = &lines[0] else { panic!("no setup") };
    let setup = Setup {
        args: args.clone(),
        files: files.clone(),
        script: script.clone(),
        ..Setup::default()
    };
    let mut agent = setup.start();
    let update = std::env::var_os("UPDATE_TRANSCRIPTS").is_some();
    let played = converse(&mut agent, &mut lines, update).await;
    if update {
        let lines = lines.iter().map(|line| serde_json::to_string(line).unwrap() + "\n");
        fs::write(path, lines.collect::<String>()).unwrap();
    }
    played
}

async fn converse(agent: &mut Agent, lines: &mut [Recorded], update: bool) -> Result<(), String> {
    let workspace = agent.workspace().display().to_string();
    let mut before = Vec::new();
    for (n, recorded) in lines.iter_mut().enumerate() {
        match recorded {
            Recorded::Setup { .. } => {}
            Recorded::End => drop(agent.stdin.take()),
            Recorded::Client(line) => {
                let text = line.text().replace(WORKSPACE, &workspace);
                agent.send_line(&text).await;
                before.push(format!("  > {text}"));
            }
            Recorded::Agent(line) => {
                let Ok(Ok(Some(actual))) = timeout(HANG, agent.lines.next_line()).await else {
                    let before = before.join("\n");
                    let expected = line.text();
                    return Err(format!("{before}\nline {}: nothing comes, not {expected}", n + 1));
                };
                let actual = actual.replace(&workspace, WORKSPACE);
                if update {
                    let raw: Box<RawValue> = serde_json::from_str(&actual).unwrap();
                    line.msg = serde_json::from_str(raw.get()).ok();
                } else if line.text() != actual {
                    let expected = line.text();
                    return Err(format!(
                        "{}\nline {}\n  expected {expected}\n  but got  {actual}",
                        before.join("\n"),
                        n + 1
                    ));
                }
                before.push(format!("  < {actual}"));
            }
        }
    }
    let (rest, status) = agent.hang_up().await;
    if !rest.is_empty() {
        return Err(format!("{}\nand then, unexpected:\n{}", before.join("\n"), rest.join("\n")));
    }
    if status.code() == Some(0) { Ok(()) } else { Err(format!("exit: {status}")) }
}
