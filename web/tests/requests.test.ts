import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { HubClient, HubError } from "../src/client";
import { StubSocket, settle } from "./stub";

let socket: StubSocket;
let client: HubClient;

beforeEach(() => {
  vi.useFakeTimers();
  socket = new StubSocket();
  client = new HubClient({ token: "t", openSocket: socket.open, random: () => 0.5 });
  client.start();
});

afterEach(() => {
  client.stop();
  vi.useRealTimers();
});

const texts = (): unknown[] => socket.of("message").map((one) => one.payload["text"]);
const keys = (): unknown[] => socket.of("message").map((one) => one.payload["key"]);
const quiet = (promise: Promise<unknown>): Promise<unknown> => promise.catch((error: unknown) => error);

test("keys are writer/n, counted per context", async () => {
  socket.accept();
  for (const [context, text] of [["a", "1"], ["a", "2"], ["b", "3"]] as const) void quiet(client.message(context, { text }));
  const [first, second, third] = keys() as [string, string, string];
  const writer = first.split("/")[0];
  expect([first, second, third]).toEqual([`${writer}/1`, `${writer}/2`, `${writer}/1`]);
});

test("what was not answered goes out again on a new connection, in order and with the same keys", async () => {
  socket.accept();
  const results = ["1", "2", "3"].map((text) => quiet(client.message("a", { text })));
  const before = keys();
  socket.of("message")[0]?.answer({ ok: true, id: "m1" });
  await settle();
  socket.lose();
  void quiet(client.message("a", { text: "4" }));
  await vi.advanceTimersByTimeAsync(1_000);
  socket.accept();
  expect(texts()).toEqual(["2", "3", "4"]);
  expect(keys().slice(0, 2)).toEqual(before.slice(1));
  for (const one of socket.of("message")) one.answer({ ok: true, id: `m${one.payload["text"]}` });
  expect(await Promise.all(results)).toMatchObject([{ id: "m1" }, { id: "m2" }, { id: "m3" }]);
  await settle();
  expect(client.waiting).toBe(0);
});

test("at most 64 of a context are under way; one answer lets one more out", async () => {
  socket.accept();
  for (let i = 0; i < 70; i++) void quiet(client.message("a", { text: String(i) }));
  expect(texts()).toHaveLength(64);
  socket.of("message")[0]?.answer({ ok: true });
  await settle();
  expect(texts()).toHaveLength(65);
  expect(texts().at(-1)).toBe("64");
});

test("a retryable answer is tried again with the same key, and nothing overtakes it meanwhile", async () => {
  socket.accept();
  const retries: HubError[] = [];
  const result = quiet(client.message("a", { text: "1" }, { onRetry: (error) => retries.push(error) }));
  const key = keys()[0];
  socket.last("message").answer({ ok: false, error: { code: "unavailable", message: "wait", retryable: true } });
  await settle();
  void quiet(client.message("a", { text: "2" }));
  void quiet(client.message("b", { text: "other" }));
  expect(texts()).toEqual(["1", "other"]);
  expect(retries.map((error) => error.code)).toEqual(["unavailable"]);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(texts()).toEqual(["1", "other", "1", "2"]);
  expect(keys()[2]).toBe(key);
  socket.of("message")[2]?.answer({ ok: true, id: "m" });
  expect(await result).toMatchObject({ id: "m" });
});

test("a refusal that is final is an error with the hub's code, and the next goes on", async () => {
  socket.accept();
  const first = quiet(client.message("a", { text: "1" }));
  const second = quiet(client.message("a", { text: "2" }));
  socket.of("message")[0]?.answer({ ok: false, error: { code: "too_large", message: "no", retryable: false, details: { limit: 1 } } });
  socket.of("message")[1]?.answer({ ok: true });
  expect(await first).toMatchObject({ name: "HubError", code: "too_large", retryable: false, details: { limit: 1 } });
  expect(await second).toMatchObject({ ok: true });
});

test("a lost answer on a living connection is asked for again", async () => {
  socket.accept();
  const result = quiet(client.message("a", { text: "1" }));
  await vi.advanceTimersByTimeAsync(21_000);
  expect(keys()).toHaveLength(2);
  expect(new Set(keys()).size).toBe(1);
  socket.last("message").answer({ ok: true });
  expect(await result).toMatchObject({ ok: true });
});

test("patience ends a control; a message has no end of patience", async () => {
  const control = quiet(client.control("a", "stop", { patience: 5_000 }));
  const message = client.message("a", { text: "1" });
  let settled = false;
  void quiet(message).then(() => { settled = true; });
  await vi.advanceTimersByTimeAsync(120_000);
  expect(await control).toMatchObject({ code: "timeout" });
  expect(settled).toBe(false);
  socket.accept();
  expect(socket.of("control")).toHaveLength(0);
  expect(texts()).toEqual(["1"]);
});

test("a message that is taken back is not sent", async () => {
  const abort = new AbortController();
  const result = quiet(client.message("a", { text: "1" }, { signal: abort.signal }));
  abort.abort();
  expect(await result).toMatchObject({ code: "aborted" });
  socket.accept();
  expect(texts()).toEqual([]);
});

test("a read waits for a connection, is asked again on the next, and ends after its time", async () => {
  const page = client.pageContexts(null, 10);
  socket.accept();
  expect(socket.of("contexts.page")).toHaveLength(1);
  socket.lose();
  await vi.advanceTimersByTimeAsync(1_000);
  socket.accept();
  socket.last("contexts.page").answer({ ok: true, rows: [] });
  expect(await page).toEqual({ ok: true, rows: [] });
  const late = quiet(client.pageContexts(null, 10));
  await vi.advanceTimersByTimeAsync(21_000);
  expect(await late).toMatchObject({ code: "timeout", retryable: true });
});

test("an answer that is none is an error, not a crash", async () => {
  socket.accept();
  for (const reply of [[], { ok: false }, { ok: false, error: "text" }, { something: 1 }]) {
    const result = quiet(client.pageContexts(null, 10));
    socket.last("contexts.page").answer(reply);
    expect(await result).toBeInstanceOf(HubError);
  }
});

test("who asks too much at a time asks again when the hub says, a read within its time", async () => {
  socket.accept();
  const read = quiet(client.readNotices(["n"]));
  const write = quiet(client.message("a", { text: "1" }));
  const refusal = { ok: false, error: { code: "rate_limited", message: "later", retryable: true, details: { retry_after_ms: 3_000 } } };
  socket.last("notice.read").answer(refusal);
  socket.last("message").answer(refusal);
  await vi.advanceTimersByTimeAsync(2_900);
  expect([socket.of("notice.read").length, socket.of("message").length]).toEqual([1, 1]);
  await vi.advanceTimersByTimeAsync(1_700);
  expect([socket.of("notice.read").length, socket.of("message").length]).toEqual([2, 2]);
  expect(keys()[1]).toBe(keys()[0]);
  socket.last("notice.read").answer({ ok: true });
  socket.last("message").answer({ ok: true, id: "m" });
  expect(await read).toMatchObject({ ok: true });
  expect(await write).toMatchObject({ id: "m" });
});
