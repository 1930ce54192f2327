"""An editor made with the official SDK of ACP 1 for Python. Starts the program at $TANDEM itself, and has it
record all lines in $TANDEM_RECORDS."""

import asyncio
import os
import tempfile
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path

from acp import RequestError, spawn_agent_process, text_block
from acp.schema import AllowedOutcome, RequestPermissionResponse
from check import check, finish, must, same

RECORDS = Path(os.environ['TANDEM_RECORDS'])
SCRIPT = os.environ['TANDEM_SCRIPT']


class Client:
    """The editor's half: what the agent sends and asks."""

    def __init__(self):
        # Each the session's id, and the update.
        self.updates = []
        self.seen = None
        self.permit = choose('allow_once')

    async def session_update(self, session_id, update, **_):
        self.updates.append((session_id, update))
        if self.seen:
            await self.seen(update)

    async def request_permission(self, session_id, tool_call, options, **_):
        return self.permit(tool_call, options)

    def of(self, session_id, kind, since=0):
        """The updates of a kind in a session."""
        updates = [update for session, update in self.updates[since:] if session == session_id]
        return [update for update in updates if update.session_update == kind]

    def said(self, session_id, kind='agent_message_chunk', since=0):
        return ''.join(update.content.text for update in self.of(session_id, kind, since))

    def states(self, session_id, since):
        updates = self.of(session_id, 'tool_call_update', since)
        return [update.status for update in updates if update.status]


def choose(kind):
    """Answers every question with the option of a kind."""

    def permit(_, options):
        option = next(option for option in options if option.kind == kind)
        outcome = AllowedOutcome(outcome='selected', option_id=option.option_id)
        return RequestPermissionResponse(outcome=outcome)

    return permit


class Flow:
    """The checks, in one home and workspace."""

    def __init__(self, home):
        self.home = home
        self.workspace = home / 'workspace'
        self.workspace.mkdir()
        self.starts = 0

    @asynccontextmanager
    async def agent(self):
        self.starts += 1
        self.client = Client()
        record = RECORDS / f'{self.starts}.jsonl'
        arguments = ['--acp', '--record', record, '--model', f'replay:{SCRIPT}']
        command = [os.environ['TANDEM'], *map(str, arguments)]
        started = spawn_agent_process(
            self.client, *command, cwd=self.workspace, env={'HOME': str(self.home)},
            transport_kwargs={'stderr': asyncio.subprocess.DEVNULL},
        )
        async with started as (connection, process):
            self.connection, self.process = connection, process
            yield

    async def prompt(self, text, session=None):
        """Runs a turn; its stop reason, and where its updates begin."""
        since = len(self.client.updates)
        session = session or self.session
        done = await self.connection.prompt(prompt=[text_block(text)], session_id=session)
        return done.stop_reason, since

    async def initialize(self):
        answer = await self.connection.initialize(protocol_version=1)
        same(answer.protocol_version, 1, 'the version')
        must(answer.agent_capabilities.load_session and answer.auth_methods, f'{answer}')

    async def new(self):
        session = await self.connection.new_session(cwd=str(self.workspace), mcp_servers=[])
        self.session = session.session_id
        same(session.modes.current_mode_id, 'default', 'the mode')
        options = {option.id for option in session.config_options}
        must({'mode', 'model'} <= options, f'options: {options}')

    async def say(self):
        reason, _ = await self.prompt('say hello')
        same((reason, self.client.said(self.session)), ('end_turn', 'Hello there.'), 'the answer')
        thought = self.client.said(self.session, 'agent_thought_chunk')
        must('be polite' in thought, f'thought: {thought}')

    async def edit(self):
        asked = []

        def permit(call, options):
            must(not (self.workspace / 'approved.txt').exists(), 'written before the answer')
            asked.append(call)
            return choose('allow_once')(call, options)

        self.client.permit = permit
        _, since = await self.prompt('write the file')
        same(asked[0].content[0].new_text, 'from the model\n', 'the diff')
        same(self.client.states(self.session, since)[-1], 'completed', 'the end')
        same((self.workspace / 'approved.txt').read_text(), 'from the model\n', 'the file')

    async def reject(self):
        self.client.permit = choose('reject_once')
        reason, since = await self.prompt('write and reject')
        same((reason, self.client.states(self.session, since)[-1]), ('end_turn', 'failed'), 'the end')
        must(not (self.workspace / 'rejected.txt').exists(), 'written')

    async def command(self):
        self.client.permit = choose('allow_once')
        _, since = await self.prompt('run a command')
        shown = self.client.of(self.session, 'tool_call_update', since)[-1].model_dump_json()
        must('line3' in shown and (self.workspace / 'ran.txt').exists(), f'output: {shown}')

    async def cancel(self):
        async def seen(update):
            if update.session_update == 'agent_message_chunk':
                self.client.seen = None
                await self.connection.cancel(session_id=self.session)

        self.client.seen = seen
        same((await self.prompt('talk for long'))[0], 'cancelled', 'the reason')
        same((await self.prompt('say hello'))[0], 'end_turn', 'the turn after it')

    async def options(self):
        answer = await self.connection.set_config_option(
            config_id='mode', session_id=self.session, value='plan'
        )
        modes = [option.current_value for option in answer.config_options if option.id == 'mode']
        same(modes, ['plan'], 'the mode')
        await self.connection.set_session_mode(session_id=self.session, mode_id='default')

    async def two(self):
        other = await self.connection.new_session(cwd=str(self.workspace), mcp_servers=[])
        since = len(self.client.updates)
        await asyncio.gather(
            self.prompt('count slowly'), self.prompt('say hello', session=other.session_id)
        )
        must(self.client.said(self.session, since=since).endswith('end.'), 'one')
        same(self.client.said(other.session_id), 'Hello there.', 'two')
        await self.connection.close_session(session_id=other.session_id)
        self.before = self.client.said(self.session)

    async def kill(self):
        self.process.kill()
        await self.process.wait()

    async def load(self):
        await self.initialize()
        cwd = str(self.workspace)
        sessions = (await self.connection.list_sessions(cwd=cwd)).sessions
        listed = next(each for each in sessions if each.session_id == self.session)
        same(listed.title, 'say hello', 'the title')
        must(datetime.fromisoformat(listed.updated_at).tzinfo, f'the time: {listed.updated_at}')
        await self.connection.load_session(cwd=cwd, session_id=self.session, mcp_servers=[])
        same(self.client.said(self.session), self.before, 'what was said')
        same((await self.prompt('say hello'))[0], 'end_turn', 'the next turn')

    async def unknown(self):
        try:
            await self.prompt('go', session='00000000-0000-7000-8000-000000000000')
        except RequestError as refused:
            same(refused.code, -32002, 'the code')
        else:
            must(False, 'a turn in an unknown session')


async def main():
    with tempfile.TemporaryDirectory(prefix='tandem-acp-') as home:
        flow = Flow(Path(home).resolve())
        async with flow.agent():
            await check('1 initialize', flow.initialize)
            await check('2 a new session', flow.new)
            await check('3 say', flow.say)
            await check('4 an edit that is allowed', flow.edit)
            await check('5 an edit that is rejected', flow.reject)
            await check('6 a command, with its output', flow.command)
            await check('7 cancel in the middle of an answer', flow.cancel)
            await check('8 modes and options', flow.options)
            await check('9 two sessions at once', flow.two)
            await flow.kill()
        async with flow.agent():
            await check('10 after a kill: listed, and loaded with all that was said', flow.load)
            await check('11 an unknown session is refused', flow.unknown)
        ended = flow.process.returncode

        async def hung_up():
            same(ended, 0, 'the exit code')

        await check('12 the program ends when the editor hangs up', hung_up)
    finish()


asyncio.run(main())
