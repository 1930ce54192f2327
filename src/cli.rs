//! The command line.

mod absent;
#[cfg(feature = "serve")]
mod card;
mod models;
#[cfg(feature = "serve")]
mod oidc;
#[cfg(feature = "serve")]
mod serve;
mod sessions;
#[cfg(feature = "serve")]
mod token;
#[cfg(feature = "serve")]
mod trace;
mod work;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{ArgAction, Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use clap_complete::Shell;

use crate::logging::LogFormat;
use tandem_agent::sessions::WantedSession;
use tandem_headless::Format;
use tandem_sandbox::{Mechanism, SandboxMode};
use tandem_settings::limits::{self, Change};
use tandem_tui::AgentAddress;

#[cfg(feature = "serve")]
pub(crate) use self::card::CardArgs;
pub(crate) use self::models::{ModelsArgs, ModelsCommand};
#[cfg(feature = "serve")]
pub(crate) use self::oidc::OidcArgs;
#[cfg(feature = "serve")]
use self::serve::CLIENTS_HEADING;
#[cfg(feature = "serve")]
pub(crate) use self::serve::{A2aArgs, ServeArgs, ServeCommand, ServeLine};
pub(crate) use self::sessions::{
    ExportFormat, ImportArgs, ListArgs, SessionsArgs, SessionsCommand,
};
#[cfg(feature = "serve")]
pub(crate) use self::token::{TokenCommand, TokensFile};
#[cfg(feature = "serve")]
pub(crate) use self::trace::TraceArgs;
pub(crate) use self::work::WorkArgs;
use self::work::seconds;

/// A coding agent for your editor and your terminal.
///
/// In a terminal, tandem shows the conversation. An editor starts tandem in the project's directory, and speaks ACP
/// with it over standard input and output. With -p, tandem runs one prompt for a shell. In all three, tandem answers
/// with a language model, runs tools in the project, and asks before it changes anything. The prompt `/help` lists the
/// commands of a session.
#[derive(Parser)]
#[command(name = "tandem", version, disable_version_flag = true, max_term_width = 100)]
pub(crate) struct Cli {
    /// Subcommand to run instead of serving an editor.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    /// Options of the agent.
    #[command(flatten)]
    pub(crate) agent: AgentArgs,
    /// Write logs here instead of to standard error
    #[arg(long, value_name = "FILE", global = true, help_heading = "Logs")]
    pub(crate) log_file: Option<PathBuf>,
    /// Write logs as text for people, or as a JSON object a line; `TANDEM_LOG_FORMAT` has the same effect
    #[arg(long, value_name = "FORMAT", global = true, help_heading = "Logs")]
    pub(crate) log_format: Option<LogFormat>,
    /// Log in detail, unless `TANDEM_LOG` or `RUST_LOG` is set. In a terminal the log goes to a file, whose path is
    /// printed
    #[arg(short, long, global = true, help_heading = "Logs")]
    pub(crate) debug: bool,
    /// Print version
    #[arg(short = 'v', short_alias = 'V', long, action = ArgAction::Version)]
    version: Option<bool>,
}

impl Cli {
    /// Returns the flags of a server of sessions, if sessions are to be served.
    #[cfg(feature = "serve")]
    pub(crate) fn served(&self) -> Option<&ServeArgs> {
        match &self.command {
            Some(Command::Serve(serve)) if serve.command.is_none() => Some(&serve.serve),
            _ => None,
        }
    }
}

/// Subcommand. Its arguments are built only when it is given: then the doc comment of their type takes the place of
/// the variant's, so both begin with the same line.
#[derive(Subcommand)]
#[command(defer = true)]
pub(crate) enum Command {
    /// Store a provider's API key, typed without echo and checked first
    Login {
        /// The provider: gemini, openai, anthropic, ollama, llamacpp, lmstudio, vllm, openrouter, github, azure, bedrock, vertex, or a name from your settings
        #[arg(long, value_name = "NAME", default_value = "gemini")]
        provider: String,
    },
    /// Forget a provider's stored key
    Logout {
        /// The provider: gemini, openai, anthropic, ollama, llamacpp, lmstudio, vllm, openrouter, github, azure, bedrock, vertex, or a name from your settings
        #[arg(long, value_name = "NAME", default_value = "gemini")]
        provider: String,
    },
    /// Serve other agents and tools over A2A, without an editor
    #[cfg(feature = "serve")]
    Serve(Box<ServeLine>),
    /// Attach this terminal to a session of another tandem: one started with --a2a-port, or
    /// `tandem serve`, also on another machine
    Attach(AttachArgs),
    /// List, show, search, export, copy, import and delete stored sessions
    Sessions(SessionsArgs),
    /// List the models that can be used now: of providers with a key, and of servers, also on this machine
    Models(ModelsArgs),
    /// Show all settings and their origins
    Config(ConfigArgs),
    /// Replay a recorded conversation against an agent, and report where the agent's answers differ
    Replay(ReplayArgs),
    /// Run a command in the sandbox that the agent's commands run in, or show what commands can do in the sandbox
    Sandbox(SandboxArgs),
    /// Print a completion script for a shell
    ///
    /// For bash: `source <(tandem completions bash)`; for zsh, put the output into a file `_tandem` in a
    /// directory of `$fpath`; for fish, into ~/.config/fish/completions/tandem.fish.
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Write the manual pages (man 1) into a directory
    ///
    /// `tandem manual ~/.local/share/man/man1` lets `man tandem` find them. Release archives contain them.
    Manual {
        /// The directory, which is made if it does not exist
        directory: PathBuf,
    },
}

/// Replay a recorded conversation against an agent, and report where the agent's answers differ
///
/// The client's lines are sent one after the other, each after all lines of the agent that precede
/// it in the record. The agent must write the same lines in the same order, compared as JSON: the
/// order of keys does not count, and its requests may have other ids, which the client's answers
/// then have too. After the last line the client closes the connection, and the agent must end
/// with exit status 0. Exit status: 0 if all is as recorded, 1 if not.
///
/// The agent really runs the commands of the record's script: play only records that you trust.
#[derive(Args)]
pub(crate) struct ReplayArgs {
    /// A file written by --record, or one of fixtures/acp. Paths in a record are compared as they are, so replay
    /// the record where it was made. A record that begins with a setup brings its workspace
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Show the conversation: what was said, done, asked and answered; in colour in a terminal, unless
    /// `NO_COLOR` is set
    #[arg(long)]
    pub(crate) show: bool,
    /// Write the lines of both sides: > from the client, < from the agent
    #[arg(long, conflicts_with = "show")]
    pub(crate) wire: bool,
    /// Maximum time for each line of the agent
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub(crate) timeout: Duration,
    /// The agent that must answer as recorded [default: this program, with the arguments of the record's setup, else
    /// with --acp]. In the arguments, {script} stands for a file with the model's answers: `--model replay:{script}`
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) agent: Vec<String>,
}

/// Run a command in the sandbox that the agent's commands run in, or show what commands can do in the sandbox
#[derive(Args)]
pub(crate) struct SandboxArgs {
    /// What the command may write: `read-only` (nothing but /tmp) or `workspace-write` (the working
    /// directory, too)
    #[arg(short = 's', long = "mode", value_name = "MODE", default_value = "read-only")]
    pub(crate) mode: SandboxMode,
    /// The mechanism: namespaces, bubblewrap, landlock or seatbelt [default: the best that works here]
    #[arg(long, value_name = "NAME")]
    pub(crate) mechanism: Option<Mechanism>,
    /// Change a limit; may be repeated. Only sandbox-processes, sandbox-memory-bytes and sandbox-temporary-bytes have
    /// an effect here
    #[arg(long = "limit", value_name = "NAME=VALUE")]
    pub(crate) limits: Vec<Change>,
    /// The command and its arguments. Without a command, what commands can do in the sandbox is shown
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// Attach this terminal to a session of another tandem: one started with --a2a-port, or
/// `tandem serve`, also on another machine
#[derive(Args)]
pub(crate) struct AttachArgs {
    /// The port, or the URL that the agent prints: on this machine, or https
    #[arg(value_name = "PORT|URL")]
    pub(crate) agent: AgentAddress,
    /// The session's id, or its beginning or end, if there are several
    #[arg(long, value_name = "ID", conflicts_with = "new")]
    pub(crate) session: Option<String>,
    /// Begin a new session in the working directory (`tandem serve` only)
    #[arg(long)]
    pub(crate) new: bool,
    /// Send the token in this file, if the agent wants a token; `TANDEM_A2A_TOKEN` has the same effect
    #[arg(long, value_name = "FILE")]
    pub a2a_token_file: Option<PathBuf>,
    /// Change a limit; may be repeated. Only line-bytes has an effect here
    #[arg(long = "limit", value_name = "NAME=VALUE")]
    pub(crate) limits: Vec<Change>,
}

/// Show all settings and their origins
#[derive(Args)]
pub(crate) struct ConfigArgs {
    /// Write one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Show all limits instead, with the values that apply here
    #[arg(long = "limits", conflicts_with = "json")]
    pub(crate) lists_limits: bool,
    /// Model, permissions and limits.
    #[command(flatten)]
    pub(crate) work: WorkArgs,
}

/// Headings of flags in `--help`.
const SESSION_HEADING: &str = "Session";
const SCRIPTS_HEADING: &str = "Scripts";
const EDITORS_HEADING: &str = "Editors";

/// Options of the agent for an editor, a terminal or one prompt.
#[derive(Args)]
#[expect(clippy::option_option, reason = "a flag whose value may be left out, as clap has it")]
pub(crate) struct AgentArgs {
    /// Speak ACP over standard input and output. Without this flag, `tandem` speaks ACP when standard input is not
    /// a terminal, and shows the conversation when it is one
    #[arg(long, visible_aliases = ["experimental-acp", "experimental-zed-integration"], help_heading = EDITORS_HEADING)]
    pub(crate) acp: bool,
    /// Model, permissions and limits.
    #[command(flatten)]
    pub(crate) work: WorkArgs,
    /// The first prompt: in a terminal the conversation goes on from there, anywhere else it is run
    /// as with -p
    #[arg(value_name = "PROMPT", group = "one_prompt", conflicts_with_all = ["acp", "prompt", "prompt_interactive"])]
    pub(crate) query: Vec<String>,
    /// Begin a session in the terminal with this prompt
    #[arg(
        short = 'i',
        long,
        value_name = "TEXT",
        allow_hyphen_values = true,
        conflicts_with_all = ["acp", "prompt"],
        help_heading = SESSION_HEADING
    )]
    pub(crate) prompt_interactive: Option<String>,
    /// Run one prompt and exit: the answer goes to standard output. Standard input, unless it is a
    /// terminal, is put before the prompt; with `-p -` it is the prompt. A tool call that needs a question is refused, unless
    /// others can join and answer (--a2a-port)
    #[arg(
        short,
        long,
        value_name = "TEXT",
        allow_hyphen_values = true,
        conflicts_with = "acp",
        group = "one_prompt",
        help_heading = SCRIPTS_HEADING
    )]
    pub(crate) prompt: Option<String>,
    /// Go on with the newest session of this directory
    #[arg(short, long, group = "wanted_session", help_heading = SESSION_HEADING)]
    pub(crate) r#continue: bool,
    /// Go on with a stored session: its id or the beginning of the id, its number in `tandem sessions`, words of
    /// its title, or a checkpoint's tag. Without SESSION, a terminal lets you choose
    #[arg(
        short,
        long,
        value_name = "SESSION",
        num_args = 0..=1,
        group = "wanted_session",
        help_heading = SESSION_HEADING
    )]
    pub(crate) resume: Option<Option<String>>,
    /// Output format of -p: text, json (one object at the end), stream-json (one object a line, as
    /// events happen)
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        default_value_t,
        requires = "one_prompt",
        help_heading = SCRIPTS_HEADING
    )]
    pub(crate) output_format: Format,
    /// Answer with JSON that fits the JSON Schema in this file. As text, the JSON is all that -p writes; the JSON formats
    /// have it as `structured_output`. An answer that does not fit is asked for again, twice at most. Then the run fails
    /// (exit code 5)
    #[arg(long, value_name = "FILE", requires = "one_prompt", help_heading = SCRIPTS_HEADING)]
    pub(crate) output_schema: Option<PathBuf>,
    /// Fail (exit code 4) if a tool call of -p was refused. Both JSON formats list such calls in
    /// `permission_denials`
    #[arg(long, requires = "one_prompt", help_heading = SCRIPTS_HEADING)]
    pub(crate) fail_on_refusal: bool,
    /// More directories that the agent may work in
    #[arg(long, value_name = "DIR", value_delimiter = ',', help_heading = SESSION_HEADING)]
    pub(crate) include_directories: Vec<PathBuf>,
    /// Write every line of the connection into a file, as JSON Lines
    #[arg(long, value_name = "FILE", conflicts_with = "prompt", help_heading = EDITORS_HEADING)]
    pub(crate) record: Option<PathBuf>,
    /// Maximum time for running work after standard input has ended. The same time counts after a signal while others
    /// have joined (--a2a-port); a second signal ends the work at once
    #[arg(
        long,
        value_name = "SECONDS",
        default_value = "30",
        value_parser = seconds,
        conflicts_with = "prompt",
        help_heading = EDITORS_HEADING
    )]
    pub(crate) drain_timeout: Duration,
    /// Let other agents and tools join the session over A2A, at http://127.0.0.1:PORT (0: any free
    /// port, printed on standard error or in the terminal's last row). Other users of this machine
    /// can reach the port too: see --a2a-token-file
    #[cfg(feature = "serve")]
    #[arg(long, value_name = "PORT", help_heading = CLIENTS_HEADING)]
    pub a2a_port: Option<u16>,
    /// Access over A2A.
    #[cfg(feature = "serve")]
    #[command(flatten)]
    pub a2a: A2aArgs,
}

const HELP_EXAMPLES: &str = "\
Examples:
  tandem                                a session in the terminal; ? shows the keys
  tandem 'why does the test fail?'      the same, beginning with this prompt
  tandem --a2a-port 41242               a session that other agents and terminals may join
  tandem --acp                          the command for an editor's settings
  tandem --acp --a2a-port 41242         the same, for sessions that others may join
  tandem -p 'why does the test fail?'   one prompt, for a shell; only the answer is written
  git diff | tandem -p 'review this' --output-format json | jq -r .response
  tandem -p - < prompt.md               the prompt from standard input
  tandem -c                             go on with the newest session of this directory
  tandem -r                             choose one of the stored sessions
  tandem -c -p '/restore turn 1'        take back what turn 1 of the newest session changed in files
  tandem --approval-mode auto_edit      edits of files need no question
  tandem -p /permissions                what needs no question: rules, \"always\", this folder
  tandem sessions                       list the stored sessions of this directory
  tandem serve --workspace-root ~/src   sessions for other agents, each in its own directory
  tandem serve token add alice          a token for alice, who then has sessions of her own there
  tandem attach 41242                   watch and answer, in a terminal, what an editor's agent does
  tandem replay --show FILE             replay a record of --record, show it, and compare
  tandem login                          store a Gemini API key
  tandem manual ~/.local/share/man/man1 the manual pages, for `man tandem`
  tandem models                         list the models that can be used, also of this machine
  tandem --model ollama:qwen3:8b        a model of this machine
  tandem --model replay -y < FILE       run the demonstration for messages in a file; the source
                                        has one: fixtures/acp/hello.ndjson

Environment:
  GEMINI_API_KEY, GOOGLE_API_KEY        the key; wins over one stored with `tandem login`
  GEMINI_MODEL                          the model, unless --model is given; also in your `.env`
  GOOGLE_GEMINI_BASE_URL                a gateway instead of Google's server
  GOOGLE_GENAI_USE_VERTEXAI             true: Gemini is asked at Vertex AI, with GOOGLE_API_KEY in
                                        express mode, or in GOOGLE_CLOUD_PROJECT
  GOOGLE_CLOUD_PROJECT                  the project for models like vertex:gemini-3.8-flash and
                                        vertex:claude-opus-5, with the credentials of `gcloud` or of
                                        GOOGLE_APPLICATION_CREDENTIALS
  ANTHROPIC_API_KEY                     the key for models like anthropic:claude-opus-5-5; or
                                        ANTHROPIC_AUTH_TOKEN, a bearer token for a gateway
  ANTHROPIC_BASE_URL                    a gateway instead of Anthropic's server
  OPENAI_API_KEY                        the key for models like openai:gpt-6.1-sol
  OPENAI_BASE_URL                       another server of the same API: a gateway, vLLM, llama.cpp
  OPENROUTER_API_KEY                    the key for models like openrouter:qwen/qwen3-coder
  GITHUB_TOKEN                          the token for GitHub Models, like github:openai/gpt-4.1
  AZURE_OPENAI_ENDPOINT                 the resource of models like azure:DEPLOYMENT, with
                                        AZURE_OPENAI_API_KEY, or AZURE_OPENAI_AD_TOKEN, a token of
                                        Microsoft Entra
  AWS_REGION, AWS_BEARER_TOKEN_BEDROCK  the region of Amazon Bedrock and the key for models like
                                        bedrock:anthropic.claude-opus-5; other credentials of AWS
                                        do as well
  OLLAMA_HOST                           Ollama's address [http://127.0.0.1:11434]
  TANDEM_LOCAL_SERVERS                  programs that are looked for at their usual ports of this
                                        machine; empty: none [ollama,llamacpp,lmstudio,vllm]
  HTTPS_PROXY, NO_PROXY                 as everywhere
  TANDEM_A2A_TOKEN                      token that clients of the A2A port must send
  BROWSER                               program that opens the page that asks for a key
  TANDEM_CONFIG_DIR                     directory of the key, models.json and the history of
                                        prompts [~/.config/tandem]
  TANDEM_STATE_DIR                      directory of file versions for /restore and of long
                                        output, while the session lives
                                        [~/.local/state/tandem]
  TANDEM_SESSIONS                       directory of the stored sessions; empty: none is stored
                                        [$XDG_DATA_HOME/tandem/sessions, which is
                                        ~/.local/share/tandem/sessions]
  TANDEM_STORE                          database of the sessions of `tandem serve`; as --store
  TANDEM_LOG, RUST_LOG                  log level: error, warn (default), info, debug, trace, or
                                        that of a part of the program: tandem::rpc=trace
  TANDEM_LOG_FORMAT                     text (default), or json: an object a line
  OTEL_EXPORTER_OTLP_ENDPOINT           collector that `tandem serve` sends its traces to
  VISUAL, EDITOR                        the editor for long prompts and proposed files [vi]
  NO_COLOR                              no colours in logs and in the terminal
";

/// Lines above the limits in `--help`.
const LIMITS_TITLE: &str = "\
Limits: the name, whose end is the unit; what is limited; the default. These are often set,
`tandem config --limits` lists all:";

/// Returns `true` if invalid arguments ask for one prompt to be run.
pub(crate) fn wants_prompt() -> bool {
    std::env::args_os().skip(1).any(|arg| {
        let arg = arg.to_string_lossy();
        match arg.strip_prefix("--") {
            Some(long) => long == "prompt" || long.starts_with("prompt="),
            // `-p` may follow `-y` in one argument, as in `-yp`.
            None => {
                arg.strip_prefix('-').is_some_and(|it| it.trim_start_matches('y').starts_with('p'))
            }
        }
    })
}

/// Reads the arguments. The error prints itself, and is no failure for `--help`.
pub(crate) fn parse() -> Result<Cli, clap::Error> {
    let mut command = Cli::command();
    // This part of the help is long, so it is put together only if the arguments ask for help.
    if std::env::args_os().any(|arg| arg == "--help" || arg == "help") {
        command =
            command.after_long_help(format!("{}\n{LIMITS_TITLE}\n{}", examples(), limits::help()));
    }
    let args: Vec<_> = std::env::args_os().collect();
    if let Some(error) = absent::subcommand(args.iter().skip(1).map_while(|arg| arg.to_str())) {
        return Err(error);
    }
    let matches = command.try_get_matches_from(args).map_err(absent::flag)?;
    let cli = Cli::from_arg_matches(&matches)?;
    // The check above sees only the first arguments. Behind flags, a subcommand that tandem does not have ends up in
    // `query`.
    let query = || cli.agent.query.iter().map(String::as_str);
    match absent::subcommand(query()).or_else(|| absent::misspelt(query(), Cli::command)) {
        Some(error) => Err(error),
        None => Ok(cli),
    }
}

/// Returns the examples and variables for `--help`. In a program without servers, lines about servers are left out.
fn examples() -> String {
    let is_of_servers =
        |line: &&str| ["--a2a-port", "tandem serve"].iter().any(|it| line.contains(it));
    let is_shown = |line: &&str| cfg!(feature = "serve") || !is_of_servers(line);
    HELP_EXAMPLES.split_inclusive('\n').filter(is_shown).collect()
}

impl AgentArgs {
    /// Returns the session to go on with, if one is asked for.
    pub(crate) fn wanted_session(&self) -> WantedSession {
        match &self.resume {
            // The word of Gemini CLI for the newest session.
            Some(Some(text)) if text == "latest" => WantedSession::Newest,
            Some(Some(text)) => WantedSession::Named(text.clone()),
            Some(None) => WantedSession::Pick,
            None if self.r#continue => WantedSession::Newest,
            None => WantedSession::New,
        }
    }

    /// Returns `true` if other agents and tools may join the session.
    #[cfg_attr(
        not(feature = "serve"),
        expect(clippy::unused_self, reason = "there is no flag to read")
    )]
    pub(crate) fn is_shared(&self) -> bool {
        #[cfg(feature = "serve")]
        return self.a2a_port.is_some();
        #[cfg(not(feature = "serve"))]
        false
    }

    /// Returns the file with the token that this process sends to other tandem processes of this machine, if the user
    /// has named such a file.
    #[cfg_attr(
        not(feature = "serve"),
        expect(clippy::unused_self, reason = "there is no flag to read")
    )]
    pub(crate) fn token_file(&self) -> Option<&Path> {
        #[cfg(feature = "serve")]
        return self.a2a.a2a_token_file.as_deref();
        #[cfg(not(feature = "serve"))]
        None
    }

    /// Returns `true` if one prompt is run and no more, even in a terminal.
    pub(crate) fn one_prompt(&self) -> bool {
        let has_format = self.output_format != Format::default() || self.output_schema.is_some();
        self.prompt.is_some() || has_format
    }

    /// Returns the first prompt.
    pub(crate) fn first_prompt(&self) -> Option<String> {
        let query = (!self.query.is_empty()).then(|| self.query.join(" "));
        [&self.prompt, &self.prompt_interactive].into_iter().find_map(Clone::clone).or(query)
    }
}
