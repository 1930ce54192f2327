// An editor made with an official SDK of ACP 1: node acp.mjs acp24|acp04. Starts the program at $TANDEM itself,
// and has it record all lines in $TANDEM_RECORDS.
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable, Writable } from 'node:stream';
import { check, finish, must, same } from './check.mjs';

const { connect } = await import(`./${process.argv[2]}.mjs`);
const home = realpathSync(mkdtempSync(join(tmpdir(), 'tandem-acp-')));
const workspace = join(home, 'workspace');
mkdirSync(workspace);
const file = (name) => join(workspace, name);

let starts = 0;

// The program and the editor that drives it.
class Editor {
  constructor() {
    const env = { HOME: home, PATH: process.env.PATH };
    const record = join(process.env.TANDEM_RECORDS, `${(starts += 1)}.jsonl`);
    const args = ['--acp', '--record', record, '--model', `replay:${process.env.TANDEM_SCRIPT}`];
    this.process = spawn(process.env.TANDEM, args, { cwd: workspace, env, stdio: ['pipe', 'pipe', 'ignore'] });
    this.ended = new Promise((done) => this.process.on('exit', done));
    this.updates = [];
    this.permit = (request) => choose(request, 'allow_once');
    // The texts that are not saved, by path.
    this.unsaved = new Map();
    this.agent = connect(Writable.toWeb(this.process.stdin), Readable.toWeb(this.process.stdout), {
      permit: async (request) => this.permit(request),
      update: async (params) => {
        this.updates.push(params);
        this.seen?.(params.update);
      },
      read: ({ path }) => {
        if (this.unsaved.has(path)) return { content: this.unsaved.get(path) };
        return existsSync(path) ? { content: readFileSync(path, 'utf8') } : undefined;
      },
      write: ({ path, content }) => {
        this.unsaved.delete(path);
        writeFileSync(path, content);
        this.written = path;
        return {};
      },
    });
  }

  async initialize() {
    const clientCapabilities = { fs: { readTextFile: true, writeTextFile: true }, terminal: false };
    return this.agent.initialize({ protocolVersion: 1, clientCapabilities });
  }

  async session() {
    return this.agent.newSession({ cwd: workspace, mcpServers: [] });
  }

  async prompt(sessionId, text) {
    const from = this.updates.length;
    const prompt = [{ type: 'text', text }];
    const { stopReason } = await this.agent.prompt({ sessionId, prompt });
    const updates = this.updates.slice(from).filter((each) => each.sessionId === sessionId);
    return { stopReason, updates: updates.map((each) => each.update) };
  }

  // The next update of a kind.
  next(kind) {
    return new Promise((done) => {
      this.seen = (update) => update.sessionUpdate === kind && done(update);
    });
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
  editor.permit = (request) => {
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
  editor.permit = (request) => choose(request, 'reject_once');
  const { stopReason, updates } = await editor.prompt(sessionId, 'write and reject');
  same([stopReason, last(states(updates))], ['end_turn', 'failed'], 'the end');
  must(!existsSync(file('rejected.txt')), 'written');
});
await check('6 a command, with its output', async () => {
  editor.permit = (request) => choose(request, 'allow_once');
  const { updates } = await editor.prompt(sessionId, 'run a command');
  const shown = JSON.stringify(last(of(updates, 'tool_call_update')).content);
  must(shown.includes('line3') && existsSync(file('ran.txt')), `output: ${shown}`);
});
await check('7 cancel in the middle of an answer', async () => {
  editor.next('agent_message_chunk').then(() => editor.agent.cancel({ sessionId }));
  same((await editor.prompt(sessionId, 'talk for long')).stopReason, 'cancelled', 'the reason');
  same((await editor.prompt(sessionId, 'say hello')).stopReason, 'end_turn', 'the turn after it');
});
await check('8 modes and options', async () => {
  const planned = editor.next('current_mode_update');
  await editor.agent.setMode({ sessionId, modeId: 'plan' });
  same((await planned).currentModeId, 'plan', 'the mode shown');
  if (editor.agent.setOption) {
    const params = { sessionId, configId: 'mode', value: 'default' };
    const { configOptions } = await editor.agent.setOption(params);
    same(configOptions.find((each) => each.id === 'mode').currentValue, 'default', 'the mode');
  } else {
    await editor.agent.setMode({ sessionId, modeId: 'default' });
  }
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
  if (editor.agent.listSessions) {
    const { sessions } = await editor.agent.listSessions({ cwd: workspace });
    const listed = sessions.find((each) => each.sessionId === sessionId);
    must(listed?.title === 'say hello' && Date.parse(listed.updatedAt), JSON.stringify(sessions));
  }
  await editor.agent.loadSession({ sessionId, cwd: workspace, mcpServers: [] });
  const replayed = editor.updates.map((each) => each.update);
  same(said(replayed), before, 'what was said');
  must(said(replayed, 'user_message_chunk').startsWith('say hello'), 'no prompts');
  same((await editor.prompt(sessionId, 'say hello')).stopReason, 'end_turn', 'the next turn');
});
await check('11 an unknown session is refused', async () => {
  const refused = await editor.prompt('00000000-0000-7000-8000-000000000000', 'go').catch((error) => error);
  same(refused.code, -32002, 'the code');
});
await check('12 what is not saved is read, and an edit is written by the editor', async () => {
  editor.unsaved.set(file('approved.txt'), 'not saved\n');
  let asked;
  editor.permit = (request) => {
    asked = request;
    return choose(request, 'allow_once');
  };
  const { updates } = await editor.prompt(sessionId, 'read and write the file');
  same(asked.toolCall.content[0].oldText, 'not saved\n', 'the text before');
  same(last(states(updates)), 'completed', 'the end');
  same(editor.written, file('approved.txt'), 'who has written');
  same(readFileSync(file('approved.txt'), 'utf8'), 'from the model\n', 'the file');
});
await check('13 the program ends when the editor hangs up', async () => {
  same(await editor.hangUp(), 0, 'the exit code');
});
rmSync(home, { recursive: true, force: true });
finish();
