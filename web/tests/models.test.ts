import { effect } from "@preact/signals";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { HubClient, HubError } from "../src/client";
import type { SendOptions } from "../src/client";
import { CHUNK, LogWindow } from "../src/components/log-window";
import { Draft, type Written } from "../src/models/attachments";
import { ago, bytes } from "../src/models/clock";
import { openAsks, said } from "../src/components/asks";
import { whyUntaken } from "../src/components/pending";
import { LogModel } from "../src/models/log";
import { NoticesModel } from "../src/models/notices";
import { Outbox } from "../src/models/outbox";
import { SessionsModel } from "../src/models/sessions";
import { contextIn } from "../src/models/route";
import { nameFrom } from "../src/models/titles";
import { tokenIn, tokenInText } from "../src/models/token";
import { Replica } from "../src/replica";
import type { Ask, ContextRow, Entry, HubDocument, NoticeRow, Part } from "../src/wire";
import { StubSocket, settle } from "./stub";

beforeEach(() => void vi.useFakeTimers({ now: new Date("2026-11-29T15:00:00Z") }));
afterEach(() => void vi.useRealTimers());

const entry = (no: number, content = ""): Entry =>
  ({ no, id: `n${no}`, type: "info", heading: "", content, kvps: {}, timestamp: "" });

function replicaOf(count: number, first = 0): Replica {
  return new Replica({
    epoch: "e", seq: 1, document: { log: { id: "L", length: first + count } } as HubDocument, log_id: "L",
    entries: Array.from({ length: count }, (_, at) => entry(first + at)),
  });
}

function apply(log: LogModel, replica: Replica, ...parts: Part[]): void {
  const outcome = replica.apply({ epoch: "e", seq: replica.position.seq + 1, parts });
  if (outcome.kind !== "applied") throw new Error(outcome.kind);
  log.changed(outcome.touched);
}

describe("the log", () => {
  test("one entry's change reaches its own cell and no other, once a frame", () => {
    const log = new LogModel(async () => 0);
    const replica = replicaOf(3);
    log.replaced(replica);
    log.flush();
    const renders = [0, 0, 0];
    for (const cell of log.cells) effect(() => { void cell.entry.value; renders[cell.no] = (renders[cell.no] ?? 0) + 1; });
    const structure = log.structure.value;
    apply(log, replica, { kind: "log.append", id: "n1", at: 0, text: "a" });
    apply(log, replica, { kind: "log.append", id: "n1", at: 1, text: "b" });
    expect(renders).toEqual([1, 1, 1]);
    vi.advanceTimersByTime(1_000);
    expect(renders).toEqual([1, 2, 1]);
    expect(log.cells[1]?.entry.value.content).toBe("ab");
    expect(log.cells[1]?.rewrites).toBe(0);
    expect(log.structure.value).toBe(structure);
    apply(log, replica, { kind: "log.update", id: "n1", content: "x" });
    vi.advanceTimersByTime(1_000);
    expect(log.cells[1]?.rewrites).toBe(1);
  });

  test("new entries, a reset and a new snapshot", () => {
    const log = new LogModel(async () => 0);
    const replica = replicaOf(2);
    log.replaced(replica);
    log.flush();
    const [first] = log.cells;
    apply(log, replica, { kind: "log.add", entry: entry(2) }, { kind: "log.append", id: "n2", at: 0, text: "x" });
    log.flush();
    expect(log.cells.map((cell) => cell.entry.value.content)).toEqual(["", "", "x"]);
    expect(log.cells[0]).toBe(first);
    apply(log, replica, { kind: "log.reset", log_id: "M" }, { kind: "log.add", entry: { ...entry(0), id: "m0" } });
    log.flush();
    expect(log.cells.map((cell) => cell.id)).toEqual(["m0"]);
    expect(log.newest.value).toBe(0);
    log.replaced(replicaOf(50, 100));
    log.flush();
    expect([log.first, log.cells.length, log.older.value]).toEqual([100, 50, "idle"]);
  });

  test("older entries go in front, and the cells there stay the same", async () => {
    const replica = replicaOf(2, 3);
    const log = new LogModel(async () => replica.prepend("L", [entry(2), entry(1), entry(0)], null));
    log.replaced(replica);
    log.flush();
    const before = [...log.cells];
    await log.loadOlder();
    expect(log.cells.map((cell) => cell.no)).toEqual([0, 1, 2, 3, 4]);
    expect(log.cells.slice(3)).toEqual(before);
    expect(log.older.value).toBe("none");
    await log.loadOlder();
    expect(log.cells).toHaveLength(5);
  });

  test("a page that fails can be asked for again", async () => {
    let fails = true;
    const replica = replicaOf(1, 1);
    const log = new LogModel(async () => {
      if (fails) throw new Error("no");
      return replica.prepend("L", [entry(0)], null);
    });
    log.replaced(replica);
    log.flush();
    await log.loadOlder();
    expect(log.older.value).toBe("failed");
    fails = false;
    await log.loadOlder();
    expect([log.older.value, log.first]).toEqual(["none", 0]);
  });

  test("entries that are not kept any more go, and nothing older is asked for", async () => {
    let asked = 0;
    const replica = replicaOf(3, 4);
    const log = new LogModel(async () => {
      asked += 1;
      return replica.prepend("L", [entry(3), entry(2), entry(1), entry(0)], null);
    });
    log.replaced(replica);
    log.flush();
    const kept = log.cells.slice(1);
    apply(log, replica, { kind: "log.trim", before: 2, ids: ["n0", "n1"] });
    vi.advanceTimersByTime(1_000);
    expect([log.first, log.cells.length, log.older.value]).toEqual([4, 3, "idle"]);
    await log.loadOlder();
    expect([log.first, log.cells.length, log.older.value]).toEqual([2, 5, "gone"]);
    apply(log, replica, { kind: "log.trim", before: 5, ids: ["n2", "n3", "n4"] }, { kind: "log.add", entry: entry(7) });
    vi.advanceTimersByTime(1_000);
    expect(log.cells.map((cell) => cell.no)).toEqual([5, 6, 7]);
    expect(log.cells.slice(0, 2)).toEqual(kept);
    await log.loadOlder();
    expect([asked, log.older.value]).toEqual([1, "gone"]);
    apply(log, replica, { kind: "log.reset", log_id: "M" });
    vi.advanceTimersByTime(1_000);
    expect([log.cells.length, log.older.value]).toEqual([0, "none"]);
  });

  test("what is on the page is bounded, however long the log is", () => {
    const log = new LogModel(async () => 0);
    const replica = replicaOf(5_000);
    log.replaced(replica);
    log.flush();
    const view = new LogWindow(log);
    const shown = (): number => (view.lastChunk.value - view.firstChunk.value + 1) * CHUNK;
    expect(shown()).toBeLessThanOrEqual(200);
    expect(view.lastChunk.value).toBe(Math.floor(4_999 / CHUNK));
    view.following.value = false;
    for (let no = 5_000; no < 7_000; no++) apply(log, replica, { kind: "log.add", entry: entry(no) });
    log.flush();
    view.update();
    expect(shown()).toBeLessThanOrEqual(400);
    view.following.value = true;
    view.update();
    expect(view.lastChunk.value).toBe(Math.floor(6_999 / CHUNK));
    expect(shown()).toBeLessThanOrEqual(200);
  });
});

describe("messages on the way", () => {
  interface Sent { text: string; options: SendOptions; resolve(reply: object): void; reject(error: Error): void }

  function outbox(): { box: Outbox; sent: Sent[] } {
    const sent: Sent[] = [];
    const box = new Outbox({
      message: (_context, { text }, options = {}) => new Promise((resolve, reject) => sent.push({ text, options, resolve, reject })),
    });
    return { box, sent };
  }
  const statuses = (box: Outbox): string[] => box.messages.value.map(({ text, status }) => `${text} ${status}`);
  const shows = (...ids: string[]) => ({ has: (id: string) => ids.includes(id), position: { epoch: "e", seq: 5 } });

  test("stay until the session shows them", async () => {
    const { box, sent } = outbox();
    box.send("c", "1", []);
    box.send("c", "2", []);
    expect(statuses(box)).toEqual(["1 sending", "2 sending"]);
    box.settle("c", shows());
    sent[0]?.options.onRetry?.(new HubError("unavailable", "away", true));
    expect(statuses(box)).toEqual(["1 waiting", "2 sending"]);
    sent[0]?.resolve({ ok: true, id: "m1" });
    await settle();
    box.settle("c", shows());
    expect(statuses(box)).toEqual(["1 accepted", "2 sending"]);
    box.settle("c", shows("m1"));
    expect(statuses(box)).toEqual(["2 sending"]);
  });

  test("leave by their position, or after a while, when the session has moved past them", async () => {
    const { box, sent } = outbox();
    for (const text of ["1", "2", "3"]) box.send("c", text, []);
    sent[0]?.resolve({ ok: true, id: "m1", epoch: "e", seq: 5 });
    sent[1]?.resolve({ ok: true, id: "m2", epoch: "e", seq: 6 });
    sent[2]?.resolve({ ok: true, id: "m3" });
    await settle();
    box.settle("c", shows());
    expect(statuses(box)).toEqual(["2 accepted", "3 accepted"]);
    vi.advanceTimersByTime(6_000);
    box.settle("c", { has: () => false, position: null });
    expect(statuses(box)).toHaveLength(2);
    box.settle("c", shows());
    expect(statuses(box)).toEqual([]);
  });

  test("a refused one can be sent again, or taken back to be edited", async () => {
    const { box, sent } = outbox();
    box.send("c", "1", []);
    sent[0]?.reject(new HubError("too_large", "too long"));
    await settle();
    expect(box.messages.value[0]).toMatchObject({ status: "failed", error: "too long" });
    box.retry(box.messages.value[0]?.local ?? 0);
    expect(statuses(box)).toEqual(["1 sending"]);
    expect(box.takeBack(box.messages.value[0]?.local ?? 0)).toBe("1");
    expect(sent[1]?.options.signal?.aborted).toBe(true);
    expect(statuses(box)).toEqual([]);
  });
});

describe("a draft", () => {
  interface Sending { resolve(upload: object): void; reject(error: Error): void }

  function open(limit?: number) {
    const sending: Sending[] = [];
    const draft = new Draft({ upload: () => new Promise((resolve, reject) => sending.push({ resolve, reject })) }, () => limit);
    const sent: Written[] = [];
    return { draft, sending, sent, send: () => draft.send((message) => sent.push(message)) };
  }
  const file = (name: string, size = 1): File => new File(["x".repeat(size)], name);
  const uploaded = (name: string) => ({ id: name, name, size: 1, type: "text/plain" });

  test("is sent at once without files, and is empty then", () => {
    const { draft, sent, send } = open();
    send();
    expect([sent, draft.blocked]).toEqual([[], "Write a message or attach a file first"]);
    draft.text.value = "  look \n";
    send();
    expect(sent).toEqual([{ text: "look", attachments: [] }]);
    expect([draft.text.value, draft.waiting.value]).toEqual(["", false]);
  });

  test("waits for files that are on their way, unless it is held", async () => {
    const { draft, sending, sent, send } = open();
    draft.text.value = "look";
    draft.add([file("a"), file("b")]);
    send();
    sending[0]?.resolve({ ...uploaded("a"), expires_at: "later" });
    await settle();
    expect([sent, draft.waiting.value, draft.text.value]).toEqual([[], true, "look"]);
    draft.hold();
    sending[1]?.resolve(uploaded("b"));
    await settle();
    expect(sent).toEqual([]);
    draft.add([file("c")]);
    send();
    draft.remove(draft.files.value[2]?.key ?? 0);
    expect(sent).toEqual([{ text: "look", attachments: [uploaded("a"), uploaded("b")] }]);
    expect([draft.files.value, draft.waiting.value]).toEqual([[], false]);
  });

  test("a file that failed keeps neither the text nor the other files, and stays", async () => {
    const { draft, sending, sent, send } = open();
    draft.add([file("bad"), file("good")]);
    draft.text.value = "look";
    send();
    sending[0]?.reject(new HubError("refused", "no"));
    sending[1]?.resolve(uploaded("good"));
    await settle();
    // It was sent together with the file: the user decides whether it goes without.
    expect([sent, draft.waiting.value]).toEqual([[], false]);
    send();
    expect(sent).toEqual([{ text: "look", attachments: [uploaded("good")] }]);
    expect(draft.files.value).toMatchObject([{ name: "bad", error: "no", tooLarge: false }]);
    expect(draft.blocked).toContain("could not be uploaded");
    draft.retry(draft.files.value[0]?.key ?? 0);
    sending[2]?.resolve(uploaded("bad"));
    await settle();
    send();
    expect(sent[1]).toEqual({ text: "", attachments: [uploaded("bad")] });
  });

  test("a file that the hub would not take is not uploaded", () => {
    const { draft, sending } = open(10);
    draft.add([file("big", 11), file("fits", 10)]);
    expect(sending).toHaveLength(1);
    expect(draft.files.value).toMatchObject([{ error: "Too large: the hub takes files up to 10 B.", tooLarge: true }, { error: null }]);
  });
});

describe("notices", () => {
  const notice = (id: string, version: string, more: Partial<NoticeRow> = {}): NoticeRow => ({
    id, version, type: "info", title: "", message: id, detail: "", priority: 10, display_time: 3, group: "", source: "operator",
    context: null, created_at: "2026-11-29T14:00:00.000Z", starts_at: null, expires_at: null, ...more,
  });

  async function open(rows: NoticeRow[], read: string[] = []) {
    const socket = new StubSocket();
    const client = new HubClient({ token: "t", openSocket: socket.open });
    const notices = new NoticesModel(client);
    client.start();
    socket.accept();
    socket.last("subscribe").answer({ ok: true, rows, read });
    await settle();
    const event = (row: NoticeRow | null, id: string, version: string): void =>
      socket.handlers.event("row", { topic: "notices", id, version, row });
    return { socket, notices, event };
  }
  const ids = (rows: readonly NoticeRow[]): string[] => rows.map((row) => row.id);

  test("those from before the page was opened are in the list only", async () => {
    const { notices } = await open([notice("a", "x:1"), notice("b", "x:2", { display_time: 0 }), notice("c", "x:3")], ["c"]);
    expect(ids(notices.rows.value)).toHaveLength(3);
    expect([notices.toasts.value, notices.unread.value]).toEqual([[], 2]);
  });

  test("those that come while it is open, or were missed, pop up for as long as they say", async () => {
    const { socket, notices, event } = await open([notice("old", "x:1")], ["old"]);
    event(notice("a", "x:2"), "a", "x:2");
    socket.lose();
    await vi.advanceTimersToNextTimerAsync();
    socket.accept();
    socket.last("subscribe").answer({ ok: true, rows: [notice("old", "x:1"), notice("a", "x:2"), notice("b", "x:3", { display_time: 0 })], read: ["old"] });
    await settle();
    expect(ids(notices.toasts.value).sort()).toEqual(["a", "b"]);
    expect(notices.unread.value).toBe(2);
    vi.advanceTimersByTime(3_100);
    expect(ids(notices.toasts.value)).toEqual(["b"]);
    expect(notices.unread.value).toBe(2);
  });

  test("one that is posted again is unread again; one that is cleared is gone", async () => {
    const { socket, notices, event } = await open([notice("a", "x:1")], ["a"]);
    expect(notices.unread.value).toBe(0);
    event(notice("a", "x:2", { message: "new" }), "a", "x:2");
    expect(notices.unread.value).toBe(1);
    expect(notices.toasts.value[0]?.message).toBe("new");
    notices.markAllRead();
    expect(socket.last("notice.read").payload).toEqual({ ids: ["a"] });
    expect(notices.unread.value).toBe(0);
    event(null, "a", "x:3");
    expect([notices.rows.value, notices.toasts.value]).toEqual([[], []]);
  });

  test("expired ones leave the list, also without a word from the hub", async () => {
    const { notices } = await open([notice("a", "x:1", { expires_at: "2026-11-29T15:00:10.000Z" }), notice("b", "x:2", { expires_at: "2026-11-29T14:59:00.000Z" })]);
    expect(ids(notices.rows.value)).toEqual(["a"]);
    vi.advanceTimersByTime(11_000);
    expect(notices.rows.value).toEqual([]);
  });
});

test("a search reads further pages until enough sessions match, or there are no more", async () => {
  const socket = new StubSocket();
  const client = new HubClient({ token: "t", openSocket: socket.open });
  const sessions = new SessionsModel(client);
  client.start();
  socket.accept();
  const row = (no: number, name: string): ContextRow =>
    ({ id: `c${no}`, no, name, version: "e:1", last_message: String(no), agent: null }) as unknown as ContextRow;
  socket.last("subscribe").answer({ ok: true, rows: [row(9, "one")], next: "p1" });
  await settle();
  vi.advanceTimersByTime(1_000);
  const search = sessions.search("rare");
  expect(socket.last("contexts.page").payload).toMatchObject({ before: "p1" });
  socket.last("contexts.page").answer({ ok: true, rows: [row(8, "other")], next: "p2" });
  await settle();
  expect(socket.last("contexts.page").payload).toMatchObject({ before: "p2" });
  socket.last("contexts.page").answer({ ok: true, rows: [row(7, "a rare one")] });
  await search;
  expect(sessions.shown.value.map(({ name }) => name)).toEqual(["a rare one"]);
  expect(sessions.more.value).toBe("none");
  sessions.filter.value = "";
  expect(sessions.shown.value.map(({ name }) => name)).toEqual(["one", "other", "a rare one"]);
});

describe("why a message waits", () => {
  const waiting = { paused: false, agent: "echo", served: ["demo", "echo"], count: 1, long: false };

  test("a paused session says so, whoever is connected", () => {
    expect(whyUntaken({ ...waiting, paused: true, served: [] })).toBe("The session is paused.");
  });

  test("an agent that is not connected is named at once", () => {
    expect(whyUntaken({ ...waiting, agent: "nobody" })).toBe("No agent “nobody” is connected. The message waits for it.");
    expect(whyUntaken({ ...waiting, agent: "nobody", count: 2 })).toBe("No agent “nobody” is connected. The messages wait for it.");
  });

  test("one that is connected has some seconds to take it", () => {
    expect(whyUntaken(waiting)).toBeNull();
    expect(whyUntaken({ ...waiting, long: true })).toBe("The agent “echo” has not taken it yet.");
    expect(whyUntaken({ ...waiting, long: true, count: 3 })).toBe("The agent “echo” has not taken the first yet.");
  });

  test("of the hub's default agent the page knows no name", () => {
    expect(whyUntaken({ ...waiting, agent: null, served: [] })).toBe("No agent is connected. The message waits for the hub's default agent.");
    expect(whyUntaken({ ...waiting, agent: null })).toBeNull();
    expect(whyUntaken({ ...waiting, agent: null, long: true })).toBe("The hub's default agent has not taken it yet.");
  });
});

test("names come from the first line that says something", () => {
  expect(nameFrom("\n  Errors\tin the log \nmore", [])).toBe("Errors in the log");
  expect(nameFrom(" ", [{ name: "a.csv" }])).toBe("a.csv");
  expect(nameFrom("", [])).toBe("");
  expect([...nameFrom("😀".repeat(100), [])]).toHaveLength(60);
});

test("addresses and tokens", () => {
  expect(contextIn("/c/aB3d9XqZ")).toBe("aB3d9XqZ");
  expect(contextIn("/c/a%40b:c/")).toBe("a@b:c");
  expect(["/", "/c/", "/c/a%2Fb", "/c/%", "/c/a/b"].map(contextIn)).toEqual([null, null, null, null, null]);
  expect(tokenIn("#token=a.b-c")).toBe("a.b-c");
  expect(tokenIn("#other")).toBeNull();
  expect(tokenInText(" http://127.0.0.1:8765/#token=abc ")).toBe("abc");
  expect(tokenInText("abc")).toBe("abc");
});

test("times and sizes in words", () => {
  const now = Date.parse("2026-11-29T15:00:00Z");
  expect(["2026-11-29T14:59:40Z", "2026-11-29T14:55:00Z", "2026-11-29T12:00:00Z", "2026-11-26T15:00:00Z", "nonsense"].map((time) => ago(time, now)))
    .toEqual(["now", "5 min", "3 h", "3 d", ""]);
  expect([12, 1_600, 9_400_000, 20_000_000].map(bytes)).toEqual(["12 B", "1.6 kB", "9.4 MB", "20 MB"]);
});

describe("questions of the agent", () => {
  const ask = (status: Ask["status"], asked_at: string): Ask =>
    ({ question: "?", options: null, status, run: null, asked_at, expires_at: null });

  test("those that are open are shown, oldest first", () => {
    const asks = { c: ask("open", "2026-11-29T15:00:02Z"), a: ask("answered", "2026-11-29T15:00:00Z"), b: ask("open", "2026-11-29T15:00:01Z") };
    expect(openAsks(asks).map(([id]) => id)).toEqual(["b", "c"]);
    expect(openAsks({})).toEqual([]);
  });

  test("an option is a text, or what it is as JSON", () => {
    expect(["yes", 1, null, { a: [true] }].map(said)).toEqual(["yes", "1", "null", '{"a":[true]}']);
  });
});
