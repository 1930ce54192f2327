//! Quotas: limits on the use of a server by each principal that the server knows by name.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;
use tandem_agent::session::{
    CurrentUse, Millis, PrincipalId, Session, SessionUsage, SharedStore, StoreError, now,
};
use tandem_agent::sessions::{LoadedSession, Sessions};
use tandem_wire::a2a::error;
use tandem_wire::jsonrpc::Error;
use tokio::time::Instant;

/// Length of a day in milliseconds.
const DAY_MS: Millis = 24 * 60 * 60 * 1000;

/// Time after which to try again when a turn or a session has to end first. A guess, since the time of its
/// end is unknown.
const RETRY_AFTER_END: Duration = Duration::from_secs(5);

/// Limits on the use by each principal.
#[derive(Debug, Clone, Copy)]
pub struct Quotas {
    /// Maximum number of sessions that are loaded at once.
    pub sessions: usize,
    /// Maximum number of turns that run or wait at once, in all sessions that the principal owns.
    pub turns: usize,
    /// Maximum number of requests within a second.
    pub requests: usize,
    /// Maximum number of tokens within a day (UTC), in all sessions that the principal owns.
    pub tokens: u64,
}

impl Default for Quotas {
    fn default() -> Self {
        Self { sessions: 100, turns: 20, requests: 100, tokens: 1_000_000_000 }
    }
}

/// A quota that is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaError {
    /// Name of the limit's setting.
    limit: &'static str,
    maximum: u64,
    what: &'static str,
    retry: Duration,
}

impl QuotaError {
    /// Returns the time after which to try again, in seconds.
    pub fn seconds(&self) -> u64 {
        self.retry.as_secs().max(1)
    }

    /// Returns a message for people about the limit and the time to wait.
    pub fn message(&self) -> String {
        let Self { limit, maximum, what, .. } = self;
        let seconds = self.seconds();
        format!("the quota of {maximum} {what} (`{limit}`) is used up; try again in {seconds} s")
    }
}

impl From<QuotaError> for Error {
    fn from(used_up: QuotaError) -> Self {
        Self::new(error::QUOTA_EXCEEDED, used_up.message()).with(json!({
            "limit": used_up.limit,
            "maximum": used_up.maximum,
            "retryAfterSeconds": used_up.seconds(),
        }))
    }
}

/// Usage of the server by its principals.
pub struct Meter {
    quotas: Quotas,
    principals: Mutex<HashMap<PrincipalId, Use>>,
}

/// Usage by one principal.
struct Use {
    /// Number of requests that are allowed at once (token bucket), as of `at`.
    requests: f64,
    /// Time of the last update of `requests`.
    at: Instant,
    /// Day of `counted` and `elsewhere`, in days (UTC) since the epoch.
    day: Millis,
    /// Usage of the sessions that this node has or had today, by session id.
    counted: HashMap<String, CountedSession>,
    /// Tokens that were used at other nodes on that day, as of the last exchange.
    elsewhere: u64,
    /// Number of turns and sessions in use at other nodes, as of the last exchange.
    current_elsewhere: Numbers,
    /// Number of turns and sessions that are admitted here and have not begun yet.
    beginning: Numbers,
}

/// Usage of one session on one day.
#[derive(Default)]
struct CountedSession {
    /// Number of requests to the model that are counted already.
    requests: usize,
    /// Tokens of the counted requests that were made on this day.
    tokens: u64,
}

/// Numbers of turns and sessions.
#[derive(Default)]
struct Numbers {
    turns: usize,
    sessions: usize,
}

impl Numbers {
    fn get_mut(&mut self, kind: QuotaKind) -> &mut usize {
        match kind {
            QuotaKind::Turns => &mut self.turns,
            QuotaKind::Sessions => &mut self.sessions,
        }
    }
}

/// Quota on things that exist at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum QuotaKind {
    Turns,
    Sessions,
}

/// Place reserved for a turn or a session that is about to begin. It is held as long as the reservation
/// lives.
pub struct Reservation {
    meter: Arc<Meter>,
    owner: PrincipalId,
    kind: QuotaKind,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.meter.with_use(&self.owner, |used| *used.beginning.get_mut(self.kind) -= 1);
    }
}

impl Meter {
    /// Makes a meter without any usage.
    pub fn new(quotas: Quotas) -> Self {
        Self { quotas, principals: Mutex::default() }
    }

    /// Counts a request of a principal, or refuses it. Callers without a name (`None`) have no limit.
    pub fn request(&self, principal: Option<&PrincipalId>) -> Result<(), QuotaError> {
        let Some(principal) = principal else { return Ok(()) };
        let most = self.quotas.requests;
        self.with_use(principal, |used| {
            // The bucket holds at most one second's worth of requests.
            let rate = f64::from(u32::try_from(most).unwrap_or(u32::MAX));
            let now = Instant::now();
            let since = now.saturating_duration_since(used.at).as_secs_f64();
            used.requests = (used.requests + since * rate).min(rate);
            used.at = now;
            if used.requests < 1.0 {
                let what = "requests a second";
                let retry = Duration::from_secs(1);
                return Err(used_up("principal-requests", most as u64, what, retry));
            }
            used.requests -= 1.0;
            Ok(())
        })
    }

    /// Checks that an owner may begin another session, and reserves a place for it. If no place is free, unloads
    /// unused sessions of the owner.
    pub fn session(
        self: &Arc<Self>,
        owner: &PrincipalId,
        sessions: &Sessions,
    ) -> Result<Reservation, QuotaError> {
        let most = self.quotas.sessions;
        let (room, others) = self.reserve(owner, QuotaKind::Sessions);
        while owned(sessions, owner).len().saturating_add(others) > most {
            let is_theirs =
                |loaded: &LoadedSession| loaded.session().with_access(|it| it.is_owner(owner));
            if !sessions.unload_unused(is_theirs) {
                let what = "sessions at once";
                return Err(used_up("principal-sessions", most as u64, what, RETRY_AFTER_END));
            }
        }
        Ok(room)
    }

    /// Reserves a place. Also returns the number of places that are reserved here, including this place, or taken at
    /// other nodes. Reserving before counting the sessions is safe: a session that begins at the same time is either
    /// in this number or in the count.
    fn reserve(self: &Arc<Self>, owner: &PrincipalId, kind: QuotaKind) -> (Reservation, usize) {
        let taken = self.with_use(owner, |used| {
            let beginning = used.beginning.get_mut(kind);
            *beginning += 1;
            beginning.saturating_add(*used.current_elsewhere.get_mut(kind))
        });
        (Reservation { meter: Arc::clone(self), owner: owner.clone(), kind }, taken)
    }

    /// Checks that another turn may begin in a session of an owner, and reserves a place for it.
    pub fn turn(
        self: &Arc<Self>,
        owner: &PrincipalId,
        sessions: &Sessions,
    ) -> Result<Reservation, QuotaError> {
        let (room, others) = self.reserve(owner, QuotaKind::Turns);
        let turns = owned(sessions, owner);
        let turns = turns.iter().map(|loaded| {
            let session = loaded.session();
            self.count(owner, session);
            turns_of(session)
        });
        let turns = turns.sum::<usize>();
        let most = self.quotas.turns;
        if turns.saturating_add(others) > most {
            return Err(used_up("principal-turns", most as u64, "turns at once", RETRY_AFTER_END));
        }
        let at = now();
        let tokens = self.with_use(owner, |used| used.today(at).tokens());
        if tokens >= self.quotas.tokens {
            let left = u64::try_from(DAY_MS - at.rem_euclid(DAY_MS)).unwrap_or_default();
            let retry = Duration::from_millis(left);
            let what = "tokens a day";
            return Err(used_up("principal-daily-tokens", self.quotas.tokens, what, retry));
        }
        Ok(room)
    }

    /// Counts the tokens of all loaded sessions, so that they are not lost when a session is unloaded.
    pub fn count_all(&self, sessions: &Sessions) {
        for loaded in sessions.loaded() {
            let owner = loaded.session().with_access(|access| access.owner.clone());
            if let Some(owner) = owner {
                self.count(&owner, loaded.session());
            }
        }
    }

    /// Counts the tokens of a session that were not counted before.
    fn count(&self, owner: &PrincipalId, session: &Session) {
        let at = now();
        self.with_use(owner, |used| {
            let counted = used.today(at).counted.entry(session.id().to_owned()).or_default();
            let since = at - at.rem_euclid(DAY_MS);
            let (requests, tokens) = session.tokens_since(since, counted.requests);
            counted.requests += requests;
            counted.tokens = counted.tokens.saturating_add(tokens);
        });
    }

    /// Publishes the usage of this node for the other nodes, and reads theirs. Usage that another node has
    /// not published yet is not counted here.
    pub async fn share(
        &self,
        store: &dyn SharedStore,
        sessions: &Sessions,
    ) -> Result<(), StoreError> {
        self.count_all(sessions);
        self.share_tokens(store).await?;
        let elsewhere = store.share_current_use(&current_use(sessions)).await?;
        for used in self.principals.lock().values_mut() {
            used.current_elsewhere = Numbers::default();
        }
        for CurrentUse { owner, sessions, turns } in elsewhere {
            self.with_use(&owner, |used| used.current_elsewhere = Numbers { turns, sessions });
        }
        Ok(())
    }

    async fn share_tokens(&self, store: &dyn SharedStore) -> Result<(), StoreError> {
        let (at, mut sessions, mut here) = (now(), Vec::new(), HashMap::new());
        for (owner, used) in &mut *self.principals.lock() {
            let used = used.today(at);
            here.insert(owner.clone(), used.own_tokens());
            sessions.extend(used.counted.iter().filter(|(_, counted)| counted.tokens > 0).map(
                |(session, CountedSession { tokens, .. })| SessionUsage {
                    session: session.clone(),
                    owner: owner.clone(),
                    tokens: *tokens,
                },
            ));
        }
        for (owner, tokens) in store.share_usage(at.div_euclid(DAY_MS), &sessions).await? {
            let here = here.get(&owner).copied().unwrap_or(0);
            self.with_use(&owner, |used| used.today(at).elsewhere = tokens.saturating_sub(here));
        }
        Ok(())
    }

    fn with_use<T>(&self, principal: &PrincipalId, look: impl FnOnce(&mut Use) -> T) -> T {
        let mut principals = self.principals.lock();
        look(principals.entry(principal.clone()).or_insert_with(|| Use {
            requests: f64::from(u32::try_from(self.quotas.requests).unwrap_or(u32::MAX)),
            at: Instant::now(),
            day: 0,
            counted: HashMap::new(),
            elsewhere: 0,
            current_elsewhere: Numbers::default(),
            beginning: Numbers::default(),
        }))
    }
}

impl Use {
    /// Resets the daily counts if a new day has begun.
    fn today(&mut self, at: Millis) -> &mut Self {
        let day = at.div_euclid(DAY_MS);
        if self.day != day {
            // Cleared counts start over from the first request, of which only the new day's tokens are
            // counted.
            (self.day, self.elsewhere) = (day, 0);
            self.counted.clear();
        }
        self
    }

    fn own_tokens(&self) -> u64 {
        self.counted.values().map(|counted| counted.tokens).fold(0, u64::saturating_add)
    }

    fn tokens(&self) -> u64 {
        self.own_tokens().saturating_add(self.elsewhere)
    }
}

fn used_up(limit: &'static str, maximum: u64, what: &'static str, retry: Duration) -> QuotaError {
    QuotaError { limit, maximum, what, retry }
}

/// Returns the current use of sessions and turns by each owner.
fn current_use(sessions: &Sessions) -> Vec<CurrentUse> {
    let mut used: HashMap<PrincipalId, Numbers> = HashMap::new();
    for session in sessions.in_use() {
        if let Some(owner) = session.with_access(|access| access.owner.clone()) {
            let used = used.entry(owner).or_default();
            used.sessions += 1;
            used.turns += turns_of(&session);
        }
    }
    let used = used.into_iter();
    used.map(|(owner, Numbers { turns, sessions })| CurrentUse { owner, sessions, turns }).collect()
}

/// Returns the number of turns that run or wait in a session.
fn turns_of(session: &Session) -> usize {
    usize::from(session.turns().running().is_some()) + session.turns().waiting()
}

/// Returns the loaded sessions of an owner.
fn owned(sessions: &Sessions, owner: &PrincipalId) -> Vec<Arc<LoadedSession>> {
    let mut loaded = sessions.loaded();
    loaded.retain(|loaded| loaded.session().with_access(|access| access.is_owner(owner)));
    loaded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meter(requests: usize) -> Meter {
        Meter::new(Quotas { requests, ..Quotas::default() })
    }

    fn id(name: &str) -> PrincipalId {
        PrincipalId { tenant: "acme".to_owned(), name: name.to_owned() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_principal_has_so_many_requests_a_second_and_others_have_theirs() {
        let (meter, alice, bob) = (meter(2), id("alice"), id("bob"));
        assert!(meter.request(Some(&alice)).is_ok() && meter.request(Some(&alice)).is_ok());
        let refused = meter.request(Some(&alice)).unwrap_err();
        assert_eq!(
            refused.message(),
            "the quota of 2 requests a second (`principal-requests`) is used up; try again in 1 s"
        );
        assert!(meter.request(Some(&bob)).is_ok());
        assert!(meter.request(None).is_ok(), "the operator has no quota");
        tokio::time::advance(Duration::from_millis(500)).await;
        assert!(meter.request(Some(&alice)).is_ok() && meter.request(Some(&alice)).is_err());
        // Unused requests are not saved up for longer than a second.
        tokio::time::advance(Duration::from_mins(1)).await;
        assert!((0..2).all(|_| meter.request(Some(&alice)).is_ok()));
        assert!(meter.request(Some(&alice)).is_err());
    }
}
