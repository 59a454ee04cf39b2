'use strict';

/* The example feature, run to its end with a deadline, a stop by hand and a merge conflict: whatever
 * belay feature says to programs on the way, against the schemas. */

const { execFileSync, spawn } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const readline = require('node:readline');
const { build, expect, expectEqual, expectInvalid, expectValid, folder, plainEnvironment, runBeside, test,
        validator } = require('./suite');

const example = path.join(__dirname, '../../examples/feature/repository');
const repository = path.join(folder, 'tally');
const environment = plainEnvironment({
    BELAY_STORE: path.join(folder, 'features.db'), GIT_CONFIG_GLOBAL: '/dev/null',
    GIT_AUTHOR_NAME: 'interop', GIT_AUTHOR_EMAIL: 'interop@belay.test',
    GIT_COMMITTER_NAME: 'interop', GIT_COMMITTER_EMAIL: 'interop@belay.test',
});

/* Runs belay feature for one line, which must fit; its exit code must be the one inside. */
async function ask(words, status, schema) {
    const result = await runBeside('belay', ['feature', ...words, '--json'], environment, repository);
    const what = `feature ${words.join(' ')}`;
    expect(result.stderr === '', `${what}: standard error is not silent: ${result.stderr}`);
    expect(/^[^\n]+\n$/.test(result.stdout), `${what}: not exactly one line`);
    const value = JSON.parse(result.stdout);
    expectEqual([result.status, value.exit_code], [status, status], `${what}: exit code`);
    expectValid(schema, value);
    expectValid('envelope', value);
    return value;
}

/* Runs belay feature in stream-json; each line is checked and told to `act` as it comes. */
async function follow(words, act = () => {}) {
    const child = spawn(path.join(build, 'belay'), ['feature', ...words, '--output-format', 'stream-json'],
                        { env: environment, cwd: repository, stdio: ['ignore', 'pipe', 'pipe'] });
    let complaints = '';
    child.stderr.setEncoding('utf8').on('data', (text) => (complaints += text));
    const ended = new Promise((resolve, reject) => {
        child.on('error', reject);
        child.on('close', resolve);
    });
    const lines = [];
    try {
        for await (const line of readline.createInterface({ input: child.stdout })) {
            lines.push(JSON.parse(line));
            await act(lines.at(-1));
        }
        const status = await ended;
        expect(complaints === '', `standard error is not silent: ${complaints}`);
        return { status, lines };
    } finally {
        if (child.exitCode === null && child.signalCode === null)
            child.kill('SIGKILL');
    }
}

const seen = new Set();

function expectEvents(events) {
    const validate = validator('feature-event');
    for (const event of events) {
        expect(validate(event), `feature-event.json: ${JSON.stringify(event)}: ${JSON.stringify(validate.errors)}`);
        seen.add(event.type);
    }
}

/* The last line is the envelope, the others are events. */
function expectStream({ status, lines }, expected, schema) {
    const last = lines.at(-1);
    expectEqual([status, last.type, last.exit_code], [expected, 'result', expected], 'the end of the stream');
    expectValid(schema, last);
    expectEvents(lines.slice(0, -1));
    return last;
}

const states = (view) => Object.fromEntries(view.waves.flatMap((wave) => wave.tasks)
    .map((task) => [task.id, task.state]));

async function untilFile(name) {
    for (let tries = 0; tries < 1500 && !fs.existsSync(name); tries++)
        await new Promise((resolve) => setTimeout(resolve, 20));
    expect(fs.existsSync(name), `${name} is not there`);
}

test('feature: envelopes before anything has run', async () => {
    fs.cpSync(example, repository, { recursive: true });
    for (const words of [['init', '-q', '-b', 'main', '.'], ['add', '.'], ['commit', '-qm', 'tally']])
        execFileSync('git', words, { cwd: repository, env: environment });
    expectEqual((await ask(['list'], 0, 'feature-list')).features.length, 0, 'features in the store');
    await ask(['status', 'FEAT-NOBODY'], 1, 'feature');
    await ask(['logs', 'FEAT-NOBODY'], 1, 'feature-logs');
    await ask(['report', 'FEAT-NOBODY'], 1, 'feature-report');
    await ask(['cancel', 'FEAT-NOBODY'], 1, 'feature-cancel');
    await ask(['pause', 'FEAT-NOBODY'], 1, 'feature-pause');
    await ask(['clean', 'FEAT-NOBODY'], 1, 'feature-clean');
    await ask(['run', 'FEAT-TALLY', '--parallel', 'many'], 2, 'feature');
});

test('feature: validate tells a good plan and a broken one in its form', async () => {
    const valid = await ask(['validate', 'FEAT-TALLY'], 0, 'feature-validate');
    expectEqual(valid.plan_errors, [], 'plan errors');
    const elsewhere = await ask(['validate', path.join(folder, 'FEAT-NOBODY.yaml')], 2, 'feature-validate');
    expectValid('error', elsewhere.error);
    const broken = path.join(repository, 'FEAT-BROKEN.yaml');
    fs.writeFileSync(broken, 'id: FEAT-BROKEN\nname: Broken\ntasks:\n  - {id: A-1, dependencies: [A-2]}\n');
    const refused = await ask(['validate', broken], 2, 'feature-validate');
    expect(refused.plan_errors.length > 0, 'a broken plan passes');
    fs.rmSync(broken);
});

test('feature: every event of a run fits feature-event.json, its end and the questions beside it theirs', async () => {
    let cancelled = null;
    let beside = null;
    let extended = null;
    const run = await follow(['run', 'FEAT-TALLY'], async (event) => {
        if (event.type === 'wave_started' && event.wave === 2)
            beside = await ask(['status', 'FEAT-TALLY'], 0, 'feature');
        if (event.type !== 'task_ended' || event.state !== 'timed_out')
            return;
        await untilFile(path.join(repository, '.belay/worktrees/FEAT-TALLY/TALLY-004/commands/top'));
        extended = await ask(['extend', 'TALLY-004', '+1m'], 0, 'feature-extend');
        cancelled = await ask(['cancel', 'TALLY-004'], 0, 'feature-cancel');
    });
    const end = expectStream(run, 1, 'feature');
    expectEqual([beside?.state, extended?.task], ['running', 'TALLY-004'], 'while it ran');
    expectEqual([cancelled?.receipt.survivors, cancelled?.receipt.reason], [0, 'user'], 'the receipt of the cancel');
    expectValid('receipt', cancelled.receipt);
    end.receipts.forEach((receipt) => expectValid('receipt', receipt));
    expectEqual(states(end), { 'TALLY-001': 'completed', 'TALLY-002': 'completed', 'TALLY-003': 'completed',
                               'TALLY-004': 'cancelled', 'TALLY-005': 'timed_out', 'TALLY-006': 'completed',
                               'TALLY-007': 'skipped' }, 'states');
    expectInvalid('feature', { ...end, surprise: 1 }, 'a member too many');
    expectInvalid('feature-event', { ...run.lines[0], type: 'surprise' }, 'an unknown event');
});

test('feature: status of a task that was stopped holds its checkpoint, in its form', async () => {
    const view = await ask(['status', 'TALLY-004'], 0, 'feature');
    expectValid('feature-checkpoint', view.checkpoint);
    expectEqual([view.checkpoint.reason, view.checkpoint.dirty_files], ['user', ['commands/top']], 'checkpoint');
    await ask(['status'], 0, 'feature-status-all');
    const again = await ask(['cancel', 'TALLY-004'], 0, 'feature-cancel');
    expectEqual(again.already, true, 'already');
});

test('feature: a resume to the end, and what can be asked of it then', async () => {
    const resumed = expectStream(await follow(['resume', 'FEAT-TALLY', '--task-timeout', '1m']), 0, 'feature');
    expectEqual(resumed.counts.completed, 7, 'completed');
    for (const type of ['feature_started', 'wave_started', 'task_queued', 'deadline_armed', 'deadline_moved',
                        'task_turn_started', 'phase_started', 'phase_ended', 'commit_made', 'verify_ended', 'verdict',
                        'task_turn_ended', 'checkpoint_saved', 'task_ended', 'merge_ended', 'merge_conflict',
                        'gate_ended', 'wave_ended', 'feature_ended', 'cancel_requested', 'receipt'])
        expect(seen.has(type), `no ${type} was seen`);
    const { features } = await ask(['list'], 0, 'feature-list');
    expectEqual(features.map((feature) => [feature.id ?? feature.feature, feature.state]), [['FEAT-TALLY', 'completed']],
                'list');
    await ask(['list', '--all'], 0, 'feature-list');
    await ask(['status', 'FEAT-TALLY'], 0, 'feature');
});

test('feature: logs as an envelope and as lines, reports, and what clean removes', async () => {
    const logs = await ask(['logs', 'FEAT-TALLY'], 0, 'feature-logs');
    expectEvents(logs.events);
    expect(logs.events.length > 100 && logs.outputs.length > 10, 'too little in the logs');
    const ofOne = await ask(['logs', 'TALLY-006', '--turn', '1', '--phase', 'coach'], 0, 'feature-logs');
    expect(ofOne.events.every((event) => event.task === 'TALLY-006'), 'events of another task');
    const { status, lines } = await follow(['logs', 'FEAT-TALLY']);
    const last = lines.pop();
    expectEqual([status, last.type], [0, 'result'], 'the end of the lines');
    expectValid('feature-logs', last);
    expectEvents(lines.filter((line) => line.type !== 'output'));
    const page = path.join(folder, 'tally.html');
    expect((await ask(['report', 'FEAT-TALLY'], 0, 'feature-report')).text.includes('TALLY-004'), 'report');
    expectEqual((await ask(['report', 'FEAT-TALLY', '--html', page], 0, 'feature-report')).file, page, 'file');
    expect(fs.readFileSync(page, 'utf8').includes('</html>'), 'not a whole page');
    const dry = await ask(['clean', 'FEAT-TALLY', '--dry-run'], 0, 'feature-clean');
    expectEqual(dry.dry_run, true, 'dry run');
    await ask(['clean', 'FEAT-TALLY'], 0, 'feature-clean');
    await ask(['pause', 'FEAT-TALLY'], 0, 'feature-pause');
    await ask(['extend', 'TALLY-004', '+1m'], 1, 'feature-extend');
});
