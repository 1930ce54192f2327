//! The published crate `agentic-coding-protocol`, in two versions, with the same test code.

use std::fs;
use std::path::Path;

use serde_json::Value;

/// Record of one turn at the client.
pub(crate) struct Heard {
    pub(crate) lines: Vec<String>,
    /// The answer to the prompt; an error's code and data.
    pub(crate) answer: Result<(), (i32, Value)>,
    /// The files of the workspace afterwards.
    pub(crate) files: Vec<String>,
}

impl Heard {
    pub(crate) fn text(&self) -> String {
        self.lines.iter().filter_map(|line| line.strip_prefix("text ")).collect()
    }
}

/// The choice of the client's user.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Outcome {
    Allow,
    AlwaysAllow,
    AlwaysAllowMcpServer,
    AlwaysAllowTool,
    Reject,
    Cancel,
    /// No answer at all.
    Silence,
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap().to_str().unwrap().replace("workspace", ".")
}

macro_rules! client {
    ($module:ident, $acp:ident, $initialize:expr, { $($more:tt)* }) => {
        pub(crate) mod $module {
            use std::cell::RefCell;
            use std::future::pending;
            use std::rc::Rc;

            use $acp as acp;
            use acp::{AgentRequest as _, Client, Error};
            use tempfile::TempDir;
            use tokio::sync::mpsc;
            use tokio::task::LocalSet;
            use tokio::time::timeout;
            use tokio_util::compat::{TokioAsyncReadCompatExt as _, TokioAsyncWriteCompatExt as _};

            use super::{Heard, Outcome, file_name, names};
            use crate::agent::{HANG, Setup};

            #[derive(Clone)]
            struct Editor {
                heard: mpsc::UnboundedSender<String>,
                outcome: Outcome,
                calls: Rc<RefCell<u64>>,
            }

            impl Editor {
                fn hear(&self, line: String) {
                    let _ = self.heard.send(line);
                }

                fn next_call(&self) -> acp::ToolCallId {
                    *self.calls.borrow_mut() += 1;
                    acp::ToolCallId(*self.calls.borrow())
                }
            }

            fn locations(call: &acp::PushToolCallParams) -> String {
                let one = |it: &acp::ToolCallLocation| {
                    assert!(it.path.is_absolute());
                    let line = it.line.map_or(String::new(), |line| format!(":{line}"));
                    format!(" @{}{line}", file_name(&it.path))
                };
                call.locations.iter().map(one).collect()
            }

            fn content(content: Option<&acp::ToolCallContent>) -> String {
                match content {
                    None => String::new(),
                    Some(acp::ToolCallContent::Markdown { markdown }) => format!(" {markdown}"),
                    Some(acp::ToolCallContent::Diff { diff }) => {
                        format!(" {:?} -> {}", diff.old_text, diff.new_text)
                    }
                }
            }

            impl Client for Editor {
                async fn stream_assistant_message_chunk(
                    &self,
                    params: acp::StreamAssistantMessageChunkParams,
                ) -> Result<(), Error> {
                    self.hear(match params.chunk {
                        acp::AssistantMessageChunk::Text { text } => format!("text {text}"),
                        acp::AssistantMessageChunk::Thought { thought } => format!("thought {thought}"),
                    });
                    Ok(())
                }

                async fn request_tool_call_confirmation(
                    &self,
                    params: acp::RequestToolCallConfirmationParams,
                ) -> Result<acp::RequestToolCallConfirmationResponse, Error> {
                    let call = &params.tool_call;
                    let asked = match &params.confirmation {
                        acp::ToolCallConfirmation::Execute { command, root_command, .. } => {
                            format!("Execute {root_command}: {command}")
                        }
                        acp::ToolCallConfirmation::Edit { .. } => "Edit".to_owned(),
                        other => format!("{other:?}"),
                    };
                    let shown = content(call.content.as_ref());
                    let shown = if shown.is_empty() { shown } else { format!(" +{shown}") };
                    self.hear(format!("ask {:?} {asked} {}{}{shown}", call.icon, call.label, locations(call)));
                    let outcome = match self.outcome {
                        Outcome::Allow => acp::ToolCallConfirmationOutcome::Allow,
                        Outcome::AlwaysAllow => acp::ToolCallConfirmationOutcome::AlwaysAllow,
                        Outcome::AlwaysAllowMcpServer => acp::ToolCallConfirmationOutcome::AlwaysAllowMcpServer,
                        Outcome::AlwaysAllowTool => acp::ToolCallConfirmationOutcome::AlwaysAllowTool,
                        Outcome::Reject => acp::ToolCallConfirmationOutcome::Reject,
                        Outcome::Cancel => acp::ToolCallConfirmationOutcome::Cancel,
                        Outcome::Silence => pending().await,
                    };
                    Ok(acp::RequestToolCallConfirmationResponse { id: self.next_call(), outcome })
                }

                async fn push_tool_call(
                    &self,
                    call: acp::PushToolCallParams,
                ) -> Result<acp::PushToolCallResponse, Error> {
                    self.hear(format!("push {:?} {}{}", call.icon, call.label, locations(&call)));
                    Ok(acp::PushToolCallResponse { id: self.next_call() })
                }

                async fn update_tool_call(
                    &self,
                    params: acp::UpdateToolCallParams,
                ) -> Result<(), Error> {
                    assert_eq!(params.tool_call_id.0, *self.calls.borrow());
                    self.hear(format!("{:?}{}", params.status, content(params.content.as_ref())));
                    Ok(())
                }

                async fn write_text_file(&self, _: acp::WriteTextFileParams) -> Result<(), Error> {
                    unreachable!("not in the schema that we were given")
                }

                async fn read_text_file(
                    &self,
                    _: acp::ReadTextFileParams,
                ) -> Result<acp::ReadTextFileResponse, Error> {
                    unreachable!("not in the schema that we were given")
                }

                $($more)*
            }

            struct Connected {
                agent: acp::AgentConnection,
                heard: mpsc::UnboundedReceiver<String>,
                home: TempDir,
                _child: tokio::process::Child,
            }

            impl Connected {
                /// Waits until the client has handled all it has read: it handles answers at once, and everything
                /// else in tasks.
                async fn settle(&mut self, lines: &mut Vec<String>) {
                    let mut silent = 0;
                    while silent < 100 {
                        tokio::task::yield_now().await;
                        match self.heard.try_recv() {
                            Ok(line) => lines.push(line),
                            Err(_) => silent += 1,
                        }
                    }
                }
            }

            async fn connect(setup: &Setup, outcome: Outcome) -> Connected {
                let home = TempDir::new().unwrap();
                let mut child = setup.command(home.path()).spawn().unwrap();
                let (sender, heard) = mpsc::unbounded_channel();
                let editor = Editor { heard: sender, outcome, calls: Rc::default() };
                let (agent, io) = acp::AgentConnection::connect_to_agent(
                    editor,
                    child.stdin.take().unwrap().compat_write(),
                    child.stdout.take().unwrap().compat(),
                    |task| drop(tokio::task::spawn_local(task)),
                );
                tokio::task::spawn_local(io);
                let initialized: acp::InitializeResponse = $initialize(&agent).await;
                assert!(initialized.is_authenticated);
                Connected { agent, heard, home, _child: child }
            }

            fn message(text: &str) -> acp::AnyAgentRequest {
                let text = acp::UserMessageChunk::Text { text: text.to_owned() };
                acp::SendUserMessageParams { chunks: vec![text] }.into_any()
            }

            async fn heard(mut connected: Connected, answer: Result<(), Error>, mut lines: Vec<String>) -> Heard {
                connected.settle(&mut lines).await;
                let files = names(&connected.home.path().join("workspace"));
                let answer = answer.map_err(|error| (error.code, error.data.unwrap_or_default()));
                Heard { lines, answer, files }
            }

            /// Sends one prompt, and records the whole turn.
            pub(crate) async fn prompt(setup: &Setup, outcome: Outcome) -> Heard {
                let turn = async {
                    let connected = connect(setup, outcome).await;
                    let answer = connected.agent.request_any(message("go")).await.map(|_| ());
                    heard(connected, answer, Vec::new()).await
                };
                LocalSet::new().run_until(timeout(HANG, turn)).await.expect("no answer")
            }

            /// Sends one prompt, and cancels it when `at` is recorded.
            #[allow(dead_code, reason = "one version is enough")]
            pub(crate) async fn prompt_and_cancel(setup: &Setup, at: &str) -> Heard {
                let turn = async {
                    let mut connected = connect(setup, Outcome::Silence).await;
                    let answer = connected.agent.request_any(message("go"));
                    let mut lines = Vec::new();
                    while lines.last().is_none_or(|line| line != at) {
                        lines.push(connected.heard.recv().await.unwrap());
                    }
                    let cancel = acp::CancelSendMessageParams.into_any();
                    connected.agent.request_any(cancel).await.unwrap();
                    let answer = answer.await.map(|_| ());
                    heard(connected, answer, lines).await
                };
                LocalSet::new().run_until(timeout(HANG, turn)).await.expect("no answer")
            }

            /// Sends a second prompt while the first is being answered.
            #[allow(dead_code, reason = "one version is enough")]
            pub(crate) async fn two_prompts(setup: &Setup) -> Vec<String> {
                let turns = async {
                    let mut connected = connect(setup, Outcome::Allow).await;
                    let first = connected.agent.request_any(message("first"));
                    let mut lines = vec![connected.heard.recv().await.unwrap()];
                    let second = connected.agent.request_any(message("second"));
                    let aborted = first.await.map(|_| ()).unwrap_err().data.unwrap()["details"].to_string();
                    assert!(aborted.contains("aborted"));
                    lines.push("first: aborted".to_owned());
                    second.await.unwrap();
                    connected.settle(&mut lines).await;
                    lines.push("second: ok".to_owned());
                    lines
                };
                LocalSet::new().run_until(timeout(HANG, turns)).await.expect("no answer")
            }
        }
    };
}

client!(
    v0_0_9,
    acp_client_0_0_9,
    async |agent: &acp::AgentConnection| agent.initialize().await.unwrap(),
    {}
);

client!(
    v0_0_11,
    acp_client_0_0_11,
    // `initialize` of this client demands exactly 0.0.11 in the answer.
    async |agent: &acp::AgentConnection| {
        let protocol_version = acp::ProtocolVersion::latest();
        let context_servers = std::collections::HashMap::new();
        agent.request(acp::InitializeParams { protocol_version, context_servers }).await.unwrap()
    },
    {
        async fn update_plan(&self, params: acp::UpdatePlanParams) -> Result<(), Error> {
            let entries = params.entries.iter().map(|it| format!("{} {:?}", it.content, it.status));
            self.hear(format!("plan {}", entries.collect::<Vec<_>>().join(", ")));
            Ok(())
        }
    }
);
