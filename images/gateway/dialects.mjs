// What differs between model APIs, and nothing else: paths, how a history is read, how ids and stop reasons look.
// A dialect is an entry of DIALECTS; no other module knows one by name.

// What agents wrap around text that they, not the user, put into a user message in the middle of a turn.
const REMINDER = /<system-reminder>[\s\S]*?<\/system-reminder>/g;

const list = (value) => (Array.isArray(value) ? value.filter((item) => item !== null && typeof item === "object") : []);

// A user message opens a new prompt unless it hands back tool results or holds reminders only. Messages with the role
// "system" may stand anywhere in a history (seen with claude-agent-acp 0.64.0).
function isAnthropicPrompt(content) {
  if (typeof content === "string") return content.replace(REMINDER, "").trim() !== "";
  const blocks = list(content);
  if (blocks.some((block) => block.type === "tool_result")) return false;
  return blocks.some((block) => block.type !== "text" || String(block.text ?? "").replace(REMINDER, "").trim() !== "");
}

const text = (content) => (typeof content === "string" ? content : list(content).map((block) => block.text ?? "").join("\n"));

function readAnthropic(body) {
  let prompts = 0;
  let lastText = "";
  let promptText = "";
  let callIds = [];
  let inPrompt = false;
  for (const message of list(body.messages)) {
    if (message.role === "user") {
      const opens = isAnthropicPrompt(message.content);
      // Context and prompt may come as two user messages in a row: one prompt.
      if (opens && !inPrompt) prompts += 1;
      if (opens) callIds = [];
      lastText = text(message.content);
      if (opens) promptText = inPrompt ? `${promptText}\n${lastText}` : lastText;
      inPrompt = opens;
    } else if (message.role === "assistant") {
      inPrompt = false;
      for (const block of list(message.content)) if (block.type === "tool_use") callIds.push(String(block.id));
    }
  }
  return {
    model: typeof body.model === "string" ? body.model : null,
    stream: body.stream === true,
    tools: list(body.tools).map((tool) => String(tool.name)),
    prompts,
    callIds,
    lastText,
    promptText,
  };
}

/**
 * - `generates(path)`: is this a path that asks for an answer of the model.
 * - `counts(path)`: is this a path that asks for a token count; `count(n)` is its answer's body.
 * - `probes`: paths that a HEAD may ask for.
 * - `read(body)`: the parsed request as {model, stream, tools: offered names, prompts: user prompts so far, callIds: of the
 *   tool calls since the last user prompt, lastText: of the last user message, promptText: of the last user prompt}.
 * - `ids`: prefixes of tool call and message ids. `finish`: our stop reason -> aimock's `finishReason`.
 * - `error(type, message)`: an error's body.
 */
export const DIALECTS = {
  anthropic: {
    generates: (path) => path === "/v1/messages",
    counts: (path) => path === "/v1/messages/count_tokens",
    count: (tokens) => ({ input_tokens: tokens }),
    probes: ["/", "/api/hello", "/v1/messages"],
    read: readAnthropic,
    ids: { call: "toolu_acpbench_", message: "msg_acpbench_" },
    finish: { tool_use: "tool_calls", end_turn: "stop", max_tokens: "length" },
    error: (type, message) => ({ type: "error", error: { type, message } }),
  },
};
