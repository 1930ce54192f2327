// The vendors' own SDKs for JavaScript hold a conversation with the stand-ins for their APIs, and are refused by them.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';

import Anthropic from '@anthropic-ai/sdk';
import { ApiError, GoogleGenAI } from '@google/genai';
import OpenAI from 'openai';

import { check, finish, must, same } from './check.mjs';

const KEY = 'TestKey0123456789';
// The conversation that each stand-in has the answers of.
const PROMPT = 'what is there?';
const SAID = 'Looking.';
const LAST = 'All is well.';
const CALLS = [['glob', { pattern: 'a' }], ['glob', {}]];
const PARAMETERS = { type: 'object', properties: { pattern: { type: 'string' } } };

// The program that serves the stand-ins; each conversation has one of its own.
const served = spawn(process.env.TANDEM_STAND_INS, { stdio: ['pipe', 'pipe', 'inherit'] });
const lines = createInterface({ input: served.stdout });

async function address(api) {
  const answered = once(lines, 'line');
  served.stdin.write(`${api}\n`);
  return (await answered)[0];
}

// Checks that a request fails with an error of the SDK that has these members.
async function refused(kind, request, expected) {
  const error = await request.then(() => undefined, (error) => error);
  must(error instanceof kind, `no ${kind.name}, but ${error}`);
  for (const [name, value] of Object.entries(expected)) same(error[name], value, `${name} of ${error}`);
  return error;
}

const openai = (url) => new OpenAI({ baseURL: `${url}/v1`, apiKey: KEY, maxRetries: 0 });

function chat(url) {
  const client = openai(url);
  const tools = [{ type: 'function', function: { name: 'glob', parameters: PARAMETERS } }];

  async function ask(messages, more = {}) {
    const options = { stream_options: { include_usage: true }, tools, ...more };
    const stream = client.chat.completions.stream({ model: 'gpt-4.1', messages, ...options });
    let text = '';
    stream.on('content', (delta) => (text += delta));
    const { choices, usage } = await stream.finalChatCompletion();
    same(text, choices[0].message.content, 'the text in pieces');
    return { message: choices[0].message, usage: [usage.prompt_tokens, usage.completion_tokens] };
  }

  async function step() {
    const messages = [{ role: 'user', content: PROMPT }];
    const { message, usage } = await ask(messages);
    same(message.content, SAID, 'text');
    const calls = message.tool_calls.map(({ id, function: { name, arguments: text } }) => ({
      id, type: 'function', function: { name, arguments: text },
    }));
    same(calls.map((call) => [call.function.name, JSON.parse(call.function.arguments)]), CALLS, 'calls');
    same(usage, [20, 10], 'usage');
    return [...messages, { role: 'assistant', content: message.content, tool_calls: calls }];
  }

  async function talk() {
    const messages = await step();
    const results = messages[1].tool_calls.map(({ id }) => ({ role: 'tool', tool_call_id: id, content: 'ran' }));
    const { message, usage } = await ask([...messages, ...results]);
    same(message.content, LAST, 'text');
    same(usage, [30, 5], 'usage');
  }

  async function fail() {
    const messages = await step();
    const other = { role: 'tool', tool_call_id: 'other', content: 'ran' };
    const param = 'messages.[2].tool_call_id';
    await refused(OpenAI.BadRequestError, ask([...messages, other]), { status: 400, param });
    await refused(OpenAI.BadRequestError, ask(messages), { param: 'messages.[2].role' });
    const unknown = { code: 'unknown_parameter', param: 'max_output_tokens' };
    await refused(OpenAI.BadRequestError, ask(messages.slice(0, 1), { max_output_tokens: 5 }), unknown);
  }

  return { talk, fail };
}

function responses(url) {
  const client = openai(url);
  const tools = [{ type: 'function', name: 'glob', parameters: PARAMETERS, strict: false }];
  const more = { store: false, include: ['reasoning.encrypted_content'], reasoning: { effort: 'low' }, tools };

  async function ask(input, other = {}) {
    const stream = client.responses.stream({ model: 'gpt-6-sol', input, ...more, ...other });
    const numbers = [];
    let text = '';
    stream.on('event', (event) => numbers.push(event.sequence_number));
    stream.on('response.output_text.delta', (event) => (text += event.delta));
    const response = await stream.finalResponse();
    same(text, response.output_text, 'the text in pieces');
    same(numbers, numbers.map((_, n) => n), 'numbers of events');
    return { response, usage: [response.usage.input_tokens, response.usage.output_tokens] };
  }

  // The fields that the SDK itself adds are not the API's.
  const sent = (item) => {
    const { parsed_arguments, ...rest } = item;
    if (!Array.isArray(rest.content)) return rest;
    return { ...rest, content: rest.content.map(({ parsed, ...part }) => part) };
  };

  async function step() {
    const input = [{ type: 'message', role: 'user', content: PROMPT }];
    const { response, usage } = await ask(input);
    same(response.output.map((item) => item.type), ['reasoning', 'message', 'function_call', 'function_call'], 'items');
    const calls = response.output.slice(2);
    same(calls.map((call) => [call.name, JSON.parse(call.arguments)]), CALLS, 'calls');
    same(response.output_text, SAID, 'text');
    same(usage, [20, 10], 'usage');
    return [...input, ...response.output.map(sent)];
  }

  const results = (items) => items.filter((item) => item.type === 'function_call')
    .map(({ call_id }) => ({ type: 'function_call_output', call_id, output: 'ran' }));

  async function talk() {
    const items = await step();
    const { response, usage } = await ask([...items, ...results(items)]);
    same(response.output_text, LAST, 'text');
    same(usage, [30, 5], 'usage');
  }

  async function fail() {
    const items = await step();
    const [prompt, thought, said, ...calls] = items;
    const other = { type: 'function_call_output', call_id: 'other', output: 'ran' };
    const bad = (input, expected, more) => refused(OpenAI.BadRequestError, ask(input, more), expected);
    await bad([...items, ...results(items), other], { status: 400, type: 'invalid_request_error', param: 'input' });
    const wrong = { ...thought, encrypted_content: 'other' };
    await bad([prompt, wrong, said, ...calls, ...results(items)], { code: 'invalid_encrypted_content' });
    const { summary, ...without } = thought;
    const missing = { code: 'missing_required_parameter', param: 'input[1].summary' };
    await bad([prompt, without, said, ...calls, ...results(items)], missing);
    await refused(OpenAI.NotFoundError, ask([prompt, { ...said, id: 'msg_other' }]), { status: 404 });
    await bad([prompt], { code: 'unknown_parameter', param: 'max_tokens' }, { max_tokens: 5 });
    await bad([prompt], { param: 'reasoning.effort' }, { reasoning: { effort: 'loud' } });
  }

  return { talk, fail };
}

function anthropic(url) {
  const client = new Anthropic({ baseURL: url, apiKey: KEY, maxRetries: 0 });
  const tools = [{ name: 'glob', description: 'Finds files.', input_schema: PARAMETERS }];
  const options = { model: 'claude-opus-5-5', max_tokens: 2000, thinking: { type: 'adaptive' }, tools };

  async function ask(messages, more = {}) {
    const stream = client.messages.stream({ messages, ...options, ...more });
    let text = '';
    stream.on('text', (delta) => (text += delta));
    const message = await stream.finalMessage();
    return { message, text, usage: [message.usage.input_tokens, message.usage.output_tokens] };
  }

  async function step() {
    const messages = [{ role: 'user', content: PROMPT }];
    const { message, text, usage } = await ask(messages);
    same(text, SAID, 'text');
    same(message.content.map((block) => block.type), ['thinking', 'text', 'tool_use', 'tool_use'], 'blocks');
    same(message.content.slice(2).map(({ name, input }) => [name, input]), CALLS, 'calls');
    same(message.stop_reason, 'tool_use', 'stop_reason');
    same(usage, [20, 10], 'usage');
    return [...messages, { role: 'assistant', content: message.content }];
  }

  const results = ([, { content }]) => ({
    role: 'user',
    content: content.filter((block) => block.type === 'tool_use')
      .map(({ id }) => ({ type: 'tool_result', tool_use_id: id, content: 'ran' })),
  });

  async function talk() {
    const messages = await step();
    const { text, usage } = await ask([...messages, results(messages)]);
    same(text, LAST, 'text');
    same(usage, [30, 5], 'usage');
  }

  async function fail() {
    const messages = await step();
    const [prompt, { content }] = messages;
    const bad = async (words, messages, more) => {
      const error = await refused(Anthropic.BadRequestError, ask(messages, more), { status: 400 });
      same(error.error.error.type, 'invalid_request_error', 'type');
      must(error.error.error.message.includes(words), `${words}: ${error}`);
    };
    const other = { type: 'tool_result', tool_use_id: 'other', content: 'ran' };
    const both = { role: 'user', content: [...results(messages).content, other] };
    await bad('unexpected `tool_use_id`', [...messages, both]);
    await bad('were found without `tool_result`', messages);
    const wrong = [{ ...content[0], thinking: 'I must not look' }, ...content.slice(1)];
    const answer = { role: 'assistant', content: wrong };
    await bad('Invalid `signature` in `thinking` block', [prompt, answer, results(messages)]);
    await bad('`temperature` is deprecated for this model', [prompt], { temperature: 1 });
    const thinking = { type: 'enabled', budget_tokens: 1024 };
    await bad('"thinking.type.enabled" is not supported', [prompt], { thinking });
    await bad('Extra inputs are not permitted', [prompt], { reasoning: {} });
  }

  return { talk, fail };
}

function gemini(url) {
  const client = new GoogleGenAI({ apiKey: KEY, httpOptions: { baseUrl: url } });
  const config = {
    systemInstruction: 'Be brief.',
    tools: [{ functionDeclarations: [{ name: 'glob', parametersJsonSchema: PARAMETERS }] }],
    thinkingConfig: { includeThoughts: true, thinkingLevel: 'LOW' },
  };

  async function ask(contents, more = {}) {
    const request = { model: 'gemini-3.8-flash', contents, config: { ...config, ...more } };
    const chunks = [];
    for await (const chunk of await client.models.generateContentStream(request)) chunks.push(chunk);
    const { candidates, usageMetadata } = chunks.at(-1);
    same(candidates[0].finishReason, 'STOP', 'finishReason');
    const parts = chunks.flatMap((chunk) => chunk.candidates[0].content.parts);
    const text = parts.filter((part) => !part.thought).map((part) => part.text ?? '').join('');
    return { parts, text, usage: [usageMetadata.promptTokenCount, usageMetadata.candidatesTokenCount] };
  }

  async function step() {
    const contents = [{ role: 'user', parts: [{ text: PROMPT }] }];
    const { parts, text, usage } = await ask(contents);
    same(text, SAID, 'text');
    const calls = parts.flatMap(({ functionCall: call }) => (call ? [[call.name, call.args]] : []));
    same(calls, CALLS, 'calls');
    same(usage, [20, 10], 'usage');
    return [...contents, { role: 'model', parts }];
  }

  const results = ([, { parts }]) => ({
    role: 'user',
    parts: parts.filter((part) => part.functionCall).map(({ functionCall: { id, name } }) => ({
      functionResponse: { id, name, response: { output: 'ran' } },
    })),
  });

  async function talk() {
    const contents = await step();
    const { text, usage } = await ask([...contents, results(contents)]);
    same(text, LAST, 'text');
    same(usage, [30, 5], 'usage');
  }

  async function fail() {
    const contents = await step();
    const [prompt, { parts }] = contents;
    const bad = async (words, contents, more) => {
      const error = await refused(ApiError, ask(contents, more), { status: 400 });
      must(error.message.includes(words), `${words}: ${error}`);
    };
    const answers = results(contents);
    const fewer = { role: 'user', parts: answers.parts.slice(1) };
    await bad('number of function response parts', [...contents, fewer]);
    await bad('immediately after a function call turn', [prompt, answers]);
    const signed = (signature) => ({
      role: 'model',
      parts: parts.map(({ thoughtSignature, ...part }) => (thoughtSignature && signature ? { ...part, thoughtSignature: signature } : part)),
    });
    await bad('missing a thought_signature', [prompt, signed(undefined), answers]);
    await bad('signature is not valid', [prompt, signed('b3RoZXI='), answers]);
    await bad('MINIMAL is not supported', [prompt], { thinkingConfig: { thinkingLevel: 'MINIMAL' } });
  }

  return { talk, fail };
}

for (const [name, api] of Object.entries({ chat, responses, anthropic, gemini })) {
  await check(`${name}: a conversation with calls, streamed`, async () => (await api(await address(name))).talk());
  await check(`${name}: what the API refuses is an error of the SDK`, async () => (await api(await address(name))).fail());
}
served.stdin.end();
finish();
