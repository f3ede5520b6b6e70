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
  // Tool results by call id: {text, failed}; failed is null where the dialect does not say.
  results = new Map();
  #inPrompt = false;

  /** A user message. `opens`: it begins a new prompt. Context and prompt may come as two messages in a row: one prompt. */
  user(text, opens) {
    if (opens && !this.#inPrompt) this.prompts += 1;
    if (opens) this.callIds = [];
    this.#inPrompt = opens;
    this.lastText = text;
  }

  assistant() {
    this.#inPrompt = false;
  }

  call(id) {
    this.#inPrompt = false;
    this.callIds.push(String(id));
  }

  result(id, text, failed = null) {
    this.#inPrompt = false;
    this.results.set(String(id), { text, failed });
  }

  /** The request's view: this, and what the dialect read of the rest. */
  view({ model, stream, tools, freeform = [] }) {
    const { prompts, callIds, lastText, results } = this;
    return { model: typeof model === "string" ? model : null, stream, tools, freeform, prompts, callIds, lastText, results };
  }
}
