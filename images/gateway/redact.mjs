// The second line behind key isolation: what is one of our keys, in any form, or looks like a key, is struck out before
// it is written, and our keys out of an upstream's answer before an agent sees it (strike.mjs).
//
// The forms are those of runner/redaction/forms.py: plain, hex, base64 at any alignment; with escapes (percent, \u, \x,
// \/, octal, HTML), interrupted by ends of lines, NUL or a terminal's escape sequences; up to three such layers. The
// shapes are those of runner/config/keys.py. Each is tried with a canary by the tests. Bytes are looked at as latin1
// text.

export const STRUCK = "***";
const SHAPES = [
  /(?<![A-Za-z0-9])sk-[A-Za-z0-9_-]{20,}/g, // OpenAI, Anthropic (sk-ant-...), OpenRouter and others
  /(?<![A-Za-z0-9])AIza[A-Za-z0-9_-]{35}/g, // Google
  /(?<![A-Za-z0-9])(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])/g, // AWS
  /(?<![A-Za-z0-9])(?:gh[opsur]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{36,})/g, // GitHub
  /(?<![A-Za-z0-9])dtn_[A-Za-z0-9]{20,}/g, // Daytona
];
const BEARER = /(bearer\s+)[A-Za-z0-9._~+/=-]{20,}/gi;
const SHORTEST = 8;
const LAYERS = 3;
// Characters of a key at a text's end that are taken for it.
const EDGE = 12;
const NAMED = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'" };
const CODE =
  "(?:u00|U000000)[0-7][0-9a-fA-F]|u\\{0{0,4}[0-7]?[0-9a-fA-F]\\}|x[0-7][0-9a-fA-F]|[01][0-7]{2}|[nr][ \\t]{0,256}";
const OTHERS = [
  "%[0-7][0-9a-fA-F]",
  "&(?:#0{0,5}[0-9]{1,3}|#[xX]0{0,5}[0-7]?[0-9a-fA-F]|amp|lt|gt|quot|apos);",
  "\\x1b(?:\\[[0-?]{0,32}[ -/]{0,4}[@-~]|[()][0-9A-B]|[@-Z\\\\-_])",
  "[\\r\\n]+[ \\t]{0,256}",
  "\\0+",
].join("|");
const ESCAPED = ["\\u", "\\U", "\\x", "\\0", "\\1", "%", "&", "\x1b"];
const ESCAPES = new RegExp(`(?<!\\\\)\\\\+(?:${CODE})|${OTHERS}`, "g");
// An escape that the next bytes may complete.
const UNFINISHED = new RegExp(
  `(?:${[
    "(?<!\\\\)\\\\+(?:u(?:0{1,2}[0-7]?)?|U0{0,6}[0-7]?|u\\{[0-9a-fA-F]{0,6}|x[0-7]?|[01][0-7]?)?",
    "%[0-7]?",
    "&#?[0-9a-zA-Z]{0,8}",
    "\\x1b(?:\\[[0-?]{0,32}[ -/]{0,4})?",
  ].join("|")})$`,
);

/**
 * The forms of some secrets: `spans(text)` says where one is, as [from, to] in order; `hold(text)` from where its end
 * may be one's beginning.
 */
export class Forms {
  constructor(secrets) {
    const known = [...new Set(secrets)]
      .filter((secret) => secret.length >= SHORTEST)
      .sort((a, b) => b.length - a.length);
    this.literals = [...new Set(known.flatMap(literals))];
    this.bare = this.literals.map((form) => bare(form));
    const signs = [...new Set(this.literals.join(""))]
      .filter((c) => !/[A-Za-z0-9 \\]/.test(c))
      .map((c) => `\\x${c.charCodeAt(0).toString(16)}`);
    this.token = new RegExp(
      `(?<!\\\\)\\\\+(?:${CODE}${signs.length > 0 ? `|[${signs.join("")}]` : ""})|${OTHERS}`,
      "g",
    );
    this.firsts = new Set(this.literals.map((form) => form[0]));
    // Where a beginning of a key is looked for: no form is longer.
    this.tail = Math.max(16 * 1024, 16 * Math.max(0, ...this.literals.map((form) => form.length)));
    // The last two characters of a beginning -> {size, form}, the longest first.
    this.ends = new Map();
    for (const form of this.literals) {
      for (let size = 2; size < form.length; size += 1) {
        const end = form.slice(size - 2, size);
        if (!this.ends.has(end)) this.ends.set(end, []);
        this.ends.get(end).push({ size, form });
      }
    }
    for (const beginnings of this.ends.values()) beginnings.sort((a, b) => b.size - a.size);
  }

  spans(text) {
    if (!this.#mayHold(text)) return [];
    const found = [];
    for (const [layer, back] of this.#layers(text)) {
      for (const form of this.literals) {
        for (let at = layer.indexOf(form); at >= 0; at = layer.indexOf(form, at + form.length))
          found.push([back(at, false), back(at + form.length, true)]);
      }
    }
    return merged(found);
  }

  // False: there is none, which is told ten times faster than where one is.
  #mayHold(text) {
    if (this.literals.some((form) => text.includes(form))) return true;
    if (this.literals.length === 0) return false;
    for (let n = 0; n < LAYERS; n += 1) {
      const less = bare(text);
      if (this.bare.some((form) => less.includes(form))) return true;
      if (less.length === text.length) return false;
      text = less;
    }
    return false;
  }

  hold(whole) {
    if (this.literals.length === 0) return whole.length;
    const text = whole.slice(-this.tail);
    let first = text.length;
    for (const [layer, back] of this.#layers(text)) {
      const unfinished = UNFINISHED.exec(layer.slice(-64));
      const end = unfinished === null ? layer.length : layer.length - unfinished[0].length;
      first = Math.min(first, back(end - this.beginning(layer.slice(0, end)), false));
    }
    return whole.length - text.length + first;
  }

  /** Length of the longest beginning of a form that `text` ends with. */
  beginning(text) {
    const found = (this.ends.get(text.slice(-2)) ?? []).find(
      ({ size, form }) => size <= text.length && text.endsWith(form.slice(0, size)),
    );
    return found?.size ?? (this.firsts.has(text.slice(-1)) ? 1 : 0);
  }

  /** The span of a key that was cut at the end of `text`; []: there is none. */
  edge(text) {
    const size = this.beginning(text);
    return size >= EDGE ? [[text.length - size, text.length]] : [];
  }

  // Yields [text, back(at, isEnd)] of the text and of each layer below it; `back` says where that was in the text
  // itself.
  *#layers(text) {
    let back = (at, _isEnd) => at;
    yield [text, back];
    for (let n = 0; n < LAYERS; n += 1) {
      const layer = undone(text, this.token);
      if (layer === null) return;
      const outer = back;
      back = (at, isEnd) => outer(layer.back(at, isEnd), isEnd);
      text = layer.text;
      yield [text, back];
    }
  }
}

function literals(secret) {
  const digits = [...secret].map((c) => c.charCodeAt(0).toString(16).padStart(2, "0"));
  const hex = ["", " ", ":"].map((between) => digits.join(between));
  const found = [secret, ...hex, ...hex.map((one) => one.toUpperCase())];
  for (const before of [0, 1, 2]) {
    // Only characters whose six bits are all the secret's own.
    const core = Buffer.from("\0".repeat(before) + secret, "latin1")
      .toString("base64")
      .slice(Math.ceil((8 * before) / 6), Math.floor((8 * (before + secret.length)) / 6));
    found.push(core, core.replaceAll("+", "-").replaceAll("/", "_"));
  }
  return found;
}

// Without a layer of escapes, and without anything that may stand inside a form: more than `undone` takes.
function bare(text) {
  if (ESCAPED.some((head) => text.includes(head))) text = text.replace(ESCAPES, meaning);
  const bytes = Buffer.from(text, "latin1");
  let size = 0;
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at];
    if (byte === 0x5c && (bytes[at + 1] === 0x6e || bytes[at + 1] === 0x72)) at += 1;
    else if (byte !== 0x5c && byte !== 0x20 && byte !== 0x09 && byte !== 0x0a && byte !== 0x0d && byte !== 0)
      bytes[size++] = byte;
  }
  return bytes.toString("latin1", 0, size);
}

// What an escape stands for; "": it only interrupts.
function meaning(token) {
  const character = (digits, base) => {
    const code = Number.parseInt(digits, base);
    return code < 0x80 ? String.fromCharCode(code) : "\x80"; // nothing beyond ASCII is part of a key
  };
  if (token[0] === "%") return character(token.slice(1), 16);
  if (token[0] === "&") {
    const name = token.slice(1, -1);
    if (name[0] !== "#") return NAMED[name];
    return /[xX]/.test(name[1]) ? character(name.slice(2), 16) : character(name.slice(1), 10);
  }
  if (token[0] !== "\\") return "";
  const rest = token.replace(/^\\+/, "");
  if (/[uUx]/.test(rest[0])) return character(rest.slice(1).replace(/[{}]/g, ""), 16);
  if (/[01]/.test(rest[0])) return character(rest, 8);
  return /[nr]/.test(rest[0]) ? "" : rest;
}

// `text` without one layer of escapes, and the way back; null: it has none.
function undone(text, token) {
  const parts = [];
  // Of stretches: where they begin here and began before, and how many characters before are one here (0: as many).
  const marks = [[0, 0, 0]];
  let size = 0;
  let at = 0;
  for (const found of text.matchAll(token)) {
    parts.push(text.slice(at, found.index));
    size += found.index - at;
    at = found.index + found[0].length;
    const said = meaning(found[0]);
    if (said !== "") {
      marks.push([size, found.index, found[0].length]);
      parts.push(said);
      size += 1;
    }
    marks.push([size, at, 0]);
  }
  if (at === 0) return null;
  parts.push(text.slice(at));
  const back = (there, isEnd) => {
    const wanted = isEnd ? there - 1 : there;
    let low = 0;
    for (let high = marks.length; low < high; ) {
      const middle = (low + high) >> 1;
      if (marks[middle][0] <= wanted) low = middle + 1;
      else high = middle;
    }
    const [here, before, escaped] = marks[low - 1];
    if (isEnd) return before + (escaped || there - here);
    return escaped ? before : before + there - here;
  };
  return { text: parts.join(""), back };
}

/** In order, none overlapping or touching another. */
export function merged(spans) {
  const apart = [];
  for (const [start, end] of spans.sort((a, b) => a[0] - b[0])) {
    const last = apart.at(-1);
    if (last !== undefined && start <= last[1]) last[1] = Math.max(last[1], end);
    else apart.push([start, end]);
  }
  return apart;
}

/** `text` with STRUCK in the place of each span. */
export function struck(text, spans) {
  let at = 0;
  const parts = [];
  for (const [start, end] of spans) {
    parts.push(text.slice(at, start), STRUCK);
    at = end;
  }
  return parts.length === 0 ? text : [...parts, text.slice(at)].join("");
}

function shapes(text) {
  const found = SHAPES.flatMap((shape) =>
    [...text.matchAll(shape)].map((one) => [one.index, one.index + one[0].length]),
  );
  return [...found, ...[...text.matchAll(BEARER)].map((one) => [one.index + one[1].length, one.index + one[0].length])];
}

/** A function of text that strikes out `secrets` in all their forms and everything of a key's shape. */
export function redactor(secrets) {
  const forms = new Forms(secrets);
  return (text) => struck(text, merged([...forms.spans(text), ...shapes(text)]));
}

/**
 * Texts that belong together, as the chunks of an answer: what has a key's shape is struck out of all that it is cut
 * over.
 */
export function struckParts(texts) {
  const spans = merged(shapes(texts.join("")));
  if (spans.length === 0) return texts;
  let at = 0;
  return texts.map((text) => {
    const mine = spans
      .filter(([start, end]) => end > at && start < at + text.length)
      .map(([start, end]) => [Math.max(0, start - at), Math.min(text.length, end - at)]);
    at += text.length;
    return struck(text, mine);
  });
}
