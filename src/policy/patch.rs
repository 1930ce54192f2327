//! Rules on patches. A patch edits files as the tools do that edit one file each, so rules about these tools hold for
//! each file of a patch.

use std::path::Path;

use serde_json::{Value, json};

use super::check::Check;
use super::rules::{Broken, RuleEffect, Ruling, Subject};
use tandem_approval::PolicyRequest;
use tandem_host::Access;

/// Name of the tool whose calls are patches.
const PATCH_TOOL: &str = "apply_patch";

/// Names of the tools that edit one file.
const EDIT_TOOLS: [&str; 2] = ["replace", "write_file"];

/// Returns the requests by which the tools that edit one file would do the same; none if the call is no patch. They
/// have the arguments of the patch.
pub(super) fn alike<'a>(request: &PolicyRequest<'a>) -> impl Iterator<Item = PolicyRequest<'a>> {
    let tools = if request.tool == PATCH_TOOL { &EDIT_TOOLS[..] } else { &[] };
    let request = *request;
    tools.iter().map(move |tool| PolicyRequest { tool, aliases: &[], ..request })
}

impl<'r> Check<'r> {
    /// Returns the rule that decides on a call that is no command line, with its effect. On a patch, the strictest of
    /// the rule on the patch itself and the rules on the edits of its files decides. Rules that allow edits allow a
    /// patch only if they allow the edit of each file by each of the tools.
    pub(super) fn call_ruling(&self) -> Option<Ruling<'r>> {
        let own = self.ruling(Subject::Call);
        let effect = |ruling: &Ruling<'_>| ruling.effect;
        let edits = self.edits();
        let restricting = edits.into_iter().filter(|ruling| ruling.effect >= RuleEffect::Ask);
        let strictest = own.into_iter().chain(restricting).max_by_key(effect);
        strictest.or_else(|| self.allowed_edits())
    }

    /// Returns the rulings on the edit of each file of a patch. Each edit's arguments have the whole patch as the
    /// text, so a rule about a text applies wherever in the patch the text is.
    fn edits(&self) -> Vec<Ruling<'r>> {
        let text = self.request.args.get("input").unwrap_or(&Value::Null);
        let mut args = json!({ "content": text, "old_string": text, "new_string": text });
        let mut rulings = Vec::new();
        for path in self.request.access.changed_files() {
            for name in self.names_of(path) {
                args["file_path"] = name.into();
                rulings.extend(self.rulings(path, &args).into_iter().flatten());
            }
        }
        rulings
    }

    /// Returns the rule of the lowest rank of those that allow the edit of each file of a patch; `None` if they do not
    /// allow all of them, or if the call is no patch. The arguments have no text: it could be that of another file.
    fn allowed_edits(&self) -> Option<Ruling<'r>> {
        let mut lowest: Option<Ruling<'r>> = None;
        for path in self.request.access.changed_files() {
            let names = self.names_of(path);
            let by_name = names.map(|name| self.rulings(path, &json!({ "file_path": name })));
            for tool in 0..EDIT_TOOLS.len() {
                let rulings = by_name.iter().filter_map(|rulings| *rulings.get(tool)?);
                let allowing = rulings.filter(|ruling| ruling.effect == RuleEffect::Allow);
                let allowing = allowing.min_by_key(|ruling| ruling.rule.rank)?;
                if lowest.is_none_or(|lowest| allowing.rule.rank < lowest.rule.rank) {
                    lowest = Some(allowing);
                }
            }
        }
        lowest
    }

    /// Returns the ruling on the edit of one file by each tool that edits one file; empty if the call is no patch.
    fn rulings(&self, path: &Path, args: &Value) -> Vec<Option<Ruling<'r>>> {
        let access = Access::edit(path);
        let edits = alike(self.request).map(|request| {
            let request = PolicyRequest { args, access: &access, ..request };
            self.policy.ruling(&request, &self.situation, Subject::Call)
        });
        edits.collect()
    }

    /// Returns the names by which a model may call a file: the path in the workspace, and the absolute path.
    fn names_of(&self, path: &Path) -> [String; 2] {
        [self.inside(path), path].map(|path| path.display().to_string())
    }

    /// Returns a rule that could not be read and may be about the call.
    pub(super) fn doubt(&self) -> Option<&'r Broken> {
        let alike = alike(self.request).find_map(|request| self.policy.unreadable_rule(&request));
        self.policy.unreadable_rule(self.request).or(alike)
    }
}
