//! The tools of a session. Their descriptions are long, and are put together when first asked for:
//! nothing is to come before the answer to `initialize`.

use std::sync::{Arc, OnceLock};

use crate::model::ToolDeclaration;
use crate::tools::{Tool, ToolSpec};

pub(super) struct Toolbox {
    tools: Vec<Arc<dyn Tool>>,
    known: OnceLock<Known>,
}

struct Known {
    /// Of each tool.
    specs: Vec<ToolSpec>,
    /// The same as the model is told of it.
    declarations: Arc<[ToolDeclaration]>,
}

impl Toolbox {
    pub(super) fn new(tools: Vec<Arc<dyn Tool>>) -> Self {
        Self { tools, known: OnceLock::new() }
    }

    /// The tool of that name, current or older.
    pub(super) fn find(&self, name: &str) -> Option<(&Arc<dyn Tool>, &ToolSpec)> {
        let specs = &self.known().specs;
        let is_it = |spec: &ToolSpec| spec.name == name || spec.aliases.contains(&name);
        let found = specs.iter().position(is_it)?;
        Some((&self.tools[found], &specs[found]))
    }

    /// What the model is told, always in the same order.
    pub(super) fn declarations(&self) -> Arc<[ToolDeclaration]> {
        Arc::clone(&self.known().declarations)
    }

    fn known(&self) -> &Known {
        self.known.get_or_init(|| {
            let specs: Vec<_> = self.tools.iter().map(|tool| tool.spec()).collect();
            let declare = |spec: &ToolSpec| ToolDeclaration {
                name: spec.name.clone(),
                description: spec.description.clone(),
                parameters: spec.parameters.clone(),
            };
            Known { declarations: specs.iter().map(declare).collect(), specs }
        })
    }
}
