'use strict';

/* A model server that no one here wrote, and a wire tap before it: its own journal holds most bodies
 * only as it understood them, and what is checked must be what was sent. */

const events = require('node:events');
const net = require('node:net');
const { LLMock } = require('@copilotkit/aimock');
const { endings, expect, expectEqual, plainEnvironment, runBeside, step, validator } = require('./suite');

/* It has a listener more on its signals for each chunk, and node would warn of that. */
events.setMaxListeners(1000);

const mock = new LLMock({ host: '127.0.0.1', port: 0, logLevel: 'silent' });

/* All requests of all tests, as { path, headers, body }. */
const requests = [];

/* Takes whole requests off the front of `bytes`; gives back the rest. */
function takeRequests(bytes) {
    for (;;) {
        const end = bytes.indexOf('\r\n\r\n');
        if (end < 0)
            return bytes;
        const [first, ...lines] = bytes.toString('latin1', 0, end).split('\r\n');
        const headers = Object.fromEntries(lines.map((line) => {
            const colon = line.indexOf(':');
            return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()];
        }));
        const size = Number(headers['content-length'] ?? 0);
        if (bytes.length < end + 4 + size)
            return bytes;
        const body = bytes.toString('utf8', end + 4, end + 4 + size);
        requests.push({ path: first.split(' ')[1], headers, body: size > 0 ? JSON.parse(body) : null });
        bytes = bytes.subarray(end + 4 + size);
    }
}

const tap = net.createServer((client) => {
    const server = net.connect(mock.port, '127.0.0.1');
    let bytes = Buffer.alloc(0);
    client.on('data', (piece) => {
        bytes = takeRequests(Buffer.concat([bytes, piece]));
        server.write(piece);
    });
    server.on('data', (piece) => client.write(piece));
    for (const [one, other] of [[client, server], [server, client]]) {
        one.on('error', () => other.destroy());
        one.on('close', () => other.destroySoon());
    }
});

/* Where each format is, and how its requests show what they send back. */
const formats = {
    openai: {
        path: '/v1/chat/completions',
        calls: (body) => body.messages.flatMap((message) => message.tool_calls ?? [])
            .map((call) => ({ id: call.id, name: call.function.name,
                              input: JSON.parse(call.function.arguments) })),
        results: (body) => body.messages.filter((message) => message.role === 'tool')
            .map((message) => ({ id: message.tool_call_id, text: message.content })),
    },
    'openai-responses': {
        path: '/v1/responses',
        calls: (body) => body.input.filter((item) => item.type === 'function_call')
            .map((item) => ({ id: item.call_id, name: item.name, input: JSON.parse(item.arguments) })),
        results: (body) => body.input.filter((item) => item.type === 'function_call_output')
            .map((item) => ({ id: item.call_id, text: item.output })),
    },
    anthropic: {
        path: '/v1/messages',
        calls: (body) => blocks(body, 'assistant').filter((block) => block.type === 'tool_use')
            .map((block) => ({ id: block.id, name: block.name, input: block.input })),
        results: (body) => blocks(body, 'user').filter((block) => block.type === 'tool_result')
            .map((block) => ({ id: block.tool_use_id, text: textOf(block.content) })),
    },
    ollama: {
        path: '/api/chat',
        calls: (body) => body.messages.flatMap((message) => message.tool_calls ?? [])
            .map((call) => ({ id: null, name: call.function.name, input: call.function.arguments })),
        results: (body) => body.messages.filter((message) => message.role === 'tool')
            .map((message) => ({ id: null, text: message.content })),
    },
};

function blocks(body, role) {
    return body.messages.filter((message) => message.role === role && Array.isArray(message.content))
        .flatMap((message) => message.content);
}

function textOf(content) {
    return Array.isArray(content) ? content.map((block) => block.text).join('') : content;
}

function environment() {
    const url = `http://127.0.0.1:${tap.address().port}`;
    return plainEnvironment({
        ANTHROPIC_BASE_URL: url, ANTHROPIC_API_KEY: 'key-of-anthropic',
        OPENAI_BASE_URL: `${url}/v1`, OPENAI_API_KEY: 'key-of-openai',
        OLLAMA_HOST: url,
    });
}

/* Runs `prompt` over `format`: events, the last line, and the requests that were made. */
async function ask(format, prompt, ...words) {
    const before = requests.length;
    const model = words.includes('--model') ? [] : ['--provider', format, '--model', 'model-1'];
    const result = await runBeside('belay', ['run', '--output-format', 'stream-json', '--yolo', ...model,
        ...words, prompt], environment());
    expect(result.stderr === '', `standard error is not silent: ${result.stderr}`);
    const lines = result.stdout.trimEnd().split('\n').map((line) => JSON.parse(line));
    const last = lines.pop();
    const validate = validator('event');
    for (const event of lines)
        expect(validate(event), `event.json: ${JSON.stringify(event)}: ${JSON.stringify(validate.errors)}`);
    expect(validator('run')(last), `run.json: ${JSON.stringify(validator('run').errors)}`);
    expectEqual(last.exit_code, result.status, 'exit_code');
    const of = (type) => lines.filter((event) => event.type === type);
    const turn = last.turns?.at(-1);
    const sent = requests.slice(before);
    for (const request of sent)
        expectEqual(request.path, formats[format].path, 'path');
    return { of, turn, last, status: result.status, requests: sent };
}

/* Fixtures of one prompt, the same for each format; one that is `once` goes first, and only then. */
function fixture(prompt, response, options = {}) {
    const { once, withResult, ...rest } = options;
    const match = { userMessage: new RegExp(`^${prompt}$`) };
    if (once !== undefined)
        match.sequenceIndex = once;
    if (withResult !== undefined)
        match.hasToolResult = withResult;
    mock.on(match, response, rest);
}

step(async () => {
    await mock.start();
    await new Promise((resolve) => tap.listen(0, '127.0.0.1', resolve));
});

endings.push(async () => {
    tap.close();
    await mock.stop();
});

module.exports = { ask, environment, fixture, formats, mock, requests };
