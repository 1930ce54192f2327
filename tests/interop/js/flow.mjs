// The flow of one SDK client: node flow.mjs sdk03|sdk10, the server at $TANDEM_URL.
import { createServer } from 'node:http';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  URI, base, check, finish, must, nodes, restart, rpc, same, sleep, workspace,
} from './check.mjs';
import { calls, connect, ends, kinds, last, prompt, read, texts, updates } from './events.mjs';

const file = (name) => join(workspace, name);

let client;
try {
  client = await connect(base);
} catch (error) {
  console.log(`FAIL connect: ${error.message}`);
  process.exit(1);
}

// The question that a stream ended with.
function question(events) {
  ends(events, 'input-required');
  const call = calls(events).find((each) => each.status === 'PENDING');
  must(call?.confirmation_request, `no PENDING with a question: ${JSON.stringify(calls(events))}`);
  const options = call.confirmation_request.options.map((option) => option.id);
  must(options.includes('proceed_once') && options.includes('cancel'), `options ${options}`);
  return call;
}

async function ask(text) {
  const events = await read(client.send(prompt(text)));
  return { call: question(events), taskId: events[0].taskId, contextId: events[0].contextId };
}

// Answers it, on a new stream.
async function answer({ call, taskId, contextId }, option, more) {
  const data = { tool_call_id: call.tool_call_id, selected_option_id: option, ...more };
  const events = await read(client.send({ parts: [{ data }], taskId, contextId }));
  const states = calls(events)
    .filter((each) => each.tool_call_id === call.tool_call_id)
    .map((each) => each.status);
  return { events, states };
}

await check('1 card', async () => {
  const { capabilities } = await client.card();
  same(capabilities.streaming, true, 'streaming');
  const extension = capabilities.extensions?.find((each) => each.uri === URI);
  must(extension, `no extension ${URI}`);
  same(extension.uri.match(/\/v(\d+(?:\.\d+)*)\//)?.[1], '0', 'the version in the URI');
});

await check('2 prompt', async () => {
  const events = await read(client.send(prompt('say hello')));
  same([events[0].type, events[0].state], ['task', 'submitted'], 'the first');
  same([updates(events)[0].state, kinds(updates(events)[0])], ['working', 'STATE_CHANGE'], 'then');
  same(texts(events), 'Hello there.', 'the text');
  const thought = updates(events).find((event) => kinds(event) === 'THOUGHT');
  same(thought?.parts[0].data.subject, 'Greeting', "the thought's subject");
  same(kinds(last(updates(events))), 'STATE_CHANGE', 'the kind of the last');
  ends(events, 'completed');
  const ids = updates(events).map((event) => event.metadata.eventId);
  must(ids.every((id) => typeof id === 'string' && id), `event ids ${ids}`);
  same(new Set(ids).size, ids.length, 'how many event ids differ');
  must(updates(events).every((event) => event.metadata.coderAgent?.kind), 'coderAgent.kind');
  must(new Set(events.map((event) => event.taskId)).size === 1, 'more than one task id');
  must(new Set(events.map((event) => event.contextId)).size === 1, 'more than one context id');
  if (client.version === '1.0') {
    const artifacts = events.filter((event) => event.type === 'artifact-update');
    same(artifacts.flatMap((each) => each.parts.map((part) => part.text)).join(''),
      'Hello there.', 'the artifact');
    const task = await client.get(events[0].taskId);
    same(task.artifacts.flatMap((each) => each.parts.map((part) => part.text)).join(''),
      'Hello there.', "the task's artifact");
  }
});

await check('3 approve', async () => {
  const asked = await ask('write the file');
  const details = asked.call.confirmation_request.file_edit_details;
  same(asked.call.tool_name, 'write_file', 'the tool');
  same(details?.new_content, 'from the model\n', 'new_content');
  must(details.file_path.endsWith('/approved.txt'), `file_path ${details.file_path}`);
  must(!existsSync(file('approved.txt')), 'the file is there already');
  const { events, states } = await answer(asked, 'proceed_once');
  must(states.includes('EXECUTING') && last(states) === 'SUCCEEDED', `states ${states}`);
  same(texts(events), 'The file is written.', 'the text');
  ends(events, 'completed');
  same(readFileSync(file('approved.txt'), 'utf8'), 'from the model\n', 'the file');
});

await check('4 reject', async () => {
  const { events, states } = await answer(await ask('write and reject'), 'cancel');
  same(last(states), 'CANCELLED', 'the last status of the call');
  must(!states.includes('EXECUTING'), 'it was executed');
  same(texts(events), 'Then I leave it.', 'the text');
  ends(events, 'completed');
  must(!existsSync(file('rejected.txt')), 'the file is there');
});

await check('5 edit', async () => {
  const edited = { modified_details: { file_details: { new_content: 'from the user\n' } } };
  const { events, states } = await answer(await ask('write and edit'), 'proceed_once', edited);
  same(last(states), 'SUCCEEDED', 'the last status of the call');
  ends(events, 'completed');
  same(readFileSync(file('edited.txt'), 'utf8'), 'from the user\n', 'the file');
});

await check('6 command', async () => {
  const asked = await ask('run a command');
  const command = asked.call.confirmation_request.execute_details?.command;
  must(command?.startsWith('touch ran.txt'), `command ${command}`);
  const { events } = await answer(asked, 'proceed_once');
  const live = calls(events)
    .filter((each) => each.status === 'EXECUTING' && each.live_content)
    .map((each) => each.live_content);
  // A node that does not run the command has its output at the end.
  must(nodes > 1 || new Set(live).size >= 2, `live_content did not grow: ${JSON.stringify(live)}`);
  live.slice(1).forEach((now, n) => {
    must(now.startsWith(live[n].trimEnd()), `${JSON.stringify(now)} after ${JSON.stringify(live[n])}`);
  });
  const done = last(calls(events));
  same(done.status, 'SUCCEEDED', 'the last status');
  must(done.output?.text?.includes('line3'), `output ${JSON.stringify(done.output)}`);
  ends(events, 'completed');
  must(existsSync(file('ran.txt')), 'it did not run');
});

await check('7 cancel', async () => {
  let canceled;
  const events = await read(client.send(prompt('talk for long')), async (event, events) => {
    if (!canceled && texts(events).includes('c ')) canceled = await client.cancel(event.taskId);
  });
  same(canceled.state, 'canceled', 'the answer');
  ends(events, 'canceled');
  same((await client.get(events[0].taskId)).status.state, 'canceled', 'tasks/get');
});

const COUNTED =
  ['a', 'b', 'c', 'd'].flatMap((x) => [0, 1, 2, 3, 4].map((n) => `${x}${n} `)).join('') + 'end.';

// Reads the first part of a turn, and drops the connection.
async function dropped() {
  const drop = new AbortController();
  const events = [];
  try {
    for await (const event of client.send(prompt('count slowly'), drop.signal)) {
      events.push(event);
      if (texts(events).includes('b4')) drop.abort();
    }
  } catch (error) {
    if (error.name !== 'AbortError') throw error;
  }
  must(updates(events).every((event) => event.state === 'working'), 'it was over already');
  await sleep(100);
  return events;
}

await check('8 resubscribe', async () => {
  const before = await dropped();
  const events = await read(client.resubscribe(before[0].taskId));
  same(events[0].type, 'task', 'the first');
  same(texts(events), COUNTED, 'the whole turn');
  const ids = updates(events).map((event) => event.metadata.eventId);
  same(new Set(ids).size, ids.length, 'how many event ids differ');
  const missing = updates(before).filter((event) => !ids.includes(event.metadata.eventId));
  same(missing.length, 0, 'how many of the events before are not repeated');
  ends(events, 'completed');
});

if (client.canSayLastEvent) {
  await check('8 resubscribe after an event', async () => {
    const before = await dropped();
    const after = await read(
      client.resubscribe(before[0].taskId, last(updates(before)).metadata.eventId),
    );
    same(texts(before) + texts(after), COUNTED, 'before and after');
    const ids = updates([...before, ...after]).map((event) => event.metadata.eventId);
    same(new Set(ids).size, ids.length, 'how many event ids differ');
    ends(after, 'completed');
  });
}

await check('9 context id alone', async () => {
  const first = await read(client.send(prompt('one')));
  same(texts(first), 'first in order', 'the first answer');
  const { contextId } = first[0];
  const second = await read(client.send({ parts: [{ text: 'two' }], contextId }));
  same(texts(second), 'second in order', 'the second answer');
  same(second[0].contextId, contextId, 'the context id');
  ends(second, 'completed');
});

// The credentials of a receiver, and the check that a notification has them.
const secret = client.version === '1.0'
  ? { authentication: { scheme: 'Bearer', credentials: 'shh' } }
  : { token: 'shh' };

function authorized({ headers }) {
  if (client.version === '1.0') same(headers.authorization, 'Bearer shh', 'Authorization');
  else same(headers['x-a2a-notification-token'], 'shh', 'the token');
}

// A receiver of notifications; `told` waits for the one that says that a task is in this state.
async function listen() {
  const received = [];
  const receiver = createServer(async (request, response) => {
    let body = '';
    for await (const chunk of request) body += chunk;
    received.push({ path: request.url, headers: request.headers, body: JSON.parse(body) });
    response.end();
  });
  await new Promise((done) => receiver.listen(0, '127.0.0.1', done));
  const says = (state) => ({ body }) =>
    client.version === '1.0'
      ? [body.statusUpdate, body.task].some(
          (each) => each?.status.state === `TASK_STATE_${state.toUpperCase()}`,
        )
      : body.kind === 'task' && body.status.state === state;
  const told = async (path, state) => {
    const found = () => received.find((each) => each.path === path && says(state)(each));
    for (let n = 0; n < 100 && !found(); n += 1) await sleep(50);
    const heard = JSON.stringify(received).slice(0, 300);
    must(found(), `${path} was not told of ${state}: ${heard}`);
    return found();
  };
  const close = () => {
    receiver.closeAllConnections();
    receiver.close();
  };
  return { hook: `http://127.0.0.1:${receiver.address().port}`, told, close };
}

await check('10 push', async () => {
  const { hook, told, close } = await listen();
  try {
    let second;
    const push = { id: 'first', url: `${hook}/first`, ...secret };
    const events = await read(client.send(prompt('count slowly', { push })), async (event) => {
      if (second || event.type === 'task') return;
      second = await client.push.set(event.taskId, { id: 'second', url: `${hook}/second` });
    });
    ends(events, 'completed');
    const { taskId } = events[0];
    same([second.taskId, second.id, second.url], [taskId, 'second', `${hook}/second`], 'set');
    same((await client.push.get(taskId, 'second')).url, `${hook}/second`, 'get');
    const ids = async () => (await client.push.list(taskId)).map((each) => each.id).sort();
    same(await ids(), ['first', 'second'], 'list');

    const first = await told('/first', 'completed');
    await told('/second', 'completed');
    // Not before: what is deleted is told nothing any more, not even what is on its way.
    await client.push.delete(taskId, 'second');
    same(await ids(), ['first'], 'list after delete');
    authorized(first);
    if (client.version === '1.0') {
      same(first.headers['content-type'].split(';')[0], 'application/a2a+json', 'Content-Type');
    }
  } finally {
    close();
  }
});

await check('11 commands', async () => {
  const { commands } = await rpc('commands/get', {});
  must(commands.length > 0, 'no commands');
  for (const each of commands) {
    must(each.name && typeof each.description === 'string', JSON.stringify(each));
    must(Array.isArray(each.arguments) && Array.isArray(each.sub_commands), JSON.stringify(each));
  }
  // One that only shows something.
  const harmless = ['help', 'about', 'version', 'stats', 'tools'];
  const name = harmless.find((each) => commands.some((command) => command.name === each));
  must(name, `none of ${harmless} among ${commands.map((each) => each.name)}`);
  const started = await rpc('command/execute', { command_path: [name], args: '' });
  same(started.status, 'STARTED', 'the status');
  let task;
  for (let n = 0; n < 100 && task?.status.state !== 'completed'; n += 1) {
    task = await client.get(started.execution_id);
    await sleep(50);
  }
  same(task.status.state, 'completed', 'the state of the execution');
  const unknown = await rpc('command/execute', { command_path: ['no', 'such'], args: '' });
  same(unknown.status, 'FAILED_TO_START', 'the status of an unknown one');
});

await check('12 history and unknown tasks', async () => {
  const [{ taskId }] = await read(client.send(prompt('say hello')));
  const all = (await client.get(taskId)).history;
  must(all.length >= 2, `a history of ${all.length}`);
  same(all[0].role, 'user', 'who spoke first');
  const one = (await client.get(taskId, 1)).history;
  same(one.map((each) => each.messageId), [last(all).messageId], 'historyLength 1');
  same((await client.get(taskId, 0)).history ?? [], [], 'historyLength 0');
  for (const call of [
    () => client.get('no-such-task'),
    () => client.cancel('no-such-task'),
    () => read(client.resubscribe('no-such-task')),
    () => read(client.send(prompt('say hello', { taskId: 'no-such-task' }))),
  ]) {
    const error = await call().then(() => null, (each) => each);
    must(error && client.isNotFound(error), `${call}: ${error}`);
  }
});

await check('13 the server is killed', async () => {
  const { hook, told, close } = await listen();
  try {
    const done = await read(client.send(prompt('say hello')));
    const { history } = await client.get(done[0].taskId);
    const asked = await ask('write and reject');
    const push = { id: 'lasting', url: `${hook}/lasting`, ...secret };
    // A stream in the middle, whose end is told to nobody.
    const before = [];
    let killed;
    try {
      for await (const event of client.send(prompt('talk for long', { push }))) {
        before.push(event);
        if (!killed && texts(before).includes('c ')) killed = restart();
      }
    } catch (error) {
      must(killed, `the stream ended before the server: ${error}`);
    }
    await killed;
    const { taskId, contextId } = before[0];

    const same_task = await client.get(done[0].taskId);
    same(same_task.status.state, 'completed', 'the task that had ended');
    same(same_task.history.map((each) => each.messageId), history.map((each) => each.messageId),
      'its history');
    same((await client.get(asked.taskId)).status.state, 'failed', 'the task with the question');
    const late = await answer(asked, 'proceed_once').then(() => null, (error) => error);
    must(late && !existsSync(file('rejected.txt')), 'the answer to a closed question counted');
    same(await client.list(contextId), [[taskId, 'failed']], 'the list');

    const after = await read(client.canSayLastEvent
      ? client.resubscribe(taskId, last(updates(before)).metadata.eventId)
      : client.resubscribe(taskId)).catch((error) => error);
    if (Array.isArray(after)) {
      const state = after.map((event) => event.state).filter(Boolean);
      same(last(state), 'failed', 'how the stream goes on');
      const ids = updates([...before, ...after]).map((event) => event.metadata.eventId);
      if (client.canSayLastEvent) same(new Set(ids).size, ids.length, 'how many event ids differ');
    } else {
      // In 1.0 whoever subscribes to a task that has ended is refused.
      same(client.version, '1.0', `the version that refuses: ${after}`);
    }

    same((await client.push.list(taskId)).map((each) => each.id), ['lasting'], 'the receivers');
    authorized(await told('/lasting', 'failed'));
    const next = await read(client.send({ parts: [{ text: 'say hello' }], contextId }));
    same(next[0].contextId, contextId, 'the context id');
    same(texts(next), 'Hello there.', 'the next answer');
    ends(next, 'completed');
    if (client.version === '0.3') authorized(await told('/lasting', 'completed'));
  } finally {
    close();
  }
});

await check('15 a question and a file', async () => {
  const notes = { file: 'notes.txt', content: 'remember the milk\n' };
  const { parts, metadata } = prompt('copy the notes');
  const asking = await read(client.send({ parts: [...parts, notes], metadata }));
  const asked = {
    call: question(asking), taskId: asking[0].taskId, contextId: asking[0].contextId,
  };
  const { events, states } = await answer(asked, 'proceed_once');
  same(last(states), 'SUCCEEDED', 'the last status of the call');
  same(texts(events), 'It is copied.', 'the text');
  const artifacts = events.filter((event) => event.type === 'artifact-update');
  const back = artifacts.flatMap((event) => event.parts).find((part) => part.file === 'copied.txt');
  same(back?.content, notes.content, 'the file that comes back');
  same(readFileSync(file('copied.txt'), 'utf8'), notes.content, 'the file');
  ends(events, 'completed');
});

finish();
