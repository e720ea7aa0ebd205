/**
 * The replica of one context: snapshot + changes -> state. Pure: no clock, no network, no signals.
 *
 * A reader only applies; it never decides anything. A change either follows on the replica's position and applies
 * as a whole, or is a duplicate, or shows that something is missing: then the replica stays as it is, and the caller
 * reads a snapshot again. The work is in proportion to the change: the document is copied along the changed path
 * only, an entry is replaced alone, appended text is joined by the engine without copying.
 */
import { applyOp, PatchError } from "./pointer";
import type { Change, Entry, HubDocument, Json, JsonObject, Part, Position, Snapshot } from "./wire";

/** What a change touched, for those who show it. */
export interface Touched {
  document: boolean;
  /** Ids of entries that were replaced; of those in `rewritten`, by more than added text. */
  readonly entries: Set<string>;
  readonly rewritten: Set<string>;
  /** How many entries were added at the end. */
  added: number;
  /** The log was emptied (before `added`). */
  reset: boolean;
  /** The oldest entries are not kept any more. */
  trimmed: boolean;
  data: boolean;
}

export type Outcome =
  | { readonly kind: "applied"; readonly touched: Touched }
  | { readonly kind: "duplicate" }
  | { readonly kind: "resync"; readonly reason: string };

/** Raised inside; what does not fit always ends as the outcome `resync`. */
class Misfit extends Error {}

type Undo = () => void;

export class Replica {
  #position: Position;
  #document: HubDocument;
  #data: JsonObject;
  #closed: string | null = null;
  /** Without gaps, oldest first; entry `no` is at index `no - #first`. */
  #entries: Entry[];
  #first: number;
  #index = new Map<string, number>();
  /** Entries that came by a page: the seq up to which they hold all changes, where that is ahead. */
  #ahead = new Map<string, number>();

  constructor(snapshot: Snapshot) {
    this.#position = { epoch: snapshot.epoch, seq: snapshot.seq };
    this.#document = snapshot.document;
    this.#data = snapshot.data ?? {};
    this.#entries = snapshot.entries.slice();
    this.#first = this.#entries[0]?.no ?? snapshot.document?.log?.length ?? 0;
    for (const entry of this.#entries) this.#index.set(entry.id, entry.no);
  }

  get position(): Position { return this.#position; }
  get document(): HubDocument { return this.#document; }
  /** Private data: empty for those who may not see it. */
  get data(): JsonObject { return this.#data; }
  /** Why the context ended, or null while it lives. */
  get closed(): string | null { return this.#closed; }
  get logId(): string { return this.#document?.log?.id ?? ""; }
  /** The entries held: the newest of the log. Not to be changed by the caller. */
  get entries(): readonly Entry[] { return this.#entries; }
  /** `no` of the oldest entry held. */
  get first(): number { return this.#first; }
  /** `no` of the oldest entry that is kept anywhere. */
  get begin(): number { return this.#document?.log?.first ?? 0; }

  entry(id: string): Entry | undefined {
    const no = this.#index.get(id);
    return no === undefined ? undefined : this.#entries[no - this.#first];
  }

  apply(change: Change): Outcome {
    if (change.epoch !== this.#position.epoch) return resync(`epoch ${change.epoch} instead of ${this.#position.epoch}`);
    if (change.seq <= this.#position.seq) return { kind: "duplicate" };
    if (change.seq !== this.#position.seq + 1) return resync(`change ${change.seq} after ${this.#position.seq}`);
    if (this.#closed !== null) return resync("a change after the end");
    const touched: Touched = {
      document: false, entries: new Set(), rewritten: new Set(), added: 0, reset: false, trimmed: false, data: false,
    };
    const undo: Undo[] = [];
    const { document, data, closed } = { document: this.#document, data: this.#data, closed: this.#closed };
    try {
      for (const part of change.parts) this.#part(part, change.seq, touched, undo);
    } catch (error) {
      if (!(error instanceof Misfit || error instanceof PatchError)) throw error;
      for (const step of undo.reverse()) step();
      this.#document = document;
      this.#data = data;
      this.#closed = closed;
      return resync(error.message);
    }
    this.#position = { epoch: change.epoch, seq: change.seq };
    return { kind: "applied", touched };
  }

  /**
   * Older entries, newest first as `log.page` gives them, put before those held. `seq`: what they are worth (null:
   * the replica's own position). Answers how many were taken; pages that do not fit (another log, overlapping) give 0.
   */
  prepend(logId: string, page: readonly Entry[], seq: number | null): number {
    if (logId !== this.logId) return 0;
    const taken: Entry[] = [];
    for (const entry of page) {
      if (entry.no !== this.#first - 1 - taken.length || entry.no < this.begin) continue;
      taken.push(entry);
      if (seq !== null && seq > this.#position.seq) this.#ahead.set(entry.id, seq);
    }
    if (taken.length === 0) return 0;
    this.#entries = [...taken.reverse(), ...this.#entries];
    this.#first -= taken.length;
    for (const entry of taken) this.#index.set(entry.id, entry.no);
    return taken.length;
  }

  /** Forget the oldest entries, so that at most `keep` stay; answers how many went. They can be paged in again. */
  trim(keep: number): number {
    const excess = this.#entries.length - keep;
    if (excess <= 0) return 0;
    for (const entry of this.#entries.slice(0, excess)) {
      this.#index.delete(entry.id);
      this.#ahead.delete(entry.id);
    }
    this.#entries = this.#entries.slice(excess);
    this.#first += excess;
    return excess;
  }

  #part(part: Part, seq: number, touched: Touched, undo: Undo[]): void {
    switch (part.kind) {
      case "patch": {
        const logId = this.logId;
        let document = this.#document as unknown as Json;
        for (const op of part.ops) document = applyOp(document, op);
        this.#document = document as unknown as HubDocument;
        touched.document = true;
        if (this.logId !== logId) this.#emptyLog(touched, undo);
        return;
      }
      case "log.add": return this.#add(part.entry, touched, undo);
      case "log.update": {
        const entry = this.#find(part.id, seq);
        if (entry === null) return;
        const { cut, ...kept } = entry;
        const nowCut = part.cut ?? cut;
        this.#replace({
          ...kept,
          ...(part.type !== undefined && { type: part.type }),
          ...(part.heading !== undefined && { heading: part.heading }),
          ...(part.content !== undefined && { content: part.content }),
          ...((part.kvps ?? part.gone) !== undefined && { kvps: { ...without(entry.kvps, part.gone ?? []), ...part.kvps } }),
          // A whole text again says `cut: 0`; entries that are whole have no such member.
          ...(nowCut && { cut: nowCut }),
        }, touched, undo);
        touched.rewritten.add(part.id);
        return;
      }
      case "log.append": {
        const entry = this.#find(part.id, seq);
        if (entry === null) return;
        if (entry.content.length !== part.at) throw new Misfit(`text at ${part.at}, the entry has ${entry.content.length}`);
        this.#replace({ ...entry, content: entry.content + part.text }, touched, undo);
        return;
      }
      case "log.reset":
        this.#document = { ...this.#document, log: { id: part.log_id, length: 0 } };
        touched.document = true;
        return this.#emptyLog(touched, undo);
      case "log.trim": return this.#trimBefore(part.before, touched, undo);
      case "data": {
        const data = { ...this.#data };
        if (part.value === undefined) delete data[part.key];
        else Object.defineProperty(data, part.key, {
          value: part.value, writable: true, enumerable: true, configurable: true,
        });
        this.#data = data;
        touched.data = true;
        return;
      }
      case "closed":
        this.#closed = part.reason;
        return;
      default:
        throw new Misfit(`unknown kind of part: ${String((part as { kind?: unknown }).kind)}`);
    }
  }

  #add(entry: Entry, touched: Touched, undo: Undo[]): void {
    const log = this.#document?.log;
    if (!log || entry.no !== log.length) throw new Misfit(`entry ${entry.no} in a log of ${log?.length}`);
    if (this.#index.has(entry.id)) throw new Misfit(`entry ${entry.id} is there already`);
    this.#document = { ...this.#document, log: { ...log, length: log.length + 1 } };
    this.#entries.push(entry);
    this.#index.set(entry.id, entry.no);
    undo.push(() => {
      this.#entries.pop();
      this.#index.delete(entry.id);
    });
    touched.document = true;
    touched.added += 1;
  }

  #trimBefore(before: number, touched: Touched, undo: Undo[]): void {
    const log = this.#document?.log;
    if (!log || !Number.isInteger(before) || before <= this.begin || before > log.length) {
      throw new Misfit(`a log from ${this.begin} to ${log?.length} cannot begin at ${before}`);
    }
    const { entries, first, ahead } = { entries: this.#entries, first: this.#first, ahead: new Map(this.#ahead) };
    this.trim(log.length - before);
    this.#first = Math.max(first, before);
    undo.push(() => {
      for (const entry of entries.slice(0, entries.length - this.#entries.length)) this.#index.set(entry.id, entry.no);
      this.#entries = entries;
      this.#first = first;
      this.#ahead = ahead;
    });
    this.#document = { ...this.#document, log: { ...log, first: before } };
    touched.document = true;
    touched.trimmed = true;
  }

  /** The entry that a part is about; null when it is to be passed over: not held here, or already as new. */
  #find(id: string, seq: number): Entry | null {
    const entry = this.entry(id);
    if (entry === undefined) {
      if (this.#first > this.begin) return null;
      throw new Misfit(`no entry ${id}`);
    }
    const ahead = this.#ahead.get(id);
    if (ahead === undefined) return entry;
    if (seq <= ahead) return null;
    this.#ahead.delete(id);
    return entry;
  }

  #replace(entry: Entry, touched: Touched, undo: Undo[]): void {
    const at = entry.no - this.#first;
    const before = this.#entries[at] as Entry;
    this.#entries[at] = entry;
    undo.push(() => { this.#entries[at] = before; });
    touched.entries.add(entry.id);
  }

  #emptyLog(touched: Touched, undo: Undo[]): void {
    const held = { entries: this.#entries, first: this.#first, index: this.#index, ahead: this.#ahead };
    undo.push(() => {
      this.#entries = held.entries;
      this.#first = held.first;
      this.#index = held.index;
      this.#ahead = held.ahead;
    });
    this.#entries = [];
    this.#first = this.#document.log.length;
    this.#index = new Map();
    this.#ahead = new Map();
    touched.reset = true;
    touched.added = 0;
    touched.entries.clear();
    touched.rewritten.clear();
  }
}

function resync(reason: string): Outcome {
  return { kind: "resync", reason };
}

function without(pairs: Entry["kvps"], gone: readonly string[]): Entry["kvps"] {
  return gone.length === 0 ? pairs : Object.fromEntries(Object.entries(pairs).filter(([key]) => !gone.includes(key)));
}
