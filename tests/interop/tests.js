'use strict';

const { finish } = require('./suite');

require('./formats');
require('./providers');
require('./requests');
require('./sdks');
require('./cell/wire');
finish();
