// What two requests must have in common to count as the same one: a canonical form without the parts that are declared
// volatile. Knows no dialect: what it must tell apart looks alike in none of them and alike in all that have it.
//
// Out of the form but hashed (a change is a warning): the system prompt with everything said in its role, the tools'
// definitions (their names stay), the headers that switch features, and, where declared, reminders. Dropped: who asks.

import { createHash } from "node:crypto";

/** Of the rules below; a cassette that was made with others says so. */
export const VERSION = 2;
/** Stands for the run's own token. */
export const RUN_MARK = "<acpbench-run>";

const SYSTEM = new Set(["system", "instructions", "systemInstruction", "system_instruction"]);
const SYSTEM_ROLES = new Set(["system", "developer"]);
const TOOLS = new Set(["tools", "functions"]);
// Ids of a person, an installation or a session. Of the body alone: deeper down they are a tool's arguments, or what it
// returned.
const DROPPED = new Set([
  "client_metadata",
  "metadata",
  "prompt_cache_key",
  "prompt_cache_retention",
  "safety_identifier",
  "user",
]);
// A mark for the provider's cache, which moves as a history grows: of a part that has a type, so that no tool's
// argument is one.
const isMark = (node, key) =>
  key === "cache_control" && (typeof node.type === "string" || typeof node.role === "string");
const FEATURES = ["anthropic-beta", "anthropic-version", "openai-beta"];
const SHOWN = 60;
// Leaves of a request that are held against a recorded one: an agent's request may have a hundred thousand.
const COMPARED = 10_000;
const AT = 200;

const MONTH = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)";
const CLOCK = "\\d{2}:\\d{2}(?::\\d{2}(?:[.,]\\d+)?)?";
const BUILT_IN = {
  reminders: [
    {
      in: "all",
      pattern: "<system-reminder>[\\s\\S]*?</system-reminder>",
      becomes: "<system-reminder/>",
      hashed: "reminders",
      last: "</system-reminder>",
    },
  ],
  dates: [
    // ISO 8601, RFC 1123 and `date`, the listing of `ls -l`, a date in words.
    {
      in: "all",
      pattern: `\\b20\\d{2}-[01]\\d-[0-3]\\d(?:[T ]${CLOCK}(?: ?(?:Z|[+-]\\d{2}:?\\d{2}))?)?`,
      becomes: "<date>",
    },
    {
      in: "all",
      pattern:
        `\\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? (?:[ 0-3]?\\d ${MONTH}|${MONTH} [ 0-3]?\\d),?(?: \\d{4})? ` +
        `${CLOCK}(?: [A-Z]{3,4})?(?: \\d{4})?`,
      becomes: "<date>",
    },
    { in: "all", pattern: `\\b${MONTH} [ 0-3]?\\d (?:${CLOCK}| \\d{4})`, becomes: "<date>" },
    { in: "all", pattern: `\\b${MONTH}[a-z]* [0-3]?\\d, 20\\d{2}`, becomes: "<date>" },
  ],
  // Also after a prefix: `msg_<uuid>`.
  ids: [
    {
      in: "all",
      pattern: "(?<![0-9A-Za-z])[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}(?![0-9A-Za-z])",
      becomes: "<uuid>",
    },
  ],
  paths: [
    {
      in: "all",
      pattern: "(?:/private)?(?:/var/tmp|/tmp|/dev/shm|/home/agent/tmp)/[^\\s\"'`<>()\\[\\],;]+",
      becomes: "<temporary-path>",
    },
  ],
  durations: [
    { in: "tool_results", pattern: "\\b\\d+m\\d+(?:\\.\\d+)?s\\b", becomes: "<duration>" },
    {
      in: "tool_results",
      pattern: "\\b\\d+(?:\\.\\d+)? ?(?:ns|us|\u00b5s|\u03bcs|ms|s|secs?|seconds?)\\b",
      becomes: "<duration>",
    },
    { in: "tool_results", pattern: '(?<=\\bduration_ms"?:? )\\d+(?:\\.\\d+)?', becomes: "<duration>" },
  ],
  processes: [
    {
      in: "tool_results",
      pattern: "(?<=\\b(?:[Pp]?[Pp][Ii][Dd]s?|PGID|pgid|[Pp]rocess (?:[Gg]roup|ID|id))[\"']?(?:[:=] ?| ))\\d+\\b",
      becomes: "<process>",
    },
  ],
};

/**
 * Normalisers as declared (a built-in's name, or {name, in: "all"|"tool_results", pattern, becomes}) as rules to apply.
 * Throws on an unknown name or a pattern that JavaScript cannot read.
 */
export function rulesOf(declared) {
  return declared.flatMap((given) => {
    if (typeof given === "string" && !(given in BUILT_IN))
      throw new Error(`unknown normaliser ${given}; known: ${Object.keys(BUILT_IN).join(", ")}`);
    return (typeof given === "string" ? BUILT_IN[given] : [given]).map((rule) => ({
      ...rule,
      pattern: compiled(rule.pattern),
    }));
  });
}

// With "u", JavaScript refuses escapes that Python allows (`\-`, `\"`, a bare `{`).
function compiled(pattern) {
  try {
    return new RegExp(pattern, "gu");
  } catch {
    return new RegExp(pattern, "g");
  }
}

// A result of a tool: Anthropic's block, a chat message of the role, a Responses item, a Gemini part.
const isResult = (node) =>
  node.type === "tool_result" ||
  node.role === "tool" ||
  /_call_output$/.test(String(node.type ?? "")) ||
  "functionResponse" in node;

// An object in which a key `__proto__` is one like any other.
const bare = () => Object.create(null);

class Normaliser {
  constructor(rules, token) {
    this.rules = rules;
    this.token = token;
    this.taken = new Map();
  }

  take(part, value) {
    if (!this.taken.has(part)) this.taken.set(part, []);
    this.taken.get(part).push(value);
  }

  text(given, inResult, hashing = false) {
    let text = this.token === null ? given : given.replaceAll(this.token, RUN_MARK);
    for (const rule of this.rules) {
      if (rule.in === "tool_results" && !inResult) continue;
      // A search for an end that never comes would start anew at every beginning.
      const end = rule.last === undefined ? text.length : text.lastIndexOf(rule.last) + rule.last.length;
      if (rule.last !== undefined && end < rule.last.length) continue;
      const replaced = text.slice(0, end).replace(rule.pattern, (found) => {
        // What is being hashed anyway stays whole, but for what changes every day.
        if (rule.hashed === undefined) return rule.becomes;
        if (hashing) return found;
        this.take(rule.hashed, this.text(found, inResult, true));
        return rule.becomes;
      });
      text = replaced + text.slice(end);
    }
    return text;
  }

  // Keys sorted, so that equal values are equal as text.
  value(node, inResult, hashing = false) {
    if (typeof node === "string") return this.text(node, inResult, hashing);
    if (Array.isArray(node)) return node.map((item) => this.value(item, inResult, hashing));
    if (node === null || typeof node !== "object") return node;
    const result = inResult || isResult(node);
    const kept = bare();
    for (const key of Object.keys(node).sort())
      if (!isMark(node, key)) kept[key] = this.value(node[key], result, hashing);
    return kept;
  }

  message(node) {
    if (node === null || typeof node !== "object" || !SYSTEM_ROLES.has(node.role)) return this.value(node, false);
    this.take("system", this.value(node, false, true));
    return { content: "<system>", role: node.role };
  }

  body(json, names) {
    const kept = bare();
    for (const key of Object.keys(json).sort()) {
      if (DROPPED.has(key) || key === "cache_control") continue;
      if (SYSTEM.has(key)) this.take("system", this.value(json[key], false, true));
      else if (TOOLS.has(key)) {
        this.take("tools", this.value(json[key], false, true));
        kept[key] = [...names].sort();
      } else
        kept[key] = Array.isArray(json[key])
          ? json[key].map((item) => this.message(item))
          : this.value(json[key], false);
    }
    return kept;
  }
}

const sha256 = (value) => createHash("sha256").update(JSON.stringify(value)).digest("hex").slice(0, 16);

/**
 * The form of a request: {request: {method, path, body}, hashed: {part: digest}}.
 *
 * `asked` = {method, path (with its query, without the token), headers, body (text), json, tools: names offered}.
 */
export function normalise(asked, rules, token) {
  const normaliser = new Normaliser(rules, token);
  const { json } = asked;
  const whole = json !== null && typeof json === "object" && !Array.isArray(json);
  const body = whole ? normaliser.body(json, asked.tools) : normaliser.text(asked.body, false);
  const path = normaliser.text(asked.path, false);
  const features = FEATURES.filter((name) => name in asked.headers).map((name) => [name, String(asked.headers[name])]);
  if (features.length > 0) normaliser.take("features", features);
  const hashed = Object.fromEntries([...normaliser.taken].map(([part, values]) => [part, sha256(values)]).sort());
  return { request: { method: asked.method, path, body }, hashed };
}

/** A normalised request under rules that were declared after it was written. */
export function again(request, rules) {
  const normaliser = new Normaliser(rules, null);
  const path = normaliser.text(request.path, false);
  return { method: request.method, path, body: normaliser.value(request.body, false) };
}

function leaves(value, at, into) {
  if (into.size >= COMPARED) return into;
  if (value !== null && typeof value === "object") {
    const there = at.length > AT ? `${at.slice(0, AT)}...` : at;
    for (const [name, item] of Object.entries(value)) {
      const key = name.slice(0, AT);
      leaves(item, Array.isArray(value) ? `${there}[${key}]` : there === "" ? key : `${there}.${key}`, into);
    }
    if (Object.keys(value).length === 0) into.set(at, Array.isArray(value) ? "[]" : "{}");
  } else into.set(at, typeof value === "string" ? value : JSON.stringify(value));
  return into;
}

// The two texts around the first character in which they differ.
function around(recorded, asked) {
  let at = 0;
  while (at < recorded.length && at < asked.length && recorded[at] === asked[at]) at += 1;
  const from = Math.max(0, at - SHOWN / 2);
  const cut = (text) =>
    `${from > 0 ? "..." : ""}${text.slice(from, at + SHOWN)}${at + SHOWN < text.length ? "..." : ""}`;
  return { character: at, recorded: cut(recorded), asked: cut(asked) };
}

/** The first leaves of a normalised request, by where they stand. */
export const leavesOf = (request) => leaves(request, "", new Map());

/**
 * Every place in which the leaves of two normalised requests differ: {at, character, recorded, asked}; null: not there
 * at all.
 */
export function differing(old, now) {
  const found = [];
  for (const at of new Set([...old.keys(), ...now.keys()])) {
    const [a, b] = [old.get(at) ?? null, now.get(at) ?? null];
    if (a === b) continue;
    found.push(
      a === null || b === null
        ? { at, character: 0, recorded: a?.slice(0, 2 * SHOWN) ?? null, asked: b?.slice(0, 2 * SHOWN) ?? null }
        : { at, ...around(a, b) },
    );
  }
  return found;
}

export const differences = (recorded, asked) => differing(leavesOf(recorded), leavesOf(asked));
