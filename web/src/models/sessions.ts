/** The list of sessions: rows from the hub, newest message first, older ones by pages. */
import { computed, signal } from "@preact/signals";
import type { HubClient, HubError, RowTopic } from "../client";
import type { ContextRow, Json } from "../wire";
import { Frame } from "./frame";
import { titleOf } from "./titles";

const PAGE = 100;
/** While the user searches, pages are larger and follow each other until so many sessions match. */
const SEARCH_PAGE = 500;
const ENOUGH = 50;

export class SessionsModel {
  readonly filter = signal("");
  readonly loaded = signal(false);
  readonly more = signal<"none" | "idle" | "loading" | "failed">("none");
  readonly refused = signal<HubError | null>(null);
  #rows = signal<readonly ContextRow[]>([]);
  #next: Json = null;
  #topic: RowTopic<ContextRow>;
  #frame = new Frame(() => this.#flush());

  /** Those that the filter leaves. */
  readonly shown = computed(() => {
    const words = this.filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    if (words.length === 0) return this.#rows.value;
    return this.#rows.value.filter((row) => {
      const text = `${titleOf(row)} ${row.id} ${row.agent ?? ""} ${row.running ? "running" : ""}`.toLowerCase();
      return words.every((word) => text.includes(word));
    });
  });

  constructor(private readonly client: HubClient) {
    this.#topic = client.watchContexts({
      replaced: (_, reply) => {
        this.#next = reply.next ?? null;
        this.more.value = this.#next === null ? "none" : "idle";
        this.refused.value = null;
        this.#frame.request();
      },
      changed: () => this.#frame.request(),
      refused: (error) => { this.refused.value = error; },
    });
  }

  get(id: string): ContextRow | undefined { return this.#topic.rows.get(id); }

  /** Show only what has all words of `text`; sessions that are not here yet are read until enough match. */
  async search(text: string): Promise<void> {
    this.filter.value = text;
    while (this.filter.peek() === text && text.trim() !== "" && this.more.value === "idle" && this.shown.value.length < ENOUGH) {
      await this.loadMore(SEARCH_PAGE);
      this.#flush();
    }
  }

  async loadMore(limit = PAGE): Promise<void> {
    if (this.more.value !== "idle" && this.more.value !== "failed") return;
    this.more.value = "loading";
    const cursor = this.#next;
    try {
      const { rows, next } = await this.client.pageContexts(cursor, limit);
      if (cursor !== this.#next) return;
      this.#topic.merge(rows);
      this.#next = next ?? null;
      this.more.value = this.#next === null ? "none" : "idle";
    } catch {
      this.more.value = "failed";
    }
  }

  dispose(): void {
    this.#frame.cancel();
    this.client.unwatch(this.#topic);
  }

  #flush(): void {
    this.loaded.value = true;
    this.#rows.value = [...this.#topic.rows.values()].sort(newestFirst);
  }
}

function newestFirst(a: ContextRow, b: ContextRow): number {
  if (a.last_message !== b.last_message) return a.last_message < b.last_message ? 1 : -1;
  return a.id < b.id ? -1 : 1;
}
