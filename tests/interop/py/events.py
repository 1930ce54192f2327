"""What programs read out of the events of an SDK, which their first argument names: sdk03, sdk10 or sdk10rest."""

import importlib
import sys

from check import URI, WORKSPACE, must, same

sdk = importlib.import_module(sys.argv[1])
SETTINGS = {URI: {'workspace_path': WORKSPACE}}


async def read(stream, seen=None):
    """A stream read to its end; `seen` is told each event."""
    events = []
    async for event in stream:
        events.append(event)
        if seen:
            await seen(event, events)
    must(events, 'the stream was empty')
    return events


def updates(events):
    return [event for event in events if event.type == 'status-update']


def kind(event):
    return event.metadata.get(URI, {}).get('kind')


def ids(events):
    return [event.metadata['eventId'] for event in updates(events)]


def texts(events):
    return ''.join(
        part.get('text', '')
        for event in updates(events)
        if kind(event) == 'TEXT_CONTENT' and event.role == 'agent'
        for part in event.parts
    )


def calls(events):
    return [
        part['data']
        for event in updates(events)
        if kind(event) == 'TOOL_CALL_UPDATE'
        for part in event.parts
    ]


def ends(events, state):
    same(updates(events)[-1].state, state, 'the last state')
    if sdk.VERSION == '0.3':
        same([event.final for event in updates(events)].count(True), 1, 'how many are final')
        same(events[-1].final, True, 'final of the last')
