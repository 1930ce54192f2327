//! Limit of a wait, in real time, so that it holds in tests with paused time, too.

use std::panic::Location;
use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::watch;

/// Limit of every wait, longer than any step of a test: only a hang reaches it.
pub const HANG: Duration = Duration::from_secs(20);

/// Time between two checks of a condition.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Time between two looks at the clock.
const TICK: Duration = Duration::from_millis(100);

/// Waits for a future; `None` after [`HANG`].
pub async fn in_time<F: Future>(awaited: F) -> Option<F::Output> {
    within(HANG, awaited).await
}

/// Looks again and again until `is_so`.
#[track_caller]
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) -> impl Future<Output = ()> {
    let caller = Location::caller();
    async move {
        let looking = async {
            while !is_so() {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        };
        assert!(in_time(looking).await.is_some(), "{caller} waits for {what}");
    }
}

/// Waits as [`wait_until`] does, in a test without a runtime.
#[track_caller]
pub fn block_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < HANG, "{what}: waited for in vain");
        thread::sleep(POLL_INTERVAL);
    }
}

/// Waits for a future; `None` if it takes longer than `limit`.
async fn within<F: Future>(limit: Duration, awaited: F) -> Option<F::Output> {
    static CLOCK: LazyLock<watch::Sender<Instant>> = LazyLock::new(clock);
    let (begun, mut clock) = (Instant::now(), CLOCK.subscribe());
    let late = async { drop(clock.wait_for(|now| now.duration_since(begun) > limit).await) };
    tokio::select! {
        biased;
        output = awaited => Some(output),
        () = late => None,
    }
}

/// Returns a clock that no runtime stops.
fn clock() -> watch::Sender<Instant> {
    let clock = watch::Sender::new(Instant::now());
    let ticking = clock.clone();
    thread::spawn(move || {
        loop {
            thread::sleep(TICK);
            ticking.send_replace(Instant::now());
        }
    });
    clock
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_wait_ends_though_time_is_paused() {
        assert_eq!(within(Duration::ZERO, std::future::pending::<()>()).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_is_not_ended_by_paused_time_that_passes() {
        let day = tokio::time::sleep(Duration::from_hours(24));
        assert_eq!(in_time(day).await, Some(()));
    }
}
