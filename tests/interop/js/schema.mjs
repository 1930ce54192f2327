// Validates recorded lines of ACP 1, both directions, against the schema that the SDK is published with:
// node schema.mjs DIRECTORY. Each line has to be a message of the protocol, and its content that of its method.
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

function valid(type, value, line) {
  const good = ajv.validate(type, value);
  must(good, `${type}: ${ajv.errorsText()}: ${JSON.stringify(line).slice(0, 400)}`);
}

// `asked`: the methods of the other side's open requests, by id.
function validate(line, asked, asking) {
  valid('acp', line, line);
  const { id, method, params, result, error } = line;
  if (method) {
    if (id !== undefined) asking.set(id, method);
    // A method of an extension, or one that the protocol had once, has no type.
    if (types.params.has(method)) valid(types.params.get(method), params, line);
  } else if (error) {
    valid('acp#/$defs/Error', error, line);
  } else {
    const answered = asked.get(id);
    must(answered, `the answer to nothing: ${JSON.stringify(line)}`);
    if (types.result.has(answered)) valid(types.result.get(answered), result, line);
  }
}

const directory = process.argv[2];
const records = readdirSync(directory).map((name) => join(directory, name));
const lines = records.map((record) =>
  readFileSync(record, 'utf8').trim().split('\n').map((line) => JSON.parse(line)),
);

await check(`schema: ${lines.flat().length} lines of ${records.length} programs`, async () => {
  must(lines.flat().length, 'nothing was recorded');
  for (const recorded of lines) {
    const asked = { c2a: new Map(), a2c: new Map() };
    for (const { dir, msg } of recorded) {
      validate(msg, asked[dir === 'c2a' ? 'a2c' : 'c2a'], asked[dir]);
    }
  }
});
finish();
