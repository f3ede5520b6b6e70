// The front door: finds the run, lets only model paths through, keeps raw bodies and times, hands the rest to aimock.
//
// aimock's own listener is closed: a request reaches it only from here, as an event, with a path and headers that we
// chose, so neither its control routes nor its x-aimock-* and x-test-id switches can be reached by an agent.

import { Readable } from "node:stream";

import { createServer as createAimock } from "@copilotkit/aimock";

import { isTaped, Session } from "./cassette.mjs";
import { DIALECTS } from "./dialects.mjs";
import { Door, socketOf } from "./door.mjs";
import { CATCH_ALL, decide, serve } from "./factory.mjs";
import { faultOf, gateOf, refusalOf } from "./faults.mjs";
import { safeHeaders } from "./journal.mjs";
import { limitsOf, MODEL_NAME, PATH, REASON, short, TOOL_NAME, TOOLS, tidy, unparsable } from "./limits.mjs";
import { outgoing } from "./outgoing.mjs";

const RUN_PATH = /^\/r\/([A-Za-z0-9_-]+)(\/[^?]*)?(?:\?(.*))?$/;
// What a path of a model never holds: an attempt at another one.
const TRICK = /\/\/|\/\.{1,2}(?:\/|$)|%2e|%2f|%5c|\\/i;
const SETTLE_MS = 2000;
const WATCH_MS = 1000;
// Bodies above it are read one at a time, so that other runs' requests are answered in between.
const LARGE_BODY = 256 * 1024;
// What this process reads and leaves behind between two collections of garbage: left alone, Node would let more pile
// up.
const COLLECT_BYTES = 16e6;
// Of what is said beside the conversation, aimock gets what is no longer than this.
const SMALL = 4000;

const now = () => process.hrtime.bigint();

/** One request from its first byte to its response's last. */
class Exchange {
  constructor(request, response, spools) {
    this.request = request;
    this.response = response;
    this.tRequest = now();
    this.tRequestEnd = null;
    this.tFirstByte = null;
    // Its body, and what it was answered.
    this.body = spools.body;
    this.answer = spools.answer;
    this.run = null;
    this.seq = 0;
    this.path = request.url;
    this.query = "";
    this.view = null;
    this.served = null;
    // Over what aimock writes; null: it goes out as it is.
    this.rewrite = null;
    // The fault that this answer meets, which request for its step this is (from 1), and what stands in aimock's way
    // then.
    this.fault = null;
    this.attempt = null;
    this.gate = null;
    // The bound that it was refused by, and which of the run's refusals that was.
    this.limit = null;
    this.refusal = 0;
    // All of the answer went out. (Node says the same of a response whose connection is gone.)
    this.finished = false;
    // Why it was cut off: the client did not take it.
    this.unread = null;
    // Bytes of its body that count as held; the timer of its body; what the client had taken when somebody last looked.
    this.held = 0;
    this.timer = null;
    this.taken = null;
    // Of models that are no script: what the ledger says of the cassette, and what is to be done before its line is
    // written.
    this.tape = null;
    this.conclude = null;
    this.decision = {
      kind: "refused",
      rule: null,
      step: null,
      reason: "the request never came to its end",
      nearest: null,
    };
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
      if (typeof chunk === "string")
        this.answer.write(
          Buffer.from(chunk, typeof encoding === "string" ? /** @type {BufferEncoding} */ (encoding) : "utf8"),
        );
      else if (chunk instanceof Uint8Array) this.answer.write(chunk);
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
    const headers =
      text === ""
        ? { "content-length": 0 }
        : { "content-type": "application/json", "content-length": Buffer.byteLength(text) };
    // Not with writeHead: the entry could not read them back.
    for (const [name, value] of Object.entries({ ...headers, ...more })) this.response.setHeader(name, value);
    this.response.writeHead(status);
    this.response.end(text);
  }

  entry() {
    const { decision, view, response } = this;
    const tEnd = now();
    const text = (given) => (given === null ? null : short(given, REASON));
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
      path: short(this.query === "" ? this.path : `${this.path}?${this.query}`, PATH),
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
      reason: text(decision.reason),
      nearest: text(decision.nearest),
      limit: this.limit,
      request: { headers: safeHeaders(this.request.headers) },
      response: { headers: safeHeaders(response.getHeaders()) },
      tape: this.tape,
      aborted: !this.finished && this.fault !== "reset",
    };
  }
}

// What is kept of a request while its answer is on the way: of the conversation itself nothing.
const kept = ({ model, stream, tools, prompts }) => ({
  model: model === null ? null : short(model, MODEL_NAME),
  stream,
  tools: tools.slice(0, TOOLS).map((tool) => short(tool, TOOL_NAME)),
  prompts,
});

/** Requests with large bodies, one at a time; what came first of each run takes its turn. */
class Queue {
  #waiting = new Map();
  #running = false;

  add(run, work) {
    if (!this.#waiting.has(run)) this.#waiting.set(run, []);
    this.#waiting.get(run).push(work);
    if (!this.#running) this.#next();
  }

  forget(run) {
    this.#waiting.delete(run);
  }

  #next() {
    const [first] = this.#waiting;
    this.#running = first !== undefined;
    if (first === undefined) return;
    // After what other connections have to say.
    setImmediate(() => {
      const [run, works] = first;
      const work = this.#waiting.get(run) === works ? works.shift() : undefined;
      this.#waiting.delete(run);
      if (works.length > 0 && work !== undefined) this.#waiting.set(run, works); // to the end
      work?.();
      this.#next();
    });
  }
}

export class Tap {
  /**
   * `onMiss(run, reason, nearest)` is called for every miss; `upstreams` is the way out; sockets are made in `folder`.
   */
  static async create(journal, onMiss, upstreams, folder) {
    const aimock = await createAimock([CATCH_ALL], {
      // Not strict: strict turns thinking off for models it does not know, and answers 400 by its own rules.
      strict: false,
      journalMaxEntries: 1,
      logLevel: "silent",
    });
    await new Promise((done) => aimock.server.close(done));
    return new Tap(journal, onMiss, upstreams, aimock.server, folder);
  }

  constructor(journal, onMiss, upstreams, aimock, folder) {
    this.journal = journal;
    this.onMiss = onMiss;
    this.upstreams = upstreams;
    this.aimock = aimock;
    this.folder = folder;
    this.programs = new Map();
    // Run -> its way in.
    this.doors = new Map();
    // Run -> sub-agent, prompt and step -> requests for it so far, and the number of the first prompt it was asked for
    // (agents may put prompts of their own before the user's). The one thing that answers depend on beside the request.
    this.attempts = new Map();
    // Of the runs whose model is no script.
    this.sessions = new Map();
    this.firstPrompts = new Map();
    this.open = new Set();
    this.queue = new Queue();
    this.received = 0;
    setInterval(() => this.#watch(), WATCH_MS).unref();
  }

  /** `given`: {limits: those that are not the defaults, canaries: name -> text}. */
  async register(run, program, given = {}) {
    if (!/^[A-Za-z0-9_-]{8,128}$/.test(run)) throw new Error("a run token is 8 to 128 of A-Z a-z 0-9 _ -");
    if (this.programs.has(run)) throw new Error("this run is registered already");
    if (!(program.dialect in DIALECTS)) {
      throw new Error(`dialect ${program.dialect} is not served; served: ${Object.keys(DIALECTS).join(", ")}`);
    }
    const limits = limitsOf(given.limits);
    let session = null;
    if (isTaped(program)) {
      const miss = (exchange, found) => this.#miss(exchange, found);
      const refuse = (exchange, reason, status = 404) => this.#refuse(exchange, reason, status);
      session = new Session(run, program, { upstreams: this.upstreams, miss, refuse });
    }
    const patterns = [...(program.continuations ?? []), ...Object.values(program.results ?? {}).flat()];
    const steps = [...(program.steps ?? []), ...(program.subagents ?? []).flatMap((one) => one.steps)];
    for (const when of steps.map((step) => step.when)) patterns.push(when?.matches ?? "", when?.lacks ?? "");
    for (const pattern of patterns) new RegExp(pattern); // throws here, not in the middle of a run
    const tools = {
      request: (request, response) => this.#handle(run, request, response),
      refused: (refusal) => this.#turnedAway(run, refusal),
    };
    const door = new Door(socketOf(this.folder, run), limits, tools);
    if (session !== null) this.sessions.set(run, session);
    this.programs.set(run, program);
    this.attempts.set(run, new Map());
    this.doors.set(run, door);
    this.journal.begin(run, limits.journal_bytes, given.canaries ?? {});
    try {
      await door.listen();
    } catch (problem) {
      this.forget(run);
      throw problem;
    }
  }

  /** Let no new request of `run` in and wait until none is open; cut the ones that stay. */
  async settle(run) {
    const mine = () => [...this.open].filter((exchange) => exchange.run === run);
    const deadline = Date.now() + SETTLE_MS;
    while (mine().length > 0 && Date.now() < deadline) await new Promise((done) => setTimeout(done, 10));
    this.doors.get(run)?.close();
    this.queue.forget(run);
    for (const exchange of mine()) {
      exchange.response.destroy();
      this.#finish(exchange);
    }
  }

  forget(run) {
    this.doors.get(run)?.close();
    for (const map of [this.doors, this.programs, this.attempts, this.sessions, this.firstPrompts]) map.delete(run);
    this.journal.forget(run);
  }

  #handle(run, request, response) {
    const door = this.doors.get(run);
    const seq = this.journal.next(run);
    const exchange = new Exchange(request, response, {
      body: this.journal.spool(run, `${seq}.request`),
      answer: this.journal.spool(run, `${seq}.answer`),
    });
    exchange.run = run;
    exchange.seq = seq;
    this.open.add(exchange);
    door.open += 1;
    door.requests += 1;
    response.once("finish", () => {
      // Node says so too when a connection with unread answers is cut off.
      exchange.finished = exchange.unread === null;
      this.#finish(exchange);
    });
    response.once("close", () => this.#finish(exchange));
    request.on("error", () => {}); // a client that hung up; "close" of the response writes the entry
    const known = this.#locate(exchange);
    const refusal = this.#unwanted(exchange, door, known);
    if (refusal !== null) {
      this.#over(exchange, refusal);
      return;
    }
    exchange.timer = setTimeout(() => {
      const seconds = door.limits.body_ms / 1000;
      this.#over(exchange, { status: 408, limit: "body-time", reason: `a request's body took more than ${seconds} s` });
    }, door.limits.body_ms);
    request.on("data", (chunk) => this.#received(exchange, door, chunk));
    request.on("end", () => {
      exchange.tRequestEnd = now();
      clearTimeout(exchange.timer);
      if (exchange.limit !== null) return;
      if (exchange.body.size > LARGE_BODY) this.queue.add(run, () => this.#read(exchange, door));
      else this.#read(exchange, door);
    });
  }

  // The run stands in the path, or (for agents that cannot take a path) is the key itself. False: it is not this one's.
  #locate(exchange) {
    const found = RUN_PATH.exec(exchange.request.url);
    const { headers } = exchange.request;
    const key =
      headers["x-api-key"] ?? headers["x-goog-api-key"] ?? (headers.authorization ?? "").replace(/^Bearer /i, "");
    const known = found?.[1] === exchange.run;
    if (known) {
      exchange.path = found[2] ?? "/";
      exchange.query = found[3] ?? "";
    } else [exchange.path, exchange.query = ""] = exchange.request.url.split(/\?(.*)/s);
    exchange.query = exchange.query.replace(/(^|&)key=[^&]*/g, "$1key=***");
    return known || key === exchange.run;
  }

  /** Why a request is not even received: {status, limit, reason}; null: it is. */
  #unwanted({ request, path }, door, known) {
    const { limits } = door;
    const { headers } = request;
    if (door.requests > limits.requests)
      return { status: 429, limit: "requests", reason: `more than ${limits.requests} requests in one run` };
    if (door.open > limits.open_requests)
      return { status: 429, limit: "open-requests", reason: `more than ${limits.open_requests} requests at once` };
    if (door.unread > limits.unread_bytes)
      return {
        status: 429,
        limit: "unread",
        reason: `more than ${limits.unread_bytes} bytes of answers wait to be read`,
      };
    if (TRICK.test(path))
      return { status: 404, limit: "path", reason: `not a path of this model: ${request.method} ${path}` };
    // "token": it names another run. Agents may ask for addresses of their own too.
    if (!known) return { status: 404, limit: path.startsWith("/r/") ? "token" : "unnamed", reason: "unknown run" };
    if (headers.upgrade !== undefined)
      return { status: 400, limit: "upgrade", reason: `the protocol ${headers.upgrade} is not served` };
    const packed = (headers["content-encoding"] ?? "identity").trim().toLowerCase();
    if (packed !== "identity" && packed !== "")
      return {
        status: 415,
        limit: "content-encoding",
        reason: `a request's body is packed (${packed}); only plain ones are served`,
      };
    return Number(headers["content-length"] ?? 0) > limits.request_bytes
      ? this.#tooLong(limits, headers["content-length"])
      : null;
  }

  #tooLong(limits, size) {
    return {
      status: 413,
      limit: "request-bytes",
      reason: `a request of ${size} bytes; at most ${limits.request_bytes} are served (knob model_request_mb)`,
    };
  }

  #received(exchange, door, chunk) {
    this.#collect(chunk.length);
    if (exchange.limit !== null || !this.open.has(exchange)) return; // refused: it only drains
    const { limits } = door;
    door.received += chunk.length;
    door.held += chunk.length;
    exchange.held += chunk.length;
    if (exchange.held > limits.request_bytes)
      this.#over(exchange, this.#tooLong(limits, `more than ${limits.request_bytes}`));
    else if (door.held > limits.held_bytes)
      this.#over(exchange, {
        status: 413,
        limit: "held-bytes",
        reason: `the run's open requests hold more than ${limits.held_bytes} bytes`,
      });
    else if (door.received > limits.total_bytes)
      this.#over(exchange, {
        status: 429,
        limit: "total-bytes",
        reason: `more than ${limits.total_bytes} bytes of requests in one run`,
      });
    else exchange.body.write(chunk);
  }

  /** Count bytes that become garbage; after some of them it is collected. Runs that send little never come to it. */
  #collect(bytes) {
    this.received += bytes;
    if (this.received < COLLECT_BYTES) return;
    this.received = 0;
    globalThis.gc?.();
  }

  /**
   * Refuse a request by a bound. What its client still sends is thrown away, so that it gets to read the answer; one
   * that goes on sending gets the answer after a while, and is cut off after another.
   */
  #over(exchange, { status, limit, reason }) {
    if (exchange.limit !== null || !this.open.has(exchange)) return;
    clearTimeout(exchange.timer);
    const door = this.doors.get(exchange.run);
    const { request } = exchange;
    exchange.tRequestEnd ??= now();
    const last = door.refused();
    exchange.limit = last ? "refusals" : limit;
    exchange.refusal = door.refusals;
    const words = last ? `${reason}; refused ${door.refusals} times, so the run gets no more connections` : reason;
    exchange.decision = { kind: "refused", rule: null, step: null, reason: words, nearest: null };
    if (last) setTimeout(() => door.close(), WATCH_MS).unref();
    if (door.refusals > door.limits.refusals) {
      request.socket.destroy();
      return;
    }
    const answer = () => this.open.has(exchange) && this.#refuse(exchange, words, status);
    if (request.complete) {
      answer();
      return;
    }
    request.once("end", answer);
    request.on("data", (chunk) => this.#collect(chunk.length));
    const { linger_ms: linger } = door.limits;
    setTimeout(() => {
      answer();
      setTimeout(() => request.complete || request.socket.destroy(), linger).unref();
    }, linger).unref();
  }

  /**
   * A connection was refused, or what came over it was no request; true where an open request of its is ended with it.
   */
  #turnedAway(run, { status, limit, reason, socket, head }) {
    const exchange = [...this.open].find((one) => one.request.socket === socket && !one.request.complete);
    if (exchange !== undefined) {
      // Nothing more of it can be read.
      this.#over(exchange, { status, limit, reason });
      if (this.open.has(exchange)) this.#refuse(exchange, reason, status);
      socket.destroySoon();
      return true;
    }
    const door = this.doors.get(run);
    const last = door.refused();
    if (last) limit = "refusals";
    if (door.refusals <= door.limits.refusals) {
      const [, method = "", url = ""] =
        /^([A-Za-z]+) (\S+)/.exec((head ?? Buffer.alloc(0)).subarray(0, PATH).toString("latin1")) ?? [];
      this.journal.write(
        run,
        this.#bare(run, { status, limit, reason, method, path: url.replace(`/r/${run}`, "").split("?")[0] }),
        this.journal.spool(run, "none"),
        this.journal.spool(run, "none"),
      );
    }
    if (last) setTimeout(() => door.close(), WATCH_MS).unref();
    return false;
  }

  #bare(run, { status, limit, reason, method, path }) {
    const t = now();
    const nothing = {
      rule: null,
      step: null,
      subagent: null,
      skipped: [],
      fault: null,
      attempt: null,
      model: null,
      stream: false,
      tools: [],
      calls: [],
      usage: null,
      nearest: null,
      tape: null,
    };
    const times = { t_request_ns: t, t_request_end_ns: t, t_first_byte_ns: t, t_response_end_ns: t };
    const message = { request: { headers: {} }, response: { headers: {} } };
    return {
      seq: this.journal.next(run),
      run,
      kind: "refused",
      method,
      path: short(path, PATH),
      status,
      reason,
      limit,
      aborted: false,
      ...nothing,
      ...times,
      ...message,
    };
  }

  /** Cut off clients that do not take their answers. */
  #watch() {
    for (const exchange of this.open) {
      const { socket } = exchange.request;
      const waiting = socket.writableLength + (socket._handle?.writeQueueSize ?? 0);
      const taken = socket.bytesWritten - waiting;
      if (waiting === 0 || taken !== exchange.taken?.bytes) exchange.taken = { bytes: taken, since: Date.now() };
      const limit = this.doors.get(exchange.run)?.limits.unread_ms ?? 0;
      if (Date.now() - exchange.taken.since <= limit || waiting === 0) continue;
      exchange.limit = "unread";
      this.doors.get(exchange.run)?.refused();
      exchange.unread = `the answer was not read for ${limit / 1000} s`;
      socket.destroy();
    }
  }

  #read(exchange, door) {
    // It may have been given up while it waited for its turn.
    if (!this.open.has(exchange) || exchange.limit !== null) return;
    try {
      const [text, fault] = this.#text(exchange.body, door.limits);
      tidy(exchange.body.size); // the bytes
      if (fault === null) this.#answer(exchange, text);
      else this.#over(exchange, { status: 400, ...fault });
    } catch (problem) {
      process.stderr.write(`request ${exchange.seq}: ${problem.stack}\n`);
      this.#miss(exchange, { reason: `the gateway failed: ${problem.message}`, nearest: null });
    }
    tidy(exchange.body.size);
  }

  #text(body, limits) {
    const bytes = body.bytes();
    const fault = unparsable(bytes, limits);
    return [fault === null ? bytes.toString("utf8") : null, fault];
  }

  #answer(exchange, text) {
    const { request } = exchange;
    const program = this.programs.get(exchange.run);
    const asked = { method: request.method, path: exchange.path, body: text, json: parse(text) };
    const session = this.sessions.get(exchange.run);
    if (session !== undefined) {
      session.answer(exchange, asked, kept);
      return;
    }
    asked.firstPrompt = this.firstPrompts.get(exchange.run);
    const decision = decide(program, asked);
    exchange.decision = decision;
    exchange.view = asked.view === null ? null : kept(asked.view);
    if (decision.kind === "main" && decision.subagent === null)
      this.firstPrompts.set(exchange.run, asked.firstPrompt ?? asked.view.prompts);
    if (decision.type === "miss") this.#miss(exchange, decision);
    else if (decision.type === "refused")
      exchange.reply(404, DIALECTS[program.dialect].error(404, short(decision.reason, REASON)));
    else if (decision.type === "plain") exchange.reply(decision.status, decision.json);
    else if (!this.#refuses(exchange, program)) this.#toAimock(exchange, program, asked.json);
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

  #toAimock(exchange, program, json) {
    const dialect = DIALECTS[program.dialect];
    const inner = Readable.from([Buffer.from(JSON.stringify(outline(json)), "utf8")]);
    Object.assign(inner, {
      method: "POST",
      url: dialect.route(exchange.path),
      headers: {
        host: "gateway",
        "content-type": "application/json",
        "x-request-id": `req_${exchange.decision.response.id}`,
      },
      socket: exchange.request.socket,
    });
    exchange.rewrite = outgoing(dialect, exchange.decision);
    exchange.served = serve(program, exchange.decision, exchange.view, () => {
      this.aimock.emit("request", inner, exchange.response);
    });
  }

  #miss(exchange, { reason, nearest }, status = 400) {
    exchange.decision = { kind: "miss", rule: null, step: null, reason, nearest };
    const message = short(
      `${this.sessions.has(exchange.run) ? "REPLAY" : "SCRIPT"} MISS: ${reason}` +
        (nearest === null ? "" : ` (nearest: ${nearest})`),
      REASON,
    );
    const dialect = DIALECTS[this.programs.get(exchange.run).dialect];
    if (!exchange.response.headersSent) exchange.reply(status, dialect.error(status, message));
    else exchange.response.destroy();
    this.onMiss(exchange.run, short(reason, REASON), nearest === null ? null : short(nearest, REASON));
  }

  #refuse(exchange, reason, status) {
    exchange.decision = { kind: "refused", rule: null, step: null, reason, nearest: null };
    if (exchange.response.headersSent) exchange.response.destroy();
    else exchange.reply(status, DIALECTS[this.programs.get(exchange.run).dialect].error(status, short(reason, REASON)));
  }

  #finish(exchange) {
    if (!this.open.delete(exchange)) return;
    clearTimeout(exchange.timer);
    const door = this.doors.get(exchange.run);
    if (door !== undefined) {
      door.open -= 1;
      door.held -= exchange.held;
    }
    try {
      try {
        this.#conclude(exchange);
      } catch (problem) {
        // One request's trouble, not the other runs'.
        process.stderr.write(`request ${exchange.seq}: ${problem.stack}\n`);
        exchange.decision = {
          kind: "miss",
          rule: null,
          step: null,
          reason: `the gateway failed: ${problem.message}`,
          nearest: null,
        };
      }
      // Beyond the last refusal nothing is written any more: there may be any number of them.
      if (exchange.refusal <= (door?.limits.refusals ?? Infinity)) {
        this.journal.write(exchange.run, exchange.entry(), exchange.body, exchange.answer);
        tidy(exchange.body.size);
      }
    } finally {
      exchange.body.drop();
      exchange.answer.drop();
    }
  }

  #conclude(exchange) {
    exchange.conclude?.();
    const { response, served } = exchange;
    const delayed = exchange.fault === "stall" || exchange.fault === "slow-start";
    if (exchange.fault !== null && !(delayed && exchange.finished)) {
      // The step is still to be served. (What was only held up came after all.)
      exchange.decision = { ...exchange.decision, kind: "fault", calls: [], usage: null };
    }
    if (served !== null && exchange.finished && (!served.asked || response.statusCode !== 200)) {
      const manner = served.asked ? "to the script's answer" : "without asking the script";
      const reason = `aimock answered ${response.statusCode} ${manner}`;
      exchange.decision = { kind: "miss", rule: null, step: null, reason, nearest: null };
      this.onMiss(exchange.run, reason, null);
    }
    if (exchange.unread !== null) exchange.decision = { ...exchange.decision, reason: exchange.unread };
  }
}

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

// What aimock gets of a request: what shapes the form of an answer. Its contents are the script's, so that the
// conversation, which may be megabytes, need not be read once more.
const CONVERSATION = {
  messages: { role: "user", content: "-" },
  input: { role: "user", content: "-" },
  contents: { role: "user", parts: [{ text: "-" }] },
};
const UNREAD = new Set(["system", "instructions", "systemInstruction", "system_instruction", "tools", "thinking"]);

function outline(json) {
  const outlined = Object.entries(json).flatMap(([key, value]) => {
    if (UNREAD.has(key)) return [];
    const stand = Object.hasOwn(CONVERSATION, key) ? CONVERSATION[key] : null;
    if (stand !== null && Array.isArray(value)) return [[key, value.length > 0 ? [stand] : []]];
    if (stand !== null && typeof value === "string") return [[key, "-"]];
    return JSON.stringify(value).length <= SMALL ? [[key, value]] : [];
  });
  return Object.fromEntries(outlined);
}
