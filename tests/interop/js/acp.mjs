// An editor made with the official SDK of ACP 1: node acp.mjs. Starts the program at $TANDEM itself.
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable, Writable } from 'node:stream';
import { client, methods, ndJsonStream, PROTOCOL_VERSION } from '@agentclientprotocol/sdk';
import { check, finish, must, same } from './check.mjs';

const home = realpathSync(mkdtempSync(join(tmpdir(), 'tandem-acp-')));
const workspace = join(home, 'workspace');
mkdirSync(workspace);
const file = (name) => join(workspace, name);

// The program and the editor that drives it.
class Editor {
  constructor() {
    const env = { HOME: home, PATH: process.env.PATH };
    const args = ['--acp', '--model', `replay:${process.env.TANDEM_SCRIPT}`];
    this.process = spawn(process.env.TANDEM, args, { cwd: workspace, env, stdio: ['pipe', 'pipe', 'ignore'] });
    this.ended = new Promise((done) => this.process.on('exit', done));
    this.updates = [];
    this.answer = (request) => choose(request, 'allow_once');
    const stream = ndJsonStream(Writable.toWeb(this.process.stdin), Readable.toWeb(this.process.stdout));
    this.connection = client({ name: 'interop' })
      .onRequest(methods.client.session.requestPermission, ({ params }) => this.answer(params))
      .onNotification(methods.client.session.update, ({ params }) => {
        this.updates.push(params);
        this.seen?.(params);
      })
      .connect(stream);
    this.agent = this.connection.agent;
  }

  async initialize() {
    const clientCapabilities = { fs: { readTextFile: false, writeTextFile: false }, terminal: false };
    const params = { protocolVersion: PROTOCOL_VERSION, clientCapabilities };
    return this.agent.request(methods.agent.initialize, params);
  }

  async session() {
    const params = { cwd: workspace, mcpServers: [] };
    return this.agent.request(methods.agent.session.new, params);
  }

  async prompt(sessionId, text) {
    const from = this.updates.length;
    const params = { sessionId, prompt: [{ type: 'text', text }] };
    const { stopReason } = await this.agent.request(methods.agent.session.prompt, params);
    const updates = this.updates.slice(from).filter((each) => each.sessionId === sessionId);
    return { stopReason, updates: updates.map((each) => each.update) };
  }

  async hangUp() {
    this.process.stdin.end();
    return this.ended;
  }
}

const choose = (request, kind) => {
  const option = request.options.find((each) => each.kind === kind);
  must(option, `no ${kind} in ${JSON.stringify(request.options)}`);
  return { outcome: { outcome: 'selected', optionId: option.optionId } };
};
const of = (updates, kind) => updates.filter((each) => each.sessionUpdate === kind);
const said = (updates, kind = 'agent_message_chunk') =>
  of(updates, kind).map((each) => each.content.text).join('');
const states = (updates) => of(updates, 'tool_call_update').map((each) => each.status).filter(Boolean);
const last = (list) => list[list.length - 1];

let editor = new Editor();
let sessionId;

await check('1 initialize', async () => {
  const answer = await editor.initialize();
  same(answer.protocolVersion, 1, 'the version');
  same(answer.agentCapabilities.loadSession, true, 'loadSession');
  must(answer.authMethods.length > 0, 'no way to log in');
});
await check('2 a new session', async () => {
  const session = await editor.session();
  sessionId = session.sessionId;
  must(session.modes.availableModes.some((mode) => mode.id === session.modes.currentModeId), 'no mode');
  const options = session.configOptions.map((option) => option.id);
  must(options.includes('mode') && options.includes('model'), `options: ${options}`);
});
await check('3 say', async () => {
  const { stopReason, updates } = await editor.prompt(sessionId, 'say hello');
  same([stopReason, said(updates)], ['end_turn', 'Hello there.'], 'the answer');
  must(said(updates, 'agent_thought_chunk').includes('be polite'), 'no thought');
  const ids = new Set(of(updates, 'agent_message_chunk').map((each) => each.messageId));
  same(ids.size, 1, 'ids of one message');
});
await check('4 an edit that is allowed', async () => {
  let asked;
  editor.answer = (request) => {
    asked = request;
    must(!existsSync(file('approved.txt')), 'written before the answer');
    return choose(request, 'allow_once');
  };
  const { updates } = await editor.prompt(sessionId, 'write the file');
  same(asked.toolCall.content[0].newText, 'from the model\n', 'the diff');
  same(asked.toolCall.locations[0].path, file('approved.txt'), 'the place');
  same(last(states(updates)), 'completed', 'the end');
  same(readFileSync(file('approved.txt'), 'utf8'), 'from the model\n', 'the file');
});
await check('5 an edit that is rejected', async () => {
  editor.answer = (request) => choose(request, 'reject_once');
  const { stopReason, updates } = await editor.prompt(sessionId, 'write and reject');
  same([stopReason, last(states(updates))], ['end_turn', 'failed'], 'the end');
  must(!existsSync(file('rejected.txt')), 'written');
});
await check('6 a command, with its output', async () => {
  editor.answer = (request) => choose(request, 'allow_once');
  const { updates } = await editor.prompt(sessionId, 'run a command');
  const shown = JSON.stringify(last(of(updates, 'tool_call_update')).content);
  must(shown.includes('line3') && existsSync(file('ran.txt')), `output: ${shown}`);
});
await check('7 cancel in the middle of an answer', async () => {
  editor.seen = ({ update }) => {
    if (update.sessionUpdate !== 'agent_message_chunk') return;
    editor.seen = undefined;
    editor.agent.notify(methods.agent.session.cancel, { sessionId });
  };
  same((await editor.prompt(sessionId, 'talk for long')).stopReason, 'cancelled', 'the reason');
  same((await editor.prompt(sessionId, 'say hello')).stopReason, 'end_turn', 'the turn after it');
});
await check('8 options', async () => {
  const params = { sessionId, configId: 'mode', value: 'plan' };
  const { configOptions } = await editor.agent.request(methods.agent.session.setConfigOption, params);
  same(configOptions.find((each) => each.id === 'mode').currentValue, 'plan', 'the mode');
  const back = { sessionId, modeId: 'default' };
  await editor.agent.request(methods.agent.session.setMode, back);
});
await check('9 two sessions at once', async () => {
  const other = (await editor.session()).sessionId;
  const [one, two] = await Promise.all([
    editor.prompt(sessionId, 'count slowly'),
    editor.prompt(other, 'say hello'),
  ]);
  must(said(one.updates).endsWith('end.'), `one: ${said(one.updates)}`);
  same(said(two.updates), 'Hello there.', 'two');
});
await check('10 after a kill: listed, and loaded with all that was said', async () => {
  const before = said(editor.updates.filter((each) => each.sessionId === sessionId).map((each) => each.update));
  editor.process.kill('SIGKILL');
  await editor.ended;
  editor = new Editor();
  await editor.initialize();
  const { sessions } = await editor.agent.request(methods.agent.session.list, { cwd: workspace });
  const listed = sessions.find((each) => each.sessionId === sessionId);
  must(listed?.title === 'say hello' && Date.parse(listed.updatedAt), JSON.stringify(sessions));
  const params = { sessionId, cwd: workspace, mcpServers: [] };
  await editor.agent.request(methods.agent.session.load, params);
  const replayed = editor.updates.map((each) => each.update);
  same(said(replayed), before, 'what was said');
  must(said(replayed, 'user_message_chunk').startsWith('say hello'), 'no prompts');
  same((await editor.prompt(sessionId, 'say hello')).stopReason, 'end_turn', 'the next turn');
});
await check('11 an unknown session is refused', async () => {
  const refused = await editor.prompt('00000000-0000-7000-8000-000000000000', 'go').catch((error) => error);
  same(refused.code, -32002, 'the code');
});
await check('12 the program ends when the editor hangs up', async () => {
  same(await editor.hangUp(), 0, 'the exit code');
});
rmSync(home, { recursive: true, force: true });
finish();
