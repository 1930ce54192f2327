//! The tools of a session: the built-in tools, then the tools of MCP servers. The catalog of their specifications is
//! large. It is built when a turn first needs it, so that it does not delay the answer to `initialize`, and freed at
//! the end of the turn, so that an idle session takes little memory. While nothing has changed, the model is given the
//! same bytes.

use std::sync::Arc;

use serde_json::Value;

use super::other_agents::{self, BuiltInCall};
use crate::session::state::session_state::CurrentState;
use parking_lot::Mutex;
use tandem_approval::{LoadedRules, Permissions, PolicyRequest, ToolList};
use tandem_host::{Access, Tool, ToolAudience, ToolSpec};
use tandem_mcp::Hub;
use tandem_model::{Call, Model, TextForm, ToolDeclaration};

/// Name of the tool that edits files by patches.
const PATCH_TOOL: &str = "apply_patch";

/// Name of the tool that edits a file by replacing texts.
const REPLACE_TOOL: &str = "replace";

/// Name of the tool that asks the user.
const ASK_TOOL: &str = "ask_user";

/// Built-in tools of the short set: those without which no work on code is possible.
const SHORT_SET: [&str; 7] = [
    "read_file",
    "glob",
    "grep_search",
    "write_file",
    REPLACE_TOOL,
    PATCH_TOOL,
    "run_shell_command",
];

/// Largest context window, in tokens, whose model is given the short set. All built-in tools would take a third of it.
const MAX_SMALL_WINDOW_TOKENS: u64 = 8192;

/// Returns `true` if a model's context window is known to be small.
pub(crate) fn has_small_window(model: &dyn Model) -> bool {
    model.input_limit().is_some_and(|window| window <= MAX_SMALL_WINDOW_TOKENS)
}

/// The tools of a session.
pub(crate) struct Toolbox {
    built_in: Vec<Arc<dyn Tool>>,
    servers: Arc<Hub>,
    permissions: Arc<Permissions>,
    /// State of the session, which may limit the tools.
    state: CurrentState,
    selection: ToolSelection,
    /// The catalog that was built last; `None` while it is freed.
    last_catalog: Mutex<Option<Arc<ToolCatalog>>>,
}

/// Facts on a session that limit the tools of which models are told.
#[derive(Clone, Copy)]
pub(crate) struct ToolSelection {
    /// `true` if models have the short set of built-in tools, `false` if they have all; `None`: a model's window
    /// decides.
    pub(crate) short: Option<bool>,
    /// `true` if a person can be asked.
    pub(crate) is_attended: bool,
}

/// A snapshot of all tools, and of the facts that it was built from.
struct ToolCatalog {
    /// Version of the servers' offers, as counted by the hub.
    version: u64,
    /// Number of built-in tools that are available. They come first in `tools`.
    offered: usize,
    /// Rules from which the tools were selected.
    rules: Arc<LoadedRules>,
    /// Names of the tools to which the session is limited; `None` if it is not limited.
    limit: Option<Arc<[String]>>,
    /// Properties of the model on which the declarations depend.
    model: ModelTraits,
    /// Facts on which the texts of the declarations depend.
    audience: ToolAudience,
    tools: Vec<Arc<dyn Tool>>,
    /// The specification of each tool, in the order of `tools`.
    specs: Vec<Arc<ToolSpec>>,
    /// The declarations for the model of the tools that the rules and the limit allow.
    declarations: Arc<[ToolDeclaration]>,
}

/// Properties of a model on which the declarations of tools depend.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct ModelTraits {
    /// `true` if the model edits files by patches.
    by_patch: bool,
    /// `true` if the model has the short set of built-in tools.
    short: bool,
}

impl Toolbox {
    pub(crate) fn new(
        built_in: Vec<Arc<dyn Tool>>,
        servers: &Arc<Hub>,
        permissions: &Arc<Permissions>,
        state: CurrentState,
        selection: ToolSelection,
    ) -> Self {
        let (servers, permissions) = (Arc::clone(servers), Arc::clone(permissions));
        Self { built_in, servers, permissions, state, selection, last_catalog: Mutex::default() }
    }

    /// Returns the tool of a name, which may be an older name of the tool. Some models write no dots in names, so `_`
    /// is also accepted in place of each dot.
    pub(super) fn find(&self, name: &str) -> Option<(Arc<dyn Tool>, Arc<ToolSpec>)> {
        let known = self.catalog();
        let specs = &known.specs;
        let is_it = |spec: &Arc<ToolSpec>| spec.is_named(name);
        let without_dots = |spec: &Arc<ToolSpec>| spec.name.replace('.', "_") == name;
        let found = specs.iter().position(is_it).or_else(|| specs.iter().position(without_dots))?;
        Some((Arc::clone(&known.tools[found]), Arc::clone(&specs[found])))
    }

    /// Returns a call with the names of this agent's tools and arguments in place of the names of other agents, which
    /// models also use. The arguments of calls of MCP servers' tools stay as they are.
    pub(super) fn translated(&self, mut call: Call) -> Call {
        if self.find(&call.name).is_none() {
            let bare = other_agents::without_prefix(&call.name).to_owned();
            if self.find(&bare).is_some() {
                call.name = bare;
            } else if let Some(BuiltInCall { tool, args }) =
                other_agents::translate(&call.name, call.args.clone())
                && self.find(tool).is_some()
            {
                (call.name, call.args) = (tool.to_owned(), args);
                return self.patch_of(call);
            }
        }
        let known = self.catalog();
        let built_in = known.specs[..known.offered].iter().find(|spec| spec.is_named(&call.name));
        if let Some(spec) = built_in {
            call.args = other_agents::arguments(&spec.name, call.args);
        }
        self.patch_of(call)
    }

    /// Returns the call of the tool that applies patches, for a command line that does nothing but apply a patch; any
    /// other call unchanged.
    fn patch_of(&self, call: Call) -> Call {
        match other_agents::patch_of_command(&call.name, &call.args) {
            Some(BuiltInCall { tool, args }) if self.find(tool).is_some() => {
                Call { name: tool.to_owned(), args, ..call }
            }
            _ => call,
        }
    }

    /// Returns the error that tells the model that a tool does not exist, or that its MCP server is not there.
    pub(super) fn unknown(&self, name: &str) -> String {
        if let Some(why) = self.servers.missing(name) {
            return format!("The tool `{name}` is unavailable now. {why}");
        }
        let known = self.catalog();
        let names: Vec<_> = match known.limit {
            Some(_) => known.declarations.iter().map(|tool| tool.name.as_str()).collect(),
            None => known.specs.iter().map(|spec| spec.name.as_str()).collect(),
        };
        format!("Unknown tool `{name}`. Known tools: {}.", names.join(", "))
    }

    /// Returns the reason, for the model, why the session's limit forbids the tool of a call; `None` if it does not.
    pub(super) fn beyond_limit(&self, request: &PolicyRequest<'_>) -> Option<String> {
        let names = self.limit()?;
        if ToolList::new(&names).has(request) {
            return None;
        }
        let tools = match &*names {
            [] => "none".to_owned(),
            names => names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "),
        };
        Some(format!(
            "Not run: `{}` is none of the tools that this session may use ({tools}). Go on without it, and say in your \
             answer what is missing.",
            request.tool
        ))
    }

    /// Returns the names of the tools to which the session is limited; `None` if it is not limited.
    fn limit(&self) -> Option<Arc<[String]>> {
        self.state.with_state(|state| state.tools.clone())
    }

    /// Returns the tool declarations for a model, always in the same order. A model is told of one tool to edit
    /// files: it has been trained either to write patches, or to replace texts. If it may not use that tool, it has
    /// the other. A model with a small window is told of few built-in tools; a call of another works nevertheless.
    /// The tool that asks the user is left out where nobody can be asked.
    pub(crate) fn declarations(&self, model: &dyn Model) -> Arc<[ToolDeclaration]> {
        let short = self.selection.short.unwrap_or_else(|| has_small_window(model));
        let model = ModelTraits { by_patch: model.edits_by_patch(), short };
        // The built-in tools are counted only here, and not for each call, because `Tool::is_offered` may read files.
        let offered = self.available_tools().count();
        let is_good = |known: &ToolCatalog| known.offered == offered && known.model == model;
        Arc::clone(&self.catalog_if(Some(model), is_good).declarations)
    }

    /// Returns the facts on which the texts for the model depend that was told of tools last.
    pub(super) fn audience(&self) -> ToolAudience {
        self.catalog().audience
    }

    /// Frees the catalog, which is built anew when it is needed next.
    pub(crate) fn drop_catalog(&self) {
        *self.last_catalog.lock() = None;
    }

    fn catalog(&self) -> Arc<ToolCatalog> {
        self.catalog_if(None, |_| true)
    }

    /// Returns the current catalog if the servers' offers, the rules and the limit are the same and `is_good` accepts
    /// it; otherwise builds a new one. With `None` for `model`, the declarations are for the same model as before.
    fn catalog_if(
        &self,
        model: Option<ModelTraits>,
        is_good: impl Fn(&ToolCatalog) -> bool,
    ) -> Arc<ToolCatalog> {
        // The lock is held while a catalog is built, so that callers that come meanwhile share the catalog.
        let mut known = self.last_catalog.lock();
        let version = self.servers.version();
        let (rules, limit) = (self.permissions.loaded(), self.limit());
        let same = |known: &ToolCatalog| {
            known.version == version && Arc::ptr_eq(&known.rules, &rules) && known.limit == limit
        };
        match &*known {
            Some(known) if same(known) && is_good(known) => Arc::clone(known),
            before => {
                let before = before.as_ref().map(|before| before.model);
                let model = model.or(before).unwrap_or_default();
                let catalog = self.read(version, rules, limit, model);
                Arc::clone(known.insert(Arc::new(catalog)))
            }
        }
    }

    /// Returns the built-in tools that are available now.
    fn available_tools(&self) -> impl Iterator<Item = &Arc<dyn Tool>> {
        self.built_in.iter().filter(|tool| tool.is_offered())
    }

    fn read(
        &self,
        version: u64,
        rules: Arc<LoadedRules>,
        limit: Option<Arc<[String]>>,
        model: ModelTraits,
    ) -> ToolCatalog {
        let mut tools: Vec<_> = self.available_tools().map(Arc::clone).collect();
        let offered = tools.len();
        tools.extend(self.servers.tools());
        let specs: Vec<_> = tools.iter().map(|tool| Arc::new(tool.spec())).collect();
        let list = limit.as_ref().map(|names| ToolList::new(names));
        let is_short = |spec: &ToolSpec| SHORT_SET.contains(&spec.name.as_str());
        let all = tools.iter().zip(&specs).enumerate();
        let has_user = self.selection.is_attended;
        let wanted = all.filter(|(at, (_, spec))| {
            let is_built_in = *at < offered;
            !is_built_in
                || ((!model.short || is_short(spec)) && (has_user || spec.name != ASK_TOOL))
        });
        let mut told: Vec<_> = wanted.map(|(_, tool)| tool).collect();
        told.retain(|(tool, spec)| {
            let access = tool.access().unwrap_or(Access::Nothing);
            let request = request(spec, &access);
            list.as_ref().is_none_or(|list| list.has(&request))
                && !self.permissions.removes(&request)
        });
        let (wanted, other) =
            if model.by_patch { (PATCH_TOOL, REPLACE_TOOL) } else { (REPLACE_TOOL, PATCH_TOOL) };
        if told.iter().any(|(_, spec)| spec.name == wanted) {
            told.retain(|(_, spec)| spec.name != other);
        }
        let is_told = |name: &&str| told.iter().any(|(_, spec)| spec.name == *name);
        let audience = ToolAudience {
            is_attended: has_user,
            has_short_set: model.short,
            edit_tool: [wanted, other].into_iter().find(is_told),
        };
        let declared = told.into_iter().map(|(tool, _)| declaration(&**tool, audience));
        let declarations = declared.collect();
        ToolCatalog { version, offered, rules, limit, model, audience, tools, specs, declarations }
    }
}

/// Returns the declaration of a tool for a model.
fn declaration(tool: &dyn Tool, audience: ToolAudience) -> ToolDeclaration {
    let text_form = tool.freeform().map(|form| TextForm {
        argument: form.argument.to_owned(),
        grammar: form.grammar.to_owned(),
    });
    let ToolSpec { name, description, parameters, .. } = tool.spec_for(audience);
    ToolDeclaration { name, description, parameters, text_form }
}

/// Returns the request by which rules and limits judge a tool before any call of it: without arguments.
fn request<'a>(spec: &'a ToolSpec, access: &'a Access) -> PolicyRequest<'a> {
    PolicyRequest { tool: &spec.name, aliases: spec.aliases, args: &Value::Null, access }
}
