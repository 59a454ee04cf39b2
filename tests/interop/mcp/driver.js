'use strict';

/* Belay as the client of a scenario of the conformance suite: driver.js BUILD_DIRECTORY URL. A script
 * plays the model, and calls what the scenario wants called. */

const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');

const [build, url] = process.argv.slice(2);
const scenario = process.env.MCP_CONFORMANCE_SCENARIO;
const context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? '{}');
const folder = fs.mkdtempSync(path.join(process.env.HOME, 'driver-'));

const invalid = ['invalid_empty_header', 'invalid_object_header', 'invalid_array_header', 'invalid_null_header'];
const calls = context.toolCalls ?? {
    tools_call: [{ name: 'add_numbers', arguments: { a: 5, b: 3 } }],
    'sse-retry': [{ name: 'test_reconnection', arguments: {} }],
    'http-standard-headers': [{ name: 'test_headers', arguments: {} }, { name: 'my-hyphenated-tool', arguments: {} }],
    'http-invalid-tool-headers': ['valid_tool', ...invalid].map((name) => ({ name, arguments: { region: 'x', value: 'x' } })),
}[scenario] ?? [];

/* What is null is left out: the schema of that argument knows no null, and belay holds a model to it. */
const given = (input) => Object.fromEntries(Object.entries(input).filter(([, value]) => value !== null));
const tools = calls.map((call) => ({ name: `mcp__suite__${call.name}`, input: given(call.arguments) }));
const replies = [...(tools.length > 0 ? [{ when: 'go', tools }] : []), { when: 'go', say: 'Done.' }];
const write = (name, value) => {
    fs.writeFileSync(path.join(folder, name), JSON.stringify(value));
    return path.join(folder, name);
};
const script = write('script.json', { name: 'suite', replies });
const config = write('servers.json', { mcpServers: { suite: { type: 'http', url } } });
const { status } = spawnSync(path.join(build, 'belay'), ['run', '--yolo', '--json', '--provider', `script:${script}`,
    '--mcp-config', config, 'go'], {
    cwd: folder, stdio: ['ignore', 'inherit', 'inherit'],
    env: { PATH: process.env.PATH, HOME: folder, XDG_RUNTIME_DIR: folder, BELAY_STORE: path.join(folder, 'store.db') },
});
fs.rmSync(folder, { recursive: true, force: true });
process.exitCode = status ?? 1;
