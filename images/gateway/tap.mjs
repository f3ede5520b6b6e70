// The front door: finds the run, lets only model paths through, keeps raw bodies and times, hands the rest to aimock.
//
// aimock's own listener is closed: a request reaches it only from here, as an event, with a path and headers that we
// chose, so neither its control routes nor its x-aimock-* and x-test-id switches can be reached by an agent.

import { createServer as createHttpServer } from "node:http";
import { Readable } from "node:stream";

import { createServer as createAimock } from "@copilotkit/aimock";

import { Session, isTaped } from "./cassette.mjs";
import { DIALECTS } from "./dialects.mjs";
import { CATCH_ALL, decide, serve } from "./factory.mjs";
import { faultOf, gateOf, refusalOf } from "./faults.mjs";
import { safeHeaders } from "./journal.mjs";
import { outgoing } from "./outgoing.mjs";

const RUN_PATH = /^\/r\/([A-Za-z0-9_-]+)(\/[^?]*)?(?:\?(.*))?$/;
const BODY_LIMIT = 10 * 1024 * 1024; // aimock cuts the connection above it
const SETTLE_MS = 2000;

const now = () => process.hrtime.bigint();

/** One request from its first byte to its response's last. */
class Exchange {
  constructor(request, response) {
    this.request = request;
    this.response = response;
    this.tRequest = now();
    this.tRequestEnd = null;
    this.tFirstByte = null;
    this.chunks = [];
    this.run = null;
    this.seq = 0;
    this.path = request.url;
    this.query = "";
    this.body = "";
    this.view = null;
    this.served = null;
    // Over what aimock writes; null: it goes out as it is.
    this.rewrite = null;
    // The fault that this answer meets, which request for its step this is (from 1), and what stands in aimock's way then.
    this.fault = null;
    this.attempt = null;
    this.gate = null;
    // Of models that are no script: what the ledger says of the cassette, and what is to be done before its line is written.
    this.tape = null;
    this.conclude = null;
    this.decision = { kind: "refused", rule: null, step: null, reason: "the request never came to its end", nearest: null };
    this.out = {};
    this.#capture();
  }

  /** Let aimock's answer meet `fault`. */
  spoil(fault) {
    this.gate = gateOf(fault, this.out);
  }

  // aimock writes to the response itself; each of its writes is one event of a stream.
  #capture() {
    const { response } = this;
    const keep = (chunk, encoding) => {
      this.tFirstByte ??= now();
      if (typeof chunk === "string") this.chunks.push(Buffer.from(chunk, typeof encoding === "string" ? encoding : "utf8"));
      else if (chunk instanceof Uint8Array) this.chunks.push(Buffer.from(chunk));
    };
    for (const name of ["write", "end"]) {
      const original = response[name].bind(response);
      this.out[name] = (chunk, encoding, done) => {
        keep(chunk, encoding);
        return original(chunk, encoding, done);
      };
      response[name] = (chunk, encoding, done) => {
        const sent = this.rewrite !== null && typeof chunk === "string" ? this.rewrite(chunk) : chunk;
        return this.gate === null ? this.out[name](sent, encoding, done) : this.gate[name](sent);
      };
    }
    // What was written must have left before the connection goes.
    this.out.cut = (text) => this.out.write(text, "utf8", () => setImmediate(() => response.destroy()));
    // aimock says keep-alive on every stream; whether the connection stays is between the client and node.
    const setHeader = response.setHeader.bind(response);
    response.setHeader = (name, value) => (name.toLowerCase() === "connection" ? response : setHeader(name, value));
  }

  reply(status, json, more = {}) {
    const text = json === null ? "" : JSON.stringify(json);
    const headers = text === "" ? { "content-length": 0 } : { "content-type": "application/json", "content-length": Buffer.byteLength(text) };
    // Not with writeHead: the entry could not read them back.
    for (const [name, value] of Object.entries({ ...headers, ...more })) this.response.setHeader(name, value);
    this.response.writeHead(status);
    this.response.end(text);
  }

  entry() {
    const { decision, view, response } = this;
    const tEnd = now();
    return {
      seq: this.seq,
      run: this.run,
      kind: decision.kind,
      rule: decision.rule,
      step: decision.step,
      subagent: decision.subagent ?? null,
      skipped: decision.skipped ?? [],
      fault: this.fault,
      attempt: this.attempt,
      method: this.request.method,
      path: this.query === "" ? this.path : `${this.path}?${this.query}`,
      t_request_ns: this.tRequest,
      t_request_end_ns: this.tRequestEnd ?? tEnd,
      t_first_byte_ns: this.tFirstByte ?? tEnd,
      t_response_end_ns: tEnd,
      status: this.tFirstByte === null ? 0 : response.statusCode,
      model: view?.model ?? null,
      stream: view?.stream ?? false,
      tools: view?.tools ?? [],
      calls: decision.calls ?? [],
      usage: decision.usage ?? null,
      reason: decision.reason,
      nearest: decision.nearest,
      request: { headers: safeHeaders(this.request.headers), body: this.body },
      response: { headers: safeHeaders(response.getHeaders()), body: Buffer.concat(this.chunks).toString("utf8") },
      tape: this.tape,
      aborted: !response.writableFinished && this.fault !== "reset",
    };
  }
}

export class Tap {
  /** `onMiss(run, reason, nearest)` is called for every miss; `upstreams` is the way out. */
  static async create(journal, onMiss, upstreams) {
    const aimock = await createAimock([CATCH_ALL], {
      // Not strict: strict turns thinking off for models it does not know, and answers 400 by its own rules.
      strict: false,
      journalMaxEntries: 1,
      logLevel: "silent",
    });
    await new Promise((done) => aimock.server.close(done));
    return new Tap(journal, onMiss, upstreams, aimock.server);
  }

  constructor(journal, onMiss, upstreams, aimock) {
    this.journal = journal;
    this.onMiss = onMiss;
    this.upstreams = upstreams;
    this.aimock = aimock;
    this.programs = new Map();
    // Run -> sub-agent, prompt and step -> requests for it so far, and the number of the first prompt it was asked for (agents may put
    // prompts of their own before the user's). The one thing that answers depend on beside the request.
    this.attempts = new Map();
    // Of the runs whose model is no script.
    this.sessions = new Map();
    this.firstPrompts = new Map();
    this.open = new Set();
    this.server = createHttpServer((request, response) => this.#handle(request, response));
    // Agents keep connections through their tool runs; a close of ours would race with their next request.
    this.server.keepAliveTimeout = 0;
    this.server.requestTimeout = 0;
    this.server.headersTimeout = 0;
  }

  register(run, program) {
    if (!/^[A-Za-z0-9_-]{8,128}$/.test(run)) throw new Error("a run token is 8 to 128 of A-Z a-z 0-9 _ -");
    if (this.programs.has(run)) throw new Error("this run is registered already");
    if (!(program.dialect in DIALECTS)) {
      throw new Error(`dialect ${program.dialect} is not served; served: ${Object.keys(DIALECTS).join(", ")}`);
    }
    if (isTaped(program)) {
      const miss = (exchange, found) => this.#miss(exchange, found);
      const refuse = (exchange, reason, status = 404) => this.#refuse(exchange, reason, status);
      this.sessions.set(run, new Session(run, program, { upstreams: this.upstreams, miss, refuse }));
    }
    const patterns = [...(program.continuations ?? []), ...Object.values(program.results ?? {}).flat()];
    const steps = [...(program.steps ?? []), ...(program.subagents ?? []).flatMap((one) => one.steps)];
    for (const when of steps.map((step) => step.when)) patterns.push(when?.matches ?? "", when?.lacks ?? "");
    for (const pattern of patterns) new RegExp(pattern); // throws here, not in the middle of a run
    this.programs.set(run, program);
    this.attempts.set(run, new Map());
  }

  /** Wait until no request of `run` is open; cut the ones that stay. */
  async settle(run) {
    const mine = () => [...this.open].filter((exchange) => exchange.run === run);
    const deadline = Date.now() + SETTLE_MS;
    while (mine().length > 0 && Date.now() < deadline) await new Promise((done) => setTimeout(done, 10));
    for (const exchange of mine()) {
      exchange.response.destroy();
      this.#finish(exchange);
    }
  }

  forget(run) {
    this.programs.delete(run);
    this.attempts.delete(run);
    this.sessions.delete(run);
    this.firstPrompts.delete(run);
    this.journal.forget(run);
  }

  #handle(request, response) {
    const exchange = new Exchange(request, response);
    this.open.add(exchange);
    response.once("finish", () => this.#finish(exchange));
    response.once("close", () => this.#finish(exchange));
    this.#locate(exchange);
    exchange.seq = this.journal.next(exchange.run);
    const chunks = [];
    let size = 0;
    request.on("data", (chunk) => {
      size += chunk.length;
      if (size <= BODY_LIMIT) chunks.push(chunk);
    });
    request.on("end", () => {
      exchange.tRequestEnd = now();
      exchange.body = Buffer.concat(chunks).toString("utf8");
      try {
        this.#answer(exchange, size);
      } catch (problem) {
        process.stderr.write(`request ${exchange.seq}: ${problem.stack}\n`);
        this.#miss(exchange, { reason: `the gateway failed: ${problem.message}`, nearest: null });
      }
    });
    request.on("error", () => {}); // a client that hung up; "close" of the response writes the entry
  }

  // The run stands in the path, or (for agents that cannot take a path) is the key itself.
  #locate(exchange) {
    const found = RUN_PATH.exec(exchange.request.url);
    const { headers } = exchange.request;
    const key = headers["x-api-key"] ?? headers["x-goog-api-key"] ?? (headers.authorization ?? "").replace(/^Bearer /i, "");
    if (found !== null && this.programs.has(found[1])) {
      exchange.run = found[1];
      exchange.path = found[2] ?? "/";
      exchange.query = found[3] ?? "";
    } else {
      [exchange.path, exchange.query = ""] = exchange.request.url.split(/\?(.*)/s);
      if (this.programs.has(key)) exchange.run = key;
    }
    exchange.query = exchange.query.replace(/(^|&)key=[^&]*/g, "$1key=***");
  }

  #answer(exchange, size) {
    const { request } = exchange;
    if (exchange.run === null) {
      exchange.decision = { ...exchange.decision, reason: "unknown run" };
      exchange.reply(404, { error: { type: "not_found_error", message: "unknown run" } });
      return;
    }
    const program = this.programs.get(exchange.run);
    if (size > BODY_LIMIT) {
      this.#miss(exchange, { reason: `a request of ${size} bytes; at most ${BODY_LIMIT} are served`, nearest: null }, 413);
      return;
    }
    const asked = { method: request.method, path: exchange.path, body: exchange.body, json: parse(exchange.body) };
    const session = this.sessions.get(exchange.run);
    if (session !== undefined) {
      session.answer(exchange, asked);
      return;
    }
    asked.firstPrompt = this.firstPrompts.get(exchange.run);
    const decision = decide(program, asked);
    exchange.decision = decision;
    exchange.view = asked.view;
    if (decision.kind === "main" && decision.subagent === null) this.firstPrompts.set(exchange.run, asked.firstPrompt ?? asked.view.prompts);
    if (decision.type === "miss") this.#miss(exchange, decision);
    else if (decision.type === "refused") exchange.reply(404, DIALECTS[program.dialect].error(404, decision.reason));
    else if (decision.type === "plain") exchange.reply(decision.status, decision.json);
    else if (!this.#refuses(exchange, program)) this.#toAimock(exchange, program);
  }

  /** Meet the step's next fault; true if it was an answer of its own. */
  #refuses(exchange, program) {
    const { decision, run, view } = exchange;
    if (decision.faults.length === 0) return false;
    const attempts = this.attempts.get(run);
    const key = `${decision.subagent ?? ""}/${view.prompts}/${decision.step}`;
    const attempt = attempts.get(key) ?? 0;
    attempts.set(key, attempt + 1);
    exchange.attempt = attempt + 1;
    const fault = faultOf(decision, attempt);
    if (fault === null) return false;
    exchange.fault = fault.kind;
    const refusal = refusalOf(fault, DIALECTS[program.dialect]);
    if (refusal === null) {
      exchange.spoil(fault);
      return false;
    }
    exchange.reply(refusal.status, refusal.json, refusal.headers);
    return true;
  }

  #toAimock(exchange, program) {
    const dialect = DIALECTS[program.dialect];
    const inner = Readable.from([Buffer.from(exchange.body, "utf8")]);
    inner.method = "POST";
    inner.url = dialect.route(exchange.path);
    inner.headers = { host: "gateway", "content-type": "application/json", "x-request-id": `req_${exchange.decision.response.id}` };
    inner.socket = exchange.request.socket;
    exchange.rewrite = outgoing(dialect, exchange.decision);
    exchange.served = serve(program, exchange.decision, exchange.view, () => {
      this.aimock.emit("request", inner, exchange.response);
    });
  }

  #miss(exchange, { reason, nearest }, status = 400) {
    exchange.decision = { kind: "miss", rule: null, step: null, reason, nearest };
    const message = `${this.sessions.has(exchange.run) ? "REPLAY" : "SCRIPT"} MISS: ${reason}${nearest === null ? "" : ` (nearest: ${nearest})`}`;
    const dialect = DIALECTS[this.programs.get(exchange.run).dialect];
    if (!exchange.response.headersSent) exchange.reply(status, dialect.error(status, message));
    else exchange.response.destroy();
    this.onMiss(exchange.run, reason, nearest);
  }

  #refuse(exchange, reason, status) {
    exchange.decision = { kind: "refused", rule: null, step: null, reason, nearest: null };
    exchange.reply(status, DIALECTS[this.programs.get(exchange.run).dialect].error(status, reason));
  }

  #finish(exchange) {
    if (!this.open.delete(exchange)) return;
    exchange.conclude?.();
    const { response, served } = exchange;
    const delayed = exchange.fault === "stall" || exchange.fault === "slow-start";
    if (exchange.fault !== null && !(delayed && response.writableFinished)) {
      // The step is still to be served. (What was only held up came after all.)
      exchange.decision = { ...exchange.decision, kind: "fault", calls: [], usage: null };
    }
    if (served !== null && response.writableFinished && (!served.asked || response.statusCode !== 200)) {
      const reason = `aimock answered ${response.statusCode} ${served.asked ? "to the script's answer" : "without asking the script"}`;
      exchange.decision = { kind: "miss", rule: null, step: null, reason, nearest: null };
      this.onMiss(exchange.run, reason, null);
    }
    this.journal.write(exchange.run, exchange.entry());
  }
}

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
