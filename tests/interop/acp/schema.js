'use strict';

/* Every message of an ACP agent against the published schema, version 1: a request or notification by
 * its method, an answer by the method of what it answers. Known objects may have no member that the
 * schema does not know: a name written wrongly would pass otherwise. */

const fs = require('node:fs');
const path = require('node:path');
const Ajv2020 = require('ajv/dist/2020');

const file = path.join(__dirname, '../node_modules/@agentclientprotocol/sdk/schema/v1/schema.json');
const schema = JSON.parse(fs.readFileSync(file, 'utf8'));

/* Kinds of updates that the first published schema had: what --minimal is about. */
const firstKinds = ['user_message_chunk', 'agent_message_chunk', 'agent_thought_chunk', 'tool_call',
                    'tool_call_update', 'plan', 'available_commands_update', 'current_mode_update'];

const sent = new Map();
const answers = new Map();
for (const [name, definition] of Object.entries(schema.$defs)) {
    if (!definition['x-method'])
        continue;
    definition.unevaluatedProperties = false;
    if (/(Request|Notification)$/.test(name) && ['client', 'protocol'].includes(definition['x-side']))
        sent.set(definition['x-method'], { name, asks: name.endsWith('Request') });
    if (name.endsWith('Response') && definition['x-side'] === 'agent')
        answers.set(definition['x-method'], name);
}
schema.$defs.SessionUpdate.unevaluatedProperties = false;

const ajv = new Ajv2020({ strict: false, validateFormats: false, allErrors: false });
ajv.addSchema(schema, 'acp');
const compiled = new Map();

function mistakeIn(name, value) {
    if (!compiled.has(name))
        compiled.set(name, ajv.compile({ $ref: `acp#/$defs/${name}` }));
    const validate = compiled.get(name);
    return validate(value) ? null : `${name}: ${JSON.stringify(validate.errors)}`;
}

const known = (object, members) => Object.keys(object).find((key) => !members.includes(key));

function mistakeInCall(message) {
    const extra = known(message, ['jsonrpc', 'id', 'method', 'params']);
    if (extra)
        return `a member '${extra}' too many`;
    const method = sent.get(message.method);
    if (!method)
        return `method ${message.method} is not for clients`;
    if (method.asks !== ('id' in message))
        return `${message.method} ${method.asks ? 'without' : 'with'} an id`;
    return mistakeIn(method.name, message.params);
}

/* What is wrong with one message; null: nothing. `methodOf(id)` is the method of the client's request
 * with that id, undefined when there is none that waits for its answer. */
function mistake(message, methodOf) {
    if (message === null || typeof message !== 'object' || Array.isArray(message) || message.jsonrpc !== '2.0')
        return 'not a JSON-RPC message';
    if ('method' in message)
        return mistakeInCall(message);
    const extra = known(message, ['jsonrpc', 'id', 'result', 'error']);
    if (extra || !('id' in message) || ('result' in message) === ('error' in message))
        return 'neither a call nor an answer';
    if (message.error) {
        const method = message.id === null || methodOf(message.id);
        return method ? mistakeIn('Error', message.error) : `an error for ${message.id}, which waits for nothing`;
    }
    const method = methodOf(message.id);
    if (!method)
        return `an answer to ${message.id}, which waits for nothing`;
    return answers.has(method) ? mistakeIn(answers.get(method), message.result) : null;
}

module.exports = { firstKinds, mistake, mistakeIn };
