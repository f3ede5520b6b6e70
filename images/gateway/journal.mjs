// The ledger: one JSON line per request, one file per run, full bodies (aimock's own journal cuts them at 64 kB).

import { closeSync, createReadStream, existsSync, mkdirSync, openSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";

// Values of these may stand in a record; everything else is dropped, a key's presence is shown without its value.
const KEPT = new Set([
  "accept", "anthropic-beta", "anthropic-version", "content-encoding", "content-length", "content-type",
  "retry-after", "transfer-encoding", "user-agent", "x-app", "x-request-id", "x-stainless-retry-count",
]);
const MASKED = new Set(["authorization", "x-api-key", "x-goog-api-key", "api-key"]);
const UNATTRIBUTED = "_unattributed";
const UNATTRIBUTED_BODY = 64 * 1024;

/** Yield the lines of a byte stream, split at 0x0A only: node's readline also splits at U+2028, which JSON leaves bare. */
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

export class Journal {
  /** `redact(text)` strikes out what may not be written. A folder that a dead gateway filled is gone on with. */
  constructor(folder, redact) {
    this.folder = folder;
    this.redact = redact;
    this.files = new Map();
    this.sequence = new Map();
    mkdirSync(folder, { recursive: true });
  }

  path(run) {
    return join(this.folder, `${run ?? UNATTRIBUTED}.jsonl`);
  }

  /** The next number of `run` (null: of no run), from 0, in order of arrival. */
  next(run) {
    const number = this.sequence.get(run) ?? 0;
    this.sequence.set(run, number + 1);
    return number;
  }

  /** Append one entry; it is in the kernel's hands when this returns. */
  write(run, entry) {
    if (run === null && entry.request.body.length > UNATTRIBUTED_BODY) {
      // Anyone can send these; they prove nothing, so they may not fill the disk.
      entry.request.body = entry.request.body.slice(0, UNATTRIBUTED_BODY);
    }
    if (!this.files.has(run)) this.files.set(run, openSync(this.path(run), "a", 0o600));
    // Nanoseconds outgrow a double's integers after 104 days of uptime: written as digits.
    const digits = (_, value) => (typeof value === "bigint" ? JSON.rawJSON(value.toString()) : value);
    const bytes = Buffer.from(`${this.redact(JSON.stringify(entry, digits))}\n`, "utf8");
    for (let at = 0; at < bytes.length; ) at += writeSync(this.files.get(run), bytes, at);
  }

  /** True where requests of `run` were written, by us or by a gateway that died. */
  knows(run) {
    return /^[A-Za-z0-9-][A-Za-z0-9_-]*$/.test(run) && existsSync(this.path(run));
  }

  /** Yield the lines of `run`, as written; one that a death cut short is no line. */
  async *lines(run) {
    if (!existsSync(this.path(run))) return;
    for await (const line of splitLines(createReadStream(this.path(run)))) if (line.endsWith("}")) yield line;
  }

  forget(run) {
    this.sequence.delete(run);
    const file = this.files.get(run);
    if (file !== undefined) closeSync(file);
    this.files.delete(run);
    rmSync(this.path(run), { force: true });
  }
}
