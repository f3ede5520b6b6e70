// What both of OpenAI's APIs share: errors and model lists.

import { nameIn } from "./history.mjs";

const MODELS = /^(?:\/v1)?\/models(?:\/([^/]+))?$/;
/** Stands wherever an answer says when it was made: the same answer twice is the same bytes. */
export const CREATED = 1767225600;

const ERRORS = {
  400: { type: "invalid_request_error", code: null },
  404: { type: "invalid_request_error", code: "not_found" },
  413: { type: "invalid_request_error", code: "request_too_large" },
  429: { type: "requests", code: "rate_limit_exceeded" },
};

export function error(status, message) {
  const { type, code } = ERRORS[status] ?? { type: "server_error", code: null };
  return { error: { message, type, param: null, code } };
}

export function models(path, names) {
  const asked = MODELS.exec(path);
  if (asked === null) return null;
  const model = (id) => ({ id, object: "model", created: CREATED, owned_by: "acpbench" });
  return asked[1] === undefined ? { object: "list", data: names.map(model) } : model(nameIn(asked[1]));
}

/** Base URLs come with and without /v1. */
export const under = (path, resource) => path === `/v1${resource}` || path === resource;
