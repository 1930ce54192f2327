// What all programs here share: named checks with a time limit, one printed line each.
import { once } from 'node:events';
import { createInterface } from 'node:readline';

export const URI =
  'https://github.com/google-gemini/gemini-cli/blob/main/docs/a2a/developer-profile/v0/spec.md';

export const base = process.env.TANDEM_URL;
export const token = process.env.TANDEM_TOKEN;
export const workspace = process.env.TANDEM_WORKSPACE;
export const nodes = Number(process.env.TANDEM_NODES ?? 1);
const only = process.env.ONLY;

export const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

export function must(condition, why) {
  if (!condition) throw new Error(why);
}

export function same(got, wanted, what) {
  const [a, b] = [JSON.stringify(got), JSON.stringify(wanted)];
  must(a === b, `${what}: got ${a}, not ${b}`);
}

let failed = false;

export async function check(name, body, seconds = 20) {
  if (only && !name.includes(only)) return;
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not done after ${seconds} s`)), seconds * 1000);
  });
  try {
    await Promise.race([body(), late]);
    console.log(`ok ${name}`);
  } catch (error) {
    failed = true;
    const cause = error.cause ? ` (${error.cause.message})` : '';
    console.log(`FAIL ${name}: ${String(error.message ?? error).slice(0, 600)}${cause}`);
    if (process.env.VERBOSE) console.error(error);
  } finally {
    clearTimeout(timer);
  }
}

export function finish() {
  process.exit(failed ? 1 : 0);
}

// Has `run` do something with the server.
export async function order(what) {
  const input = createInterface({ input: process.stdin });
  const answered = once(input, 'line');
  console.log(`order ${what}`);
  const [answer] = await answered;
  input.close();
  same(answer, 'done', what);
}

// Has the server killed and started again at the same address.
export const restart = () => order('restart');

// The header that shows a token, if there is one.
export const authorization = (token) => token && { Authorization: `Bearer ${token}` };

// A factory of an SDK whose clients show a token, if there is one.
export function factory(sdk, token) {
  if (!token) return new sdk.ClientFactory();
  const { ClientFactoryOptions, JsonRpcTransportFactory, createAuthenticatingFetchWithRetry } = sdk;
  const fetchImpl = createAuthenticatingFetchWithRetry(fetch, {
    headers: async () => authorization(token),
    shouldRetryWithHeaders: async () => undefined,
  });
  const transports = [new JsonRpcTransportFactory({ fetchImpl })];
  return new sdk.ClientFactory(
    ClientFactoryOptions.createFrom(ClientFactoryOptions.default, { transports }),
  );
}

// JSON-RPC by hand, for the extension's own methods.
let lastId = 0;
export async function rpc(method, params) {
  const response = await fetch(`${base}/`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', ...authorization(token) },
    body: JSON.stringify({ jsonrpc: '2.0', id: ++lastId, method, params }),
  });
  const answer = await response.json();
  same(answer.id, lastId, `the id of ${method}`);
  must(!answer.error, `${method}: ${JSON.stringify(answer.error)}`);
  return answer.result;
}
