// An independent peer: an agent on the official TypeScript ACP SDK 2.x that uses every callback of its client and
// judges it. The counterpart of peer.py, on another implementation of the protocol; it runs in the image
// `peer-typescript`. `~/.peer.json` holds {"repair": <text of src/semver.js>}; with the argument `ask` or `wait` it
// stops there until the client cancels.

import { existsSync, readFileSync, rmSync } from "node:fs";
import { homedir } from "node:os";
import { Readable, Writable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";

// The agent's file lies in its home, the SDK in the image.
const acp = await import("/opt/agent/node_modules/@agentclientprotocol/sdk/dist/v1/stable/acp.js");

const { client: on, agent: serve } = acp.methods;
const mode = process.argv[2] ?? "all";
const session = "peer-session";
const text = { type: "text", text: "héllo, wörld 🌍" };
const cancelled = Promise.withResolvers();
let cwd = "";

/** A claim about the client; the first that fails is the turn's error. */
function demand(fact, words) {
  if (!fact) throw new acp.RequestError(-32000, `the client is wrong: ${words}`);
  process.stderr.write(`judged: ${words}\n`);
}

/** The client must answer with the error `code`. */
async function refused(call, code, words) {
  const got = await call.then(
    () => null,
    (error) => error.code,
  );
  demand(got === code, `${words} is refused with ${code}`);
}

// session/update, every kind that the SDK has in its stable protocol

const tell = (client, update) => client.notify(on.session.update, { sessionId: session, update });

async function updates(client) {
  const option = { type: "boolean", id: "loud", name: "Loud", currentValue: false };
  for (const update of [
    { sessionUpdate: "user_message_chunk", content: text },
    { sessionUpdate: "agent_thought_chunk", content: text },
    { sessionUpdate: "agent_message_chunk", content: text },
    { sessionUpdate: "plan", entries: [{ content: "Look", priority: "medium", status: "in_progress" }] },
    { sessionUpdate: "available_commands_update", availableCommands: [{ name: "go", description: "Go on" }] },
    { sessionUpdate: "current_mode_update", currentModeId: "other" },
    { sessionUpdate: "config_option_update", configOptions: [option] },
    { sessionUpdate: "session_info_update", title: "A peer" },
    { sessionUpdate: "usage_update", used: 10, size: 1000 },
    { sessionUpdate: "notice", severity: "info", title: "Look here" },
    { sessionUpdate: "compaction_update", compactionId: "c1", status: "completed" },
    { sessionUpdate: "compaction_summary_chunk", compactionId: "c1", content: text },
    { sessionUpdate: "tool_call", toolCallId: "call-1", title: "Look", kind: "read", status: "pending" },
    {
      sessionUpdate: "tool_call_update",
      toolCallId: "call-1",
      status: "completed",
      content: [{ type: "content", content: text }],
    },
  ]) {
    await tell(client, update);
  }
}

// fs/*

async function files(client) {
  const path = `${cwd}/package.json`;
  const disk = readFileSync(path, "utf8");
  const lines = disk.split(/(?<=\n)/);
  const read = async (part) =>
    (await client.request(on.fs.readTextFile, { sessionId: session, path, ...part })).content;
  const trimmed = (given) => given.replace(/\n+$/, "");
  demand((await read({})) === disk, "a file is read whole");
  demand((await read({ line: 2 })) === lines.slice(1).join(""), "a file is read from a line on, counted from 1");
  demand(trimmed(await read({ line: 2, limit: 2 })) === trimmed(lines.slice(1, 3).join("")), "line and limit");
  demand((await read({ limit: 0 })) === "", "a limit of no line");
  demand((await read({ line: 1000 })) === "", "a line beyond the end");
  const note = `${cwd}/new/folder/nöte.txt`;
  const content = "grüße\r\nno newline";
  await client.request(on.fs.writeTextFile, { sessionId: session, path: note, content });
  demand(readFileSync(note, "utf8") === content, "a written file is on the disk as sent");
  const again = await client.request(on.fs.readTextFile, { sessionId: session, path: note });
  demand(again.content === content, "a written file is read back as sent");
  const missing = client.request(on.fs.readTextFile, { sessionId: session, path: `${cwd}/missing` });
  await refused(missing, -32002, "reading a file that is not there");
  const outside = client.request(on.fs.readTextFile, { sessionId: session, path: "/etc/passwd" });
  await refused(outside, -32602, "reading outside the session's folders");
  rmSync(`${cwd}/new`, { recursive: true });
  demand(!existsSync(note), "the note is gone");
}

// session/request_permission

async function ask(client) {
  const toolCall = { toolCallId: "call-2", kind: "edit", title: "Edit", rawInput: { path: "src/semver.js" } };
  const kinds = ["allow_always", "reject_once", "allow_once"]; // the ids say nothing on purpose
  const options = kinds.map((kind, n) => ({ optionId: `id-${n}`, name: `Answer ${n}`, kind }));
  return (await client.request(on.session.requestPermission, { sessionId: session, toolCall, options })).outcome;
}

const announced = { sessionUpdate: "tool_call", toolCallId: "call-2", title: "Edit", kind: "edit", status: "pending" };

async function permission(client) {
  await tell(client, announced);
  const outcome = await ask(client);
  demand(outcome.outcome === "selected", "an ask is answered with a choice");
  demand(outcome.optionId === "id-2", "the choice is the policy's, by kind");
  await tell(client, { sessionUpdate: "tool_call_update", toolCallId: "call-2", status: "completed" });
}

// terminal/*

async function terminals(client) {
  const create = (command, args, more) => client.createTerminal({ sessionId: session, command, args, ...more });
  const env = [{ name: "PEER", value: "from peer" }];
  const one = await create("sh", ["-c", 'pwd; echo "$PEER"; exit 3'], { cwd: `${cwd}/src`, env });
  const ended = await one.waitForExit();
  demand(ended.exitCode === 3 && ended.signal == null, "a command's exit code");
  let output = await one.currentOutput();
  demand(output.output === `${cwd}/src\nfrom peer\n`, "a command's folder, environment and output");
  demand(output.exitStatus.exitCode === 3 && !output.truncated, "a command's end in its output");
  await one.release();
  await refused(one.currentOutput(), -32002, "output of a released terminal");

  const two = await create("seq", ["1", "100000"], { outputByteLimit: 10 });
  await two.waitForExit();
  output = await two.currentOutput();
  demand(output.truncated && output.output.endsWith("100000\n"), "of too much output the end is kept");
  demand(Buffer.byteLength(output.output) <= 10, "no more bytes than the limit");
  await two.release();

  const three = await create("sh", ["-c", "echo begun; sleep 600"]);
  let polls = 1;
  for (; !(output = await three.currentOutput()).output; polls += 1) await sleep(10);
  process.stderr.write(`polls: ${polls}\n`);
  demand(output.output === "begun\n" && output.exitStatus == null, "output of a command that still runs");
  const waiting = three.waitForExit();
  await three.kill();
  const killed = await waiting;
  demand(killed.exitCode == null && killed.signal != null, "a killed command ended by a signal");
  output = await three.currentOutput();
  demand(output.output === "begun\n", "the output of a killed command is still there");
  const shown = { type: "terminal", terminalId: three.id };
  const update = {
    sessionUpdate: "tool_call",
    toolCallId: "call-3",
    title: "Run",
    kind: "execute",
    status: "completed",
    content: [shown],
  };
  await tell(client, update);
  await three.release();
}

// elicitation/*

async function form(client) {
  const properties = { part: { type: "string", enum: ["source", "tests"] }, sure: { type: "boolean", default: true } };
  const requestedSchema = { type: "object", properties, required: ["part"] };
  const reply = await client.request(on.elicitation.create, {
    sessionId: session,
    mode: "form",
    message: "Which part?",
    requestedSchema,
  });
  demand(reply.action === "accept", "a form is accepted, as the policy says");
  demand(reply.content.part === "source" && reply.content.sure === true, "a form comes back filled in");
  const page = {
    sessionId: session,
    mode: "url",
    message: "Go there",
    elicitationId: "e1",
    url: "https://example.invalid/",
  };
  demand((await client.request(on.elicitation.create, page)).action === "accept", "a page to visit is accepted too");
  await client.notify(on.elicitation.complete, { elicitationId: "e1" });
}

// what is open when the client cancels

async function cancelledAsk(client) {
  await tell(client, announced);
  demand((await ask(client)).outcome === "cancelled", "an open ask is answered `cancelled`");
  await cancelled.promise;
  demand((await ask(client)).outcome === "cancelled", "an ask after the cancel too");
  const read = await client.request(on.fs.readTextFile, { sessionId: session, path: `${cwd}/package.json` });
  demand(read.content.includes("semver"), "other requests are served until the prompt's response");
}

async function cancelledWait(client) {
  const one = await client.createTerminal({ sessionId: session, command: "sleep", args: ["600"] });
  const waiting = one.waitForExit();
  await cancelled.promise;
  await one.kill();
  demand((await waiting).signal != null, "a terminal can be killed after the cancel");
  await one.release();
}

/** One request to the scripted model, so that the script is served. */
async function askTheModel() {
  const body = { model: "peer", max_tokens: 100, messages: [{ role: "user", content: "go" }], tools: [] };
  const headers = { "content-type": "application/json", "x-api-key": "none" };
  const answer = await fetch(`${process.env.MODEL_URL}/v1/messages`, {
    method: "POST",
    headers,
    body: JSON.stringify(body),
  });
  await answer.json();
}

async function prompt({ params, client }) {
  demand(params.prompt[0].type === "text", "a prompt is a text block");
  await updates(client);
  if (mode === "ask" || mode === "wait") {
    await (mode === "ask" ? cancelledAsk(client) : cancelledWait(client));
    return { stopReason: "cancelled" };
  }
  await files(client);
  await permission(client);
  await terminals(client);
  await form(client);
  await askTheModel();
  const content = JSON.parse(readFileSync(`${homedir()}/.peer.json`, "utf8")).repair;
  await client.request(on.fs.writeTextFile, { sessionId: session, path: `${cwd}/src/semver.js`, content });
  return { stopReason: "end_turn" };
}

acp
  .agent({ name: "peer-typescript" })
  .onRequest(serve.initialize, ({ params }) => ({
    protocolVersion: params.protocolVersion,
    agentInfo: { name: "peer-typescript", version: "1" },
    agentCapabilities: {},
  }))
  .onRequest(serve.session.new, ({ params }) => {
    cwd = params.cwd;
    const availableModes = [
      { id: "plain", name: "Plain" },
      { id: "other", name: "Other" },
    ];
    return { sessionId: session, modes: { currentModeId: "plain", availableModes } };
  })
  .onRequest(serve.session.prompt, prompt)
  .onNotification(serve.session.cancel, () => cancelled.resolve())
  .connect(acp.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));
