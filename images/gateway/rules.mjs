// Which side rule a request fits: a request that is not the conversation is known by its looks alone.

const CONDITIONS = {
  method: (wanted, { method }) => wanted.toUpperCase() === method,
  path: (wanted, { path }) => path.includes(wanted),
  model: (wanted, { view }) => (view?.model ?? "").includes(wanted),
  body: (wanted, { body }) => body.includes(wanted),
  without_tools: (wanted, { view }) => wanted === ((view?.tools.length ?? 0) === 0),
  tools: (wanted, { view }) => wanted.every((name) => view?.tools.includes(name)),
  max_tools: (wanted, { view }) => (view?.tools.length ?? 0) <= wanted,
  stop_sequence: (wanted, { view }) => view?.stops.includes(wanted) === true,
  schema_properties: (wanted, { view }) =>
    view?.schema != null && wanted.every((name) => name in (view.schema.properties ?? {})),
};

/** Conditions of a side rule that the request does not fulfil; empty means that the rule fits. */
export function unmet(rule, request) {
  return Object.entries(CONDITIONS)
    .filter(([name, holds]) => rule[name] != null && !holds(rule[name], request))
    .map(([name]) => name);
}

/** The rule that the fewest conditions keep from fitting, in words; null: there is no rule. */
export function nearestRule(rules, request) {
  const ranked = rules
    .map((rule) => ({ name: rule.name, failed: unmet(rule, request) }))
    .sort((a, b) => a.failed.length - b.failed.length);
  return ranked.length > 0 ? `side rule ${ranked[0].name} (differs in: ${ranked[0].failed.join(", ")})` : null;
}

/** Does the rule answer as the model does (text or a call)? */
export const speaks = (rule) => rule.say != null || rule.say_json != null || rule.call != null;
