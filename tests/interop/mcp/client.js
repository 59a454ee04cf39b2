'use strict';

/* The clients of both official SDKs, old and new, on standard streams and over HTTP, against `belay mcp`:
 * all five tools, progress, cancel. */

const { spawn } = require('node:child_process');
const { once } = require('node:events');
const readline = require('node:readline');
const { expect, expectEqual, expectValid, marked, sleep, test } = require('../suite');
const { mistake } = require('./schema');
const { command, serveHttp, tap } = require('./server');

/* Each makes a client and the transports of one SDK. */
async function sdkOne() {
    const { Client } = await import('@modelcontextprotocol/sdk/client/index.js');
    const { StdioClientTransport } = await import('@modelcontextprotocol/sdk/client/stdio.js');
    const { StreamableHTTPClientTransport } = await import('@modelcontextprotocol/sdk/client/streamableHttp.js');
    return { Client, StdioClientTransport, StreamableHTTPClientTransport,
             make: () => new Client({ name: 'interop', version: '1' }),
             call: (client, name, args, options) => client.callTool({ name, arguments: args }, undefined, options) };
}

async function sdkTwo(mode) {
    const { Client, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client');
    const { StdioClientTransport } = await import('@modelcontextprotocol/client/stdio');
    return { Client, StdioClientTransport, StreamableHTTPClientTransport,
             make: () => new Client({ name: 'interop', version: '2' }, { versionNegotiation: { mode } }),
             call: (client, name, args, options) => client.callTool({ name, arguments: args }, options) };
}

const kinds = {
    'sdk v1': { version: '2025-11-25', load: sdkOne },
    'client v2': { version: '2026-07-28', load: () => sdkTwo({ pin: '2026-07-28' }) },
    'client v2, legacy': { version: '2025-11-25', load: () => sdkTwo('legacy'), parts: ['list', 'run'] },
    'client v2, which finds out': { version: '2026-07-28', load: () => sdkTwo('auto'), parts: ['list', 'run'] },
};

async function connect(kind, server, words = []) {
    const sdk = await kind.load();
    const client = sdk.make();
    const own = server ? null : command(...words);
    const transport = server ?
        new sdk.StreamableHTTPClientTransport(new URL(server.url), { requestInit: { headers: server.headers } }) :
        new sdk.StdioClientTransport(own.parameters);
    const seen = tap(transport, () => kind.version);
    transport.stderr?.on('data', () => {});
    await client.connect(transport);
    return { client, transport, seen, mark: (server ?? own).mark,
             call: (name, args, options) => sdk.call(client, name, args, { timeout: 30000, ...options }) };
}

async function failureOf(promise) {
    try {
        await promise;
    } catch (error) {
        return error;
    }
    throw new Error('it did not fail');
}

/* The text block holds the same JSON as the structured content. */
function outcomeOf(result, isError = false) {
    expectEqual(result.isError ?? false, isError, `isError: ${JSON.stringify(result).slice(0, 300)}`);
    const [block] = result.content;
    expectEqual([result.content.length, block.type], [1, 'text'], 'content');
    expectEqual(JSON.parse(block.text), result.structuredContent, 'the text block');
    return result.structuredContent;
}

async function listAll({ client }) {
    const { tools } = await client.listTools();
    expectEqual(tools.map((tool) => tool.name).sort(), ['cancel', 'exec', 'run', 'terminate', 'wait'], 'tools');
    const required = Object.fromEntries(tools.map((tool) => [tool.name, tool.inputSchema.required ?? []]));
    expectEqual([required.run, required.exec, required.wait, required.terminate, required.cancel],
                [['prompt'], ['source'], ['cell_id', 'generation'], ['cell_id'], ['id']], 'arguments');
}

async function runAll({ call }) {
    const done = outcomeOf(await call('run', { prompt: 'hello' }));
    expectEqual([done.final_stop_reason, done.turns[0].output], ['completed', 'Hello there.'], 'run');
    done.turns.forEach((turn) => expectValid('turn-result', turn));
    const tool = outcomeOf(await call('run', { prompt: 'tool', permission_mode: 'auto', session: 'told' }));
    expectEqual([tool.final_stop_reason, tool.session_id], ['completed', 'told'], 'run with a tool');
    const broken = outcomeOf(await call('run', { prompt: 'broken' }), true);
    expectEqual(broken.final_stop_reason, 'error', 'run that fails');
    const late = outcomeOf(await call('run', { prompt: 'silent', timeout: 0.3 }), true);
    expectEqual([late.final_stop_reason, late.receipt.survivors], ['timeout', 0], 'run with a deadline');
    expectValid('receipt', late.receipt);
}

async function cellAll({ call }) {
    const done = outcomeOf(await call('exec', { source: 'text("one"); text(1 + 1);' }));
    expectEqual([done.type, done.content_items.map((item) => item.text)], ['completed', ['one', '2']], 'exec');
    const source = 'text("first"); yield_control(); await new Promise((done) => setTimeout(done, 60000));';
    const yielded = outcomeOf(await call('exec', { source, cell_id: 'sleeper', yield_time_ms: 5000 }));
    expectEqual([yielded.type, yielded.cell_id, yielded.generation], ['yielded', 'sleeper', 1], 'exec that yields');
    const waited = outcomeOf(await call('wait', { cell_id: 'sleeper', generation: 2, yield_time_ms: 100 }));
    expectEqual([waited.type, waited.generation], ['yielded', 2], 'wait');
    const ended = await call('terminate', { cell_id: 'sleeper', terminate_id: 't-1' });
    const again = await call('terminate', { cell_id: 'sleeper', terminate_id: 't-1' });
    const end = outcomeOf(ended);
    expectEqual([end.type, end.receipt.survivors], ['terminated', 0], 'terminate');
    expectValid('receipt', end.receipt);
    expectEqual(again.content, ended.content, 'terminate, again');
    const late = await call('wait', { cell_id: 'sleeper', generation: 3 });
    expectEqual(late.content, ended.content, 'wait for an ended cell');
    const stopped = await call('cancel', { id: 'sleeper' });
    expectEqual((await call('cancel', { id: 'sleeper' })).content, stopped.content, 'cancel of ended work');
}

/* A call is given up by its client: nothing is left, and the receipt can be fetched by the id that came
 * with the progress. */
async function cancelOne({ call, mark, seen }, prompt) {
    const stop = new AbortController();
    let id = null;
    const base = marked(mark);
    const onprogress = (progress) => (id ??= /run_[a-z0-9]+/.exec(JSON.stringify(progress))?.[0]);
    const pending = call('run', { prompt, permission_mode: 'auto' }, { signal: stop.signal, onprogress });
    pending.catch(() => {});
    const wanted = prompt === 'tree' ? base + 4 : base;
    for (let tries = 0; tries < 500 && (!id || marked(mark) < wanted); tries++)
        await sleep(10);
    expect(id, `no progress with the id of the run: ${JSON.stringify(seen.messages.slice(-2))}`);
    const from = seen.messages.length;
    stop.abort(new Error('given up'));
    await failureOf(pending);
    const receipt = outcomeOf(await call('cancel', { id }));
    expectEqual(marked(mark), base, 'processes with the marker');
    const found = receipt.receipt ?? receipt;
    expectValid('receipt', found);
    expectEqual(found.survivors, 0, 'survivors');
    expect(found.scope.includes(id), `the receipt of ${found.scope}, not of ${id}`);
    await sleep(300);
    const answers = seen.messages.slice(from).filter((message) => !message.method);
    expectEqual(answers.length, 1, 'answers after the cancel, that of the tool cancel included,');
    expectEqual((await call('cancel', { id })).structuredContent, receipt, 'the receipt, again');
}

async function refuse({ call }) {
    const code = async (name, args) => {
        const result = await call(name, args).catch((error) => ({ code: error.code, isError: true }));
        expect(result.isError, `${name} ${JSON.stringify(args)} is taken`);
        return result.code;
    };
    await code('run', { prompt: 'hello', permission_mode: 'yolo' });
    await code('run', {});
    await code('run', { prompt: 'hello', surprise: 1 });
    await code('exec', { source: 7 });
    await code('no_such_tool', {});
    await code('cancel', { id: 'run_nothing' });
}

const servers = [];
const parts = { list: listAll, run: runAll, 'exec, wait, terminate, cancel': cellAll, 'what is refused': refuse,
                'M5 a call given up in a silent model': (one) => cancelOne(one, 'silent'),
                'M5 a call given up with a tree of processes': (one) => cancelOne(one, 'tree') };

for (const carrier of ['stdio', 'HTTP'])
    for (const [name, kind] of Object.entries(kinds)) {
        let connected = null;
        test(`M4 ${name}, ${carrier}: connect`, async () => {
            const server = carrier === 'HTTP' ? await serveHttp() : null;
            if (server)
                servers.push(server);
            connected = await connect(kind, server);
            const version = connected.client.getNegotiatedProtocolVersion?.() ?? connected.transport.protocolVersion;
            expectEqual(version ?? kind.version, kind.version, 'version');
        });
        for (const [part, body] of Object.entries(parts).filter(([one]) => kind.parts?.includes(one) ?? true))
            test(`M4 ${name}, ${carrier}: ${part}`, () => {
                expect(connected, 'not connected');
                return body(connected);
            });
        test(`M3 ${name}, ${carrier}: every message fits the schema of ${kind.version}`, async () => {
            expect(connected, 'not connected');
            connected.seen.check();
            expect(connected.seen.messages.length >= (kind.parts ? 5 : 15), `only ${connected.seen.messages.length} messages`);
            await connected.client.close();
            for (let tries = 0; tries < 300 && carrier === 'stdio' && marked(connected.mark) > 0; tries++)
                await sleep(10);
            if (carrier === 'stdio')
                expectEqual(marked(connected.mark), 0, 'processes with the marker after the end');
        });
    }

/* The SDKs offer the newest version that they know, and none lets one choose. */
test('M3 2025-06-18, stdio: every message fits its schema', async () => {
    const { parameters } = command();
    const child = spawn(parameters.command, parameters.args, { env: parameters.env, cwd: parameters.cwd });
    const lines = readline.createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    const ask = async (method, params) => {
        child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id: method, method, params })}\n`);
        const message = JSON.parse((await lines.next()).value);
        expectEqual([message.id, mistake(message, '2025-06-18', { method })], [method, null], method);
        return message.result;
    };
    try {
        const opened = await ask('initialize', { protocolVersion: '2025-06-18', capabilities: {},
                                                 clientInfo: { name: 'interop', version: '0' } });
        expectEqual(opened.protocolVersion, '2025-06-18', 'version');
        child.stdin.write('{"jsonrpc":"2.0","method":"notifications/initialized"}\n');
        expectEqual((await ask('tools/list', {})).tools.length, 5, 'tools');
        expectEqual((await ask('tools/call', { name: 'run', arguments: { prompt: 'hello' } }))
            .structuredContent.final_stop_reason, 'completed', 'run');
        await ask('ping', {});
        child.stdin.end();
        expectEqual((await once(child, 'close'))[0], 0, 'exit code');
    } finally {
        child.kill('SIGKILL');
    }
});

test('M12 over HTTP without a token, from elsewhere, with headers that disagree', async () => {
    const [server] = servers;
    expect(server, 'no server');
    const ask = async (headers, body) => {
        const answer = await fetch(server.url, {
            method: 'POST', body: JSON.stringify(body),
            headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream', ...headers },
        });
        await answer.arrayBuffer();
        return answer.status;
    };
    const initialize = { jsonrpc: '2.0', id: 1, method: 'initialize', params: {
        protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'interop', version: '1' } } };
    expectEqual(await ask({}, initialize), 401, 'no token');
    expectEqual(await ask({ Authorization: 'Bearer wrong' }, initialize), 401, 'a wrong token');
    expectEqual(await ask({ ...server.headers, Origin: 'http://evil.test' }, initialize), 403, 'a foreign origin');
    expectEqual(await ask({ ...server.headers, Origin: 'http://localhost:1' }, initialize), 200, 'an origin here');
    const list = { jsonrpc: '2.0', id: 2, method: 'tools/list', params: { _meta: {
        'io.modelcontextprotocol/protocolVersion': '2026-07-28', 'io.modelcontextprotocol/clientCapabilities': {} } } };
    const modern = { ...server.headers, 'MCP-Protocol-Version': '2026-07-28' };
    expectEqual(await ask({ ...modern, 'Mcp-Method': 'tools/list' }, list), 200, 'headers that agree');
    expectEqual(await ask({ ...modern, 'Mcp-Method': 'tools/call' }, list), 400, 'headers that disagree');
    expectEqual(await ask({ ...modern, 'Mcp-Method': 'no/such' }, { ...list, method: 'no/such' }), 404, 'an unknown method');
});

test('M4 belay mcp --http ends by SIGTERM, and says so', async () => {
    const ends = await Promise.all(servers.map((server) => server.stop()));
    expectEqual(ends.map(({ status }) => status), servers.map(() => 143), 'exit codes');
});
