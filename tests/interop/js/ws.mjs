// A plain WebSocket client of `/ws`, the server at $TANDEM_URL.
import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import WebSocket from 'ws';
import { URI, base, check, finish, must, same, sleep, workspace } from './check.mjs';

// A connection that keeps every frame it gets.
async function open(query = '') {
  const socket = new WebSocket(`${base.replace('http', 'ws')}/ws${query}`);
  const it = { frames: [], socket };
  it.closed = new Promise((done) => socket.on('close', done));
  socket.on('error', () => {});
  socket.on('message', (data, binary) => {
    it.frames.push(binary ? { binary: true } : JSON.parse(data.toString()));
  });
  await new Promise((done, failed) => socket.on('open', done).on('error', failed));
  it.send = (frame) =>
    socket.send(typeof frame === 'string' ? frame : JSON.stringify({ jsonrpc: '2.0', ...frame }));
  // The first frame of this kind, now or later.
  it.wait = async (test, what) => {
    for (let n = 0; n < 200; n += 1) {
      const found = it.frames.find(test);
      if (found) return found;
      await sleep(50);
    }
    throw new Error(`no ${what}; the last: ${JSON.stringify(it.frames.slice(-3)).slice(0, 400)}`);
  };
  it.call = async (id, method, params) => {
    it.send({ id, method, params });
    return it.wait((frame) => frame.id === id, `answer to ${method}`);
  };
  return it;
}

const opened = [];
const connection = async (query) => {
  opened.push(await open(query));
  return opened[opened.length - 1];
};
const closeAll = () => {
  while (opened.length) opened.pop().socket.terminate();
};
const test = (name, body) =>
  check(name, async () => {
    try {
      await body();
    } finally {
      closeAll();
    }
  });

const prompt = (text) => ({
  message: {
    kind: 'message',
    messageId: randomUUID(),
    role: 'user',
    parts: [{ kind: 'text', text }],
    metadata: { [URI]: { workspace_path: workspace } },
  },
});

const results = (frames, id) => frames.filter((f) => f.id === id && f.result).map((f) => f.result);
const broadcasts = (frames) => frames.filter((f) => f.method === 'tasks/event').map((f) => f.params);
const eventIds = (events) =>
  events.filter((event) => event.kind === 'status-update').map((event) => event.metadata.eventId);
const states = (events) =>
  events
    .map((event) => event.status?.state)
    .filter(Boolean)
    .filter((state, n, all) => state !== all[n - 1]);
const completed = (frame) => frame.params?.final && frame.params.status.state === 'completed';

await test('1 stream and broadcast', async () => {
  const [a, b] = [await connection(), await connection()];
  a.send({ id: 'one', method: 'message/stream', params: prompt('say hello') });
  await a.wait((frame) => frame.id === 'one' && frame.streamEnd === true, 'streamEnd');
  same(a.frames[a.frames.length - 1].streamEnd, true, 'the last frame');
  const own = results(a.frames, 'one');
  same(states(own), ['submitted', 'working', 'completed'], 'the states');
  same(own[own.length - 1].final, true, 'final of the last');
  await b.wait(completed, 'broadcast of the end');
  await sleep(100);
  // What the one said is news to the other.
  const [said, ...rest] = broadcasts(b.frames);
  same(said.status.message.role, 'user', 'who said it');
  same(said.metadata.source, 'a2a', 'where it came from');
  same(eventIds(rest), eventIds(own), "the other's events");
  same(broadcasts(a.frames).length, 0, 'broadcasts to the one who asked');
  must(b.frames.every((frame) => !('id' in frame)), 'a broadcast with an id');
});

await test('2 unary', async () => {
  const a = await connection();
  const sent = await a.call(7, 'message/send', prompt('say hello'));
  same(sent.result.status.state, 'completed', 'message/send');
  const got = await a.call('seven', 'tasks/get', { id: sent.result.id });
  same(got.result.id, sent.result.id, 'tasks/get');
  same((await a.call(8, 'tasks/get', { id: 'none' })).error.code, -32001, 'an unknown task');
  same((await a.call(9, 'no/such', {})).error.code, -32601, 'an unknown method');
  must(!a.frames.some((frame) => frame.streamEnd), 'a streamEnd without a stream');
});

await test('3 cancelStream', async () => {
  const [a, b] = [await connection(), await connection()];
  a.send({ id: 's', method: 'message/stream', params: prompt('count slowly') });
  await a.wait((frame) => frame.result?.status?.message?.parts?.[0].text, 'text');
  a.send({ method: 'cancelStream', params: { id: 's' } });
  const end = await b.wait(completed, 'end of the turn, which should go on');
  const got = eventIds(results(a.frames, 's'));
  must(!got.includes(end.params.metadata.eventId), 'the stream went on');
});

await test('4 a question, answered by another', async () => {
  const [a, b] = [await connection(), await connection()];
  a.send({ id: 1, method: 'message/stream', params: prompt('write the file') });
  const asked = await b.wait(
    (frame) => frame.params?.status?.message?.parts?.[0].data?.confirmation_request,
    'question',
  );
  await a.wait((frame) => frame.id === 1 && frame.streamEnd, 'streamEnd');
  const { taskId, contextId, status } = asked.params;
  const { tool_call_id } = status.message.parts[0].data;
  const message = (option) => ({
    message: {
      ...prompt('').message,
      taskId,
      contextId,
      parts: [{ kind: 'data', data: { tool_call_id, selected_option_id: option } }],
    },
  });
  b.send({ id: 2, method: 'message/stream', params: message('proceed_once') });
  await b.wait((frame) => frame.id === 2 && frame.streamEnd, 'streamEnd');
  await a.wait(completed, 'broadcast of the end');
  const seen = broadcasts(a.frames)
    .map((event) => event.status?.message?.parts[0]?.data?.status)
    .filter(Boolean);
  must(seen.includes('EXECUTING') && seen.includes('SUCCEEDED'), `the other saw ${seen}`);
  must(existsSync(join(workspace, 'approved.txt')), 'the file is not there');
  const late = await a.call(3, 'message/send', message('cancel'));
  same(late.error?.code, -32602, 'a second answer');
});

await test('5 invalid JSON', async () => {
  const a = await connection();
  a.send('{"jsonrpc": "2.0", ');
  const answer = await a.wait((frame) => frame.error, 'error');
  same([answer.error.code, answer.id], [-32700, null], 'code and id');
  same((await a.call(1, 'tasks/get', { id: 'none' })).error.code, -32001, 'it goes on');
});

await test('6 binary', async () => {
  const a = await connection();
  a.socket.send(Buffer.from('{"jsonrpc":"2.0","id":1,"method":"tasks/get"}'));
  same(await a.closed, 1003, 'the code');
});

await test('7 a frame over 4 MiB', async () => {
  const a = await connection();
  a.send(JSON.stringify('x'.repeat(5 << 20)));
  same(await a.closed, 1009, 'the code');
});

await test('8 flat', async () => {
  const [a, flat] = [await connection(), await connection('?format=flat')];
  a.send({ id: 1, method: 'message/stream', params: prompt('say hello') });
  await a.wait((frame) => frame.id === 1 && frame.streamEnd, 'streamEnd');
  const of = (kind) => flat.frames.filter((frame) => frame.kind === kind);
  const text = () => of('TEXT_CONTENT').map((frame) => frame.content.text).join('');
  await flat.wait(() => text() === 'Hello there.', 'text in full');
  same(of('THOUGHT')[0]?.thought.subject, 'Greeting', 'the thought');
  must(of('TEXT_CONTENT').every((frame) => frame.taskId), 'taskId');

  // The forms that clients of an early implementation send: no id, so no response.
  const { taskId } = of('TEXT_CONTENT')[0];
  const tell = (content) =>
    flat.send({ method: 'message/stream', params: { taskId, message: { content } } });
  tell({ text: 'write and edit' });
  const call = await flat.wait((frame) => frame.confirmation_request, 'question');
  same([call.kind, call.status], ['TOOL_CALL_UPDATE', 'PENDING'], 'the question');
  must(call.confirmation_request.options.length >= 2, 'options');
  must(call.confirmation_request.details.file_edit_details, 'details.file_edit_details');
  must(call.metadata.correlationId, 'metadata.correlationId');
  const { tool_call_id } = call;
  tell({ data: { kind: 'TOOL_CALL_CONFIRMATION', tool_call_id, selected_option_id: 'proceed_once' } });
  await flat.wait((frame) => frame.status === 'SUCCEEDED', 'SUCCEEDED');
  must(existsSync(join(workspace, 'edited.txt')), 'the file is not there');
  must(flat.frames.every((frame) => !('jsonrpc' in frame)), 'a frame that is not flat');
});

finish();
