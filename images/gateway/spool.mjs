// The bytes of one request or answer: in memory while they are few, else in a file, so that open requests cost no
// memory.

import { createHash } from "node:crypto";
import { closeSync, createReadStream, openSync, readSync, rmSync, writeSync } from "node:fs";
import { Readable } from "node:stream";

const IN_MEMORY = 128 * 1024;
const BLOCK = 1024 * 1024;

/** Ends the name of a file whose bytes belong to no run any more once the process is gone. */
export const SUFFIX = ".spool";

export class Spool {
  #path;
  #parts = [];
  #file = null;

  constructor(path) {
    this.#path = `${path}${SUFFIX}`;
    this.size = 0;
  }

  write(chunk) {
    this.size += chunk.length;
    if (this.#file === null && this.size <= IN_MEMORY) {
      // A copy: the chunk may be a view on a much larger buffer of the socket's.
      this.#parts.push(Buffer.from(chunk));
      return;
    }
    if (this.#file === null) {
      this.#file = openSync(this.#path, "wx+", 0o600);
      for (const part of this.#parts) this.#append(part);
      this.#parts = [];
    }
    this.#append(chunk);
  }

  #append(bytes) {
    for (let at = 0; at < bytes.length; ) at += writeSync(this.#file, bytes, at);
  }

  /** The first `most` bytes; all of them where it is not given. */
  bytes(most = this.size) {
    const length = Math.min(most, this.size);
    if (this.#file === null) return Buffer.concat(this.#parts, this.size).subarray(0, length);
    return this.#read(0, length);
  }

  #read(from, length) {
    const bytes = Buffer.allocUnsafeSlow(length);
    for (let at = 0; at < length; ) {
      const count = readSync(this.#file, bytes, at, length - at, from + at);
      if (count === 0) throw new Error("a spooled body is gone");
      at += count;
    }
    return bytes;
  }

  /** The last `most` bytes. */
  tail(most) {
    const from = Math.max(0, this.size - most);
    return this.#file === null ? this.bytes().subarray(from) : this.#read(from, this.size - from);
  }

  /** All of them, block by block; each begins with the last `overlap` bytes of the one before. */
  *blocks(overlap = 0) {
    if (this.#file === null) {
      yield this.bytes();
      return;
    }
    for (let at = 0; at < this.size; at += BLOCK) {
      const from = Math.max(0, at - overlap);
      yield this.#read(from, Math.min(at + BLOCK, this.size) - from);
    }
  }

  sha256() {
    const digest = createHash("sha256");
    for (const block of this.blocks()) digest.update(block);
    return digest.digest("hex");
  }

  /** A stream of them; any number of times. */
  stream() {
    return this.#file === null ? Readable.from([this.bytes()]) : createReadStream(this.#path);
  }

  /** Called once nobody wants them any more; twice is harmless. */
  drop() {
    this.#parts = [];
    this.size = 0;
    if (this.#file === null) return;
    closeSync(this.#file);
    rmSync(this.#path, { force: true });
    this.#file = null;
  }
}
