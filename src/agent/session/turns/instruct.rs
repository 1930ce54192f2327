//! The system instruction of a request, and what the model is told of changed surroundings.

use std::sync::Arc;

use crate::session::calls::toolbox::has_small_window;
use crate::session::context::surroundings::{
    CommandNetwork, CommandSurroundings, ModelFacts, SurroundingLine, Surroundings,
};
use crate::session::engine::Engine;
use tandem_sandbox::SandboxMode;

/// Returns the system instruction, and tells the model the changes of the instructions and the surroundings since the
/// last time.
pub(super) async fn instruct(engine: &Engine) -> Arc<str> {
    // The set of tools, and the notes for small models, depend on the window.
    engine.model.get().learn_window().await;
    engine.instructions.instruct(&surroundings(engine).await).await
}

/// Tells the model, with its next message, which surroundings have changed.
pub(super) async fn tell_surroundings(engine: &Engine) {
    engine.instructions.tell_surroundings(&surroundings(engine).await).await;
}

async fn surroundings(engine: &Engine) -> Vec<SurroundingLine> {
    let commands = commands(engine).await;
    let model = engine.model.get();
    let surroundings = Surroundings {
        model: ModelFacts {
            id: model.id().to_owned(),
            has_small_window: has_small_window(&*model),
            edits_by_patch: model.edits_by_patch(),
        },
        mode: engine.modes.current(),
        commands,
        is_attended: engine.is_attended,
        roots: engine.host.workspace.roots().to_owned(),
    };
    surroundings.lines()
}

/// Returns the sandbox and the network of commands whose call asks for nothing else.
async fn commands(engine: &Engine) -> CommandSurroundings {
    let given_way = engine.host.sandbox_has_given_way();
    let Some(sandbox) = engine.host.sandbox.as_ref().filter(|_| !given_way) else {
        return CommandSurroundings::Unsandboxed;
    };
    // The mode depends on the rules. Here they are not read on the runtime's thread.
    if engine.approvals.load_rules().await.is_err() {
        return CommandSurroundings::Refused;
    }
    let probe = sandbox.probe().await;
    if sandbox.refusal(&probe).is_some() {
        return CommandSurroundings::Refused;
    }
    let mode = engine.approvals.permissions.sandbox_mode(sandbox.mode());
    if probe.sandbox.is_none() || mode == SandboxMode::DangerFullAccess {
        return CommandSurroundings::Unsandboxed;
    }
    let network = match (sandbox.has_network(), sandbox.has_proxy(&probe)) {
        (true, _) => CommandNetwork::Machine,
        (false, true) => CommandNetwork::Proxy,
        (false, false) => CommandNetwork::Missing,
    };
    let writes_workspace = mode == SandboxMode::WorkspaceWrite;
    CommandSurroundings::Sandboxed { writes_workspace, network }
}
