// A conversation as all dialects have it: user prompts, the tool calls since the last one, and what came back of them.

// What agents wrap around text that they, not the user, put into a user message in the middle of a turn.
const REMINDER = ["<system-reminder>", "</system-reminder>"];

// Not by a pattern: one that looks for an end which never comes takes a minute for a megabyte of beginnings.
function withoutReminders(text) {
  const [begin, end] = REMINDER;
  let rest = "";
  let at = 0;
  for (;;) {
    const from = text.indexOf(begin, at);
    const to = from < 0 ? -1 : text.indexOf(end, from + begin.length);
    if (to < 0) return rest + text.slice(at);
    rest += text.slice(at, from);
    at = to + end.length;
  }
}

/** The objects of an array; of anything else none. */
export const list = (value) =>
  Array.isArray(value) ? value.filter((item) => item !== null && typeof item === "object") : [];

/** The text of a message's content: a string, or parts of which some hold text. */
export const textOf = (content) =>
  typeof content === "string"
    ? content
    : list(content)
        .map((part) => part.text ?? "")
        .join("\n");

/** A name as it stands in a path; one that is not encoded as it should be is itself. */
export function nameIn(path) {
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}

/** Does a user message say anything beside reminders? Parts that are not text (an image) do. */
export function speaks(content) {
  if (typeof content === "string") return withoutReminders(content).trim() !== "";
  return list(content).some((part) => typeof part.text !== "string" || withoutReminders(part.text).trim() !== "");
}

export class History {
  prompts = 0;
  callIds = [];
  lastText = "";
  // Of the user messages that opened the last prompt.
  promptText = "";
  // Tool results by call id: {text, failed}; failed is null where the dialect does not say.
  results = new Map();
  // Answers since the last prompt or call that called nothing.
  texts = 0;
  #called = new Set();
  #inPrompt = false;
  #inAnswer = false;
  #continuations;

  /** `continuations`: patterns of user messages by which an agent goes on after an answer that was cut short. */
  constructor(continuations = []) {
    this.#continuations = continuations.map((pattern) => new RegExp(pattern));
  }

  /**
   * A user message. `speaks`: it is more than a reminder, so it begins a new prompt. Context and prompt may come as two
   * messages in a row: one prompt.
   */
  user(text, speaks) {
    const opens = speaks && !this.#continuations.some((pattern) => pattern.test(text));
    if (opens && !this.#inPrompt) this.prompts += 1;
    if (opens) {
      this.callIds = [];
      this.#called = new Set();
    }
    if (opens) this.texts = 0;
    if (opens) this.promptText = this.#inPrompt ? `${this.promptText}\n${text}` : text;
    this.#inPrompt = opens;
    this.#inAnswer = false;
    this.lastText = text;
  }

  /** Text of the model's; one answer may be several messages in a row. */
  assistant() {
    if (!this.#inAnswer) this.texts += 1;
    this.#inPrompt = false;
    this.#inAnswer = true;
  }

  call(id) {
    this.#inPrompt = false;
    this.#inAnswer = true;
    this.texts = 0;
    this.callIds.push(String(id));
    this.#called.add(String(id));
  }

  /** Whether a call of this id was made since the last prompt. */
  called(id) {
    return this.#called.has(String(id));
  }

  result(id, text, failed = null) {
    this.#inPrompt = false;
    this.#inAnswer = false;
    this.results.set(String(id), { text, failed });
  }

  /**
   * The request's view: this, and what the dialect read of the rest.
   *
   * @param {{ model: unknown, stream: boolean, tools: string[], freeform?: string[], stops?: unknown, schema?: unknown
   * }} read
   */
  view({ model, stream, tools, freeform = [], stops, schema }) {
    const { prompts, callIds, lastText, promptText, results, texts } = this;
    return {
      model: typeof model === "string" ? model : null,
      stream,
      tools,
      freeform,
      stops: [stops ?? []].flat().map(String),
      schema: schema ?? null,
      prompts,
      callIds,
      lastText,
      promptText,
      results,
      texts,
    };
  }
}
