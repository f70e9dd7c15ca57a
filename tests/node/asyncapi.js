// Says what AsyncAPI's own parser thinks of the documents on standard input, a JSON list of texts: one line of JSON each.
"use strict";

const { Parser } = require("@asyncapi/parser");

async function main() {
  let input = "";
  for await (const piece of process.stdin) input += piece;
  for (const text of JSON.parse(input)) {
    const { document, diagnostics } = await new Parser().parse(text);
    const remarks = diagnostics.map(({ severity, code, message, path }) => ({ severity, code, message, path }));
    const operations = document === undefined ? null : document.operations().all().map((one) => one.id());
    console.log(JSON.stringify({ remarks, operations }));
  }
}

main();
