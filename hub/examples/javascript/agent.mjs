// An agent on nothing but socket.io-client (npm install socket.io-client): the protocol is in hub/wire/PROTOCOL.md.
//
//   HUB_TOKEN=$(cat .session-hub/token) node hub/examples/javascript/agent.mjs
//   session-hub send $(session-hub new --agent javascript) "hello from node" --wait
import { io } from "socket.io-client";

const socket = io(process.env.HUB_URL ?? "http://127.0.0.1:8765", { auth: { token: process.env.HUB_TOKEN }, transports: ["websocket"] });
const stopped = new Set(); // ids of runs that somebody wants to end
const working = new Map(); // what goes on here, by context

/** A request's reply, also when the connection is lost meanwhile: a key makes sure that it is done once. */
async function ask(name, payload) {
  const keyed = { key: crypto.randomUUID(), ...payload };
  for (;;) {
    const reply = await socket.timeout(30_000).emitWithAck(name, keyed).catch(() => null);
    if (reply?.ok) return reply;
    if (reply && !reply.error.retryable) throw new Error(`${reply.error.code}: ${reply.error.message}`);
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
}

async function work({ context, run, messages }) {
  const write = (...ops) => ask("apply", { context, run, ops });
  await write({ op: "run.set", status: "running" });
  for (const message of messages) {
    const id = crypto.randomUUID();
    await write({ op: "log.add", type: "response", id, heading: "Node says" });
    for (const word of message.text.split(/\s+/)) {
      if (stopped.has(run.id)) return write({ op: "run.set", status: "stopped" });
      await write({ op: "log.append", id, text: `${word} ` });
    }
  }
  return write({ op: "run.set", status: "finished" });
}

socket.on("hello", async () => {
  const runs = [...working].map(([context, run]) => ({ context, run })); // after a reconnect: those that go on here
  const reply = await socket.emitWithAck("agent.serve", { agent: "javascript", capacity: 4, runs });
  for (const lost of reply.lost ?? []) stopped.add(lost.run.id);
  console.log(reply.ok ? "serving" : reply.error.message);
});
socket.on("run.start", (start, acknowledge) => {
  acknowledge({ ok: true });
  working.set(start.context, start.run);
  work(start)
    .catch((error) => console.error(error.message)) // run_lost: the hub gave the run to somebody else
    .finally(() => working.delete(start.context));
});
socket.on("run.control", ({ run, action }, acknowledge) => {
  if (action === "stop") stopped.add(run.id);
  acknowledge({ ok: true });
});
socket.on("connect_error", (error) => console.error(error.message));
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => { socket.disconnect(); process.exit(0); });
