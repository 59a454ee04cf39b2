'use strict';

/* Every request of these tests, as it was on the wire, against what the vendors publish of their
 * formats. No package has OpenAI's document itself in a version that knows the responses; one has
 * schemas generated from it, which are turned back into JSON Schema here. The types of the SDKs are
 * generated from the vendors' documents as well. */

const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const Ajv = require('ajv');
const Ajv2020 = require('ajv/dist/2020');
const { expect, expectEqual, expectValid, folder, runBeside, skip, step, test } = require('./suite');
const { ask, environment, fixture, formats, requests } = require('./mock');

/* ---- Requests that use what the others leave out -------------------------------------------- */

const answerSchema = path.join(folder, 'answer-schema.json');
const bash = (command) => ({ name: 'bash', arguments: JSON.stringify({ command }) });

step(() => {
    const models = Object.keys(formats)
        .map((format) => `  full-${format}: {provider: ${format}, model: model-2, ` +
                         'max_output_tokens: 9000, thinking: medium}\n');
    fs.mkdirSync(path.join(folder, 'config/belay'), { recursive: true });
    fs.writeFileSync(path.join(folder, 'config/belay/config.yaml'), `models:\n${models.join('')}`);
    fs.writeFileSync(answerSchema, JSON.stringify({
        type: 'object', properties: { answer: { type: 'integer' } }, required: ['answer'],
        additionalProperties: false,
    }));
});

fixture('everything', { content: 'First the time.', reasoning: 'What time is it?',
                        toolCalls: [bash('echo noon')] }, { withResult: false });
fixture('everything', { reasoning: 'Noon.', content: '{"answer": 12}' }, { withResult: true });
fixture('again', { content: 'Once more.', toolCalls: [bash('echo one'), bash('echo two; false')] },
        { withResult: false });
fixture('again', { content: 'That was it.' }, { withResult: true });

for (const format of Object.keys(formats)) {
    test(`${format}: thinking, a limit, instructions, a schema of the answer`, async () => {
        const asked = await ask(format, 'everything', '--model', `full-${format}`,
                                '--session', `full-${format}`, '--structured-output', answerSchema,
                                '--append-system-prompt', 'Be brief.');
        expectEqual([asked.status, asked.requests.length], [0, 2], 'status and requests');
        const sent = JSON.stringify(asked.requests[0].body);
        expect(sent.includes('9000'), 'the limit was not sent');
        expect(sent.includes('Be brief.'), 'the instructions were not sent');
    });
    test(`${format}: a longer session, and a last step without tools`, async () => {
        const asked = await ask(format, 'again', '--model', `full-${format}`, '--session', `full-${format}`,
                                '--max-steps', '2', '--on-exhausted', 'synthesize');
        expectEqual([asked.status, asked.requests.length], [0, 2], 'status and requests');
    });
}

test('a session that goes from provider to provider is taken by each', async () => {
    for (const format of ['anthropic', 'openai', 'openai-responses', 'ollama', 'anthropic']) {
        const asked = await ask(format, 'again', '--session', 'wanderer');
        expectEqual([asked.status, asked.turn.output.endsWith('That was it.')], [0, true], format);
    }
});

/* Whatever it asks: all other fixtures come before this one. */
fixture('.*', { content: 'Yes.' });
test('belay doctor --provider fits docs/schemas/doctor-provider.json, answered or not', async () => {
    const words = (format) => ['doctor', '--provider', format, '--model', 'model-1', '--json'];
    for (const format of Object.keys(formats)) {
        const good = await runBeside('belay', words(format), environment());
        expectValid('doctor-provider', JSON.parse(good.stdout));
        expectEqual([good.status, JSON.parse(good.stdout).provider.answered], [0, true], format);
    }
    const nowhere = { ...environment(), ANTHROPIC_BASE_URL: `${environment().ANTHROPIC_BASE_URL}/nowhere` };
    const bad = await runBeside('belay', words('anthropic'), nowhere);
    expectValid('doctor-provider', JSON.parse(bad.stdout));
    const { answered, error } = JSON.parse(bad.stdout).provider;
    expectEqual([bad.status, answered, error.code], [1, false, 'not_found'], 'a wrong address');
});

const bodies = (format) => requests.filter((request) => request.path === formats[format].path)
    .map((request) => request.body);

/* ---- JSON Schema ------------------------------------------------------------------------------ */

/* What compatible servers call thinking goes back to them, and is in nobody's document. */
function withoutExtensions(body) {
    const { messages } = body;
    return { ...body, messages: messages.map(({ reasoning_content: _, ...message }) => message) };
}

async function documentValidator(name) {
    const [{ JSONSchema, Schema }, generated] =
        await Promise.all([import('effect'), import('@effect/ai-openai/Generated')]);
    /* Its `$id` of what may be anything is used more than once. */
    const text = JSON.stringify(JSONSchema.make(Schema.encodedSchema(generated[name])),
                                (key, value) => (key === '$id' || key === '$schema' ? undefined : value));
    return new Ajv({ strict: false }).compile(JSON.parse(text));
}

function expectAll(validate, list, least) {
    expect(list.length >= least, `only ${list.length} requests`);
    for (const body of list)
        expect(validate(body), `${JSON.stringify(validate.errors)}: ${JSON.stringify(body)}`);
}

function expectNone(validate, body, changes) {
    for (const [what, change] of Object.entries(changes)) {
        const copy = structuredClone(body);
        change(copy);
        expect(!validate(copy), `${what} is accepted`);
    }
}

const withTools = (format) => bodies(format).findLast((body) => formats[format].results(body).length > 0);

test('P21 all chat completions fit CreateChatCompletionRequest', async () => {
    const validate = await documentValidator('CreateChatCompletionRequest');
    expectAll(validate, bodies('openai').map(withoutExtensions), 40);
    expectNone(validate, withoutExtensions(withTools('openai')), {
        'no model': (body) => delete body.model,
        'an unknown role': (body) => (body.messages[0].role = 'robot'),
        'a result without its call': ({ messages }) =>
            delete messages.find((one) => one.role === 'tool').tool_call_id,
        'an unknown field': (body) => (body.stream_option = {}),
        'a limit in words': (body) => (body.max_completion_tokens = 'many'),
        'a tool without a name': (body) => delete body.tools[0].function.name,
    });
});

/* There the schema of the whole takes any object as an item of the conversation. */
const items = {
    function_call: 'FunctionToolCall', function_call_output: 'FunctionCallOutputItemParam',
    reasoning: 'ReasoningItem', message: 'EasyInputMessage',
};

test('P21 all responses fit CreateResponse, and what is in them the schemas of items', async () => {
    const validate = await documentValidator('CreateResponse');
    const list = bodies('openai-responses');
    expectAll(validate, list, 40);
    expectNone(validate, withTools('openai-responses'), {
        'an unknown field': (body) => (body.max_tokens = 1),
        'an unknown inclusion': (body) => body.include.push('everything'),
        'a tool without a name': (body) => delete body.tools[0].name,
    });
    for (const [type, name] of Object.entries(items)) {
        const ofType = list.flatMap((body) => body.input).filter((item) => String(item.type) === type);
        const validateItem = await documentValidator(name);
        expectAll(validateItem, ofType, 3);
        expectNone(validateItem, ofType[0], { 'an unknown field': (item) => (item.surprise = 1) });
    }
    for (const item of list.flatMap((body) => body.input))
        expect(String(item.type) in items, `an item of type ${item.type}`);
});

/* The document itself, of which there is no package: openapi.json of openai/openai-openapi. */
const document = process.env.OPENAI_OPENAPI;
const name = 'P21 all requests to OpenAI fit the OpenAPI document itself';
if (document === undefined)
    skip(name, 'OPENAI_OPENAPI names no file');
else
    test(name, () => {
        const { components } = JSON.parse(fs.readFileSync(document, 'utf8'));
        /* Words of OpenAPI that JSON Schema does not have. */
        const text = JSON.stringify({ $id: 'document', components: { schemas: components.schemas } },
                                    (key, value) => (['nullable', 'discriminator'].includes(key) &&
                                                     typeof value !== 'string' ? undefined : value));
        const ajv = new Ajv2020({ strict: false, logger: false }).addSchema(JSON.parse(text));
        const compile = (schema) => ajv.compile({ $ref: `document#/components/schemas/${schema}` });
        expectAll(compile('CreateChatCompletionRequest'), bodies('openai'), 40);
        expectAll(compile('CreateResponse'), bodies('openai-responses'), 40);
        expectNone(compile('CreateResponse'), withTools('openai-responses'), {
            'an unknown item': (body) => (body.input[0].type = 'surprise'),
        });
    });

/* ---- Types ------------------------------------------------------------------------------------ */

/* Literals of a type, so that a member too many is an error as well; a wrong one must be an error. */
function literals(type, list, wrong) {
    const right = list.map((body) => `take<${type}>(${JSON.stringify(body)});\n`);
    const not = wrong.map((body) => `// @ts-expect-error\ntake<${type}>(${JSON.stringify(body)});\n`);
    return [...right, ...not].join('');
}

/* In this folder, where the packages are found. */
function typeCheck(imports, text) {
    const place = fs.mkdtempSync(path.join(__dirname, 'node_modules/.belay-'));
    try {
        fs.writeFileSync(path.join(place, 'requests.ts'),
                         `${imports}declare function take<T>(value: T): void;\n${text}`);
        const words = [path.join(__dirname, 'node_modules/typescript/bin/tsc'), '--noEmit', '--strict',
                       '--skipLibCheck', '--target', 'es2022', '--module', 'nodenext', '--types', '',
                       'requests.ts'];
        const options = { cwd: place, encoding: 'utf8', timeout: 120000 };
        const result = spawnSync(process.execPath, words, options);
        expectEqual([result.status, result.stdout, result.stderr], [0, '', ''], 'tsc');
    } finally {
        fs.rmSync(place, { recursive: true });
    }
}

test('P21 all requests to OpenAI are of the SDK\'s types for streams', () => {
    const chat = bodies('openai').map(withoutExtensions);
    const responses = bodies('openai-responses');
    typeCheck('import OpenAI from \'openai\';\n',
              literals('OpenAI.Chat.ChatCompletionCreateParamsStreaming', chat,
                       [{ ...chat[0], surprise: 1 }, { ...chat[0], stream: false },
                        { ...chat[0], messages: [{ role: 'robot' }] }]) +
              literals('OpenAI.Responses.ResponseCreateParamsStreaming', responses,
                       [{ ...responses[0], surprise: 1 }, { ...responses[0], include: ['everything'] }]));
});

test('P22 all requests to Anthropic are of the SDK\'s types for streams', () => {
    const list = bodies('anthropic');
    expect(list.length >= 40, `only ${list.length} requests`);
    const wrong = [{ ...list[0], surprise: 1 }, { ...list[0], max_tokens: 'many' },
                   { ...list[0], messages: [{ role: 'tool', content: '' }] }];
    typeCheck('import Anthropic from \'@anthropic-ai/sdk\';\n',
              literals('Anthropic.MessageCreateParamsStreaming', list,
                       [...wrong, { ...list[0], stream: false }]) +
              literals('Anthropic.Messages.MessageStreamParams', list, wrong));
});
