'use strict';

/* All of them, or those that are named: node tests.js BUILD_DIRECTORY [NAME]... */

const { finish } = require('./suite');

const all = ['formats', 'providers', 'images', 'interrupted', 'requests', 'sdks', 'cell/wire', 'features', 'acp/sdk', 'acp/hostile', 'acp/acpx',
             'mcp/client', 'mcp/inspector',
             'mcp/servers', 'mcp/conformance', 'postgres'];
const named = process.argv.slice(3);
for (const name of named.length > 0 ? named : all)
    require(`./${name}`);
finish();
