"""a2a-sdk 1.x behind the few calls that flow.py makes."""

from base64 import b64encode
from types import SimpleNamespace
from uuid import uuid4

import httpx
from a2a.client import ClientConfig, create_client
from a2a.types.a2a_pb2 import (
    CancelTaskRequest, DeleteTaskPushNotificationConfigRequest,
    GetTaskPushNotificationConfigRequest, GetTaskRequest, ListTaskPushNotificationConfigsRequest,
    ListTasksRequest, Role, SendMessageRequest, SubscribeToTaskRequest, TaskPushNotificationConfig, TaskState,
)
from a2a.utils.errors import TaskNotFoundError
from a2a.utils.signing import create_signature_verifier
from check import TOKEN, authorization
from google.protobuf.json_format import MessageToDict, ParseDict
from jwt import PyJWK

VERSION = '1.0'
CAN_SAY_LAST_EVENT = False  # SubscribeToTaskRequest has no metadata


def state_of(status):
    name = TaskState.Name(status.state)
    return name.removeprefix('TASK_STATE_').lower().replace('_', '-')


def role_of(message):
    return Role.Name(message.role).removeprefix('ROLE_').lower()


def parts_of(message):
    return [
        {'text': part.text} if part.HasField('text')
        else {'file': part.filename, 'content': part.raw} if part.HasField('raw')
        else {'data': MessageToDict(part.data)}
        for part in message.parts
    ]


def part_of(part):
    """A part in the form of the protocol's JSON."""
    if 'file' not in part:
        return part
    content = b64encode(part['content']).decode()
    return {'raw': content, 'filename': part['file'], 'mediaType': 'text/plain'}


def event_of(kind, item):
    """One event, or a task, in the flow's own form."""
    message = None
    if kind == 'artifact_update':
        parts = parts_of(item.artifact)
    else:
        message = item.status.message if item.status.HasField('message') else None
        parts = parts_of(message) if message else []
    return SimpleNamespace(
        type={'status_update': 'status-update', 'artifact_update': 'artifact-update'}.get(
            kind, kind
        ),
        task_id=item.id if kind == 'task' else item.task_id,
        context_id=item.context_id,
        state=None if kind == 'artifact_update' else state_of(item.status),
        role=role_of(message) if message else None,
        parts=parts,
        metadata=MessageToDict(item.metadata),
    )


async def events_of(stream):
    try:
        async for item in stream:
            kind = item.WhichOneof('payload')
            if not kind:
                raise AssertionError('an item without task, statusUpdate or artifactUpdate')
            yield event_of(kind, getattr(item, kind))
    finally:
        await stream.aclose()


def config_of(push, **more):
    return ParseDict({**push, **more}, TaskPushNotificationConfig())


async def connect(base, token=TOKEN, **more):
    # Without a token, with the SDK's own client.
    http = httpx.AsyncClient(headers=authorization(token)) if token else None
    return Client(await create_client(base, ClientConfig(httpx_client=http, **more)))


async def check_signature(base):
    """Fails unless the card is signed by a key of the server."""
    async with httpx.AsyncClient() as http:
        keys = (await http.get(f'{base}/.well-known/jwks.json')).json()['keys']
    by_id = {key['kid']: PyJWK(key) for key in keys}
    verifier = create_signature_verifier(lambda kid, _: by_id[kid], ['EdDSA'])
    await create_client(base, signature_verifier=verifier)


class Client:
    def __init__(self, client):
        self.client = client

    async def card(self):
        return self.client._card

    def send(self, parts, metadata=None, task_id=None, context_id=None, push=None, message_id=None):
        request = ParseDict({
            'message': {
                'messageId': message_id or str(uuid4()),
                'role': 'ROLE_USER',
                'parts': [part_of(part) for part in parts],
                'metadata': metadata or {},
                'taskId': task_id or '',
                'contextId': context_id or '',
            },
        }, SendMessageRequest())
        if push:
            request.configuration.task_push_notification_config.CopyFrom(config_of(push))
        return events_of(self.client.send_message(request))

    async def get(self, task_id, history_length=None):
        task = await self.client.get_task(
            GetTaskRequest(id=task_id, history_length=history_length)
        )
        return SimpleNamespace(
            state=state_of(task.status),
            history=[
                SimpleNamespace(
                    role=role_of(each), message_id=each.message_id, parts=parts_of(each),
                )
                for each in task.history
            ],
            artifacts=[part for each in task.artifacts for part in parts_of(each)],
        )

    async def cancel(self, task_id):
        return event_of('task', await self.client.cancel_task(CancelTaskRequest(id=task_id)))

    def resubscribe(self, task_id):
        return events_of(self.client.subscribe(SubscribeToTaskRequest(id=task_id)))

    async def list(self, context_id):
        answer = await self.client.list_tasks(ListTasksRequest(context_id=context_id))
        return [(task.id, state_of(task.status)) for task in answer.tasks]

    # Push configs as dicts.

    async def push_set(self, task_id, config):
        return MessageToDict(await self.client.create_task_push_notification_config(
            config_of(config, taskId=task_id)
        ))

    async def push_get(self, task_id, config_id):
        return MessageToDict(await self.client.get_task_push_notification_config(
            GetTaskPushNotificationConfigRequest(task_id=task_id, id=config_id)
        ))

    async def push_list(self, task_id):
        answer = await self.client.list_task_push_notification_configs(
            ListTaskPushNotificationConfigsRequest(task_id=task_id)
        )
        return [MessageToDict(each) for each in answer.configs]

    async def push_delete(self, task_id, config_id):
        await self.client.delete_task_push_notification_config(
            DeleteTaskPushNotificationConfigRequest(task_id=task_id, id=config_id)
        )

    def is_not_found(self, error):
        return isinstance(error, TaskNotFoundError)
