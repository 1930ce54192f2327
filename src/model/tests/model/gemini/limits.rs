//! Limits on answers and errors.

use super::*;

const MIB: usize = 1 << 20;

#[track_caller]
fn assert_given_up(lines: &[String], server: &Server, what: &str) {
    let error = format!("error: BadAnswer(\"{what} is bigger than 32 MiB, ");
    assert!(lines.last().is_some_and(|last| last.starts_with(&error)), "{error}");
    assert_eq!(server.asked().len(), 1, "it is not tried again");
}

#[tokio::test]
async fn one_event_of_100_mib_is_given_up() {
    let mut reply = vec![b'x'; MIB];
    reply[..6].copy_from_slice(b"data: ");
    let replies = vec![Reply::stream(reply).times(100)];
    let (lines, server) = play(replies, options()).await;
    assert_given_up(&lines, &server, "An event of the answer");
}

#[tokio::test]
async fn an_answer_of_100_mib_is_given_up() {
    let text = "x".repeat(MIB - 100);
    let reply =
        Reply::stream(event(&format!(r#"{{"content":{{"parts":[{{"text":"{text}"}}]}}}}"#)));
    let (lines, server) = play(vec![reply.times(100)], options()).await;
    assert_eq!(lines.len(), 2);
    assert!(lines[0].len() > 31 * MIB && lines[0].len() <= 32 * MIB);
    assert_given_up(&lines, &server, "The model's answer");
}

#[tokio::test]
async fn thoughts_and_parts_that_are_not_known_count_too() {
    for part in [r#"{"text":"*","thought":true}"#, r#"{"new":"*"}"#] {
        let part = part.replace('*', &"x".repeat(MIB));
        let reply = Reply::stream(event(&format!(r#"{{"content":{{"parts":[{part}]}}}}"#)));
        let (lines, server) = play(vec![reply.times(100)], options()).await;
        assert_given_up(&lines, &server, "The model's answer");
    }
}

#[tokio::test]
async fn of_an_error_only_the_beginning_is_read() {
    let reply = Reply::error(400, vec![b'x'; MIB]).times(100);
    let (lines, _) = play(vec![reply], options()).await;
    assert_eq!(lines.len(), 1);
    assert!(lines[0].len() < 1000 && lines[0].contains("xxx…"), "{lines:?}");
}

#[tokio::test]
async fn of_an_error_that_hangs_what_has_come_is_used() {
    let reply = Reply::error(400, r#"{"error":{"message":"bad"#).then_hang();
    let options = RequestOptions { idle: Duration::from_millis(300), ..options() };
    let (lines, _) = play(vec![reply], options).await;
    assert!(lines[0].contains(r#"{\"error\":{\"message\":\"bad"#), "{lines:?}");
}
