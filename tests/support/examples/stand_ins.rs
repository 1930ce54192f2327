//! Serves the stand-ins for the models' APIs to other people's clients.
//!
//! Each line of standard input names an API, and is answered with the address of a new stand-in, which has the answers of
//! one conversation with a call. A tool and its arguments may follow `responses`: `responses shell {"command":"ls"}`. The
//! end of standard input ends the program.

#![expect(clippy::print_stdout, reason = "the addresses are what the program is for")]
#![expect(clippy::unwrap_used, reason = "the clients see that nothing comes")]

use test_support::api_server::{Check, Reply, Server, anthropic, gemini, openai, responses};
use tokio::io::{AsyncBufReadExt as _, BufReader, stdin};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut lines = BufReader::new(stdin()).lines();
    while let Some(line) = lines.next_line().await.unwrap() {
        let (step, last, check) = stand_in(&line);
        let server = Server::of_pages(vec![step, last], &[], Some(check)).await;
        println!("{}", server.address());
    }
}

/// Returns the answers of a conversation, and the check of its requests.
fn stand_in(line: &str) -> (Reply, Reply, Check) {
    let mut words = line.splitn(3, ' ');
    match (words.next().unwrap(), words.next(), words.next()) {
        ("anthropic", None, _) => (anthropic::step(), anthropic::last(), anthropic::check),
        ("chat", None, _) => (openai::step(), openai::last(), openai::check),
        ("gemini", None, _) => (gemini::step(), gemini::last(), gemini::check),
        ("responses", None, _) => (responses::step(), responses::last(), responses::check),
        ("responses", Some(tool), Some(arguments)) => {
            (responses::step_with(tool, arguments), responses::last(), responses::check)
        }
        _ => panic!("unknown stand-in: {line}"),
    }
}
