// What a request is answered: a pure function of the program and the request, so a retry gets the same answer, byte for byte.
//
// The step is found from the ids of the tool calls in the history: every call of step n carries `s<n>x<i>` in its id, all
// agents echo ids, so the next step is the highest one since the last user prompt, plus one. Counting messages would be
// wrong: parallel calls, retries and side requests change their number.

import { AsyncLocalStorage } from "node:async_hooks";
import { createHash } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";

import { DIALECTS } from "./dialects.mjs";

// A sub-agent's ids have `a<number>` before that.
const CALL_ID = /p(\d+)s(\d+)x(\d+)$/;
// Tokens served where no step says how many: side requests and token counts.
const SIDE_USAGE = { input: 100, output: 10 };
const COUNTED_TOKENS = 1000;
// Pacing counts characters of a chunk, a latency is given in tokens.
const CHARACTERS_PER_TOKEN = 4;
const SHOWN_CHARACTERS = 300;

const three = (number) => String(number).padStart(3, "0");

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
    .map((name) => [score(name), name])
    .sort((a, b) => a[0] - b[0] || (a[1] < b[1] ? -1 : 1))
    .slice(0, 3)
    .map(([, name]) => name);
}

function describeStep(step) {
  const calls = step.calls.map((call) => call.meaning);
  return `step ${step.index} (${calls.length > 0 ? calls.join(" + ") : step.say === null ? "think" : "say"})`;
}

/** Conditions of a side rule that the request does not fulfil; empty means that the rule fits. */
function unmet(rule, request) {
  const failed = [];
  if (rule.method != null && rule.method.toUpperCase() !== request.method) failed.push("method");
  if (rule.path != null && !request.path.includes(rule.path)) failed.push("path");
  if (rule.model != null && !(request.view?.model ?? "").includes(rule.model)) failed.push("model");
  if (rule.body != null && !request.body.includes(rule.body)) failed.push("body");
  if (rule.without_tools != null && rule.without_tools !== ((request.view?.tools.length ?? 0) === 0)) {
    failed.push("without_tools");
  }
  return failed;
}

function nearestRule(rules, request) {
  const ranked = rules
    .map((rule) => ({ name: rule.name, failed: unmet(rule, request) }))
    .sort((a, b) => a.failed.length - b.failed.length);
  return ranked.length > 0 ? `side rule ${ranked[0].name} (differs in: ${ranked[0].failed.join(", ")})` : null;
}

const miss = (reason, nearest) => ({ type: "miss", kind: "miss", rule: null, step: null, reason, nearest });

function answer(fields, { say, think, calls, usage, finish, messageId }, dialect) {
  const response = {
    id: messageId,
    finishReason: dialect.finish[finish] ?? finish,
    // Every dialect reads its own names; aimock takes what it needs.
    usage: {
      input_tokens: usage.input,
      output_tokens: usage.output,
      prompt_tokens: usage.input,
      completion_tokens: usage.output,
      total_tokens: usage.input + usage.output,
      promptTokenCount: usage.input,
      candidatesTokenCount: usage.output,
      totalTokenCount: usage.input + usage.output,
    },
  };
  if (think !== null) response.reasoning = think;
  if (say !== null || calls.length === 0) response.content = say ?? "";
  if (calls.length > 0) {
    response.toolCalls = calls.map((call) => ({
      id: call.id,
      name: call.tool,
      arguments: typeof call.arguments === "string" ? call.arguments : JSON.stringify(call.arguments),
    }));
  }
  return { type: "answer", calls, usage, response, reason: null, nearest: null, ...fields };
}

function sideAnswer(rule, request, dialect) {
  const fields = { kind: "side", rule: rule.name, step: null };
  if (rule.say == null && rule.call == null) {
    return { type: "plain", status: rule.status, json: rule.json_body ?? null, usage: null, reason: null, nearest: null, ...fields };
  }
  // Not the step pattern, and the same for the same request.
  const mark = createHash("sha256").update(request.body).digest("hex").slice(0, 16);
  const calls =
    rule.call == null
      ? []
      : [{ id: `${dialect.ids.call}side_${mark}`, tool: rule.call.tool, arguments: rule.call.arguments, meaning: "side" }];
  const finish = calls.length > 0 ? "tool_use" : "end_turn";
  const messageId = `${dialect.ids.message}side_${mark}`;
  return answer(fields, { say: rule.say, think: null, calls, usage: SIDE_USAGE, finish, messageId }, dialect);
}

/** Whose conversation this is: the sub-agent's that its prompt opens with, else the run's own. */
function speaker(program, view) {
  const subagents = program.subagents ?? [];
  const number = subagents.findIndex((one) => (view.promptText ?? "").includes(one.marker));
  if (number < 0) return { subagent: null, steps: program.steps, mark: "" };
  return { subagent: subagents[number].name, steps: subagents[number].steps, mark: `a${number}` };
}

function mainAnswer(program, request, dialect) {
  const { view } = request;
  const { subagent, steps, mark } = speaker(program, view);
  if (view.tools.length === 0 && steps.some((step) => step.calls.length > 0)) {
    const head = JSON.stringify(view.lastText.slice(0, SHOWN_CHARACTERS));
    return miss(`a request without tools that no side rule knows: ${head}`, nearestRule(program.side_requests, request));
  }
  const served = view.callIds.map((id) => CALL_ID.exec(id)).filter((found) => found !== null);
  const index = served.reduce((highest, found) => Math.max(highest, Number(found[2])), -1) + 1;
  const step = steps[index];
  if (step === undefined) {
    const last = steps[steps.length - 1];
    return miss(`${subagent ?? "the script"} has no step ${index}: all ${steps.length} are served`, describeStep(last));
  }
  const calls = [];
  for (const [position, call] of step.calls.entries()) {
    const chosen = call.alternatives.find((alternative) => view.tools.includes(alternative.tool));
    if (chosen === undefined) {
      const wanted = call.alternatives.map((alternative) => alternative.tool);
      const nearest = nearestNames(wanted, view.tools).join(", ");
      return miss(`${describeStep(step)}: the request offers none of ${wanted.join(", ")}`, `offered: ${nearest || "nothing"}`);
    }
    const id = `${dialect.ids.call}${mark}p${view.prompts}s${three(index)}x${position}`;
    calls.push({ id, tool: chosen.tool, arguments: chosen.arguments, meaning: call.meaning });
  }
  const messageId = `${dialect.ids.message}${mark}p${view.prompts}s${three(index)}`;
  return answer({ kind: "main", rule: null, step: index, subagent }, { ...step, calls, messageId }, dialect);
}

/**
 * Decide one request of a registered run.
 *
 * `request` = {method, path (without run token and query), body (raw text), json (parsed, or undefined)}; gains `view`.
 * Returns one of
 * - {type: "answer", kind: "main"|"side", rule, step, calls, usage, response}: `response` is aimock's.
 * - {type: "plain", kind: "side", rule, status, json}: answered without a model.
 * - {type: "miss", kind: "miss", reason, nearest}: no step and no rule fits; answered 400, since agents retry 5xx.
 * - {type: "refused", kind: "refused", reason}: not a path of a model.
 */
export function decide(program, request) {
  const dialect = DIALECTS[program.dialect];
  const generates = request.method === "POST" && dialect.generates(request.path);
  request.view = null;
  if (request.json !== null && typeof request.json === "object" && !Array.isArray(request.json)) {
    request.view = dialect.read(request.json);
  }
  if (generates && request.view === null) return miss("the request's body is not a JSON object", null);
  if (!request.path.includes("/__")) {
    for (const rule of program.side_requests) {
      const speaks = rule.say != null || rule.call != null;
      // Off the model's own paths a rule must name the path, or one without conditions would open everything.
      if (generates || (!speaks && rule.path != null)) {
        if (unmet(rule, request).length === 0) return sideAnswer(rule, request, dialect);
      }
    }
  }
  if (generates) return mainAnswer(program, request, dialect);
  const plain = (rule, json) => ({ type: "plain", kind: "side", rule, step: null, status: 200, json, usage: null, reason: null, nearest: null });
  if (request.method === "HEAD" && dialect.probes.includes(request.path)) return plain("probe", null);
  if (request.method === "POST" && dialect.counts(request.path)) return plain("count-tokens", dialect.count(COUNTED_TOKENS));
  return { type: "refused", kind: "refused", rule: null, step: null, reason: `not a path of this model: ${request.method} ${request.path}`, nearest: null };
}

const serving = new AsyncLocalStorage();

/** Run `emit` so that the catch-all fixture serves `decision` of `program` inside it. */
export function serve(program, decision, view, emit) {
  const served = { program, decision, view, asked: false };
  serving.run(served, emit);
  return served;
}

/** The one fixture: it answers whatever `serve` put into the async context; aimock reads the getters after `response`. */
export const CATCH_ALL = {
  match: { predicate: () => true },
  async response() {
    const served = serving.getStore();
    served.asked = true;
    const { latency } = served.program;
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
    const { latency, streaming } = serving.getStore().program;
    if (latency.ttft_ms <= 0 && latency.tokens_per_s === null) return undefined;
    const profile = { ttft: latency.ttft_ms };
    // aimock's `tps` counts events.
    if (latency.tokens_per_s !== null) profile.tps = (latency.tokens_per_s * CHARACTERS_PER_TOKEN) / streaming.chunk_size;
    return profile;
  },
};
