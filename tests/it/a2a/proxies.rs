//! nginx and Caddy in front of `tandem serve`, set up as the manual says.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;

use serde_json::json;
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::curl::Curl;
use super::network::records;
use super::server::{Served, ends, kind, prompt, serve};
use super::socket::Socket;
use super::tls::{self, fixture, models};
use crate::agent::HANG;
use crate::needs::{Need, find, lacking};

/// The page with the settings.
const PAGE: &str = include_str!("../../../docs/network.md");

/// A hash of `secret` that is fast to compute.
const HASH: &str = "$2b$04$TxR5mWhX2xIKNqBJSiqgDOET7urLwv8hr5vKyAQuhDX4DM6hhbQCq";

/// Way in which clients authenticate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    /// Clients have tokens of their own.
    Tokens,
    /// The proxy names its users.
    Users,
}

/// Returns the n-th block of the page in a language.
fn block(language: &str, n: usize) -> &'static str {
    let fence = format!("```{language}\n");
    PAGE.split(fence.as_str()).nth(n + 1).unwrap().split_once("```").unwrap().0
}

/// Returns nginx with these servers, and its files in this directory; `None` if nginx is not installed.
pub(super) fn nginx(home: &Path, servers: &str) -> Option<Command> {
    if lacking(Need::Nginx) {
        return None;
    }
    let (file, home) = (home.join("nginx.conf"), home.display());
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("{name}_temp_path \"{home}/{name}\";\n"))
        .concat();
    let settings = format!(
        "daemon off; master_process off; pid \"{home}/pid\"; error_log \"{home}/error.log\";\n\
         events {{}}\nhttp {{\naccess_log off;\n{temporary}{servers}}}\n"
    );
    fs::write(&file, settings).unwrap();
    let mut command = Command::new(find("nginx")?);
    command.arg("-p").arg(home.to_string()).arg("-c").arg(file);
    Some(command)
}

/// Starts a server, and waits until it listens.
pub(super) async fn start(command: &mut Command, port: u16) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let server = command.kill_on_drop(true).spawn().unwrap();
    let listens = async {
        while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    timeout(HANG, listens).await.expect("it does not listen");
    server
}

/// Returns a port that is free.
pub(super) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A proxy that runs, and the server behind it.
struct Proxied {
    server: Served,
    port: u16,
    _proxy: Child,
    _home: TempDir,
}

/// Directory and ports for which a proxy is set up.
struct Site {
    home: TempDir,
    server: u16,
    port: u16,
}

impl Site {
    /// Returns settings of the manual for these ports and files.
    fn settings(&self, text: &str) -> String {
        let users = self.home.path().join("users");
        fs::write(&users, "alice:{PLAIN}secret\n").unwrap();
        let quoted = |path: &Path| format!("\"{}\"", path.display());
        text.replace("listen 443", &format!("listen 127.0.0.1:{}", self.port))
            .replace("tandem.example {", &format!("https://tandem.example:{} {{", self.port))
            .replace("127.0.0.1:41242", &format!("127.0.0.1:{}", self.server))
            .replace("/etc/ssl/tandem.example.pem", &quoted(&fixture("first.pem")))
            .replace("/etc/ssl/private/tandem.example.key", &quoted(&fixture("first.key")))
            .replace("/etc/nginx/tandem.users", &quoted(&users))
            .replace("HASH", HASH)
    }

    fn nginx(&self, access: Access) -> Option<Command> {
        let mut site = block("nginx", 0).to_owned();
        if access == Access::Users {
            let end = site.rfind("    }\n}").unwrap();
            site.insert_str(end, &block("nginx", 1).replace("TOKEN", "t0ken"));
        }
        nginx(self.home.path(), &self.settings(&site))
    }

    fn caddy(&self, access: Access) -> Option<Command> {
        if lacking(Need::Caddy) {
            return None;
        }
        let mut site = block("caddyfile", 0).to_owned();
        if access == Access::Users {
            let at = site.find("\thandle_path").unwrap();
            site = format!("{}{}}}\n", &site[..at], block("caddyfile", 1));
        }
        let options = "{\n\tadmin off\n\tauto_https disable_redirects\n}\n";
        let file = self.home.path().join("Caddyfile");
        fs::write(&file, options.to_owned() + &self.settings(&site)).unwrap();
        let mut command = Command::new(find("caddy")?);
        command.args(["run", "--adapter", "caddyfile", "--config"]).arg(file);
        command.env("HOME", self.home.path()).env("TOKEN", "t0ken");
        command.env_remove("XDG_CONFIG_HOME").env_remove("XDG_DATA_HOME");
        Some(command)
    }
}

impl Proxied {
    /// Starts the proxy and the server; `None` if the proxy or `curl` is not installed.
    async fn start(
        access: Access,
        proxy: impl Fn(&Site, Access) -> Option<Command>,
    ) -> Option<Self> {
        if lacking(Need::Curl) {
            return None;
        }
        let port = free_port();
        let url = format!("https://tandem.example:{port}/agent/");
        let setup = models().file("token", "t0ken").arg("--a2a-token-file").arg("token");
        let setup = setup.arg("--public-url").arg(&url).arg("--trust-proxy").arg("127.0.0.1");
        let setup = match access {
            Access::Tokens => setup,
            Access::Users => setup.arg("--proxy-user-header").arg("X-Forwarded-User"),
        };
        let server = serve(&setup.arg("--audit").arg("audit.jsonl")).await;
        let home = tempfile::tempdir().unwrap();
        let site = Site { home, server: server.client.port, port };
        let mut command = proxy(&site, access)?;
        let proxy = start(&mut command, port).await;
        Some(Self { server, port, _proxy: proxy, _home: site.home })
    }

    fn url(&self) -> String {
        format!("https://tandem.example:{}/agent", self.port)
    }

    fn curl(&self) -> Curl {
        let resolve = format!("tandem.example:{}:127.0.0.1", self.port);
        Curl::new(&self.url()).with(&["--http2", "--resolve", &resolve])
    }

    /// Checks what every client can do, with the credentials of this client.
    async fn check(&self, client: &Curl, authorization: &str) {
        let card = client.get("/.well-known/agent-card.json").await.unwrap();
        assert_eq!((card.status.as_str(), card.version.as_str()), ("200", "2"), "{}", card.body);
        assert!(card.body.contains(&format!("\"url\":\"{}/\"", self.url())), "{}", card.body);
        // The proxy must pass an event on before the stream ends.
        let mut stream = client.call("message/stream", prompt("hang")).await;
        let begun = stream.until(|event| kind(event) == "TEXT_CONTENT").await;
        client.result("tasks/cancel", json!({ "id": begun[0]["id"] })).await;
        stream.until(ends).await;
        assert_eq!(stream.next().await, None);
        let authorization = ("authorization", authorization);
        let open = async |headers: &[(&str, &str)]| {
            let (name, path) = ("tandem.example", "/agent/ws");
            Socket::open_secure(tls::client(), name, self.port, path, headers).await
        };
        let mut socket = open(&[authorization]).await.unwrap();
        let got = socket.call(1, "tasks/get", json!({ "id": begun[0]["id"] })).await;
        assert_eq!(got["result"]["status"]["state"], "canceled");
        let page = ("origin", "https://evil.example");
        let refused = open(&[authorization, page]).await;
        assert_eq!(refused.map(drop), Err(403));
        let own = format!("https://tandem.example:{}", self.port);
        let own = open(&[authorization, ("origin", &own)]).await;
        assert_eq!(own.map(drop), Ok(()));
    }
}

async fn check(proxy: impl Fn(&Site, Access) -> Option<Command> + Copy) {
    let Some(it) = Proxied::start(Access::Tokens, proxy).await else { return };
    let bearer = "Bearer t0ken";
    it.check(&it.curl().header(&format!("Authorization: {bearer}")), bearer).await;
    assert_eq!(it.curl().get("/listCommands").await.unwrap().status, "401");
    let other = it.curl().header("Host: evil.example").get("/.well-known/agent-card.json").await;
    assert!(!other.unwrap().body.contains("\"name\""));

    let Some(it) = Proxied::start(Access::Users, proxy).await else { return };
    let alice = it.curl().with(&["-u", "alice:secret", "-H", "X-Forwarded-User: bob"]);
    it.check(&alice, "Basic YWxpY2U6c2VjcmV0").await;
    let token = it.curl().header(&format!("Authorization: {bearer}"));
    assert_eq!(token.get("/listCommands").await.unwrap().status, "401");
    assert_eq!(it.server.client.send("GET /listCommands", &[], b"").await.status, 401);
    assert_eq!(records(&it.server, "prompt", 1).await[0]["principal"], "alice");
}

#[tokio::test]
async fn clients_reach_it_through_nginx() {
    check(Site::nginx).await;
}

#[tokio::test]
async fn clients_reach_it_through_caddy() {
    check(Site::caddy).await;
}
