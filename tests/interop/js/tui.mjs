// One session, a person in a terminal and an SDK client: node tui.mjs sdk03|sdk10, the server at
// $TANDEM_URL, the terminal in the tmux server $TANDEM_TMUX. What success means for `--a2a-port`.
import { execFile, execFileSync } from 'node:child_process';
import { promisify } from 'node:util';
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import WebSocket from 'ws';
import { URI, base, check, finish, must, same, sleep, workspace } from './check.mjs';

const { connect } = await import(`./${process.argv[2]}.mjs`);
const client = await connect(base);
const file = (name) => join(workspace, name);

// Longer than a question waits until keys answer it.
const READ = 700;

// What is said to an answer that comes too late. In 1.0 the task may have ended by then.
const TOO_LATE = /already answered by the terminal|task .* has ended/;

// The terminal.
const tmux = (...args) =>
  execFileSync('tmux', ['-L', process.env.TANDEM_TMUX, ...args], { encoding: 'utf8' });
const screen = () => tmux('capture-pane', '-p', '-S', '-');
const type = (text) => tmux('send-keys', '-l', text);
// Does not wait until it is typed.
const beginToType = (text) =>
  promisify(execFile)('tmux', ['-L', process.env.TANDEM_TMUX, 'send-keys', '-l', text]);
let begun = false;
const enter = (text) => {
  begun = true;
  type(text);
  tmux('send-keys', 'Enter');
};
async function shown(text, after = 0) {
  for (let n = 0; n < 200; n += 1) {
    const seen = screen();
    if (seen.split(text).length - 1 > after) return seen;
    await sleep(50);
  }
  throw new Error(`${JSON.stringify(text)} is not shown:\n${screen().trim().slice(-900)}`);
}
const times = (text) => screen().split(text).length - 1;

// A WebSocket that is told of everything.
const events = [];
const socket = new WebSocket(`${base.replace('http', 'ws')}/ws`);
socket.on('message', (data) => {
  const frame = JSON.parse(data.toString());
  if (frame.method === 'tasks/event') events.push(frame.params);
});
await new Promise((done, failed) => socket.on('open', done).on('error', failed));
async function told(test, what) {
  for (let n = 0; n < 200; n += 1) {
    const found = events.find(test);
    if (found) return found;
    await sleep(50);
  }
  throw new Error(`no ${what}; the last: ${JSON.stringify(events.slice(-3)).slice(0, 500)}`);
}
const data = (event) => event.status?.message?.parts?.[0]?.data;
const pending = (event) => data(event)?.status === 'PENDING';
const ended = (event) => event.final && event.status.state !== 'input-required';
const text = (list) =>
  list
    .filter((event) => event.metadata?.coderAgent?.kind === 'text-content')
    .filter((event) => event.status.message.role === 'agent')
    .map((event) => event.status.message.parts[0].text)
    .join('');
const statuses = (id) =>
  events
    .filter((event) => data(event)?.tool_call_id === id)
    .map((event) => data(event).status)
    .filter((status, n, list) => status !== list[n - 1]);

// The SDK.
const prompt = (words) => {
  begun = true;
  return client.send({ parts: [{ text: words }] });
};
async function all(stream) {
  const list = [];
  for await (const event of stream) list.push(event);
  return list;
}
const said = (list) =>
  list
    .filter((event) => event.metadata[URI]?.kind === 'TEXT_CONTENT' && event.role === 'agent')
    .flatMap((event) => event.parts.map((part) => part.text ?? ''))
    .join('');
// In 1.0 the task of the running turn is another one than in 0.3, which the broadcasts name.
async function task(event) {
  if (client.version === '0.3') return { taskId: event.taskId, contextId: event.contextId };
  const { contextId } = event;
  return { taskId: await client.latest(contextId), contextId };
}
async function answer(event, option) {
  const call = { tool_call_id: data(event).tool_call_id, selected_option_id: option };
  return all(client.send({ parts: [{ data: call }], ...(await task(event)) }));
}
// Not before the socket has been told of the end: what it is told later would be of the next turn.
async function fresh() {
  if (begun) await told(ended, 'end of the turn before');
  begun = false;
  events.splice(0);
}

await check('1 the port', async () => {
  must((await client.card()).capabilities.streaming, 'the card');
  const port = new URL(base).port;
  await shown(`A2A http://127.0.0.1:${port}/ (1 connection)`);
});

await check('2 prompted there, shown here', async () => {
  const list = await all(prompt('say hello'));
  same(said(list), 'Hello there.', 'what the client is told');
  const seen = await shown('Hello there.');
  must(seen.includes('› [A2A] say hello'), 'the prompt is not shown');
  must(seen.includes('thought: Greeting'), 'the thought is not shown');
});

await check('3 typed here, seen there', async () => {
  await fresh();
  enter('say hello');
  await told(ended, 'end of the turn');
  same(text(events), 'Hello there.', 'what is broadcast');
  const mine = events.find((event) => event.status?.message?.role === 'user');
  same(mine.status.message.parts[0].text, 'say hello', 'what was typed');
  same(mine.metadata.source, 'terminal', 'where');
  // And by the SDK alone: it follows a turn that it has not begun.
  await fresh();
  enter('count slowly');
  const running = await told((event) => event.metadata?.coderAgent?.kind === 'text-content'
    && event.status.message.role === 'agent', 'text');
  const list = await all(client.resubscribe((await task(running)).taskId));
  must(said(list).endsWith('d4 end.'), `what the client is told: ${said(list)}`);
});

await check('4 asked here, answered there', async () => {
  await fresh();
  enter('write the file');
  await shown('Allow this?');
  const asked = await told(pending, 'question');
  must(data(asked).confirmation_request.file_edit_details, 'the details');
  must(!existsSync(file('approved.txt')), 'the file is there already');
  await answer(asked, 'proceed_once');
  const seen = await shown('The file is written.');
  must(/✓ Write approved\.txt +\+1 -0 new file · allowed by A2A client \d+/.test(seen), 'who has answered');
  must(!seen.includes('Allow this?'), 'the question is still open');
  same(readFileSync(file('approved.txt'), 'utf8'), 'from the model\n', 'the file');
});

await check('5 asked there, answered here', async () => {
  await fresh();
  const list = await all(prompt('write and reject'));
  must(list.some((event) => event.parts[0]?.data?.status === 'PENDING'), 'the question');
  await shown('Allow this?');
  const asked = await told(pending, 'question');
  await sleep(READ);
  type('n');
  await shown('Then I leave it.');
  await told(ended, 'end of the turn');
  same(statuses(data(asked).tool_call_id), ['PENDING', 'CANCELLED'], 'the statuses');
  const late = await answer(asked, 'proceed_once').then(() => null, (error) => error);
  must(TOO_LATE.test(late?.message), `a late answer: ${late}`);
  must(!existsSync(file('rejected.txt')), 'the file is there');
});

await check('6 both at once', async () => {
  for (let round = 0; round < 9; round += 1) {
    await fresh();
    rmSync(file('edited.txt'), { force: true });
    const before = times('I see your change.');
    enter('write and edit');
    const asked = await told(pending, 'question');
    await shown('Allow this?');
    await sleep(READ);
    // The person says yes, the client no: in turns the one first, the other, and both at once.
    const no = () => answer(asked, 'cancel').then(() => null, (error) => error);
    if (round % 3 === 0) type('y');
    const [refused] = await Promise.all([no(), round % 3 === 2 && beginToType('y')]);
    if (round % 3 === 1) same(refused, null, 'the first is refused');
    await shown('I see your change.', before);
    await told(ended, 'end of the turn');
    const here = existsSync(file('edited.txt'));
    same(Boolean(refused), here, 'whether the client was refused, and the file is there');
    if (refused) must(TOO_LATE.test(refused.message), `${refused}`);
    const seen = statuses(data(asked).tool_call_id);
    same(seen[seen.length - 1], here ? 'SUCCEEDED' : 'CANCELLED', 'the last status');
    // A key that came too late is in the line.
    tmux('send-keys', 'C-u');
  }
  must(!screen().includes('Allow this?'), 'a question is still open');
}, 60);

await check('7 left and ended', async () => {
  const closed = new Promise((done) => socket.on('close', done));
  tmux('set-option', '-g', 'remain-on-exit', 'on');
  tmux('send-keys', 'C-d');
  same(await closed, 1001, "the socket's good-bye");
  const dead = async () => fetch(base).then(() => false, () => true);
  must(await dead(), 'somebody still listens');
});

finish();
