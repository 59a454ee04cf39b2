'use strict';

/* `belay mcp` for the clients of others: on standard streams they start it themselves, over HTTP it is
 * started here. What comes from it is checked against the schema of its version on the way. */

const { spawn } = require('node:child_process');
const fs = require('node:fs');
const http = require('node:http');
const path = require('node:path');
const { build, expect, folder, plainEnvironment } = require('../suite');
const { mistake } = require('./schema');

const workspace = path.join(folder, 'mcp');
fs.mkdirSync(workspace);
const tree = `(trap '' TERM; exec sleep 71) & setsid sleep 72 & (setsid sleep 73 &) ; sleep 74`;
const bash = (command) => [{ name: 'bash', input: { command } }];
const replies = [
    { when: '^hello', thinking: 'A greeting.', say: 'Hello there.' },
    { when: '^tool$', tools: bash('echo marker-$((40+2))') }, { when: '^tool$', say: 'It printed marker-42.' },
    { when: '^silent', wedge: 'before_first_token' },
    { when: '^tree', tools: bash(tree) },
    { when: '^broken', error: { status: 400 } },
];
const script = path.join(folder, 'mcp-script.json');
fs.writeFileSync(script, JSON.stringify({ name: 'interop', replies, repeat: true }));

const program = path.join(build, 'belay');
const wordsOf = (more) => ['mcp', '--provider', `script:${script}`, ...more];
let count = 0;

/* How a client starts it; `mark` is in the environment of all that it starts. */
function command(...more) {
    const mark = `mcp-${process.pid}-${count++}`;
    const env = plainEnvironment({ BELAY_STORE: path.join(folder, `${mark}.db`), BELAY_INTEROP: mark });
    return { mark, parameters: { command: program, args: wordsOf(more), env, cwd: workspace, stderr: 'pipe' } };
}

const servers = new Set();
process.on('exit', () => servers.forEach((server) => server.child.kill('SIGKILL')));

/* Starts a server over HTTP, and waits until it says where. */
async function listen(mark, program, words, env) {
    const child = spawn(program, words, { env, cwd: workspace, stdio: ['ignore', 'ignore', 'pipe'] });
    const server = { child, mark, log: '' };
    servers.add(server);
    child.gone = new Promise((resolve) => child.on('close', (status, signal) => resolve({ status, signal })));
    server.url = await new Promise((resolve, reject) => {
        child.on('error', reject);
        child.on('close', (status) => reject(new Error(`${program} ended with ${status}: ${server.log}`)));
        child.stderr.setEncoding('utf8').on('data', (text) => {
            server.log += text;
            const found = /http:\/\/\S+:[1-9][0-9]*\/mcp/.exec(server.log);
            if (found)
                resolve(found[0]);
        });
    });
    server.stop = async () => {
        child.kill('SIGTERM');
        servers.delete(server);
        return child.gone;
    };
    return server;
}

/* { url, mark, headers with the token, stop() } */
async function serveHttp(...more) {
    const file = path.join(folder, `token-${count}`);
    const { mark, parameters } = command('--http', '0', '--token-file', file, ...more);
    const server = await listen(mark, parameters.command, parameters.args, parameters.env);
    server.headers = { Authorization: `Bearer ${fs.readFileSync(file, 'utf8').trim()}` };
    return server;
}

/* The same server with tools of the conformance suite. */
function serveFixtures() {
    const { mark, parameters } = command();
    return listen(mark, path.join(build, 'tests/mcp_fixture'), [path.join(folder, `${mark}.db`)], parameters.env);
}

/* For those that cannot send a token: passes all on with it, both ways, and closes what is closed. Calls
 * may be translated: `translate` gives { name, arguments } for the name and arguments of a call. */
async function withToken(server, translate = (call) => call) {
    const target = new URL(server.url);
    const translated = (headers, body) => {
        const message = JSON.parse(body);
        if (message.method !== 'tools/call')
            return body;
        const { name } = message.params;
        Object.assign(message.params, translate(message.params));
        if (headers['mcp-name'] === name)
            headers['mcp-name'] = message.params.name;
        return JSON.stringify(message);
    };
    const pass = (request, response, body) => {
        const headers = { ...request.headers, authorization: server.headers.Authorization };
        let bytes = body;
        try {
            bytes = Buffer.from(translated(headers, body.toString('utf8')));
        } catch {
            /* Not ours to reject as a message. */
        }
        if ('content-length' in headers)
            headers['content-length'] = String(bytes.length);
        const inner = http.request({ host: target.hostname, port: target.port, method: request.method,
                                     path: request.url, headers, agent: false }, (answer) => {
            response.writeHead(answer.statusCode, answer.headers);
            response.flushHeaders();
            answer.pipe(response);
        });
        inner.on('error', () => response.destroy());
        response.on('close', () => inner.destroy());
        inner.end(bytes);
    };
    const door = http.createServer((request, response) => {
        const pieces = [];
        request.on('data', (piece) => pieces.push(piece));
        request.on('end', () => pass(request, response, Buffer.concat(pieces)));
    });
    await new Promise((resolve) => door.listen(0, '127.0.0.1', resolve));
    door.url = `http://127.0.0.1:${door.address().port}/mcp`;
    return door;
}

/* Watches what a transport of an SDK sends and gets; `faults` are what is wrong with the latter. */
function tap(transport, versionOf) {
    const asked = new Map();
    const seen = { faults: [], messages: [] };
    const send = transport.send.bind(transport);
    transport.send = (message, options) => {
        if ('id' in message && 'method' in message)
            asked.set(message.id, message);
        return send(message, options);
    };
    let deliver = null;
    Object.defineProperty(transport, 'onmessage', {
        get: () => deliver && ((message, extra) => {
            const request = asked.get(message.id);
            const version = message.result?.protocolVersion ?? versionOf();
            const wrong = version && mistake(message, version, request);
            if (wrong)
                seen.faults.push(`${JSON.stringify(message).slice(0, 400)}: ${wrong}`);
            seen.messages.push(message);
            deliver(message, extra);
        }),
        set: (handler) => (deliver = handler),
    });
    seen.check = () => expect(seen.faults.length === 0, `${seen.faults.length} wrong messages, the first: ${seen.faults[0]}`);
    return seen;
}

module.exports = { command, script, serveFixtures, serveHttp, tap, withToken, workspace };
