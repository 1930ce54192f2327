"""What the programs here share: named checks with a time limit, one printed line each."""

import asyncio
import os
import sys
import traceback

URI = 'https://github.com/google-gemini/gemini-cli/blob/main/docs/a2a/developer-profile/v0/spec.md'
BASE = os.environ.get('TANDEM_URL', '')
TOKEN = os.environ.get('TANDEM_TOKEN', '')
WORKSPACE = os.environ.get('TANDEM_WORKSPACE', '')
NODES = int(os.environ.get('TANDEM_NODES', 1))
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


def authorization(token=TOKEN):
    """The header that shows a token, if there is one."""
    return {'Authorization': f'Bearer {token}'} if token else {}


async def order(what):
    """Has `run` do something with the server."""
    print(f'order {what}', flush=True)
    same((await asyncio.to_thread(sys.stdin.readline)).strip(), 'done', what)


async def restart():
    """Has the server killed and started again at the same address."""
    await order('restart')


def finish():
    sys.exit(1 if failed else 0)
