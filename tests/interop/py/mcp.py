"""The reference MCP servers of npm and PyPI, used by the real binary: mcp.py NPM-DIRECTORY VENV."""

import asyncio
import base64
import http.server
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import asynccontextmanager
from pathlib import Path

from check import check, finish, must, same
from editor import Editor, call

NPM, VENV = Path(sys.argv[1]), Path(sys.argv[2])
EVERYTHING = str(NPM / 'node_modules/.bin/mcp-server-everything')
LONG = 'mcp_everything_trigger-long-running-operation'


def node(name, *args, **more):
    command = str(NPM / f'node_modules/.bin/mcp-server-{name}')
    return {'command': 'node', 'args': [command, *map(str, args)], **more}


def python(name, *args):
    return {'command': str(VENV / f'bin/mcp-server-{name}'), 'args': list(map(str, args))}


def free_port():
    with socket.socket() as it:
        it.bind(('127.0.0.1', 0))
        return it.getsockname()[1]


class Everything:
    """The server `everything`, over standard input and output or over HTTP."""

    def __init__(self, way):
        self.way, self.port, self.process = way, free_port(), None

    def settings(self):
        if self.way == 'stdio':
            return {'everything': node('everything', 'stdio')}
        path = 'mcp' if self.way == 'streamableHttp' else 'sse'
        return {'everything': {'url': f'http://127.0.0.1:{self.port}/{path}'}}

    async def __aenter__(self):
        await self.start()
        return self

    async def start(self):
        if self.way == 'stdio':
            return
        self.process = subprocess.Popen(
            ['node', EVERYTHING, self.way], env={**os.environ, 'PORT': str(self.port)},
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        while True:
            try:
                socket.create_connection(('127.0.0.1', self.port)).close()
                return
            except OSError:
                await asyncio.sleep(0.05)

    async def kill(self, agent):
        """Ends it, as by accident; one over HTTP is there again at once."""
        if self.way != 'stdio':
            self.stop()
            return await self.start()
        children = Path(f'/proc/{agent.process.pid}/task/{agent.process.pid}/children').read_text()
        found = [pid for pid in children.split() if EVERYTHING in cmdline(pid)]
        must(len(found) == 1, f'which of {children.split()} is the server?')
        os.kill(int(found[0]), signal.SIGKILL)

    def stop(self):
        if self.process:
            self.process.kill()
            self.process.wait()

    async def __aexit__(self, *_):
        self.stop()


def cmdline(pid):
    return Path(f'/proc/{pid}/cmdline').read_bytes().decode().replace('\0', ' ')


@asynccontextmanager
async def everything(way, script, **more):
    async with Everything(way) as server, Editor(server.settings(), script, **more) as agent:
        yield agent, server


def tool(tool, **args):
    return call(f'mcp_everything_{tool}', **args)


async def offers(way):
    async with everything(way, {}) as (agent, _):
        # A command waits for no server: it is asked for until it is ready.
        while '**everything**: ready' not in (listed := (await agent.prompt('/mcp list')).text):
            await asyncio.sleep(0.1)
        for what in ('`mcp_everything_echo`', '4 prompts', '`args-prompt`', 'resources',
                     '`demo://resource/dynamic/text/{resourceId}`'):
            must(what in listed, f'no {what} in {listed}')
        must('`/args-prompt --city=… [--state=…]`' in (await agent.prompt('/help')).text, 'no prompt')


async def tools(way):
    script = {'go': [[
        tool('echo', message='héllo'), tool('get-sum', a=2, b=40), tool('get-sum', a='two', b=1),
        tool('get-structured-content', location='Chicago'), tool('get-resource-links', count=2),
        tool('get-annotated-message', messageType='error', includeImage=True),
    ], [{'text': 'done'}]]}
    async with everything(way, script) as (agent, _):
        turn = await agent.prompt('go')
        same(turn.text, 'done', 'the answer')
        must('Echo: héllo' in turn.output(0), turn.output(0))
        must('42' in turn.output(1), turn.output(1))
        status, shown = turn.ended(2)
        same(status, 'error', 'a call with wrong arguments')
        must('Invalid arguments' in shown or 'expected number' in shown, shown)
        must('Light rain' in turn.output(3) or 'temperature' in turn.output(3), turn.output(3))
        same(turn.output(4).count('[Resource: '), 2, turn.output(4))
        must('[Image: image/png]' in turn.output(5) or 'image/png' in turn.output(5), turn.output(5))


async def media(way):
    script = {'go': [[
        tool('get-tiny-image'), tool('get-resource-reference', resourceType='Text', resourceId=1),
        tool('get-resource-reference', resourceType='Blob', resourceId=2),
    ], [{'text': 'done'}]]}
    async with everything(way, script) as (agent, _):
        turn = await agent.prompt('go')
        must('[Image: image/png, attached]' in turn.output(0), turn.output(0))
        must('[Resource: demo://resource/dynamic/text/1]' in turn.output(1), turn.output(1))
        must('demo://resource/dynamic/blob/2' in turn.output(2), turn.output(2))


async def progress(way):
    script = {'go': [[call(LONG, duration=2, steps=4)], [{'text': 'done'}]]}
    async with everything(way, script) as (agent, _):
        turn = await agent.prompt('go')
        running = [shown for status, shown in turn.calls[0]['updates'] if status == 'running']
        must(any('2 of 4' in shown for shown in running), f'no progress in {running}')
        must('completed' in turn.output(), turn.output())


async def cancelled(way):
    script = {
        'long': [[call(LONG, duration=100, steps=200)], [{'text': 'never'}]],
        'short': [[tool('echo', message='still here')], [{'text': 'done'}]],
    }
    async with everything(way, script) as (agent, _):
        begun = []

        def seen(made):
            if not begun and made['updates'][-1][0] == 'running':
                begun.append(made)
                agent.cancel()

        turn = await agent.prompt('long', seen=seen)
        must(begun, 'there was no progress')
        same(turn.ended()[0], 'error', 'the cancelled call')
        same(turn.text, '', 'what the model said')
        must('still here' in (await agent.prompt('short')).output(), 'the server')


async def prompts(way):
    script = {
        'This is a simple prompt without arguments': [[{'text': 'simple'}]],
        "What's weather in Rome, Lazio": [[{'text': 'sunny'}]],
        'resource with id: 3': [[{'text': 'a resource'}]],
    }
    async with everything(way, script) as (agent, _):
        same((await agent.prompt('/simple-prompt')).text, 'simple', 'simple-prompt')
        same((await agent.prompt('/args-prompt --city="Rome" --state=Lazio')).text, 'sunny', 'named')
        same((await agent.prompt('/args-prompt Rome Lazio')).text, 'sunny', 'in order')
        missing = (await agent.prompt('/args-prompt')).text
        must('Missing: city' in missing, missing)
        same((await agent.prompt('/resource-prompt Text 3')).text, 'a resource', 'resource-prompt')


async def resources(way):
    document = 'demo://resource/static/document/features.md'
    script = {'look': [[{'text': 'seen'}]], 'list': [[call('list_mcp_resources')], [{'text': 'done'}]]}
    async with everything(way, script) as (agent, _):
        listed = (await agent.prompt('list')).output()
        must('Listed 9 resource(s)' in listed, listed)
        for address in (f'everything:{document}', f'everything://{document}',
                        'everything:demo://resource/dynamic/text/7'):
            turn = await agent.prompt(f'look at @{address}')
            same(turn.text, 'seen', address)
            must('[Resource: demo://' in turn.output(), f'{address}: {turn.output()}')
        turn = await agent.prompt('look at @everything:demo://resource/static/document/none.md')
        same(turn.ended()[0], 'error', 'a resource that there is not')


async def list_changed(way):
    data = 'data:text/plain;base64,' + base64.b64encode(b'new text').decode()
    new = 'demo://resource/session/new.gz'
    script = {'make': [
        [tool('gzip-file-as-resource', name='new.gz', data=data)],
        [call('list_mcp_resources')],
        [call('read_mcp_resource', uri=new)], [{'text': 'done'}],
    ]}
    async with everything(way, script) as (agent, _):
        turn = await agent.prompt('make')
        must('new.gz' in turn.output(0), turn.output(0))
        must('Listed 10 resource(s)' in turn.output(1), turn.output(1))
        must('new.gz' in turn.output(2), turn.output(2))
        must(f'`{new}`' in (await agent.prompt('/mcp list')).text, 'it is not listed')


async def killed(way):
    script = {
        'first': [[tool('echo', message='first')], [{'text': 'done'}]],
        'hang': [[call(LONG, duration=100, steps=200)], [{'text': 'gone'}]],
        'again': [[tool('echo', message='again')], [{'text': 'done'}]],
    }
    async with everything(way, script) as (agent, server):
        must('first' in (await agent.prompt('first')).output(), 'the first call')
        killing = []

        def seen(made):
            if not killing and made['updates'][-1][0] == 'running':
                killing.append(asyncio.ensure_future(server.kill(agent)))

        turn = await agent.prompt('hang', seen=seen)
        await killing[0]
        status, shown = turn.ended()
        same(status, 'error', 'a call whose server has died')
        must('ended before it answered' in shown or 'broke off' in shown, shown)
        same(turn.text, 'gone', 'the model goes on')
        must('again' in (await agent.prompt('again')).output(), 'it was not started again')


async def roots_and_environment():
    script = {'go': [[tool('get-roots-list'), tool('get-env')], [{'text': 'done'}]]}
    secret = {'GEMINI_API_KEY': 'a-secret-key-of-the-user', 'MY_TOKEN': 'another-secret-of-the-user'}
    async with everything('stdio', script, env=secret) as (agent, _):
        turn = await agent.prompt('go')
        must(agent.workspace.as_uri() in turn.output(0), turn.output(0))
        must('PATH' in turn.output(1), turn.output(1))
        must('of-the-user' not in turn.output(1), 'it is told the keys')


async def asked():
    script = {'go': [[tool('get-sum', a=1, b=1)], [{'text': 'done'}]]}
    for outcome, ended in (('allow', 'finished'), ('reject', 'error')):
        async with everything('stdio', script, flags=()) as (agent, _):
            turn = await agent.prompt('go', outcome=outcome)
            question = turn.calls[0]['question']
            same((question['type'], question['serverName'], question['toolName']),
                 ('mcp', 'everything', 'get-sum'), 'the question')
            if outcome == 'allow':
                same(turn.ended()[0], ended, outcome)


async def chosen():
    servers = {'everything': {**node('everything', 'stdio'), 'includeTools': ['echo', 'get-sum'],
                              'excludeTools': ['get-sum']}}
    async with Editor(servers, {'hi': [[{'text': 'hello'}]]}) as agent:
        await agent.prompt('hi')
        listed = (await agent.prompt('/mcp list')).text
        must('1 tools: `mcp_everything_echo`' in listed, listed)


async def sse():
    async with everything('sse', {'hi': [[{'text': 'hello'}]]}) as (agent, _):
        await agent.prompt('hi')
        listed = (await agent.prompt('/mcp list')).text
        must('SSE' in listed and 'streamable HTTP' in listed, listed)


async def filesystem():
    script = {'go': [[
        call('mcp_files_write_file', path='PLACE/a.txt', content='written\n'),
        call('mcp_files_read_text_file', path='PLACE/a.txt'),
        call('mcp_files_read_media_file', path='PLACE/dot.png'),
        call('mcp_files_read_text_file', path='/etc/passwd'),
        call('mcp_files_list_allowed_directories'),
    ], [{'text': 'done'}]]}
    dot = ('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5E'
           'rkJggg==')
    agent = Editor({'files': node('filesystem', '.')}, {})
    agent.script = json.loads(json.dumps(script).replace('PLACE', str(agent.workspace)))
    (agent.workspace / 'dot.png').write_bytes(base64.b64decode(dot))
    async with agent:
        turn = await agent.prompt('go')
        same((agent.workspace / 'a.txt').read_text(), 'written\n', 'the file')
        must('written' in turn.output(1), turn.output(1))
        must('[Image: image/png' in turn.output(2), turn.output(2))
        status, shown = turn.ended(3)
        must(status == 'error' and 'outside allowed directories' in shown, shown)
        must(str(agent.workspace) in turn.output(4), turn.output(4))


async def memory():
    ada = {'name': 'Ada', 'entityType': 'person', 'observations': ['likes engines']}
    script = {
        'keep': [[call('mcp_memory_create_entities', entities=[ada])], [call('mcp_memory_read_graph')],
                 [{'text': 'kept'}]],
        'look': [[{'text': 'seen'}]],
    }
    agent = Editor({}, script)
    agent.servers = {'memory': node('memory', env={'MEMORY_FILE_PATH': str(agent.home / 'graph.jsonl')})}
    async with agent:
        turn = await agent.prompt('keep')
        must('likes engines' in turn.output(1), turn.output(1))
        turn = await agent.prompt('look at @memory://knowledge-graph')
        must('likes engines' in turn.output(), turn.output())


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b'<html><body><h1>A page</h1><p>of <b>this machine</b></p></body></html>'
        self.send_response(404 if self.path == '/robots.txt' else 200)
        self.send_header('Content-Type', 'text/html')
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


async def fetch():
    site = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Page)
    threading.Thread(target=site.serve_forever, daemon=True).start()
    url = f'http://127.0.0.1:{site.server_port}/page'
    script = {'go': [[call('mcp_fetch_fetch', url=url)], [{'text': 'done'}]],
              'this machine': [[{'text': 'a prompt'}]]}
    try:
        async with Editor({'fetch': python('fetch', '--allow-private-ips')}, script) as agent:
            turn = await agent.prompt('go')
            must('this machine' in turn.output(), turn.output())
            same((await agent.prompt(f'/fetch {url}')).text, 'a prompt', 'its prompt')
    finally:
        site.shutdown()


async def git():
    agent = Editor({'git': python('git', '--repository', '.')}, {})
    place = str(agent.workspace)
    agent.script = {'go': [
        [call('mcp_git_git_add', repo_path=place, files=['new.txt'])],
        [call('mcp_git_git_commit', repo_path=place, message='A first commit')],
        [call('mcp_git_git_log', repo_path=place), call('mcp_git_git_status', repo_path=place)],
        [{'text': 'done'}],
    ]}
    (agent.workspace / 'new.txt').write_text('new\n')
    for command in (['init', '-q'], ['config', 'user.name', 'T'], ['config', 'user.email', 't@t.test']):
        subprocess.run(['git', '-C', place, *command], check=True)
    async with agent:
        turn = await agent.prompt('go')
        must('A first commit' in turn.output(2), turn.output(2))
        must('nothing to commit' in turn.output(3), turn.output(3))


async def main():
    both = [offers, tools, media, progress, cancelled, prompts, resources, list_changed, killed]
    for way in ('stdio', 'streamableHttp'):
        for body in both:
            name = f'everything {way} {body.__name__}'
            await check(name, lambda body=body, way=way: body(way), seconds=60)
    for body in (roots_and_environment, asked, chosen, sse, filesystem, memory, fetch, git):
        await check(body.__name__, body, seconds=60)
    finish()


asyncio.run(main())
