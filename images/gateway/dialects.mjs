// What differs between model APIs, and nothing else: paths, how a history is read, how ids, usage and errors look.
// A dialect is an entry of DIALECTS; no other module knows one by name.

import { anthropic } from "./anthropic.mjs";
import { chat } from "./chat.mjs";
import { gemini } from "./gemini.mjs";
import { responses } from "./responses.mjs";

/**
 * - `route(path)`: aimock's path for a path that asks for an answer of the model; null: it does not.
 * - `counts(path)`: is this a path that asks for a token count; `count(n)` is its answer's body.
 * - `probes`: paths that a HEAD may ask for.
 * - `models(path, names)`: the body for a path that asks for a list of models, or for one; null: it does not.
 * - `read(body, path, continuations)`: the parsed request as {model, stream, tools: offered names, freeform: those that
 *   take text instead of JSON, stops: sequences, schema: of the answer, or null, prompts: user prompts so far, callIds:
 *   of the tool calls since the last user prompt, texts: answers after those that called nothing, lastText: of the last
 *   user message, promptText: of the last user prompt, results: Map of call id -> {text, failed: true, false, or null
 *   where the dialect does not say}}.
 * - `rewriter(decision)`, optional: a function over each payload that aimock writes, in order; returns the one to send.
 * - `ids`: prefixes of tool call and message ids. `finish`: our stop reason -> aimock's `finishReason`.
 * - `created`, optional: stands in the answer's time stamp.
 * - `usage(tokens)`: a step's tokens in the dialect's counting, {input, output, total (default: both), more}; `more`
 *   are the counters beside those, which aimock drops. Of a step, `cache_read` and `cache_write` come on top of
 *   `input`, `reasoning` is a part of `output`.
 * - `error(status, message)`: an error's body. `overloaded`: the status that says so.
 */
export const DIALECTS = { anthropic, "openai-chat": chat, "openai-responses": responses, gemini };
