import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { HubClient, type LinkState } from "../src/client";
import { StubSocket } from "./stub";

let socket: StubSocket;
let client: HubClient;
let states: LinkState[];
let degraded: (string | null)[];

beforeEach(() => {
  vi.useFakeTimers();
  states = [];
  degraded = [];
  socket = new StubSocket();
  client = new HubClient({ token: "t", openSocket: socket.open, random: () => 0.5 },
    { state: (state) => states.push(state), degraded: (reason) => degraded.push(reason) });
  client.start();
});

afterEach(() => {
  client.stop();
  vi.useRealTimers();
});

const last = (): LinkState => states.at(-1) as LinkState;

test("a lost connection comes back by itself, with growing waits while nobody answers", async () => {
  socket.accept();
  socket.lose();
  expect(last()).toMatchObject({ kind: "offline", reason: "The connection was lost." });
  const waits: number[] = [];
  for (let i = 0; i < 8; i++) {
    const from = Date.now();
    const attempts = socket.attempts;
    while (socket.attempts === attempts) await vi.advanceTimersByTimeAsync(50);
    waits.push(Date.now() - from);
    socket.handlers.failed("websocket error", null);
  }
  expect(waits[0]).toBeLessThanOrEqual(500);
  expect([...waits].sort((a, b) => a - b)).toEqual(waits);
  expect(waits.at(-1)).toBeLessThanOrEqual(10_050);
  expect(last()).toMatchObject({ kind: "offline", reason: "The hub cannot be reached." });
});

test("the server's own disconnect is no end", async () => {
  socket.accept();
  socket.lose("io server disconnect");
  await vi.advanceTimersByTimeAsync(1_000);
  expect(socket.attempts).toBe(2);
});

test("hub.disconnect says when to come back", async () => {
  socket.accept();
  socket.handlers.event("hub.disconnect", { code: 4008, reason: "too slow", reconnect: true, retry_after_ms: 4_000 });
  socket.lose();
  expect(last()).toMatchObject({ kind: "offline", reason: "too slow" });
  await vi.advanceTimersByTimeAsync(3_900);
  expect(socket.attempts).toBe(1);
  await vi.advanceTimersByTimeAsync(2_200);
  expect(socket.attempts).toBe(2);
});

test.each([
  ["hub.disconnect", () => { socket.accept(); socket.handlers.event("hub.disconnect", { code: 4503, reason: "removed" }); socket.lose(); }],
  ["reconnect: false", () => { socket.accept(); socket.handlers.event("hub.disconnect", { code: 4099, reason: "removed", reconnect: false }); socket.lose(); }],
  ["a refusal at connect", () => socket.handlers.failed("no", { code: 4500, reason: "removed" })],
])("%s with 45xx is final", async (_, act) => {
  act();
  expect(last()).toMatchObject({ kind: "refused", reason: "removed" });
  const { attempts } = socket;
  await vi.advanceTimersByTimeAsync(60_000);
  client.retryNow();
  expect(socket.attempts).toBe(attempts);
});

test("a refusal with 40xx, or without a code, is tried again", async () => {
  socket.handlers.failed("busy", { code: 4013, reason: "rate", retry_after_ms: 2_000 });
  await vi.advanceTimersByTimeAsync(3_000);
  expect(socket.attempts).toBe(2);
  socket.handlers.failed("not now", {});
  expect(last()).toMatchObject({ kind: "offline", reason: "not now" });
  await vi.advanceTimersByTimeAsync(10_000);
  expect(socket.attempts).toBe(3);
});

test("retryNow does not wait", () => {
  socket.accept();
  socket.lose();
  client.retryNow();
  expect(socket.attempts).toBe(2);
});

test("drain: go and come back within the deadline", async () => {
  socket.accept();
  // The hub's clock may be another one: it is the seconds that count.
  socket.handlers.event("hub.drain", { deadline: new Date(Date.now() + 3_600_000).toISOString(), seconds: 4 });
  expect(last().kind).toBe("online");
  await vi.advanceTimersByTimeAsync(2_100);
  expect(last().kind).toBe("connecting");
  expect(socket.attempts).toBe(2);
});

test("degraded is told, and ends with the next hello at the latest", () => {
  socket.accept();
  socket.handlers.event("hub.degraded", { reason: "Redis is away" });
  expect(degraded.at(-1)).toBe("Redis is away");
  socket.handlers.event("hub.degraded", { degraded: false });
  expect(degraded.at(-1)).toBe(null);
});
