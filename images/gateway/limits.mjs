// What one run may ask of the gateway. All runs of a sweep share this process: without a bound for each of them one
// agent could end it for all, or keep the others waiting. What is over a bound is refused and written into that run's
// journal.

import { STATUS_CODES } from "node:http";

const MB = 1e6;

/**
 * A run's bounds where its program says no others; the knobs `model_request_mb` and `model_cap_mb` set the first two.
 */
export const LIMITS = {
  // A request's body. Long contexts are some megabytes; every byte costs about ten while it is parsed and written.
  request_bytes: 10 * MB,
  // What the journal keeps of a run; beyond it an entry stays without its bodies.
  journal_bytes: 256 * MB,
  // Bodies on their way in, or whose answer is still on its way out, of all open requests together (on disk, not in
  // memory).
  held_bytes: 64 * MB,
  // Bodies of the whole run.
  total_bytes: 4000 * MB,
  // Answers that wait for a client which does not read.
  unread_bytes: 16 * MB,
  // Agents keep a few connections; one with many sub-agents some dozens.
  connections: 256,
  connections_total: 20_000,
  open_requests: 128,
  // Long sessions have some hundreds.
  requests: 10_000,
  // Node's own default is 16 kB.
  head_bytes: 32 * 1024,
  // All of it comes over a Unix socket on one machine; a busy one may take seconds.
  head_ms: 60_000,
  body_ms: 60_000,
  unread_ms: 60_000,
  // A refused client may go on sending for so long, so that it gets to read why.
  linger_ms: 2000,
  // An agent that was refused so often gets no more connections: a flood then costs nothing.
  refusals: 200,
  // Tool schemas nest some 30 deep. Values, since small ones take twenty times their bytes in memory: `{},{},{},...`.
  json_depth: 500,
  json_values: 250_000,
};

// Of a refused request's body: it reached no model.
export const REFUSED_BODY = 64 * 1024;
// What is kept of text that an agent chooses.
export const MODEL_NAME = 200;
export const PATH = 2000;
export const REASON = 1000;
export const TOOL_NAME = 200;
export const TOOLS = 512;

/** `given` over the defaults; throws on an unknown name. */
export function limitsOf(given) {
  for (const [name, value] of Object.entries(given ?? {})) {
    if (!(name in LIMITS) || !Number.isSafeInteger(value) || value <= 0)
      throw new Error(`no such limit: ${name} = ${value}`);
  }
  const limits = { ...LIMITS, ...given };
  limits.held_bytes = Math.max(limits.held_bytes, 4 * limits.request_bytes);
  return limits;
}

/** At most `most` characters, as a string of its own: a slice would hold on to the whole text. */
export function short(text, most) {
  return text.length <= most ? text : `${Buffer.from(text.slice(0, most - 3), "utf8").toString("utf8")}...`;
}

// Bytes that are worth a collection of garbage at once.
const LARGE = 1 * MB;

/** Called where `size` bytes have just become garbage: before as many are taken anew. */
export function tidy(size) {
  if (size > LARGE) globalThis.gc?.();
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN = new Set([0x5b, 0x7b]);
const CLOSE = new Set([0x5d, 0x7d]);
const COMMA = 0x2c;
const COLON = 0x3a;

/**
 * Why a body (bytes) is not parsed: {limit, reason}; null: it may be. Looks at its structure alone, whether it is JSON
 * or not. A key that stands twice at the top is refused too: two readers of it (ours, which counts the money, and the
 * model's) may each take another one.
 */
export function unparsable(bytes, limits) {
  let depth = 0;
  let values = 0;
  let last = null; // [start, end] of the last string at the top level
  const keys = new Set();
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at];
    if (byte === QUOTE) {
      const start = at;
      for (at += 1; at < bytes.length && bytes[at] !== QUOTE; at += 1) if (bytes[at] === BACKSLASH) at += 1;
      if (depth === 1) last = [start, at + 1];
    } else if (OPEN.has(byte)) {
      depth += 1;
      values += 1;
      if (depth > limits.json_depth)
        return { limit: "json-depth", reason: `JSON nested more than ${limits.json_depth} deep` };
    } else if (CLOSE.has(byte)) depth -= 1;
    else if (byte === COMMA) values += 1;
    else if (byte === COLON) {
      values += 1;
      if (depth === 1 && last !== null) {
        const key = keyOf(bytes, last);
        if (keys.has(key))
          return { limit: "json-keys", reason: `the key ${JSON.stringify(short(key, 100))} stands twice` };
        keys.add(key);
        last = null;
      }
    }
    if (values > limits.json_values)
      return { limit: "json-values", reason: `more than ${limits.json_values} JSON values` };
  }
  return null;
}

function keyOf(bytes, [start, end]) {
  const text = bytes.subarray(start, end).toString("utf8");
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** Answer a connection that has no request to answer, and end it. */
export function refuseSocket(socket, status, reason, lingerMs) {
  if (socket.destroyed || !socket.writable) {
    socket.destroy();
    return;
  }
  const body = JSON.stringify({ error: { type: "invalid_request_error", message: reason } });
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    "Content-Type: application/json",
    `Content-Length: ${Buffer.byteLength(body)}`,
    "Connection: close",
    "\r\n",
  ].join("\r\n");
  socket.end(head + body);
  setTimeout(() => socket.destroy(), lingerMs).unref();
}
