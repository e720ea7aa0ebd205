import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { HubClient } from "../src/client";
import type { Replica } from "../src/replica";
import type { ContextRow, Entry, HubDocument } from "../src/wire";
import { StubSocket, settle } from "./stub";

let socket: StubSocket;
let client: HubClient;

beforeEach(() => {
  vi.useFakeTimers();
  vi.spyOn(console, "warn").mockImplementation(() => undefined);
  socket = new StubSocket();
  client = new HubClient({ token: "t", openSocket: socket.open, random: () => 0.5 });
  client.start();
  socket.accept();
});

afterEach(() => {
  client.stop();
  vi.restoreAllMocks();
  vi.useRealTimers();
});

const document = (n: number, length = 0): HubDocument =>
  ({ id: "c", name: "", state: { n }, log: { id: "L", length } }) as unknown as HubDocument;
const entry = (no: number): Entry => ({ no, id: `n${no}`, type: "info", heading: "", content: "", kvps: {}, timestamp: "" });
const snapshot = (seq: number, epoch = "e", length = 0): object =>
  ({ ok: true, epoch, seq, recovered: false, document: document(seq, length), log_id: "L", entries: [] });

function change(seq: number, epoch = "e"): void {
  socket.handlers.event("change", {
    topic: "context:c", epoch, seq, parts: [{ kind: "patch", ops: [{ op: "replace", path: "/state/n", value: seq }] }],
  });
}

describe("a context", () => {
  let replica: Replica | null;
  let replaced: (string | null)[];
  let states: string[];

  function watch(): ReturnType<HubClient["watchContext"]> {
    replica = null;
    replaced = [];
    states = [];
    return client.watchContext("c", {
      state: (state) => states.push(state.kind),
      replaced: (next, reason) => { replica = next; replaced.push(reason); },
      changed: (next) => { replica = next; },
    });
  }

  const subscribes = (): (object | undefined)[] => socket.of("subscribe").map((one) => one.payload["from"] as object | undefined);

  async function answer(reply: object): Promise<void> {
    socket.last("subscribe").answer(reply);
    await settle();
  }

  test("events before the reply wait for it", async () => {
    watch();
    expect(socket.last("subscribe").payload).toMatchObject({ topic: "context:c", deliver: "patch" });
    change(4);
    change(5);
    change(6);
    expect(replica).toBeNull();
    await answer(snapshot(5));
    expect(replica?.position).toEqual({ epoch: "e", seq: 6 });
    expect(replica?.document.state["n"]).toBe(6);
    expect(states).toEqual(["joining", "live"]);
  });

  test("a reconnection asks for what was missed, and gets it in order", async () => {
    watch();
    await answer(snapshot(5));
    change(6);
    socket.lose();
    await vi.advanceTimersByTimeAsync(1_000);
    socket.accept();
    expect(subscribes()).toEqual([{ epoch: "e", seq: 6 }]);
    await answer({ ok: true, epoch: "e", seq: 6, recovered: true });
    change(7);
    change(8);
    expect(replica?.position.seq).toBe(8);
    expect(replaced).toEqual([null]);
  });

  test("not recovered: the reply takes the place of everything, and says why", async () => {
    watch();
    await answer(snapshot(5));
    socket.lose();
    await vi.advanceTimersByTimeAsync(1_000);
    socket.accept();
    await answer({ ...snapshot(2, "f"), reason: "epoch" });
    expect(replica?.position).toEqual({ epoch: "f", seq: 2 });
    expect(replaced).toEqual([null, "epoch"]);
  });

  test("a gap reads the whole again at once, without claiming a position", async () => {
    watch();
    await answer(snapshot(5));
    change(7);
    expect(subscribes()).toEqual([undefined, undefined]);
    change(8);
    await answer(snapshot(7));
    expect(replica?.position.seq).toBe(8);
  });

  test("a connection lost while reading again: still no position is claimed", async () => {
    watch();
    await answer(snapshot(5));
    change(7);
    socket.lose();
    await vi.advanceTimersByTimeAsync(1_000);
    socket.accept();
    expect(subscribes()).toEqual([undefined]);
  });

  test("a hub that keeps disagreeing is asked with growing waits", async () => {
    watch();
    await answer(snapshot(5));
    change(7);
    for (let i = 0; i < 3; i++) {
      await answer(snapshot(5));
      change(9);
      await vi.advanceTimersByTimeAsync(0);
    }
    expect(socket.of("subscribe")).toHaveLength(2);
    await vi.advanceTimersByTimeAsync(1_000);
    expect(socket.of("subscribe")).toHaveLength(3);
  });

  test("a recovery at another position is doubted", async () => {
    watch();
    await answer(snapshot(5));
    socket.lose();
    await vi.advanceTimersByTimeAsync(1_000);
    socket.accept();
    await answer({ ok: true, epoch: "e", seq: 9, recovered: true });
    expect(subscribes().at(-1)).toBeUndefined();
  });

  test("a snapshot with entries after a lag is taken as it is", async () => {
    watch();
    await answer(snapshot(5));
    socket.handlers.event("snapshot", {
      topic: "context:c", epoch: "e", seq: 50, document: document(50, 9), recovered: false, reason: "lagged", log_id: "L", entries: [entry(8)],
    });
    expect(replica?.position.seq).toBe(50);
    expect(replica?.first).toBe(8);
    expect(replaced).toEqual([null, "lagged"]);
    change(51);
    expect(replica?.position.seq).toBe(51);
    expect(socket.of("subscribe")).toHaveLength(1);
  });

  test("a retryable refusal is tried again, a final one is told", async () => {
    watch();
    await answer({ ok: false, error: { code: "unavailable", message: "wait", retryable: true } });
    await vi.advanceTimersByTimeAsync(1_000);
    expect(socket.of("subscribe")).toHaveLength(2);
    await answer({ ok: false, error: { code: "not_found", message: "none", retryable: false } });
    await vi.advanceTimersByTimeAsync(60_000);
    expect(socket.of("subscribe")).toHaveLength(2);
    expect(states.at(-1)).toBe("refused");
  });

  test("the end is seen, and nothing comes after it", async () => {
    watch();
    await answer(snapshot(5));
    socket.handlers.event("change", { topic: "context:c", epoch: "e", seq: 6, parts: [{ kind: "closed", reason: "removed" }] });
    expect(replica?.closed).toBe("removed");
  });

  test("closed: unsubscribes, and hears nothing more", async () => {
    const topic = watch();
    await answer(snapshot(5));
    client.unwatch(topic);
    expect(socket.last("unsubscribe").payload).toEqual({ topic: "context:c" });
    change(6);
    expect(replica?.position.seq).toBe(5);
  });

  test("older entries come by pages, newest first", async () => {
    const topic = watch();
    await answer({ ...snapshot(5, "e", 3), entries: [entry(2)] });
    const page = topic.older(10);
    expect(socket.last("log.page").payload).toEqual({ context: "c", log: "L", before: 2, limit: 10 });
    socket.last("log.page").answer({ ok: true, entries: [entry(1), entry(0)] });
    expect(await page).toBe(2);
    expect(replica?.entries.map((one) => one.no)).toEqual([0, 1, 2]);
    expect(await topic.older(10)).toBe(0);
  });

  test("a page that comes after the replica was replaced is dropped", async () => {
    const topic = watch();
    await answer({ ...snapshot(5, "e", 3), entries: [entry(2)] });
    const page = topic.older(10);
    change(9);
    await answer({ ...snapshot(9, "e", 3), entries: [entry(2)] });
    socket.last("log.page").answer({ ok: true, entries: [entry(1)] });
    expect(await page).toBe(0);
    expect(replica?.first).toBe(2);
  });
});

describe("rows", () => {
  const row = (id: string, version: string, name = version): ContextRow => ({ id, version, name }) as unknown as ContextRow;
  const names = (rows: ReadonlyMap<string, ContextRow>): object => Object.fromEntries([...rows].map(([id, { name }]) => [id, name]));

  function event(id: string, version: string, gone = false): void {
    socket.handlers.event("row", { topic: "contexts", id, version, row: gone ? null : row(id, version) });
  }

  function watch(): ReturnType<HubClient["watchContexts"]> {
    return client.watchContexts({ replaced: () => undefined, changed: () => undefined, refused: () => undefined });
  }

  async function answer(rows: ContextRow[]): Promise<void> {
    socket.last("subscribe").answer({ ok: true, rows });
    await settle();
  }

  test("the newest of an epoch wins, in whatever order they come", async () => {
    const topic = watch();
    event("a", "e:7");
    event("b", "e:1");
    await answer([row("a", "e:5"), row("b", "e:3")]);
    expect(names(topic.rows)).toEqual({ a: "e:7", b: "e:3" });
    event("a", "e:6");
    event("b", "e:4");
    event("c", "x:1");
    expect(names(topic.rows)).toEqual({ a: "e:7", b: "e:4", c: "x:1" });
  });

  test("a row that is gone does not come back by an older one, but may by another epoch", async () => {
    const topic = watch();
    await answer([row("a", "e:5")]);
    event("a", "e:8", true);
    event("a", "e:7");
    expect(names(topic.rows)).toEqual({});
    event("a", "f:1");
    expect(names(topic.rows)).toEqual({ a: "f:1" });
    expect(socket.of("subscribe")).toHaveLength(1);
  });

  test("another epoch of a row that is held: taken, and the set is read again", async () => {
    const topic = watch();
    await answer([row("a", "e:5")]);
    event("a", "f:2");
    expect(names(topic.rows)).toEqual({ a: "f:2" });
    await vi.advanceTimersByTimeAsync(1_000);
    expect(socket.of("subscribe")).toHaveLength(2);
    await answer([row("a", "f:3")]);
    expect(names(topic.rows)).toEqual({ a: "f:3" });
  });

  test("a hub that cannot answer just now is asked with growing waits", async () => {
    watch();
    const waits: number[] = [];
    for (let n = 0; n < 4; n++) {
      const before = Date.now();
      const asked = socket.of("subscribe").length;
      socket.last("subscribe").answer({ ok: false, error: { code: "unavailable", message: "away", retryable: true } });
      await settle();
      while (socket.of("subscribe").length === asked && Date.now() - before < 60_000) await vi.advanceTimersByTimeAsync(50);
      waits.push(Date.now() - before);
    }
    // Each wait is spread by half of its length: two steps on it is longer for sure.
    expect(waits[2]).toBeGreaterThan(waits[0] as number);
    expect(waits[3]).toBeGreaterThan(waits[1] as number);
  });

  test("rows that the hub left out: the set is read again, and what comes meanwhile is kept", async () => {
    const topic = watch();
    await answer([row("a", "e:5")]);
    socket.handlers.event("hub.lagged", { topic: "notices" });
    socket.handlers.event("hub.lagged", { topic: null, waiting: 1, limit: 1, seconds: 10 });
    expect(socket.of("subscribe")).toHaveLength(1);
    socket.handlers.event("hub.lagged", { topic: "contexts" });
    expect(socket.of("subscribe")).toHaveLength(2);
    event("b", "e:9");
    await answer([row("a", "e:6"), row("b", "e:8")]);
    expect(names(topic.rows)).toEqual({ a: "e:6", b: "e:9" });
  });

  test("the set is read again on every connection, and pages join it", async () => {
    const topic = watch();
    await answer([row("a", "e:5"), row("b", "e:1")]);
    socket.lose();
    await vi.advanceTimersByTimeAsync(1_000);
    socket.accept();
    await answer([row("a", "e:9")]);
    topic.merge([row("z", "e:1"), row("a", "e:3")]);
    expect(names(topic.rows)).toEqual({ a: "e:9", z: "e:1" });
  });
});
