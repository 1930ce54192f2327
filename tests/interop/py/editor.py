"""The real binary as an editor has it: over its standard input and output, with MCP servers of ours."""

import asyncio
import json
import os
import shutil
import tempfile
from pathlib import Path

from check import must

TANDEM = os.environ['TANDEM']


def call(tool, **args):
    """A step of the model's: it calls a tool."""
    return {'call': {'name': tool, 'args': args}}


class Turn:
    """What came of a prompt."""

    def __init__(self):
        self.text = ''
        # Each a dict: label, question (or None), updates (status, text).
        self.calls = []

    def ended(self, number=0):
        """How a call ended, and what is shown of it."""
        status, shown = self.calls[number]['updates'][-1]
        return status, shown

    def output(self, number=0):
        status, shown = self.ended(number)
        must(status == 'finished', f'{self.calls[number]["label"]}: {status}: {shown}')
        return shown


class Editor:
    """`servers`: as in settings. `script`: what the model answers to which prompt (docs/scripts.md)."""

    def __init__(self, servers, script, flags=('-y',), env=None):
        self.home = Path(tempfile.mkdtemp(prefix='tandem-interop-')).resolve()
        self.workspace = self.home / 'workspace'
        self.workspace.mkdir()
        self.servers, self.script, self.flags, self.env = servers, script, flags, env or {}
        self.next, self.next_call = 0, 0

    async def __aenter__(self):
        (self.home / '.gemini').mkdir()
        settings = {'mcpServers': self.servers}
        (self.home / '.gemini/settings.json').write_text(json.dumps(settings))
        lines = [json.dumps({'when': when, 'answers': answers}) for when, answers in self.script.items()]
        (self.home / 'script.jsonl').write_text('\n'.join(lines))
        self.errors = open(self.home / 'stderr', 'w')
        kept = {name: os.environ[name] for name in ('PATH', 'TANDEM_LOG') if name in os.environ}
        self.process = await asyncio.create_subprocess_exec(
            TANDEM, '--acp', '--model', f'replay:{self.home / "script.jsonl"}', *self.flags,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=self.errors,
            cwd=self.workspace, env={'HOME': str(self.home), **kept, **self.env}, limit=64 << 20,
        )
        self.request('initialize', {'protocolVersion': '0.0.11'})
        return self

    async def __aexit__(self, *_):
        self.process.stdin.close()
        try:
            await asyncio.wait_for(self.process.wait(), 5)
        except TimeoutError:
            self.process.kill()
            raise
        finally:
            self.errors.close()
            if os.environ.get('VERBOSE'):
                print((self.home / 'stderr').read_text())
            shutil.rmtree(self.home, ignore_errors=True)

    def send(self, message):
        self.process.stdin.write(json.dumps({'jsonrpc': '2.0', **message}).encode() + b'\n')

    def request(self, method, params=None):
        self.next += 1
        params = {} if params is None else {'params': params}
        self.send({'id': self.next, 'method': method, **params})
        return self.next

    def cancel(self):
        self.request('cancelSendMessage')

    async def prompt(self, text, outcome='allow', seen=None):
        """Says it and reads to the end of the turn. `seen` is told of each update of a call."""
        turn, calls = Turn(), {}
        request = self.request('sendUserMessage', {'chunks': [{'text': text}]})
        while True:
            line = await self.process.stdout.readline()
            must(line, f'the agent has ended: {(self.home / "stderr").read_text()}')
            message = json.loads(line)
            if 'method' not in message:
                if message.get('id') != request:
                    continue
                must('error' not in message, f'the prompt: {message.get("error")}')
                return turn
            result = self.take(turn, calls, message, outcome)
            if seen and message['method'] == 'updateToolCall':
                seen(calls[message['params']['toolCallId']])
            self.send({'id': message['id'], 'result': result})

    def take(self, turn, calls, message, outcome):
        method, params = message['method'], message['params']
        if method == 'streamAssistantMessageChunk':
            turn.text += params['chunk'].get('text', '')
        elif method == 'updateToolCall':
            content = params.get('content') or {}
            update = (params['status'], content.get('markdown', ''))
            calls[params['toolCallId']]['updates'].append(update)
        elif method in ('pushToolCall', 'requestToolCallConfirmation'):
            self.next_call += 1
            made = {'label': params['label'], 'question': params.get('confirmation'), 'updates': []}
            calls[self.next_call] = made
            turn.calls.append(made)
            return {'id': self.next_call, 'outcome': outcome}
        return None
