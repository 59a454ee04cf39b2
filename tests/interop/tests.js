'use strict';

const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const Ajv2020 = require('ajv/dist/2020');

const build = process.argv[2];
const schemas = path.join(__dirname, '../../docs/schemas');

let passed = 0;
let failed = 0;

function test(name, body) {
    try {
        body();
        passed++;
        console.log(`ok    ${name}`);
    } catch (error) {
        failed++;
        console.log(`FAIL  ${name}: ${error.message.split('\n')[0]}`);
    }
}

function expect(condition, message) {
    if (!condition)
        throw new Error(message);
}

function run(program, words, input) {
    const options = { input, encoding: 'utf8', maxBuffer: 1 << 28, timeout: 120000 };
    const result = spawnSync(path.join(build, program), words, options);
    if (result.error)
        throw result.error;
    return result;
}

function validator(name) {
    const ajv = new Ajv2020({ allErrors: true, strict: true, allowUnionTypes: true });
    const file = path.join(schemas, `${name}.json`);
    return ajv.compile(JSON.parse(fs.readFileSync(file, 'utf8')));
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

/* mulberry32: the same run each time, so that a failure can be looked at. */
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

console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed > 0 ? 1 : 0;
