//! Supervision of the memory of a command and of all processes that it has started. The kernel limits only single
//! processes where the user may not make control groups.

use std::fs;
use std::time::Duration;

use tokio::time::sleep;

use super::table;
use tandem_content::blocking::blocking;

/// Time between two measurements.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// Share of the machine's memory that a command may use if no limit was chosen, in quarters.
const DEFAULT_QUARTERS: u64 = 3;

/// Waits until a command, which is its group and its descendants together, uses more memory than the limit. Returns
/// the limit, in bytes.
pub(super) async fn wait_until_exceeded(group: i32, limit: Option<u64>) -> u64 {
    loop {
        sleep(LOOK_INTERVAL).await;
        let look = blocking(move || {
            let limit = limit.or_else(default_limit)?;
            exceeds(group, limit).then_some(limit)
        });
        if let Ok(Some(limit)) = look.await {
            return limit;
        }
    }
}

fn exceeds(group: i32, limit: u64) -> bool {
    let processes = table::family(group);
    let sum = |bytes: fn(i32) -> Option<u64>| {
        processes.iter().filter_map(|pid| bytes(*pid)).fold(0, u64::saturating_add)
    };
    // Memory that several processes share counts once in the proportional sum. That sum takes long to compute, so it is
    // computed only if the other one is above the limit.
    sum(resident) > limit && sum(proportional) > limit
}

/// Returns the resident memory of a process, including shared memory in full, in bytes.
fn resident(pid: i32) -> Option<u64> {
    kib(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?, "VmRSS:")
}

/// Returns the resident memory of a process, including only its share of shared memory, in bytes.
fn proportional(pid: i32) -> Option<u64> {
    kib(&fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?, "Pss:")
}

fn default_limit() -> Option<u64> {
    let all = kib(&fs::read_to_string("/proc/meminfo").ok()?, "MemTotal:")?;
    Some(all / 4 * DEFAULT_QUARTERS)
}

/// Returns the value of a line, in bytes, from a table with values in KiB.
fn kib(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_and_what_is_shared_counts_less() {
        let own = std::process::id().cast_signed();
        let (resident, proportional) = (resident(own).unwrap(), proportional(own).unwrap());
        assert!(proportional > 0 && resident >= proportional, "{resident} {proportional}");
        assert!(default_limit().unwrap() > resident);
    }
}
