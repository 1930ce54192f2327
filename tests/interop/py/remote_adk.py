"""Google's ADK: its RemoteA2aAgent, in a session of its own, with the server at $TANDEM_URL."""

import asyncio

from check import check, finish, must
from google.adk.agents.remote_a2a_agent import RemoteA2aAgent
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai.types import Blob, Content, Part
from remote import CARD, COPY, NOTES, PROMPT, asks, copied


async def conversation():
    sessions = InMemorySessionService()
    agent = RemoteA2aAgent(name='tandem', agent_card=CARD)
    runner = Runner(app_name='interop', agent=agent, session_service=sessions)
    session = await sessions.create_session(app_name='interop', user_id='user')

    async def say(*parts):
        """The parts of the events that answer."""
        message = Content(role='user', parts=list(parts))
        said = []
        async for event in runner.run_async(
            user_id='user', session_id=session.id, new_message=message,
        ):
            must(not event.error_message, event.error_message)
            said += event.content.parts if event.content else []
        return said

    return say


def texts(parts):
    return '\n'.join(part.text for part in parts if part.text)


async def task():
    say = await conversation()
    notes = Blob(data=NOTES, mime_type='text/plain', display_name='notes.txt')
    asked = await say(Part(text=PROMPT), Part(inline_data=notes))
    # A question is a call that the user answers.
    calls = [part.function_call for part in asked if part.function_call]
    must(calls, f'no question: {asked}')
    asks(calls[-1].args['input_required'], COPY.exists())
    answered = await say(Part(text='yes'))
    copied(texts(answered))
    files = {part.inline_data.display_name: part.inline_data.data
             for part in answered if part.inline_data}
    must(files.get('copied.txt') == NOTES, f'the files that come back: {files}')
    # ADK sends what was said before, too: the file must not end the conversation.
    greeted = await say(Part(text='say hello'))
    must('Hello there.' in texts(greeted), f'the next answer: {greeted}')


async def main():
    await check('a question and a file', task, 60)
    finish()


asyncio.run(main())
