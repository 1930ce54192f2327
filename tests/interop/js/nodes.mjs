// The flow of one SDK client with two nodes behind nginx: node nodes.mjs sdk03|sdk10, nginx at $TANDEM_URL.
//
// Each request goes to the other node than the one before it. The nodes are killed in the middle of a turn.
import { randomUUID } from 'node:crypto';
import { base, check, finish, must, order, same } from './check.mjs';
import { connect, ends, last, prompt, read, texts, updates } from './events.mjs';

const PAUSED =
  ['a', 'b', 'c'].flatMap((x) => [0, 1, 2, 3, 4].map((n) => `${x}${n} `)).join('') + 'end.';

const send = (client, more) => client.send(prompt('count with a pause', more));
const ids = (events) => updates(events).map((event) => event.metadata.eventId);

// Reads the first part of a turn; the stream stays open.
async function upToThePause(stream, events) {
  while (!texts(events).includes('b4')) {
    const { value, done } = await stream.next();
    must(!done, `the stream ended before the pause: ${texts(events)}`);
    events.push(value);
  }
}

// Reads what still comes of a stream that breaks off.
async function broken(stream, events) {
  const error = await (async () => {
    for await (const event of stream) events.push(event);
  })().then(() => null, (error) => error);
  must(error, 'the stream ended as if there were no more');
  same(last(updates(events)).state, 'working', 'the last state before the stream broke off');
}

// Begins a turn, and reads it from the node that does not have it.
async function following(client) {
  const begun = [];
  const drop = new AbortController();
  await upToThePause(client.send(prompt('count with a pause'), drop.signal), begun);
  drop.abort();
  const events = [];
  const stream = client.resubscribe(begun[0].taskId);
  await upToThePause(stream, events);
  return { events, stream };
}

// Subscribes anew; all events of the task.
async function rest(client, events) {
  if (client.canSayLastEvent) {
    return [...events, ...await read(client.resubscribe(events[0].taskId, last(ids(events))))];
  }
  const after = await read(client.resubscribe(events[0].taskId));
  const missing = ids(events).filter((id) => !ids(after).includes(id));
  same(missing, [], 'events before that are not repeated');
  return after;
}

// Checks that nothing is lost and nothing doubled. `again`: another node has asked the model again.
async function whole(client, events, again) {
  ends(events, 'completed');
  same(new Set(ids(events)).size, ids(events).length, 'how many event ids differ');
  if (again) {
    must(texts(events).endsWith(PAUSED), `the text ${texts(events)}`);
    same(texts(events).split('starts again').length, 2, 'how often it starts again, and one');
  } else {
    same(texts(events), PAUSED, 'the text');
  }
  const { taskId, contextId } = events[0];
  const task = await client.get(taskId);
  same(task.status.state, 'completed', 'tasks/get');
  same(task.history.filter((each) => each.role === 'user').length, 1, 'how many prompts');
  const said = task.history
    .filter((each) => each.role === 'agent')
    .flatMap((each) => each.parts.map((part) => part.text ?? ''));
  same(said.join(''), PAUSED, 'the history');
  same(await client.list(contextId), [[taskId, 'completed']], 'the list');
}

await check('1 without a token', async () => {
  const client = await connect(base, '');
  for (const call of [() => read(send(client)), () => client.get('a-task')]) {
    const error = await call().then(() => null, (error) => error);
    must(error?.message.includes('401'), `the error ${error}`);
  }
});

await check('2 a token of another tenant', async () => {
  const client = await connect(base);
  const stranger = await connect(base, process.env.TANDEM_STRANGER);
  const [{ taskId }] = await read(client.send(prompt('say hello')));
  for (const call of [
    // At both nodes.
    () => stranger.get(taskId),
    () => stranger.get(taskId),
    () => stranger.cancel(taskId),
    () => read(stranger.resubscribe(taskId)),
    () => read(send(stranger, { taskId })),
  ]) {
    const error = await call().then(() => null, (error) => error);
    must(error && stranger.isNotFound(error), `${call}: ${error}`);
  }
  same((await client.get(taskId)).status.state, 'completed', 'the state');
});

const kills = {
  '3 the node that has the session and serves the stream is killed': async () => {
    const [client, events] = [await connect(base), []];
    const stream = send(client);
    await upToThePause(stream, events);
    await order('kill owner reader');
    await broken(stream, events);
    await whole(client, await rest(client, events), true);
  },
  '4 the node that has the session is killed': async () => {
    const client = await connect(base);
    const { events, stream } = await following(client);
    await order('kill owner');
    // The other node goes on, and the stream with it.
    await whole(client, [...events, ...await read(stream)], true);
  },
  '5 the node that serves the stream is killed': async () => {
    const client = await connect(base);
    const { events, stream } = await following(client);
    await order('kill reader');
    await broken(stream, events);
    await whole(client, await rest(client, events), false);
  },
  '6 a message is sent again to the other node': async () => {
    const [client, events] = [await connect(base), []];
    const message = { messageId: randomUUID(), contextId: randomUUID() };
    const stream = send(client, message);
    await upToThePause(stream, events);
    await order('kill owner reader');
    await broken(stream, events);
    const again = await read(send(client, message));
    same(again[0].taskId, events[0].taskId, 'the task');
    await whole(client, again, true);
  },
  '7 the node that has the session is ended in order': async () => {
    const [client, events] = [await connect(base), []];
    const stream = send(client);
    await upToThePause(stream, events);
    await order('drain owner reader');
    for (let n = 0; n < 4; n += 1) ends(await read(client.send(prompt('say hello'))), 'completed');
    await whole(client, [...events, ...await read(stream)], false);
  },
};
for (const [name, body] of Object.entries(kills)) {
  await check(name, body, 30);
  await order('revive');
}
finish();
