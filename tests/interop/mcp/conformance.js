'use strict';

/* The official conformance suite: its server scenarios against `belay mcp --http` and against the same server
 * with the suite's own tools (fixture.c), its client scenarios against belay's MCP client. Each check that fails
 * is in expected-failures.json under the reason, and each that is there must fail: the list can only be right. */

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

/* All that fails is listed, and all that is listed fails; `lists` are ids of checks by the reason. */
function compare(scenarios, lists) {
    const listed = new Set(Object.values(lists).flat());
    const failed = new Set();
    const faults = [];
    for (const [name, checks] of scenarios)
        for (const check of failuresOf(checks)) {
            failed.add(check.id);
            if (!listed.has(check.id))
                faults.push(`${name}: ${why(check)}`);
        }
    faults.push(...[...listed].filter((id) => !failed.has(id)).map((id) => `${id} does not fail, though it is listed`));
    return faults;
}

function expectAsListed(scenarios, lists) {
    const faults = compare(scenarios, lists);
    faults.forEach((fault) => console.log(`      ${fault}`));
    expectEqual(faults.length, 0, 'faults, above,');
}

const taskScenarios = ['tasks-lifecycle', 'tasks-capability-negotiation', 'tasks-wire-fields', 'tasks-request-headers',
                       'tasks-dispatch-and-envelope', 'tasks-request-state-removal', 'tasks-required-task-error',
                       'tasks-status-notifications', 'tasks-mrtr-input', 'tasks-mrtr-composition'];

/* How many the suite has, in the release that package.json names: one that does not run has no checks to fail. */
const counts = { '2025-11-25': 33, '2026-07-28': 40, tasks: taskScenarios.length };

/* Those of a version run at once; those of an extension are in no suite, and are asked for by name. */
async function runAll(url, name, what) {
    const results = path.join(home, `${name}-${what}`);
    const words = ['server', '--url', url, '-o', results];
    const runs = what === 'tasks' ? taskScenarios.map((scenario) => ['--scenario', scenario, '--timeout', '20000'])
        : [['--suite', 'all', '--spec-version', what, '--timeout', '8000']];
    let log = '';
    for (const run of runs)
        log += (await conform([...words, ...run])).out;
    const scenarios = checksIn(results);
    expect(scenarios.size === counts[what], `${scenarios.size} scenarios ran, not ${counts[what]}: ${log.slice(-500)}`);
    expectAsListed(scenarios, expected[name][what]);
    const failed = [...scenarios.values()].filter((checks) => failuresOf(checks).length > 0).length;
    console.log(`      ${scenarios.size - failed} of ${scenarios.size} scenarios pass, ${failed} fail as listed`);
}

/* Belay has no tools of the suite's; a cell can do what those for tasks do. */
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

/* Belay's own tools, with its own token; and the tools that the suite brings scenarios for. */
function serverTests() {
    const started = {};
    const starters = {
        server: async () => {
            started.server = await serveHttp();
            started.door = await withToken(started.server, translate);
            return started.door.url;
        },
        fixture: async () => {
            started.fixture = await serveFixtures();
            return started.fixture.url;
        },
    };
    for (const [name, start] of Object.entries(starters)) {
        let url = null;
        for (const what of Object.keys(expected[name]))
            test(`M1 conformance of the ${name}, ${what}`, async () => {
                url ??= await start();
                await runAll(url, name, what);
            });
    }
    step(async () => {
        started.door?.close();
        await started.server?.stop();
        await started.fixture?.stop();
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
                const scenarios = checksIn(results);
                expect(scenarios.size === 1, `${scenarios.size} scenarios ran: ${out.slice(-500)}`);
                expectAsListed(scenarios, expected.client);
            });
}

if (modernNode && fs.existsSync(program)) {
    fs.mkdirSync(home);
    serverTests();
    clientTests();
} else {
    skip('M1, M2 conformance', 'needs node 22, for which there is no package on this machine');
}
