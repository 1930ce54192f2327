//! Answer to `initialize`: the agent's capabilities and the ways to log in.

use super::client::ClientKind;
use super::editor::Editor;
use tandem_agent::session::Origin;
use tandem_wire::acp::v1::{
    AgentCapabilities, AgentMeta, AuthCapabilities, AuthMethod, ClientCapabilities, Implementation,
    InitializeParams, InitializeResponse, McpCapabilities, PROTOCOL_VERSION, PromptCapabilities,
    SessionCapabilities, SteeringCapability, Supported, TerminalAuth, TerminalAuthMeta,
};
use tandem_wire::jsonrpc::{Error, Params};

/// Names of the client programs that show the name of each answer to a question, so that their user can tell several
/// answers of one kind apart. Other programs show one key, or one fixed label, for each kind.
const NAME_SHOWING: [&str; 3] = ["zed", "acpx", "toad"];

impl Editor {
    pub(super) fn initialize(&self, params: Params<'_>) -> Result<InitializeResponse, Error> {
        let introduction = params.0.map(ToOwned::to_owned);
        let params: InitializeParams = params.parse()?;
        *self.introduction.lock() = introduction;
        // A program that connects over a port must not supply or receive files of a session that other clients share.
        let files = Some(params.file_system()).filter(|_| self.is_user()).unwrap_or_default();
        let runs_commands = params.runs_commands() && self.is_user();
        let capabilities = params.client_capabilities();
        let name = params.client_name().unwrap_or_default().to_lowercase();
        *self.client.lock() = ClientKind {
            has_terminals: capabilities.meta.terminal_output,
            runs_commands: runs_commands && !capabilities.meta.terminal_output,
            has_compactions: capabilities.session.compaction.is_some(),
            has_notices: capabilities.session.notices.is_some(),
            has_forms: capabilities.elicitation.has_form(),
            shows_pages: capabilities.elicitation.has_url(),
            files,
            shows_names: NAME_SHOWING.contains(&name.as_str()),
        };
        let supported = || Supported {};
        Ok(InitializeResponse {
            protocol_version: PROTOCOL_VERSION,
            agent_capabilities: AgentCapabilities {
                load_session: true,
                prompt_capabilities: PromptCapabilities {
                    image: true,
                    audio: true,
                    embedded_context: true,
                },
                mcp_capabilities: McpCapabilities { http: true, sse: false },
                session_capabilities: SessionCapabilities::default(),
                auth: AuthCapabilities { logout: supported() },
            },
            agent_info: Implementation {
                name: "tandem",
                title: "tandem",
                version: env!("CARGO_PKG_VERSION"),
            },
            auth_methods: self.auth_methods(&capabilities),
            meta: AgentMeta { steering: SteeringCapability { supported: true } },
        })
    }

    /// Returns the ways to log in. The ways that need a terminal are not offered to programs that connect over a port:
    /// these have no terminal of the user.
    fn auth_methods(&self, client: &ClientCapabilities) -> Vec<AuthMethod> {
        const LOGIN_LABEL: &str = "Log in in a terminal";
        let provider = self.connection.service.login.provider();
        let args = vec!["login".to_owned(), format!("--provider={}", provider.name())];
        let is_editor = self.is_user();
        let command = std::env::current_exe().ok();
        let meta = command.filter(|_| client.meta.terminal_auth && is_editor).map(|command| {
            let terminal_auth = TerminalAuth { command, args: args.clone(), label: LOGIN_LABEL };
            TerminalAuthMeta { terminal_auth }
        });
        let mut methods = vec![AuthMethod::Agent {
            id: format!("{}-api-key", provider.name()),
            name: format!("{} API key", provider.title()),
            description: "Opens a page in your browser that asks for the key".to_owned(),
            meta,
        }];
        if client.auth.has_terminal() && is_editor {
            methods.push(AuthMethod::Terminal {
                r#type: "terminal",
                id: "login",
                name: LOGIN_LABEL,
                args,
            });
        }
        methods
    }

    /// Checks that the user has started the editor, and that the client is no program that connects over a port.
    /// Such programs cannot change the user's settings, for example the approval mode.
    pub(super) fn check_user(&self) -> Result<(), Error> {
        let refused = || Error::internal("only an editor that started the agent can change this");
        self.is_user().then_some(()).ok_or_else(refused)
    }

    /// Returns `true` if the user has started the editor, and `false` for a program that connects over a port.
    pub(super) fn is_user(&self) -> bool {
        self.connection.service.origin == Origin::Editor
    }
}
