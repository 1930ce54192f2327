"""The official command line client, a2a-cli: cli.py BINARY, the server at $TANDEM_URL."""

import asyncio
import json
import os
import sys
from pathlib import Path

from check import BASE, URI, WORKSPACE, check, finish, must, same


async def a2acli(*arguments, good=True):
    """Runs it; what it printed."""
    home = Path(WORKSPACE).parent
    child = await asyncio.create_subprocess_exec(
        sys.argv[1], *arguments, '--agent-card', BASE,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        cwd=home, env={'HOME': str(home), 'PATH': os.environ['PATH']},
    )
    try:
        out, err = await child.communicate()
    finally:
        if child.returncode is None:
            child.kill()
    said = f'{" ".join(arguments)}: {child.returncode} {out.decode()} {err.decode()}'
    must((child.returncode == 0) == good, said)
    return out.decode() if good else said


async def streamed(*arguments):
    lines = (await a2acli('send', '--stream', '-o', 'json', *arguments)).splitlines()
    return [json.loads(line) for line in lines if line.strip()]


def field(value, name):
    """Every value under this name, at any depth."""
    if isinstance(value, dict):
        return [v for k, v in value.items() if k == name] + field(list(value.values()), name)
    if isinstance(value, list):
        return [found for each in value for found in field(each, name)]
    return []


# It cannot send metadata, so no workspace_path: the workspace is the server's first root.


async def card():
    got = json.loads(await a2acli('card', 'get', '-o', 'json'))
    uris = [each['uri'] for each in got['capabilities']['extensions']]
    must(URI in uris, f'no extension {URI} in {uris}')


async def text():
    must('Hello there.' in await a2acli('send', 'say hello'), 'the text is not printed')


async def stream():
    events = await streamed('say hello')
    states = field(events, 'state')
    same(states[0], 'TASK_STATE_SUBMITTED', 'the first state')
    same(states[-1], 'TASK_STATE_COMPLETED', 'the last state')
    said = [each for found in field(events, 'artifact') for each in field(found, 'text')]
    same(''.join(said), 'Hello there.', 'the artifact')
    task = field(events, 'taskId')[0]
    got = json.loads(await a2acli('task', 'get', task, '-o', 'json'))
    same(field(got, 'state')[0], 'TASK_STATE_COMPLETED', 'task get')
    listed = await a2acli('task', 'list', '-o', 'json')
    must(task in listed, f'task list has no {task}')


async def approve():
    events = await streamed('write the file')
    same(field(events, 'state')[-1], 'TASK_STATE_INPUT_REQUIRED', 'the last state')
    task, call = field(events, 'taskId')[0], field(events, 'tool_call_id')[0]
    answer = json.dumps({'tool_call_id': call, 'selected_option_id': 'proceed_once'})
    events = await streamed('--task-id', task, '--data-part', answer)
    same(field(events, 'state')[-1], 'TASK_STATE_COMPLETED', 'the last state')
    same((Path(WORKSPACE) / 'approved.txt').read_text(), 'from the model\n', 'the file')


async def cancel():
    started = await a2acli(
        'send', '--async', '--return-immediately', '-o', 'json', 'talk for long',
    )
    found = json.loads(started)
    task = (field(found, 'taskId') + field(found, 'id'))[0]
    got = json.loads(await a2acli('task', 'cancel', task, '-o', 'json'))
    same(field(got, 'state')[0], 'TASK_STATE_CANCELED', 'the state')


async def push():
    events = await streamed('say hello')
    task = field(events, 'taskId')[0]
    config = ['task', 'push-config']
    hook = 'http://127.0.0.1:9/hook'
    await a2acli(*config, 'create', task, hook, '--config-id', 'one')
    must(hook in await a2acli(*config, 'get', task, 'one', '-o', 'json'), 'get')
    must(hook in await a2acli(*config, 'list', task, '-o', 'json'), 'list')
    await a2acli(*config, 'delete', task, 'one')
    must(hook not in await a2acli(*config, 'list', task, '-o', 'json'), 'list after delete')


async def unknown():
    said = await a2acli('task', 'get', 'no-such-task', good=False)
    must('not found' in said.lower(), said)


async def main():
    await check('1 card', card)
    await check('2 text', text)
    await check('3 stream', stream)
    await check('4 approve', approve)
    await check('5 cancel', cancel)
    await check('6 push configs', push)
    await check('7 unknown task', unknown)
    finish()


asyncio.run(main())
