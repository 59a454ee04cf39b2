'use strict';

/* Cells over the wire, by a client in another language, written from the schemas: over a socket and
 * over standard streams. Each frame that comes is checked, strictly. */

const { spawn } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { build, expect, expectEqual, folder, plainEnvironment, step, test } = require('../suite');
const { CellClient } = require('./client');
const { check, checkStrictly, names } = require('./schemas');

const checks = { checkSent: check, checkReceived: checkStrictly };
const golden = path.join(__dirname, '../../cell/wire');
const environment = plainEnvironment({ BELAY_STORE: path.join(folder, 'cells.db') });
const socketPath = path.join(folder, 'cells.sock');

/* ---- Golden files ---------------------------------------------------------------------------- */

function goldenFrames() {
    return fs.readdirSync(golden).filter((name) => name.endsWith('.frame')).map((name) => {
        const bytes = fs.readFileSync(path.join(golden, name));
        expectEqual(bytes.readUInt32BE(0), bytes.length - 4, `the length of ${name}`);
        return { name, text: bytes.subarray(4).toString('utf8') };
    });
}

test('cell schemas: every golden frame fits, strictly', () => {
    const frames = goldenFrames();
    expect(frames.length >= 80, `only ${frames.length} golden frames`);
    for (const { text } of frames) {
        const frame = JSON.parse(text);
        checkStrictly('frame', frame);
        checkStrictly(frame.type, frame);
        if (frame.ok && frame.op)
            checkStrictly(`${frame.op}.ok`, frame.ok);
        if (frame.err && frame.op)
            checkStrictly('error', frame.err);
        if (frame.args)
            checkStrictly(`${frame.op}.request`, frame.args);
    }
    expect(names.includes('frame') && names.length === 31, `schemas: ${names}`);
});

test('cell schemas: golden frames are what node makes of them', () => {
    for (const { name, text } of goldenFrames())
        expect(JSON.stringify(JSON.parse(text)) === text, `${name} is written in another way`);
});

test('cell schemas: an unknown field fits, but not strictly', () => {
    const frame = JSON.parse(fs.readFileSync(path.join(golden, 'reply-observe-missing.json'), 'utf8'));
    frame.ok.later = true;
    check('frame', frame);
    let refused = false;
    try {
        checkStrictly('frame', frame);
    } catch {
        refused = true;
    }
    expect(refused, 'the strict form takes an unknown field');
});

/* ---- A session ------------------------------------------------------------------------------- */

const addTool = {
    name: 'add-up', description: 'Adds two numbers.', input: 'object',
    input_schema: { type: 'object', properties: { a: { type: 'number' }, b: { type: 'number' } } },
};
const shoutTool = { name: 'shout', description: 'Louder.', input: 'text', input_schema: null };
const sayTools = (count) => ({
    serve: (client) => {
        client.serve('add-up', ({ a, b }) => {
            count.calls++;
            return { sum: a + b };
        });
        client.serve('shout', (input) => input.toUpperCase());
    },
});

async function refusal(promise) {
    try {
        await promise;
    } catch (error) {
        expect(error.err, error.message);
        return error.err;
    }
    throw new Error('it was not refused');
}

const texts = (outcome) => outcome.content_items.map((item) => item.text).join('|');
const sameText = (one, other, what) => expectEqual(one[CellClient.text], other[CellClient.text], what);

/* Observes until the end, from a generation on; the items in order. */
async function observeAll(client, session_id, cell_id, generation = 1) {
    const items = [];
    for (;;) {
        const outcome = await client.request('observe', { session_id, cell_id, generation, yield_time_ms: 10000 });
        items.push(...outcome.content_items);
        if (outcome.type !== 'yielded')
            return { outcome, items };
        generation = outcome.generation + 1;
    }
}

async function helloAndOpen(client, name, session_id) {
    const ready = await client.hello(name);
    expectEqual([ready.type, ready.version, ready.capabilities], ['ready', 1, ['tools', 'notify']], 'ready');
    const opened = await client.request('open_session', { session_id, serves_tools: true, linger_ms: 5000 });
    expectEqual(opened, { type: 'opened', session_id }, 'opened');
    return ready;
}

async function callAndComplete(client, session_id) {
    const count = { calls: 0 };
    sayTools(count).serve(client);
    const source = [
        'const { sum } = await tools.add_up({ a: 2, b: 3 });',
        'text(sum);',
        'text(await tools.shout("hello"));',
        'try { await tools.nobody_serves({}); } catch (e) { text(`${e.name} ${e.kind} ${e.tool}`); }',
        'notify("half way");',
        'image("data:image/gif;base64,R0lGOA==", "low");',
    ].join('\n');
    const create = {
        session_id, cell_id: 'adder', source, limits: { deadline_ms: 60000 },
        tools: [addTool, shoutTool, { name: 'nobody_serves', description: '', input: 'object', input_schema: {} }],
    };
    expectEqual(await client.request('create_cell', create), { type: 'created', cell_id: 'adder' }, 'created');
    const { outcome, items } = await observeAll(client, session_id, 'adder');
    expectEqual([outcome.type, outcome.error, outcome.stopped_calls], ['completed', null, 0], 'the end');
    expectEqual(items, [
        { type: 'text', text: '5' }, { type: 'text', text: 'HELLO' },
        { type: 'text', text: 'ToolError unavailable nobody_serves' },
        { type: 'image', image_url: 'data:image/gif;base64,R0lGOA==', detail: 'low' },
    ], 'items');
    expectEqual([count.calls, client.frames.notify.map((frame) => frame.text)], [1, ['half way']], 'calls, notifies');
    /* The same create again runs nothing; with other content it is another. */
    expectEqual(await client.request('create_cell', { ...create, tools: [...create.tools].reverse() }),
                { type: 'created', cell_id: 'adder' }, 'created again');
    expectEqual((await refusal(client.request('create_cell', { ...create, source: '1' }))).code, 'conflict', 'conflict');
    expectEqual(count.calls, 1, 'calls after the second create');
    const again = await client.request('terminate', { session_id, cell_id: 'adder', terminate_id: 't-9', reason: 'user' });
    expectEqual([again.type, again.generation], ['completed', outcome.generation], 'terminate of an ended cell');
    const release = { session_id, cell_id: 'adder', generation: outcome.generation };
    expectEqual((await client.request('release', release)).type, 'released', 'release');
    expectEqual((await refusal(client.request('create_cell', create))).code, 'gone', 'a create after its release');
}

/* A cell that yields, is stopped, and is asked about again. */
async function yieldAndTerminate(client, session_id) {
    const source = 'text("one"); yield_control(); text("two"); await new Promise((done) => setTimeout(done, 60000));';
    await client.request('create_cell', { session_id, cell_id: 'sleeper', source, tools: [], limits: {} });
    const observe = { session_id, cell_id: 'sleeper', generation: 1, yield_time_ms: 10000 };
    const first = await client.request('observe', observe);
    expectEqual([first.type, first.generation, texts(first), first.stalled], ['yielded', 1, 'one', false], 'yielded');
    sameText(await client.request('observe', { ...observe, yield_time_ms: 0 }), first, 'generation 1, again');
    const second = await client.request('observe', { ...observe, generation: 2, yield_time_ms: 500 });
    expectEqual([second.type, second.generation, texts(second)], ['yielded', 2, 'two'], 'yielded, again');
    const wrong = await refusal(client.request('observe', { ...observe, generation: 7 }));
    expectEqual([wrong.code, wrong.expected, wrong.retained], ['wrong_generation', 3, [2]], 'a wrong generation');
    const listed = await client.request('list', { session_id, after: null, max: 10 });
    const entry = listed.cells.find((cell) => cell.cell_id === 'sleeper');
    expectEqual([entry.state, entry.generation, entry.timers], ['running', 2, 1], 'list');
    const waiting = client.request('observe', { ...observe, generation: 3, yield_time_ms: 60000 });
    const terminate = { session_id, cell_id: 'sleeper', terminate_id: 't-1', reason: 'user' };
    const end = await client.request('terminate', terminate);
    expectEqual([end.type, end.generation, texts(end)], ['terminated', 3, ''], 'terminated');
    expectEqual([end.receipt.reason, end.receipt.origin, end.receipt.survivors], ['user', 'terminate:t-1', 0], 'receipt');
    sameText(await waiting, end, 'what the observer was told');
    sameText(await client.request('terminate', terminate), end, 'the same terminate');
    sameText(await client.request('terminate', { ...terminate, terminate_id: 't-2' }), end, 'another terminate');
    sameText(await client.request('observe', { ...observe, generation: 3 }), end, 'the end, observed again');
    sameText(await client.request('observe', { ...observe, generation: 4 }), end, 'the one after it');
    return { end, observe: { ...observe, generation: 3 }, terminate };
}

async function cancelCalls(client, session_id) {
    let aborted = false;
    client.serve('never', (input, signal) => new Promise((resolve, reject) => {
        signal.addEventListener('abort', () => {
            aborted = true;
            reject(Object.assign(new Error('cancelled'), { kind: 'cancelled' }));
        });
    }));
    const tools = [{ name: 'never', description: '', input: 'text', input_schema: null }];
    const cell = { session_id, cell_id: 'caller' };
    await client.request('create_cell', { ...cell, source: 'await tools.never("")', tools, limits: {} });
    /* With a call under way nothing has stalled. */
    const observe = client.request('observe', { ...cell, generation: 1, yield_time_ms: 60000 });
    while (!client.frames.tool_call.some((frame) => frame.cell_id === 'caller'))
        await new Promise((resolve) => setTimeout(resolve, 5));
    client.cancel(observe.id);
    expectEqual((await refusal(observe)).code, 'cancelled', 'an observe that was cancelled');
    const end = await client.request('terminate', { ...cell, terminate_id: 't-1', reason: 'user' });
    expectEqual([end.type, aborted], ['terminated', true], 'terminated, and the call was told');
    const fates = Object.fromEntries(end.receipt.units.map((unit) => [unit.kind, unit.fate]));
    expect(['finished', 'aborted'].includes(fates.tool), `the call is ${fates.tool}`);
}

async function askWhatIsNotThere(client, session_id) {
    const missing = await client.request('observe', { session_id, cell_id: 'nobody', generation: 1, yield_time_ms: 0 });
    expectEqual(missing, { type: 'missing', cell_id: 'nobody' }, 'missing');
    const closed = await refusal(client.request('list', { session_id: 'another', after: null, max: 1 }));
    expectEqual([closed.code, closed.session_id], ['session_not_open', 'another'], 'a session that is not open');
}

async function wholeStory(client, name, session_id) {
    await helloAndOpen(client, name, session_id);
    await callAndComplete(client, session_id);
    const record = await yieldAndTerminate(client, session_id);
    await cancelCalls(client, session_id);
    await askWhatIsNotThere(client, session_id);
    expectEqual(client.frames.ended.map((frame) => frame.cell_id).sort(), ['adder', 'caller', 'sleeper'], 'hints');
    return record;
}

/* ---- Over a socket --------------------------------------------------------------------------- */

let host = null;

/* The socket is there once it listens. */
async function startHost() {
    host = spawn(path.join(build, 'belay'), ['cell', 'serve', '--socket', socketPath],
                 { env: environment, cwd: folder, stdio: ['ignore', 'ignore', 'pipe'] });
    host.log = '';
    host.stderr.setEncoding('utf8').on('data', (text) => (host.log += text));
    host.gone = new Promise((resolve) => host.once('close', (status, signal) => resolve({ status, signal })));
    for (let i = 0; i < 400 && !fs.existsSync(socketPath); i++) {
        expect(host.exitCode === null, `belay cell serve ended with ${host.exitCode}: ${host.log}`);
        await new Promise((resolve) => setTimeout(resolve, 25));
    }
    expect(fs.existsSync(socketPath), `no socket: ${host.log}`);
}

test('C48 a client in another language: open, create, nested call, yield, terminate, replay over a socket', async () => {
    await startHost();
    const client = await CellClient.connect(socketPath, checks);
    const record = await wholeStory(client, 'interop', 'over-socket');
    /* The same client again: it supersedes itself, and everything may be asked again. */
    const next = await CellClient.connect(socketPath, checks);
    await helloAndOpen(next, 'interop', 'over-socket');
    await client.closed;
    expectEqual(client.frames.bye.map((frame) => frame.reason), ['superseded'], 'bye');
    sameText(await next.request('terminate', record.terminate), record.end, 'terminate, on another connection');
    sameText(await next.request('observe', record.observe), record.end, 'observe, on another connection');
    const closed = await next.request('close_session', { session_id: 'over-socket', forget: true });
    expectEqual([closed.type, closed.receipt], ['closed', null], 'closed');
    await next.end();
});

test('C48 a hello that does not fit is rejected in the form of the schemas', async () => {
    for (const [options, reason] of [
        [{ versions: [2] }, { type: 'no_common_version', versions: [1] }],
        [{ requires: ['teleport'], wants: [] }, { type: 'missing_capability', capability: 'teleport' }],
    ]) {
        const client = await CellClient.connect(socketPath, checks);
        const answer = await client.hello('rejected', options);
        expectEqual([answer.type, answer.reason], ['rejected', reason], 'rejected');
        await client.closed;
    }
    const careless = await CellClient.connect(socketPath, { checkSent() {}, checkReceived: checkStrictly });
    const answer = await careless.hello('careless', { versions: [] });
    expectEqual([answer.type, answer.reason.type], ['rejected', 'bad_hello'], 'bad hello');
    await careless.closed;
});

test('C48 requests that do not fit are refused in the form of the schemas', async () => {
    const client = await CellClient.connect(socketPath, { checkSent() {}, checkReceived: checkStrictly });
    await helloAndOpen(client, 'careless', 'careless');
    const unsupported = await refusal(client.request('dance', {}));
    expectEqual([unsupported.code, unsupported.op, unsupported.retryable], ['unsupported', 'dance', false], 'dance');
    const observe = { session_id: 'careless', cell_id: '../x', generation: 1, yield_time_ms: 0 };
    const bad = await refusal(client.request('observe', observe));
    expectEqual([bad.code, bad.path], ['bad_request', '/cell_id'], 'a bad id');
    const never = await refusal(client.request('observe', { ...observe, cell_id: 'c', generation: 0 }));
    expectEqual([never.code, never.path], ['bad_request', '/generation'], 'generation 0');
    const bare = await refusal(client.request('list'));
    expectEqual([bare.code, bare.path], ['bad_request', ''], 'no args');
    const source = await refusal(client.request('create_cell', { session_id: 'careless', cell_id: 'c', source: ' ',
                                                                 tools: [], limits: {} }));
    expectEqual([source.code, source.path], ['bad_request', '/source'], 'a blank source');
    client.cancel(-1);
    await client.closed;
    expectEqual(client.frames.bye.map((frame) => frame.reason), ['protocol'], 'bye');
});

test('C48 the host ends by a signal, and says so', async () => {
    const client = await CellClient.connect(socketPath, checks);
    await helloAndOpen(client, 'last', 'last');
    host.kill('SIGTERM');
    const { status, signal } = await host.gone;
    expectEqual([status, signal], [143, null], `exit of the host: ${host.log}`);
    await client.closed;
    expectEqual(client.frames.bye.map((frame) => frame.reason), ['shutting_down'], 'bye');
    expect(!fs.existsSync(socketPath), 'the socket is still there');
});

step(() => {
    if (host && host.exitCode === null)
        host.kill('SIGKILL');
});

/* ---- Over standard streams ------------------------------------------------------------------- */

test('C48 a client in another language: the same over standard streams', async () => {
    const env = { ...environment, BELAY_STORE: path.join(folder, 'cells-stdio.db') };
    const client = CellClient.spawn(path.join(build, 'belay'), ['cell', 'serve', '--stdio'], { env, cwd: folder }, checks);
    await wholeStory(client, 'interop', 'over-stdio');
    await client.end();
    const { status } = await client.exited;
    expectEqual(status, 0, `exit of the host: ${client.log}`);
    expect(client.received > 20, `only ${client.received} frames`);
});
