// The scripted model gateway. Control over stdin and stdout, one JSON object a line; stderr is its log.
//
//   in:  {"id", "op": "register", "run": TOKEN, "program": PROGRAM} | {"id", "op": "collect", "run": TOKEN or null} | {"id", "op": "ping"}
//   out: {"id", "ok": true, ...} | {"id", "ok": false, "error": {"code", "message"}}; a collect answers {"id", "entry"} per
//        entry first. Events: {"event": "ready", "versions"}, {"event": "miss", "run", "reason", "nearest"},
//        {"event": "budget", "reason"}: a live model has spent what it may; {"event": "lost", "run", "reason"}: it did not answer.
//
// The end of stdin ends the process. `collect` of run null gives the requests that named no known run; of a run that a
// gateway before this one served, what that one left.
// Options: --socket PATH (default /model/model.sock), --journal FOLDER (default /journal), --private FILE (default
// /private/policy.json): upstreams with their keys; read and removed at the start.

import { createHash } from "node:crypto";
import { chmodSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

import { Journal, splitLines } from "./journal.mjs";
import { Tap } from "./tap.mjs";
import { Upstreams, readPrivate } from "./upstream.mjs";

const { values: options } = parseArgs({
  options: {
    socket: { type: "string", default: "/model/model.sock" },
    journal: { type: "string", default: "/journal" },
    private: { type: "string", default: "/private/policy.json" },
  },
});

let ready = Promise.resolve();

/** Write one line; resolves when stdout takes more. */
function put(object) {
  const text = typeof object === "string" ? object : JSON.stringify(object);
  if (!process.stdout.write(`${text}\n`)) ready = new Promise((done) => process.stdout.once("drain", done));
  return ready;
}

function versions() {
  const here = fileURLToPath(new URL(".", import.meta.url));
  const digest = createHash("sha256");
  for (const name of readdirSync(here).filter((file) => file.endsWith(".mjs")).sort()) digest.update(readFileSync(`${here}${name}`));
  const manifest = new URL("../package.json", import.meta.resolve("@copilotkit/aimock"));
  return {
    node: process.versions.node,
    aimock: JSON.parse(readFileSync(manifest, "utf8")).version,
    gateway: digest.digest("hex").slice(0, 12),
  };
}

async function collect(tap, id, run) {
  if (run !== null && !tap.programs.has(run) && !tap.journal.knows(run)) throw new Error("unknown run");
  await tap.settle(run);
  let count = 0;
  for await (const line of tap.journal.lines(run)) {
    count += 1;
    // The line goes out as it stands in the file: parsing it would round its nanoseconds.
    await put(`{"id":${JSON.stringify(id)},"entry":${line}}`);
  }
  tap.forget(run);
  return { count };
}

async function perform(tap, request) {
  switch (request.op) {
    case "register":
      tap.register(request.run, request.program);
      return {};
    case "collect":
      return collect(tap, request.id, request.run);
    case "ping":
      return { t_ns: JSON.rawJSON(process.hrtime.bigint().toString()) };
    default:
      throw new Error(`unknown op ${request.op}; known: register, collect, ping`);
  }
}

async function control(tap, line) {
  let id = null;
  try {
    const request = JSON.parse(line);
    id = request.id ?? null;
    const result = await perform(tap, request);
    await put({ id, ok: true, ...result });
  } catch (problem) {
    await put(redact(JSON.stringify({ id, ok: false, error: { code: "bad-request", message: problem.message } })));
  }
}

process.umask(0o077);
// Nobody reads us any more: the end, as with stdin's.
process.stdout.on("error", () => process.exit(0));

const lost = (run, reason) => put(redact(JSON.stringify({ event: "lost", run, reason })));
const upstreams = new Upstreams(readPrivate(options.private), options.journal, (reason) => put(redact(JSON.stringify({ event: "budget", reason }))), lost);
const { redact } = upstreams;
const stderr = process.stderr.write.bind(process.stderr);
process.stderr.write = (chunk, ...rest) => stderr(redact(String(chunk)), ...rest);
const miss = (run, reason, nearest) => put(redact(JSON.stringify({ event: "miss", run, reason, nearest })));
const tap = await Tap.create(new Journal(options.journal, redact), miss, upstreams);
rmSync(options.socket, { force: true });
await new Promise((done, failed) => {
  tap.server.once("error", failed);
  tap.server.listen(options.socket, done);
});
// The agent's uid is another one than ours; 0600 would refuse it.
chmodSync(options.socket, 0o666);

put({ event: "ready", versions: versions() });
// Not awaited: a collect that waits for its run's last request must not hold up the others.
for await (const line of splitLines(process.stdin)) void control(tap, line);
process.exit(0);
