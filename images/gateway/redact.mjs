// The second line behind key isolation: whatever looks like a key, or is one of ours, is struck out before it is written.
// The same shapes as runner/redact.py; each is tried with a canary by the tests.

const STRUCK = "***";
const SHAPES = [
  /(?<![A-Za-z0-9])sk-[A-Za-z0-9_-]{20,}/g, // OpenAI, Anthropic (sk-ant-...), OpenRouter and others
  /(?<![A-Za-z0-9])AIza[A-Za-z0-9_-]{35}/g, // Google
  /(?<![A-Za-z0-9])(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])/g, // AWS
  /(?<![A-Za-z0-9])(?:gh[opsur]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{36,})/g, // GitHub
  /(?<![A-Za-z0-9])dtn_[A-Za-z0-9]{20,}/g, // Daytona
];
const BEARER = /(bearer\s+)[A-Za-z0-9._~+/=-]{20,}/gi;

/** A function of text that strikes out `secrets` (exact values) and everything of a key's shape. */
export function redactor(secrets) {
  const known = secrets.filter((secret) => secret.length >= 8).sort((a, b) => b.length - a.length);
  return (text) => {
    for (const secret of known) if (text.includes(secret)) text = text.replaceAll(secret, STRUCK);
    for (const shape of SHAPES) text = text.replace(shape, STRUCK);
    return text.replace(BEARER, `$1${STRUCK}`);
  };
}
