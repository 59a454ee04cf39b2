'use strict';

/* Images on their way to a model: from an MCP server that others wrote, and from an ACP client. */

const fs = require('node:fs');
const path = require('node:path');
const { expect, expectEqual, folder, test } = require('./suite');
const { Agent } = require('./acp/agent');
const { ask, environment, fixture, requests } = require('./mock');

const config = path.join(folder, 'images.json');
const program = path.join(__dirname, 'node_modules/@modelcontextprotocol/server-everything/dist/index.js');
const pixel = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==';

const everything = { command: process.execPath, args: [program, 'stdio'] };
fs.writeFileSync(config, JSON.stringify({ mcpServers: { everything } }));
fixture('look at it', { toolCalls: [{ name: 'mcp__everything__get-tiny-image', arguments: '{}', id: 'call_see' }] },
        { withResult: false });
fixture('look at it', { content: 'Seen.' }, { withResult: true });
/* Where results hold only text, the image comes in a message after them. */
fixture('Image from the result of call_see:', { content: 'Seen.' });
fixture('what is this', { content: 'A pixel.' });

/* How each format shows a PNG in a request. */
const shown = {
    openai: (data) => `data:image/png;base64,${data}`,
    'openai-responses': (data) => `data:image/png;base64,${data}`,
    anthropic: (data) => `"media_type":"image/png","data":"${data}`,
};

for (const format of Object.keys(shown)) {
    test(`M14 ${format}: an image of a server reaches the model`, async () => {
        const asked = await ask(format, 'look at it', '--mcp-config', config);
        expectEqual([asked.status, asked.turn.stop_reason, asked.turn.output], [0, 'completed', 'Seen.'], 'the end');
        expectEqual(asked.requests.length, 2, 'requests');
        const body = JSON.stringify(asked.requests[1].body);
        expect(body.includes(shown[format]('iVBORw0KGgo')), `no image in ${body.slice(-800)}`);
    });

    test(`A2 ${format}: an image of an ACP client reaches the model`, async () => {
        const before = requests.length;
        const agent = new Agent(['--provider', format, '--model', 'model-1'], environment());
        const { agentCapabilities } = await agent.result('initialize', { protocolVersion: 1 });
        expectEqual(agentCapabilities.promptCapabilities.image, true, 'promptCapabilities.image');
        const { sessionId } = await agent.result('session/new', { cwd: folder, mcpServers: [] });
        const prompt = [{ type: 'image', mimeType: 'image/png', data: pixel }, { type: 'text', text: 'what is this' }];
        const answer = await agent.result('session/prompt', { sessionId, prompt });
        expectEqual(answer.stopReason, 'end_turn', 'the end');
        await agent.end();
        const body = JSON.stringify(requests.slice(before).at(-1).body);
        expect(body.includes(shown[format](pixel)), `no image in ${body.slice(-800)}`);
    });
}
