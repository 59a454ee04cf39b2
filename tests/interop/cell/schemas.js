'use strict';

/* docs/schemas/cell, as they are, and in a strict form: what a host sends has no field that they do
 * not name. */

const fs = require('node:fs');
const path = require('node:path');
const Ajv2020 = require('ajv/dist/2020');

const folder = path.join(__dirname, '../../../docs/schemas');
const read = (file) => JSON.parse(fs.readFileSync(path.join(folder, file), 'utf8'));
const files = fs.readdirSync(path.join(folder, 'cell')).map((name) => `cell/${name}`);

/* Closes every object that says what it holds. Alternatives are for the same object, which is closed
 * once, around them. */
function close(schema, isAlternative) {
    if (typeof schema !== 'object')
        return schema;
    const closed = { ...schema };
    const each = (map) => Object.fromEntries(Object.entries(map).map(([key, value]) => [key, close(value, false)]));
    if (schema.properties)
        closed.properties = each(schema.properties);
    if (schema.$defs)
        closed.$defs = each(schema.$defs);
    if (schema.items)
        closed.items = close(schema.items, false);
    if (schema.oneOf)
        closed.oneOf = schema.oneOf.map((part) => close(part, true));
    if ((schema.properties || schema.oneOf) && !isAlternative)
        closed.unevaluatedProperties = false;
    return closed;
}

function compile(change) {
    const ajv = new Ajv2020({ allErrors: true, strict: true, allowUnionTypes: true });
    ajv.addSchema(read('receipt.json'));
    for (const file of files)
        ajv.addSchema(change(read(file)));
    return (name, value) => {
        const validate = ajv.getSchema(`urn:belay:schema:cell:${name}`);
        if (!validate(value))
            throw new Error(`${name}.json: ${ajv.errorsText(validate.errors)}: ${JSON.stringify(value)}`);
    };
}

module.exports = {
    names: files.map((file) => path.basename(file, '.json')),
    check: compile((schema) => schema),
    checkStrictly: compile((schema) => close(schema, false)),
};
