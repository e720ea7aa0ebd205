/**
 * The log of the open session, as cells that components watch one by one.
 *
 * The replica changes at once; what is shown changes per animation frame. A change to one entry touches its cell
 * only; `structure` moves when entries come or go.
 */
import { batch, signal, type Signal } from "@preact/signals";
import type { Replica, Touched } from "../replica";
import type { Entry } from "../wire";
import { Frame } from "./frame";

export interface Cell {
  readonly no: number;
  readonly id: string;
  readonly entry: Signal<Entry>;
  /** Moves when the text was replaced, not only added to: then nothing shown of it can be kept. */
  rewrites: number;
}

/** Whether there are entries before those held. `gone`: there were, and they are not kept. */
export type OlderState = "none" | "gone" | "idle" | "loading" | "failed";

/** More entries than these are let go at the old end while the reader is at the new one; they can be paged in again. */
const KEEP = 20_000;
/** While the reader looks further up, so many are kept; then paging in ends. */
const KEEP_AWAY = 60_000;
const PAGE = 50;

export class LogModel {
  readonly structure = signal(0);
  readonly older = signal<OlderState>("none");
  /** `no` of the newest entry, -1 in an empty log. */
  readonly newest = signal(-1);
  /** The reader is at the new end. */
  atEnd = true;
  #cells: Cell[] = [];
  #first = 0;
  #replica: Replica | null = null;
  #rebuild = false;
  #dirty = new Set<string>();
  #rewritten = new Set<string>();
  #listeners = new Set<() => void>();
  #frame = new Frame(() => this.flush());

  constructor(private readonly page: (limit: number) => Promise<number>) {}

  /** Without gaps, oldest first: the cell of entry `no` is at index `no - first`. Not to be changed by the reader. */
  get cells(): readonly Cell[] { return this.#cells; }
  get first(): number { return this.#first; }

  /** Hear about every flush, before it is shown (to keep the scroll position). */
  onFlush(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  replaced(replica: Replica): void {
    this.#replica = replica;
    this.#rebuild = true;
    this.#frame.request();
  }

  changed(touched: Touched): void {
    if (touched.reset) this.#rebuild = true;
    for (const id of touched.entries) this.#dirty.add(id);
    for (const id of touched.rewritten) this.#rewritten.add(id);
    if (touched.reset || touched.trimmed || touched.added > 0 || touched.entries.size > 0) this.#frame.request();
  }

  /** Page in older entries. Concurrent calls are one. */
  async loadOlder(): Promise<void> {
    if (this.older.value !== "idle" && this.older.value !== "failed") return;
    if (this.#cells.length + PAGE > KEEP_AWAY) return;
    this.older.value = "loading";
    try {
      await this.page(PAGE);
      this.older.value = "idle";
      this.flush();
    } catch {
      this.older.value = "failed";
    }
  }

  dispose(): void { this.#frame.cancel(); }

  /** Show the replica as it is now. */
  flush(): void {
    const replica = this.#replica;
    if (!replica) return;
    for (const listener of this.#listeners) listener();
    batch(() => {
      replica.trim(this.atEnd ? KEEP : KEEP_AWAY);
      const moved = this.#rebuild ? this.#rebuildFrom(replica) : this.#extendTo(replica);
      for (const id of this.#dirty) this.#refresh(replica, id);
      this.#dirty.clear();
      this.#rewritten.clear();
      this.#rebuild = false;
      if (moved) this.structure.value += 1;
      this.newest.value = this.#first + this.#cells.length - 1;
      if (this.#first <= replica.begin) this.older.value = replica.begin > 0 ? "gone" : "none";
      else if (this.older.value !== "loading" && this.older.value !== "failed") this.older.value = "idle";
    });
  }

  #rebuildFrom(replica: Replica): boolean {
    const held = new Map(this.#cells.map((cell) => [cell.id, cell]));
    this.#cells = replica.entries.map((entry) => {
      const cell = held.get(entry.id);
      if (!cell || cell.no !== entry.no) return cellOf(entry);
      if (cell.entry.value !== entry) {
        cell.rewrites += 1;
        cell.entry.value = entry;
      }
      return cell;
    });
    this.#first = replica.first;
    if (this.older.value === "loading") this.older.value = "idle";
    return true;
  }

  #extendTo(replica: Replica): boolean {
    const before = { first: this.#first, length: this.#cells.length };
    if (replica.first > this.#first) {
      this.#cells = this.#cells.slice(replica.first - this.#first);
      this.#first = replica.first;
    } else if (replica.first < this.#first) {
      this.#cells = [...replica.entries.slice(0, this.#first - replica.first).map(cellOf), ...this.#cells];
      this.#first = replica.first;
    }
    for (let at = this.#cells.length; at < replica.entries.length; at++) this.#cells.push(cellOf(replica.entries[at] as Entry));
    return before.first !== this.#first || before.length !== this.#cells.length;
  }

  #refresh(replica: Replica, id: string): void {
    const entry = replica.entry(id);
    const cell = entry && this.#cells[entry.no - this.#first];
    if (!cell || cell.id !== id || cell.entry.value === entry) return;
    if (this.#rewritten.has(id)) cell.rewrites += 1;
    cell.entry.value = entry;
  }
}

function cellOf(entry: Entry): Cell {
  return { no: entry.no, id: entry.id, entry: signal(entry), rewrites: 0 };
}
