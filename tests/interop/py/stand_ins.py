"""The stand-ins for the models' APIs that tandem's own tests use, for clients that others wrote."""

import asyncio
import contextlib
import os

from check import must, same

# The conversation that each stand-in has the answers of.
PROMPT = 'what is there?'
SAID = 'Looking.'
LAST = 'All is well.'
CALLS = [('glob', {'pattern': 'a'}), ('glob', {})]
PARAMETERS = {
    'type': 'object',
    'properties': {'pattern': {'type': 'string'}},
}


class StandIns:
    """The program that serves the stand-ins; each conversation has one of its own."""

    def __init__(self, process):
        self.process = process

    async def address(self, line):
        """Returns the address of a new stand-in."""
        self.process.stdin.write(f'{line}\n'.encode())
        await self.process.stdin.drain()
        answer = (await self.process.stdout.readline()).decode().strip()
        must(answer, f'there is no stand-in for {line}')
        return answer


@contextlib.asynccontextmanager
async def stand_ins():
    process = await asyncio.create_subprocess_exec(
        os.environ['TANDEM_STAND_INS'], stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield StandIns(process)
    finally:
        process.stdin.close()
        await process.wait()


async def refused(error, request, **expected):
    """Checks that a request fails with an error of the SDK that has these members."""
    try:
        await request
    except error as found:
        for name, value in expected.items():
            same(getattr(found, name), value, f'{name} of {found}')
        return found
    raise AssertionError(f'no {error.__name__}: the request was accepted')
