//! The policy on hosts. The same lists, rules and answers decide on connections of commands in the sandbox, and on
//! addresses that `web_fetch` reads.

use serde_json::json;
use url::Url;

use super::check::{Check, ask, denied};
use super::decide::Action;
use super::findings::Fact;
use super::rules::{RuleEffect, Ruling, Subject};
use tandem_approval::{
    BuiltInRule, CONNECT_TOOL, PolicyRequest, Question, RuleName, Scope, Verdict,
};
use tandem_host::Access;

/// A host that an address names.
struct AddressedHost {
    /// Host as an HTTP client reads it; the whole address if it has no host.
    name: String,
    port: u16,
    /// Host as an "always" remembers it, with the port if the port is not the scheme's default.
    remembered: String,
}

impl AddressedHost {
    fn from_url(url: &str) -> Self {
        let parsed = Url::parse(url).ok();
        let host = parsed.as_ref().and_then(|it| Some((it.host_str()?, it.port(), it)));
        let Some((name, port, parsed)) = host else {
            return Self { name: url.to_owned(), port: 0, remembered: url.to_owned() };
        };
        let name = name.strip_suffix('.').unwrap_or(name).to_owned();
        let remembered = port.map_or_else(|| name.clone(), |port| format!("{name}:{port}"));
        Self { name, port: parsed.port_or_known_default().unwrap_or(0), remembered }
    }
}

/// Verdict on a host that an address names.
enum HostVerdict {
    /// The host is connected to without a question.
    Open,
    /// The approval mode decides.
    Unknown,
    /// The host is asked about every time, for this reason and by this rule.
    Asks(String, RuleName),
    Denied(Verdict),
}

impl Check<'_> {
    /// Returns the verdict on a connection of a command in the sandbox, without the written rules. `is_allowed`: the
    /// settings allow the host.
    pub(super) fn connection(&self, host: &String, is_allowed: bool) -> Verdict {
        if self.connects_unasked(host, is_allowed) {
            return Verdict::Allow;
        }
        if self.refuses_hosts() {
            return not_in_plan(std::slice::from_ref(host));
        }
        let why = "the command could send what it has read to this host, and `sandbox.network.allowedDomains` \
            does not name the host";
        ask(BuiltInRule::Network, why, vec![Scope::Connections(vec![host.clone()])])
    }

    /// Returns the verdict on a call that reads these addresses, made of the verdict on its tool and of the verdict on
    /// each host. `allowed`: the hosts that the settings allow.
    pub(super) fn fetch(&self, urls: &[String], allowed: &[String]) -> Verdict {
        let tool = self.request.tool;
        let ruling = self.ruling(Subject::Call);
        if let Some(Ruling { rule, effect: RuleEffect::Deny }) = ruling {
            return denied(rule, tool);
        }
        let (mut unknown, mut asks) = (Vec::new(), Vec::new());
        for host in urls.iter().map(|url| AddressedHost::from_url(url)) {
            match self.addressed(&host, allowed.contains(&host.name)) {
                HostVerdict::Open => {}
                HostVerdict::Unknown => unknown.push(host.remembered),
                HostVerdict::Asks(why, rule) => asks.push((why, rule)),
                HostVerdict::Denied(verdict) => return verdict,
            }
        }
        let whole = Scope::Tool(tool.to_owned());
        match ruling {
            Some(Ruling { effect: RuleEffect::Allow, .. }) => unknown.clear(),
            _ if !self.refuses_hosts() && self.always.has(&whole) => unknown.clear(),
            _ => {}
        }
        unknown.sort();
        unknown.dedup();
        if self.refuses_hosts() && !unknown.is_empty() {
            return not_in_plan(&unknown);
        }
        if let Some(Ruling { rule, effect: RuleEffect::Ask }) = ruling {
            asks.insert(0, (format!("a rule asks about `{tool}`"), rule.name.clone()));
        }
        // A rule that asks does so every time. So no "always" is offered beside its question.
        let scopes =
            if asks.is_empty() { vec![Scope::Connections(unknown.clone())] } else { vec![] };
        if !unknown.is_empty() {
            let why = format!(
                "the addresses could carry what was read to hosts that `sandbox.network.allowedDomains` does not \
                 name: {}",
                listed(&unknown)
            );
            asks.push((why, BuiltInRule::Network.into()));
        }
        if asks.is_empty() {
            return Verdict::Allow;
        }
        let (mut reasons, mut rules): (Vec<_>, Vec<_>) = asks.into_iter().unzip();
        reasons.dedup();
        rules.dedup();
        Verdict::Ask(Question { why: reasons.join("; "), rules, scopes, ..Question::default() })
    }

    /// Returns the verdict on a host that an address names.
    fn addressed(&self, host: &AddressedHost, is_allowed: bool) -> HostVerdict {
        let AddressedHost { name, port, remembered } = host;
        let args = json!({ "host": name, "port": port });
        let access = Access::Connect {
            host: name.clone(),
            port: *port,
            others: Vec::new(),
            command: String::new(),
            is_allowed,
        };
        let request =
            PolicyRequest { tool: CONNECT_TOOL, aliases: &[], args: &args, access: &access };
        let ruling = self.policy.ruling(&request, &self.situation, Subject::Call);
        let effect = ruling.as_ref().map(|ruling| ruling.effect);
        if let Some(Ruling { rule, effect: RuleEffect::Deny }) = ruling {
            return HostVerdict::Denied(denied(rule, &format!("{CONNECT_TOOL} {remembered}")));
        }
        let is_open = effect == Some(RuleEffect::Allow)
            || self.connects_unasked(remembered, is_allowed)
            || self.always.covers_host(remembered);
        if self.refuses_hosts() && !is_open {
            // The mode denies the host, whatever the answer to a rule's question would be.
            return HostVerdict::Unknown;
        }
        if let Some(Ruling { rule, effect: RuleEffect::Ask }) = ruling {
            let why = format!("a rule asks about `{remembered}`");
            return HostVerdict::Asks(why, rule.name.clone());
        }
        if let Some(broken) = self.policy.unreadable_rule(&request) {
            let why = format!("a rule that cannot be read may forbid this call: {}", broken.why);
            return HostVerdict::Asks(why, broken.name.clone());
        }
        if is_open { HostVerdict::Open } else { HostVerdict::Unknown }
    }

    /// Returns whether a host is connected to without a question, if no written rule is about it.
    fn connects_unasked(&self, host: &String, is_allowed: bool) -> bool {
        is_allowed
            || self.decide(Fact::Connects) == Action::Run
            || self.always.covers_connection(host)
    }

    /// Returns whether the mode refuses hosts that are not known.
    fn refuses_hosts(&self) -> bool {
        self.decide(Fact::Connects) == Action::Refuse
    }
}

/// Returns the denial of hosts that may not be connected to in plan mode, for the model.
fn not_in_plan(hosts: &[String]) -> Verdict {
    let why = format!(
        "Plan mode: only hosts that the user has allowed are connected to, and {} is not among them. Go on \
         with what is in the workspace.",
        listed(hosts)
    );
    Verdict::Deny { why, rule: Some(BuiltInRule::Plan.into()) }
}

fn listed(hosts: &[String]) -> String {
    hosts.iter().map(|host| format!("`{host}`")).collect::<Vec<_>>().join(", ")
}
