/** The list of sessions: rows from the hub, newest message first, older ones by pages. */
import { computed, signal } from "@preact/signals";
import type { HubClient, HubError, RowTopic } from "../client";
import type { ContextRow, Json } from "../wire";
import { Frame } from "./frame";
import { titleOf } from "./titles";

const PAGE = 100;

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

  async loadMore(): Promise<void> {
    if (this.more.value !== "idle" && this.more.value !== "failed") return;
    this.more.value = "loading";
    const cursor = this.#next;
    try {
      const { rows, next } = await this.client.pageContexts(cursor, PAGE);
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
