// Keys struck out of an upstream's answer on its way to an agent. A stream: bytes are held back only while they may be
// the beginning of a key, so its pace stays.
//
// Bytes first: in every form that redact.mjs knows, over chunks cut anywhere. Then, in a stream of events, the pieces
// of the model's text: no event may say a key, and all together do. Texts at one place of consecutive events (the path
// of keys to it, with `type` and `index`) are one text. Looked for there are the forms without escapes; a piece of
// fewer than HELD characters goes out at once, so that up to HELD - 1 characters of a key's beginning may have left
// before it is known.

import { Forms, merged, struck } from "./redact.mjs";

// Most that is held back; more is no beginning of a key.
const MOST = 64 * 1024;
const MOST_EVENTS = 1000;
const HELD = 4;
const STREAMS = new Set(["type", "index"]);
const TOKEN = /"((?:[^"\\]|\\.)*)"(\s*:)?|-?\d+|[{}[\]]/gs;
const CHARACTER = /\\u[0-9a-fA-F]{4}|\\.|./gs;

/** {push(bytes), end()}: both give the bytes to send. `events`: the answer is a stream of events. */
export function striker(secrets, events) {
  const forms = new Forms(secrets);
  if (forms.literals.length === 0) return { push: (bytes) => bytes, end: () => Buffer.alloc(0) };
  const stages = events ? [new Bytes(forms), new Events(forms)] : [new Bytes(forms)];
  return {
    push: (bytes) =>
      Buffer.from(
        stages.reduce((text, stage) => stage.push(text), bytes.toString("latin1")),
        "latin1",
      ),
    end: () =>
      Buffer.from(
        stages.reduce((text, stage) => stage.push(text) + stage.end(), ""),
        "latin1",
      ),
  };
}

class Bytes {
  constructor(forms) {
    this.forms = forms;
    this.text = "";
  }

  push(text) {
    this.text += text;
    const spans = this.forms.spans(this.text);
    let cut = this.forms.hold(this.text);
    if (this.text.length - cut > Math.max(MOST, this.forms.tail)) cut = this.text.length;
    // The end of one key may be the beginning of another.
    for (const [start, end] of spans) if (start < cut && end > cut) cut = end;
    return this.#upto(cut, spans);
  }

  end() {
    return this.#upto(this.text.length, merged([...this.forms.spans(this.text), ...this.forms.edge(this.text)]));
  }

  #upto(cut, spans) {
    const out = struck(
      this.text.slice(0, cut),
      spans.filter(([start]) => start < cut),
    );
    this.text = this.text.slice(cut);
    return out;
  }
}

class Events {
  constructor(forms) {
    this.forms = forms;
    this.starts = [...new Set(forms.literals.map((form) => form.slice(0, HELD)))];
    // Of the event that is not yet whole: its text, and how much of that was sent.
    this.text = "";
    this.sent = 0;
    // Whole events that are held back: {text, sent, masks}.
    this.queue = [];
    // Place -> {begun, parts}: the beginning of a key with which its last text ended, and where that stands.
    this.open = new Map();
  }

  push(text) {
    const end = /\r?\n\r?\n/g;
    // The end may have begun with what came before.
    end.lastIndex = Math.max(0, this.text.length - 3);
    this.text += text;
    let at = 0;
    for (let found; (found = end.exec(this.text)) !== null; at = end.lastIndex) {
      this.#event({ text: this.text.slice(at, end.lastIndex), sent: Math.max(0, this.sent - at), masks: [] });
      this.sent = Math.max(this.sent, end.lastIndex);
    }
    this.text = this.text.slice(at);
    this.sent = Math.max(0, this.sent - at);
    return this.#release() + this.#begun();
  }

  // What may leave of the event that is not yet whole.
  #begun() {
    const endless = this.text.length > MOST;
    const innocent = this.open.size === 0 && !this.starts.some((start) => this.text.includes(start));
    if (this.queue.length > 0 || !(innocent || endless)) return "";
    const out = this.text.slice(this.sent);
    this.text = endless ? "" : this.text;
    this.sent = this.text.length;
    return out;
  }

  end() {
    this.#event({ text: this.text, sent: this.sent, masks: [] });
    for (const { begun, parts } of this.open.values()) if (begun.length >= 12) this.#strike(parts, 0, begun.length);
    this.open.clear();
    this.text = "";
    this.sent = 0;
    return this.#release();
  }

  #release() {
    const wanted = [...this.open.values()]
      .filter(({ begun }) => begun.length >= HELD)
      .flatMap(({ parts }) => parts.map(({ event }) => this.queue.indexOf(event)));
    let keep = Math.min(this.queue.length, ...wanted.filter((index) => index >= 0));
    const held = this.queue.slice(keep).reduce((size, { text }) => size + text.length, 0);
    if (this.queue.length - keep > MOST_EVENTS || held > 16 * MOST) {
      // It does not go on: what was said of a key so far goes.
      for (const { begun, parts } of this.open.values()) if (begun.length >= 12) this.#strike(parts, 0, begun.length);
      this.open.clear();
      keep = this.queue.length;
    }
    return this.queue
      .splice(0, keep)
      .map(({ text, sent, masks }) => {
        const mine = merged(
          masks.map(([start, end]) => [Math.max(start, sent), end]).filter(([start, end]) => start < end),
        );
        return struck(
          text.slice(sent),
          mine.map(([start, end]) => [start - sent, end - sent]),
        );
      })
      .join("");
  }

  #event(event) {
    this.queue.push(event);
    for (const line of event.text.matchAll(/^data:[ \t]*(.*)$/gm)) {
      const first = line.index + line[0].length - line[1].length;
      for (const { place, start, end } of strings(line[1])) this.#piece(place, event, first + start, first + end);
    }
  }

  #piece(place, event, first, last) {
    const content = event.text.slice(first, last);
    if (content === "") return;
    // Each character of the text, and where it stands in the event.
    const characters = [];
    let at = first;
    for (const [raw] of content.matchAll(CHARACTER)) {
      characters.push({ event, start: at, end: at + raw.length, said: plain(raw) });
      at += raw.length;
    }
    const before = this.open.get(place) ?? { begun: "", parts: [] };
    this.open.delete(place);
    const joined = before.begun + characters.map(({ said }) => said).join("");
    const parts = [...before.parts, ...characters];
    let after = 0;
    for (const form of before.begun === "" ? [] : this.forms.literals) {
      const found = joined.indexOf(form);
      if (found < 0 || found >= before.begun.length || found + form.length <= before.begun.length) continue;
      this.#strike(parts, found, found + form.length);
      after = Math.max(after, found + form.length);
    }
    const size = this.forms.beginning(joined.slice(after));
    if (size > 0) this.open.set(place, { begun: joined.slice(-size), parts: parts.slice(-size) });
  }

  #strike(parts, start, end) {
    for (const part of parts.slice(start, end)) part.event.masks.push([part.start, part.end]);
  }
}

// The texts of a JSON line that are no keys, in order, without their quotes; `place`: their path, with what tells their
// stream.
function strings(json) {
  const found = [];
  const stream = [];
  const stack = [];
  let key = "";
  for (const token of json.matchAll(TOKEN)) {
    const inside = stack.at(-1);
    const path = inside === undefined ? "" : inside.keyed ? `${inside.path}.${key}` : `${inside.path}[]`;
    if (token[0] === "{" || token[0] === "[") stack.push({ path, keyed: token[0] === "{" });
    else if (token[0] === "}" || token[0] === "]") stack.pop();
    else if (token[2] !== undefined) key = token[1];
    else {
      if (inside?.keyed && STREAMS.has(key)) stream.push(token[0]);
      if (token[1] !== undefined) found.push({ path, start: token.index + 1, end: token.index + 1 + token[1].length });
    }
  }
  return found.map(({ path, start, end }) => ({ place: `${stream.join()} ${path}`, start, end }));
}

// One character of a text as JSON writes it.
function plain(raw) {
  if (raw.length === 1) return raw;
  const names = { n: "\n", r: "\r", t: "\t", b: "\b", f: "\f" };
  return raw[1] === "u" ? String.fromCharCode(Number.parseInt(raw.slice(2), 16)) : (names[raw[1]] ?? raw[1]);
}
