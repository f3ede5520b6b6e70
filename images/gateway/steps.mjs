// Which step of a script a request asks for.
//
// The step is found from the ids of the tool calls in the history: every call of step n carries `s<n>x<i>` in its id,
// all agents echo ids, so the next step is the highest one since the last user prompt, plus one. Counting messages
// would be wrong: parallel calls, retries and side requests change their number. A step with a condition (on what came
// of an earlier one, on a tool that is offered) is passed over where that does not hold.

// A sub-agent's ids have `a<number>` before that.
const CALL_ID = /p(\d+)s(\d+)x(\d+)$/;

const three = (number) => String(number).padStart(3, "0");

/** The part of a call's id that says where it stands; `x<i>` is left out for an answer's own id. */
export const mark = (prompt, step, position) =>
  `p${prompt}s${three(step)}${position === undefined ? "" : `x${position}`}`;

const matches = (patterns, text) => (patterns ?? []).some((pattern) => new RegExp(pattern).test(text));

/** What came of a step's calls: {outcome: "ok"|"failed"|"rejected"|"unknown", texts}. */
function outcomeOf(step, view, patterns) {
  const ids = view.callIds.filter((id) => Number(CALL_ID.exec(id)?.[2]) === step);
  const results = ids.map((id) => view.results.get(id)).filter((result) => result !== undefined);
  const texts = results.map((result) => result.text);
  if (texts.some((text) => matches(patterns?.rejected, text))) return { outcome: "rejected", texts };
  if (results.some((result) => result.failed === true || matches(patterns?.failed, result.text)))
    return { outcome: "failed", texts };
  return { outcome: results.length > 0 ? "ok" : "unknown", texts };
}

/** Why a step's condition does not hold; null: it does, or there is none. */
function refusal(when, last, view, patterns) {
  if (when == null) return null;
  if (when.offered != null && !view.tools.includes(when.offered)) return `the request does not offer ${when.offered}`;
  if (when.outcome === null && when.matches === null && when.lacks === null) return null;
  const step = when.step ?? last;
  if (step < 0) return "no step was served before it";
  if (!view.callIds.some((id) => Number(CALL_ID.exec(id)?.[2]) === step))
    return `step ${step} was not served, or called nothing`;
  const { outcome, texts } = outcomeOf(step, view, patterns);
  if (when.outcome !== null && when.outcome !== outcome) return `step ${step} came to ${outcome}, not ${when.outcome}`;
  const found = (pattern) => texts.some((text) => new RegExp(pattern).test(text));
  if (when.matches !== null && !found(when.matches)) return `no result of step ${step} matches ${when.matches}`;
  if (when.lacks !== null && found(when.lacks)) return `a result of step ${step} matches ${when.lacks}`;
  return null;
}

/**
 * The step of `steps` that `view` asks for: {step (undefined: none is left), skipped: [{step, reason}] passed over on
 * the way}.
 */
export function nextStep(steps, view, patterns) {
  const served = view.callIds.map((id) => CALL_ID.exec(id)).filter((found) => found !== null);
  const last = served.reduce((highest, found) => Math.max(highest, Number(found[2])), -1);
  // Answers without a call leave no id; only one that was cut short is followed by another.
  let spoken = view.texts;
  const skipped = [];
  for (const step of steps.slice(last + 1)) {
    const reason = refusal(step.when, last, view, patterns);
    if (reason !== null) skipped.push({ step: step.index, reason });
    else if (spoken > 0 && step.calls.length === 0 && step.finish === "max_tokens") spoken -= 1;
    else return { step, skipped };
  }
  return { step: undefined, skipped };
}
