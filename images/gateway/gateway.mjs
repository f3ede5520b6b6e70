// The scripted model gateway. Control over stdin and stdout, one JSON object a line; stderr is its log.
//
//   in:  {"id", "op": "register", "run": TOKEN, "program": PROGRAM, "limits": {NAME: NUMBER}, "canaries": {NAME: TEXT}}
//        {"id", "op": "collect", "run": TOKEN}: end the run -> {size, entries, cut}: bytes of its journal, how many
//        entries that are (null: a gateway before this one wrote some), and the bodies that the journal's cap left out
//        {"id", "op": "read", "run": TOKEN, "at": BYTE} -> {data}: the journal from there on, some of it, in base64
//        {"id", "op": "forget", "run": TOKEN} | {"id", "op": "ping"} -> {t_ns, peak_mb}
//   out: {"id", "ok": true, ...} | {"id", "ok": false, "error": {"code", "message"}}
//        Events: {"event": "ready", "versions"}, {"event": "miss", "run", "reason", "nearest"},
//        {"event": "budget", "reason"}: a live model has spent what it may; {"event": "lost", "run", "reason"}: it did
//        not answer.
//
// The end of stdin ends the process.
// Options: --sockets FOLDER (default /model): where each run gets its own; --journal FOLDER (default /journal),
// --private FILE (default /private/policy.json): upstreams with their keys; read and removed at the start.

import { createHash } from "node:crypto";
import { readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

import { Journal, splitLines } from "./journal.mjs";
import { Tap } from "./tap.mjs";
import { readPrivate, Upstreams } from "./upstream.mjs";

const { values: options } = parseArgs({
  options: {
    sockets: { type: "string", default: "/model" },
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
  for (const name of readdirSync(here)
    .filter((file) => file.endsWith(".mjs"))
    .sort())
    digest.update(readFileSync(`${here}${name}`));
  const manifest = new URL("../package.json", import.meta.resolve("@copilotkit/aimock"));
  return {
    node: process.versions.node,
    aimock: JSON.parse(readFileSync(manifest, "utf8")).version,
    gateway: digest.digest("hex").slice(0, 12),
  };
}

// Bytes of a journal in one reply.
const PIECE = 1024 * 1024;

function known(tap, run) {
  if (!tap.programs.has(run) && !tap.journal.knows(run)) throw new Error("unknown run");
}

async function perform(tap, request) {
  const { run } = request;
  switch (request.op) {
    case "register":
      await tap.register(run, request.program, { limits: request.limits, canaries: request.canaries });
      return {};
    case "collect":
      known(tap, run);
      await tap.settle(run);
      return tap.journal.state(run);
    case "read":
      known(tap, run);
      return { data: tap.journal.read(run, request.at, PIECE).toString("base64") };
    case "forget":
      known(tap, run);
      tap.forget(run);
      return {};
    case "ping":
      // maxRSS: kilobytes (1024), of this process alone.
      return {
        t_ns: JSON.rawJSON(process.hrtime.bigint().toString()),
        peak_mb: (process.resourceUsage().maxRSS * 1024) / 1e6,
      };
    default:
      throw new Error(`unknown op ${request.op}; known: register, collect, read, forget, ping`);
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
const upstreams = new Upstreams(
  readPrivate(options.private),
  options.journal,
  (reason) => put(redact(JSON.stringify({ event: "budget", reason }))),
  lost,
);
const { redact } = upstreams;
const stderr = process.stderr.write.bind(process.stderr);
process.stderr.write = (chunk, ...rest) => stderr(redact(String(chunk)), ...rest);
const miss = (run, reason, nearest) => put(redact(JSON.stringify({ event: "miss", run, reason, nearest })));
// What a gateway before this one left: nobody listens there any more.
for (const name of readdirSync(options.sockets))
  if (name.endsWith(".sock")) rmSync(join(options.sockets, name), { force: true });
const tap = await Tap.create(new Journal(options.journal, redact), miss, upstreams, options.sockets);

put({ event: "ready", versions: versions() });
// Not awaited: a collect that waits for its run's last request must not hold up the others.
for await (const line of splitLines(process.stdin)) void control(tap, line);
process.exit(0);
