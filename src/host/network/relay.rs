//! Copying of bytes between two connections.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::sleep;

use super::request::BodyLength;

/// Maximum number of bytes that are read at once.
const BUFFER_BYTES: usize = 16 << 10;

/// Both halves of a connection.
pub(super) struct Halves<R, W> {
    pub(super) reader: R,
    pub(super) writer: W,
}

impl<R, W> From<(R, W)> for Halves<R, W> {
    fn from((reader, writer): (R, W)) -> Self {
        Self { reader, writer }
    }
}

/// Copies bytes in both directions until both have ended, or until no bytes have come in either for `idle`.
pub(super) async fn tunnel(
    client: Halves<impl AsyncRead + Unpin, impl AsyncWrite + Unpin>,
    server: Halves<impl AsyncRead + Unpin, impl AsyncWrite + Unpin>,
    idle: Duration,
) -> io::Result<()> {
    let passed = AtomicU64::new(0);
    let there = copy(client.reader, server.writer, u64::MAX, &passed);
    let back = copy(server.reader, client.writer, u64::MAX, &passed);
    tokio::select! {
        both = async { tokio::try_join!(there, back) } => both.map(|_| ()),
        () = silence(&passed, idle) => Ok(()),
    }
}

/// Copies one request, whose length is `body`, to the server, and the server's whole answer back. Ends when the server
/// has closed its connection, or when no bytes have come for `idle`.
pub(super) async fn exchange(
    client: Halves<impl AsyncRead + Unpin, impl AsyncWrite + Unpin>,
    server: Halves<impl AsyncRead + Unpin, impl AsyncWrite + Unpin>,
    body: BodyLength,
    idle: Duration,
) -> io::Result<()> {
    let passed = AtomicU64::new(0);
    let length = match body {
        BodyLength::Bytes(length) => length,
        BodyLength::Chunked => u64::MAX,
    };
    let Halves { reader, mut writer } = server;
    let there = async {
        let copied = copy(client.reader, &mut writer, length, &passed).await;
        // The server may still answer when the request has ended.
        if copied.is_ok() { std::future::pending().await } else { copied }
    };
    tokio::select! {
        back = copy(reader, client.writer, u64::MAX, &passed) => back,
        failed = there => failed,
        () = silence(&passed, idle) => Ok(()),
    }
}

/// Copies at most `most` bytes. The end of the reader is passed on as the end of the writer.
async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    most: u64,
    passed: &AtomicU64,
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut left = most;
    while left > 0 {
        let room = usize::try_from(left).unwrap_or(BUFFER_BYTES).min(BUFFER_BYTES);
        let count = from.read(&mut buffer[..room]).await?;
        if count == 0 {
            return to.shutdown().await;
        }
        to.write_all(&buffer[..count]).await?;
        passed.fetch_add(count as u64, Ordering::Relaxed);
        left -= count as u64;
    }
    Ok(())
}

/// Waits until no bytes were copied for at least `time`, and at most twice as long.
async fn silence(passed: &AtomicU64, time: Duration) {
    let mut before = None;
    loop {
        let now = passed.load(Ordering::Relaxed);
        if before == Some(now) {
            return;
        }
        before = Some(now);
        sleep(time).await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{duplex, split};
    use tokio::time::Instant;

    use super::*;

    const IDLE: Duration = Duration::from_mins(1);

    #[tokio::test(start_paused = true)]
    async fn a_tunnel_passes_on_what_comes_and_each_end() {
        let (client, mut near) = duplex(8);
        let (server, mut far) = duplex(8);
        let tunnel = tokio::spawn(tunnel(split(client).into(), split(server).into(), IDLE));
        near.write_all(b"there").await.unwrap();
        near.shutdown().await.unwrap();
        let mut read = String::new();
        far.read_to_string(&mut read).await.unwrap();
        assert_eq!(read, "there");
        far.write_all(b"back").await.unwrap();
        drop(far);
        let mut read = String::new();
        near.read_to_string(&mut read).await.unwrap();
        assert_eq!(read, "back");
        assert!(tunnel.await.unwrap().is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_tunnel_is_given_up() {
        let (client, mut near) = duplex(8);
        let (server, _far) = duplex(8);
        let began = Instant::now();
        let tunnel = tokio::spawn(tunnel(split(client).into(), split(server).into(), IDLE));
        sleep(IDLE / 2).await;
        near.write_all(b"x").await.unwrap();
        assert!(tunnel.await.unwrap().is_ok());
        assert!((IDLE..=IDLE * 3).contains(&began.elapsed()), "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_than_the_body_of_one_request_reaches_the_server() {
        let (client, mut near) = duplex(64);
        let (server, mut far) = duplex(64);
        let body = BodyLength::Bytes(4);
        let exchange =
            tokio::spawn(exchange(split(client).into(), split(server).into(), body, IDLE));
        near.write_all(b"bodyGET http://other/").await.unwrap();
        let mut read = [0; 4];
        far.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"body");
        far.write_all(b"answer").await.unwrap();
        far.shutdown().await.unwrap();
        let mut read = String::new();
        near.read_to_string(&mut read).await.unwrap();
        assert_eq!(read, "answer");
        assert!(exchange.await.unwrap().is_ok());
        let mut rest = String::new();
        far.read_to_string(&mut rest).await.unwrap();
        assert_eq!(rest, "");
    }
}
