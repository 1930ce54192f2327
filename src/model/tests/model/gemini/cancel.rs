//! Dropping the stream of an answer, which ends the request at once.

use tandem_net::Backoff;
use test_support::limit::in_time;

use super::*;

#[tokio::test]
async fn dropping_a_stream_that_hangs_closes_its_connection() {
    let half = event(r#"{"content":{"parts":[{"text":"Hal"}]}}"#);
    for reply in [Reply::stream(half), Reply::stream(""), Reply::error(400, "{")] {
        let server = Server::start(vec![reply.then_hang()]).await;
        let gemini = gemini(&server, options());
        let mut chunks = gemini.stream(prompt(vec![user("hi")]));
        // The stream is polled until the request has arrived. Two of the three replies bring no chunk.
        let asked = async {
            while server.asked().is_empty() {
                tokio::select! {
                    biased;
                    chunk = chunks.next() => assert!(matches!(chunk, Some(Ok(Chunk::Text(_))))),
                    () = tokio::task::yield_now() => {}
                }
            }
        };
        in_time(asked).await.expect("no request comes");
        drop(chunks);
        server.client_gone().await;
    }
}

#[tokio::test]
async fn dropping_a_stream_that_waits_asks_no_more() {
    let server = Server::start(vec![Reply::error(500, "{}"), Reply::text("ok")]).await;
    let backoff = Backoff::doubling(Duration::from_hours(2), Duration::from_hours(2));
    let hours = RetryPolicy { backoff, ..RetryPolicy::default() };
    let gemini = gemini(&server, RequestOptions { retry: hours, ..options() });
    let mut chunks = gemini.stream(prompt(vec![user("hi")]));
    let Some(Ok(Chunk::Retry(retry))) = chunks.next().await else { panic!("no retry") };
    assert!(retry.delay >= Duration::from_secs(5000), "{retry}");
    drop(chunks);
    // The dropped stream sends no second request: the second request is that of the next prompt.
    let lines = ask(&gemini, prompt(vec![user("again")])).await;
    assert_lines(&lines, &["text: ok", "finish: Stop 0/0/0/0"]);
    let asked = server.asked();
    assert_eq!(asked.len(), 2);
    assert_eq!(contents(&asked[1].body)[0]["parts"][0]["text"], "again");
}

#[tokio::test]
async fn nothing_is_asked_before_the_stream_is_read() {
    let server = Server::start(vec![Reply::text("ok")]).await;
    let gemini = gemini(&server, options());
    drop(gemini.stream(prompt(vec![user("hi")])));
    assert_eq!(gemini.ready(), Ok(()));
    assert!(server.asked().is_empty());
}
