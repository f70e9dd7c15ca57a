// Says what AsyncAPI's own parser thinks of the document on standard input: one line of JSON a remark.
"use strict";

const { Parser } = require("@asyncapi/parser");

async function main() {
  let text = "";
  for await (const piece of process.stdin) text += piece;
  const { document, diagnostics } = await new Parser().parse(text);
  for (const { severity, code, message, path } of diagnostics) {
    console.log(JSON.stringify({ severity, code, message, path: path.join("/") }));
  }
  const operations = document === undefined ? [] : document.operations().all().map((one) => one.id());
  console.log(JSON.stringify({ operations }));
}

main();
