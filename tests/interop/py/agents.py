"""Agents made with the official SDK for Python, called by the real binary: agents.py sdk03|sdk10|sdk10rest."""

import asyncio
import json
import os
import socket
import sys
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path

import uvicorn
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentSkill, Part, TaskState

from check import check, finish, must, same

OLD = sys.argv[1] == 'sdk03'
REST = sys.argv[1] == 'sdk10rest'
if OLD:
    from a2a.server.apps import A2AStarletteApplication
    from a2a.types import TextPart
    from a2a.utils import new_task
else:
    from a2a.helpers import new_task_from_user_message as new_task
    from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
    from a2a.types import AgentInterface
    from starlette.applications import Starlette

TANDEM = os.environ['TANDEM']


def state(name):
    return TaskState(name) if OLD else TaskState.Value('TASK_STATE_' + name.upper().replace('-', '_'))


def parts(text):
    return [Part(root=TextPart(text=text)) if OLD else Part(text=text)]


class Echo(AgentExecutor):
    """Answers with what it is told; asks in words, or waits, if it is told to."""

    def __init__(self):
        self.contexts = []
        self.cancelled = asyncio.Event()

    async def execute(self, context, events):
        task = context.current_task or new_task(context.message)
        if not context.current_task:
            await events.enqueue_event(task)
        self.contexts.append(task.context_id)
        updater = TaskUpdater(events, task.id, task.context_id)
        said = context.get_user_input()
        await updater.update_status(state('working'), updater.new_agent_message(parts('Looking.')))
        if said == 'wait':
            await asyncio.sleep(60)
        if said == 'ask':
            question = updater.new_agent_message(parts('Which file?'))
            await updater.update_status(state('input-required'), question)
            return
        await updater.add_artifact(parts(f'You said: {said}'), name='answer')
        await updater.complete()

    async def cancel(self, context, events):
        self.cancelled.set()
        await TaskUpdater(events, context.task_id, context.context_id).cancel()


def application(agent, url, streams):
    card = {
        'name': 'Echo', 'description': 'Says it again.', 'version': '1',
        'default_input_modes': ['text/plain'], 'default_output_modes': ['text/plain'],
        'capabilities': AgentCapabilities(streaming=streams),
        'skills': [AgentSkill(id='echo', name='Echo', description='Says it again.', tags=['echo'])],
    }
    if OLD:
        handler = DefaultRequestHandler(agent_executor=agent, task_store=InMemoryTaskStore())
        return A2AStarletteApplication(agent_card=AgentCard(url=url, **card), http_handler=handler).build()
    binding = 'HTTP+JSON' if REST else 'JSONRPC'
    interface = AgentInterface(url=url, protocol_binding=binding, protocol_version='1.0')
    card = AgentCard(supported_interfaces=[interface], **card)
    handler = DefaultRequestHandler(
        agent_executor=agent, task_store=InMemoryTaskStore(), agent_card=card,
    )
    calls = create_rest_routes(handler) if REST else create_jsonrpc_routes(handler, '/')
    return Starlette(routes=create_agent_card_routes(card) + calls)


@asynccontextmanager
async def serving(streams):
    agent = Echo()
    listener = socket.socket()
    listener.bind(('127.0.0.1', 0))
    url = f'http://127.0.0.1:{listener.getsockname()[1]}/'
    config = uvicorn.Config(application(agent, url, streams), log_level='error', lifespan='off')
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        while not server.started:
            await asyncio.sleep(0.01)
        yield agent, url
    finally:
        server.force_exit = server.should_exit = True
        await asyncio.wait([task], timeout=5)


class Run:
    """The real binary with a prompt; the model calls the agent with each of these arguments."""

    def __init__(self, url, calls, prompt='go'):
        self.home = tempfile.TemporaryDirectory(prefix='tandem-interop-')
        home = Path(self.home.name).resolve()
        (home / '.gemini').mkdir()
        settings = {'a2aServers': {'echo': {'url': url, 'trust': True}}}
        (home / '.gemini/settings.json').write_text(json.dumps(settings))
        answers = [[{'call': {'name': 'call_agent', 'args': {'agent': 'echo', **args}}}] for args in calls]
        script = {'when': '', 'answers': [*answers, [{'text': 'done'}]]}
        (home / 'script.jsonl').write_text(json.dumps(script))
        self.command = [
            TANDEM, '-p', prompt, '--output-format', 'stream-json',
            '--model', f'replay:{home / "script.jsonl"}',
        ]
        self.environment = {'HOME': str(home), 'PATH': os.environ['PATH']}

    async def start(self):
        return await asyncio.create_subprocess_exec(
            *self.command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
            cwd=self.home.name, env=self.environment,
        )

    async def results(self):
        """The output of each call."""
        child = await self.start()
        out, _ = await child.communicate()
        lines = [json.loads(line) for line in out.decode().splitlines()]
        return [line['output'] for line in lines if line['type'] == 'tool_result']


async def conversation(streams):
    async with serving(streams) as (agent, url):
        first, asked = await Run(url, [{'message': 'one'}, {'message': 'ask'}]).results()
        must('You said: one\n</agent_output>' in first, first)
        must('Which file?' in asked and 'The agent waits for an answer.' in asked, asked)
        context = agent.contexts[-1]
        must(f'with the context `{context}`' in asked, asked)
        (again,) = await Run(url, [{'message': 'two', 'context': agent.contexts[0]}]).results()
        must('You said: two' in again, again)
        same(agent.contexts[-1], agent.contexts[0], 'the context')


async def cancel():
    async with serving(True) as (agent, url):
        run = Run(url, [{'message': 'wait'}])
        child = await run.start()
        while not agent.contexts:
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.2)
        child.send_signal(2)
        await asyncio.wait_for(agent.cancelled.wait(), 5)
        await child.wait()


async def main():
    await check('a conversation with streams', lambda: conversation(True))
    await check('a conversation without streams', lambda: conversation(False))
    await check('a cancel here is a cancel there', cancel)
    finish()


asyncio.run(main())
