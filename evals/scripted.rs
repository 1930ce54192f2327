//! Tests of the tasks: each checker accepts the task's solution, and nothing less.

use std::fs;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use tempfile::TempDir;
use test_support::needs::Requirement;

use super::agent::{AgentSetup, EvalModel};
use super::attempt::{Attempt, Verdict, attempt};
use super::checker;
use super::program::Program;
use super::repository::Arena;
use super::task::{self, Task};

/// Number of tasks that are tried at once, for each processor: a task waits as long as it computes.
const JOBS_PER_PROCESSOR: usize = 2;

const PYTHON: Requirement = Requirement {
    name: "Python",
    variable: "PYTHON",
    remedy: "install python3",
    is_here: || task::all().unwrap().iter().all(|task| task.missing_programs().is_empty()),
};

const SANDBOX: Requirement = Requirement {
    name: "a sandbox",
    variable: "SANDBOX",
    remedy: "see what `tandem sandbox` says; the manual has a page for it: docs/sandbox-details.md",
    is_here: || program().check_sandbox().is_ok(),
};

/// Returns the program, built once for all tests.
fn program() -> Program {
    static PROGRAM: OnceLock<Program> = OnceLock::new();
    PROGRAM.get_or_init(|| Program::built().unwrap()).clone()
}

fn setup(model: EvalModel) -> AgentSetup {
    AgentSetup {
        program: program(),
        model,
        settings: None,
        rounds: 50,
        // Scripts do no harm, so a machine without a sandbox tries the tasks as well.
        sandboxed: !SANDBOX.is_lacking(),
        more: Vec::new(),
    }
}

/// Returns what is wrong with the tasks, several of which are tried at once.
fn faults(
    setup: &AgentSetup,
    fault: impl Fn(&Task, &AgentSetup) -> Option<String> + Sync,
) -> Vec<String> {
    PYTHON.is_lacking();
    let tasks: Vec<_> = task::all().unwrap();
    let tasks: Vec<_> = tasks.iter().filter(|task| task.missing_programs().is_empty()).collect();
    let next = AtomicUsize::new(0);
    let try_next = || {
        let mut faults = Vec::new();
        while let Some(task) = tasks.get(next.fetch_add(1, Ordering::Relaxed)) {
            faults.extend(fault(task, setup).map(|fault| format!("{}: {fault}", task.name)));
        }
        faults
    };
    let jobs = JOBS_PER_PROCESSOR * thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(try_next)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    })
}

fn ran(task: &Task, setup: &AgentSetup) -> Attempt {
    attempt(task, setup, false).unwrap()
}

#[test]
fn every_task_is_solved_by_its_solution() {
    let fault = |task: &Task, setup: &AgentSetup| {
        let attempt = ran(task, setup);
        let troubles = (attempt.failed_calls, attempt.refusals, attempt.questions);
        let is_fine = attempt.verdict == Verdict::Solved && troubles == (0, 0, 0);
        (!is_fine).then(|| format!("{:?}, failed, refused, asked: {troubles:?}", attempt.verdict))
    };
    assert_eq!(faults(&setup(EvalModel::Solution), fault), [""; 0]);
}

#[test]
fn no_task_is_solved_by_its_wrong_answer() {
    let fault = |task: &Task, setup: &AgentSetup| {
        let attempt = ran(task, setup);
        // The script must fail for what it does, and not because a call of it has failed.
        let is_fine = matches!(attempt.verdict, Verdict::NotSolved { .. })
            && (attempt.failed_calls, attempt.refusals) == (0, 0);
        (!is_fine).then(|| {
            format!(
                "{:?}, failed: {}, refused: {}",
                attempt.verdict, attempt.failed_calls, attempt.refusals
            )
        })
    };
    assert_eq!(faults(&setup(EvalModel::Wrong), fault), [""; 0]);
}

#[test]
fn no_task_is_solved_by_doing_nothing() {
    let fault = |task: &Task, setup: &AgentSetup| {
        let arena = Arena::new(task).unwrap();
        let verdict = checker::check(task, setup, &arena, "").unwrap();
        (!matches!(verdict, Verdict::NotSolved { .. })).then(|| format!("{verdict:?}"))
    };
    assert_eq!(faults(&setup(EvalModel::Wrong), fault), [""; 0]);
}

/// Returns the run of a task of its own, whose model answers as `script` says.
fn ran_script(script: &str, rounds: u16) -> Attempt {
    let folder = TempDir::new().unwrap();
    let files = [
        ("task.toml", "kind = \"try\"\nprompt = \"go\"\nseconds = 5\n"),
        ("files/a.txt", "a\n"),
        ("check.sh", "fail no\n"),
        ("solution.json", script),
    ];
    for (name, content) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    let task = Task::read(folder.path().to_owned()).unwrap();
    attempt(&task, &AgentSetup { rounds, ..setup(EvalModel::Solution) }, false).unwrap()
}

const LOOK: &str = r#"[{"call": {"name": "list_directory", "args": {}}}]"#;

fn not_solved(why: &str) -> Verdict {
    Verdict::NotSolved { why: why.to_owned() }
}

#[test]
fn a_task_whose_time_is_over_is_not_solved_and_has_its_figures() {
    let attempt = ran_script(&format!(r#"[{LOOK}, [{{"hang": null}}]]"#), 50);
    assert_eq!(attempt.verdict, not_solved("the time was over after 5 seconds"));
    assert_eq!(attempt.calls, 1);
}

#[test]
fn a_task_that_takes_too_many_rounds_is_not_solved() {
    let attempt = ran_script(&format!("[{LOOK}, {LOOK}, {LOOK}]"), 2);
    assert!(matches!(attempt.verdict, Verdict::NotSolved { .. }), "{:?}", attempt.verdict);
    assert_eq!((attempt.rounds, attempt.calls), (2, 2));
}

#[test]
fn questions_and_refused_calls_are_counted() {
    let asks = r#"[{"call": {"name": "ask_user", "args":
            {"questions": [{"question": "Which?", "options": ["a", "b"]}]}}},
        {"call": {"name": "run_shell_command", "args": {"command": "git commit -m x"}}}]"#;
    let attempt = ran_script(&format!(r#"[{asks}, [{{"text": "I took a."}}]]"#), 50);
    assert_eq!(attempt.verdict, not_solved("no"));
    assert_eq!((attempt.questions, attempt.refusals), (1, 1));
}

#[test]
fn a_model_that_cannot_be_used_stops_everything() {
    let tasks = task::all().unwrap();
    let setup = setup(EvalModel::Real("replay:/no/such/script".to_owned()));
    let attempt = attempt(&tasks[0], &setup, false).unwrap();
    assert!(
        matches!(attempt.verdict, Verdict::Broken { fatal: true, .. }),
        "{:?}",
        attempt.verdict
    );
}
