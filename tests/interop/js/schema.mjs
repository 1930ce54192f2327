// Validates recorded lines of ACP 1 against the schema that the SDK is published with: node schema.mjs DIRECTORY.
// Each line has to be a message of the protocol, and its content that of its method. With --agent, only lines of
// the agent are: tests send bad ones. Records of the other dialect are passed over.
import { readFileSync, readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import Ajv from 'ajv/dist/2020.js';
import { check, finish, must } from './check.mjs';

const schema = createRequire(import.meta.url)('@agentclientprotocol/sdk/schema/v1/schema.json');
// The formats are of numbers (uint16, int64): their bounds are in the schema, too.
const ajv = new Ajv({ strict: false, validateFormats: false }).addSchema(schema, 'acp');

const types = { params: new Map(), result: new Map() };
for (const [name, type] of Object.entries(schema.$defs)) {
  const half = name.endsWith('Response') ? 'result' : 'params';
  if (type['x-method']) types[half].set(type['x-method'], `acp#/$defs/${name}`);
}

// What a value has that its type doesn't allow, or nothing.
const invalid = (type, value) => ajv.validate(type, value) ? '' : `${type}: ${ajv.errorsText()}`.slice(0, 300);

// What is wrong with a line, or nothing. `asked`: methods of the requests that the other side has sent, by id.
function fault(line, asked) {
  const { id, method, params, result, error } = line;
  const whole = invalid('acp', line);
  if (whole) return whole;
  if (error) return invalid('acp#/$defs/Error', error);
  const half = method ? 'params' : 'result';
  const type = types[half].get(method ?? asked.get(id));
  // A method of an extension, or one that the protocol had once, has no type.
  return type ? invalid(type, method ? params : result) : !method && !asked.has(id) && 'nobody has asked';
}

// The messages of a record, without a last line that a kill has cut off and lines that are no JSON.
const read = (record) =>
  readFileSync(record, 'utf8').split('\n').slice(0, -1).map((line) => JSON.parse(line)).filter(({ msg }) => msg);

const [directory, only] = process.argv.slice(2);
const isChecked = (dir) => dir === 'a2c' || only !== '--agent';
const isThisDialect = (lines) => lines.some(({ dir, msg }) => dir === 'a2c' && msg.result?.protocolVersion === 1);
const other = { c2a: 'a2c', a2c: 'c2a' };

const wrong = [];
let [programs, count] = [0, 0];
for (const name of readdirSync(directory).sort()) {
  const lines = read(join(directory, name));
  if (!isThisDialect(lines)) continue;
  programs += 1;
  const asked = { c2a: new Map(), a2c: new Map() };
  for (const { dir, msg } of lines) {
    if (msg.method && 'id' in msg) asked[dir].set(msg.id, msg.method);
    if (!isChecked(dir)) continue;
    count += 1;
    const why = fault(msg, asked[other[dir]]);
    if (why) wrong.push(`${name}: ${why}: ${JSON.stringify(msg).slice(0, 300)}`);
  }
}
await check(`schema: ${count} lines of ${programs} programs`, async () => {
  must(count > 0, 'nothing was recorded');
  must(!wrong.length, `${wrong.length} are wrong\n${wrong.join('\n')}`);
});
finish();
