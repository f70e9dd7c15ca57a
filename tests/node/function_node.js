// Runs a function node of a Node-RED flow. Reads {"flow": [...], "name": "...", "steps": [{"at": ms, "msg": {...}}, ...]}
// and says what it sends at each step: one line of JSON, a list with one message or null an output, bytes as hexadecimal.
"use strict";

async function main() {
  let text = "";
  for await (const piece of process.stdin) text += piece;
  const { flow, name, steps } = JSON.parse(text);
  const { func, outputs } = flow.find((node) => node.type === "function" && node.name === name);
  let now = 0;
  const Clock = class extends Date {
    static now() {
      return now;
    }
  };
  const kept = new Map();
  const context = { get: (key) => kept.get(key), set: (key, value) => kept.set(key, value) };
  const node = { status() {}, warn() {}, error() {} };
  // what Node-RED gives a function node, and nothing of node itself
  const run = new Function("msg", "context", "node", "Buffer", "Date", `"use strict";\n${func}`);
  for (const { at, msg } of steps) {
    now = at;
    const sent = run(msg, context, node, Buffer, Clock) ?? null;
    const list = Array.isArray(sent) ? sent : [sent];
    while (list.length < outputs) list.push(null);
    console.log(JSON.stringify(list, (_, value) => (value?.type === "Buffer" ? Buffer.from(value.data).toString("hex") : value)));
  }
}

main();
