'use strict';

/* Every message of an MCP server against the schema of its version. The conformance suite brings the
 * schemas along, inside its program; there is no package of them alone. */

const fs = require('node:fs');
const path = require('node:path');
const vm = require('node:vm');
const Ajv = require('ajv');
const Ajv2020 = require('ajv/dist/2020');

const bundle = path.join(__dirname, '../node_modules/@modelcontextprotocol/conformance/dist/index.js');

/* The object literal that begins at `at`: up to the brace that closes it, texts skipped. */
function literalAt(source, at) {
    let depth = 0;
    for (let i = at; i < source.length; i++) {
        const char = source[i];
        if (char === '"' || char === '`' || char === "'") {
            for (i++; source[i] !== char; i++)
                i += source[i] === '\\' ? 1 : 0;
        } else if (char === '{') {
            depth++;
        } else if (char === '}' && --depth === 0) {
            return source.slice(at, i + 1);
        }
    }
    throw new Error('an object that does not end');
}

/* By what only that version has. */
const versions = {
    '2025-06-18': (types) => types.ElicitRequest && !types.Task && !types.DiscoverResult,
    '2025-11-25': (types) => types.Task && !types.DiscoverResult,
    '2026-07-28': (types) => types.DiscoverResult,
};

function readSchemas() {
    const source = fs.readFileSync(bundle, 'utf8');
    const found = {};
    for (const match of source.matchAll(/=(?=\{\$schema:`[^`]*`,(?:definitions|\$defs):\{)/g)) {
        const schema = vm.runInNewContext(`(${literalAt(source, match.index + 1)})`);
        const types = schema.$defs ?? schema.definitions;
        const name = Object.keys(versions).find((version) => versions[version](types));
        if (name && types.CallToolResult)
            found[name] = JSON.parse(JSON.stringify(schema));
    }
    return found;
}

const schemas = readSchemas();
const checkers = {};
for (const [version, schema] of Object.entries(schemas)) {
    const ajv = new (schema.$defs ? Ajv2020 : Ajv)({ strict: false, validateFormats: false });
    ajv.addSchema({ ...schema, $id: version });
    const types = schema.$defs ?? schema.definitions;
    const compiled = new Map();
    checkers[version] = (name, value) => {
        if (!types[name])
            throw new Error(`${version} has no ${name}`);
        if (!compiled.has(name))
            compiled.set(name, ajv.compile({ $ref: `${version}#/${schema.$defs ? '$defs' : 'definitions'}/${name}` }));
        const validate = compiled.get(name);
        return validate(value) ? null : `${version} ${name}: ${JSON.stringify(validate.errors)}`;
    };
    checkers[version].has = (name) => name in types;
}

const results = { initialize: 'InitializeResult', 'server/discover': 'DiscoverResult', 'tools/list': 'ListToolsResult',
                  'tools/call': 'CallToolResult', ping: 'EmptyResult' };
const notifications = { 'notifications/progress': 'ProgressNotification', 'notifications/message': 'LoggingMessageNotification',
                        'notifications/tools/list_changed': 'ToolListChangedNotification' };

/* What is wrong with a message of a server that speaks `version`; null: nothing. `request` is what it
 * answers. Results of extensions are in no schema but that of any result. */
function mistake(message, version, request) {
    const check = checkers[version];
    if (!check)
        return `no schema of ${version}`;
    if (message.method) {
        const name = notifications[message.method];
        return name ? check(name, message) : `${message.method} is not expected`;
    }
    if (message.error)
        return check(check.has('JSONRPCErrorResponse') ? 'JSONRPCErrorResponse' : 'JSONRPCError', message);
    const task = message.result?.resultType === 'task';
    const name = task ? 'Result' : results[request?.method] ?? 'Result';
    return check(check.has('JSONRPCResultResponse') ? 'JSONRPCResultResponse' : 'JSONRPCResponse', message) ??
        check(name, message.result);
}

module.exports = { mistake, versions: Object.keys(schemas) };
