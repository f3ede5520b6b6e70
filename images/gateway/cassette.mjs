// Runs whose model is no script: `live` passes requests on, `capture` also says what a cassette must hold, `replay`
// answers from a cassette. Strict: an entry is served once, to a request that is the same after normalising, in the
// order of the tape.

import { setTimeout as sleep } from "node:timers/promises";

import { readAnswer } from "./answers.mjs";
import { DIALECTS } from "./dialects.mjs";
import { decide } from "./factory.mjs";
import { again, differing, leavesOf, normalise, RUN_MARK, rulesOf, VERSION } from "./normalise.mjs";
import { struckParts } from "./redact.mjs";
import { unmet } from "./rules.mjs";
import { striker } from "./strike.mjs";
import { blame, returned, trouble } from "./upstream.mjs";

const MODES = ["capture", "live", "replay"];
// Differences kept in the ledger; the first one is in the reason.
const KEPT_DIFFERENCES = 20;
// Of an answer that is longer, the end is read alone (it states the tokens), and no tape is made of it.
const READ_ANSWER = 8e6;
const READ_END = 1e6;

/** True for a program that this module serves. */
export const isTaped = (program) => MODES.includes(program.mode);

const elapsed = (since) => Number(process.hrtime.bigint() - since) / 1e6;

// End the connection in the middle of the answer; what was written so far still goes out.
const cut = (response) => setImmediate(() => response.socket?.destroySoon());

const isObject = (json) => json !== null && typeof json === "object" && !Array.isArray(json);

/** The path of a request with its query. */
const whole = (exchange) => (exchange.query === "" ? exchange.path : `${exchange.path}?${exchange.query}`);

/** An answer's bytes as they came: [when, bytes] of each piece. */
function pieces(bytes, marks) {
  let from = 0;
  return marks.map(([at, length]) => [at, bytes.subarray(from, (from += length))]);
}

// A tape holds text; bytes that are none stand in base64. A character cut by a chunk's end comes with the next chunk.
function written(chunks) {
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  try {
    const texts = chunks.map(([at, bytes], index) => [
      at,
      decoder.decode(bytes, { stream: index < chunks.length - 1 }),
    ]);
    // What looks like a key may be cut by a chunk's end; our own are struck already.
    const clean = struckParts(texts.map(([, text]) => text));
    return texts.map(([at], index) => [at, clean[index]]).filter(([, text]) => text !== "");
  } catch {
    return chunks.map(([at, bytes]) => [at, { base64: bytes.toString("base64") }]);
  }
}

/**
 * One run's dealings. `tools` = {upstreams, miss(exchange, {reason, nearest}), refuse(exchange, reason, status)}.
 *
 * program = {mode, dialect, side_requests, normalisers} and: capture, live: `upstream` (an id); replay: `tape` (entries
 * as `runner.gateway.cassette` reads them), `timing` ("fast" or "recorded").
 */
export class Session {
  constructor(run, program, tools) {
    this.run = run;
    this.program = program;
    this.tools = tools;
    this.dialect = DIALECTS[program.dialect];
    this.rules = rulesOf(program.normalisers ?? []);
    if (program.mode === "replay") {
      if (program.version !== VERSION)
        throw new Error(
          `the cassette's normalisers are of version ${program.version}, this gateway's of ${VERSION}: capture it anew`,
        );
      this.tape = program.tape.map((entry) => ({
        ...entry,
        key: JSON.stringify(again(entry.request, this.rules)),
        used: false,
      }));
    } else tools.upstreams.check(program.upstream);
  }

  /** Answer an exchange whose request has come in whole; `kept(view)` is what may be held of it meanwhile. */
  answer(exchange, asked, kept) {
    const served = this.#begin(exchange, asked, kept);
    served?.().catch((problem) => {
      process.stderr.write(`request ${exchange.seq}: ${problem.stack}\n`);
      this.tools.miss(exchange, { reason: `the gateway failed: ${problem.message}`, nearest: null });
    });
  }

  // What is to be awaited; null: it is answered. The request itself is not held by it.
  #begin(exchange, asked, kept) {
    const { method } = asked;
    const generates = method === "POST" && this.dialect.route(asked.path) !== null;
    if (!generates && !(method === "POST" && this.dialect.counts(asked.path))) {
      // Probes and the like never leave: they are answered by rule in every mode.
      const decision = decide({ continuations: [], ...this.program, steps: [] }, asked);
      exchange.decision = decision;
      exchange.view = asked.view === null ? null : kept(asked.view);
      if (decision.type === "plain") exchange.reply(decision.status, decision.json);
      else this.tools.refuse(exchange, decision.reason);
      return null;
    }
    asked.view = isObject(asked.json)
      ? this.dialect.read(asked.json, asked.path, this.program.continuations ?? [])
      : null;
    exchange.view = asked.view === null ? null : kept(asked.view);
    const rule = this.program.side_requests.find((one) => unmet(one, asked).length === 0);
    if (this.program.mode === "replay") {
      const entry = this.#found(exchange, this.#form(exchange, asked));
      return entry === null ? null : () => this.#play(exchange, entry);
    }
    const name = rule?.name ?? (generates ? null : "count-tokens");
    const decision = { kind: name === null ? "main" : "side", rule: name, step: null, reason: null, nearest: null };
    return () => this.#forward(exchange, decision, generates);
  }

  #form(exchange, { method, body, json, view }) {
    return normalise(
      { method, path: whole(exchange), headers: exchange.request.headers, body, json, tools: view?.tools ?? [] },
      this.rules,
      this.run,
    );
  }

  // Read again at the end, so that it need not be held while the model thinks.
  #formAgain(exchange) {
    const body = exchange.body.bytes().toString("utf8");
    let json;
    try {
      json = JSON.parse(body);
    } catch {
      json = undefined;
    }
    const view = isObject(json) ? this.dialect.read(json, exchange.path, this.program.continuations ?? []) : null;
    return this.#form(exchange, { method: exchange.request.method, body, json, view });
  }

  async #forward(exchange, decision, generates) {
    const { upstreams } = this.tools;
    const id = this.program.upstream;
    const model = exchange.view?.model ?? null;
    const refusal = upstreams.admit(id, model);
    if (refusal !== null) {
      this.tools.refuse(exchange, `budget of ${id}: ${refusal}`, 400);
      return;
    }
    exchange.decision = decision;
    const captures = this.program.mode === "capture";
    const { response } = exchange;
    const asked = {
      dialect: this.program.dialect,
      method: exchange.request.method,
      path: whole(exchange),
      headers: exchange.request.headers,
      body: exchange.body,
    };
    const length = exchange.body.size;
    // When each piece of the answer came, and its length.
    const marks = [];
    let headers = {};
    // "client": the agent hung up before the answer's end; "cut": the upstream did.
    let end = "client";
    const taped = (chunks, leak) => ({ ...this.#formAgain(exchange), version: VERSION, headers, chunks, end, leak });
    // Until an answer begins: what the ledger says if the agent hangs up first.
    if (captures) exchange.conclude = () => (exchange.tape = taped([], false));
    let answer;
    try {
      answer = await upstreams.send(id, asked, (giveUp) => response.once("close", giveUp));
    } catch (problem) {
      if (response.destroyed) return; // the agent hung up first
      const reason = upstreams.redact(`upstream ${id}: ${trouble(problem)}`);
      exchange.conclude = null;
      this.tools.refuse(exchange, reason, 400);
      upstreams.lose(id, this.run, reason);
      return;
    }
    headers = JSON.parse(upstreams.redact(JSON.stringify(returned(answer.headers))));
    // An upstream may say our key again: neither the agent nor the ledger gets to see it.
    const strike = striker(upstreams.secrets, /\bevent-stream\b/i.test(headers["content-type"] ?? ""));
    response.writeHead(answer.status, headers);
    response.flushHeaders();
    exchange.conclude = () => {
      const said = exchange.answer;
      const large = said.size > READ_ANSWER;
      const text = (large ? said.tail(READ_END) : said.bytes()).toString("utf8");
      const { calls, usage } = readAnswer(this.program.dialect, text);
      // What an answer that never came to its end cost is not stated: about four characters are a token.
      const guessed = { input: Math.ceil(length / 4), cacheRead: 0, cacheWrite: 0, output: Math.ceil(said.size / 4) };
      if (generates) upstreams.book(id, model, answer.status, usage ?? (end === "whole" ? null : guessed));
      const told = usage && { input: usage.input + usage.cacheRead + usage.cacheWrite, output: usage.output };
      const blamed = end === "cut" ? answer.why() : blame(answer.status, text);
      const reason = blamed === null ? null : `upstream ${id}: ${blamed}`;
      exchange.decision = { ...exchange.decision, calls, usage: told, reason };
      if (!captures) return;
      if (large) {
        exchange.tape = { version: VERSION, large: true };
        return;
      }
      const texts = written(pieces(said.bytes(), marks)).map(([at, one]) => [
        Math.round(at * 10) / 10,
        typeof one === "string" ? one.replaceAll(this.run, RUN_MARK) : one,
      ]);
      // A token said in pieces, or hidden in base64, cannot be masked: such a run makes no cassette.
      const leak =
        (JSON.stringify(calls).includes(this.run) && !text.includes(this.run)) ||
        (text.includes(this.run) && !texts.some(([, one]) => typeof one === "string" && one.includes(RUN_MARK)));
      exchange.tape = taped(texts, leak);
    };
    const { body } = answer;
    // False: the agent has not taken what was sent before.
    const send = (bytes) => {
      if (bytes.length === 0) return true;
      marks.push([elapsed(exchange.tRequestEnd), bytes.length]);
      return response.write(bytes);
    };
    body.on("data", (bytes) => {
      // An agent that does not read holds its model up, and nothing else.
      if (send(strike.push(bytes)) || response.destroyed) return;
      answer.pause();
      response.once("drain", answer.resume);
    });
    body.once("end", () => {
      send(strike.end());
      end = "whole";
      response.end();
    });
    body.on("error", () => {}); // "close" follows
    body.once("close", () => {
      if (end === "whole" || response.destroyed) return;
      send(strike.end());
      end = "cut";
      cut(response);
    });
  }

  /** The tape's entry that answers a request; null: there is none, and that was said. */
  #found(exchange, { request, hashed }) {
    const key = JSON.stringify(request);
    const entry = this.tape.find((one) => !one.used && one.key === key);
    if (entry === undefined) {
      this.#missed(exchange, request, key);
      return null;
    }
    entry.used = true;
    const drift = [...new Set([...Object.keys(entry.hashed), ...Object.keys(hashed)])].filter(
      (part) => entry.hashed[part] !== hashed[part],
    );
    exchange.tape = { entry: entry.entry, drift: drift.sort() };
    return entry;
  }

  async #play(exchange, entry) {
    const { response } = exchange;
    const chunks = entry.response.chunks.map(([at, one]) => [
      at,
      typeof one === "string"
        ? Buffer.from(one.replaceAll(RUN_MARK, this.run), "utf8")
        : Buffer.from(one.base64, "base64"),
    ]);
    const { calls, usage } = readAnswer(
      this.program.dialect,
      Buffer.concat(chunks.map(([, bytes]) => bytes)).toString("utf8"),
    );
    const told = usage && { input: usage.input + usage.cacheRead + usage.cacheWrite, output: usage.output };
    exchange.decision = {
      kind: entry.kind,
      rule: entry.rule,
      step: null,
      reason: null,
      nearest: null,
      calls,
      usage: told,
    };
    // 0: the agent hung up before an answer began, as it will now.
    if (entry.response.status === 0) return;
    response.writeHead(entry.response.status, entry.response.headers);
    response.flushHeaders();
    for (const [at, bytes] of chunks) {
      if (this.program.timing === "recorded") await sleep(Math.max(0, at - elapsed(exchange.tRequestEnd)));
      if (response.destroyed) return;
      response.write(bytes);
    }
    if (entry.response.end === "whole") response.end();
    else if (entry.response.end === "cut") cut(response);
    // "client": the agent hung up before the end; it will again.
  }

  #missed(exchange, request, key) {
    const repeated = this.tape.find((one) => one.key === key);
    if (repeated !== undefined) {
      this.tools.miss(exchange, {
        reason: "the request was asked more often than it was recorded",
        nearest: `entry ${repeated.entry}, served already`,
      });
      return;
    }
    const asked = leavesOf(request);
    const ranked = this.tape
      .map((entry) => ({ entry, found: differing(leavesOf(JSON.parse(entry.key)), asked) }))
      .sort(
        (a, b) =>
          a.found.length - b.found.length ||
          Number(a.entry.used) - Number(b.entry.used) ||
          a.entry.entry - b.entry.entry,
      );
    if (ranked.length === 0) {
      this.tools.miss(exchange, { reason: "the cassette holds no request", nearest: null });
      return;
    }
    const [{ entry, found }] = ranked;
    const [first = { at: "nothing", character: 0, recorded: null, asked: null }] = found;
    const show = (text) => (text === null ? "nothing" : JSON.stringify(text));
    const more = found.length > 1 ? ` (and ${found.length - 1} more differences)` : "";
    exchange.tape = { entry: null, drift: [], differences: found.slice(0, KEPT_DIFFERENCES) };
    this.tools.miss(exchange, {
      reason: "no request like this one was recorded",
      nearest:
        `entry ${entry.entry} differs at ${first.at}, character ${first.character}: ` +
        `recorded ${show(first.recorded)}, asked ${show(first.asked)}${more}`,
    });
  }
}
