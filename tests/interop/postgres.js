'use strict';

/* The store's tests against the versions of PostgreSQL that no distribution has together. The
 * servers run as another user, who must be able to read their programs. */

const { spawn } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { build, skip, test } = require('./suite');

const room = path.join(__dirname, '../../scripts/test-room');
const patterns = ['*_on_postgres', 'W1_*', 'W9_*'];

function run(programs, pattern) {
    return new Promise((resolve, reject) => {
        const child = spawn(room, [build, 'store', pattern],
                            { env: { ...process.env, BELAY_POSTGRES_BIN: programs }, stdio: ['ignore', 'pipe', 'pipe'] });
        let said = '';
        child.stdout.on('data', bytes => said += bytes);
        child.stderr.on('data', bytes => said += bytes);
        child.on('error', reject);
        child.on('close', code => {
            const failed = said.split('\n').find(line => line.includes('FAILED') || line.includes('SKIPPED'));
            if (code !== 0 || failed)
                reject(new Error(failed || said.trim().split('\n').pop()));
            else
                resolve();
        });
    });
}

for (const version of [13, 14, 16, 17]) {
    const programs = path.join(__dirname, `node_modules/postgres-${version}/native/bin`);
    for (const pattern of patterns) {
        const name = `W8 PostgreSQL ${version}: ${pattern}`;
        if (fs.existsSync(path.join(programs, 'postgres')))
            test(name, () => run(programs, pattern));
        else
            skip(name, 'no such server for this machine');
    }
}
