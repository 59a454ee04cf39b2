'use strict';

/* The command line of the MCP inspector against `belay mcp`, on standard streams and over HTTP. */

const { spawn } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { expect, expectEqual, folder, modernNode, plainEnvironment, skip, step, test } = require('../suite');
const { command, serveHttp, workspace } = require('./server');

const packages = path.join(__dirname, '../node_modules');
const origin = path.join(packages, '@modelcontextprotocol/inspector-cli');
const home = path.join(folder, 'inspector');
const program = path.join(home, 'cli/build/index.js');

/* Alone it does not find the package that it is a part of, which brings a whole web page along:
 * it gets a folder that looks like that. */
function install() {
    fs.cpSync(origin, path.join(home, 'cli'), { recursive: true });
    fs.symlinkSync(packages, path.join(home, 'node_modules'));
    fs.writeFileSync(path.join(home, 'package.json'), '{"name":"@modelcontextprotocol/inspector","version":"1.0.3"}');
}

function inspect(words, env) {
    return new Promise((resolve, reject) => {
        const child = spawn(modernNode, [program, ...words], { cwd: workspace, env: { ...env, HOME: home },
                                                              stdio: ['ignore', 'pipe', 'pipe'], timeout: 60000 });
        const result = { out: '', log: '' };
        child.stdout.setEncoding('utf8').on('data', (text) => (result.out += text));
        child.stderr.setEncoding('utf8').on('data', (text) => (result.log += text));
        child.on('error', reject);
        child.on('close', (status) => resolve({ ...result, status }));
    });
}

async function inspectAll(target, env) {
    const ask = async (...words) => {
        const { status, out, log } = await inspect([...target, ...words], env);
        expectEqual(status, 0, `${words.join(' ')}: ${log}${out.slice(-300)}`);
        return JSON.parse(out);
    };
    const { tools } = await ask('--method', 'tools/list');
    expectEqual(tools.map((tool) => tool.name).sort(), ['cancel', 'exec', 'run', 'terminate', 'wait'], 'tools');
    const called = await ask('--method', 'tools/call', '--tool-name', 'run', '--tool-arg', 'prompt=hello');
    expectEqual(called.structuredContent.final_stop_reason, 'completed', 'run');
    const cell = await ask('--method', 'tools/call', '--tool-name', 'exec', '--tool-arg', 'source=text("seen")');
    expectEqual(cell.structuredContent.content_items.map((item) => item.text), ['seen'], 'exec');
}

if (modernNode && fs.existsSync(origin)) {
    let server = null;
    install();
    test('M4 inspector, stdio: tools/list and tools/call', async () => {
        const { parameters } = command();
        await inspectAll([parameters.command, ...parameters.args], parameters.env);
    });
    test('M4 inspector, HTTP: tools/list and tools/call', async () => {
        server = await serveHttp();
        await inspectAll([server.url, '--transport', 'http', '--header', `Authorization: ${server.headers.Authorization}`],
                         plainEnvironment());
        expect(server.child.exitCode === null, `belay mcp --http has ended: ${server.log}`);
    });
    step(() => server?.stop());
} else {
    skip('M4 inspector', 'needs node 22, for which there is no package on this machine');
}
