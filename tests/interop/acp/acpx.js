'use strict';

/* acpx, a headless client that others wrote, against `belay acp`: once, with SIGINT, with permissions,
 * with a session that lives on. */

const { spawn } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { build, expect, expectEqual, folder, marked, modernNode, plainEnvironment, skip, sleep, test } = require('../suite');
const { mistake } = require('./schema');
const { script, toolFile, workspace } = require('./script');

const home = path.join(folder, 'acpx-home');
const program = path.join(__dirname, '../node_modules/acpx/dist/cli.js');
const store = path.join(folder, 'acpx.db');

function start(words, options = []) {
    const agent = `${path.join(build, 'belay')} acp --provider script:${script} ${options.join(' ')}`.trim();
    const mark = `acpx-${process.pid}-${start.count = (start.count ?? 0) + 1}`;
    const child = spawn(modernNode, [program, '--agent', agent, '--cwd', workspace, '--format', 'json', ...words], {
        cwd: workspace, stdio: ['ignore', 'pipe', 'pipe'], timeout: 60000,
        /* The native part of its file library is not installed everywhere: without it on every machine. */
        env: plainEnvironment({ HOME: home, BELAY_STORE: store, BELAY_INTEROP: mark, ACPX_DISABLE_TELEMETRY: '1',
                                FS_SAFE_NATIVE_MODE: 'off' }),
    });
    child.mark = mark;
    child.out = '';
    child.log = '';
    child.stdout.setEncoding('utf8').on('data', (text) => (child.out += text));
    child.stderr.setEncoding('utf8').on('data', (text) => (child.log += text));
    child.ended = new Promise((resolve, reject) => {
        child.on('error', reject);
        child.on('close', (status, signal) => resolve({ status, signal }));
    });
    return child;
}

const linesOf = (child) => child.out.split('\n').filter((line) => line.startsWith('{')).map((line) => JSON.parse(line));

async function run(words, options) {
    const child = start(words, options);
    const { status, signal } = await child.ended;
    return { status, signal, lines: linesOf(child), out: child.out, log: child.log, mark: child.mark };
}

/* What it repeats of the messages of the agent fits, too. */
function expectMessages(lines) {
    const methods = new Map();
    for (const message of lines.filter((line) => line.jsonrpc === '2.0')) {
        if ('method' in message && 'id' in message)
            methods.set(message.id, message.method);
        if (message.method === 'session/update') {
            const wrong = mistake(message, (id) => methods.get(id));
            expect(!wrong, `${JSON.stringify(message).slice(0, 300)}: ${wrong}`);
        }
    }
}

const stopReasons = (lines) => lines.map((line) => line.result?.stopReason ?? line.stopReason).filter(Boolean);

function tests() {
    test('A2 acpx: exec', async () => {
        const { status, lines, log } = await run(['exec', 'hello']);
        expectEqual(status, 0, `exit code: ${log}`);
        expectMessages(lines);
        const chunks = lines.map((line) => line.params?.update)
            .filter((update) => update?.sessionUpdate === 'agent_message_chunk');
        expectEqual(chunks.map((update) => update.content.text).join(''), 'Hello there, all of you.', 'text');
        expectEqual(stopReasons(lines).at(-1), 'end_turn', 'stopReason');
    });

    test('A2 acpx: a permission, approved and denied', async () => {
        const yes = await run(['--approve-all', 'exec', 'write-acpx'], ['--permission-mode', 'ask']);
        expectEqual([yes.status, stopReasons(yes.lines).at(-1)], [0, 'end_turn'], `approved: ${yes.log}`);
        expectEqual(fs.existsSync(path.join(workspace, toolFile('acpx'))), true, 'the file');
        const no = await run(['--deny-all', 'exec', 'write-acpx-denied'], ['--permission-mode', 'ask']);
        expectEqual(fs.existsSync(path.join(workspace, toolFile('acpx-denied'))), false, `the file: ${no.log}`);
        expectEqual(stopReasons(no.lines).at(-1), 'end_turn', 'denied');
        expectMessages([...yes.lines, ...no.lines]);
    });

    test('A2 acpx: SIGINT becomes session/cancel, and nothing is left', async () => {
        const child = start(['exec', 'tree-acpx'], ['--yolo']);
        for (let tries = 0; tries < 500 && !child.out.includes('in_progress'); tries++)
            await sleep(20);
        expect(child.out.includes('in_progress'), `no tool: ${child.out.slice(-300)}${child.log}`);
        child.kill('SIGINT');
        const { status } = await child.ended;
        const lines = linesOf(child);
        expect(status === 130 || stopReasons(lines).at(-1) === 'cancelled', `exit code ${status}: ${child.log}`);
        expect(lines.some((line) => line.method === 'session/cancel') || stopReasons(lines).includes('cancelled'),
               `no cancel: ${child.out.slice(-500)}`);
        expectMessages(lines);
        for (let tries = 0; tries < 100 && marked(child.mark) > 0; tries++)
            await sleep(20);
        expectEqual(marked(child.mark), 0, 'processes with the marker');
    });

    test('A2 acpx: a session that lives on, its list and its end', async () => {
        const made = await run(['sessions', 'new']);
        expectEqual(made.status, 0, `sessions new: ${made.log}${made.out.slice(-300)}`);
        const first = await run(['--ttl', '1', 'prompt', 'hello']);
        expectEqual([first.status, stopReasons(first.lines).at(-1)], [0, 'end_turn'], `prompt: ${first.log}`);
        await sleep(2500);
        const again = await run(['--ttl', '1', 'prompt', 'hello again']);
        expectEqual([again.status, stopReasons(again.lines).at(-1)], [0, 'end_turn'], `prompt after load: ${again.log}`);
        const listed = await run(['sessions', 'list']);
        expectEqual(listed.status, 0, `sessions list: ${listed.log}`);
        expect(listed.out.includes(workspace), `no session of this folder: ${listed.out.slice(0, 300)}`);
        const closed = await run(['sessions', 'close']);
        expectEqual(closed.status, 0, `sessions close: ${closed.log}`);
        for (const one of [made, first, again, listed, closed]) {
            for (let tries = 0; tries < 200 && marked(one.mark) > 0; tries++)
                await sleep(20);
            expectEqual(marked(one.mark), 0, 'processes with the marker');
        }
    });
}

if (modernNode && fs.existsSync(program))
    tests();
else
    skip('A2 acpx', 'needs node 22, for which there is no package on this machine');
