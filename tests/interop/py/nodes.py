"""The flow of one SDK client with two nodes behind nginx: nodes.py sdk03|sdk10|sdk10rest, nginx at $TANDEM_URL.

Each request goes to the other node than the one before it. The nodes are killed in the middle of a turn.
"""

import asyncio
import os
from uuid import uuid4

from check import BASE, check, finish, must, order, same
from events import SETTINGS, ends, ids, read, sdk, texts, updates

PAUSED = ''.join(f'{x}{n} ' for x in 'abc' for n in range(5)) + 'end.'


def prompt(client, **more):
    return client.send([{'text': 'count with a pause'}], metadata=SETTINGS, **more)


async def up_to_the_pause(stream, events):
    """Reads the first part of a turn; the stream stays open."""
    async for event in stream:
        events.append(event)
        if 'b4' in texts(events):
            return
    must(False, f'the stream ended before the pause: {texts(events)!r}')


async def broken(stream, events):
    """Reads what still comes of a stream that breaks off."""
    try:
        async for event in stream:
            events.append(event)
    except Exception:
        same(updates(events)[-1].state, 'working', 'the last state before the stream broke off')
    else:
        must(False, 'the stream ended as if there were no more')


async def following(client):
    """Begins a turn, and reads it from the node that does not have it; the task's events and the open stream."""
    begun = []
    stream = prompt(client)
    await up_to_the_pause(stream, begun)
    await stream.aclose()
    events = []
    stream = client.resubscribe(begun[0].task_id)
    await up_to_the_pause(stream, events)
    return events, stream


async def rest(client, events):
    """Subscribes anew; all events of the task."""
    if sdk.CAN_SAY_LAST_EVENT:
        return events + await read(client.resubscribe(events[0].task_id, ids(events)[-1]))
    after = await read(client.resubscribe(events[0].task_id))
    same(set(ids(events)) - set(ids(after)), set(), 'events before that are not repeated')
    return after


async def whole(client, events, again=False):
    """Checks that nothing is lost and nothing doubled. `again`: another node has asked the model again."""
    ends(events, 'completed')
    same(len(set(ids(events))), len(ids(events)), 'how many event ids differ')
    if again:
        must(texts(events).endswith(PAUSED), f'the text {texts(events)!r}')
        same(texts(events).count('starts again'), 1, 'how often it starts again')
    else:
        same(texts(events), PAUSED, 'the text')
    task = await client.get(events[0].task_id)
    same(task.state, 'completed', 'tasks/get')
    same([each.role for each in task.history].count('user'), 1, 'how many prompts')
    said = [part.get('text', '') for each in task.history if each.role == 'agent' for part in each.parts]
    same(''.join(said), PAUSED, 'the history')
    same(await client.list(events[0].context_id), [(events[0].task_id, 'completed')], 'the list')


async def main():
    async def without_token():
        client = await sdk.connect(BASE, '')
        for call in (read(prompt(client)), client.get('a-task')):
            try:
                await call
            except Exception as error:
                must('401' in str(error), f'the error {error!r}')
            else:
                must(False, 'it is served')

    async def another_tenant():
        client, stranger = await sdk.connect(BASE), await sdk.connect(BASE, os.environ['TANDEM_STRANGER'])
        task = (await read(client.send([{'text': 'say hello'}], metadata=SETTINGS)))[0].task_id
        # At both nodes.
        for call in [
            lambda: stranger.get(task),
            lambda: stranger.get(task),
            lambda: stranger.cancel(task),
            lambda: read(stranger.resubscribe(task)),
            lambda: read(prompt(stranger, task_id=task)),
        ]:
            try:
                await call()
            except Exception as error:
                must(stranger.is_not_found(error), f'{error!r}')
            else:
                must(False, 'it is served')
        same((await client.get(task)).state, 'completed', 'the state')

    async def owner_that_serves():
        client, events = await sdk.connect(BASE), []
        stream = prompt(client)
        await up_to_the_pause(stream, events)
        await order('kill owner reader')
        await broken(stream, events)
        await whole(client, await rest(client, events), again=True)

    async def owner():
        client = await sdk.connect(BASE)
        events, stream = await following(client)
        await order('kill owner')
        # The other node goes on, and the stream with it.
        await whole(client, events + await read(stream), again=True)

    async def follower():
        client = await sdk.connect(BASE)
        events, stream = await following(client)
        await order('kill reader')
        await broken(stream, events)
        await whole(client, await rest(client, events))

    async def sent_again():
        client, events = await sdk.connect(BASE), []
        message = {'message_id': str(uuid4()), 'context_id': str(uuid4())}
        stream = prompt(client, **message)
        await up_to_the_pause(stream, events)
        await order('kill owner reader')
        await broken(stream, events)
        again = await read(prompt(client, **message))
        same(again[0].task_id, events[0].task_id, 'the task')
        await whole(client, again, again=True)

    async def drained():
        client, events = await sdk.connect(BASE), []
        stream = prompt(client)
        await up_to_the_pause(stream, events)
        await order('drain owner reader')
        for _ in range(4):
            ends(await read(client.send([{'text': 'say hello'}], metadata=SETTINGS)), 'completed')
        await whole(client, events + await read(stream))

    await check('1 without a token', without_token)
    await check('2 a token of another tenant', another_tenant)
    for name, body in {
        '3 the node that has the session and serves the stream is killed': owner_that_serves,
        '4 the node that has the session is killed': owner,
        '5 the node that serves the stream is killed': follower,
        '6 a message is sent again to the other node': sent_again,
        '7 the node that has the session is ended in order': drained,
    }.items():
        await check(name, body, 30)
        await order('revive')
    finish()


asyncio.run(main())
