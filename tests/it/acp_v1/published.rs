//! The published client of ACP 1 (crate `agent-client-protocol`), against the real binary.

use std::sync::{Arc, Mutex};

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    ContentBlock, ContentChunk, InitializeRequest, NewSessionRequest, PermissionOption,
    PermissionOptionKind, PromptRequest, RequestPermissionOutcome, RequestPermissionRequest,
    RequestPermissionResponse, SelectedPermissionOutcome, SessionNotification, SessionUpdate,
    StopReason, TextContent,
};
use agent_client_protocol::{Agent, ByteStreams, Client};
use serde_json::json;
use tokio::time::timeout;
use tokio_util::compat::{TokioAsyncReadCompatExt as _, TokioAsyncWriteCompatExt as _};

use crate::agent::{HANG, Setup};

#[tokio::test]
async fn the_published_client_runs_a_turn_with_a_question() {
    let args = json!({ "file_path": "a.txt", "content": "new\n" });
    let call = json!({ "call": { "name": "write_file", "args": args } });
    let setup = Setup::answers(json!([[call], [{ "text": "done" }]])).arg("--acp");
    let home = tempfile::tempdir().unwrap();
    let mut child = setup.command(home.path()).spawn().unwrap();
    let streams = ByteStreams::new(
        child.stdin.take().unwrap().compat_write(),
        child.stdout.take().unwrap().compat(),
    );
    let workspace = home.path().join("workspace");
    let said = Arc::<Mutex<String>>::default();
    let (heard, cwd) = (Arc::clone(&said), workspace.clone());
    let client = Client
        .v1()
        .on_receive_notification(
            async move |notification: SessionNotification, _| {
                if let SessionUpdate::AgentMessageChunk(ContentChunk {
                    content: ContentBlock::Text(TextContent { text, .. }),
                    ..
                }) = notification.update
                {
                    heard.lock().unwrap().push_str(&text);
                }
                Ok(())
            },
            agent_client_protocol::on_receive_notification!(),
        )
        .on_receive_request(
            async move |request: RequestPermissionRequest, responder, _| {
                let is_once =
                    |option: &&PermissionOption| option.kind == PermissionOptionKind::AllowOnce;
                let id = request.options.iter().find(is_once).unwrap().option_id.clone();
                responder.respond(RequestPermissionResponse::new(
                    RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new(id)),
                ))
            },
            agent_client_protocol::on_receive_request!(),
        )
        .connect_with(streams, async move |connection: ConnectionTo<Agent>| {
            let initialize = InitializeRequest::new(ProtocolVersion::V1);
            connection.send_request(initialize).block_task().await?;
            let new = connection.send_request(NewSessionRequest::new(cwd)).block_task().await?;
            let prompt = vec![ContentBlock::Text(TextContent::new("go"))];
            let prompt = PromptRequest::new(new.session_id, prompt);
            let answer = connection.send_request(prompt).block_task().await?;
            assert_eq!(answer.stop_reason, StopReason::EndTurn);
            Ok(())
        });
    timeout(HANG, client).await.unwrap().unwrap();
    assert_eq!(*said.lock().unwrap(), "done");
    assert_eq!(std::fs::read_to_string(workspace.join("a.txt")).unwrap(), "new\n");
}
