"""The vendors' own SDKs for Python hold a conversation with the stand-ins for their APIs, and are refused by them."""

import asyncio
import json

import anthropic
import openai
from google import genai
from google.genai import errors, types

from check import check, finish, must, same
from stand_ins import CALLS, LAST, PARAMETERS, PROMPT, SAID, refused, stand_ins

KEY = 'TestKey0123456789'


class Chat:
    """Chat completions by `openai`."""

    model = 'gpt-4.1'
    tools = [{'type': 'function', 'function': {'name': 'glob', 'parameters': PARAMETERS}}]

    def __init__(self, address):
        self.client = openai.AsyncOpenAI(base_url=f'{address}/v1', api_key=KEY, max_retries=0)

    async def ask(self, messages, **more):
        """Returns the message and the usage of a streamed answer."""
        options = {'stream_options': {'include_usage': True}, 'tools': self.tools, **more}
        stream = self.client.chat.completions.stream(model=self.model, messages=messages, **options)
        async with stream as events:
            deltas = [event.delta async for event in events if event.type == 'content.delta']
            completion = await events.get_final_completion()
        message = completion.choices[0].message
        same(''.join(deltas), message.content, 'the text in pieces')
        return message, completion.usage

    async def step(self):
        """Returns the first answer, and the messages up to it."""
        messages = [{'role': 'user', 'content': PROMPT}]
        message, usage = await self.ask(messages)
        same(message.content, SAID, 'text')
        calls = [(call.function.name, json.loads(call.function.arguments)) for call in message.tool_calls]
        same(calls, CALLS, 'calls')
        same((usage.prompt_tokens, usage.completion_tokens), (20, 10), 'usage')
        calls = [
            {'id': call.id, 'type': 'function',
             'function': {'name': call.function.name, 'arguments': call.function.arguments}}
            for call in message.tool_calls
        ]
        return [*messages, {'role': 'assistant', 'content': message.content, 'tool_calls': calls}]

    async def talk(self):
        messages = await self.step()
        for call in messages[-1]['tool_calls']:
            messages.append({'role': 'tool', 'tool_call_id': call['id'], 'content': 'ran'})
        message, usage = await self.ask(messages)
        same(message.content, LAST, 'text')
        same((usage.prompt_tokens, usage.completion_tokens), (30, 5), 'usage')

    async def fail(self):
        messages = await self.step()
        other = {'role': 'tool', 'tool_call_id': 'other', 'content': 'ran'}
        await refused(
            openai.BadRequestError, self.ask([*messages, other]),
            status_code=400, type='invalid_request_error', param='messages.[2].tool_call_id',
        )
        await refused(
            openai.BadRequestError, self.ask(messages), param='messages.[2].role',
        )
        await refused(
            openai.BadRequestError, self.ask(messages[:1], extra_body={'max_output_tokens': 5}),
            code='unknown_parameter', param='max_output_tokens',
        )
        without_key = self.ask(messages[:1], extra_headers={'Authorization': openai.Omit()})
        await refused(openai.AuthenticationError, without_key, status_code=401)


class Responses:
    """The Responses API by `openai`."""

    model = 'gpt-6-sol'
    tools = [{'type': 'function', 'name': 'glob', 'parameters': PARAMETERS, 'strict': False}]
    options = {'store': False, 'include': ['reasoning.encrypted_content'], 'reasoning': {'effort': 'low'}}

    def __init__(self, address):
        self.client = openai.AsyncOpenAI(base_url=f'{address}/v1', api_key=KEY, max_retries=0)

    async def ask(self, items, **more):
        """Returns a streamed response."""
        options = {'tools': self.tools, **self.options, **more}
        stream = self.client.responses.stream(model=self.model, input=items, **options)
        async with stream as events:
            seen = [event async for event in events]
            response = await events.get_final_response()
        deltas = [event.delta for event in seen if event.type == 'response.output_text.delta']
        same(''.join(deltas), response.output_text, 'the text in pieces')
        same([event.sequence_number for event in seen], list(range(len(seen))), 'numbers of events')
        return response

    async def step(self):
        """Returns the items up to the first answer's end."""
        items = [{'type': 'message', 'role': 'user', 'content': PROMPT}]
        response = await self.ask(items)
        kinds = [item.type for item in response.output]
        same(kinds, ['reasoning', 'message', 'function_call', 'function_call'], 'items')
        calls = [item for item in response.output if item.type == 'function_call']
        same([(call.name, json.loads(call.arguments)) for call in calls], CALLS, 'calls')
        same(response.output_text, SAID, 'text')
        same((response.usage.input_tokens, response.usage.output_tokens), (20, 10), 'usage')
        return [*items, *response.output]

    @staticmethod
    def results(items):
        calls = [item for item in items[1:] if item.type == 'function_call']
        return [{'type': 'function_call_output', 'call_id': call.call_id, 'output': 'ran'} for call in calls]

    async def talk(self):
        items = await self.step()
        response = await self.ask([*items, *self.results(items)])
        same(response.output_text, LAST, 'text')
        same((response.usage.input_tokens, response.usage.output_tokens), (30, 5), 'usage')

    async def fail(self):
        items = await self.step()
        results = self.results(items)
        other = {'type': 'function_call_output', 'call_id': 'other', 'output': 'ran'}
        await refused(
            openai.BadRequestError, self.ask([*items, *results, other]),
            status_code=400, type='invalid_request_error', param='input',
        )
        wrong = items[1].model_copy(update={'encrypted_content': 'other'})
        await refused(
            openai.BadRequestError, self.ask([items[0], wrong, *items[2:], *results]),
            code='invalid_encrypted_content',
        )
        without = items[1].to_dict()
        del without['summary']
        await refused(
            openai.BadRequestError, self.ask([items[0], without, *items[2:], *results]),
            code='missing_required_parameter', param='input[1].summary',
        )
        unknown = items[2].model_copy(update={'id': 'msg_other'})
        await refused(openai.NotFoundError, self.ask([items[0], unknown]), status_code=404)
        await refused(
            openai.BadRequestError, self.ask(items[:1], extra_body={'max_tokens': 5}),
            code='unknown_parameter', param='max_tokens',
        )
        await refused(
            openai.BadRequestError, self.ask(items[:1], reasoning={'effort': 'loud'}),
            code='unsupported_value', param='reasoning.effort',
        )


class Messages:
    """The Messages API by `anthropic`."""

    tools = [{'name': 'glob', 'description': 'Finds files.', 'input_schema': PARAMETERS}]
    options = {'model': 'claude-opus-5-5', 'max_tokens': 2000, 'thinking': {'type': 'adaptive'}}

    def __init__(self, address):
        self.client = anthropic.AsyncAnthropic(base_url=address, api_key=KEY, max_retries=0)

    async def ask(self, messages, **more):
        """Returns a streamed message, and its text."""
        options = {'tools': self.tools, **self.options, **more}
        async with self.client.messages.stream(messages=messages, **options) as stream:
            texts = [text async for text in stream.text_stream]
            message = await stream.get_final_message()
        return message, ''.join(texts)

    async def step(self):
        """Returns the messages up to the first answer."""
        messages = [{'role': 'user', 'content': PROMPT}]
        message, text = await self.ask(messages)
        same(text, SAID, 'text')
        same([block.type for block in message.content], ['thinking', 'text', 'tool_use', 'tool_use'], 'blocks')
        same([(block.name, block.input) for block in message.content[2:]], CALLS, 'calls')
        same(message.stop_reason, 'tool_use', 'stop_reason')
        same((message.usage.input_tokens, message.usage.output_tokens), (20, 10), 'usage')
        return [*messages, {'role': 'assistant', 'content': message.content}]

    @staticmethod
    def results(messages):
        calls = [block for block in messages[1]['content'] if block.type == 'tool_use']
        results = [{'type': 'tool_result', 'tool_use_id': call.id, 'content': 'ran'} for call in calls]
        return {'role': 'user', 'content': results}

    async def talk(self):
        messages = await self.step()
        message, text = await self.ask([*messages, self.results(messages)])
        same(text, LAST, 'text')
        same(message.stop_reason, 'end_turn', 'stop_reason')
        same((message.usage.input_tokens, message.usage.output_tokens), (30, 5), 'usage')

    async def fail(self):
        messages = await self.step()
        results = self.results(messages)

        async def bad(words, request):
            found = await refused(anthropic.BadRequestError, request, status_code=400)
            same(found.body['error']['type'], 'invalid_request_error', 'type')
            must(words in found.body['error']['message'], f'{words}: {found}')

        other = {'type': 'tool_result', 'tool_use_id': 'other', 'content': 'ran'}
        both = {'role': 'user', 'content': [*results['content'], other]}
        await bad('unexpected `tool_use_id`', self.ask([*messages, both]))
        await bad('were found without `tool_result`', self.ask(messages))
        thinking, *rest = messages[1]['content']
        wrong = thinking.model_copy(update={'thinking': 'I must not look'})
        wrong = {'role': 'assistant', 'content': [wrong, *rest]}
        await bad('Invalid `signature` in `thinking` block', self.ask([messages[0], wrong, results]))
        sampled = self.ask(messages[:1], extra_body={'temperature': 1})
        await bad('`temperature` is deprecated for this model', sampled)
        enabled = self.ask(messages[:1], thinking={'type': 'enabled', 'budget_tokens': 1024})
        await bad('"thinking.type.enabled" is not supported', enabled)
        await bad('Extra inputs are not permitted', self.ask(messages[:1], extra_body={'reasoning': {}}))
        found = await refused(
            anthropic.NotFoundError, self.client.messages.count_tokens(model='x', messages=messages[:1]),
        )
        same(found.body['error']['type'], 'not_found_error', 'type')


class Gemini:
    """The Gemini API by `google-genai`."""

    model = 'gemini-3.8-flash'

    def __init__(self, address):
        options = types.HttpOptions(base_url=address)
        self.client = genai.Client(api_key=KEY, http_options=options).aio
        declared = types.FunctionDeclaration(name='glob', parameters_json_schema=PARAMETERS)
        self.config = types.GenerateContentConfig(
            system_instruction='Be brief.', tools=[types.Tool(function_declarations=[declared])],
            thinking_config=types.ThinkingConfig(include_thoughts=True, thinking_level='low'),
        )

    async def ask(self, contents, config=None):
        """Returns the parts and the usage of a streamed answer."""
        stream = await self.client.models.generate_content_stream(
            model=self.model, contents=contents, config=config or self.config,
        )
        chunks = [chunk async for chunk in stream]
        same(chunks[-1].candidates[0].finish_reason, types.FinishReason.STOP, 'finish_reason')
        parts = [part for chunk in chunks for part in chunk.candidates[0].content.parts]
        return parts, chunks[-1].usage_metadata

    @staticmethod
    def text(parts):
        return ''.join(part.text or '' for part in parts if not part.thought)

    async def step(self):
        """Returns the contents up to the first answer."""
        contents = [types.UserContent(PROMPT)]
        parts, usage = await self.ask(contents)
        same(self.text(parts), SAID, 'text')
        calls = [part.function_call for part in parts if part.function_call]
        same([(call.name, call.args) for call in calls], CALLS, 'calls')
        same((usage.prompt_token_count, usage.candidates_token_count), (20, 10), 'usage')
        return [*contents, types.ModelContent(parts)]

    @staticmethod
    def results(contents):
        calls = [part.function_call for part in contents[1].parts if part.function_call]
        parts = [types.Part.from_function_response(name=call.name, response={'output': 'ran'}) for call in calls]
        return types.UserContent(parts)

    async def talk(self):
        contents = await self.step()
        parts, usage = await self.ask([*contents, self.results(contents)])
        same(self.text(parts), LAST, 'text')
        same((usage.prompt_token_count, usage.candidates_token_count), (30, 5), 'usage')

    async def fail(self):
        contents = await self.step()
        results = self.results(contents)

        async def bad(words, request):
            found = await refused(errors.ClientError, request, code=400, status='INVALID_ARGUMENT')
            must(words in found.message, f'{words}: {found}')

        fewer = types.UserContent(results.parts[:1])
        await bad('number of function response parts', self.ask([*contents, fewer]))
        await bad('immediately after a function call turn', self.ask([contents[0], results]))
        unsigned = [part.model_copy(update={'thought_signature': None}) for part in contents[1].parts]
        unsigned = types.ModelContent(unsigned)
        await bad('missing a thought_signature', self.ask([contents[0], unsigned, results]))
        wrong = [
            part.model_copy(update={'thought_signature': part.thought_signature and b'other'})
            for part in contents[1].parts
        ]
        await bad('signature is not valid', self.ask([contents[0], types.ModelContent(wrong), results]))
        minimal = types.ThinkingConfig(thinking_level='minimal')
        config = self.config.model_copy(update={'thinking_config': minimal})
        await bad('MINIMAL is not supported', self.ask(contents[:1], config))


async def main():
    async with stand_ins() as served:
        for name, api in {'chat': Chat, 'responses': Responses, 'anthropic': Messages, 'gemini': Gemini}.items():

            async def talk():
                await api(await served.address(name)).talk()

            async def fail():
                await api(await served.address(name)).fail()

            await check(f'{name}: a conversation with calls, streamed', talk)
            await check(f'{name}: what the API refuses is an error of the SDK', fail)
    finish()


asyncio.run(main())
