// Stock Socket.IO clients from npm, steered by lines of JSON on stdin; what comes to them goes to stdout, a line each.
// usage: node stock_client.mjs WEB_PACKAGE_JSON
//   {client, do: "open", url, token, endpoint, transports}
//   {client, do: "ask", id, event, args}        args: JavaScript text of a list, so that anything can be sent; {thrown} answers
//   {client, do: "transport", id} | {client, do: "close"}
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const need = createRequire(process.argv[2]);
const { io } = need("socket.io-client");
const parsers = { json: undefined, msgpack: need("socket.io-msgpack-parser") };
const paths = { json: "/socket.io/", msgpack: "/msgpack/socket.io/" };
const sockets = new Map();
const say = (line) => process.stdout.write(JSON.stringify(line) + "\n");

const doing = {
  open({ client, url, token, endpoint, transports }) {
    const socket = io(url, {
      auth: { token }, path: paths[endpoint], parser: parsers[endpoint], forceNew: true, reconnectionDelay: 100,
      ...(transports && { transports }),
    });
    sockets.set(client, socket);
    const told = (event, data) => say({ client, event, data: data ?? null });
    socket.on("connect", () => told("connect"));
    socket.on("disconnect", (reason) => told("disconnect", reason));
    socket.on("connect_error", (error) => told("connect_error", { message: error.message, data: error.data ?? null, active: socket.active }));
    socket.onAny((event, data, acknowledge) => {
      told(event, data);
      if (acknowledge) acknowledge({ ok: true });
    });
  },
  ask({ client, id, event, args }) {
    try {
      sockets.get(client).emit(event, ...new Function(`return ${args}`)(), (reply) => say({ client, id, data: reply ?? null }));
    } catch (error) {
      say({ client, id, data: { thrown: String(error) } });
    }
  },
  transport({ client, id }) {
    say({ client, id, data: sockets.get(client).io.engine.transport.name });
  },
  close({ client }) {
    sockets.get(client).disconnect();
  },
};

const lines = createInterface({ input: process.stdin });
lines.on("line", (line) => {
  const order = JSON.parse(line);
  doing[order.do](order);
});
lines.on("close", () => process.exit(0));
