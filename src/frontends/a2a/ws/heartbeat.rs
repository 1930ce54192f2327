//! Heartbeat of a WebSocket: a client that does not answer a ping is disconnected, so that it takes no room.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use parking_lot::Mutex;

/// Time of the last contact with a client, and the limits for silence.
pub(super) struct Heartbeat {
    /// Maximum silence before the client is pinged.
    silence: Duration,
    /// Maximum time for the client to answer the ping.
    answer: Duration,
    state: Mutex<LastContact>,
}

#[derive(Clone, Copy)]
struct LastContact {
    heard: Instant,
    /// Time of the ping that the client has not answered yet.
    asked: Option<Instant>,
}

/// Action that the silence of a client demands.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum HeartbeatAction {
    /// A ping to the client.
    Ping,
    /// The end of the connection, because the client has gone.
    Gone,
}

impl Heartbeat {
    pub(super) fn new(silence: Duration, answer: Duration) -> Self {
        let state = LastContact { heard: Instant::now(), asked: None };
        Self { silence, answer, state: Mutex::new(state) }
    }

    /// Notes that the client has sent something.
    pub(super) fn heard(&self) {
        *self.state.lock() = LastContact { heard: Instant::now(), asked: None };
    }

    /// Waits until an action is due, and returns it. Nothing is lost if this future is dropped.
    pub(super) async fn due(&self) -> HeartbeatAction {
        loop {
            let deadline = self.deadline();
            sleep_until(deadline).await;
            let mut state = self.state.lock();
            // The client may have sent something during the wait.
            if deadline < self.deadline_of(*state) {
                continue;
            }
            if state.asked.is_some() {
                return HeartbeatAction::Gone;
            }
            state.asked = Some(Instant::now());
            return HeartbeatAction::Ping;
        }
    }

    fn deadline(&self) -> Instant {
        let state = *self.state.lock();
        self.deadline_of(state)
    }

    fn deadline_of(&self, state: LastContact) -> Instant {
        state.asked.map_or(state.heard + self.silence, |asked| asked + self.answer)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_is_silent_is_asked_and_then_given_up() {
        let second = Duration::from_secs(1);
        let heartbeat = Heartbeat::new(10 * second, 5 * second);
        let begun = Instant::now();
        assert_eq!(heartbeat.due().await, HeartbeatAction::Ping);
        assert_eq!(begun.elapsed(), 10 * second);
        heartbeat.heard();
        assert_eq!(heartbeat.due().await, HeartbeatAction::Ping);
        assert_eq!(begun.elapsed(), 20 * second);
        assert_eq!(heartbeat.due().await, HeartbeatAction::Gone);
        assert_eq!(begun.elapsed(), 25 * second);
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_heard_of_while_others_wait_is_not_asked() {
        let second = Duration::from_secs(1);
        let heartbeat = Heartbeat::new(10 * second, 5 * second);
        let begun = Instant::now();
        let speaks = async {
            sleep(9 * second).await;
            heartbeat.heard();
        };
        let (due, ()) = tokio::join!(heartbeat.due(), speaks);
        assert_eq!((due, begun.elapsed()), (HeartbeatAction::Ping, 19 * second));
    }
}
