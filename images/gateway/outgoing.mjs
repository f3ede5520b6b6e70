// What aimock writes, put right before it leaves: one write of its is one event of a stream, or a whole answer.

const DATA = /^data: (\{.*\})$/m;
const EVENT = /^event: .*$/m;

/** The object of a payload that holds its token counters; undefined: it has none, or only says the output's again. */
function usageOf(payload) {
  if (payload.type === "message_delta") return undefined;
  return payload.usage ?? payload.message?.usage ?? payload.response?.usage ?? payload.usageMetadata;
}

/** A function over aimock's writes, in order, for `decision`; it answers the text to send. */
export function outgoing(dialect, decision) {
  const { more } = dialect.usage(decision.usage);
  const rewrite = dialect.rewriter?.(decision) ?? ((payload) => payload);
  const hasMore = Object.keys(more).length > 0;
  if (dialect.rewriter === undefined && !hasMore) return (text) => text;

  const put = (json) => {
    const payload = rewrite(JSON.parse(json));
    const usage = usageOf(payload);
    if (usage !== undefined && hasMore) Object.assign(usage, more);
    return payload;
  };
  return (text) => {
    if (text.startsWith("{")) return JSON.stringify(put(text));
    const found = DATA.exec(text);
    if (found === null) return text;
    const payload = put(found[1]);
    const named = text.replace(EVENT, () => `event: ${payload.type}`);
    return named.replace(DATA, () => `data: ${JSON.stringify(payload)}`);
  };
}
