// A conversation as all dialects have it: user prompts, the tool calls since the last one, and what came back of them.

// What agents wrap around text that they, not the user, put into a user message in the middle of a turn.
const REMINDER = /<system-reminder>[\s\S]*?<\/system-reminder>/g;

/** The objects of an array; of anything else none. */
export const list = (value) => (Array.isArray(value) ? value.filter((item) => item !== null && typeof item === "object") : []);

/** The text of a message's content: a string, or parts of which some hold text. */
export const textOf = (content) =>
  typeof content === "string" ? content : list(content).map((part) => part.text ?? "").join("\n");

/** Does a user message say anything beside reminders? Parts that are not text (an image) do. */
export function speaks(content) {
  if (typeof content === "string") return content.replace(REMINDER, "").trim() !== "";
  return list(content).some((part) => typeof part.text !== "string" || part.text.replace(REMINDER, "").trim() !== "");
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
  #inPrompt = false;
  #inAnswer = false;
  #continuations;

  /** `continuations`: patterns of user messages by which an agent goes on after an answer that was cut short. */
  constructor(continuations = []) {
    this.#continuations = continuations.map((pattern) => new RegExp(pattern));
  }

  /** A user message. `speaks`: it is more than a reminder, so it begins a new prompt. Context and prompt may come as two messages in a row: one prompt. */
  user(text, speaks) {
    const opens = speaks && !this.#continuations.some((pattern) => pattern.test(text));
    if (opens && !this.#inPrompt) this.prompts += 1;
    if (opens) this.callIds = [];
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
  }

  result(id, text, failed = null) {
    this.#inPrompt = false;
    this.#inAnswer = false;
    this.results.set(String(id), { text, failed });
  }

  /** The request's view: this, and what the dialect read of the rest. */
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
