// Runs in a container of the gateway's image, beside the gateway: asks it and a bare aimock in turn, and prints the
// times as one JSON object. Arguments: the gateway's socket, the run's token, requests of each kind (0: none), streams
// at once.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { Agent, request } from "node:http";

const [, socket, token, times, atOnce] = process.argv;
const WARM_UP = 50;
const BARE = "/tmp/aimock.sock";
// A process of its own, as the gateway is.
const bare = spawn(
  process.execPath,
  [
    "--input-type=module",
    "-e",
    `import { createServer } from "@copilotkit/aimock";
     const text = "x".repeat(320);
     const response = async () => ({ content: text, usage: { input_tokens: 1, output_tokens: 1 } });
     const fixture = { match: { predicate: () => true }, chunkSize: 32, response };
     const mock = await createServer([fixture], { strict: false, journalMaxEntries: 1, logLevel: "silent" });
     await new Promise((done) => mock.server.close(done));
     mock.server.listen(${JSON.stringify(BARE)}, () => process.stdout.write("ready"));`,
  ],
  { stdio: ["ignore", "pipe", "inherit"] },
);
await once(bare.stdout, "data");

// As large as a coding agent's: a long system prompt and many tools.
const body = (stream, note) =>
  JSON.stringify({
    model: "claude-x",
    max_tokens: 64,
    stream,
    system: "s".repeat(40_000),
    messages: [{ role: "user", content: note }],
    tools: Array.from({ length: 25 }, (_, n) => ({
      name: `Tool${n}`,
      description: "d".repeat(2000),
      input_schema: { type: "object" },
    })),
  });

function ask(agent, socketPath, path, text) {
  return new Promise((done, failed) => {
    const start = process.hrtime.bigint();
    const sent = request({
      agent,
      socketPath,
      path,
      method: "POST",
      headers: { "content-type": "application/json", "content-length": Buffer.byteLength(text) },
    });
    sent.on("error", failed);
    sent.on("response", (response) => {
      const parts = [];
      response.on("data", (part) => parts.push(part));
      response.on("error", failed);
      response.on("end", () => {
        const ms = Number(process.hrtime.bigint() - start) / 1e6;
        done({ ms, status: response.statusCode, text: Buffer.concat(parts).toString() });
      });
    });
    sent.end(text);
  });
}

const targets = {
  aimock: { agent: new Agent({ keepAlive: true }), socketPath: BARE, path: "/v1/messages" },
  gateway: { agent: new Agent({ keepAlive: true }), socketPath: socket, path: `/r/${token}/v1/messages` },
};
const found = {};
for (const [kind, stream] of [
  ["stream", true],
  ["whole", false],
]) {
  const text = body(stream, "hello");
  found[kind] = { aimock: [], gateway: [] };
  const rounds = Number(times) === 0 ? 0 : WARM_UP + Number(times);
  for (let n = 0; n < rounds; n += 1) {
    // In turn, so that whatever else the machine does meets both.
    for (const [name, { agent, socketPath, path }] of Object.entries(targets)) {
      const answer = await ask(agent, socketPath, path, text);
      if (answer.status !== 200) throw new Error(`${name}: ${answer.status} ${answer.text}`);
      if (n >= WARM_UP) found[kind][name].push(answer.ms);
    }
  }
}

const crowd = new Agent({ keepAlive: true, maxSockets: Infinity });
const start = process.hrtime.bigint();
const answers = await Promise.all(
  Array.from({ length: Number(atOnce) }, (_, n) => ask(crowd, socket, targets.gateway.path, body(true, `stream ${n}`))),
);
found.crowd = {
  whole: answers.filter(({ status, text }) => status === 200 && text.includes("message_stop")).length,
  ms: answers.map(({ ms }) => ms),
  total_ms: Number(process.hrtime.bigint() - start) / 1e6,
};
bare.kill();
process.stdout.write(JSON.stringify(found));
process.exit(0);
