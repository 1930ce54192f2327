"""codex talks to the stand-in for the Responses API, runs a command for it, and is refused by it: codex.py CODEX."""

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path

from check import check, finish, must, same
from stand_ins import LAST, SAID, stand_ins

CODEX = sys.argv[1]
# The tool of codex that runs a command, and its arguments.
CALL = 'responses exec_command ' + json.dumps({'cmd': 'echo made by codex'}, separators=(',', ':'))
CONFIG = '''
model = "{model}"
model_provider = "stand-in"
model_reasoning_effort = "{effort}"
check_for_update_on_startup = false

[analytics]
enabled = false

[model_providers.stand-in]
name = "stand-in"
base_url = "{address}/v1"
wire_api = "responses"
{key}
request_max_retries = 0
stream_max_retries = 0
'''
KEY = 'env_key = "STAND_IN_KEY"'


async def run(address, model='gpt-5.4', effort='low', key=KEY):
    """Returns the events of one prompt."""
    with tempfile.TemporaryDirectory(prefix='tandem-interop-') as home:
        config = Path(home) / '.codex/config.toml'
        config.parent.mkdir()
        config.write_text(CONFIG.format(address=address, model=model, effort=effort, key=key))
        environment = {'HOME': home, 'PATH': os.environ['PATH'], 'STAND_IN_KEY': 'TestKey0123456789'}
        process = await asyncio.create_subprocess_exec(
            CODEX, 'exec', '--json', '--skip-git-repo-check', '--sandbox', 'danger-full-access', 'what is there?',
            cwd=home, env=environment, stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )
        try:
            out, err = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    must(out, f'codex says nothing: {err.decode()[-300:]}')
    return [json.loads(line) for line in out.splitlines()]


async def main():
    async with stand_ins() as served:

        async def talk():
            events = await run(await served.address(CALL))
            items = [event['item'] for event in events if event['type'] == 'item.completed']
            said = [item['text'] for item in items if item['type'] == 'agent_message']
            same(events[-1]['type'], 'turn.completed', f'the end, {events[-1]}')
            same(said, [SAID, LAST], 'texts')
            ran = [item for item in items if item['type'] == 'command_execution']
            must(ran and 'made by codex' in ran[0]['aggregated_output'], f'the command did not run: {items}')
            usage = events[-1]['usage']
            same((usage['input_tokens'], usage['output_tokens']), (50, 15), 'usage')

        async def fail(words, **how):
            events = await run(await served.address('responses'), **how)
            same(events[-1]['type'], 'turn.failed', f'the end, {events[-1]}')
            must(words in events[-1]['error']['message'], f'{words}: {events[-1]}')

        await check('a conversation with a command that codex runs, streamed', talk, 60)
        await check(
            'an effort that the model does not have is refused',
            lambda: fail("'none' is not supported", model='gpt-6-astra', effort='none'), 60,
        )
        await check('a request without a key is refused', lambda: fail("didn't provide an API key", key=''), 60)
    finish()


asyncio.run(main())
