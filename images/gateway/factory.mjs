// What a request is answered: a pure function of the program and the request, so a retry gets the same answer, byte for
// byte.

import { AsyncLocalStorage } from "node:async_hooks";
import { createHash } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";

import { DIALECTS } from "./dialects.mjs";
import { short, TOOL_NAME, TOOLS } from "./limits.mjs";
import { nearestRule, speaks, unmet } from "./rules.mjs";
import { mark, nextStep } from "./steps.mjs";

// Tokens served where no step says how many: side requests and token counts.
const SIDE_USAGE = { input: 100, output: 10 };
const NO_MORE_USAGE = { cache_read: 0, cache_write: 0, reasoning: 0 };
const COUNTED_TOKENS = 1000;
// Pacing counts characters of a chunk, a latency is given in tokens.
const CHARACTERS_PER_TOKEN = 4;
const SHOWN_CHARACTERS = 300;
// What a list of models holds.
const MODELS = ["acpbench-scripted"];

function distance(a, b) {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= b.length; j += 1) {
      next[j] = Math.min(row[j] + 1, next[j - 1] + 1, row[j - 1] + (a[i - 1] === b[j - 1] ? 0 : 1));
    }
    row = next;
  }
  return row[b.length];
}

/** The offered names nearest to any of `wanted`, nearest first, at most three. */
export function nearestNames(wanted, offered) {
  const near = (a, b) => (a.includes(b) || b.includes(a) ? 0 : distance(a, b));
  const score = (name) => Math.min(...wanted.map((want) => near(want.toLowerCase(), name.toLowerCase())));
  return offered
    .slice(0, TOOLS)
    .map((name) => short(name, TOOL_NAME))
    .map((name) => [score(name), name])
    .sort((a, b) => a[0] - b[0] || (a[1] < b[1] ? -1 : 1))
    .slice(0, 3)
    .map(([, name]) => name);
}

/** How a request ends that nobody knows, so that a rule can be written for it. */
const head = (view) => JSON.stringify(view.lastText.slice(0, SHOWN_CHARACTERS));

function describeStep(step) {
  const calls = step.calls.map((call) => call.meaning);
  return `step ${step.index} (${calls.length > 0 ? calls.join(" + ") : step.say === null ? "think" : "say"})`;
}

const isText = (call) => typeof call.arguments === "string";

// A freeform tool takes text, any other one JSON: an adapter may list a way for both.
const isOffered = (call, view) => view.tools.includes(call.tool) && view.freeform.includes(call.tool) === isText(call);

const miss = (reason, nearest) => ({ type: "miss", kind: "miss", rule: null, step: null, reason, nearest });

function answer(fields, { say, think, calls, usage: given, finish, messageId }, dialect) {
  const usage = { ...NO_MORE_USAGE, ...given };
  const { input, output, total = input + output } = dialect.usage(usage);
  const response = {
    id: messageId,
    finishReason: dialect.finish[finish] ?? finish,
    // Every dialect reads its own names; aimock takes what it needs.
    usage: {
      input_tokens: input,
      output_tokens: output,
      prompt_tokens: input,
      completion_tokens: output,
      total_tokens: total,
      promptTokenCount: input,
      candidatesTokenCount: output,
      totalTokenCount: total,
    },
  };
  if (dialect.created !== undefined) response.created = dialect.created;
  if (think !== null) response.reasoning = think;
  if (say !== null || calls.length === 0) response.content = say ?? "";
  if (calls.length > 0) {
    response.toolCalls = calls.map((call) => ({
      id: call.id,
      name: call.tool,
      arguments: typeof call.arguments === "string" ? call.arguments : JSON.stringify(call.arguments),
    }));
  }
  return {
    type: "answer",
    calls,
    usage,
    finish,
    response,
    latency: null,
    faults: [],
    skipped: [],
    reason: null,
    nearest: null,
    ...fields,
  };
}

function sideAnswer(rule, request, dialect) {
  const fields = { kind: "side", rule: rule.name, step: null };
  if (!speaks(rule)) {
    return {
      type: "plain",
      status: rule.status,
      json: rule.json_body ?? null,
      usage: null,
      reason: null,
      nearest: null,
      ...fields,
    };
  }
  // Not the step pattern, and the same for the same request.
  const same = createHash("sha256").update(request.body).digest("hex").slice(0, 16);
  const calls =
    rule.call == null
      ? []
      : [{ id: `${dialect.ids.call}side_${same}`, ...rule.call, meaning: "side", freeform: isText(rule.call) }];
  const finish = calls.length > 0 ? "tool_use" : "end_turn";
  const messageId = `${dialect.ids.message}side_${same}`;
  const say = rule.say_json == null ? rule.say : JSON.stringify(rule.say_json);
  return answer(fields, { say, think: null, calls, usage: SIDE_USAGE, finish, messageId }, dialect);
}

/**
 * Whose conversation this is: the sub-agent's whose marker its prompt holds, else the run's own. `who` stands before
 * the mark in its ids.
 */
function speaker(program, view) {
  const subagents = program.subagents ?? [];
  const number = subagents.findIndex((one) => (view.promptText ?? "").includes(one.marker));
  if (number < 0) return { subagent: null, steps: program.steps, who: "" };
  return { subagent: subagents[number].name, steps: subagents[number].steps, who: `a${number}` };
}

function mainAnswer(program, request, dialect) {
  const { view } = request;
  const { subagent, steps, who } = speaker(program, view);
  if (view.tools.length === 0 && steps.some((step) => step.calls.length > 0)) {
    return miss(
      `a request without tools that no side rule knows: ${head(view)}`,
      nearestRule(program.side_requests, request),
    );
  }
  const turn = view.prompts - (request.firstPrompt ?? view.prompts) + 1;
  if (subagent === null && program.turns != null && turn > program.turns) {
    const most = `the script is played for ${program.turns} prompt(s); this would be number ${turn}`;
    return miss(`${most}: ${head(view)}`, nearestRule(program.side_requests, request));
  }
  const { step, skipped } = nextStep(steps, view, program.results);
  if (step === undefined) {
    const passed = skipped.map((one) => `; step ${one.step} is passed over: ${one.reason}`).join("");
    const whose = subagent ?? "the script";
    return miss(
      `${whose} has no step left of its ${steps.length}${passed}; asked: ${head(view)}`,
      describeStep(steps.at(-1)),
    );
  }
  const calls = [];
  for (const [position, call] of step.calls.entries()) {
    const chosen = call.alternatives.find((alternative) => isOffered(alternative, view));
    if (chosen === undefined) {
      const wanted = call.alternatives.map((alternative) => alternative.tool);
      const nearest = nearestNames(wanted, view.tools).join(", ");
      return miss(
        `${describeStep(step)}: the request offers none of ${wanted.join(", ")}`,
        `offered: ${nearest || "nothing"}`,
      );
    }
    const id = `${dialect.ids.call}${who}${mark(view.prompts, step.index, position)}`;
    calls.push({ id, tool: chosen.tool, arguments: chosen.arguments, meaning: call.meaning, freeform: isText(chosen) });
  }
  const messageId = `${dialect.ids.message}${who}${mark(view.prompts, step.index)}`;
  const placed = { kind: "main", rule: null, step: step.index, subagent, skipped };
  return answer(
    { ...placed, latency: step.latency ?? null, faults: step.faults ?? [] },
    { ...step, calls, messageId },
    dialect,
  );
}

/**
 * Decide one request of a registered run.
 *
 * `request` = {method, path (without run token and query), body (raw text), json (parsed, or undefined), firstPrompt
 * (number of the prompt that the run's first main request was for; undefined: this may be it)}; gains `view`.
 * Returns one of
 * - {type: "answer", kind: "main"|"side", rule, step, subagent (null: the run's own conversation), skipped, calls,
 *   usage, finish, latency, faults, response}: `response` is aimock's, `skipped` the steps passed over for this one.
 * - {type: "plain", kind: "side", rule, status, json}: answered without a model.
 * - {type: "miss", kind: "miss", reason, nearest}: no step and no rule fits; answered 400, since agents retry 5xx.
 * - {type: "refused", kind: "refused", reason}: not a path of a model.
 */
export function decide(program, request) {
  const dialect = DIALECTS[program.dialect];
  const generates = request.method === "POST" && dialect.route(request.path) !== null;
  request.view = null;
  if (request.json !== null && typeof request.json === "object" && !Array.isArray(request.json)) {
    request.view = dialect.read(request.json, request.path, program.continuations);
  }
  if (generates && request.view === null) return miss("the request's body is not a JSON object", null);
  if (!request.path.includes("/__")) {
    for (const rule of program.side_requests) {
      // Off the model's own paths a rule must name the path, or one without conditions would open everything.
      if (generates || (!speaks(rule) && rule.path != null)) {
        if (unmet(rule, request).length === 0) return sideAnswer(rule, request, dialect);
      }
    }
  }
  if (generates) return mainAnswer(program, request, dialect);
  const plain = (rule, json) => ({
    type: "plain",
    kind: "side",
    rule,
    step: null,
    status: 200,
    json,
    usage: null,
    reason: null,
    nearest: null,
  });
  if (request.method === "HEAD" && dialect.probes.includes(request.path)) return plain("probe", null);
  if (request.method === "POST" && dialect.counts(request.path))
    return plain("count-tokens", dialect.count(COUNTED_TOKENS));
  const models = request.method === "GET" ? dialect.models(request.path, MODELS) : null;
  if (models !== null) return plain("models", models);
  return {
    type: "refused",
    kind: "refused",
    rule: null,
    step: null,
    reason: `not a path of this model: ${request.method} ${request.path}`,
    nearest: null,
  };
}

const serving = new AsyncLocalStorage();

const latencyOf = ({ decision, program }) => decision.latency ?? program.latency;

/** Run `emit` so that the catch-all fixture serves `decision` of `program` inside it. */
export function serve(program, decision, view, emit) {
  const served = { program, decision, view, asked: false };
  serving.run(served, emit);
  return served;
}

/**
 * The one fixture: it answers whatever `serve` put into the async context; aimock reads the getters after `response`.
 */
export const CATCH_ALL = {
  match: { predicate: () => true },
  async response() {
    const served = serving.getStore();
    served.asked = true;
    const latency = latencyOf(served);
    if (!served.view.stream && (latency.ttft_ms > 0 || latency.tokens_per_s !== null)) {
      // aimock paces streams only.
      const tokens = latency.tokens_per_s === null ? 0 : served.decision.usage.output / latency.tokens_per_s;
      await sleep(latency.ttft_ms + tokens * 1000);
    }
    return served.decision.response;
  },
  get chunkSize() {
    return serving.getStore().program.streaming.chunk_size;
  },
  get streamingProfile() {
    const { streaming } = serving.getStore().program;
    const latency = latencyOf(serving.getStore());
    if (latency.ttft_ms <= 0 && latency.tokens_per_s === null) return undefined;
    const profile = { ttft: latency.ttft_ms };
    // aimock's `tps` counts events.
    if (latency.tokens_per_s !== null)
      profile.tps = (latency.tokens_per_s * CHARACTERS_PER_TOKEN) / streaming.chunk_size;
    return profile;
  },
};
