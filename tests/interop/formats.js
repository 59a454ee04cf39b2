'use strict';

/* Envelopes, events and sessions against their schemas, numbers and canonical JSON against node. */

const { spawn } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { build, envelope, expect, expectInvalid, expectValid, folder, plainEnvironment, run, runBeside, schemas, test,
        validator } = require('./suite');

/* mulberry32: the same run each time, so that a failure can be examined. */
function randomFrom(seed) {
    return () => {
        seed = (seed + 0x6d2b79f5) | 0;
        let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
        t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
        return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
    };
}

const random = randomFrom(20261115);
const below = (limit) => Math.floor(random() * limit);
const pick = (list) => list[below(list.length)];

const view = new DataView(new ArrayBuffer(8));

function doubleFromBits(high, low) {
    view.setUint32(0, high >>> 0);
    view.setUint32(4, low >>> 0);
    return view.getFloat64(0);
}

const word = () => below(4294967296);
const extremes = [
    0, -0, 1, -1, 0.1, 0.5, 5e-324, -5e-324, Number.MAX_VALUE, -Number.MAX_VALUE,
    2.2250738585072014e-308, 2.225073858507201e-308, Number.EPSILON, 2 ** 53, -(2 ** 53),
    2 ** 53 - 1, 1e21, 1e20, 999999999999999900000, 1e-6, 1e-7, 123456789012345680000, 9.5e-7,
    1.7976931348623155e308, 4.9406564584124654e-324, 1e23, 9007199254740993, 0.3, 2 / 3,
];
const doubles = [
    () => doubleFromBits(word(), word()),
    () => (below(2) ? 1 : -1) * below(2 ** 53),
    () => (below(2) ? 1 : -1) * below(100000),
    () => Number(`${below(1e9)}e${below(40) - 20}`),
    () => below(1e6) / 10 ** below(7),
    () => doubleFromBits((below(2) << 31) | below(1 << 20), word()),
    () => pick(extremes),
    () => 2 ** (below(2098) - 1074),
    () => Number((random() * 1000).toFixed(below(10))),
];

function randomDouble(index) {
    if (index < extremes.length)
        return extremes[index];
    for (;;) {
        const value = doubles[index % doubles.length]();
        if (Number.isFinite(value))
            return value;
    }
}

/* How JSON may spell a number: node's own way, exponents, more digits than needed. Integers beyond
 * 2^53 are spelled with an exponent, since plain ones stay exact in ours. */
function spell(value) {
    const plain = Object.is(value, -0) ? '-0' : String(value);
    const integral = Number.isInteger(value) && Math.abs(value) > Number.MAX_SAFE_INTEGER;
    const spellings = [
        () => (integral && !plain.includes('e') ? value.toExponential() : plain),
        () => value.toExponential(),
        () => value.toExponential(20),
        () => value.toExponential(17).replace('e', 'E'),
    ];
    return pick(spellings)();
}

function canonicalOurs(json) {
    const result = run('tests/json_canonical', [], json);
    expect(result.status === 0, `json_canonical: exit code ${result.status}: ${result.stderr}`);
    return result.stdout.replace(/\n$/, '');
}

/* RFC 8785 in node: sort() compares strings by UTF-16 units, as it asks. */
function canonicalNode(value) {
    if (Array.isArray(value))
        return `[${value.map(canonicalNode).join(',')}]`;
    if (value === null || typeof value !== 'object')
        return JSON.stringify(value);
    const members = Object.keys(value).sort();
    return `{${members.map((key) => `${JSON.stringify(key)}:${canonicalNode(value[key])}`).join(',')}}`;
}

const alphabet = [
    'a', 'b', 'Z', '0', '9', ' ', '"', '\\', '/', '\n', '\t', '\u0000', '\u001f', '\u007f',
    'é', 'ß', 'Ω', '\u0080', '\u2028', '\u2029', '中', '한', '\ud7ff', '\ue000', '\uffff', '\ufb33',
    '😀', '𝄞', '\u{10000}', '\u{10ffff}', '__proto__', 'constructor',
];

function randomString() {
    let text = '';
    for (let count = below(6); count > 0; count--)
        text += pick(alphabet);
    return text;
}

function randomValue(depth) {
    const kind = below(depth > 0 ? 8 : 5);
    if (kind === 0)
        return null;
    if (kind === 1)
        return below(2) === 1;
    if (kind === 2)
        return below(2000) - 1000;
    if (kind === 3)
        return below(1e9) / 1000;
    if (kind === 4)
        return randomString();
    if (kind === 5)
        return Array.from({ length: below(5) }, () => randomValue(depth - 1));
    return randomObject(depth - 1);
}

function randomObject(depth) {
    const members = new Map();
    for (let count = below(8); count > 0; count--)
        members.set(randomString(), randomValue(depth));
    return Object.fromEntries(members);
}

/* One comparison of a long list, that names the first element which differs. */
function expectSame(ours, theirs, elements) {
    if (ours === theirs)
        return;
    for (const [index, element] of elements.entries()) {
        const one = canonicalOurs(element.json);
        expect(one === element.expected,
               `element ${index}: ${element.json}: ours ${one}, node ${element.expected}`);
    }
    throw new Error('the whole differs, though its elements do not');
}

/* Runs belay hold; its envelope is the last line on standard error, behind what the command wrote. */
function held(words, status) {
    const result = run('belay', ['hold', '--json', ...words]);
    const value = JSON.parse(result.stderr.trimEnd().split('\n').pop());
    expect(result.status === status, `exit code ${result.status}, not ${status}`);
    expect(value.exit_code === status, `exit_code ${value.exit_code}, not ${status}`);
    return value;
}

test('belay hold: a command that ends, one that leaves something, one that is stopped', () => {
    expectValid('hold', held(['--', 'true'], 0));
    const left = held(['--', 'sh', '-c', 'sleep 60 & exit 3'], 3);
    expectValid('hold', left);
    expect(left.end.left_behind === 1, 'the sleeper is not counted');
    const stopped = held(['--timeout', '200ms', '--', 'sh', '-c', 'trap "" TERM; sleep 60; sleep 60'], 124);
    expectValid('hold', stopped);
    expectValid('receipt', stopped.receipt);
    expect(stopped.receipt.survivors === 0 && stopped.receipt.units[0].fate === 'killed', 'not killed');
    expectInvalid('receipt', { ...stopped.receipt, reason: 'because' }, 'an unknown reason');
    expectValid('envelope', held(['--', 'no-such-command'], 127));
});

test('doctor --json fits docs/schemas/doctor.json', () => {
    const value = envelope(['doctor', '--json'], 0);
    expectValid('doctor', value);
    expectValid('envelope', value);
    expectInvalid('doctor', { ...value, surprise: 1 }, 'a member too many');
    expectInvalid('doctor', { ...value, limits: {} }, 'a section without its members');
});

test('a usage error fits docs/schemas/envelope.json and error.json', () => {
    const value = envelope(['docter', '--json'], 2);
    expectValid('envelope', value);
    expectValid('error', value.error);
    expectInvalid('error', { ...value.error, kind: 'surprise' }, 'an unknown kind');
    expectInvalid('envelope', { ...value, error: {} }, 'an empty error');
});

test('a usage error in stream-json fits docs/schemas/envelope.json', () => {
    const value = envelope(['doctor', '--frob', '--output-format', 'stream-json'], 2);
    expect(value.type === 'result', `type ${value.type}`);
    expectValid('envelope', value);
});

const script = path.join(folder, 'script.yaml');
fs.writeFileSync(script, `
name: interop
replies:
  - {when: hello, say: Hello., thinking: a greeting, usage: {input: 12, output: 7}}
  - {when: overloaded, error: {status: 529, retry_after: 1ms}}
  - {when: overloaded, say: Back again.}
  - {when: broken, error: {status: 400}}
  - {when: tool, tools: [{name: bash, input: {command: echo hi}}, {name: nothing}]}
  - {when: tool, say: It printed hi.}
  - {when: sleep, tools: [{name: bash, input: {command: "(trap '' TERM; exec sleep 60) & sleep 60"}}]}
  - {when: wedge, wedge: after_first_token}
  - {when: number, say: "1"}
`);
const provider = ['--provider', `script:${script}`];
const runs = [
    [0, 'completed', ['hello', '--session', 'one']],
    [0, 'completed', ['overloaded']],
    [0, 'completed', ['tool', '--yolo']],
    [0, 'completed', ['tool', '--permission-mode', 'ask']],
    [0, 'completed', ['hello', '--request-id', 'same']],
    [0, 'completed', ['hello', '--request-id', 'same']],
    [1, 'error', ['broken', '--session', 'one']],
    [3, 'max_turns_reached', ['hello', '--session', 'one', '--max-session-turns', '1']],
    [3, 'max_budget_reached', ['hello', '--session', 'one', '--max-budget-tokens', '1']],
    [3, 'max_steps_reached', ['tool', '--session', 'one', '--max-steps', '0']],
    [124, 'timeout', ['wedge', '--session', 'one', '--timeout', '200ms']],
    [124, 'timeout', ['wedge', '--timeout', '0']],
    [124, 'timeout', ['sleep', '--session', 'one', '--yolo', '--timeout', '500ms']],
    [124, 'timeout', ['sleep', '--session', 'one', '--yolo', '--timeout', '500ms', '--on-cancel', 'keep']],
];
const failures = [
    [1, ['hello', '--resume', 'nobody']],
    [1, ['hello', '--provider', 'script:/nowhere']],
    [1, ['hello', '--store', script]],
    [2, ['hello', '--request-id', 'same', '--session', 'another']],
    [2, ['hello', '--session', 'Not/An/Id']],
    [2, ['hello', '--max-turns', 'many']],
    [2, ['']],
    [2, ['hello', '--no-such-option']],
];

test('a definition that several schemas have is the same in all of them', () => {
    const seen = new Map();
    for (const file of fs.readdirSync(schemas).filter((name) => name.endsWith('.json'))) {
        const schema = JSON.parse(fs.readFileSync(path.join(schemas, file), 'utf8'));
        const { $schema, $id, title, $defs, ...whole } = schema;
        expect($id === `urn:belay:schema:${path.basename(file, '.json')}`, `${file}: $id ${$id}`);
        const all = Object.entries($defs ?? {});
        if (['error.json', 'receipt.json'].includes(file))
            all.push([path.basename(file, '.json'), whole]);
        for (const [name, value] of all) {
            if (['answer', 'failure', 'streamed_answer', 'streamed_failure'].includes(name))
                continue;
            const text = canonicalNode(value);
            expect((seen.get(name) ?? text) === text, `${file}: ${name} differs`);
            seen.set(name, text);
        }
    }
    expect(seen.has('turn_result') && seen.has('receipt') && seen.has('unit'), 'nothing is shared');
});

test('run --json fits docs/schemas/run.json, for every stop reason and for failures', () => {
    for (const [status, reason, words] of runs) {
        const value = envelope(['run', '--json', ...provider, ...words], status);
        expectValid('run', value);
        expectValid('envelope', value);
        expect(value.final_stop_reason === reason, `${words}: ${value.final_stop_reason}`);
        value.turns.forEach((turn) => expectValid('turn-result', turn));
        if (value.receipt !== null)
            expectValid('receipt', value.receipt);
        expectInvalid('run', { ...value, error: null }, 'a payload with an error');
        expectInvalid('run', { ...value, type: 'result' }, 'the type of a stream');
    }
    for (const [status, words] of failures) {
        const value = envelope(['run', '--json', ...provider, ...words], status);
        expectValid('run', value);
        expectValid('error', value.error);
    }
});

test('every line of stream-json fits docs/schemas/event.json, and the last one run.json', () => {
    const types = new Set();
    for (const [status, , words] of runs.concat(failures.map(([code, list]) => [code, '', list]))) {
        const result = run('belay', ['run', '--output-format', 'stream-json', ...provider, ...words]);
        expect(result.status === status, `${words}: exit code ${result.status}`);
        expect(result.stderr === '', `standard error is not silent: ${result.stderr}`);
        const lines = result.stdout.trimEnd().split('\n').map((line) => JSON.parse(line));
        const last = lines.pop();
        expect(last.type === 'result' && last.exit_code === result.status, `${words}: the last line`);
        expectValid('run', last);
        const validate = validator('event');
        lines.forEach((line, index) => {
            expect(validate(line), `event.json: ${JSON.stringify(line)}: ${JSON.stringify(validate.errors)}`);
            expect(line.seq === index + 1, `seq ${line.seq} at line ${index + 1}`);
            types.add(line.type);
        });
    }
    for (const type of ['run_started', 'turn_started', 'text_delta', 'thinking_delta', 'tool_requested',
                        'tool_started', 'tool_output', 'tool_ended', 'retry', 'usage', 'cancel_requested',
                        'receipt', 'turn_ended', 'run_ended'])
        expect(types.has(type), `no ${type} was seen`);
});

test('the envelopes of sessions fit their schemas, and an export comes back as it was', () => {
    const shown = envelope(['session', 'show', 'one', '--json'], 0);
    expectValid('session-show', shown);
    expect(shown.turns.some((turn) => turn.interrupted), 'nothing was kept');
    const reasons = new Set(shown.attempts.map((attempt) => attempt.result.stop_reason));
    expect(reasons.size >= 5, 'too few attempts');
    expectValid('session-list', envelope(['session', 'list', '--all', '--json'], 0));
    const first = path.join(folder, 'first.jsonl');
    const second = path.join(folder, 'second.jsonl');
    expectValid('session-export', envelope(['session', 'export', 'one', first, '--json'], 0));
    expectValid('session-import', envelope(['session', 'import', first, '--as', 'two', '--json'], 0));
    expectValid('session-export', envelope(['session', 'export', 'two', second, '--json'], 0));
    const again = fs.readFileSync(second, 'utf8').replace('"id":"two"', '"id":"one"');
    expect(again === fs.readFileSync(first, 'utf8'), 'the second export differs');
    expectValid('session-import', envelope(['session', 'fork', 'one', '--json'], 0));
    expectValid('session-delete', envelope(['session', 'delete', 'two', '--json'], 0));
    expectValid('session-delete', envelope(['session', 'delete', 'two', '--json'], 1));
    expectValid('session-show', envelope(['session', 'show', 'two', '--json'], 1));
    const broken = path.join(folder, 'broken.db');
    fs.writeFileSync(broken, 'not a database at all, and longer than nothing');
    expectValid('session-list', envelope(['session', 'list', '--store', broken, '--json'], 1));
    expectValid('session-move-aside', envelope(['session', 'move-aside', '--store', broken, '--json'], 0));
});

test('the other envelopes fit their schemas', () => {
    expectValid('bootstrap', envelope(['bootstrap', '--json', ...provider, 'hello in bash'], 0));
    expectValid('bootstrap', envelope(['bootstrap', '--json', ...provider, '--timeout', '0', 'hello'], 124));
    expectValid('bootstrap', envelope(['bootstrap', '--json', '--model', 'x', 'hello'], 2));
    expectValid('route', envelope(['route', '--json', 'list the tools and run bash'], 0));
    expectValid('tools', envelope(['tools', '--json'], 0));
    expectValid('tool', envelope(['tool', 'bash', '--json'], 0));
    expectValid('tool', envelope(['tool', 'bosh', '--json'], 1));
    expectValid('ps', envelope(['ps', '--json'], 0));
    expectValid('cancel', envelope(['cancel', 'run_nothing', '--json'], 1));
});

test('ps and cancel of a run at work fit their schemas', () => {
    const words = ['run', '--json', '--session', 'busy', '--yolo', ...provider, 'sleep'];
    const child = spawn(path.join(build, 'belay'), words, { stdio: 'ignore' });
    try {
        let activities = [];
        for (let tries = 0; tries < 200 && activities.length < 2; tries++)
            activities = envelope(['ps', '--json'], 0).activities;
        expect(activities.length === 2, 'the run and its call are not listed');
        expectValid('ps', envelope(['ps', '--json'], 0));
        expectValid('session-show', envelope(['session', 'show', 'busy', '--json'], 0));
        expectValid('run', envelope(['run', '--json', '--session', 'busy', 'hello'], 1));
        const stopped = envelope(['cancel', 'busy', '--json'], 0);
        expectValid('cancel', stopped);
        expect(stopped.receipt.reason === 'user' && stopped.receipt.survivors === 0, 'the receipt');
    } finally {
        child.kill('SIGTERM');
    }
});

test('script serve, what is recorded of it and doctor --provider fit their schemas', async () => {
    const server = spawn(path.join(build, 'belay'), ['script', 'serve', script, '--json'],
                         { stdio: ['ignore', 'pipe', 'inherit'] });
    const ended = new Promise((resolve) => server.on('close', resolve));
    const tape = path.join(folder, 'tape.jsonl');
    let text = '';
    try {
        await new Promise((resolve) => server.stdout.setEncoding('utf8').on('data', (more) => {
            text += more;
            resolve();
        }));
        const { url } = JSON.parse(text.split('\n')[0]);
        const env = plainEnvironment({ ANTHROPIC_BASE_URL: url, OPENAI_BASE_URL: `${url}/v1` });
        const words = ['run', '--model', 'anthropic/m', '--json', '--record', tape, '--yolo', 'tool'];
        const result = await runBeside('belay', words, env);
        expect(result.status === 0, `exit code ${result.status}: ${result.stdout}`);
        expectValid('run', JSON.parse(result.stdout));
        for (const [prompt, status] of [['hello', 0], ['broken', 1]])
            expect((await runBeside('belay', ['run', '--model', 'openai/m', prompt], env)).status === status, prompt);
        const asked = await runBeside('belay', ['doctor', '--model', 'openai/m', '--json'], env);
        expectValid('doctor-provider', JSON.parse(asked.stdout));
    } finally {
        server.kill('SIGTERM');
    }
    expect(await ended === 143, 'the server did not end as told');
    const served = text.trimEnd().split('\n').map((line) => JSON.parse(line));
    expect(served.length >= 6, `only ${served.length} lines`);
    served.forEach((line) => expectValid('script-serve', line));
    expectInvalid('script-serve', { ...served[1], event: 'listening' }, 'two lines in one');
    const taped = fs.readFileSync(tape, 'utf8').trimEnd().split('\n').map((line) => JSON.parse(line));
    expect(taped.length === 3, `${taped.length} lines on the cassette`);
    taped.forEach((line) => expectValid('cassette-line', line));
    expectInvalid('cassette-line', { ...taped[1], body_text: '' }, 'two bodies');
});

test('20000 doubles are written as node writes them', () => {
    const elements = Array.from({ length: 20000 }, (_, index) => {
        const json = spell(randomDouble(index));
        return { json, expected: JSON.stringify(JSON.parse(json)) };
    });
    const json = `[${elements.map((element) => element.json).join(', ')}]`;
    expectSame(canonicalOurs(json), JSON.stringify(JSON.parse(json)), elements);
});

test('2000 nested objects are canonical as in node', () => {
    const elements = Array.from({ length: 2000 }, () => {
        const value = randomObject(4);
        return { json: JSON.stringify(value, null, below(3)), expected: canonicalNode(value) };
    });
    const json = `[${elements.map((element) => element.json).join(',\n')}]`;
    expectSame(canonicalOurs(json), canonicalNode(JSON.parse(json)), elements);
});
