import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { Replica } from "../src/replica";
import type { Change, Entry, HubDocument, JsonObject } from "../src/wire";

interface Case {
  name: string;
  snapshot: { epoch: string; seq: number; document: HubDocument; log: { id: string; entries: Entry[] }; data: JsonObject };
  changes: Change[];
  expect: { resync: true } | { resync?: never; seq: number; document: HubDocument; log: { id: string; entries: Entry[] }; data: JsonObject; closed?: string };
}

const folder = new URL("../../tests/vectors/", import.meta.url);

function replicaOf({ epoch, seq, document, log, data }: Case["snapshot"]): Replica {
  return new Replica({ epoch, seq, document, log_id: log.id, entries: log.entries, data });
}

function view(replica: Replica): unknown {
  return {
    position: replica.position, document: replica.document, entries: replica.entries, data: replica.data,
    closed: replica.closed, first: replica.first,
  };
}

/** JSON text keeps what equality in JavaScript passes over, such as a member named `__proto__`. */
const text = (value: unknown): string => JSON.stringify(value, (_, v: unknown) =>
  v !== null && typeof v === "object" && !Array.isArray(v)
    ? Object.fromEntries(Object.entries(v).sort(([a], [b]) => (a < b ? -1 : 1)))
    : v);

for (const file of readdirSync(folder).filter((name) => name.endsWith(".json"))) {
  describe(`vectors: ${file}`, () => {
    for (const one of JSON.parse(readFileSync(new URL(file, folder), "utf8")) as Case[]) {
      test(one.name, () => {
        const untouched = text(one.snapshot);
        const replica = replicaOf(one.snapshot);
        let resync = false;
        for (const change of one.changes) {
          const before = text(view(replica));
          const outcome = replica.apply(change);
          if (outcome.kind !== "applied") expect(text(view(replica))).toBe(before);
          if (outcome.kind === "resync") { resync = true; break; }
        }
        expect(text(one.snapshot)).toBe(untouched);
        if (one.expect.resync) {
          expect(resync).toBe(true);
          return;
        }
        expect(resync).toBe(false);
        expect(replica.position).toEqual({ epoch: one.snapshot.epoch, seq: one.expect.seq });
        expect(text(replica.document)).toBe(text(one.expect.document));
        expect(replica.logId).toBe(one.expect.log.id);
        expect(text(replica.entries)).toBe(text(one.expect.log.entries));
        expect(text(replica.data)).toBe(text(one.expect.data));
        expect(replica.closed).toBe(one.expect.closed ?? null);
      });
    }
  });
}

const cases = JSON.parse(readFileSync(new URL("log.json", folder), "utf8")) as Case[];

function replicaWith(count: number, first = 0): Replica {
  const base = (cases[0] as Case).snapshot;
  const entries = Array.from({ length: count }, (_, i) => entryOf(first + i));
  const document = { ...base.document, state: { big: { a: 1 }, n: 0 }, log: { id: "L1", length: first + count } };
  return replicaOf({ ...base, seq: 1, document, log: { id: "L1", entries } });
}

function entryOf(no: number, content = ""): Entry {
  return { no, id: `n${no}`, type: "info", heading: "", content, kvps: {}, timestamp: "" };
}

describe("sharing", () => {
  test("only what lies on the changed path is new", () => {
    const replica = replicaWith(2);
    const { state, queue, progress } = replica.document;
    const [first, second] = replica.entries;
    replica.apply({ epoch: "e1", seq: 2, parts: [{ kind: "patch", ops: [{ op: "replace", path: "/state/n", value: 1 }] }] });
    expect(replica.document.state).not.toBe(state);
    expect(replica.document.state["big"]).toBe(state["big"]);
    expect(replica.document.queue).toBe(queue);
    expect(replica.document.progress).toBe(progress);
    const document = replica.document;
    const outcome = replica.apply({ epoch: "e1", seq: 3, parts: [{ kind: "log.append", id: "n1", at: 0, text: "x" }] });
    expect(replica.document).toBe(document);
    expect(replica.entries[0]).toBe(first);
    expect(replica.entries[1]).not.toBe(second);
    expect(outcome).toMatchObject({ kind: "applied", touched: { document: false, added: 0 } });
  });

  test("a refused change is taken back whole", () => {
    const replica = replicaWith(2);
    const before = text(view(replica));
    const outcome = replica.apply({ epoch: "e1", seq: 2, parts: [
      { kind: "log.add", entry: entryOf(2) },
      { kind: "log.append", id: "n0", at: 0, text: "x" },
      { kind: "log.reset", log_id: "L2" },
      { kind: "log.add", entry: entryOf(0) },
      { kind: "data", key: "k", value: 1 },
      { kind: "patch", ops: [{ op: "remove", path: "/nothing" }] },
    ] });
    expect(outcome.kind).toBe("resync");
    expect(text(view(replica))).toBe(before);
    expect(replica.entry("n1")).toBeDefined();
    expect(replica.entry("n2")).toBeUndefined();
  });
});

describe("pages of older entries", () => {
  test("go before the ones held, newest first, without gaps", () => {
    const replica = replicaWith(2, 5);
    expect(replica.prepend("L1", [entryOf(4), entryOf(3)], null)).toBe(2);
    expect(replica.first).toBe(3);
    expect(replica.entries.map((e) => e.no)).toEqual([3, 4, 5, 6]);
    expect(replica.prepend("other", [entryOf(2)], null)).toBe(0);
    expect(replica.prepend("L1", [entryOf(1)], null)).toBe(0);
    expect(replica.prepend("L1", [entryOf(3), entryOf(2)], null)).toBe(1);
    expect(replica.entry("n2")?.no).toBe(2);
  });

  test("a page that is ahead of the replica makes the changes it holds already pass over", () => {
    const replica = replicaWith(1, 5);
    replica.prepend("L1", [entryOf(4, "abc")], 3);
    const append = (seq: number, at: number, added: string): string =>
      replica.apply({ epoch: "e1", seq, parts: [{ kind: "log.append", id: "n4", at, text: added }] }).kind;
    expect(append(2, 1, "b")).toBe("applied");
    expect(append(3, 2, "c")).toBe("applied");
    expect(replica.entry("n4")?.content).toBe("abc");
    expect(append(4, 3, "d")).toBe("applied");
    expect(replica.entry("n4")?.content).toBe("abcd");
  });

  test("a page from before a trim brings nothing back", () => {
    const replica = replicaWith(2, 5);
    replica.apply({ epoch: "e1", seq: 2, parts: [{ kind: "log.trim", before: 4, ids: ["n0", "n1", "n2", "n3"] }] });
    expect(replica.prepend("L1", [entryOf(4), entryOf(3), entryOf(2)], null)).toBe(1);
    expect([replica.begin, replica.first]).toEqual([4, 4]);
    expect(replica.entry("n3")).toBeUndefined();
  });

  test("what is trimmed can be paged in again", () => {
    const replica = replicaWith(10);
    expect(replica.trim(4)).toBe(6);
    expect(replica.first).toBe(6);
    expect(replica.entry("n5")).toBeUndefined();
    expect(replica.prepend("L1", [entryOf(5), entryOf(4)], null)).toBe(2);
    expect(replica.entries.map((e) => e.no)).toEqual([4, 5, 6, 7, 8, 9]);
  });
});

test("a long stream into one entry, many entries and a wide state stay cheap", () => {
  const replica = replicaWith(20_000);
  const began = performance.now();
  let at = 0;
  for (let seq = 2; seq < 50_002; seq++) {
    replica.apply({ epoch: "e1", seq, parts: [{ kind: "log.append", id: "n19999", at, text: "piece" }] });
    at += 5;
  }
  // Linear in the pieces: quadratic copying of 250,000 characters would take many seconds.
  expect(performance.now() - began).toBeLessThan(3_000);
  expect(replica.entry("n19999")?.content.length).toBe(250_000);
});
