// The ledger: one JSON line per request, one file per run, full bodies (aimock's own journal cuts them at 64 kB).

import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readSync,
  rmSync,
  statSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";

import { REFUSED_BODY, tidy } from "./limits.mjs";
import { Spool, SUFFIX } from "./spool.mjs";

// Values of these may stand in a record; everything else is dropped, a key's presence is shown without its value.
const KEPT = new Set([
  "accept",
  "anthropic-beta",
  "anthropic-version",
  "content-encoding",
  "content-length",
  "content-type",
  "retry-after",
  "transfer-encoding",
  "user-agent",
  "x-app",
  "x-request-id",
  "x-stainless-retry-count",
]);
const MASKED = new Set(["authorization", "x-api-key", "x-goog-api-key", "api-key"]);
// Bytes of a line for each byte of its bodies (a tape says both again), and beside them.
const BODY_TIMES = 2.5;
const TAPED_TIMES = 5;
const LINE = 1e6;
// A line that any reader of the file takes (runner/text/files.py).
const LONGEST_LINE = 250e6;
// Bodies whose line is no longer than a string can be, whatever has to be escaped in it.
const LONGEST_BODIES = 80e6;
const BLOCK = 64 * 1024;
// Characters of the names of tools in a line without bodies.
const SLIM_TOOLS = 2000;

/**
 * Yield the lines of a byte stream, split at 0x0A only: node's readline also splits at U+2028, which JSON leaves bare.
 */
export async function* splitLines(stream) {
  let parts = [];
  for await (const chunk of stream) {
    let start = 0;
    for (let end; (end = chunk.indexOf(0x0a, start)) >= 0; start = end + 1) {
      parts.push(chunk.subarray(start, end));
      yield Buffer.concat(parts).toString("utf8");
      parts = [];
    }
    parts.push(chunk.subarray(start));
  }
  const rest = Buffer.concat(parts).toString("utf8");
  if (rest !== "") yield rest;
}

/** The headers a record may hold, sorted by name. */
export function safeHeaders(headers) {
  const kept = {};
  for (const name of Object.keys(headers).sort()) {
    if (KEPT.has(name)) kept[name] = String(headers[name]);
    else if (MASKED.has(name)) kept[name] = "***";
  }
  return kept;
}

// Nanoseconds outgrow a double's integers after 104 days of uptime: written as digits.
const digits = (_, value) => (typeof value === "bigint" ? JSON.rawJSON(value.toString()) : value);

function whole(spool) {
  const body = spool.bytes().toString("utf8");
  tidy(spool.size); // the bytes
  return { body, length: spool.size, sha256: null, cut: false };
}

/** A body of which the first `most` bytes are kept (0: none), its length and its hash. */
function cutTo(spool, most) {
  if (spool.size <= most) return whole(spool);
  return {
    body: most > 0 ? spool.bytes(most).toString("utf8") : null,
    length: spool.size,
    sha256: spool.sha256(),
    cut: true,
  };
}

const NEWLINE = Buffer.from("\n");

/** What one run has written so far. */
class Ledger {
  constructor(path, cap) {
    this.file = openSync(path, "a", 0o600);
    this.cap = cap;
    this.bytes = 0;
    this.entries = 0;
    this.cut = { bodies: 0, bytes: 0 };
  }

  append(line) {
    for (const bytes of [line, NEWLINE]) {
      for (let at = 0; at < bytes.length; ) at += writeSync(this.file, bytes, at);
      this.bytes += bytes.length;
    }
    this.entries += 1;
  }
}

export class Journal {
  /** `redact(text)` strikes out what may not be written. A folder that a dead gateway filled is gone on with. */
  constructor(folder, redact) {
    this.folder = folder;
    this.redact = redact;
    this.ledgers = new Map();
    this.caps = new Map();
    this.canaries = new Map();
    this.sequence = new Map();
    mkdirSync(folder, { recursive: true });
    for (const name of readdirSync(folder)) if (name.endsWith(SUFFIX)) rmSync(join(folder, name), { force: true });
  }

  path(run) {
    return join(this.folder, `${run}.jsonl`);
  }

  /**
   * Begin a run's journal. `cap`: bytes that may be kept of it; `canaries` (name -> text) are looked for in what is
   * not.
   */
  begin(run, cap, canaries) {
    this.caps.set(run, cap);
    this.canaries.set(run, Object.entries(canaries));
  }

  /** The next number of `run`, from 0, in order of arrival. */
  next(run) {
    const number = this.sequence.get(run) ?? 0;
    this.sequence.set(run, number + 1);
    return number;
  }

  spool(run, name) {
    return new Spool(join(this.folder, `${run}.${name}`));
  }

  /**
   * Append one entry with its bodies (two spools); it is in the kernel's hands when this returns.
   *
   * Above the run's cap an entry stays without its bodies, with their length and hash; of a refused request only the
   * beginning is kept at any time.
   */
  write(run, entry, request, response) {
    if (!this.ledgers.has(run)) this.ledgers.set(run, new Ledger(this.path(run), this.caps.get(run)));
    const ledger = this.ledgers.get(run);
    const room = ledger.cap - ledger.bytes;
    let bytes = null;
    const size = request.size + response.size;
    const longest = Math.min(room, LONGEST_LINE, (entry.tape === null ? BODY_TIMES : TAPED_TIMES) * size + LINE);
    if (size <= Math.min(longest, LONGEST_BODIES)) {
      const asked = () => (entry.kind === "refused" ? cutTo(request, REFUSED_BODY) : whole(request));
      bytes = this.#line(entry, asked, () => whole(response), []);
      // Escapes make a body up to six times as long, and whoever reads the line holds all of it.
      if (bytes.length > longest) bytes = null;
    }
    if (bytes === null) {
      ledger.cut.bodies += 1;
      ledger.cut.bytes += size;
      const seen = this.#seen(run, request);
      bytes = this.#line(
        slim(entry),
        () => cutTo(request, 0),
        () => cutTo(response, 0),
        seen,
      );
    }
    ledger.append(bytes);
  }

  // The bodies are made by functions, so that nothing holds them beside the line.
  #line(entry, request, response, canaries) {
    const text = this.#text(entry, request(), response(), canaries);
    tidy(text.length); // the bodies
    return Buffer.from(text, "utf8");
  }

  #text(entry, request, response, canaries) {
    const bodies = {
      request: { ...entry.request, ...request },
      response: { ...entry.response, ...response },
      canaries,
    };
    return this.redact(JSON.stringify({ ...entry, ...bodies }, digits));
  }

  #seen(run, request) {
    const known = this.canaries.get(run) ?? [];
    if (known.length === 0) return [];
    const longest = Math.max(...known.map(([, text]) => Buffer.byteLength(text)));
    const seen = new Set();
    for (const block of request.blocks(longest))
      for (const [name, text] of known) if (block.includes(text)) seen.add(name);
    return [...seen].sort();
  }

  /** True where requests of `run` were written, by us or by a gateway that died. */
  knows(run) {
    return /^[A-Za-z0-9_-]+$/.test(run) && existsSync(this.path(run));
  }

  /**
   * What is there of `run`: {size, entries, cut: {bodies, bytes}}; entries is null where a gateway that died wrote
   * some.
   */
  state(run) {
    const ledger = this.ledgers.get(run);
    const size = existsSync(this.path(run)) ? statSync(this.path(run)).size : 0;
    if (ledger === undefined)
      return { size: this.#whole(run, size), entries: size > 0 ? null : 0, cut: { bodies: 0, bytes: 0 } };
    return { size, entries: ledger.bytes === size ? ledger.entries : null, cut: ledger.cut };
  }

  // Up to the last end of a line: a gateway that died may have cut one short.
  #whole(run, size) {
    for (let end = size; end > 0; end = Math.max(0, end - BLOCK)) {
      const from = Math.max(0, end - BLOCK);
      const at = this.read(run, from, end - from).lastIndexOf(NEWLINE);
      if (at >= 0) return from + at + 1;
    }
    return 0;
  }

  /** At most `most` bytes of the journal of `run` from `at` on. */
  read(run, at, most) {
    if (!this.knows(run)) return Buffer.alloc(0);
    const file = openSync(this.path(run), "r");
    try {
      const bytes = Buffer.alloc(most);
      return bytes.subarray(0, readSync(file, bytes, 0, most, at));
    } finally {
      closeSync(file);
    }
  }

  forget(run) {
    for (const kept of [this.sequence, this.caps, this.canaries]) kept.delete(run);
    const ledger = this.ledgers.get(run);
    if (ledger !== undefined) closeSync(ledger.file);
    this.ledgers.delete(run);
    rmSync(this.path(run), { force: true });
  }
}

// What every entry takes is bounded too: an agent can have thousands of them.
function slim(entry) {
  let room = SLIM_TOOLS;
  const tools = entry.tools.filter((tool) => (room -= tool.length) >= 0);
  const calls = entry.calls.map((call) => ({ ...call, arguments: "" }));
  const tape =
    entry.tape === null || entry.tape.request === undefined ? entry.tape : { version: entry.tape.version, large: true };
  return { ...entry, tools, calls, tape };
}
