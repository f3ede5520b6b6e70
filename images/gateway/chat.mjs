// OpenAI's chat completions.

import { History, list, speaks, textOf } from "./history.mjs";
import { CREATED, error, models, under } from "./openai.mjs";

const PATH = "/chat/completions";

function read(body, _path, continuations) {
  const history = new History(continuations);
  for (const message of list(body.messages)) {
    if (message.role === "user") history.user(textOf(message.content), speaks(message.content));
    else if (message.role === "tool") history.result(message.tool_call_id, textOf(message.content));
    else if (message.role === "assistant") {
      history.assistant();
      for (const call of list(message.tool_calls)) history.call(call.id);
    }
  }
  const tools = list(body.tools).map((tool) => String(tool.function?.name ?? tool.name ?? tool.type));
  return history.view({
    model: body.model,
    stream: body.stream === true,
    tools,
    stops: body.stop,
    schema: body.response_format?.json_schema?.schema,
  });
}

export const chat = {
  route: (path) => (under(path, PATH) ? `/v1${PATH}` : null),
  counts: () => false,
  count: null,
  probes: ["/", "/v1", "/v1/models", `/v1${PATH}`, PATH],
  models,
  read,
  ids: { call: "call_acpbench_", message: "chatcmpl-acpbench-" },
  finish: { tool_use: "tool_calls", end_turn: "stop", max_tokens: "length", refusal: "content_filter" },
  created: CREATED,
  usage: ({ input, output, cache_read: read, cache_write: write, reasoning }) => ({
    input: input + read + write,
    output,
    more: {
      ...(read > 0 && { prompt_tokens_details: { cached_tokens: read } }),
      ...(reasoning > 0 && { completion_tokens_details: { reasoning_tokens: reasoning } }),
    },
  }),
  overloaded: 503,
  error,
};
