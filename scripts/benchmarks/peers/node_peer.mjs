// The peer Socket.IO for Node: a server that relays to rooms, as its documentation shows it.
// node node_peer.mjs PORT; prints its port, and ends when its standard input does. Its package is found from the folder
// that it runs in, where scripts/bench installed it.
import { createRequire } from "node:module";
import { createServer } from "node:http";

const { Server } = createRequire(`${process.cwd()}/`)("socket.io");
const http = createServer();
const io = new Server(http, { transports: ["websocket"], serveClient: false });
const rooms = new Set();

io.on("connection", (socket) => {
  socket.on("join", (room, acknowledge) => {
    socket.join(room);
    rooms.add(room);
    acknowledge({ ok: true });
  });
  socket.on("relay", (room, ...changes) => {
    for (const change of changes) io.to(room).emit("change", change);
  });
  socket.on("each", (change) => {
    for (const room of rooms) io.to(room).emit("change", change);
  });
});

http.listen(Number(process.argv[2]), "127.0.0.1", () => console.log(http.address().port));
process.stdin.resume();
process.stdin.on("end", () => process.exit(0));
