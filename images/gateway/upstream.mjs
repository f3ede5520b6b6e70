// The way out, for the models `capture` and `live`: which hosts, with which key, and how much of it.
//
// All of it comes in one private file that only this container mounts; it is read once and removed, so that the keys
// stand in this process's memory alone. Neither a program nor an agent can name a host.

import { readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import * as http from "node:http";
import * as https from "node:https";
import { join } from "node:path";
import { pipeline } from "node:stream";
import { createSecureContext, rootCertificates } from "node:tls";
import { createBrotliDecompress, createUnzip, createZstdDecompress } from "node:zlib";

import { redactor } from "./redact.mjs";

const CONNECT_MS = 15_000;
// Asked for none, some servers and proxies pack an answer all the same.
const UNPACK = {
  gzip: createUnzip,
  "x-gzip": createUnzip,
  deflate: createUnzip,
  br: createBrotliDecompress,
  zstd: createZstdDecompress,
};
const UNTRUSTED = new Set([
  "DEPTH_ZERO_SELF_SIGNED_CERT",
  "SELF_SIGNED_CERT_IN_CHAIN",
  "UNABLE_TO_GET_ISSUER_CERT",
  "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
]);
// Of the text in which an upstream says why it refuses.
const SAID = 200;
// What an agent says to the model's API; all else (its key, addresses, traces) ends here.
const FORWARDED = [
  "accept",
  "anthropic-beta",
  "anthropic-dangerous-direct-browser-access",
  "anthropic-version",
  "content-type",
  "openai-beta",
  "originator",
  "user-agent",
  "x-app",
];
// What the API says to an agent; in a replay it is told the same.
const RETURNED = ["content-type", "retry-after", "retry-after-ms", "x-should-retry"];
const AUTH = {
  anthropic: { header: "x-api-key", scheme: "" },
  "openai-chat": { header: "authorization", scheme: "Bearer " },
  "openai-responses": { header: "authorization", scheme: "Bearer " },
  gemini: { header: "x-goog-api-key", scheme: "" },
};
const SPENT = "_spent.json";
const PER = 1e6; // prices are per million tokens

/** Read the private file and remove it; null where there is none: then there is no way out. */
export function readPrivate(path) {
  let text;
  try {
    text = readFileSync(path, "utf8");
  } catch (problem) {
    if (problem.code === "ENOENT") return null;
    throw problem;
  }
  rmSync(path);
  return JSON.parse(text);
}

/** The only headers of an upstream's answer that anyone gets to see. */
export function returned(headers) {
  return Object.fromEntries(RETURNED.filter((name) => name in headers).map((name) => [name, String(headers[name])]));
}

/** `host:port` of a base URL, as an allow-list states it. */
export function origin(base) {
  const url = new URL(base);
  return `${url.hostname}:${url.port || (url.protocol === "https:" ? 443 : 80)}`;
}

/** Why an upstream is to blame for an answer of this kind, as a user reads it; null: it is not, or not yet. */
export function blame(status, text) {
  const refuses =
    status === 401 || status === 403
      ? "it refuses the key"
      : status === 407 || status === 429 || status >= 500
        ? "it does not answer the model's way"
        : null;
  if (refuses === null) return null;
  const said = text.replace(/\s+/g, " ").trim().slice(0, SAID);
  return `status ${status}, ${refuses}${said === "" ? "" : `: ${said}`}`;
}

/** What came of a request that got no answer, with the way out of it where there is one. */
export function trouble(problem) {
  const words = problem.message || problem.code || String(problem);
  // Node's own advice (after a ";") is for whoever starts it.
  return UNTRUSTED.has(problem.code)
    ? `${words.split(";")[0]}; name its authority's certificate by 'ca:' in the model's file`
    : words;
}

// `*` stands for any run of characters.
const fits = (glob, name) =>
  new RegExp(
    `^${glob
      .split("*")
      .map((part) => part.replace(/[.+?^${}()|[\]\\]/g, "\\$&"))
      .join(".*")}$`,
  ).test(name);

/** What one upstream may cost in this sweep; what was spent survives the process. */
class Budget {
  constructor(limits, prices, spent) {
    this.limits = limits;
    this.prices = prices;
    this.spent = spent;
  }

  price(model) {
    return Object.entries(this.prices).find(([glob]) => fits(glob, model))?.[1] ?? null;
  }

  /** Why a request may not go out; null: it may. */
  refusal(model) {
    for (const name of ["requests", "tokens", "money"]) {
      const limit = this.limits[name] ?? null;
      if (limit !== null && this.spent[name] >= limit)
        return `${name}: ${round(this.spent[name])} of ${limit} are spent`;
    }
    if ((this.limits.money ?? null) !== null && this.price(model) === null)
      return `money: there is no price for model ${model}`;
    return null;
  }

  /** Book an answer; why the sweep cannot go on, or null. */
  book(model, status, usage) {
    if (usage === null) {
      const counted = (this.limits.tokens ?? null) !== null || (this.limits.money ?? null) !== null;
      return status === 200 && counted ? "tokens: an answer states no usage, so they cannot be counted" : null;
    }
    this.spent.tokens += usage.input + usage.cacheRead + usage.cacheWrite + usage.output;
    const price = this.price(model);
    if (price !== null) {
      const cached =
        usage.cacheRead * (price.cache_read ?? price.input) + usage.cacheWrite * (price.cache_write ?? price.input);
      this.spent.money += (usage.input * price.input + usage.output * price.output + cached) / PER;
    }
    return null;
  }
}

const round = (value) => Math.round(value * 1e6) / 1e6;

export class Upstreams {
  /**
   * `given` = {upstreams: {id: {base_url, socket, allow, key, auth, ca, silence_s, budget, prices}}} or null; `folder`
   * keeps what was spent; `onSpent(reason)` is called when a budget ends, `onLost(run, reason)` when a request got no
   * answer.
   */
  constructor(given, folder, onSpent, onLost) {
    this.byId = new Map(Object.entries(given?.upstreams ?? {}));
    this.secrets = [...this.byId.values()].map((one) => one.key).filter((key) => typeof key === "string" && key !== "");
    // Of text that says why something went wrong, and of all that is written.
    this.redact = redactor(this.secrets);
    this.file = join(folder, SPENT);
    this.onSpent = onSpent;
    this.onLost = onLost;
    this.told = false;
    this.agents = new Map();
    let spent = {};
    try {
      spent = JSON.parse(readFileSync(this.file, "utf8"));
    } catch (problem) {
      if (problem.code !== "ENOENT") throw problem;
    }
    this.budgets = new Map();
    for (const [id, one] of this.byId) {
      // Made once: a few hundred certificates take a while to read.
      const trusted = one.ca ? { secureContext: createSecureContext({ ca: [...rootCertificates, one.ca] }) } : {};
      this.agents.set(id, {
        "http:": new http.Agent({ keepAlive: true }),
        "https:": new https.Agent({ keepAlive: true, ...trusted }),
      });
      this.budgets.set(
        id,
        new Budget(one.budget ?? {}, one.prices ?? {}, spent[id] ?? { requests: 0, tokens: 0, money: 0 }),
      );
    }
  }

  /** Throws unless `id` is an upstream of this sweep whose address is on its own allow-list. */
  check(id) {
    const one = this.byId.get(id);
    if (one === undefined)
      throw new Error(`no upstream ${id} in this sweep; there are: ${[...this.byId.keys()].join(", ") || "none"}`);
    const there = one.socket === null ? origin(one.base_url) : one.base_url;
    if (!one.allow.includes(there))
      throw new Error(`upstream ${id}: ${there} is not on its allow-list (${one.allow.join(", ")})`);
    return one;
  }

  /** Why a request of `model` may not go to `id`, after telling so; null: it may, and is counted. */
  admit(id, model) {
    const budget = this.budgets.get(id);
    const refusal = budget.refusal(model ?? "");
    if (refusal === null) {
      budget.spent.requests += 1;
      this.#keep();
    } else this.#end(id, refusal);
    return refusal;
  }

  /** A request of `run` got no answer: it is not counted, and told at once, since agents ask again for minutes. */
  lose(id, run, reason) {
    this.budgets.get(id).spent.requests -= 1;
    this.#keep();
    this.onLost(run, reason);
  }

  /** Count an answer's tokens. */
  book(id, model, status, usage) {
    const reason = this.budgets.get(id).book(model ?? "", status, usage);
    this.#keep();
    if (reason !== null) this.#end(id, reason);
  }

  #end(id, reason) {
    if (this.told) return;
    this.told = true;
    this.onSpent(`budget of ${id}: ${reason}`);
  }

  #keep() {
    const aside = `${this.file}.new`;
    writeFileSync(
      aside,
      JSON.stringify(Object.fromEntries([...this.budgets].map(([id, budget]) => [id, budget.spent]))),
    );
    renameSync(aside, this.file);
  }

  /**
   * Send one request. `asked` = {dialect, method, path (with query), headers, body (a spool)}.
   * Resolves to {status, headers, body: a stream, destroyed where the answer ends too soon; why(): then the reason;
   * pause() and resume() for whom it goes to, whose silence is not the upstream's}, as the answer begins; rejects where
   * there is none: the upstream cannot be reached, keeps silent, sends elsewhere. `abort` is told how to give up.
   */
  async send(id, asked, abort) {
    const one = this.check(id);
    const base = new URL(one.socket === null ? one.base_url : "http://localhost");
    const auth = one.auth ?? AUTH[asked.dialect];
    const headers = { "accept-encoding": "identity", "content-length": asked.body.size };
    for (const name of FORWARDED) if (name in asked.headers) headers[name] = asked.headers[name];
    if (typeof one.key === "string") headers[auth.header] = `${auth.scheme}${one.key}`;
    // The agent's own key may stand in the query; it was masked there.
    const askedPath = asked.path.replace(/([?&])key=\*\*\*(?:&|$)/g, "$1").replace(/[?&]$/, "");
    const options = {
      method: asked.method,
      headers,
      path: `${base.pathname.replace(/\/$/, "")}${askedPath}`,
      agent: this.agents.get(id)[base.protocol],
      ...(one.socket === null
        ? { host: base.hostname.replace(/^\[|\]$/g, ""), port: base.port }
        : { socketPath: one.socket }),
    };
    const call = (base.protocol === "https:" ? https : http).request;
    let request;
    let given = false;
    abort(() => {
      given = true;
      request.destroy();
    });
    for (;;) {
      request = call(options);
      try {
        return await answered(
          request,
          base.protocol === "https:" ? "secureConnect" : "connect",
          one.silence_s,
          asked.body,
        );
      } catch (problem) {
        // A kept connection that the upstream closed while the request was on its way: it was not asked yet.
        if (given || !request.reusedSocket || problem.code !== "ECONNRESET") throw problem;
      }
    }
  }
}

function answered(request, connected, silence, body) {
  return new Promise((done, failed) => {
    let why = "it ended its answer in the middle";
    const timer = setTimeout(
      () => request.destroy(new Error(`no connection within ${CONNECT_MS / 1000} s`)),
      CONNECT_MS,
    );
    // Of the socket: neither side said anything.
    request.setTimeout(silence * 1000, () => {
      why = `silent for ${silence} s`;
      request.destroy(new Error(why));
    });
    request.once("socket", (socket) => {
      if (!socket.connecting) clearTimeout(timer);
      else socket.once(connected, () => clearTimeout(timer));
    });
    request.once("response", (answer) => {
      try {
        const given = opened(answer);
        const pause = () => {
          request.setTimeout(0);
          given.body.pause();
        };
        const resume = () => {
          request.setTimeout(silence * 1000);
          given.body.resume();
        };
        done({ ...given, why: () => why, pause, resume });
      } catch (problem) {
        request.destroy();
        failed(problem);
      }
    });
    request.on("error", (problem) => {
      clearTimeout(timer);
      failed(problem);
    });
    // Also where the upstream answers and hangs up before it has read all: its answer counts, or the request's own
    // error.
    pipeline(body.stream(), request, () => {});
  });
}

/** An upstream's answer as the agent may have it. Throws where it is no answer. */
function opened(answer) {
  const { statusCode: status, headers } = answer;
  if (status >= 300 && status < 400) {
    // Not followed: where to, the allow-list did not say.
    const to = String(headers.location ?? "nowhere").split(/[?#]/)[0];
    throw new Error(`it redirects (${status}) to ${to}; if that is meant, make it the model's base_url`);
  }
  const packed = String(headers["content-encoding"] ?? "identity")
    .trim()
    .toLowerCase();
  if (packed === "identity" || packed === "") return { status, headers, body: answer };
  if (!(packed in UNPACK)) throw new Error(`its answer is packed in a way that is not known: ${packed}`);
  const body = UNPACK[packed]();
  pipeline(answer, body, () => {}); // where the answer ends too soon, the body does
  return { status, headers, body };
}
