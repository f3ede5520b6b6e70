// One run's way in: a Unix socket of its own, so that the run is known before a byte was sent, and a flood of
// connections waits in that run's own queue. The socket's name cannot be guessed, and the folder it lies in cannot be
// listed by agents.

import { createHash } from "node:crypto";
import { chmodSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";

import { refuseSocket } from "./limits.mjs";

const CHECK_MS = 1000;
// No violation: whoever hung up said nothing wrong.
const HANG_UPS = new Set(["ECONNRESET", "EPIPE", "HPE_INVALID_EOF_STATE"]);

/** Where a run's socket lies; `runner.gateway.container.socket_name` says the same. */
export function socketOf(folder, run) {
  return join(folder, `${createHash("sha256").update(run).digest("hex").slice(0, 32)}.sock`);
}

function fault(problem, limits) {
  if (problem.code === "ERR_HTTP_REQUEST_TIMEOUT")
    return { status: 408, limit: "head-time", reason: `a request's head took more than ${limits.head_ms / 1000} s` };
  if (problem.code === "HPE_HEADER_OVERFLOW")
    return { status: 431, limit: "head-bytes", reason: `a request's head has more than ${limits.head_bytes} bytes` };
  return { status: 400, limit: "http", reason: `not a request of HTTP/1.1 (${problem.code ?? problem.message})` };
}

export class Door {
  #tools;

  /** `tools` = {request(request, response), refused({status, limit, reason, socket, head: bytes or null})}. */
  constructor(path, limits, tools) {
    this.path = path;
    this.limits = limits;
    this.#tools = tools;
    this.sockets = new Set();
    this.connections = 0;
    this.requests = 0;
    this.open = 0;
    this.held = 0;
    this.received = 0;
    this.refusals = 0;
    this.shut = false;
    this.server = createServer({
      maxHeaderSize: limits.head_bytes,
      headersTimeout: limits.head_ms,
      // Of bodies the tap sees to itself.
      requestTimeout: 0,
      connectionsCheckingInterval: CHECK_MS,
      // Agents keep connections through their tool runs; a close of ours would race with their next request.
      keepAliveTimeout: 0,
    });
    this.server.on("connection", (socket) => this.#connected(socket));
    this.server.on("request", (request, response) =>
      this.shut ? request.socket.destroy() : this.#tools.request(request, response),
    );
    this.server.on("clientError", (problem, socket) => this.#failed(problem, socket));
    this.server.on("connect", (request, socket) =>
      this.#refuse(socket, { status: 405, limit: "http", reason: `method ${request.method} is not served` }, null),
    );
  }

  async listen() {
    rmSync(this.path, { force: true });
    await new Promise((done, failed) => {
      this.server.once("error", failed);
      this.server.listen(this.path, () => done(null));
    });
    // The agent's uid is another one than ours; 0600 would refuse it.
    chmodSync(this.path, 0o666);
  }

  /** Bytes of answers that its clients have not taken yet. */
  get unread() {
    let bytes = 0;
    for (const socket of this.sockets) bytes += socket.writableLength;
    return bytes;
  }

  /** Count a refusal; true where it was the last one that is answered: the run gets no more connections. */
  refused() {
    this.refusals += 1;
    return this.refusals === this.limits.refusals;
  }

  /** Accept nothing more, and end what is open. */
  close() {
    if (this.shut) return;
    this.shut = true;
    this.server.close(); // removes the socket's file
    for (const socket of this.sockets) socket.destroy();
  }

  #connected(socket) {
    if (this.shut) {
      socket.destroy();
      return;
    }
    this.connections += 1;
    this.sockets.add(socket);
    socket.once("close", () => this.sockets.delete(socket));
    const { connections, connections_total: all } = this.limits;
    if (this.connections > all)
      this.#refuse(
        socket,
        { status: 429, limit: "connections-total", reason: `more than ${all} connections in one run` },
        null,
      );
    else if (this.sockets.size > connections)
      this.#refuse(
        socket,
        { status: 429, limit: "connections", reason: `more than ${connections} connections at once` },
        null,
      );
  }

  #failed(problem, socket) {
    if (socket.destroyed || HANG_UPS.has(problem.code)) {
      socket.destroy();
      return;
    }
    this.#refuse(socket, fault(problem, this.limits), problem.rawPacket ?? null);
  }

  #refuse(socket, refusal, head) {
    if (this.shut) return;
    // Where a request is open on it, that one's answer may have begun.
    if (!this.#tools.refused({ ...refusal, socket, head }))
      refuseSocket(socket, refusal.status, refusal.reason, this.limits.linger_ms);
  }
}
