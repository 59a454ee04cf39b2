'use strict';

/* Belay as the client of a model server that no one here wrote, in its four formats. */

const { expect, expectEqual, test } = require('./suite');
const { ask, fixture, formats, mock } = require('./mock');

/* Names of the same numbers in the formats. The server's Ollama counts nothing, whatever the script says. */
const counted = (input, output) => ({ prompt_tokens: input, completion_tokens: output,
                                      input_tokens: input, output_tokens: output });
const countsNothing = (format) => format === 'ollama';

const bash = (command, id) => ({ name: 'bash', arguments: JSON.stringify({ command }), ...(id && { id }) });

function each(name, body) {
    for (const format of Object.keys(formats))
        test(`P20 ${format}: ${name}`, () => {
            mock.resetMatchCounts();
            return body(format);
        });
}

function expectCompleted(asked, output) {
    expectEqual([asked.status, asked.turn.stop_reason, asked.turn.error], [0, 'completed', null], 'the end');
    expectEqual(asked.turn.output, output, 'output');
}

function expectFailed(asked, kind, code, count) {
    expectEqual([asked.status, asked.turn.stop_reason], [1, 'error'], 'the end');
    expectEqual([asked.turn.error.kind, asked.turn.error.code], [kind, code], 'error');
    expectEqual(asked.requests.length, count, 'requests');
}

function expectUsage(format, usage, input, output) {
    if (countsNothing(format))
        expect(usage.input_tokens > 0 && usage.output_tokens > 0, 'estimated usage is zero');
    else
        expectEqual(usage, { input_tokens: input, output_tokens: output }, 'usage');
}

const joined = (events) => events.map((event) => event.text).join('');

/* What a retry says, without what differs from run to run. */
const retries = (asked) => asked.of('retry')
    .map(({ attempt, of, code, status, discarded }) => ({ attempt, of, code, status, discarded }));

const long = 'It comes in more than one piece, — with "quotes", ünïcödé 日本語 and 😀 —\nand two lines.';

fixture('text', { content: long, usage: counted(321, 45) }, { chunkSize: 7 });
each('text comes in pieces, with its usage', async (format) => {
    const asked = await ask(format, 'text');
    expectCompleted(asked, long);
    expectEqual(asked.requests.length, 1, 'requests');
    expectEqual(joined(asked.of('text_delta')), long, 'pieces');
    expect(asked.of('text_delta').length > 3, 'it came in one piece');
    expectEqual(asked.turn.truncated, false, 'truncated');
    expectUsage(format, asked.turn.usage, 321, 45);
    expectEqual(asked.of('usage').at(-1).estimated, countsNothing(format), 'estimated');
    const { headers } = asked.requests[0];
    const key = { anthropic: ['x-api-key', 'key-of-anthropic'], ollama: ['authorization', undefined] };
    const [name, value] = key[format] ?? ['authorization', 'Bearer key-of-openai'];
    expectEqual(headers[name], value, name);
    if (format === 'anthropic')
        expectEqual(headers['anthropic-version'], '2023-06-01', 'version');
});

fixture('one tool', { toolCalls: [bash('echo marker-$((40+2))', 'call_x1')], usage: counted(100, 10) },
        { withResult: false });
fixture('one tool', { content: 'It printed marker-42.', usage: counted(200, 20) }, { withResult: true });
each('a tool is run, and its result goes back', async (format) => {
    const asked = await ask(format, 'one tool');
    expectCompleted(asked, 'It printed marker-42.');
    expectEqual(asked.requests.length, 2, 'requests');
    const [requested] = asked.of('tool_requested');
    expectEqual([requested.name, requested.input], ['bash', { command: 'echo marker-$((40+2))' }], 'call');
    expectEqual(joined(asked.of('tool_output')), 'marker-42\n', 'output');
    expectEqual(asked.turn.steps.map(({ tool, status }) => [tool, status]), [['bash', 'ok']], 'steps');
    const { body } = asked.requests[1];
    const id = format === 'ollama' ? null : requested.id;
    expectEqual(formats[format].calls(body),
                [{ id, name: 'bash', input: { command: 'echo marker-$((40+2))' } }], 'the call sent back');
    expectEqual(formats[format].results(body), [{ id, text: 'marker-42\n' }], 'the result sent back');
    expectUsage(format, asked.turn.usage, 300, 30);
});

fixture('three tools', { content: 'Three at once.', usage: counted(100, 10),
                         toolCalls: [bash('echo a', 'call_a'), bash('echo b; exit 3', 'call_b'),
                                     bash('echo c', 'call_c')] }, { withResult: false });
fixture('three tools', { content: 'All done.', usage: counted(200, 20) }, { withResult: true });
each('three tools of one answer are run, and all results go back in order', async (format) => {
    const asked = await ask(format, 'three tools');
    expect(asked.turn.output.endsWith('All done.'), `output ${asked.turn.output}`);
    expectEqual([asked.status, asked.requests.length], [0, 2], 'status and requests');
    const ids = asked.of('tool_requested').map((event) => event.id);
    expectEqual(new Set(ids).size, 3, 'different ids');
    expectEqual(asked.turn.steps.map((one) => one.id), ids, 'steps');
    const { body } = asked.requests[1];
    const [calls, results] = [formats[format].calls(body), formats[format].results(body)];
    expectEqual(calls.map((call) => call.input.command), ['echo a', 'echo b; exit 3', 'echo c'], 'calls');
    expectEqual(results.map((result) => result.text[0]), ['a', 'b', 'c'], 'results');
    expect(results[1].text.includes('3'), `the exit code is not told: ${results[1].text}`);
    if (format !== 'ollama')
        expectEqual(results.map((result) => result.id), ids, 'ids of results');
    if (format === 'anthropic')
        expectEqual(body.messages.at(-1).content.map((block) => block.type),
                    ['tool_result', 'tool_result', 'tool_result'], 'one message of results');
});

fixture('thinking', { reasoning: 'First, a look at the time.', reasoningSignature: 'sig+/=ABC',
                      toolCalls: [bash('echo noon', 'call_t1')] }, { withResult: false, chunkSize: 9 });
fixture('thinking', { reasoning: 'Noon it is.', content: 'It is noon.' }, { withResult: true });
each('thinking is told apart from text, and goes back where that is wanted', async (format) => {
    const asked = await ask(format, 'thinking');
    expectCompleted(asked, 'It is noon.');
    expectEqual(joined(asked.of('thinking_delta')), 'First, a look at the time.Noon it is.', 'thinking');
    const { body } = asked.requests[1];
    if (format === 'anthropic')
        expectEqual(body.messages[1].content[0], { type: 'thinking', thinking: 'First, a look at the time.',
                                                   signature: 'sig+/=ABC' }, 'the block sent back');
    if (format === 'openai-responses') {
        const [item] = body.input.filter((one) => one.type === 'reasoning');
        expectEqual(item.summary, [{ type: 'summary_text', text: 'First, a look at the time.' }], 'summary');
        expect(item.encrypted_content.length > 0, 'no encrypted content');
    }
});

fixture('thinking hidden', { redactedThinking: ['b3BhcXVl'], toolCalls: [bash('true', 'call_h1')] },
        { withResult: false });
fixture('thinking hidden', { content: 'Done.' }, { withResult: true });
test('P20 anthropic: a redacted block of thinking goes back as it came', async () => {
    const asked = await ask('anthropic', 'thinking hidden');
    expectCompleted(asked, 'Done.');
    expectEqual(asked.requests[1].body.messages[1].content[0],
                { type: 'redacted_thinking', data: 'b3BhcXVl' }, 'the block sent back');
});

fixture('rate limit', { error: { message: 'Slow down.', type: 'rate_limit_error' }, status: 429,
                        retryAfter: 0.25 }, { once: 0 });
fixture('rate limit', { content: 'Now.', usage: counted(9, 3) });
each('429 with Retry-After is waited for and tried again', async (format) => {
    const asked = await ask(format, 'rate limit');
    expectCompleted(asked, 'Now.');
    expectEqual(retries(asked), [{ attempt: 1, of: 4, code: 'rate_limited', status: 429, discarded: false }],
                'retries');
    const { wait_ms: wait } = asked.of('retry')[0];
    expect(wait >= 250 && wait <= 313, `wait ${wait} ms`);
    expectEqual(asked.requests.length, 2, 'requests');
    expectUsage(format, asked.turn.usage, 9, 3);
});

fixture('overloaded', { error: { message: 'Busy.', type: 'overloaded_error' }, status: 529 }, { once: 0 });
fixture('overloaded', { error: { message: 'Busy.', type: 'overloaded_error' }, status: 529 }, { once: 1 });
fixture('overloaded', { content: 'At last.', usage: counted(9, 3) });
each('529 twice, then an answer', async (format) => {
    const asked = await ask(format, 'overloaded');
    expectCompleted(asked, 'At last.');
    expectEqual(retries(asked), [1, 2].map((attempt) => ({ attempt, of: 4, code: 'overloaded', status: 529,
                                                           discarded: false })), 'retries');
    expectEqual(asked.requests.length, 3, 'requests');
    expectEqual(asked.requests[2].body, asked.requests[0].body, 'the third request');
    expectUsage(format, asked.turn.usage, 9, 3);
});

fixture('limited for ever', { error: { message: 'Slow down.', type: 'rate_limit_error' }, status: 429,
                              retryAfter: 0.01 });
each('429 every time: four retries, then an error', async (format) => {
    const asked = await ask(format, 'limited for ever');
    expectFailed(asked, 'provider', 'rate_limited', 5);
    expectEqual(asked.of('retry').map((event) => event.attempt), [1, 2, 3, 4], 'retries');
});

fixture('cut', { content: 'This is thrown away, since it is cut off. '.repeat(3), usage: counted(50, 1) },
        { once: 0, truncateAfterChunks: 12, chunkSize: 6, latency: 15 });
fixture('cut', { content: 'This one stays.', usage: counted(9, 3) });
each('a truncated stream is thrown away, and tried again', async (format) => {
    const asked = await ask(format, 'cut');
    expectCompleted(asked, 'This one stays.');
    expectEqual(retries(asked), [{ attempt: 1, of: 4, code: 'stream_cut', status: 200, discarded: true }],
                'retries');
    expectEqual(asked.requests.length, 2, 'requests');
    expectUsage(format, asked.turn.usage, 9, 3);
    /* Only this format says at the start what was read. */
    if (format === 'anthropic')
        expectEqual(asked.turn.spent.input_tokens, 9 + 50, 'input spent');
});

const marked = { toolCalls: [bash('echo ran', 'call_c1')] };
fixture('cut call', marked, { once: 0, truncateAfterChunks: 7, chunkSize: 2, latency: 15 });
fixture('cut call', { content: 'Never mind.' });
/* Calls come whole in Ollama's format: there the cut is between one and the end of the answer. */
fixture('cut after a call', marked, { once: 0, disconnectAfterMs: 700, latency: 400 });
fixture('cut after a call', { content: 'Never mind.' });
each('a call of an answer that was cut off is never run', async (format) => {
    const asked = await ask(format, format === 'ollama' ? 'cut after a call' : 'cut call');
    expectCompleted(asked, 'Never mind.');
    expectEqual(retries(asked).map((retry) => [retry.code, retry.status]), [['stream_cut', 200]], 'retries');
    expectEqual([asked.of('tool_started').length, asked.turn.steps], [0, []], 'tools started');
});

fixture('disconnect', { content: 'unseen' }, { once: 0, chaos: { disconnectRate: 1 } });
fixture('disconnect', { content: 'Here again.' });
each('a connection that is closed without an answer is tried again', async (format) => {
    const asked = await ask(format, 'disconnect');
    expectCompleted(asked, 'Here again.');
    expectEqual(asked.requests.length, 2, 'requests');
    const [retry] = retries(asked);
    expect(['connect', 'stream_cut'].includes(retry.code), `code ${retry.code}`);
    expectEqual([retry.status, retry.discarded], [null, false], 'retry');
});

fixture('late disconnect', { content: 'Long enough to be under way when it ends.'.repeat(20) },
        { once: 0, disconnectAfterMs: 500, chunkSize: 10, latency: 20 });
fixture('late disconnect', { content: 'Here again.' });
each('a connection that is lost in mid-answer is tried again', async (format) => {
    const asked = await ask(format, 'late disconnect');
    expectCompleted(asked, 'Here again.');
    expectEqual(retries(asked), [{ attempt: 1, of: 4, code: 'stream_cut', status: 200, discarded: true }],
                'retries');
});

fixture('dropped', { content: 'unseen' }, { once: 0, chaos: { dropRate: 1 } });
fixture('dropped', { content: 'Here.' });
each('500 is tried again', async (format) => {
    const asked = await ask(format, 'dropped');
    expectCompleted(asked, 'Here.');
    expectEqual(retries(asked), [{ attempt: 1, of: 4, code: 'server', status: 500, discarded: false }],
                'retries');
});

fixture('malformed', { content: 'unseen' }, { chaos: { malformedRate: 1 } });
each('an answer that is not JSON is an error, and is not retried', async (format) => {
    expectFailed(await ask(format, 'malformed'), 'provider', 'bad_response', 1);
});

const refusals = [
    [400, 'invalid_request_error', 'provider', 'bad_request'],
    [401, 'authentication_error', 'auth', 'auth'],
    [402, 'billing_error', 'provider', 'quota'],
    [403, 'permission_error', 'auth', 'auth'],
    [404, 'not_found_error', 'provider', 'not_found'],
    [413, 'request_too_large', 'provider', 'context_overflow'],
    [422, 'invalid_request_error', 'provider', 'bad_request'],
];
for (const [status, type] of refusals)
    fixture(`refused ${status}`, { error: { message: 'This cannot be.', type }, status });
each('400 to 422 are reported with their own codes, after one request each', async (format) => {
    for (const [status, , kind, code] of refusals) {
        const asked = await ask(format, `refused ${status}`);
        expectFailed(asked, kind, code, 1);
        expectEqual(asked.of('retry').length, 0, 'retries');
    }
});

fixture('at its limit', { content: 'It stops in the mid', finishReason: 'length', usage: counted(9, 3) });
each('an answer that the limit cut is completed, and says so', async (format) => {
    const asked = await ask(format, 'at its limit');
    expectCompleted(asked, 'It stops in the mid');
    /* The server's Ollama says `stop`, whatever the script says. */
    expectEqual(asked.turn.truncated, format !== 'ollama', 'truncated');
});

fixture('forbidden', { content: 'I would', finishReason: 'content_filter' });
fixture('declined', { content: 'I would', finishReason: 'refusal' });
test('P20 openai, anthropic: a refusal is an error', async () => {
    expectFailed(await ask('openai', 'forbidden'), 'provider', 'refusal', 1);
    expectFailed(await ask('anthropic', 'declined'), 'provider', 'refusal', 1);
});
