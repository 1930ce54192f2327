//! Directories of sessions that are brought up to date before each turn, and saved after each turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use tandem_agent::session::{
    Event, GitOrigin, Origin, Parts, PastTurns, Reader, SavedWorkspace, Session, StopReason,
    WorkspaceSave,
};
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use test_fakes::{Spy, is_end, parts, says, text, until};
use test_support::limit::HANG;

/// Behaviour of a workspace the first time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Once {
    Panics,
    WaitsForCancel,
}

/// A workspace whose first restore and first save may fail or wait.
struct FakeWorkspace {
    origin: GitOrigin,
    restores: Option<Once>,
    saves: Option<Once>,
    restored: AtomicUsize,
    saved: AtomicUsize,
    /// Notified when the workspace begins to wait for a cancel.
    waits: Notify,
}

impl FakeWorkspace {
    fn new(restores: Option<Once>, saves: Option<Once>) -> Self {
        let origin = GitOrigin { url: "https://git.example/app.git".to_owned(), revision: None };
        Self {
            origin,
            restores,
            saves,
            restored: AtomicUsize::default(),
            saved: AtomicUsize::default(),
            waits: Notify::new(),
        }
    }

    async fn work(
        &self,
        how: Option<Once>,
        count: &AtomicUsize,
        cancel: &CancellationToken,
    ) -> Result<Option<String>, String> {
        let is_first = count.fetch_add(1, Ordering::SeqCst) == 0;
        match how.filter(|_| is_first) {
            None => Ok(None),
            Some(Once::Panics) => panic!("asked to panic"),
            Some(Once::WaitsForCancel) => {
                self.waits.notify_one();
                cancel.cancelled().await;
                Err("the turn was cancelled".to_owned())
            }
        }
    }
}

#[async_trait]
impl SavedWorkspace for FakeWorkspace {
    fn origin(&self) -> &GitOrigin {
        &self.origin
    }

    async fn restore(
        &self,
        _: PastTurns,
        cancel: &CancellationToken,
    ) -> Result<Option<String>, String> {
        self.work(self.restores, &self.restored, cancel).await
    }

    async fn save(&self, cancel: &CancellationToken) -> Result<WorkspaceSave, String> {
        let remark = self.work(self.saves, &self.saved, cancel).await?;
        Ok(WorkspaceSave { place: None, remark })
    }
}

/// A session in a workspace whose model says hello.
struct Place {
    session: Arc<Session>,
    workspace: Arc<FakeWorkspace>,
    log: Reader,
}

impl Place {
    fn new(restores: Option<Once>, saves: Option<Once>) -> Self {
        let workspace = Arc::new(FakeWorkspace::new(restores, saves));
        let (spy, _) = Spy::new(vec![says("hello"), says("hello")]);
        let part: Arc<dyn SavedWorkspace> = Arc::clone(&workspace) as _;
        let session = Session::new(Parts { workspace: Some(part), ..parts(spy) });
        let log = session.events(session.position());
        Self { session, workspace, log }
    }

    /// Returns the notices until the end of the turn, and the reason of the end.
    async fn end(&mut self) -> (Vec<String>, StopReason) {
        let events = until(&mut self.log, is_end).await;
        let notices = events.iter().filter_map(|event| match &**event {
            Event::Notice(notice) => Some(notice.clone()),
            _ => None,
        });
        let notices = notices.collect();
        match &**events.last().unwrap() {
            Event::TurnFinished { reason, .. } => (notices, reason.clone()),
            other => unreachable!("{other:?}"),
        }
    }

    async fn turn(&mut self) -> (Vec<String>, StopReason) {
        self.session.prompt(text("hi"), Origin::Terminal);
        self.end().await
    }

    /// Begins a turn, and cancels the turn `times` times, each time that the workspace waits for a cancel.
    async fn cancelled(&mut self, times: usize) -> (Vec<String>, StopReason) {
        let turn = self.session.prompt(text("hi"), Origin::Terminal);
        for _ in 0..times {
            timeout(HANG, self.workspace.waits.notified()).await.expect("nothing waits");
            assert!(self.session.cancel(turn));
        }
        self.end().await
    }
}

const CANCELLED: StopReason = StopReason::Cancelled { answering: false };

fn not_saved(why: &str) -> Vec<String> {
    vec![format!(
        "The workspace is not saved: {why}. tandem tries again after the next turn; until then, other nodes do \
         not have the changes."
    )]
}

#[tokio::test]
async fn a_panic_while_the_workspace_is_saved_is_said_and_the_turn_ends() {
    let mut place = Place::new(None, Some(Once::Panics));
    let why = "there is a bug in tandem; the log (`--log-file`) says more";
    assert_eq!(place.turn().await, (not_saved(why), StopReason::EndTurn));
    assert_eq!(place.turn().await, (vec![], StopReason::EndTurn));
}

#[tokio::test]
async fn a_panic_while_the_workspace_is_made_ends_the_turn() {
    let mut place = Place::new(Some(Once::Panics), None);
    assert_eq!(place.turn().await, (vec![], StopReason::Crashed));
    assert_eq!(place.turn().await, (vec![], StopReason::EndTurn));
}

#[tokio::test]
async fn a_turn_can_be_cancelled_while_its_workspace_is_saved() {
    let mut place = Place::new(None, Some(Once::WaitsForCancel));
    assert_eq!(place.cancelled(1).await, (not_saved("the turn was cancelled"), CANCELLED));
    assert_eq!(place.turn().await, (vec![], StopReason::EndTurn));
    assert_eq!(place.workspace.saved.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn the_workspace_of_a_turn_that_was_cancelled_is_saved_until_it_is_cancelled_once_more() {
    let mut place = Place::new(Some(Once::WaitsForCancel), Some(Once::WaitsForCancel));
    assert_eq!(place.cancelled(2).await, (not_saved("the turn was cancelled"), CANCELLED));
    assert_eq!(place.turn().await, (vec![], StopReason::EndTurn));
}
