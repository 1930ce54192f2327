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
    todos: Vec<SentTodo>,
}

/// A todo as models send it. Todos of other agents also have fields such as an id or a priority, which are ignored
/// here.
#[derive(Deserialize)]
struct SentTodo {
    description: Option<String>,
    /// Other agents' names for the description.
    content: Option<String>,
    step: Option<String>,
    title: Option<String>,
    /// The task as work in progress: "Running the tests".
    #[serde(rename = "activeForm")]
    active_form: Option<String>,
    #[serde(default = "pending")]
    status: TodoStatus,
}

fn pending() -> TodoStatus {
    TodoStatus::Pending
}

impl TodosArgs {
    /// Returns the list. At most one todo is in progress: the first. The others are pending, because todos are done
    /// one after another.
    fn list(self) -> Result<Vec<Todo>, ToolError> {
        let mut is_running = false;
        let mut todos = Vec::with_capacity(self.todos.len());
        for (n, sent) in self.todos.into_iter().enumerate() {
            let SentTodo { description, content, step, title, active_form, mut status } = sent;
            let description = description.or(content).or(step).or(title).or(active_form);
            let description = description.ok_or_else(|| {
                ToolError::invalid_args(format_args!("`todos[{n}]`: missing field `description`"))
            })?;
            if status == TodoStatus::InProgress && std::mem::replace(&mut is_running, true) {
                status = TodoStatus::Pending;
            }
            todos.push(Todo { description, status });
        }
        Ok(todos)
    }
}

#[async_trait]
impl Tool for WriteTodos {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "write_todos".to_owned(),
            aliases: &[],
            description: "Writes the list of what is to be done; it takes the place of the list \
                before. For work of three steps or more, not for less: write it at the start, set \
                one item in progress, and complete each as soon as it is done and checked."
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
        let todos = parse::<TodosArgs>(args)?.list()?;
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

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "the list is a literal")]
    fn check(todos: Value, expected: Expect) {
        let list = parse::<TodosArgs>(json!({ "todos": todos })).and_then(TodosArgs::list);
        expected.assert_eq(&list.map_or_else(|error| error.message, |todos| written(todos).text));
    }

    #[test]
    fn the_first_of_several_todos_in_progress_stays_in_progress() {
        let todo = |name, status| json!({ "description": name, "status": status });
        check(
            json!([
                todo("a", "completed"),
                todo("b", "in_progress"),
                todo("c", "in_progress"),
                todo("d", "in_progress"),
            ]),
            expect![[r"
                The todo list is now:
                1. [completed] a
                2. [in_progress] b
                3. [pending] c
                4. [pending] d"]],
        );
    }

    #[test]
    fn todos_of_other_agents_are_understood() {
        check(
            json!([
                { "id": "1", "content": "a", "activeForm": "Doing a", "status": "completed", "priority": "high" },
                { "activeForm": "Doing b", "status": "in_progress" },
                { "step": "c", "status": "pending" },
                { "title": "d" },
            ]),
            expect![[r"
                The todo list is now:
                1. [completed] a
                2. [in_progress] Doing b
                3. [pending] c
                4. [pending] d"]],
        );
        check(
            json!([{ "description": "a" }, { "status": "pending" }]),
            expect!["`todos[1]`: missing field `description`"],
        );
    }
}
