//! Tests of keys whose bytes come in pieces, with paused time.

use std::time::Duration;

use tokio::sync::mpsc::unbounded_channel;
use tokio::time::{advance, timeout};

use super::decode::shown;
use super::*;

/// Time between two pieces of one key on a slow line, in milliseconds.
const SLOW_LINE: u64 = 60;

/// Sends pieces, each this number of milliseconds after the piece before. Returns the keys, each with the time in
/// milliseconds at which it was reported.
async fn told(pieces: &[(u64, &[u8])]) -> Vec<String> {
    let (send, bytes) = unbounded_channel();
    let mut keys = KeyStream::new(bytes, || false);
    let begun = Instant::now();
    let mut told = Vec::new();
    for (millis, piece) in pieces {
        let due = Instant::now() + Duration::from_millis(*millis);
        // `timeout_at` drops the future `next` again and again, as the screen's loop does. No input may get lost
        // then.
        while let Ok(Some(input)) = tokio::time::timeout_at(due, keys.next()).await {
            told.push(format!("{} at {}", shown(&input), begun.elapsed().as_millis()));
        }
        send.send(piece.to_vec()).unwrap();
    }
    while let Ok(Some(input)) = timeout(Duration::from_secs(5), keys.next()).await {
        told.push(format!("{} at {}", shown(&input), begun.elapsed().as_millis()));
    }
    told
}

#[track_caller]
fn check(told: &[String], expected: &[&str]) {
    assert_eq!(told, expected);
}

#[tokio::test(start_paused = true)]
async fn a_sequence_that_a_slow_line_tears_apart_is_one_key() {
    let up: [(u64, &[u8]); 3] = [(0, b"\x1b"), (SLOW_LINE, b"["), (SLOW_LINE, b"A")];
    check(&told(&up).await, &["Up at 120"]);
    let home: [(u64, &[u8]); 2] = [(0, b"\x1b"), (SLOW_LINE, b"OH")];
    check(&told(&home).await, &["Home at 60"]);
    let word: [(u64, &[u8]); 3] = [(0, b"\x1b[1"), (400, b";5"), (400, b"D")];
    check(&told(&word).await, &["Ctrl+Left at 800"]);
    let alt: [(u64, &[u8]); 3] = [(0, b"\x1b"), (SLOW_LINE, b"\x1b"), (SLOW_LINE, b"[A")];
    check(&told(&alt).await, &["Alt+Up at 120"]);
    let paste: [(u64, &[u8]); 3] =
        [(0, b"\x1b"), (SLOW_LINE, b"[200~a\x1b"), (SLOW_LINE, b"[201~")];
    check(&told(&paste).await, &["paste \"a\" at 120"]);
}

#[tokio::test(start_paused = true)]
async fn a_character_that_a_slow_line_tears_apart_is_one_key() {
    let pieces: [(u64, &[u8]); 3] = [(0, b"\xe6"), (SLOW_LINE, b"\x97"), (300, b"\xa5")];
    check(&told(&pieces).await, &["日 at 360"]);
    let alt: [(u64, &[u8]); 3] = [(0, b"\x1b"), (SLOW_LINE, b"\xc3"), (SLOW_LINE, b"\xa9")];
    check(&told(&alt).await, &["Alt+é at 120"]);
}

#[tokio::test(start_paused = true)]
async fn an_escape_character_that_nothing_follows_is_the_key() {
    let alone: [(u64, &[u8]); 1] = [(0, b"\x1b")];
    check(&told(&alone).await, &["Esc at 100"]);
    let twice: [(u64, &[u8]); 2] = [(0, b"\x1b"), (SLOW_LINE, b"\x1b")];
    check(&told(&twice).await, &["Esc at 160", "Esc at 160"]);
    let apart: [(u64, &[u8]); 2] = [(0, b"\x1b"), (300, b"a")];
    check(&told(&apart).await, &["Esc at 100", "a at 300"]);
}

#[tokio::test(start_paused = true)]
async fn what_was_sent_while_this_program_did_not_run_has_come_in_time() {
    let (send, bytes) = unbounded_channel();
    let mut keys = KeyStream::new(bytes, || false);
    send.send(b"\x1b".to_vec()).unwrap();
    let waited = timeout(Duration::from_millis(10), keys.next()).await;
    assert!(waited.is_err(), "{waited:?}");
    send.send(b"[A".to_vec()).unwrap();
    advance(Duration::from_secs(1)).await;
    let input = keys.next().await.unwrap();
    assert_eq!(shown(&input), "Up");
}
