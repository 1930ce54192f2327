"""What the programs here share: named checks with a time limit, one printed line each."""

import asyncio
import os
import sys
import traceback

URI = 'https://github.com/google-gemini/gemini-cli/blob/main/docs/a2a/developer-profile/v0/spec.md'
BASE = os.environ.get('TANDEM_URL', '')
WORKSPACE = os.environ.get('TANDEM_WORKSPACE', '')
ONLY = os.environ.get('ONLY', '')

failed = False


def must(condition, why):
    if not condition:
        raise AssertionError(why)


def same(got, wanted, what):
    must(got == wanted, f'{what}: got {got!r}, not {wanted!r}')


async def check(name, body, seconds=20):
    global failed
    if ONLY not in name:
        return
    try:
        await asyncio.wait_for(body(), seconds)
        print(f'ok {name}', flush=True)
    except Exception as error:
        failed = True
        why = f'not done after {seconds} s' if isinstance(error, TimeoutError) else error
        shown = ' '.join(f'{type(error).__name__}: {why}'.split())
        print(f'FAIL {name}: {shown[:600]}', flush=True)
        if os.environ.get('VERBOSE'):
            traceback.print_exc()


async def restart():
    """Has `run` kill the server and start it again at the same address."""
    print('restart', flush=True)
    must(await asyncio.to_thread(sys.stdin.readline), 'nobody restarts the server')


def finish():
    sys.exit(1 if failed else 0)
