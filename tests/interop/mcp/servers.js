'use strict';

/* MCP servers that others wrote, driven by belay: server-everything and server-filesystem on standard
 * streams, server-everything over HTTP. A script plays the model. */

const { spawn } = require('node:child_process');
const fs = require('node:fs');
const net = require('node:net');
const path = require('node:path');
const readline = require('node:readline');
const { build, expect, expectEqual, expectValid, folder, marked, plainEnvironment, runBeside, sleep, step, test,
        validator } = require('../suite');

const workspace = path.join(folder, 'servers');
const files = path.join(workspace, 'files');
fs.mkdirSync(files, { recursive: true });
fs.writeFileSync(path.join(files, 'a.txt'), 'what a holds\n');
const packageFile = (name) => path.join(__dirname, `../node_modules/@modelcontextprotocol/${name}/dist/index.js`);
const servers = {
    everything: { command: process.execPath, args: [packageFile('server-everything'), 'stdio'] },
    files: { command: process.execPath, args: [packageFile('server-filesystem'), files] },
};

const tool = (name, input = {}, id = undefined) => ({ name: `mcp__${name}`, input, ...(id && { id }) });
const long = { duration: 60, steps: 600 };
const stories = {
    'echo it': [tool('everything__echo', { message: 'over and out' })],
    'add up': [tool('everything__get-sum', { a: 2, b: 40 })],
    'go on': [tool('everything__trigger-long-running-operation', { duration: 1, steps: 5 })],
    'see it': [tool('everything__get-tiny-image')],
    'structured': [tool('everything__get-structured-content', { location: 'Chicago' })],
    'links': [tool('everything__get-resource-links', { count: 2 }), tool('everything__get-resource-reference')],
    'research': [tool('everything__simulate-research-query', { topic: 'belays' })],
    'roots': [tool('everything__get-roots-list')],
    'wrong type': [tool('everything__get-sum', { a: 'two' })],
    'no such file': [tool('files__read_text_file', { path: path.join(files, 'nothing.txt') })],
    'outside': [tool('files__read_text_file', { path: '/etc/passwd' })],
    'read it': [tool('files__read_text_file', { path: path.join(files, 'a.txt') })],
    'many at once': Array.from({ length: 8 }, (_, n) => tool('everything__echo', { message: `number ${n}` })),
    'for long': [tool('everything__trigger-long-running-operation', long)],
    'for long, twice': [tool('everything__trigger-long-running-operation', long), tool('everything__echo', { message: 'x' })],
    'over http': [tool('remote__get-sum', { a: 20, b: 22 }), tool('remote__get-tiny-image'),
                  tool('remote__trigger-long-running-operation', { duration: 1, steps: 4 })],
    'for long, over http': [tool('remote__trigger-long-running-operation', long)],
};
const script = path.join(folder, 'servers-script.json');
fs.writeFileSync(script, JSON.stringify({
    name: 'interop', repeat: true,
    replies: Object.entries(stories).flatMap(([name, tools]) => [{ when: `^${name}$`, tools },
                                                                 { when: `^${name}$`, say: 'It was called.' }]),
}));

let count = 0;

function start(words) {
    const mark = `servers-${process.pid}-${count++}`;
    const env = plainEnvironment({ BELAY_STORE: path.join(folder, 'servers.db'), BELAY_INTEROP: mark });
    const child = spawn(path.join(build, 'belay'), ['run', '--output-format', 'stream-json', '--yolo',
        '--provider', `script:${script}`, ...words], { env, cwd: workspace, stdio: ['ignore', 'pipe', 'pipe'] });
    const run = { child, mark, events: [], log: '' };
    child.stderr.setEncoding('utf8').on('data', (text) => (run.log += text));
    readline.createInterface({ input: child.stdout }).on('line', (line) => run.events.push(JSON.parse(line)));
    run.ended = new Promise((resolve) => child.on('close', (status, signal) => resolve({ status, signal })));
    return run;
}

/* Runs a story to its end; every event and the last line fit, and no process is left. */
async function play(words, status = 0) {
    const run = start(words);
    const end = await run.ended;
    const last = run.events.pop();
    const validate = validator('event');
    for (const event of run.events)
        expect(validate(event), `event.json: ${JSON.stringify(event)}: ${JSON.stringify(validate.errors)}`);
    expectEqual(end.status, status, `exit code: ${run.log}${JSON.stringify(last).slice(0, 500)}`);
    expectValid('run', last);
    expectEqual(marked(run.mark), 0, 'processes with the marker');
    const of = (type) => run.events.filter((event) => event.type === type);
    return { of, last, steps: last.turns?.at(-1)?.steps, events: run.events };
}

const trusted = '--trust-mcp';

/* What the model was given: the session, as it is written out. */
async function toldTo(session) {
    const file = path.join(folder, 'told.jsonl');
    fs.rmSync(file, { force: true });
    const env = plainEnvironment({ BELAY_STORE: path.join(folder, 'servers.db') });
    const exported = await runBeside('belay', ['session', 'export', session, file], env, workspace);
    expectEqual(exported.status, 0, `export: ${exported.stderr}`);
    return fs.readFileSync(file, 'utf8');
}

/* The one call of a story, with its result. */
async function called(name, ok, ...needles) {
    const played = await play([trusted, name]);
    expectEqual(played.steps.map((step) => step.status === 'ok'), stories[name].map(() => ok),
                `${name}: ${JSON.stringify(played.steps).slice(0, 400)}`);
    const told = await toldTo(played.last.session_id);
    for (const needle of needles)
        expect(told.includes(needle), `${name}: no ${needle} in ${told.slice(-600)}`);
    return { ...played, told };
}

test('M20 a .mcp.json of the workspace, headless and untrusted, starts nothing', async () => {
    fs.writeFileSync(path.join(workspace, '.mcp.json'), JSON.stringify({ mcpServers: servers }));
    const run = start(['echo it']);
    let most = 0;
    const watch = setInterval(() => (most = Math.max(most, marked(run.mark, '@modelcontextprotocol'))), 5);
    await run.ended;
    clearInterval(watch);
    expectEqual(most, 0, 'servers');
    expect(run.events.some((event) => event.type === 'warning' && /everything/.test(JSON.stringify(event))),
           `nothing says so: ${JSON.stringify(run.events).slice(0, 600)}`);
});

test('M14 tools of two servers are listed under their names', async () => {
    const env = plainEnvironment({ BELAY_STORE: path.join(folder, 'servers.db') });
    const listed = await runBeside('belay', ['tools', '--json', trusted], env, workspace);
    expectEqual(listed.status, 0, `exit code: ${listed.stderr}`);
    const { tools } = JSON.parse(listed.stdout);
    const names = tools.map((one) => one.name).filter((name) => name.startsWith('mcp__'));
    for (const name of ['mcp__everything__echo', 'mcp__everything__get-sum', 'mcp__files__read_text_file'])
        expect(names.includes(name), `no ${name} in ${names}`);
    expect(names.every((name) => /^[A-Za-z0-9_-]{1,64}$/.test(name)), `names: ${names}`);
    expectEqual(new Set(names).size, names.length, 'different names');
});

test('M14 server-everything: text, numbers, structured content, links and resources', async () => {
    await called('echo it', true, 'over and out');
    await called('add up', true, '2 and 40 is 42');
    await called('structured', true, 'temperature');
    await called('links', true);
    await called('many at once', true, 'number 7');
    await called('roots', true);
});

test('M14 server-everything: a long operation with progress', async () => {
    const { last } = await called('go on', true, 'completed');
    expectEqual(last.final_stop_reason, 'completed', 'the end');
});

test('M14 server-everything: an image', async () => {
    await called('see it', true);
});

test('M14 server-everything: a tool that must be a task of an older kind is refused or answered, and the turn goes on', async () => {
    const { last } = await play([trusted, 'research']);
    expectEqual(last.final_stop_reason, 'completed', 'the end');
});

test('M14 errors of servers are errors of tools, and the turn goes on', async () => {
    for (const name of ['wrong type', 'no such file', 'outside']) {
        const { last } = await called(name, false);
        expectEqual(last.final_stop_reason, 'completed', 'the end');
    }
    await called('read it', true, 'what a holds');
});

async function stopped(name, signal, ready) {
    const run = start([trusted, name]);
    for (let tries = 0; tries < 1000 && !ready(run); tries++)
        await sleep(10);
    expect(ready(run), `not there: ${JSON.stringify(run.events.at(-1))}${run.log}`);
    await sleep(150);
    const asked = performance.now();
    run.child.kill(signal);
    const { status } = await run.ended;
    const took = performance.now() - asked;
    expectEqual(marked(run.mark), 0, 'processes with the marker');
    const last = run.events.at(-1);
    expectEqual([status, last.final_stop_reason], [signal === 'SIGINT' ? 130 : 143, 'cancelled'], `the end: ${run.log}`);
    expectValid('receipt', last.receipt);
    expectEqual(last.receipt.survivors, 0, 'survivors');
    expect(took < 2500, `${took.toFixed(0)} ms`);
    return { ...run, last, took };
}

const working = (run) => run.events.some((event) => event.type === 'tool_started');

test('M14 a stop in the middle of a call: nothing of the server is left, and the receipt names the call', async () => {
    for (const signal of ['SIGINT', 'SIGTERM']) {
        const { last } = await stopped('for long', signal, working);
        const [unit] = last.receipt.units.filter((one) => one.kind === 'tool');
        expect(unit && ['killed', 'aborted', 'unknown'].includes(unit.fate), JSON.stringify(last.receipt.units));
    }
});

test('M14 kill -9 of belay in the middle of a call: nothing of the server is left', async () => {
    const run = start([trusted, 'for long']);
    for (let tries = 0; tries < 1000 && !working(run); tries++)
        await sleep(10);
    expect(working(run), 'not there');
    run.child.kill('SIGKILL');
    await run.ended;
    for (let tries = 0; tries < 100 && marked(run.mark) > 0; tries++)
        await sleep(10);
    expectEqual(marked(run.mark), 0, 'processes with the marker');
});

/* ---- Over HTTP -------------------------------------------------------------------------------- */

let remote = null;
const remoteConfig = path.join(folder, 'remote.json');

async function freePort() {
    const probe = net.createServer();
    await new Promise((resolve) => probe.listen(0, '127.0.0.1', resolve));
    const { port } = probe.address();
    await new Promise((resolve) => probe.close(resolve));
    return port;
}

test('M14 server-everything over HTTP: calls, an image, progress', async () => {
    const port = await freePort();
    remote = spawn(process.execPath, [packageFile('server-everything'), 'streamableHttp'],
                   { env: plainEnvironment({ PORT: String(port) }), stdio: ['ignore', 'ignore', 'pipe'] });
    remote.log = '';
    remote.stderr.setEncoding('utf8').on('data', (text) => (remote.log += text));
    for (let tries = 0; tries < 500 && !remote.log.includes(String(port)); tries++)
        await sleep(10);
    const url = `http://127.0.0.1:${port}/mcp`;
    fs.writeFileSync(remoteConfig, JSON.stringify({ mcpServers: { remote: { type: 'http', url } } }));
    const { steps, last, events } = await play(['--mcp-config', remoteConfig, 'over http']);
    expectEqual(steps.map((step) => step.status), ['ok', 'ok', 'ok'], 
                JSON.stringify(events.filter((event) => event.type === 'warning')));
    expect((await toldTo(last.session_id)).includes('20 and 22 is 42'), 'no sum');
});

test('M14 server-everything over HTTP: a stop in the middle of a call', async () => {
    const run = start(['--mcp-config', remoteConfig, 'for long, over http']);
    for (let tries = 0; tries < 1000 && !working(run); tries++)
        await sleep(10);
    expect(working(run), `not there: ${run.log}`);
    await sleep(150);
    run.child.kill('SIGINT');
    const { status } = await run.ended;
    const last = run.events.at(-1);
    expectEqual([status, last.final_stop_reason], [130, 'cancelled'], 'the end');
    expectValid('receipt', last.receipt);
    expectEqual(last.receipt.units.filter((unit) => unit.kind === 'tool').map((unit) => unit.fate), ['unknown'],
                'the fate of a call that runs elsewhere');
});

step(() => remote?.kill('SIGKILL'));
