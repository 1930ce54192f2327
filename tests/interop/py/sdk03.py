"""a2a-sdk 0.3 behind the few calls that flow.py makes."""

from base64 import b64decode, b64encode
from types import SimpleNamespace
from uuid import uuid4

import httpx
from a2a.client import ClientConfig, ClientFactory
from a2a.client.errors import A2AClientJSONRPCError
from a2a.types import (
    DataPart, DeleteTaskPushNotificationConfigParams, FilePart, FileWithBytes,
    GetTaskPushNotificationConfigParams,
    ListTaskPushNotificationConfigParams, Message, MessageSendConfiguration, Part,
    PushNotificationConfig, Role, Task, TaskIdParams, TaskPushNotificationConfig, TaskQueryParams,
    TaskStatusUpdateEvent, TextPart,
)
from a2a.types import (
    DeleteTaskPushNotificationConfigRequest, DeleteTaskPushNotificationConfigResponse,
    JSONRPCErrorResponse, ListTaskPushNotificationConfigRequest,
    ListTaskPushNotificationConfigResponse,
)
from check import TOKEN, authorization

VERSION = '0.3'
CAN_SAY_LAST_EVENT = True


def parts_of(message):
    out = []
    for part in message.parts if message else []:
        root = part.root
        if isinstance(root, TextPart):
            out.append({'text': root.text})
        elif isinstance(root, FilePart):
            out.append({'file': root.file.name, 'content': b64decode(root.file.bytes)})
        else:
            out.append({'data': root.data})
    return out


def part_of(part):
    if 'file' in part:
        content = b64encode(part['content']).decode()
        file = FileWithBytes(name=part['file'], mime_type='text/plain', bytes=content)
        return Part(root=FilePart(file=file))
    return Part(root=DataPart(data=part['data']) if 'data' in part else TextPart(**part))


def event_of(item):
    """One event, or a task, in the flow's own form."""
    status = getattr(item, 'status', None)
    message = status.message if status else None
    is_status = isinstance(item, TaskStatusUpdateEvent)
    return SimpleNamespace(
        type='task' if isinstance(item, Task) else item.kind,
        task_id=item.id if isinstance(item, Task) else item.task_id,
        context_id=item.context_id,
        state=status.state.value if status else None,
        final=item.final if is_status else None,
        role=message.role.value if message else None,
        parts=parts_of(message or getattr(item, 'artifact', None)),
        metadata=item.metadata or {},
    )


async def events_of(stream):
    try:
        async for task, update in stream:
            yield event_of(update or task)
    finally:
        await stream.aclose()


async def connect(base, token=TOKEN):
    # Without a token, with the SDK's own client.
    http = httpx.AsyncClient(headers=authorization(token)) if token else None
    config = ClientConfig(httpx_client=http)
    return Client(await ClientFactory.connect(base, config), base)


class Client:
    def __init__(self, client, base):
        self.client, self.base = client, base

    async def card(self):
        return await self.client.get_card()

    def send(self, parts, metadata=None, task_id=None, context_id=None, push=None, message_id=None):
        message = Message(
            message_id=message_id or str(uuid4()),
            role=Role.user,
            parts=[part_of(part) for part in parts],
            metadata=metadata,
            task_id=task_id,
            context_id=context_id,
        )
        configuration = None
        if push:
            configuration = MessageSendConfiguration(
                push_notification_config=PushNotificationConfig(**push)
            )
        return events_of(self.client.send_message(message, configuration=configuration))

    async def get(self, task_id, history_length=None):
        task = await self.client.get_task(
            TaskQueryParams(id=task_id, history_length=history_length)
        )
        return SimpleNamespace(
            state=task.status.state.value,
            history=[
                SimpleNamespace(
                    role=each.role.value, message_id=each.message_id, parts=parts_of(each),
                )
                for each in task.history or []
            ],
        )

    async def cancel(self, task_id):
        return event_of(await self.client.cancel_task(TaskIdParams(id=task_id)))

    def resubscribe(self, task_id, last_event_id=None):
        metadata = {'lastEventId': last_event_id} if last_event_id else None
        return events_of(self.client.resubscribe(TaskIdParams(id=task_id, metadata=metadata)))

    # Push configs as dicts.

    def pushed(self, answer):
        return {
            'taskId': answer.task_id,
            **answer.push_notification_config.model_dump(exclude_none=True),
        }

    async def push_set(self, task_id, config):
        return self.pushed(await self.client.set_task_callback(TaskPushNotificationConfig(
            task_id=task_id, push_notification_config=PushNotificationConfig(**config),
        )))

    async def push_get(self, task_id, config_id):
        return self.pushed(await self.client.get_task_callback(
            GetTaskPushNotificationConfigParams(
                id=task_id, push_notification_config_id=config_id,
            )
        ))

    async def list(self, context_id):
        # Neither the client nor the SDK's types have it.
        body = {'jsonrpc': '2.0', 'id': 1, 'method': 'tasks/list',
                'params': {'contextId': context_id}}
        answer = (await self.client._transport.httpx_client.post(f'{self.base}/', json=body)).json()
        return [(task['id'], task['status']['state']) for task in answer['result']['tasks']]

    # The client has no list and no delete; the SDK's types do.

    async def call(self, request, response):
        http = self.client._transport.httpx_client
        body = request.model_dump(mode='json', exclude_none=True)
        answer = response.model_validate((await http.post(f'{self.base}/', json=body)).json()).root
        if isinstance(answer, JSONRPCErrorResponse):
            raise A2AClientJSONRPCError(answer)
        return answer.result

    async def push_list(self, task_id):
        params = ListTaskPushNotificationConfigParams(id=task_id)
        request = ListTaskPushNotificationConfigRequest(id=str(uuid4()), params=params)
        answer = await self.call(request, ListTaskPushNotificationConfigResponse)
        return [self.pushed(each) for each in answer]

    async def push_delete(self, task_id, config_id):
        params = DeleteTaskPushNotificationConfigParams(
            id=task_id, push_notification_config_id=config_id,
        )
        request = DeleteTaskPushNotificationConfigRequest(id=str(uuid4()), params=params)
        await self.call(request, DeleteTaskPushNotificationConfigResponse)

    def is_not_found(self, error):
        return isinstance(error, A2AClientJSONRPCError) and error.error.code == -32001
