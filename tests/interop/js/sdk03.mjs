// @a2a-js/sdk 0.3 behind the few calls that flow.mjs makes.
import { randomUUID } from 'node:crypto';
import * as sdk from 'a2a-03/client';
import { factory, rpc, token } from './check.mjs';

export const version = '0.3';

const given = ({ file: name, content, ...part }) => {
  if (!name) return { kind: part.data ? 'data' : 'text', ...part };
  const bytes = Buffer.from(content).toString('base64');
  return { kind: 'file', file: { name, mimeType: 'text/plain', bytes } };
};
const part = ({ file, ...part }) =>
  file ? { file: file.name, content: Buffer.from(file.bytes, 'base64').toString() } : part;

const event = (item) => ({
  type: item.kind,
  taskId: item.kind === 'task' ? item.id : item.taskId,
  contextId: item.contextId,
  state: item.status?.state,
  final: item.final,
  role: item.status?.message?.role,
  parts: (item.status?.message?.parts ?? item.artifact?.parts ?? []).map(part),
  metadata: item.metadata ?? {},
});

async function* events(stream) {
  for await (const item of stream) yield event(item);
}

const pushed = (answer) => ({ taskId: answer.taskId, ...answer.pushNotificationConfig });

export async function connect(base, shown = token) {
  // Without the slash, the SDK would take the last segment of a path off.
  const client = await factory(sdk, shown).createFromUrl(`${base}/`);
  return {
    version,
    card: () => client.getAgentCard(),
    send({ parts, metadata, taskId, contextId, push, messageId = randomUUID() }, signal) {
      const message = {
        kind: 'message',
        messageId,
        role: 'user',
        parts: parts.map(given),
        ...(metadata && { metadata }),
        ...(taskId && { taskId }),
        ...(contextId && { contextId }),
      };
      const configuration = push && { pushNotificationConfig: push };
      return events(client.sendMessageStream({ message, configuration }, { signal }));
    },
    get: (id, historyLength) => client.getTask({ id, historyLength }),
    // The SDK has no call for it.
    list: async (contextId) =>
      (await rpc('tasks/list', { contextId })).tasks.map((task) => [task.id, task.status.state]),
    cancel: async (id) => event(await client.cancelTask({ id })),
    resubscribe: (id, lastEventId) =>
      events(client.resubscribeTask({ id, ...(lastEventId && { metadata: { lastEventId } }) })),
    canSayLastEvent: true,
    push: {
      set: async (taskId, config) =>
        pushed(
          await client.setTaskPushNotificationConfig({ taskId, pushNotificationConfig: config }),
        ),
      get: async (id, config) =>
        pushed(
          await client.getTaskPushNotificationConfig({ id, pushNotificationConfigId: config }),
        ),
      list: async (id) => (await client.listTaskPushNotificationConfig({ id })).map(pushed),
      delete: (id, config) =>
        client.deleteTaskPushNotificationConfig({ id, pushNotificationConfigId: config }),
    },
    isNotFound: (error) =>
      error instanceof sdk.TaskNotFoundError || error.cause instanceof sdk.TaskNotFoundError,
  };
}
