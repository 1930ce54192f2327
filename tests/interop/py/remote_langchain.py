"""LangChain's RemoteAgent (langchain-remote-a2a-agent) with the server at $TANDEM_URL.

It sends texts alone, so the file is the second text of a message, and it answers with the id of the context alone.
"""

import asyncio

from check import check, finish, must
from langchain_core.messages import HumanMessage
from langchain_remote_a2a_agent import RemoteAgent
from remote import CARD, COPY, NOTES, PROMPT, asks, copied

CONFIG = {'configurable': {'thread_id': 'interop'}}


async def task():
    agent = RemoteAgent(name='tandem', agent_card_url=CARD)
    parts = [{'type': 'text', 'text': text} for text in (PROMPT, NOTES.decode())]
    asked = await agent.ainvoke([HumanMessage(content=parts)], CONFIG)
    asks(asked['messages'][-1].content, COPY.exists())
    chunks = [chunk['messages'][-1] async for chunk in agent.astream('Go ahead!', CONFIG)]
    copied(''.join(chunk.content for chunk in chunks))
    artifacts = [chunk.additional_kwargs.get('a2a_artifact') or {} for chunk in chunks]
    files = [part.get('bytes') for each in artifacts for part in each.get('parts', [])]
    must(NOTES.decode() in files, f'the files that come back: {artifacts}')
    greeted = await agent.ainvoke('say hello', CONFIG)
    must(greeted['messages'][-1].content == 'Hello there.', f'the next answer: {greeted}')


async def main():
    await check('a question and a file', task, 60)
    finish()


asyncio.run(main())
