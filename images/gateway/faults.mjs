// What goes wrong on purpose with a step's answer. A gate stands between aimock's writes and the connection.

const STATUSES = { "rate-limit": 429, "server-error": 500 };
const MESSAGES = {
  "rate-limit": "This request would exceed the rate limit.",
  "server-error": "Internal server error",
  overloaded: "Overloaded",
};

/** The fault of a step's request number `attempt` (from 0); null: none any more. */
export function faultOf(step, attempt) {
  let first = 0;
  for (const fault of step.faults ?? []) {
    if (fault.times === null || attempt < first + fault.times) return fault;
    first += fault.times;
  }
  return null;
}

/** The answer of a fault that is a status: {status, headers, json}; null: it is none. */
export function refusalOf(fault, dialect) {
  if (!(fault.kind in MESSAGES)) return null;
  const status = STATUSES[fault.kind] ?? dialect.overloaded;
  const headers = fault.kind === "rate-limit" ? { "retry-after": String(fault.retry_after_s) } : {};
  return { status, headers, json: dialect.error(status, MESSAGES[fault.kind]) };
}

// In the middle of the event's JSON, wherever that begins.
function half(text) {
  const start = Math.max(0, text.indexOf("{"));
  return text.slice(0, start + Math.ceil((text.length - start) / 2));
}

/**
 * A gate for one answer: `write(text)` and `end(text)` for aimock; `out` = {write(text), end(text), cut(text)}, where
 * `cut` sends text and then breaks the connection. An answer without streaming is one event.
 */
export function gateOf(fault, out) {
  const comes = fault.kind === "slow-start" ? 0 : fault.after_events;
  const breaks = fault.kind === "reset" || fault.kind === "malformed";
  let events = 0;
  let struck = false;
  let ended = false;
  // One event is kept back, so that an answer with fewer events than the fault waits for is struck at its last one.
  let kept = null;
  // What waits for a delay's end; null: nothing has to wait.
  let held = null;

  function strike(text, isWhole) {
    struck = true;
    if (fault.kind === "reset") out.cut(half(text));
    else if (fault.kind === "malformed") out.end(isWhole ? half(text) : `${half(text)}\n\n`);
    else {
      held = [text];
      setTimeout(() => {
        for (const waiting of held) out.write(waiting);
        held = null;
        if (ended) out.end();
      }, fault.delay_ms).unref();
    }
  }

  return {
    write(text) {
      if (struck) {
        if (held !== null) held.push(text);
        else if (!breaks) out.write(text);
        return;
      }
      if (kept !== null) {
        out.write(kept);
        events += 1;
        kept = null;
      }
      if (events === comes) strike(text, false);
      else kept = text;
    },
    end(text) {
      // Without streaming the whole answer comes with its end.
      if (text !== undefined) strike(text, true);
      else if (kept !== null) strike(kept, false);
      ended = true;
      if (held === null && !breaks) out.end();
    },
  };
}
