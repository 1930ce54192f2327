//! `write_todos`: writes the todo list, for the user to see.

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};

use tandem_host::{
    Access, Invocation, ResultContent, Summary, Todo, TodoStatus, Tool, ToolContext, ToolError,
    ToolKind, ToolOutput, ToolSpec, parse,
};

pub(super) struct WriteTodos;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TodosArgs {
    todos: Vec<Todo>,
}

#[async_trait]
impl Tool for WriteTodos {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "write_todos".to_owned(),
            aliases: &[],
            description: "Writes the list of what is to be done; it takes the place of the list \
                before. For work of several steps: write it at the start, set one item in \
                progress, and complete each as soon as it is done."
                .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "todos": {
                        "type": "array",
                        "description": "The whole list, in order.",
                        "items": {
                            "type": "object",
                            "properties": {
                                "description": { "type": "string", "description": "The step." },
                                "status": {
                                    "type": "string",
                                    "enum": ["pending", "in_progress", "completed", "cancelled", "blocked"],
                                    "description": "How far it is; at most one is in_progress."
                                }
                            },
                            "required": ["description", "status"]
                        }
                    }
                },
                "required": ["todos"]
            }),
            kind: ToolKind::Think,
        }
    }

    async fn prepare(&self, args: Value, _: &ToolContext) -> Result<Invocation, ToolError> {
        let TodosArgs { todos } = parse(args)?;
        let running = todos.iter().filter(|todo| todo.status == TodoStatus::InProgress).count();
        if running > 1 {
            return Err(ToolError::invalid_args(format_args!(
                "{running} todos are in_progress: at most one may be"
            )));
        }
        let summary = Summary::new(match todos.len() {
            0 => "Clear the todo list".to_owned(),
            1 => "Write 1 todo".to_owned(),
            n => format!("Write {n} todos"),
        });
        Ok(Invocation::new(summary, Access::Nothing, move |_| {
            std::future::ready(Ok(written(todos)))
        }))
    }
}

fn written(todos: Vec<Todo>) -> ToolOutput {
    let lines = todos.iter().enumerate().map(|(n, todo)| {
        let status = match todo.status {
            TodoStatus::Pending => "pending",
            TodoStatus::InProgress => "in_progress",
            TodoStatus::Completed => "completed",
            TodoStatus::Cancelled => "cancelled",
            TodoStatus::Blocked => "blocked",
        };
        format!("\n{}. [{status}] {}", n + 1, todo.description)
    });
    let text = if todos.is_empty() {
        "The todo list is empty now.".to_owned()
    } else {
        format!("The todo list is now:{}", lines.collect::<String>())
    };
    ToolOutput { text, media: Vec::new(), shown: Some(ResultContent::Todos(todos)) }
}
