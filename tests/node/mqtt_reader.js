// Reads results with MQTT.js over MQTT 5 and a durable session until so many different ones came, then says them: one
// line of JSON each, in order of arrival, repetitions too. Arguments: URL, client id, topic, count, authority,
// certificate, key. "subscribed" comes first.
"use strict";

const fs = require("node:fs");
const mqtt = require("mqtt");

const [url, clientId, topic, count, ca, cert, key] = process.argv.slice(2);
const client = mqtt.connect(url, {
  protocolVersion: 5,
  clientId,
  clean: false,
  properties: { sessionExpiryInterval: 600 },
  reconnectPeriod: 300,
  ca: fs.readFileSync(ca),
  cert: fs.readFileSync(cert),
  key: fs.readFileSync(key),
});
const different = new Set();

client.on("connect", () => client.subscribe(topic, { qos: 1 }, () => console.log(JSON.stringify("subscribed"))));
client.on("error", (error) => console.error(error.message));
client.on("message", (_, payload, packet) => {
  const user = packet.properties.userProperties;
  console.log(JSON.stringify({ payload: payload.toString("utf8"), user: { ...user } }));
  different.add(`${user.streamId} ${user.seq}`);
  if (different.size === Number(count)) client.end();
});
