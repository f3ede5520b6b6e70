// Google's generateContent and streamGenerateContent: model and streaming stand in the path.

import { History, list, nameIn, speaks, textOf } from "./history.mjs";

const GENERATE = /^\/v1(?:beta)?\/models\/([^/:]+):(generateContent|streamGenerateContent)$/;
const COUNT = /^\/v1(?:beta)?\/models\/[^/:]+:countTokens$/;
const MODELS = /^\/v1(?:beta)?\/models(?:\/([^/:]+))?$/;
const STATUSES = {
  404: "NOT_FOUND",
  429: "RESOURCE_EXHAUSTED",
  500: "INTERNAL",
  503: "UNAVAILABLE",
  529: "UNAVAILABLE",
};

// {output: ...} or {error: ...} by convention; an agent may put anything else there.
const resultText = (response) => {
  const said = response?.output ?? response?.error ?? response ?? "";
  return typeof said === "string" ? said : JSON.stringify(said);
};

function read(body, path, continuations) {
  const history = new History(continuations);
  for (const content of list(body.contents)) {
    const parts = list(content.parts);
    if (content.role === "model") {
      history.assistant();
      for (const part of parts) if (part.functionCall != null) history.call(part.functionCall.id);
      continue;
    }
    const results = parts.filter((part) => part.functionResponse != null);
    history.user(textOf(parts), results.length === 0 && speaks(parts));
    for (const { functionResponse: result } of results) {
      history.result(result.id, resultText(result.response), result.response?.error !== undefined);
    }
  }
  const [, model, method] = GENERATE.exec(path) ?? [];
  const declared = list(body.tools).flatMap((tool) => list(tool.functionDeclarations ?? tool.function_declarations));
  const tools = declared.map((tool) => String(tool.name));
  const config = body.generationConfig ?? {};
  return history.view({
    model: model && nameIn(model),
    stream: method === "streamGenerateContent",
    tools,
    stops: config.stopSequences,
    schema: config.responseJsonSchema ?? config.responseSchema,
  });
}

export const gemini = {
  route(path) {
    const found = GENERATE.exec(path);
    return found === null ? null : `/v1beta/models/${found[1]}:${found[2]}`;
  },
  counts: (path) => COUNT.test(path),
  count: (tokens) => ({ totalTokens: tokens }),
  probes: ["/", "/v1beta", "/v1beta/models"],
  models(path, names) {
    const asked = MODELS.exec(path);
    if (asked === null) return null;
    const model = (id) => ({
      name: `models/${id}`,
      version: "1",
      displayName: id,
      inputTokenLimit: 1048576,
      outputTokenLimit: 65536,
      supportedGenerationMethods: ["generateContent", "countTokens"],
    });
    return asked[1] === undefined ? { models: names.map(model) } : model(nameIn(asked[1]));
  },
  read,
  // The dialect has no ids of answers; a call's id comes back with its result.
  ids: { call: "call_acpbench_", message: "gemini_acpbench_" },
  // Not aimock's own word for calls: the service says STOP then too.
  finish: { tool_use: "STOP", end_turn: "STOP", max_tokens: "MAX_TOKENS", refusal: "SAFETY" },
  usage: ({ input, output, cache_read: read, cache_write: write, reasoning }) => ({
    input: input + read + write,
    output: output - reasoning,
    total: input + read + write + output,
    more: {
      ...(read > 0 && { cachedContentTokenCount: read }),
      ...(reasoning > 0 && { thoughtsTokenCount: reasoning }),
    },
  }),
  overloaded: 503,
  error: (status, message) => ({ error: { code: status, message, status: STATUSES[status] ?? "INVALID_ARGUMENT" } }),
};
