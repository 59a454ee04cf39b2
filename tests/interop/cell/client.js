'use strict';

/* A client of a cell host, as anybody could write it from docs/schemas/cell: frames, requests and
 * their replies, nested calls, notifies. `checkSent` and `checkReceived` get each frame that goes
 * out and comes in, and throw where one does not fit. */

const { spawn } = require('node:child_process');
const net = require('node:net');

const HEAD_SIZE = 4;

class Refused extends Error {
    constructor(op, err) {
        super(`${op}: ${err.code}: ${err.message}`);
        this.err = err;
    }
}

class CellClient {
    #input;
    #output;
    #checks;
    #received = Buffer.alloc(0);
    #nextId = 1;
    #pending = new Map();
    #greeting = null;
    #tools = new Map();
    #calls = new Map();
    #failure = null;

    /* What came besides replies. */
    frames = { tool_call: [], tool_cancel: [], notify: [], ended: [], bye: [] };
    received = 0;

    constructor(input, output, checks) {
        this.#input = input;
        this.#output = output;
        this.#checks = checks;
        this.closed = new Promise((resolve) => input.once('close', resolve));
        input.on('data', (bytes) => this.#take(bytes));
        input.once('close', () => this.#fail(new Error('the connection is closed')));
        input.on('error', (error) => this.#fail(error));
        output.on('error', (error) => this.#fail(error));
    }

    static connect(socketPath, checks) {
        return new Promise((resolve, reject) => {
            const socket = net.connect(socketPath);
            socket.once('error', reject);
            socket.once('connect', () => {
                socket.off('error', reject);
                resolve(new CellClient(socket, socket, checks));
            });
        });
    }

    static spawn(program, words, options, checks) {
        const child = spawn(program, words, { ...options, stdio: ['pipe', 'pipe', 'pipe'] });
        const client = new CellClient(child.stdout, child.stdin, checks);
        client.log = '';
        child.stderr.setEncoding('utf8').on('data', (text) => (client.log += text));
        client.exited = new Promise((resolve, reject) => {
            child.once('error', reject);
            child.once('close', (status, signal) => resolve({ status, signal }));
        });
        return client;
    }

    /* ---- Frames ----------------------------------------------------------------------------- */

    #send(frame) {
        if (this.#failure)
            throw this.#failure;
        this.#checks.checkSent('frame', frame);
        const body = Buffer.from(JSON.stringify(frame), 'utf8');
        const head = Buffer.alloc(HEAD_SIZE);
        head.writeUInt32BE(body.length);
        this.#output.write(Buffer.concat([head, body]));
    }

    #take(bytes) {
        this.#received = Buffer.concat([this.#received, bytes]);
        while (this.#received.length >= HEAD_SIZE) {
            const size = this.#received.readUInt32BE(0);
            if (this.#received.length < HEAD_SIZE + size)
                return;
            const body = this.#received.subarray(HEAD_SIZE, HEAD_SIZE + size);
            this.#received = this.#received.subarray(HEAD_SIZE + size);
            try {
                this.#dispatch(new TextDecoder('utf-8', { fatal: true }).decode(body));
            } catch (error) {
                this.#fail(error);
                this.#input.destroy();
                return;
            }
        }
    }

    #dispatch(text) {
        const frame = JSON.parse(text);
        this.#checks.checkReceived('frame', frame);
        this.#checks.checkReceived(frame.type, frame);
        this.received++;
        switch (frame.type) {
        case 'ready':
        case 'rejected':
            if (!this.#greeting)
                throw new Error(`${frame.type} before hello`);
            this.#greeting.resolve(frame);
            this.#greeting = null;
            break;
        case 'reply':
            this.#settle(frame, text);
            break;
        case 'tool_call':
            this.frames.tool_call.push(frame);
            this.#call(frame);
            break;
        case 'tool_cancel':
            this.frames.tool_cancel.push(frame);
            this.#calls.get(`${frame.session_id}/${frame.cell_id}/${frame.call_id}`)?.abort.abort();
            break;
        case 'notify':
            this.frames.notify.push(frame);
            this.#send({ type: 'notify_ack', session_id: frame.session_id, cell_id: frame.cell_id, seq: frame.seq });
            break;
        case 'ended':
        case 'bye':
            this.frames[frame.type].push(frame);
            break;
        default:
            throw new Error(`a host does not send ${frame.type}`);
        }
    }

    #fail(error) {
        this.#failure ??= error;
        this.#greeting?.reject(this.#failure);
        this.#greeting = null;
        for (const { reject } of this.#pending.values())
            reject(this.#failure);
        this.#pending.clear();
    }

    /* ---- Requests --------------------------------------------------------------------------- */

    hello(client, { versions = [1], requires = [], wants = ['tools', 'notify'] } = {}) {
        return new Promise((resolve, reject) => {
            this.#greeting = { resolve, reject };
            this.#send({ type: 'hello', client, versions, requires, wants });
        });
    }

    /* The `ok` of its reply, with the text of it in the symbol `CellClient.text`. */
    request(op, args) {
        const id = this.#nextId++;
        const answer = new Promise((resolve, reject) => {
            this.#pending.set(id, { op, resolve, reject });
        });
        try {
            this.#send({ type: 'request', id, op, args });
        } catch (error) {
            this.#pending.get(id)?.reject(error);
        }
        answer.id = id;
        return answer;
    }

    cancel(id) {
        this.#send({ type: 'cancel', id });
    }

    static text = Symbol('the bytes of an answer');

    #settle(frame, text) {
        const request = this.#pending.get(frame.id);
        if (!request || request.op !== frame.op)
            throw new Error(`a reply to nothing: ${text}`);
        this.#pending.delete(frame.id);
        if (frame.err) {
            request.reject(new Refused(frame.op, frame.err));
            return;
        }
        frame.ok[CellClient.text] = text.slice(text.indexOf('"ok":'));
        request.resolve(frame.ok);
    }

    /* ---- Nested calls ----------------------------------------------------------------------- */

    /* `run(input, signal)` gives the result, or throws; `kind` of what is thrown says why. */
    serve(name, run) {
        this.#tools.set(name, run);
    }

    async #call(frame) {
        const { session_id, cell_id, call_id } = frame;
        const key = `${session_id}/${cell_id}/${call_id}`;
        const known = this.#calls.get(key);
        if (!known)
            this.#calls.set(key, { abort: new AbortController(), result: null });
        const call = this.#calls.get(key);
        call.result ??= this.#run(frame, call.abort.signal);
        const result = await call.result;
        if (!this.#failure)
            this.#send({ type: 'tool_result', session_id, cell_id, call_id, ...result });
    }

    async #run(frame, signal) {
        /* It may have been run by a client before this one, of which there are no records. */
        if (frame.redelivered)
            return { err: { kind: 'indeterminate', message: 'it may have run' } };
        const run = this.#tools.get(frame.tool);
        if (!run)
            return { err: { kind: 'unavailable', message: `no tool is called ${frame.tool}` } };
        try {
            return { ok: (await run(frame.input, signal)) ?? null };
        } catch (error) {
            return { err: { kind: error.kind ?? 'failed', message: String(error.message) } };
        }
    }

    /* ---- The end ---------------------------------------------------------------------------- */

    end() {
        this.#output.end();
        return this.closed;
    }
}

module.exports = { CellClient, Refused };
