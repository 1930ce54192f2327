//! The memory that commands of a session take.

use serde_json::json;
use tandem_agent::session::Answer;
use tandem_approval::Mode;
use tandem_host::command_sandbox::SandboxSetup;
use tandem_sandbox::Limits;

use super::{Made, Stage, run, with};
use crate::needs::{Need, lacking, python};
use crate::sandbox::mechanisms;

/// Takes memory in a number of children, until they end.
const CHILDREN: &str = "
import os, sys, time
children, bytes = int(sys.argv[1]), int(sys.argv[2])
for _ in range(children):
    if os.fork() == 0:
        taken = b'x' * bytes
        os.write(1, b'.')
        time.sleep(float(sys.argv[3]))
        os._exit(0)
for _ in range(children):
    os.wait()
";

/// Returns a session with a limit of 200 MB for commands, and the line that runs the children.
fn stage(mechanism: &str, background: bool, words: &str) -> Stage {
    let line = format!("{} children.py {words}", python().unwrap());
    let first = if background {
        with(&line, json!({ "is_background": true, "delay_ms": 60_000 }))
    } else {
        run(&line)
    };
    let stage = Stage::changed(Mode::Yolo, &[first, run("echo alive")], |setup| SandboxSetup {
        mechanism: mechanism.parse().ok(),
        limits: Limits { memory_bytes: Some(200_000_000), ..setup.limits },
        ..setup
    });
    std::fs::write(stage.path("children.py"), CHILDREN).unwrap();
    stage
}

async fn made(mechanism: &str, background: bool, words: &str) -> Vec<Made> {
    let mut stage = stage(mechanism, background, words);
    let made = stage.go(Answer::Once { edited: None }).await;
    assert!(made[1].is_done() && made[1].told().contains("alive"), "{}", made[1].told());
    made
}

#[tokio::test]
async fn a_command_whose_children_take_too_much_together_is_ended_and_the_model_is_told_why() {
    if lacking(Need::Python) {
        return;
    }
    for mechanism in mechanisms() {
        for background in [false, true] {
            // Each of the four processes stays below the limit: only the sum exceeds it.
            let made = made(mechanism, background, "4 100000000 1000").await;
            let told = made[0].told();
            assert!(
                !made[0].is_done() && told.contains("than the 200000000 bytes"),
                "{mechanism}: {told}"
            );
        }
        // Two processes stay below the limit together, and are never ended.
        let made = made(mechanism, false, "2 50000000 1.2").await;
        assert!(
            made[0].is_done() && made[0].told().contains(".."),
            "{mechanism}: {}",
            made[0].told()
        );
    }
}

#[tokio::test]
async fn a_process_that_takes_too_much_is_refused_and_the_model_is_told_the_limit() {
    if lacking(Need::Python) {
        return;
    }
    for mechanism in mechanisms() {
        let made = made(mechanism, false, "1 1000000000 0; false").await;
        let told = made[0].told();
        assert!(
            told.contains("MemoryError") && told.contains("at most 200000000 bytes"),
            "{mechanism}: {told}"
        );
    }
}
