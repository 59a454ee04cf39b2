'use strict';

/* A24: a turn that was cancelled in the middle of a tool is kept, loaded, and continued: the next request must
 * be a conversation that each format takes. requests.js checks the bodies themselves. */

const { expect, expectEqual, folder, test } = require('./suite');
const { Agent } = require('./acp/agent');
const { environment, fixture, formats, requests } = require('./mock');

const bash = (command, id) => ({ name: 'bash', arguments: JSON.stringify({ command }), id });
fixture('start it', { content: 'I start it.', toolCalls: [bash('echo begun; sleep 60', 'call_a'), bash('echo two', 'call_b')] });
fixture('and now', { content: 'It continues.' });

async function open(format) {
    const agent = new Agent(['--yolo', '--provider', format, '--model', 'model-1'], environment());
    await agent.result('initialize', { protocolVersion: 1 });
    return agent;
}

const said = (text) => [{ type: 'text', text }];

for (const format of Object.keys(formats)) {
    test(`A24 ${format}: after an interrupted turn and load the next prompt is taken`, async () => {
        const first = await open(format);
        const { sessionId } = await first.result('session/new', { cwd: folder, mcpServers: [] });
        const prompt = first.result('session/prompt', { sessionId, prompt: said('start it') });
        await first.update((update) => JSON.stringify(update.content ?? '').includes('begun'), 'output of the tool');
        first.send({ jsonrpc: '2.0', method: 'session/cancel', params: { sessionId } });
        expectEqual((await prompt).stopReason, 'cancelled', 'the first prompt');
        await first.end();

        const before = requests.length;
        const second = await open(format);
        await second.result('session/load', { sessionId, cwd: folder, mcpServers: [] });
        const answer = await second.result('session/prompt', { sessionId, prompt: said('and now') });
        expectEqual(answer.stopReason, 'end_turn', 'the next prompt');
        await second.end();
        const { calls, results } = formats[format];
        const body = requests.slice(before).at(-1).body;
        expect(calls(body).length >= 1, 'the interrupted call is missing');
        expectEqual(results(body).map((result) => result.id), calls(body).map((call) => call.id), 'a result for each call');
    });
}
