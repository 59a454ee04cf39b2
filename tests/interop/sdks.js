'use strict';

/* `belay script serve` as the server of the vendors' own clients. */

const { spawn } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const readline = require('node:readline');
const Anthropic = require('@anthropic-ai/sdk');
const OpenAI = require('openai');
const { build, expect, expectEqual, folder, plainEnvironment, step, test } = require('./suite');

const said = 'Hello — "world", ünïcödé 日本語 😀\nand a second line.';
const script = path.join(folder, 'serve.json');
fs.writeFileSync(script, JSON.stringify({
    name: 'interop',
    repeat: true,
    replies: [
        { when: '^text$', say: said, pieces: 5, usage: { input: 120, output: 34 } },
        { when: '^thought$', thinking: 'Is it so?', say: 'It is.', usage: { input: 12, output: 7 } },
        { when: '^tools$', say: 'Both.', usage: { input: 10, output: 20 },
          tools: [{ name: 'look', input: { place: 'a "quoted" path/é', depth: 2 }, id: 'call_one' },
                  { name: 'wait', input: {}, id: 'call_two' }] },
        { when: '^limit$', say: 'cut in the mid', stop: 'max_tokens' },
        { when: '^refuse$', say: 'No.', stop: 'refusal' },
        { when: '^busy$', error: { status: 429, retry_after: '2s', message: 'Slow down.' } },
        { when: '^overloaded$', error: { code: 'overloaded' } },
        { when: '^wrong$', error: { status: 400, message: 'This is wrong.' } },
        { when: '^key$', error: { code: 'auth' } },
        { when: '^missing$', error: { code: 'not_found' } },
        { when: '^broken$', error: { status: 500 } },
        { when: '^cut$', error: { code: 'stream_cut' } },
        { when: '^busy once$', error: { status: 529, retry_after: '10ms' } },
        { when: '^busy once$', say: 'Now.' },
    ],
}));

let server;
let log;
let openai;
let anthropic;

step(async () => {
    server = spawn(path.join(build, 'belay'), ['script', 'serve', script, '--json'],
                   { env: plainEnvironment(), stdio: ['ignore', 'pipe', 'inherit'] });
    log = [];
    const lines = readline.createInterface({ input: server.stdout });
    const url = await new Promise((resolve, reject) => {
        server.on('error', reject);
        server.on('exit', (code) => reject(new Error(`belay script serve ended with ${code}`)));
        lines.on('line', (line) => {
            log.push(JSON.parse(line));
            resolve(log[0].url);
        });
    });
    openai = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 });
    anthropic = new Anthropic({ baseURL: url, apiKey: 'none', maxRetries: 0 });
});

/* ---- The same questions over three interfaces ------------------------------------------------- */

const parameters = { type: 'object', properties: { place: { type: 'string' }, depth: { type: 'integer' } } };

/* Each gives { text, pieces, thinking, calls, end, input, output }, or fails as its SDK does. */
const clients = {
    'openai, chat completions': async (prompt, client = openai) => {
        const stream = client.chat.completions.stream({
            model: 'interop', messages: [{ role: 'user', content: prompt }],
            stream_options: { include_usage: true },
            tools: [{ type: 'function', function: { name: 'look', parameters } }],
        });
        let pieces = 0;
        let thinking = '';
        stream.on('content', () => pieces++);
        stream.on('chunk', (chunk) => (thinking += chunk.choices[0]?.delta.reasoning_content ?? ''));
        const { choices: [choice], usage } = await stream.finalChatCompletion();
        return { text: choice.message.content ?? '', pieces, thinking, end: choice.finish_reason,
                 refusal: choice.message.refusal,
                 calls: (choice.message.tool_calls ?? [])
                     .map(({ id, function: { name, arguments: input } }) => [id, name, JSON.parse(input)]),
                 input: usage.prompt_tokens, output: usage.completion_tokens, total: usage.total_tokens };
    },
    'openai, responses': async (prompt, client = openai) => {
        const stream = client.responses.stream({
            model: 'interop', input: [{ role: 'user', content: prompt }], store: false,
            tools: [{ type: 'function', name: 'look', parameters, strict: false }],
        });
        let pieces = 0;
        let sequence = -1;
        for await (const event of stream) {
            pieces += event.type === 'response.output_text.delta' ? 1 : 0;
            expect(event.sequence_number > sequence, `${event.sequence_number} after ${sequence}`);
            sequence = event.sequence_number;
        }
        const answer = await stream.finalResponse();
        const of = (type) => answer.output.filter((item) => item.type === type);
        const [content] = of('message').flatMap((item) => item.content);
        return { text: answer.output_text, pieces,
                 end: answer.incomplete_details?.reason ?? answer.status,
                 refusal: content?.type === 'refusal' ? content.refusal : null,
                 thinking: of('reasoning').flatMap((item) => item.summary).map((part) => part.text).join(''),
                 calls: of('function_call')
                     .map((item) => [item.call_id, item.name, JSON.parse(item.arguments)]),
                 input: answer.usage.input_tokens, output: answer.usage.output_tokens,
                 total: answer.usage.total_tokens };
    },
    'anthropic, messages': async (prompt, client = anthropic) => {
        const stream = client.messages.stream({
            model: 'interop', max_tokens: 1000, messages: [{ role: 'user', content: prompt }],
            tools: [{ name: 'look', input_schema: parameters }],
        });
        let pieces = 0;
        stream.on('text', () => pieces++);
        const message = await stream.finalMessage();
        const of = (type) => message.content.filter((block) => block.type === type);
        return { text: of('text').map((block) => block.text).join(''), pieces, end: message.stop_reason,
                 thinking: of('thinking').map((block) => block.thinking).join(''),
                 signatures: of('thinking').map((block) => block.signature),
                 calls: of('tool_use').map((block) => [block.id, block.name, block.input]),
                 input: message.usage.input_tokens, output: message.usage.output_tokens };
    },
};

async function failureOf(promise) {
    try {
        await promise;
    } catch (error) {
        return error;
    }
    throw new Error('it did not fail');
}

for (const [name, ask] of Object.entries(clients)) {
    const [vendor] = name.split(',');
    const sdk = vendor === 'openai' ? OpenAI : Anthropic;

    test(`${name}: text in pieces, and usage`, async () => {
        const answer = await ask('text');
        expectEqual([answer.text, answer.calls], [said, []], 'answer');
        expect(answer.pieces >= 5, `${answer.pieces} pieces`);
        expectEqual([answer.input, answer.output], [120, 34], 'usage');
        expectEqual(answer.total ?? 154, 154, 'total');
        expect(['stop', 'completed', 'end_turn'].includes(answer.end), `end ${answer.end}`);
    });

    test(`${name}: thinking`, async () => {
        const answer = await ask('thought');
        expectEqual([answer.thinking, answer.text], ['Is it so?', 'It is.'], 'answer');
        expect((answer.signatures ?? ['sig']).every((signature) => signature.length > 0), 'no signature');
    });

    test(`${name}: tool calls`, async () => {
        const answer = await ask('tools');
        expectEqual(answer.calls, [['call_one', 'look', { place: 'a "quoted" path/é', depth: 2 }],
                                   ['call_two', 'wait', {}]], 'calls');
        expectEqual(answer.text, 'Both.', 'text');
        expect(['tool_calls', 'completed', 'tool_use'].includes(answer.end), `end ${answer.end}`);
    });

    test(`${name}: an answer cut by its limit, and a refusal`, async () => {
        /* The SDK has an error of its own for the first of them in chat completions. */
        const cut = await ask('limit').catch((error) => ({ end: error.constructor.name }));
        expect(['LengthFinishReasonError', 'length', 'max_output_tokens', 'max_tokens'].includes(cut.end),
               `end ${cut.end}`);
        const refused = await ask('refuse').catch((error) => ({ end: error.constructor.name }));
        expect(refused.end === 'refusal' || refused.refusal === 'No.' ||
                   ['content_filter', 'ContentFilterFinishReasonError'].includes(refused.end),
               `refusal ${JSON.stringify(refused)}`);
    });

    test(`${name}: errors are of the SDK's classes`, async () => {
        const cases = [
            ['busy', sdk.RateLimitError, [429]],
            ['overloaded', sdk.InternalServerError, [503, 529]],
            ['wrong', sdk.BadRequestError, [400]],
            ['key', sdk.AuthenticationError, [401]],
            ['missing', sdk.NotFoundError, [404]],
            ['broken', sdk.InternalServerError, [500]],
        ];
        for (const [prompt, type, statuses] of cases) {
            const error = await failureOf(ask(prompt));
            expect(error instanceof type, `${prompt}: ${error.constructor.name} ${error.message}`);
            expect(statuses.includes(error.status), `${prompt}: status ${error.status}`);
            expect(error.error !== undefined, `${prompt}: its body was not read`);
            if (prompt === 'wrong')
                expect(error.message.includes('This is wrong.'), error.message);
            if (prompt === 'busy')
                expectEqual(error.headers.get('retry-after'), '2', 'retry-after');
        }
        expectEqual((await failureOf(ask('cut'))).status, undefined, 'status of a cut stream');
    });

    test(`${name}: the SDK's own retry`, async () => {
        const client = (vendor === 'openai' ? openai : anthropic).withOptions({ maxRetries: 2 });
        expectEqual((await ask('busy once', client)).text, 'Now.', 'text');
    });
}

test('the whole answer, where no stream is asked for', async () => {
    const messages = [{ role: 'user', content: 'text' }];
    const chat = await openai.chat.completions.create({ model: 'interop', messages });
    expectEqual([chat.choices[0].message.content, chat.usage.total_tokens], [said, 154], 'chat');
    const response = await openai.responses.create({ model: 'interop', input: 'text' });
    expectEqual([response.output_text, response.usage.output_tokens], [said, 34], 'response');
    const message = await anthropic.messages.create({ model: 'interop', max_tokens: 100, messages });
    expectEqual([message.content[0].text, message.usage.input_tokens], [said, 120], 'message');
});

test('lists of models, and a count of tokens', async () => {
    expectEqual((await openai.models.list()).data.map((model) => model.id), ['interop'], 'models');
    const messages = [{ role: 'user', content: 'text' }];
    const count = await anthropic.messages.countTokens({ model: 'interop', messages });
    expect(count.input_tokens > 0, `${count.input_tokens} tokens`);
});

test('belay script serve told of each request, and ends when told to', async () => {
    expectEqual(log[0].event, 'listening', 'the first line');
    expect(log.length > 40, `${log.length} lines`);
    const ended = new Promise((resolve) => server.once('exit', (code) => resolve(code)));
    server.removeAllListeners('error').kill('SIGTERM');
    expectEqual(await ended, 143, 'exit code');
});
