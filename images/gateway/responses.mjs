// OpenAI's responses. aimock neither reads nor writes freeform ("custom") tools, numbers items at random, and words an
// answer that was cut short as a completed one: put right here, on the way out, one event at a time.

import { History, list, speaks, textOf } from "./history.mjs";
import { CREATED, error, models, under } from "./openai.mjs";

const PATH = "/responses";
const CALLS = new Set(["function_call", "custom_tool_call"]);
const RESULTS = new Set(["function_call_output", "custom_tool_call_output"]);
// Why an answer is not complete, by the script's stop reason.
const INCOMPLETE = { max_tokens: "max_output_tokens", refusal: "content_filter" };
const CUSTOM_EVENTS = {
  "response.function_call_arguments.delta": "response.custom_tool_call_input.delta",
  "response.function_call_arguments.done": "response.custom_tool_call_input.done",
};

function read(body, _path, continuations) {
  const history = new History(continuations);
  if (typeof body.input === "string") history.user(body.input, speaks(body.input));
  for (const item of list(body.input)) {
    if (item.role === "user") history.user(textOf(item.content), speaks(item.content));
    else if (item.role === "assistant") history.assistant();
    else if (CALLS.has(item.type)) history.call(item.call_id);
    else if (RESULTS.has(item.type)) {
      // With `previous_response_id` the history holds results alone.
      if (!history.called(item.call_id)) history.call(item.call_id);
      history.result(item.call_id, textOf(item.output));
    }
  }
  // Tools that the service runs itself (web_search, ...) cannot be called by an answer of ours.
  const named = (type) =>
    list(body.tools)
      .filter((tool) => tool.type === type)
      .map((tool) => String(tool.name));
  const freeform = named("custom");
  return history.view({
    model: body.model,
    stream: body.stream === true,
    tools: [...named("function"), ...freeform],
    freeform,
    schema: body.text?.format?.schema,
  });
}

/** A function that puts one payload of aimock's (an event, or a whole response) right, in order of their coming. */
function rewriter(decision) {
  const ids = new Map();
  const calls = new Map(decision.calls.map((call) => [call.id, call]));
  const customs = new Set();
  const numbered = (id) => {
    if (!ids.has(id)) ids.set(id, `${id.split("-", 1)[0]}_${decision.response.id}_${ids.size}`);
    return ids.get(id);
  };

  function item(given) {
    const id = numbered(given.id);
    if (given.encrypted_content !== undefined) {
      return { ...given, id, encrypted_content: Buffer.from(`acpbench:${id}`).toString("base64") };
    }
    if (given.type !== "function_call" || !calls.get(given.call_id)?.freeform) return { ...given, id };
    customs.add(given.id);
    const { arguments: input, ...rest } = given;
    return { ...rest, type: "custom_tool_call", id, input };
  }

  function whole(given) {
    const reason = INCOMPLETE[decision.finish];
    const output = given.output.map(item);
    if (reason === undefined || given.status === "in_progress") return { ...given, output };
    return { ...given, status: "incomplete", incomplete_details: { reason }, output };
  }

  return (payload) => {
    if (payload.object === "response") return whole(payload);
    const event = { ...payload };
    if (customs.has(event.item_id) && event.type in CUSTOM_EVENTS) {
      event.type = CUSTOM_EVENTS[event.type];
      if (event.arguments !== undefined) {
        event.input = event.arguments;
        delete event.arguments;
      }
    }
    if (event.item_id !== undefined) event.item_id = numbered(event.item_id);
    if (event.item !== undefined) event.item = item(event.item);
    if (event.response !== undefined) event.response = whole(event.response);
    if (event.response?.status === "incomplete") event.type = "response.incomplete";
    return event;
  };
}

export const responses = {
  route: (path) => (under(path, PATH) ? `/v1${PATH}` : null),
  counts: (path) => under(path, `${PATH}/input_tokens`),
  count: (tokens) => ({ object: "response.input_tokens", input_tokens: tokens }),
  probes: ["/", "/v1", "/v1/models", `/v1${PATH}`, PATH],
  models,
  read,
  rewriter,
  ids: { call: "call_acpbench_", message: "resp_acpbench_" },
  // Not "length": aimock's word for it would be a status that no event of its fits.
  finish: { tool_use: "tool_calls", end_turn: "stop", max_tokens: "stop", refusal: "stop" },
  created: CREATED,
  usage: ({ input, output, cache_read: read, cache_write: write, reasoning }) => ({
    input: input + read + write,
    output,
    more: {
      ...(read > 0 && { input_tokens_details: { cached_tokens: read } }),
      ...(reasoning > 0 && { output_tokens_details: { reasoning_tokens: reasoning } }),
    },
  }),
  overloaded: 503,
  error,
};
