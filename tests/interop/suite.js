'use strict';

/* What the tests share: how one is told, a folder, belay's programs and its schemas. */

const { spawn, spawnSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const Ajv2020 = require('ajv/dist/2020');

const build = process.argv[2];
const schemas = path.join(__dirname, '../../docs/schemas');

const PATIENCE_MS = 300000;

let queue = Promise.resolve();
let passed = 0;
let failed = 0;
let hanging = false;

/* One that does not come to an end fails, and does not keep the others from theirs. */
async function limited(body) {
    let timer;
    const limit = new Promise((_, reject) => {
        timer = setTimeout(() => {
            hanging = true;
            reject(new Error(`no end after ${PATIENCE_MS / 1000} s`));
        }, PATIENCE_MS);
    });
    try {
        await Promise.race([body(), limit]);
    } finally {
        clearTimeout(timer);
    }
}

/* Tests run one after the other, in the order of their definition. */
function test(name, body) {
    queue = queue.then(async () => {
        try {
            await limited(body);
            passed++;
            console.log(`ok    ${name}`);
        } catch (error) {
            failed++;
            console.log(`FAIL  ${name}: ${error.message.split('\n')[0]}`);
        }
    });
}

function skip(name, why) {
    step(() => console.log(`skip  ${name}: ${why}`));
}

/* Between tests: what they need, and what ends it. */
function step(body) {
    queue = queue.then(() => limited(body));
}

/* When all tests are through, whichever they were. */
const endings = [];

async function finish() {
    await queue;
    for (const end of endings)
        await limited(end);
    console.log(`${passed} passed, ${failed} failed`);
    process.exitCode = failed > 0 ? 1 : 0;
    if (hanging)
        process.exit();
}

function expect(condition, message) {
    if (!condition)
        throw new Error(message);
}

function expectEqual(actual, expected, what) {
    const one = JSON.stringify(actual);
    const other = JSON.stringify(expected);
    expect(one === other, `${what}: ${one}, not ${other}`);
}

/* A place for a store, control sockets and scripts of its own. */
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'belay-interop-'));
process.on('exit', () => fs.rmSync(folder, { recursive: true, force: true }));
process.env.BELAY_STORE = path.join(folder, 'sessions.db');
process.env.XDG_RUNTIME_DIR = folder;

function run(program, words, input) {
    const options = { input, encoding: 'utf8', maxBuffer: 1 << 28, timeout: 120000 };
    const result = spawnSync(path.join(build, program), words, options);
    if (result.error)
        throw result.error;
    return result;
}

/* The same for one that talks to a server in this process, which must go on meanwhile. */
function runBeside(program, words, env, cwd = folder) {
    return new Promise((resolve, reject) => {
        const options = { env, cwd, stdio: ['ignore', 'pipe', 'pipe'], timeout: 60000 };
        const child = spawn(path.join(build, program), words, options);
        const result = { stdout: '', stderr: '' };
        child.stdout.setEncoding('utf8').on('data', (text) => (result.stdout += text));
        child.stderr.setEncoding('utf8').on('data', (text) => (result.stderr += text));
        child.on('error', reject);
        child.on('close', (status) => resolve({ ...result, status }));
    });
}

const validators = new Map();

function validator(name) {
    if (!validators.has(name)) {
        const ajv = new Ajv2020({ allErrors: true, strict: true, allowUnionTypes: true });
        const file = path.join(schemas, `${name}.json`);
        validators.set(name, ajv.compile(JSON.parse(fs.readFileSync(file, 'utf8'))));
    }
    return validators.get(name);
}

function expectValid(name, value) {
    const validate = validator(name);
    expect(validate(value), `${name}.json: ${JSON.stringify(validate.errors)}`);
}

function expectInvalid(name, value, what) {
    expect(!validator(name)(value), `${name}.json accepts ${what}`);
}

/* Runs belay for one line of JSON; the exit code must be the one inside. */
function envelope(words, status) {
    const result = run('belay', words);
    expect(result.stderr === '', `standard error is not silent: ${result.stderr}`);
    expect(/^[^\n]+\n$/.test(result.stdout), 'not exactly one line');
    const value = JSON.parse(result.stdout);
    expect(result.status === status, `exit code ${result.status}, not ${status}`);
    expect(value.exit_code === status, `exit_code ${value.exit_code}, not ${status}`);
    return value;
}

/* Without settings of providers in the environment: keys and addresses are those of the test. */
function plainEnvironment(more) {
    const { PATH } = process.env;
    return { PATH, HOME: folder, XDG_RUNTIME_DIR: folder, XDG_CONFIG_HOME: path.join(folder, 'config'),
             BELAY_STORE: process.env.BELAY_STORE, ...more };
}

/* How many processes have BELAY_INTEROP=mark in their environment, which no fork, session or name can
 * shed; with `word`: of those that have it in their command line. */
function marked(mark, word = '') {
    return fs.readdirSync('/proc').filter((name) => /^[0-9]+$/.test(name)).filter((pid) => {
        try {
            return fs.readFileSync(`/proc/${pid}/environ`, 'latin1').split('\0').includes(`BELAY_INTEROP=${mark}`) &&
                fs.readFileSync(`/proc/${pid}/cmdline`, 'latin1').includes(word);
        } catch {
            return false;
        }
    }).length;
}

/* Some counterparts need a newer node than the one that runs this; null: there is none. */
const modernNode = [process.execPath, `${__dirname}/node_modules/node-linux-${process.arch}/bin/node`]
    .find((name, index) => (index > 0 ? fs.existsSync(name) : Number(process.versions.node.split('.')[0]) >= 22)) ?? null;

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

module.exports = { build, endings, envelope, expect, expectEqual, expectInvalid, expectValid, finish, folder,
                   marked, modernNode, plainEnvironment, run, runBeside, schemas, skip, sleep, step, test, validator };
