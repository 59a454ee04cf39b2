'use strict';

/* The official conformance suite: its server scenarios against `belay mcp --http`, its client scenarios
 * against belay's MCP client. What fails is in expected-failures.json with the reason, and what is there
 * must fail: the list can only be right. */

const { spawn } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { build, expect, expectEqual, folder, modernNode, plainEnvironment, skip, step, test } = require('../suite');
const { serveFixtures, serveHttp, withToken } = require('./server');

const program = path.join(__dirname, '../node_modules/@modelcontextprotocol/conformance/dist/index.js');
const expected = JSON.parse(fs.readFileSync(path.join(__dirname, 'expected-failures.json'), 'utf8'));
const home = path.join(folder, 'conformance');

function conform(words) {
    return new Promise((resolve, reject) => {
        const child = spawn(modernNode, [program, ...words], { cwd: home, env: plainEnvironment({ HOME: home }),
                                                              stdio: ['ignore', 'pipe', 'pipe'], timeout: 120000 });
        let out = '';
        child.stdout.setEncoding('utf8').on('data', (text) => (out += text));
        child.stderr.setEncoding('utf8').on('data', (text) => (out += text));
        child.on('error', reject);
        child.on('close', (status) => resolve({ status, out }));
    });
}

/* The checks of each scenario, by its name. */
function checksIn(directory) {
    const scenarios = new Map();
    for (const name of fs.existsSync(directory) ? fs.readdirSync(directory, { recursive: true }) : []) {
        if (path.basename(name) !== 'checks.json')
            continue;
        const scenario = path.dirname(name).replace(/^server-/, '').replace(/-\d{4}-\d\d-\d\dT[\d-]+Z$/, '');
        scenarios.set(scenario, JSON.parse(fs.readFileSync(path.join(directory, name), 'utf8')));
    }
    return scenarios;
}

const failuresOf = (checks) => checks.filter((check) => check.status === 'FAILURE');
const why = (check) => `${check.id}: ${check.errorMessage ?? JSON.stringify(check.details ?? null)}`.slice(0, 500);

/* All that fails is listed, and all that is listed fails. */
function compare(scenarios, listed) {
    const faults = [];
    for (const [name, checks] of scenarios) {
        const failures = failuresOf(checks);
        const unlisted = failures.filter((check) => !listed[name] || check.id === 'wire-schema-valid');
        faults.push(...unlisted.map((check) => `${name}: ${why(check)}`));
        if (listed[name] && failures.length === 0)
            faults.push(`${name} does not fail, though it is listed`);
    }
    faults.push(...Object.keys(listed).filter((name) => !scenarios.has(name)).map((name) => `${name} is listed, and did not run`));
    return faults;
}

async function runAll(url, name, version) {
    const results = path.join(home, `${name}-${version}`);
    const { out } = await conform(['server', '--url', url, '--suite', 'all', '--spec-version', version,
                                   '--timeout', '8000', '-o', results]);
    const scenarios = checksIn(results);
    expect(scenarios.size >= 20, `only ${scenarios.size} scenarios ran: ${out.slice(-500)}`);
    const faults = compare(scenarios, expected[name][version]);
    faults.forEach((fault) => console.log(`      ${fault}`));
    expectEqual(faults.length, 0, 'faults, above,');
    const failed = [...scenarios.values()].filter((checks) => failuresOf(checks).length > 0).length;
    console.log(`      ${scenarios.size - failed} of ${scenarios.size} scenarios pass, ${failed} fail as listed`);
}

/* Belay's own tools, with its own token; and the tools that the suite brings scenarios for. */
function serverTests() {
    const started = {};
    const starters = {
        server: async () => {
            started.server = await serveHttp();
            started.door = await withToken(started.server);
            return started.door.url;
        },
        fixture: async () => {
            started.fixture = await serveFixtures();
            return started.fixture.url;
        },
    };
    for (const [name, start] of Object.entries(starters)) {
        let url = null;
        for (const version of Object.keys(expected[name]))
            test(`M1 conformance of the ${name}, ${version}`, async () => {
                url ??= await start();
                await runAll(url, name, version);
            });
    }
    step(async () => {
        started.door?.close();
        await started.server?.stop();
        await started.fixture?.stop();
    });
}

/* The suite has tools of its own for its scenarios on tasks; a cell can do what they do. */
const after = (seconds, then) => `await new Promise((done) => setTimeout(done, ${Number(seconds) * 1000})); ${then}`;
const asCells = {
    greet: ({ name }) => ({ source: `text(${JSON.stringify(`Hello, ${name}!`)})`, yield_time_ms: 10000 }),
    slow_compute: ({ seconds = 1 }) => ({ source: after(seconds, 'text("computed")'), yield_time_ms: 0 }),
    failing_job: () => ({ source: after(1, 'throw new Error("it fails")'), yield_time_ms: 0 }),
};

function translate(call) {
    const make = asCells[call.name];
    return make ? { name: 'exec', arguments: make(call.arguments ?? {}) } : call;
}

const taskScenarios = ['tasks-lifecycle', 'tasks-capability-negotiation', 'tasks-wire-fields', 'tasks-request-headers',
                       'tasks-dispatch-and-envelope', 'tasks-request-state-removal', 'tasks-required-task-error'];

function taskTests() {
    const started = {};
    for (const name of taskScenarios)
        test(`M1 conformance of tasks: ${name}`, async () => {
            started.server ??= await serveHttp();
            started.door ??= await withToken(started.server, translate);
            const results = path.join(home, `tasks-${name}`);
            const { out } = await conform(['server', '--url', started.door.url, '--scenario', name, '--timeout', '20000',
                                           '-o', results]);
            const [checks] = [...checksIn(results).values()];
            expect(checks?.length > 0, `no checks: ${out.slice(-500)}`);
            const listed = expected.tasks[name] ?? {};
            const failures = failuresOf(checks).map((check) => check.id);
            const wrong = failuresOf(checks).filter((check) => !listed[check.id]).map(why);
            wrong.push(...Object.keys(listed).filter((id) => !failures.includes(id))
                .map((id) => `${id} does not fail, though it is listed`));
            wrong.forEach((fault) => console.log(`      ${fault}`));
            expectEqual(wrong.length, 0, 'faults, above,');
        });
    step(async () => {
        started.door?.close();
        await started.server?.stop();
    });
}

const clientScenarios = {
    '2025-11-25': ['initialize', 'tools_call', 'sse-retry'],
    '2026-07-28': ['tools_call', 'request-metadata', 'http-standard-headers', 'http-custom-headers',
                   'http-invalid-tool-headers', 'json-schema-ref-no-deref'],
};

function clientTests() {
    for (const [version, names] of Object.entries(clientScenarios))
        for (const name of names)
            test(`M2 conformance of the client, ${version}: ${name}`, async () => {
                const results = path.join(home, `client-${version}-${name}`);
                const command = `${process.execPath} ${path.join(__dirname, 'driver.js')} ${build}`;
                const { out } = await conform(['client', '--command', command, '--scenario', name, '--spec-version', version,
                                               '--timeout', '20000', '-o', results]);
                const [checks] = [...checksIn(results).values()];
                expect(checks?.length > 0, `no checks: ${out.slice(-500)}`);
                const listed = expected.client[version]?.[name];
                const failures = failuresOf(checks);
                expect(listed ? failures.length > 0 : failures.length === 0,
                       listed ? 'it does not fail, though it is listed' : failures.map(why).join(' | '));
            });
}

if (modernNode && fs.existsSync(program)) {
    fs.mkdirSync(home);
    serverTests();
    taskTests();
    clientTests();
} else {
    skip('M1, M2 conformance', 'needs node 22, for which there is no package on this machine');
}
