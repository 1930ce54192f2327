"""CrewAI: an agent with a remote one (`a2a`), the server at $TANDEM_URL, and a model that says what it is to say.

CrewAI reads no files of a remote agent, so that which comes back is looked for in the workspace alone.
"""

import asyncio
import json
import os
import tempfile
from contextlib import redirect_stdout
from pathlib import Path

# No word of this leaves the machine.
os.environ |= {
    'CREWAI_DISABLE_TELEMETRY': 'true', 'CREWAI_TRACING_ENABLED': 'false',
    'OTEL_SDK_DISABLED': 'true',
}

from check import check, finish, same  # noqa: E402
from crewai import Agent, BaseLLM  # noqa: E402
from crewai.a2a import A2AClientConfig  # noqa: E402
from crewai.events import crewai_event_bus  # noqa: E402
from crewai.events.types.a2a_events import A2AResponseReceivedEvent  # noqa: E402
from crewai_files import TextFile  # noqa: E402
from remote import CARD, COPY, NOTES, PROMPT, asks, copied  # noqa: E402


class Script(BaseLLM):
    """A model that says these, one after the other."""

    says: list

    def call(self, *_, **__):
        return json.dumps(self.says.pop(0))

    def supports_function_calling(self):
        return False


def says(message, to_agent=True):
    return {'a2a_ids': [CARD] if to_agent else [], 'message': message, 'is_a2a': to_agent}


async def task():
    model = Script(model='script', says=[says(PROMPT), says('yes'), says('Done.', to_agent=False)])
    remote = A2AClientConfig(endpoint=CARD, timeout=30, accepted_output_modes=['text/plain'])
    agent = Agent(role='Clerk', goal='Copies', backstory='A clerk.', llm=model, a2a=remote)
    heard = []

    @crewai_event_bus.on(A2AResponseReceivedEvent)
    def hear(_, event):
        heard.append((event.status, event.response, COPY.exists()))

    with tempfile.TemporaryDirectory() as directory, redirect_stdout(open(os.devnull, 'w')):
        notes = Path(directory) / 'notes.txt'
        notes.write_bytes(NOTES)
        files = {'notes': TextFile(source=str(notes))}
        done = await asyncio.to_thread(agent.kickoff, PROMPT, input_files=files)
        crewai_event_bus.flush()
    same(done.raw, 'Done.', 'the answer of the crew')
    same([status for status, *_ in heard], ['input_required', 'completed'], 'the answers')
    (_, asked, is_copied), (_, answered, _) = heard
    asks(asked, is_copied)
    copied(answered)


async def main():
    await check('a question and a file', task, 60)
    finish()


asyncio.run(main())
