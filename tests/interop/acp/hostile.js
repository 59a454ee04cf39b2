'use strict';

/* A client that keeps to no order and no form: belay answers with an error or says nothing, and lives. */

const { expect, expectEqual, sleep, step, test } = require('../suite');
const { Agent, killAll } = require('./agent');
const { firstKinds, mistakeIn } = require('./schema');
const { provider, store, workspace } = require('./script');

const environment = { BELAY_STORE: store };
const start = (...words) => new Agent([...provider, ...words], environment);
const text = (words) => [{ type: 'text', text: words }];
const notification = (method, params) => ({ jsonrpc: '2.0', method, params });
const request = (id, method, params) => ({ jsonrpc: '2.0', id, method, params });

async function started(...words) {
    const agent = start(...words);
    await agent.result('initialize', { protocolVersion: 1 });
    return agent;
}

const newSession = async (agent) =>
    (await agent.result('session/new', { cwd: workspace, mcpServers: [] })).sessionId;

const codeOf = async (agent, method, params) => (await agent.ask(method, params)).message.error?.code;

test('A1 the check itself refuses what is not in the schema', () => {
    expect(mistakeIn('PromptResponse', { stopReason: 'tired' }), 'an unknown stopReason');
    expect(mistakeIn('PromptResponse', { stopReason: 'end_turn', usage: {} }), 'an unknown member');
    const chunk = { sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: '' }, messageID: 'm' };
    expect(mistakeIn('SessionNotification', { sessionId: 's', update: chunk }), 'a member written wrongly');
});

test('A3 initialize with other versions; another method first', async () => {
    for (const protocolVersion of [0, 1, 2, 65535]) {
        const agent = start();
        expectEqual(await codeOf(agent, 'session/new', { cwd: workspace, mcpServers: [] }), -32600, 'before initialize');
        const answer = await agent.result('initialize', { protocolVersion });
        expectEqual(answer.protocolVersion, 1, `version ${protocolVersion}`);
        expectEqual((await agent.end()).status, 0, 'exit code');
    }
});

test('A12 a prompt and its cancel in one write', async () => {
    const agent = await started();
    const sessionId = await newSession(agent);
    for (let round = 0; round < 20; round++) {
        const id = `p${round}`;
        const from = agent.got.length;
        agent.send(request(id, 'session/prompt', { sessionId, prompt: text('silent') }),
                   notification('session/cancel', { sessionId }));
        const { message } = await agent.answer(id);
        expectEqual(message.result?.stopReason, 'cancelled', `round ${round}: ${JSON.stringify(message.error)}`);
        const chunks = agent.updates(from).filter((update) => update.sessionUpdate === 'agent_message_chunk');
        expectEqual(chunks, [], 'what the model said');
    }
    expectEqual((await agent.ask('session/prompt', { sessionId, prompt: text('hello') })).message.result?.stopReason,
                'end_turn', 'the next prompt');
    await agent.end();
});

test('A8 exactly one answer to each prompt, cancelled at random moments, and silence after it', async () => {
    const agent = await started();
    const sessions = [];
    for (let i = 0; i < 5; i++)
        sessions.push({ sessionId: await newSession(agent), silentFrom: Infinity });
    await sleep(100); /* what their opening has to say */
    /* From the answer on, until the session is used again, or for two seconds. */
    const expectSilence = ({ sessionId, silentFrom }) =>
        expectEqual(agent.got.slice(silentFrom).filter(({ message }) => message.params?.sessionId === sessionId), [],
                    'messages after the answer');
    const stops = new Map();
    for (let round = 0; round < 30; round++) {
        const id = `p${round}`;
        const session = sessions[round % sessions.length];
        const { sessionId } = session;
        expectSilence(session);
        agent.send(request(id, 'session/prompt', { sessionId, prompt: text('slowly') }));
        await sleep((round * 13) % 260);
        agent.send(round % 2 ? notification('session/cancel', { sessionId }) :
            notification('$/cancel_request', { requestId: id }));
        const answer = await agent.answer(id);
        expect(answer.message.result, `an error for a cancel: ${JSON.stringify(answer.message.error)}`);
        const { stopReason } = answer.message.result;
        stops.set(stopReason, (stops.get(stopReason) ?? 0) + 1);
        session.silentFrom = agent.got.indexOf(answer) + 1;
    }
    await sleep(2000);
    sessions.forEach(expectSilence);
    for (let round = 0; round < 30; round++)
        expectEqual(agent.got.filter(({ message }) => message.id === `p${round}` && !message.method).length, 1, 'answers');
    expect((stops.get('cancelled') ?? 0) >= 15, `ends: ${JSON.stringify([...stops])}`);
    await agent.end();
});

test('A30 lines that are not messages', async () => {
    const agent = await started();
    const errors = async (line, code, id = null) => {
        const from = agent.got.length;
        agent.send(line);
        const { message } = await agent.until((one) => 'error' in one, `error for ${line.slice(0, 60)}`, from);
        expectEqual([message.error.code, message.id], [code, id], line.slice(0, 60));
    };
    await errors('this is not JSON', -32700);
    await errors('{"jsonrpc":"2.0","id":1,', -32700);
    await errors('['.repeat(200) + ']'.repeat(200), -32700);
    await errors(`{"jsonrpc":"2.0","id":1,"method":"session/list","params":{"cursor":"${'x'.repeat(17 << 20)}"}}`, -32700);
    await errors('[{"jsonrpc":"2.0","id":1,"method":"session/list"}]', -32600);
    await errors('{"jsonrpc":"2.0","id":"m","method":7}', -32600, 'm');
    agent.send('', '{"jsonrpc":"2.0","id":"nobody","result":{}}',
               notification('no/such/notification', { a: 1 }), notification('session/cancel', { sessionId: 'nobody' }),
               notification('$/cancel_request', { requestId: 'nobody' }), notification('session/cancel', { a: 1 }));
    expectEqual(await codeOf(agent, 'no/such/method', {}), -32601, 'an unknown method');
    const sessionId = await newSession(agent);
    agent.send(request('same', 'session/prompt', { sessionId, prompt: text('silent') }));
    await sleep(50);
    const from = agent.got.length;
    agent.send(request('same', 'session/list', {}));
    const double = await agent.until((message) => 'error' in message, 'error for the second', from);
    expectEqual([double.message.error.code, double.message.id], [-32600, 'same'], 'an id twice');
    agent.asked.set('"same"', 'session/prompt');
    agent.send(notification('session/cancel', { sessionId }));
    const end = await agent.until((message) => message.result?.stopReason, 'answer to the first');
    expectEqual(end.message.id, 'same', 'the first lives');
    await agent.end();
});

test('A30 parameters that do not fit name their path', async () => {
    const agent = await started();
    const sessionId = await newSession(agent);
    const cases = [
        ['session/new', { mcpServers: [] }, 'cwd'],
        ['session/new', { cwd: 'not/absolute', mcpServers: [] }, 'cwd'],
        ['session/new', { cwd: '/no/such/folder', mcpServers: [] }, 'cwd'],
        ['session/new', { cwd: workspace, mcpServers: [{ name: 'x' }] }, 'mcpServers'],
        ['session/prompt', { sessionId }, 'prompt'],
        ['session/prompt', { sessionId, prompt: 'hello' }, 'prompt'],
        ['session/prompt', { sessionId, prompt: [] }, 'prompt'],
        ['session/prompt', { sessionId, prompt: [{ type: 'audio', data: '', mimeType: 'audio/wav' }] }, 'prompt'],
        ['session/set_mode', { sessionId, modeId: 7 }, 'modeId'],
        ['session/list', { cursor: 'bad' }, 'cursor'],
    ];
    for (const [method, params, where] of cases) {
        const { message } = await agent.ask(method, params);
        const what = `${method} ${JSON.stringify(params)}`;
        expectEqual(message.error?.code, -32602, `${what}: ${JSON.stringify(message)}`);
        expect(JSON.stringify(message.error.data ?? null).includes(where), `${what}: ${JSON.stringify(message.error)}`);
    }
    const nobody = await agent.ask('session/prompt', { sessionId: 'nobody', prompt: text('hello') });
    expect([-32002, -32602].includes(nobody.message.error?.code), `an unknown session: ${JSON.stringify(nobody.message)}`);
    await agent.end();
});

test('hostile: answers to questions that were never asked, twice, or of the wrong kind', async () => {
    const agent = await started('--permission-mode', 'ask');
    const sessionId = await newSession(agent);
    agent.send(request('p1', 'session/prompt', { sessionId, prompt: text('write-rejected') }));
    const { message } = await agent.until((one) => one.method === 'session/request_permission', 'question');
    const answer = (result) => ({ jsonrpc: '2.0', id: message.id, result });
    agent.send(answer({ outcome: 'yes' }), answer({ outcome: { outcome: 'selected', optionId: 'allow_once' } }));
    const { message: end } = await agent.answer('p1');
    expectEqual(end.result?.stopReason, 'end_turn', 'the end');
    const last = agent.updates().filter((update) => update.sessionUpdate === 'tool_call_update').at(-1);
    expectEqual(last.status, 'failed', 'an answer of no form is a no, and the second one is dropped');
    await agent.end();
});

test('A22 a deadline of its own: -32800 with stop_reason timeout', async () => {
    const agent = await started('--timeout', '300ms');
    const sessionId = await newSession(agent);
    const { message } = await agent.ask('session/prompt', { sessionId, prompt: text('silent') });
    expectEqual([message.error?.code, message.error?.data?.stop_reason], [-32800, 'timeout'], JSON.stringify(message));
    await agent.end();
});

test('A21 --minimal sends only the first kinds of updates', async () => {
    const agent = await started('--minimal', '--yolo');
    const sessionId = await newSession(agent);
    for (const words of ['hello', 'plans', 'edits', 'speaks'])
        await agent.result('session/prompt', { sessionId, prompt: text(words) });
    const others = agent.updates().map((update) => update.sessionUpdate).filter((kind) => !firstKinds.includes(kind));
    expectEqual(others, [], 'kinds');
    await agent.end();
});

test('no key: authMethods names it, a prompt is -32000', async () => {
    const agent = new Agent(['--provider', 'anthropic', '--model', 'claude-x'], environment);
    const answer = await agent.result('initialize', { protocolVersion: 1 });
    expect(JSON.stringify(answer.authMethods).includes('ANTHROPIC_API_KEY'), JSON.stringify(answer.authMethods));
    const { message } = await agent.ask('session/new', { cwd: workspace, mcpServers: [] });
    const code = message.error?.code ??
        await codeOf(agent, 'session/prompt', { sessionId: message.result.sessionId, prompt: text('hello') });
    expectEqual(code, -32000, 'code');
    await agent.end();
});

step(killAll);
