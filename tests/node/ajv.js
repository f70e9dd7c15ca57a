// Reads {"schemas": {name: schema}, "messages": [[name, text], ...]} and says of each message what ajv finds wrong with
// it: one line of JSON a message, null where it fits.
"use strict";

const Ajv = require("ajv/dist/2020").default;
const formats = require("ajv-formats").default;

async function main() {
  let text = "";
  for await (const piece of process.stdin) text += piece;
  const { schemas, messages } = JSON.parse(text);
  const ajv = new Ajv({ strict: true, allowUnionTypes: true, allErrors: true });
  formats(ajv);
  const validators = {};
  for (const [name, schema] of Object.entries(schemas)) validators[name] = ajv.compile(schema);
  for (const [name, message] of messages) {
    const fits = validators[name](JSON.parse(message));
    console.log(JSON.stringify(fits ? null : ajv.errorsText(validators[name].errors)));
  }
}

main();
