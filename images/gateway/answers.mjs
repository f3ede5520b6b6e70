// What a model's answer says, read from its raw bytes: the tool calls it makes and the tokens it states. For answers
// that are not ours; each dialect's reader gets the JSON objects of the answer, one for a plain answer, all events of a
// stream.

const list = (value) => (Array.isArray(value) ? value : []);
// Tokens that one answer may state: beyond it a figure is none, and sums of figures stay exact.
const MOST_TOKENS = 1e9;

function arguments_(text) {
  try {
    const value = JSON.parse(text === "" ? "{}" : text);
    return value !== null && typeof value === "object" && !Array.isArray(value) ? value : text;
  } catch {
    return text;
  }
}

/** The JSON objects of an answer's text: of each event of a stream, else of the whole. */
function objects(text) {
  const parse = (one) => {
    try {
      return [JSON.parse(one)];
    } catch {
      return [];
    }
  };
  const whole = parse(text);
  if (whole.length > 0) return whole.flat().filter((one) => one !== null && typeof one === "object");
  const events = text.split(/\r?\n\r?\n/).map((event) =>
    event
      .split(/\r?\n/)
      .filter((line) => line.startsWith("data:"))
      .map((line) => line.slice(5).replace(/^ /, ""))
      .join("\n"),
  );
  return events.flatMap(parse).filter((one) => one !== null && typeof one === "object");
}

// Stated usage may come several times, each later one standing for the whole: the highest of each counter counts.
class Usage {
  constructor() {
    this.stated = false;
    this.absurd = false;
    this.input = 0;
    this.cacheRead = 0;
    this.cacheWrite = 0;
    this.output = 0;
  }

  /** A count of tokens; 0 where none is stated. What is no possible count makes all of the usage none. */
  number(value) {
    if (Number.isInteger(value) && value >= 0 && value <= MOST_TOKENS) return value;
    if (typeof value === "number") this.absurd = true;
    return 0;
  }

  /** `input` without what came from or went to the provider's cache. */
  state(input, cacheRead, cacheWrite, output) {
    this.stated = true;
    this.input = Math.max(this.input, this.number(input));
    this.cacheRead = Math.max(this.cacheRead, this.number(cacheRead));
    this.cacheWrite = Math.max(this.cacheWrite, this.number(cacheWrite));
    this.output = Math.max(this.output, this.number(output));
  }
}

function anthropic(events, usage) {
  const calls = new Map();
  const block = (index, content) => {
    if (content?.type !== "tool_use") return;
    const given = content.input ?? {};
    calls.set(index, {
      id: String(content.id),
      tool: String(content.name),
      text: Object.keys(given).length > 0 ? JSON.stringify(given) : "",
    });
  };
  for (const event of events) {
    const stated = event.usage ?? event.message?.usage;
    if (stated)
      usage.state(
        stated.input_tokens,
        stated.cache_read_input_tokens,
        stated.cache_creation_input_tokens,
        stated.output_tokens,
      );
    for (const [index, content] of list(event.content).entries()) block(index, content);
    if (event.type === "content_block_start") block(event.index, event.content_block);
    if (event.type === "content_block_delta" && calls.has(event.index))
      calls.get(event.index).text += event.delta?.partial_json ?? "";
  }
  return [...calls.values()];
}

function chat(events, usage) {
  const calls = new Map();
  for (const event of events) {
    const stated = event.usage;
    if (stated) {
      const cached = usage.number(stated.prompt_tokens_details?.cached_tokens);
      usage.state(Math.max(0, usage.number(stated.prompt_tokens) - cached), cached, 0, stated.completion_tokens);
    }
    for (const choice of list(event.choices)) {
      list((choice.delta ?? choice.message)?.tool_calls).forEach((part, position) => {
        const index = part.index ?? position;
        const call = calls.get(index) ?? { id: "", tool: "", text: "" };
        calls.set(index, call);
        call.id ||= String(part.id ?? "");
        call.tool ||= String(part.function?.name ?? part.custom?.name ?? "");
        call.text += part.function?.arguments ?? part.custom?.input ?? "";
      });
    }
  }
  return [...calls.values()];
}

function responses(events, usage) {
  const calls = new Map();
  const item = (one) => {
    if (!/_call$/.test(String(one?.type ?? "")) || one.call_id === undefined) return;
    calls.set(one.call_id, {
      id: String(one.call_id),
      tool: String(one.name ?? one.type),
      text: String(one.arguments ?? one.input ?? ""),
    });
  };
  for (const event of events) {
    const response = event.response ?? event;
    const stated = response.usage;
    if (stated) {
      const cached = usage.number(stated.input_tokens_details?.cached_tokens);
      usage.state(Math.max(0, usage.number(stated.input_tokens) - cached), cached, 0, stated.output_tokens);
    }
    if (event.type === "response.output_item.done") item(event.item);
    list(response.output).forEach(item);
  }
  return [...calls.values()];
}

function gemini(events, usage) {
  const calls = [];
  for (const event of events) {
    const stated = event.usageMetadata;
    if (stated) {
      const cached = usage.number(stated.cachedContentTokenCount);
      const output = usage.number(stated.candidatesTokenCount) + usage.number(stated.thoughtsTokenCount);
      usage.state(Math.max(0, usage.number(stated.promptTokenCount) - cached), cached, 0, output);
    }
    for (const part of list(event.candidates).flatMap((candidate) => list(candidate.content?.parts))) {
      const call = part.functionCall;
      // Older models give no ids; within one answer the position tells calls apart.
      if (call)
        calls.push({
          id: String(call.id ?? `${call.name}#${calls.length}`),
          tool: String(call.name),
          text: JSON.stringify(call.args ?? {}),
        });
    }
  }
  return calls;
}

const READERS = { anthropic, "openai-chat": chat, "openai-responses": responses, gemini };

/**
 * {calls: [{id, tool, arguments, meaning}], usage: {input, cacheRead, cacheWrite, output} or null where none is
 * stated}. `arguments` is text where it is no JSON object; `meaning` is "live": nobody wrote a script.
 */
export function readAnswer(dialect, text) {
  const usage = new Usage();
  let found = [];
  try {
    found = READERS[dialect]?.(objects(text), usage) ?? [];
  } catch {
    // An answer of another shape than its API's says nothing; it goes to the agent as it is.
  }
  const calls = found.map((call) => ({
    id: call.id,
    tool: call.tool,
    arguments: arguments_(call.text),
    meaning: "live",
  }));
  const { stated, absurd, ...counts } = usage;
  return { calls, usage: stated && !absurd ? counts : null };
}
