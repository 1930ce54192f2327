"""The flow of one SDK client: flow.py sdk03|sdk10, the server at $TANDEM_URL."""

import asyncio
import json
import re
import sys
from contextlib import aclosing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import httpx
from check import BASE, NODES, URI, WORKSPACE, authorization, check, finish, must, restart, same
from events import SETTINGS, calls, ends, ids, kind, read, sdk, texts, updates

FILES = Path(WORKSPACE)
COUNTED = ''.join(f'{x}{n} ' for x in 'abcd' for n in range(5)) + 'end.'


def question(events):
    """The question that a stream ended with."""
    ends(events, 'input-required')
    pending = [each for each in calls(events) if each['status'] == 'PENDING']
    must(pending and 'confirmation_request' in pending[0], f'no question: {calls(events)}')
    options = [option['id'] for option in pending[0]['confirmation_request']['options']]
    must({'proceed_once', 'cancel'} <= set(options), f'options {options}')
    return pending[0]


SECRET = {'token': 'shh'}
if sdk.VERSION == '1.0':
    SECRET = {'authentication': {'scheme': 'Bearer', 'credentials': 'shh'}}


def authorized(headers):
    """Checks that a notification has the credentials of its receiver."""
    if sdk.VERSION == '1.0':
        same(headers['Authorization'], 'Bearer shh', 'Authorization')
    else:
        same(headers['X-A2A-Notification-Token'], 'shh', 'the token')


class Receiver:
    """A receiver of notifications."""

    def __enter__(self):
        received = self.received = []

        class Hook(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers['Content-Length']))
                received.append((self.path, self.headers, json.loads(body)))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(('127.0.0.1', 0), Hook)
        Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f'http://127.0.0.1:{self.server.server_port}'
        return self

    def __exit__(self, *_):
        self.server.shutdown()

    async def told(self, path, state):
        """The headers of the notification that says that a task is in this state."""

        def says(body):
            if sdk.VERSION == '0.3':
                return body['kind'] == 'task' and body['status']['state'] == state
            item = body.get('statusUpdate') or body.get('task') or {}
            return item.get('status', {}).get('state') == f'TASK_STATE_{state.upper()}'

        for _ in range(100):
            for at, headers, body in self.received:
                if at == path and says(body):
                    return headers
            await asyncio.sleep(0.05)
        must(False, f'{path} was not told of {state}: {str(self.received)[:300]}')


async def main():
    try:
        client = await sdk.connect(BASE)
    except Exception as error:
        print(f'FAIL connect: {type(error).__name__}: {error}')
        sys.exit(1)

    def prompt(text, **more):
        return client.send([{'text': text}], metadata=SETTINGS, **more)

    async def ask(text):
        events = await read(prompt(text))
        return question(events), events[0]

    async def answer(asked, option, **more):
        """Answers it, on a new stream."""
        call, first = asked
        data = {'tool_call_id': call['tool_call_id'], 'selected_option_id': option, **more}
        events = await read(client.send(
            [{'data': data}], task_id=first.task_id, context_id=first.context_id,
        ))
        states = [
            each['status'] for each in calls(events)
            if each['tool_call_id'] == call['tool_call_id']
        ]
        return events, states

    async def card():
        capabilities = (await client.card()).capabilities
        same(capabilities.streaming, True, 'streaming')
        uris = [each.uri for each in capabilities.extensions]
        must(URI in uris, f'no extension {URI} in {uris}')
        same(re.search(r'/v(\d+(?:\.\d+)*)/', URI)[1], '0', 'the version in the URI')
        if sdk.VERSION == '1.0':
            await sdk.check_signature(BASE)

    async def greeting():
        events = await read(prompt('say hello'))
        same((events[0].type, events[0].state), ('task', 'submitted'), 'the first')
        first = updates(events)[0]
        same((first.state, kind(first)), ('working', 'STATE_CHANGE'), 'then')
        same(texts(events), 'Hello there.', 'the text')
        thoughts = [event for event in updates(events) if kind(event) == 'THOUGHT']
        same(thoughts[0].parts[0]['data']['subject'], 'Greeting', "the thought's subject")
        same(kind(updates(events)[-1]), 'STATE_CHANGE', 'the kind of the last')
        ends(events, 'completed')
        must(all(isinstance(each, str) and each for each in ids(events)), f'ids {ids(events)}')
        same(len(set(ids(events))), len(ids(events)), 'how many event ids differ')
        must(all(e.metadata['coderAgent']['kind'] for e in updates(events)), 'coderAgent.kind')
        same(len({event.task_id for event in events}), 1, 'how many task ids')
        same(len({event.context_id for event in events}), 1, 'how many context ids')
        if sdk.VERSION == '1.0':
            said = [p['text'] for e in events if e.type == 'artifact-update' for p in e.parts]
            same(''.join(said), 'Hello there.', 'the artifact')
            kept = (await client.get(events[0].task_id)).artifacts
            same(''.join(part['text'] for part in kept), 'Hello there.', "the task's artifact")

    async def approve():
        asked = await ask('write the file')
        details = asked[0]['confirmation_request']['file_edit_details']
        same(asked[0]['tool_name'], 'write_file', 'the tool')
        same(details['new_content'], 'from the model\n', 'new_content')
        must(details['file_path'].endswith('/approved.txt'), f'file_path {details}')
        file = FILES / 'approved.txt'
        must(not file.exists(), 'the file is there already')
        events, states = await answer(asked, 'proceed_once')
        must('EXECUTING' in states and states[-1] == 'SUCCEEDED', f'states {states}')
        same(texts(events), 'The file is written.', 'the text')
        ends(events, 'completed')
        same(file.read_text(), 'from the model\n', 'the file')

    async def reject():
        events, states = await answer(await ask('write and reject'), 'cancel')
        same(states[-1], 'CANCELLED', 'the last status of the call')
        must('EXECUTING' not in states, 'it was executed')
        same(texts(events), 'Then I leave it.', 'the text')
        ends(events, 'completed')
        must(not (FILES / 'rejected.txt').exists(), 'the file is there')

    async def edit():
        edited = {'file_details': {'new_content': 'from the user\n'}}
        asked = await ask('write and edit')
        events, states = await answer(asked, 'proceed_once', modified_details=edited)
        same(states[-1], 'SUCCEEDED', 'the last status of the call')
        ends(events, 'completed')
        same((FILES / 'edited.txt').read_text(), 'from the user\n', 'the file')

    async def command():
        asked = await ask('run a command')
        line = asked[0]['confirmation_request']['execute_details']['command']
        must(line.startswith('touch ran.txt'), f'command {line}')
        events, _ = await answer(asked, 'proceed_once')
        live = [
            each['live_content'] for each in calls(events)
            if each['status'] == 'EXECUTING' and each.get('live_content')
        ]
        # A node that does not run the command has its output at the end.
        must(NODES > 1 or len(set(live)) >= 2, f'live_content did not grow: {live}')
        for before, now in zip(live, live[1:]):
            must(now.startswith(before.rstrip()), f'{now!r} after {before!r}')
        done = calls(events)[-1]
        same(done['status'], 'SUCCEEDED', 'the last status')
        must('line3' in done['output']['text'], f'output {done["output"]}')
        ends(events, 'completed')
        must((FILES / 'ran.txt').exists(), 'it did not run')

    async def cancel():
        canceled = None

        async def seen(event, events):
            nonlocal canceled
            if not canceled and 'c ' in texts(events):
                canceled = await client.cancel(event.task_id)

        events = await read(prompt('talk for long'), seen)
        same(canceled.state, 'canceled', 'the answer')
        ends(events, 'canceled')
        same((await client.get(events[0].task_id)).state, 'canceled', 'tasks/get')

    async def dropped():
        """Reads the first part of a turn, and drops the connection."""
        events = []
        async with aclosing(prompt('count slowly')) as stream:
            async for event in stream:
                events.append(event)
                if 'b4' in texts(events):
                    break
        must(all(e.state == 'working' for e in updates(events)), 'it was over already')
        await asyncio.sleep(0.1)
        return events

    async def resubscribe():
        before = await dropped()
        events = await read(client.resubscribe(before[0].task_id))
        same(events[0].type, 'task', 'the first')
        same(texts(events), COUNTED, 'the whole turn')
        same(len(set(ids(events))), len(ids(events)), 'how many event ids differ')
        same(set(ids(before)) - set(ids(events)), set(), 'events before that are not repeated')
        ends(events, 'completed')

    async def resubscribe_after():
        before = await dropped()
        after = await read(client.resubscribe(before[0].task_id, ids(before)[-1]))
        same(texts(before) + texts(after), COUNTED, 'before and after')
        both = ids(before) + ids(after)
        same(len(set(both)), len(both), 'how many event ids differ')
        ends(after, 'completed')

    async def by_context():
        first = await read(prompt('one'))
        same(texts(first), 'first in order', 'the first answer')
        context = first[0].context_id
        second = await read(client.send([{'text': 'two'}], context_id=context))
        same(texts(second), 'second in order', 'the second answer')
        same(second[0].context_id, context, 'the context id')
        ends(second, 'completed')

    async def push():
        second = None

        async def seen(event, _):
            nonlocal second
            if not second and event.type != 'task':
                config = {'id': 'second', 'url': f'{hook.url}/second'}
                second = await client.push_set(event.task_id, config)

        async def listed():
            return sorted(each['id'] for each in await client.push_list(task))

        with Receiver() as hook:
            config = {'id': 'first', 'url': f'{hook.url}/first', **SECRET}
            events = await read(prompt('count slowly', push=config), seen)
            ends(events, 'completed')
            task = events[0].task_id
            same((second['taskId'], second['id'], second['url']),
                 (task, 'second', f'{hook.url}/second'), 'set')
            same((await client.push_get(task, 'second'))['url'], f'{hook.url}/second', 'get')
            same(await listed(), ['first', 'second'], 'list')
            first = await hook.told('/first', 'completed')
            await hook.told('/second', 'completed')
            # Not before: what is deleted is told nothing any more, not even what is on its way.
            await client.push_delete(task, 'second')
            same(await listed(), ['first'], 'list after delete')
            authorized(first)
            if sdk.VERSION == '1.0':
                same(first['Content-Type'].split(';')[0], 'application/a2a+json', 'Content-Type')

    async def rpc(method, params):
        """JSON-RPC by hand, for the extension's own methods."""
        body = {'jsonrpc': '2.0', 'id': method, 'method': method, 'params': params}
        async with httpx.AsyncClient(headers=authorization()) as http:
            reply = (await http.post(f'{BASE}/', json=body)).json()
        same(reply['id'], method, f'the id of {method}')
        must('error' not in reply, f'{method}: {reply}')
        return reply['result']

    async def commands():
        listed = (await rpc('commands/get', {}))['commands']
        must(listed, 'no commands')
        for each in listed:
            wanted = {'name': str, 'description': str, 'arguments': list, 'sub_commands': list}
            must(all(isinstance(each.get(k), t) for k, t in wanted.items()), f'{each}')
        # One that only shows something.
        harmless = ['help', 'about', 'version', 'stats', 'tools']
        names = [each['name'] for each in listed]
        name = next((each for each in harmless if each in names), None)
        must(name, f'none of {harmless} among {names}')
        started = await rpc('command/execute', {'command_path': [name], 'args': ''})
        same(started['status'], 'STARTED', 'the status')
        for _ in range(100):
            state = (await client.get(started['execution_id'])).state
            if state == 'completed':
                break
            await asyncio.sleep(0.05)
        same(state, 'completed', 'the state of the execution')
        unknown = await rpc('command/execute', {'command_path': ['no', 'such'], 'args': ''})
        same(unknown['status'], 'FAILED_TO_START', 'the status of an unknown one')

    async def history():
        task = (await read(prompt('say hello')))[0].task_id
        full = (await client.get(task)).history
        must(len(full) >= 2, f'a history of {len(full)}')
        same(full[0].role, 'user', 'who spoke first')
        one = (await client.get(task, 1)).history
        same([each.message_id for each in one], [full[-1].message_id], 'historyLength 1')
        same((await client.get(task, 0)).history, [], 'historyLength 0')
        for name, call in {
            'get': lambda: client.get('no-such-task'),
            'cancel': lambda: client.cancel('no-such-task'),
            'resubscribe': lambda: read(client.resubscribe('no-such-task')),
            'send': lambda: read(prompt('say hello', task_id='no-such-task')),
        }.items():
            try:
                await call()
            except Exception as error:
                must(client.is_not_found(error), f'{name}: {error!r}')
            else:
                must(False, f'{name}: no error')

    async def quiet():
        # httpx gives up after 5 s without a byte: the server's keep-alives must come sooner.
        events = await read(prompt('be quiet'))
        same(texts(events), 'before after', 'the text')
        ends(events, 'completed')

    async def file():
        notes = {'file': 'notes.txt', 'content': b'remember the milk\n'}
        parts = [{'text': 'copy the notes'}, notes]
        events = await read(client.send(parts, metadata=SETTINGS))
        events, states = await answer((question(events), events[0]), 'proceed_once')
        same(states[-1], 'SUCCEEDED', 'the last status of the call')
        same(texts(events), 'It is copied.', 'the text')
        artifacts = [event for event in events if event.type == 'artifact-update']
        files = [part for event in artifacts for part in event.parts if 'file' in part]
        must({**notes, 'file': 'copied.txt'} in files, f'the files that come back: {files}')
        same((FILES / 'copied.txt').read_bytes(), notes['content'], 'the file')
        ends(events, 'completed')

    async def killed():
        with Receiver() as hook:
            done = (await read(prompt('say hello')))[0].task_id
            said = [each.message_id for each in (await client.get(done)).history]
            asked = await ask('write and reject')
            config = {'id': 'lasting', 'url': f'{hook.url}/lasting', **SECRET}
            before, restarted = [], None
            # A stream in the middle, whose end is told to nobody.
            try:
                async for event in prompt('talk for long', push=config):
                    before.append(event)
                    if not restarted and 'c ' in texts(before):
                        restarted = asyncio.create_task(restart())
            except Exception as error:
                must(restarted, f'the stream ended before the server: {error!r}')
            await restarted
            task, context = before[0].task_id, before[0].context_id

            ended = await client.get(done)
            same(ended.state, 'completed', 'the task that had ended')
            same([each.message_id for each in ended.history], said, 'its history')
            same((await client.get(asked[1].task_id)).state, 'failed', 'the task with the question')
            try:
                await answer(asked, 'proceed_once')
            except Exception:
                must(not (FILES / 'rejected.txt').exists(), 'the closed question was answered')
            else:
                must(False, 'the answer to a closed question is taken')
            same(await client.list(context), [(task, 'failed')], 'the list')

            after = []
            last = [ids(before)[-1]] if sdk.CAN_SAY_LAST_EVENT else []
            try:
                after = await read(client.resubscribe(task, *last))
            except Exception as error:
                # In 1.0 whoever subscribes to a task that has ended is refused.
                same(sdk.VERSION, '1.0', f'the version that refuses: {error!r}')
            if after:
                same([e.state for e in after if e.state][-1], 'failed', 'how the stream goes on')
            both = ids(before) + ids(after)
            if sdk.CAN_SAY_LAST_EVENT:
                same(len(set(both)), len(both), 'how many event ids differ')

            same([each['id'] for each in await client.push_list(task)], ['lasting'], 'receivers')
            authorized(await hook.told('/lasting', 'failed'))
            following = await read(client.send([{'text': 'say hello'}], context_id=context))
            same(following[0].context_id, context, 'the context id')
            same(texts(following), 'Hello there.', 'the next answer')
            ends(following, 'completed')
            if sdk.VERSION == '0.3':
                authorized(await hook.told('/lasting', 'completed'))

    await check('1 card', card)
    await check('2 prompt', greeting)
    await check('3 approve', approve)
    await check('4 reject', reject)
    await check('5 edit', edit)
    await check('6 command', command)
    await check('7 cancel', cancel)
    await check('8 resubscribe', resubscribe)
    if sdk.CAN_SAY_LAST_EVENT:
        await check('8 resubscribe after an event', resubscribe_after)
    await check('9 context id alone', by_context)
    await check('10 push', push)
    await check('11 commands', commands)
    await check('12 history and unknown tasks', history)
    await check('13 the server is killed', killed)
    await check('14 seven seconds of silence', quiet)
    await check('15 a question and a file', file)
    finish()


asyncio.run(main())
