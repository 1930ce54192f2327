// @a2a-js/sdk 1.x behind the few calls that flow.mjs makes.
import { randomUUID } from 'node:crypto';
import * as sdk from 'a2a-10/client';
import { TaskNotFoundError } from 'a2a-10/errors';
import { factory, token } from './check.mjs';

// The SDK has the enums as numbers.
const STATES = [
  'unspecified', 'submitted', 'working', 'completed', 'failed', 'canceled', 'input-required',
  'rejected', 'auth-required',
];
const ROLES = ['unspecified', 'user', 'agent'];
const ROLE_USER = 1;

const given = ({ text, data, file, content }) => ({
  content: file
    ? { $case: 'raw', value: Buffer.from(content) }
    : data ? { $case: 'data', value: data } : { $case: 'text', value: text },
  metadata: undefined,
  filename: file ?? '',
  mediaType: file ? 'text/plain' : '',
});
const part = ({ content, filename }) =>
  content?.$case === 'raw'
    ? { file: filename, content: Buffer.from(content.value).toString() }
    : { [content?.$case ?? 'nothing']: content?.value };
const state = (status) => STATES[status?.state] ?? `unknown ${status?.state}`;

export const version = '1.0';

const event = (type, item) => ({
  type,
  taskId: type === 'task' ? item.id : item.taskId,
  contextId: item.contextId,
  state: item.status && state(item.status),
  role: item.status?.message && ROLES[item.status.message.role],
  parts: (item.status?.message?.parts ?? item.artifact?.parts ?? []).map(part),
  metadata: item.metadata ?? {},
});

const KINDS = { statusUpdate: 'status-update', artifactUpdate: 'artifact-update' };

async function* events(stream) {
  for await (const { payload } of stream) {
    if (!payload) throw new Error('a stream item without task, statusUpdate or artifactUpdate');
    yield event(KINDS[payload.$case] ?? payload.$case, payload.value);
  }
}

const filled = (config) => ({
  tenant: '', id: '', taskId: '', url: '', token: '', authentication: undefined, ...config,
});

export async function connect(base, shown = token) {
  // Without the slash, the SDK would take the last segment of a path off.
  const client = await factory(sdk, shown).createFromUrl(`${base}/`);
  return {
    version,
    card: () => client.getAgentCard(),
    send({ parts, metadata, taskId, contextId, push, messageId = randomUUID() }, signal) {
      const message = {
        messageId,
        role: ROLE_USER,
        parts: parts.map(given),
        metadata,
        taskId: taskId ?? '',
        contextId: contextId ?? '',
        extensions: [],
        referenceTaskIds: [],
      };
      const configuration = push && {
        acceptedOutputModes: [],
        taskPushNotificationConfig: filled(push),
        returnImmediately: false,
      };
      const request = { tenant: '', message, configuration, metadata: undefined };
      return events(client.sendMessageStream(request, { signal }));
    },
    get: async (id, historyLength) => {
      const task = await client.getTask({ tenant: '', id, historyLength });
      return {
        ...task,
        status: { state: state(task.status) },
        artifacts: task.artifacts.map((each) => ({ ...each, parts: each.parts.map(part) })),
        history: task.history.map((each) => ({
          ...each, role: ROLES[each.role], parts: each.parts.map(part),
        })),
      };
    },
    list: async (contextId) => {
      const request = { tenant: '', contextId, status: 0, pageSize: 50, pageToken: '' };
      return (await client.listTasks(request)).tasks.map((task) => [task.id, state(task.status)]);
    },
    // The task that was touched last.
    latest: async (contextId) => {
      const request = { tenant: '', contextId, status: 0, pageSize: 1, pageToken: '' };
      return (await client.listTasks(request)).tasks[0].id;
    },
    cancel: async (id) =>
      event('task', await client.cancelTask({ tenant: '', id, metadata: undefined })),
    resubscribe: (id) => events(client.resubscribeTask({ tenant: '', id })),
    canSayLastEvent: false, // SubscribeToTaskRequest has no metadata
    push: {
      set: (taskId, config) =>
        client.createTaskPushNotificationConfig(filled({ ...config, taskId })),
      get: (taskId, id) => client.getTaskPushNotificationConfig({ tenant: '', taskId, id }),
      list: async (taskId) =>
        (await client.listTaskPushNotificationConfig({
          tenant: '', taskId, pageSize: 0, pageToken: '',
        })).configs,
      delete: (taskId, id) => client.deleteTaskPushNotificationConfig({ tenant: '', taskId, id }),
    },
    isNotFound: (error) =>
      error instanceof TaskNotFoundError || error.cause instanceof TaskNotFoundError,
  };
}
