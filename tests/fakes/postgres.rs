//! A Postgres server of the tests' own, from the system's package, that ends with the tests.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{LazyLock, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use tandem_store::{DatabaseAddress, PostgresLimits, PostgresStore};
use test_support::needs::{POSTGRES, postgres_programs};

/// Limit of a wait for a standby.
const STANDBY_LIMIT: Duration = Duration::from_mins(1);

/// Program that owns a server. It restarts the server on request. When its input ends, for whatever reason, it ends
/// the server and removes the files. A server refuses to run as root. With the port of another server, the server is
/// a standby of that server.
const KEEPER: &str = r#"
set -u
bin=$1 port=$2 primary=$3
as=
if [ "$(id -u)" != 0 ]; then
  dir=$(mktemp -d) || exit 1
else
  # TMPDIR may be closed to all but root.
  dir=$(mktemp -d /tmp/tandem-postgres-XXXXXX) || exit 1
  user=postgres
  id "$user" >/dev/null 2>&1 || user=nobody
  as="setpriv --reuid=$user --regid=$(id -g $user) --clear-groups"
  chown "$user" "$dir"
fi
cd "$dir"
begin() {
  if [ -n "$primary" ]; then
    $as "$bin/pg_basebackup" -h 127.0.0.1 -p "$primary" -U tandem -D "$dir/data" -R -X stream -c fast --no-sync
  else
    $as "$bin/initdb" -D "$dir/data" -U tandem --auth=trust -E UTF8 --locale=C --no-sync
  fi
}
begin >"$dir/log" 2>&1 || { cat "$dir/log" >&2; rm -rf "$dir"; exit 1; }
sed -i '1i host all locked 127.0.0.1/32 scram-sha-256' "$dir/data/pg_hba.conf"
start() {
  $as "$bin/postgres" -D "$dir/data" -p "$port" -c listen_addresses=127.0.0.1 -c unix_socket_directories= \
    -c max_connections=600 </dev/null >>"$dir/log" 2>&1 &
  server=$!
}
crash() {
  children=$(cat /proc/$server/task/$server/children)
  kill -9 $server $children 2>/dev/null
  wait $server 2>/dev/null
  for child in $children; do while kill -0 "$child" 2>/dev/null; do sleep 0.01; done; done
}
ready() {
  until "$bin/pg_isready" -q -h 127.0.0.1 -p "$port"; do
    kill -0 $server 2>/dev/null || { cat "$dir/log" >&2; exit 1; }
    sleep 0.02
  done
  echo ready
}
trap '' INT TERM HUP
start
ready
while read -r order; do
  case $order in
    crash) crash; start; ready ;;
    kill) crash; echo killed ;;
    promote) $as "$bin/pg_ctl" -D "$dir/data" -w promote >>"$dir/log" 2>&1; echo promoted ;;
    freeze) kill -STOP $server $(cat /proc/$server/task/$server/children); echo frozen ;;
    thaw) kill -CONT $server $(cat /proc/$server/task/$server/children); echo thawed ;;
  esac
done
kill -CONT $server $(cat /proc/$server/task/$server/children 2>/dev/null) 2>/dev/null
kill -QUIT $server 2>/dev/null
wait $server
rm -rf "$dir"
"#;

/// A running server.
pub struct Cluster {
    bin: PathBuf,
    /// Port on this machine.
    pub port: u16,
    keeper: Mutex<Keeper>,
}

struct Keeper {
    _process: Child,
    orders: ChildStdin,
    answers: mpsc::Receiver<String>,
}

/// A database of a test's own.
pub struct Database<'a> {
    cluster: &'a Cluster,
    /// Address with the name of the database.
    pub url: String,
    name: String,
}

/// Limit on the time of making and starting a server, long enough for a busy machine.
const START_LIMIT: Duration = Duration::from_mins(2);

/// Limits with which tests need not wait long.
pub const LIMITS: PostgresLimits =
    PostgresLimits { patience: Duration::from_secs(10), node_dead: Duration::from_secs(3) };

impl Cluster {
    /// Returns the server that the tests of this process share; `None` if the package is not installed.
    pub fn shared() -> Option<&'static Self> {
        static CLUSTER: LazyLock<Cluster> =
            LazyLock::new(|| Cluster::of(postgres_programs().unwrap()));
        (!POSTGRES.is_lacking()).then(|| &*CLUSTER)
    }

    /// Starts a server that only one test uses; `None` if the package is not installed.
    pub fn start() -> Option<Self> {
        (!POSTGRES.is_lacking()).then(|| Self::of(postgres_programs().unwrap()))
    }

    /// Starts a server of the package's programs.
    pub fn of(programs: PathBuf) -> Self {
        Self::start_after(None, programs)
    }

    /// Starts a standby, without which this server commits nothing any more.
    #[must_use]
    pub fn synchronous_standby(&self) -> Self {
        let standby = Self::start_after(Some(self), self.bin.clone());
        let psql = |sql: &str| {
            let mut client = self.client("psql");
            let output = client.args(["-qAt", "-d", "postgres", "-c", sql]).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            output.stdout
        };
        psql("alter system set synchronous_standby_names = '*'");
        psql("select pg_reload_conf()");
        let synchronous = "select 1 from pg_stat_replication where sync_state = 'sync'";
        let begun = Instant::now();
        while psql(synchronous).is_empty() {
            assert!(begun.elapsed() < STANDBY_LIMIT, "the standby is not synchronous");
        }
        standby
    }

    fn start_after(primary: Option<&Self>, bin: PathBuf) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut process = Command::new("sh")
            .args(["-c", KEEPER, "keeper"])
            .arg(&bin)
            .arg(port.to_string())
            .arg(primary.map(|primary| primary.port.to_string()).unwrap_or_default())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let orders = process.stdin.take().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let (answer, answers) = mpsc::channel();
        // A thread reads the answers, so that a wait for an answer can have a limit.
        thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| answer.send(line)));
        let keeper = Keeper { _process: process, orders, answers };
        keeper.expect("ready");
        Self { bin, port, keeper: Mutex::new(keeper) }
    }

    /// Kills all processes of the server with SIGKILL, and starts it again.
    pub fn crash(&self) {
        self.order("crash", "ready");
    }

    /// Kills the server with -9, all of its processes, for good.
    pub fn kill(&self) {
        self.order("kill", "killed");
    }

    /// Makes a standby the primary.
    pub fn promote(&self) {
        self.order("promote", "promoted");
    }

    /// Stops all processes of the server until it is thawed.
    pub fn freeze(&self) {
        self.order("freeze", "frozen");
    }

    /// Lets a frozen server go on.
    pub fn thaw(&self) {
        self.order("thaw", "thawed");
    }

    fn order(&self, order: &str, answer: &str) {
        let mut keeper = self.keeper.lock().unwrap();
        writeln!(keeper.orders, "{order}").unwrap();
        keeper.expect(answer);
    }

    /// Makes an empty database.
    pub fn database(&self) -> Database<'_> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("t{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let made = self.client("createdb").arg(&name).status().unwrap();
        assert!(made.success());
        let url = format!("postgres://tandem@127.0.0.1:{}/{name}", self.port);
        Database { cluster: self, url, name }
    }

    /// Returns a program of the server's package that connects to this server.
    pub fn client(&self, program: &str) -> Command {
        let mut command = Command::new(self.bin.join(program));
        command.args(["-h", "127.0.0.1", "-U", "tandem", "-p"]).arg(self.port.to_string());
        command.stdin(Stdio::null());
        command
    }
}

impl Keeper {
    fn expect(&self, expected: &str) {
        let answer = self.answers.recv_timeout(START_LIMIT);
        assert_eq!(answer.as_deref(), Ok(expected), "the database server does not obey");
    }
}

impl Database<'_> {
    /// Returns the address of the database.
    pub fn address(&self) -> DatabaseAddress {
        self.url.parse().unwrap()
    }

    /// Connects as a further node.
    pub async fn connect(&self) -> PostgresStore {
        PostgresStore::connect(&self.address(), LIMITS).await.unwrap()
    }

    /// Connects as a further node, which lives as long as the runtime.
    pub async fn connect_in_runtime(&self) -> PostgresStore {
        PostgresStore::connect_in_runtime(&self.address(), LIMITS).await.unwrap()
    }

    /// Runs a statement; returns the rows, with `|` between columns.
    pub fn sql(&self, sql: &str) -> String {
        let mut client = self.cluster.client("psql");
        let output = client.args(["-qAt", "-d", &self.name, "-c", sql]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }
}
