'use strict';

/* The client of the official SDK against `belay acp`: what an editor does, in all orders. */

const fs = require('node:fs');
const path = require('node:path');
const { expect, expectEqual, expectValid, folder, marked, sleep, step, test } = require('../suite');
const { Agent, killAll } = require('./agent');
const { provider, workspace, store, toolFile } = require('./script');

const allow = { outcome: { outcome: 'selected', optionId: 'allow_once' } };
const choose = (optionId) => ({ outcome: { outcome: 'selected', optionId } });
const text = (words) => [{ type: 'text', text: words }];

/* What answers questions, as the test at hand has it. */
let answerQuestion = () => allow;
let agent = null;
let editor = null;
let opened = null;

const newSession = () => editor.request('session/new', { cwd: workspace, mcpServers: [] });
const prompt = (sessionId, words, options) =>
    editor.request('session/prompt', { sessionId, prompt: text(words) }, options);
const cancel = (sessionId) => editor.notify('session/cancel', { sessionId });

const updatesOf = (sessionId, from = 0) => agent.updated.slice(from)
    .filter((one) => one.sessionId === sessionId).map((one) => one.update);
const kinds = (updates, ...names) => updates.filter((update) => names.includes(update.sessionUpdate));
const said = (updates) => kinds(updates, 'agent_message_chunk').map((update) => update.content.text).join('');

async function failureOf(promise) {
    try {
        await promise;
    } catch (error) {
        return error;
    }
    throw new Error('it did not fail');
}

/* The answer to a cancelled prompt: never an error, with a receipt that is in the store as well. */
function expectCancelled(answer) {
    expectEqual(answer.stopReason, 'cancelled', 'stopReason');
    expectEqual(answer._meta['belay/stop_reason'], 'cancelled', 'belay/stop_reason');
    const receipt = answer._meta['belay/receipt'];
    expectValid('receipt', receipt);
    expectEqual([receipt.reason, receipt.origin, receipt.survivors], ['user', 'acp', 0], 'receipt');
    return receipt;
}

/* After the answer nothing more comes for that session. */
async function expectQuiet(sessionId, answered) {
    await sleep(300);
    const late = agent.got.filter(({ at, message }) => at > answered && message.params?.sessionId === sessionId);
    expectEqual(late.map(({ message }) => message), [], 'messages after the answer');
}

const answeredAt = () => agent.got.findLast(({ message }) => message.result?.stopReason).at;

test('A2 sdk: initialize', async () => {
    agent = new Agent([...provider, '--permission-mode', 'ask'], { BELAY_STORE: store });
    editor = await agent.connect((context) => answerQuestion(context));
    const answer = await editor.request('initialize', {
        protocolVersion: 1, clientInfo: { name: 'interop', version: '1' },
        clientCapabilities: { fs: { readTextFile: true, writeTextFile: true }, terminal: true },
    });
    expectEqual([answer.protocolVersion, answer.agentInfo.name, answer.authMethods], [1, 'belay', []], 'initialize');
    const { loadSession, promptCapabilities, mcpCapabilities, sessionCapabilities } = answer.agentCapabilities;
    expectEqual([loadSession, promptCapabilities.embeddedContext, promptCapabilities.audio], [true, true, false], 'prompts');
    expectEqual([mcpCapabilities.http, mcpCapabilities.sse], [true, false], 'servers');
    expectEqual(Object.keys(sessionCapabilities).sort(), ['additionalDirectories', 'close', 'delete', 'list', 'resume'],
                'sessions');
});

test('A2 sdk: a session, its modes and options', async () => {
    opened = await newSession();
    expectEqual(opened.modes.availableModes.map((mode) => mode.id), ['ask', 'auto', 'read-only', 'plan', 'yolo'], 'modes');
    expectEqual(opened.modes.currentModeId, 'ask', 'mode');
    /* A script does not think: it has no thought_level. */
    expectEqual(opened.configOptions.map((option) => option.id), ['mode', 'model', '_belay_timeout'], 'options');
});

test('A2 sdk: a prompt with thoughts and text in pieces', async () => {
    const { sessionId } = opened;
    const answer = await prompt(sessionId, 'hello');
    expectEqual([answer.stopReason, answer._meta['belay/stop_reason']], ['end_turn', 'completed'], 'the end');
    for (const member of ['belay/turn', 'belay/usage', 'belay/background'])
        expect(member in answer._meta, `no ${member}`);
    const updates = updatesOf(sessionId);
    expectEqual(said(updates), 'Hello there, all of you.', 'text');
    expectEqual(kinds(updates, 'agent_thought_chunk').map((update) => update.content.text).join(''), 'A greeting.',
                'thoughts');
    expect(kinds(updates, 'agent_message_chunk', 'agent_thought_chunk').every((update) => update.messageId),
           'a chunk without messageId');
});

test('A2 sdk: content that is not text: a link, a resource, an image', async () => {
    const { sessionId } = opened;
    const answer = await editor.request('session/prompt', { sessionId, prompt: [
        { type: 'text', text: 'hello' },
        { type: 'resource_link', uri: 'file:///tmp/a.txt', name: 'a.txt' },
        { type: 'resource', resource: { uri: 'file:///tmp/b.txt', text: 'what b holds', mimeType: 'text/plain' } },
    ] });
    expect(['end_turn', 'refusal'].includes(answer.stopReason), answer.stopReason);
});

async function withTool(words, answering) {
    const { sessionId } = opened;
    const from = agent.updated.length;
    agent.questions.length = 0;
    answerQuestion = answering;
    const answer = await prompt(sessionId, words);
    return { answer, updates: updatesOf(sessionId, from), sessionId };
}

const states = (updates) => kinds(updates, 'tool_call', 'tool_call_update')
    .map((update) => update.status).filter((status, index, all) => status && status !== all[index - 1]);

test('A2 sdk: a question, allowed once', async () => {
    const { answer, updates } = await withTool('write-allowed', () => allow);
    expectEqual([answer.stopReason, said(updates)], ['end_turn', 'As told.'], 'the end');
    const [question] = agent.questions;
    expectEqual(question.params.options.map((option) => option.kind).sort(),
                ['allow_always', 'allow_once', 'reject_always', 'reject_once'], 'options');
    expectEqual([question.params.toolCall.kind, question.params.toolCall.rawInput.command],
                ['execute', `touch ${toolFile('allowed')}`], 'what is asked');
    expectEqual(states(updates), ['pending', 'in_progress', 'completed'], 'states of the call');
    expectEqual(fs.existsSync(path.join(workspace, toolFile('allowed'))), true, 'the file');
});

test('A2 sdk: a question, rejected; answered with nonsense; answered with an error', async () => {
    const answers = {
        rejected: () => choose('reject_once'), nonsense: () => choose('no_such_option'),
        failed: () => { throw new Error('no'); }, dismissed: () => ({ outcome: { outcome: 'cancelled' } }),
    };
    for (const [name, answering] of Object.entries(answers)) {
        const { answer, updates } = await withTool(`write-${name}`, answering);
        const wanted = name === 'dismissed' ? ['end_turn', 'cancelled'] : ['end_turn'];
        expect(wanted.includes(answer.stopReason), `${name}: ${answer.stopReason}`);
        expectEqual(states(updates).at(-1), 'failed', `${name}: the last state of the call`);
        expectEqual(fs.existsSync(path.join(workspace, toolFile(name))), false, `${name}: the file`);
    }
});

test('A2 sdk: a question, allowed always, is not asked again', async () => {
    await withTool('write-always', () => choose('allow_always'));
    expectEqual(agent.questions.length, 1, 'questions');
    await withTool('write-always', () => choose('reject_once'));
    expectEqual(agent.questions.length, 0, 'questions the second time');
});

test('A1 what a tool prints reaches standard output only inside an update', async () => {
    const { answer, updates } = await withTool('speaks', () => allow);
    expectEqual(answer.stopReason, 'end_turn', 'the end');
    expect(JSON.stringify(kinds(updates, 'tool_call_update')).includes('forged by a tool'), 'its output is not shown');
    expect(!said(updates).includes('forged'), 'it became text of the model');
    expect(!agent.got.some(({ message }) => message.params?.sessionId === 'forged' || message.id === 'forged'), 'forged');
});

test('A2 sdk: a plan, and an edit as a diff', async () => {
    const { updates } = await withTool('plans', () => allow);
    const [plan] = kinds(updates, 'plan');
    expectEqual(plan?.entries.map((entry) => [entry.content, entry.status]),
                [['look', 'completed'], ['fix', 'in_progress']], 'plan');
    const edited = await withTool('edits', () => allow);
    /* The newest content is what a client shows. */
    const shown = kinds(edited.updates, 'tool_call', 'tool_call_update').findLast((update) => update.content)?.content;
    const diff = shown?.find((content) => content.type === 'diff');
    expectEqual([diff?.newText, diff?.path], ['new words\n', path.join(workspace, 'edited.txt')],
                `diff: ${JSON.stringify(shown)}`);
});

/* ---- Cancel ----------------------------------------------------------------------------------- */

/* Prompts, waits until `ready` and cancels; how long the answer took, too. */
async function cancelled(words, ready, stop = cancel) {
    const { sessionId } = await newSession();
    const from = agent.got.length;
    const pending = prompt(sessionId, words);
    pending.catch(() => {});
    await ready(sessionId, from);
    const asked = performance.now();
    await stop(sessionId, from);
    const answer = await pending;
    const answered = answeredAt();
    const left = marked(agent.mark);
    return { answer, sessionId, took: answered - asked, answered, left, from };
}

const inModel = async () => sleep(100);
const inText = (sessionId, from) => agent.update((update) => update.sessionUpdate === 'agent_message_chunk', 'text', from);
const inTool = (sessionId, from) => agent.update((update) => update.status === 'in_progress', 'tool', from);

const phases = { 'a silent model': ['silent', inModel], 'the middle of a text': ['half', inText] };
for (const [name, [words, ready]] of Object.entries(phases)) {
    test(`A5 sdk: session/cancel in ${name}`, async () => {
        const { answer, sessionId, took, answered } = await cancelled(words, ready);
        const receipt = expectCancelled(answer);
        expect(receipt.units.some((unit) => unit.kind === 'model'), 'no model in the receipt');
        expect(took < 300, `${took.toFixed(1)} ms`);
        await expectQuiet(sessionId, answered);
    });
    test(`A14 sdk: $/cancel_request in ${name}`, async () => {
        const { sessionId } = await newSession();
        const from = agent.got.length;
        const stop = new AbortController();
        const pending = prompt(sessionId, words, { cancellationSignal: stop.signal });
        pending.catch(() => {});
        await ready(sessionId, from);
        stop.abort();
        expectCancelled(await pending);
    });
}

test('A6 sdk: session/cancel with a tree of processes: none is left when the answer comes', async () => {
    answerQuestion = () => allow;
    const settled = async (sessionId, from) => {
        await inTool(sessionId, from);
        for (let tries = 0; tries < 500 && marked(agent.mark) < 6; tries++)
            await sleep(10);
    };
    const { answer, sessionId, took, answered, left, from } = await cancelled('tree', settled);
    const receipt = expectCancelled(answer);
    expect(receipt.units.some((unit) => unit.kind === 'tool' && unit.processes > 1), 'no tool in the receipt');
    expectEqual(left, 1, 'processes with the marker, belay itself included,');
    expect(took < 2500, `${took.toFixed(1)} ms`);
    const ends = kinds(agent.updates(from), 'tool_call_update').filter((update) =>
        ['completed', 'failed'].includes(update.status));
    expectEqual(ends.map((update) => [update.status, '_meta' in update && 'belay/fate' in update._meta]),
                [['failed', true]], 'final states');
    await expectQuiet(sessionId, answered);
});

test('A10 sdk: session/cancel in an unanswered question; a late yes runs nothing', async () => {
    let say;
    answerQuestion = () => new Promise((resolve) => (say = resolve));
    agent.questions.length = 0;
    const asks = async (sessionId, from) =>
        agent.until((message) => message.method === 'session/request_permission', 'question', from);
    const { answer, sessionId, took, answered, from } = await cancelled('write-late', asks);
    expectCancelled(answer);
    expect(took < 300, `${took.toFixed(1)} ms`);
    const question = agent.got.slice(from).find(({ message }) => message.method === 'session/request_permission');
    expectEqual(agent.got.slice(from).filter(({ message }) => message.method === '$/cancel_request')
        .map(({ message }) => message.params.requestId), [question.message.id], 'questions taken back');
    expectEqual(agent.questions[0].signal?.aborted ?? true, true, 'the signal of the SDK');
    say(allow);
    await expectQuiet(sessionId, answered);
    expectEqual(fs.existsSync(path.join(workspace, toolFile('late'))), false, 'the file');
    answerQuestion = () => allow;
});

test('A11 sdk: session/cancel without a turn, then a prompt', async () => {
    const { sessionId } = await newSession();
    await cancel(sessionId);
    await cancel(sessionId);
    expectEqual((await prompt(sessionId, 'hello')).stopReason, 'end_turn', 'the end');
    await cancel(sessionId);
    expectEqual((await prompt(sessionId, 'hello')).stopReason, 'end_turn', 'the end, again');
});

test('sdk: a prompt while a turn runs is refused, after a cancel it waits', async () => {
    const { sessionId } = await newSession();
    const first = prompt(sessionId, 'silent');
    first.catch(() => {});
    await sleep(100);
    const refused = await failureOf(prompt(sessionId, 'hello'));
    expectEqual(refused.code, -32600, 'code');
    expect(JSON.stringify([refused.message, refused.data]).includes('turn_running'), JSON.stringify(refused));
    await cancel(sessionId);
    const second = prompt(sessionId, 'hello');
    expectEqual((await first).stopReason, 'cancelled', 'the first');
    expectEqual((await second).stopReason, 'end_turn', 'the second');
});

test('A20 sdk: sixteen sessions at once, one of them is cancelled', async () => {
    const sessions = await Promise.all(Array.from({ length: 16 }, newSession));
    const [one, ...others] = sessions;
    const doomed = prompt(one.sessionId, 'silent');
    const slow = others.map(({ sessionId }) => prompt(sessionId, 'slowly'));
    await sleep(50);
    await cancel(one.sessionId);
    expectCancelled(await doomed);
    const answers = await Promise.all(slow);
    expectEqual([...new Set(answers.map((answer) => answer.stopReason))], ['end_turn'], 'the others');
    for (const { sessionId } of others)
        expectEqual(said(updatesOf(sessionId)), 'one two three four five six seven eight', 'their text');
});

/* ---- Modes, options, our own methods ---------------------------------------------------------- */

test('A28 sdk: set_mode and set_config_option keep both views in step', async () => {
    const { sessionId, modes } = await newSession();
    const readOnly = modes.availableModes.find((mode) => mode.id === 'read-only');
    expect(readOnly, 'no mode read-only');
    let from = agent.updated.length;
    await editor.request('session/set_mode', { sessionId, modeId: 'read-only' });
    const { configOptions } = await editor.request('session/set_config_option',
                                                   { sessionId, configId: '_belay_timeout',
                                                     value: opened.configOptions.at(-1).currentValue });
    expectEqual(configOptions.find((option) => option.id === 'mode').currentValue, 'read-only', 'the other view');
    from = agent.updated.length;
    await editor.request('session/set_config_option', { sessionId, configId: 'mode', value: 'ask' });
    await sleep(50);
    const told = kinds(updatesOf(sessionId, from), 'current_mode_update');
    expectEqual(told.map((update) => update.currentModeId), ['ask'], 'current_mode_update');
    expectEqual((await failureOf(editor.request('session/set_mode', { sessionId, modeId: 'dance' }))).code, -32602,
                'an unknown mode');
    const bad = editor.request('session/set_config_option', { sessionId, configId: 'dance', value: 'x' });
    expectEqual((await failureOf(bad)).code, -32602, 'an unknown option');
});

test('A29 sdk: _belay/inject, _belay/ps and _belay/cancel', async () => {
    answerQuestion = () => allow;
    const { sessionId } = await newSession();
    const from = agent.got.length;
    const pending = prompt(sessionId, 'long-tool');
    pending.catch(() => {});
    const { message } = await inTool(sessionId, from);
    const call = message.params.update.toolCallId;
    const listed = await editor.request('_belay/ps', {});
    expect(JSON.stringify(listed).includes(call), `no ${call} in ${JSON.stringify(listed)}`);
    await editor.request('_belay/inject', { sessionId, prompt: text('and quickly') });
    const answer = await editor.request('_belay/cancel', { id: call });
    expect(JSON.stringify(answer).includes('rcp_'), `no receipt in ${JSON.stringify(answer)}`);
    expectEqual((await pending).stopReason, 'end_turn', 'the turn goes on');
    expectEqual(kinds(agent.updates(from), 'user_message_chunk').map((update) => update.content.text), ['and quickly'],
                'what was injected');
});

/* ---- Sessions --------------------------------------------------------------------------------- */

test('A23 sdk: load replays the session before its answer, resume does not', async () => {
    const { sessionId } = opened;
    await editor.request('session/close', { sessionId });
    let from = agent.updated.length;
    const loaded = await editor.request('session/load', { sessionId, cwd: workspace, mcpServers: [] });
    const replayed = updatesOf(sessionId, from);
    expectEqual(loaded.modes.currentModeId, 'ask', 'mode');
    expectEqual(kinds(replayed, 'user_message_chunk')[0].content.text, 'hello', 'the first prompt');
    expect(said(replayed).startsWith('Hello there, all of you.'), 'the first answer');
    expectEqual(kinds(replayed, 'agent_thought_chunk')[0]?.content.text, 'A greeting.', 'the first thought');
    const calls = kinds(replayed, 'tool_call', 'tool_call_update');
    const last = new Map(calls.map((update) => [update.toolCallId, update.status]));
    expect(last.size >= 5 && [...last.values()].every((status) => ['completed', 'failed'].includes(status)),
           `final states: ${JSON.stringify([...last])}`);
    expectEqual((await prompt(sessionId, 'hello')).stopReason, 'end_turn', 'a prompt after load');
    await editor.request('session/close', { sessionId });
    from = agent.updated.length;
    await editor.request('session/resume', { sessionId, cwd: workspace, mcpServers: [] });
    const chunks = ['user_message_chunk', 'agent_message_chunk', 'agent_thought_chunk', 'tool_call', 'tool_call_update'];
    expectEqual(kinds(updatesOf(sessionId, from), ...chunks), [], 'what resume replays');
});

test('A24 sdk: a cancelled turn is in the history after load, and the session goes on', async () => {
    const { answer, sessionId } = await cancelled('half', inText);
    expectCancelled(answer);
    await editor.request('session/close', { sessionId });
    const from = agent.updated.length;
    await editor.request('session/load', { sessionId, cwd: workspace, mcpServers: [] });
    expectEqual(kinds(updatesOf(sessionId, from), 'user_message_chunk').map((update) => update.content.text), ['half'],
                'what is kept');
    expectEqual((await prompt(sessionId, 'hello')).stopReason, 'end_turn', 'the next prompt');
});

test('sdk: load of what is not there, of another folder, of what is open elsewhere', async () => {
    const load = (sessionId, cwd) => failureOf(editor.request('session/load', { sessionId, cwd, mcpServers: [] }));
    expectEqual((await load('no-such-session', workspace)).code, -32002, 'unknown');
    const { sessionId } = await newSession();
    await prompt(sessionId, 'hello');
    const other = new Agent([...provider], { BELAY_STORE: store });
    await other.result('initialize', { protocolVersion: 1 });
    const { message } = await other.ask('session/load', { sessionId, cwd: workspace, mcpServers: [] });
    expectEqual([message.error?.code, typeof message.error?.data?.reason], [-32602, 'string'], 'open elsewhere');
    await editor.request('session/close', { sessionId });
    const moved = await other.ask('session/load', { sessionId, cwd: folder, mcpServers: [] });
    expectEqual([moved.message.error?.code, typeof moved.message.error?.data?.reason], [-32602, 'string'], 'another cwd');
    await other.result('session/load', { sessionId, cwd: workspace, mcpServers: [] });
    expectEqual((await other.end()).status, 0, 'exit code');
});

test('A25 sdk: list, by folder and by pages; close and delete', async () => {
    const { sessions } = await editor.request('session/list', { cwd: workspace });
    expect(sessions.length >= 10, `${sessions.length} sessions`);
    expect(sessions.every((session) => session.cwd === workspace), 'another cwd');
    expectEqual((await editor.request('session/list', { cwd: '/' })).sessions, [], 'of another folder');
    expectEqual((await failureOf(editor.request('session/list', { cursor: 'bad' }))).code, -32602, 'a bad cursor');
    const { sessionId } = await newSession();
    await prompt(sessionId, 'hello');
    expectEqual((await editor.request('session/list', {})).sessions[0].sessionId, sessionId, 'the newest');
    expect((await failureOf(editor.request('session/delete', { sessionId }))).code < 0, 'a session in use is deleted');
    await editor.request('session/close', { sessionId });
    await editor.request('session/delete', { sessionId });
    const { sessions: after } = await editor.request('session/list', {});
    expect(!after.some((session) => session.sessionId === sessionId), 'it is still listed');
});

test('A26 sdk: close in the middle of a turn', async () => {
    const { sessionId } = await newSession();
    const pending = prompt(sessionId, 'tree-closed');
    const from = agent.got.length;
    pending.catch(() => {});
    await inTool(sessionId, from);
    await editor.request('session/close', { sessionId });
    expectEqual(marked(agent.mark), 1, 'processes with the marker, belay itself included,');
    expectEqual((await pending).stopReason, 'cancelled', 'the prompt');
});

test('A17 sdk: the end of standard input in the middle of a tool', async () => {
    agent.check();
    const { sessionId } = await newSession();
    const from = agent.got.length;
    prompt(sessionId, 'tree-left').catch(() => {});
    await inTool(sessionId, from);
    const asked = performance.now();
    const { status, at } = await agent.end();
    expectEqual(status, 130, `exit code: ${agent.log}`);
    expect(at - asked < 2500, `${(at - asked).toFixed(1)} ms`);
    expectEqual(marked(agent.mark), 0, 'processes with the marker');
    agent = null;
});

test('A17 sdk: the end of standard input when nothing runs', async () => {
    const idle = new Agent(provider, { BELAY_STORE: store });
    await idle.result('initialize', { protocolVersion: 1 });
    expectEqual((await idle.end()).status, 0, `exit code: ${idle.log}`);
});

step(killAll);
