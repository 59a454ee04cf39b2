'use strict';

/* `belay acp` as a child process. Each line that it writes is checked as it comes; the messages are
 * kept, with the time, and go on to the SDK's client or to the code that waits for them here. */

const { spawn } = require('node:child_process');
const path = require('node:path');
const { PassThrough, Readable, Writable } = require('node:stream');
const { build, expect, folder, plainEnvironment } = require('../suite');
const { mistake } = require('./schema');

/* Those that a test which failed has left; they would keep this process. */
const agents = new Set();
const killAll = () => agents.forEach((agent) => agent.child.kill('SIGKILL'));
process.on('exit', killAll);

class Agent {
    constructor(words, env = {}, cwd = folder) {
        this.mark = `acp-${process.pid}-${agents.size}`;
        this.child = spawn(path.join(build, 'belay'), ['acp', ...words],
                           { cwd, env: plainEnvironment({ ...env, BELAY_INTEROP: this.mark }) });
        agents.add(this);
        this.got = [];    /* { at, message } in order */
        this.faults = []; /* of what it sent */
        this.log = '';
        this.asked = new Map();
        this.waiters = new Set();
        this.forward = new PassThrough();
        this.rest = '';
        this.nextId = 1;
        this.child.stderr.setEncoding('utf8').on('data', (text) => (this.log += text));
        this.child.stdout.setEncoding('utf8').on('data', (text) => this.take(text));
        this.child.stdout.on('end', () => this.forward.end());
        this.child.stdin.on('error', () => {});
        this.exited = new Promise((resolve) => this.child.on('close', (status, signal) => {
            this.gone = { status, signal, at: performance.now() };
            this.wake();
            resolve(this.gone);
        }));
    }

    take(text) {
        const lines = (this.rest + text).split('\n');
        this.rest = lines.pop();
        for (const line of lines)
            this.takeLine(line);
    }

    takeLine(line) {
        let message;
        try {
            message = JSON.parse(line);
        } catch {
            this.faults.push(`no JSON on standard output: ${line.slice(0, 300)}`);
            return;
        }
        const wrong = mistake(message, (id) => this.asked.get(JSON.stringify(id)));
        if (wrong)
            this.faults.push(`${line.slice(0, 400)}: ${wrong}`);
        if (!('method' in message))
            this.asked.delete(JSON.stringify(message.id));
        this.got.push({ at: performance.now(), message });
        this.forward.write(`${line}\n`);
        this.wake();
    }

    wake() {
        for (const waiter of [...this.waiters])
            waiter();
    }

    /* Writes messages, or lines as they are, in one piece. */
    send(...messages) {
        const lines = messages.map((message) => (typeof message === 'string' ? message : JSON.stringify(message)));
        this.note(lines.join('\n'));
        this.child.stdin.write(`${lines.join('\n')}\n`);
        return performance.now();
    }

    note(text) {
        for (const line of text.split('\n').filter((one) => one.includes('"method"'))) {
            try {
                const { id, method } = JSON.parse(line);
                if (id !== undefined)
                    this.asked.set(JSON.stringify(id), method);
            } catch {
                /* It was meant to be wrong. */
            }
        }
    }

    /* Waits for a message from number `from` on that fits. */
    until(fits, what, from = 0) {
        return new Promise((resolve, reject) => {
            let at = from;
            const limit = setTimeout(() => end(reject, new Error(`no ${what} came`)), 20000);
            const end = (settle, value) => {
                clearTimeout(limit);
                this.waiters.delete(look);
                settle(value);
            };
            const look = () => {
                for (; at < this.got.length; at++)
                    if (fits(this.got[at].message))
                        return end(resolve, this.got[at]);
                if (this.gone)
                    end(reject, new Error(`belay ended (${JSON.stringify(this.gone)}) before ${what}: ${this.log}`));
            };
            this.waiters.add(look);
            look();
        });
    }

    /* The answer to a request of our own, as it came: { at, message }. */
    ask(method, params, id = `r${this.nextId++}`) {
        this.send({ jsonrpc: '2.0', id, method, ...(params && { params }) });
        return this.answer(id, method);
    }

    answer(id, what = 'answer') {
        return this.until((message) => !('method' in message) && message.id === id, `answer to ${what}`);
    }

    async result(method, params) {
        const { message } = await this.ask(method, params);
        expect(message.result, `${method}: ${JSON.stringify(message.error)}`);
        return message.result;
    }

    updates(from = 0) {
        return this.got.slice(from).map(({ message }) => message)
            .filter((message) => message.method === 'session/update').map((message) => message.params.update);
    }

    update(fits, what, from = 0) {
        return this.until((message) => message.method === 'session/update' && fits(message.params.update), what, from);
    }

    /* Connects the client of the official SDK; `answerQuestion` is asked for permission. */
    async connect(answerQuestion) {
        const acp = await import('@agentclientprotocol/sdk');
        const out = new Writable({
            write: (bytes, encoding, done) => {
                this.note(bytes.toString('utf8'));
                this.child.stdin.write(bytes, done);
            },
        });
        const stream = acp.ndJsonStream(Writable.toWeb(out), Readable.toWeb(this.forward));
        this.updated = [];
        this.questions = [];
        const app = acp.client({ name: 'interop' })
            .onNotification(acp.methods.client.session.update, ({ params }) => void this.updated.push(params))
            .onRequest(acp.methods.client.session.requestPermission, (context) => {
                this.questions.push(context);
                return answerQuestion(context);
            });
        this.connection = app.connect(stream);
        this.sdk = acp;
        return this.connection.agent;
    }

    /* Nothing it sent was wrong. */
    check() {
        expect(this.faults.length === 0, `${this.faults.length} wrong messages, the first: ${this.faults[0]}`);
        expect(this.rest === '', `a line without an end: ${this.rest}`);
    }

    /* Closes standard input, and waits for the end. */
    async end() {
        this.child.stdin.end();
        const gone = await Promise.race([
            this.exited, new Promise((resolve) => setTimeout(resolve, 10000, null).unref())]);
        if (!gone)
            this.child.kill('SIGKILL');
        agents.delete(this);
        expect(gone, 'it does not end');
        this.check();
        return gone;
    }
}

module.exports = { Agent, killAll };
