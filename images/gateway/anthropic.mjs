// Anthropic's messages.

import { History, list, nameIn, speaks, textOf } from "./history.mjs";

const MODELS = /^\/v1\/models(?:\/([^/]+))?$/;
const CREATED = "2026-01-01T00:00:00Z";
const ERROR_TYPES = {
  400: "invalid_request_error",
  404: "not_found_error",
  413: "request_too_large",
  429: "rate_limit_error",
  500: "api_error",
  529: "overloaded_error",
};

// Messages with the role "system" may stand anywhere in a history (seen with claude-agent-acp 0.64.0).
function read(body, _path, continuations) {
  const history = new History(continuations);
  for (const message of list(body.messages)) {
    const blocks = list(message.content);
    if (message.role === "user") {
      const results = blocks.filter((block) => block.type === "tool_result");
      history.user(textOf(message.content), results.length === 0 && speaks(message.content));
      for (const block of results) history.result(block.tool_use_id, textOf(block.content), block.is_error === true);
    } else if (message.role === "assistant") {
      history.assistant();
      for (const block of blocks) if (block.type === "tool_use") history.call(block.id);
    }
  }
  return history.view({
    model: body.model,
    stream: body.stream === true,
    tools: list(body.tools).map((tool) => String(tool.name)),
    stops: body.stop_sequences,
    schema: (body.output_config?.format ?? body.output_format)?.schema,
  });
}

export const anthropic = {
  route: (path) => (path === "/v1/messages" ? path : null),
  counts: (path) => path === "/v1/messages/count_tokens",
  count: (tokens) => ({ input_tokens: tokens }),
  probes: ["/", "/api/hello", "/v1/messages"],
  models(path, names) {
    const asked = MODELS.exec(path);
    if (asked === null) return null;
    const model = (id) => ({ type: "model", id, display_name: id, created_at: CREATED });
    if (asked[1] !== undefined) return model(nameIn(asked[1]));
    return { data: names.map(model), has_more: false, first_id: names[0] ?? null, last_id: names.at(-1) ?? null };
  },
  read,
  ids: { call: "toolu_acpbench_", message: "msg_acpbench_" },
  finish: { tool_use: "tool_calls", end_turn: "stop", max_tokens: "length", refusal: "refusal" },
  usage: ({ input, output, cache_read: read, cache_write: write }) => ({
    input,
    output,
    more: {
      ...(read > 0 && { cache_read_input_tokens: read }),
      ...(write > 0 && { cache_creation_input_tokens: write }),
    },
  }),
  overloaded: 529,
  error: (status, message) => ({ type: "error", error: { type: ERROR_TYPES[status] ?? "api_error", message } }),
};
