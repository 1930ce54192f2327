"""A real llama.cpp with a small model, used by the real binary: llama.py SERVER MODEL TEMPLATE."""

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

from check import check, finish, must, same

SERVER, MODEL, TEMPLATE = sys.argv[1:4]
ALIAS = 'small'
ID = f'llamacpp:{ALIAS}'
WINDOW = 8192
# Seconds for one prompt: without a GPU, the instructions and tools take most of them.
PROMPT_LIMIT = 500


def free_port():
    with socket.socket() as it:
        it.bind(('127.0.0.1', 0))
        return it.getsockname()[1]


class Llama:
    """The server of llama.cpp, with a chat template that has a place for tools."""

    def __init__(self):
        self.port = free_port()
        self.address = f'http://127.0.0.1:{self.port}'
        command = [
            SERVER, '-m', MODEL, '--host', '127.0.0.1', '--port', str(self.port), '--alias', ALIAS,
            '--jinja', '--chat-template-file', TEMPLATE, '-c', str(WINDOW), '-np', '1', '--offline',
        ]
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT,
        )

    def is_ready(self):
        try:
            return urllib.request.urlopen(f'{self.address}/health', timeout=5).status == 200
        except (urllib.error.URLError, OSError):
            return False

    async def ready(self):
        while not await asyncio.to_thread(self.is_ready):
            must(self.process.poll() is None, f'the server ended: {self.said()}')
            await asyncio.sleep(0.2)

    def said(self):
        self.log.seek(0)
        return self.log.read().decode(errors='replace')[-500:]

    def stop(self):
        self.process.kill()
        self.process.wait()


class Home:
    """A home whose settings say where llama.cpp is, and that its model is the default."""

    def __init__(self, where, llama):
        self.path = Path(where)
        (self.path / '.gemini').mkdir()
        settings = {
            'modelServers': {'llamacpp': {'url': f'{llama.address}/v1'}},
            'model': {'provider': 'llamacpp'},
        }
        (self.path / '.gemini/settings.json').write_text(json.dumps(settings))
        # A small model may never end its answer.
        (self.path / '.config/tandem').mkdir(parents=True)
        models = {'models': [{'id': 'llamacpp:*', 'outputTokens': 64}]}
        (self.path / '.config/tandem/models.json').write_text(json.dumps(models))

    async def run(self, *arguments):
        """Returns the standard output and the standard error of the binary."""
        environment = {'HOME': str(self.path), 'PATH': os.environ['PATH'], 'TANDEM_LOCAL_SERVERS': ''}
        process = await asyncio.create_subprocess_exec(
            os.environ['TANDEM'], *arguments, cwd=self.path, env=environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        try:
            out, err = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
        return out.decode(), err.decode()

    async def ask(self, *arguments):
        """Returns the result of a prompt, and the standard error."""
        out, err = await self.run('--output-format', 'json', *arguments)
        must(out, f'there is no result: {err}')
        return json.loads(out), err


def answered(result):
    """Checks that the model has answered, and returns the tokens that it was asked with."""
    must(result.get('response', '').strip(), f'there is no answer: {result}')
    return result['stats']['models'][ID]['tokens']['prompt']


async def main():
    llama = Llama()
    try:
        await check('llama.cpp starts', llama.ready, 120)
        with tempfile.TemporaryDirectory(prefix='tandem-interop-') as where:
            home = Home(where, llama)

            async def listed():
                found = json.loads((await home.run('models', '--json'))[0])
                model = {'id': ID, 'window': WINDOW, 'price': None, 'thinking': []}
                same(found['groups'], [{'provider': 'llamacpp', 'address': llama.address, 'models': [model]}], 'groups')
                same(found['default']['id'], 'llamacpp:', 'default')

            async def first():
                result, err = await home.ask('-p', 'Say hello.')
                must(answered(result) > 500, 'the instructions and the tools were not sent')
                must(f'`{ID}` answers, the first model of the server at {llama.address}' in err, f'no notice: {err}')

            async def on():
                before = (await home.run('-c', '-p', '/about'))[0]
                must(f'model: `{ID}`' in before, f'the model is not kept: {before}')
                result, err = await home.ask('-c', '-p', 'And once more.')
                answered(result)
                must('No model is named' not in err, f'it is chosen again: {err}')

            await check('its model is listed with the window that it runs with', listed)
            await check('with the server alone named, its first model answers', first, PROMPT_LIMIT)
            await check('the conversation goes on with that model', on, PROMPT_LIMIT)
    finally:
        llama.stop()
    finish()


asyncio.run(main())
