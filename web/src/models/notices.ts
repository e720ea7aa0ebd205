/** Notices: a list with read marks, and those that pop up for a while. */
import { batch, computed, signal } from "@preact/signals";
import type { HubClient, RowTopic } from "../client";
import type { NoticeRow } from "../wire";

export class NoticesModel {
  readonly rows = signal<readonly NoticeRow[]>([]);
  readonly read = signal<ReadonlySet<string>>(new Set());
  readonly toasts = signal<readonly NoticeRow[]>([]);
  readonly unread = computed(() => this.rows.value.filter((row) => !this.read.value.has(row.id)).length);
  #topic: RowTopic<NoticeRow>;
  #known = new Map<string, string>();
  #timers = new Map<string, ReturnType<typeof setTimeout>>();
  #expiry: ReturnType<typeof setTimeout> | null = null;
  #opened = false;

  constructor(private readonly client: HubClient) {
    this.#topic = client.watchNotices({
      replaced: (rows, reply) => batch(() => {
        this.read.value = new Set(reply.read ?? []);
        this.#refresh();
        const fresh = [...rows.values()].filter((row) => this.#known.get(row.id) !== row.version && !this.read.value.has(row.id));
        // Those from before the page was opened are in the list only: they would pop up again at every reload.
        if (this.#opened) for (const row of fresh.reverse()) this.#pop(row);
        this.#opened = true;
        this.#known = new Map([...rows.values()].map((row) => [row.id, row.version]));
        this.toasts.value = this.toasts.value.filter((toast) => rows.has(toast.id));
      }),
      changed: (id, row) => batch(() => {
        if (row) {
          this.#known.set(id, row.version);
          // A notice that says something new is unread again.
          this.#setRead((read) => read.delete(id));
          this.#pop(row);
        } else {
          this.#known.delete(id);
          this.dismiss(id);
        }
        this.#refresh();
      }),
      refused: () => undefined,
    });
  }

  /** Take a toast away; it stays in the list. */
  dismiss(id: string): void {
    this.hold(id);
    this.toasts.value = this.toasts.value.filter((toast) => toast.id !== id);
  }

  markRead(ids: readonly string[]): void {
    const unread = ids.filter((id) => !this.read.value.has(id));
    if (unread.length === 0) return;
    this.#setRead((read) => { for (const id of unread) read.add(id); });
    this.client.readNotices(unread).catch(() => undefined);
  }

  markAllRead(): void { this.markRead(this.rows.value.map((row) => row.id)); }

  /** Keep a toast while it is looked at. */
  hold(id: string): void {
    const timer = this.#timers.get(id);
    if (timer !== undefined) clearTimeout(timer);
    this.#timers.delete(id);
  }

  release(id: string): void {
    const toast = this.toasts.value.find((one) => one.id === id);
    if (!toast || this.#timers.has(id) || toast.display_time <= 0) return;
    this.#timers.set(id, setTimeout(() => this.dismiss(id), toast.display_time * 1_000));
  }

  dispose(): void {
    for (const timer of this.#timers.values()) clearTimeout(timer);
    if (this.#expiry !== null) clearTimeout(this.#expiry);
    this.client.unwatch(this.#topic);
  }

  #pop(row: NoticeRow): void {
    if (expired(row)) return;
    this.hold(row.id);
    this.toasts.value = [...this.toasts.value.filter((toast) => toast.id !== row.id), row];
    this.release(row.id);
  }

  #setRead(change: (read: Set<string>) => unknown): void {
    const read = new Set(this.read.value);
    change(read);
    this.read.value = read;
  }

  #refresh(): void {
    const rows = [...this.#topic.rows.values()].filter((row) => !expired(row)).sort(newestFirst);
    this.rows.value = rows;
    if (this.#expiry !== null) clearTimeout(this.#expiry);
    this.#expiry = null;
    const next = Math.min(...rows.map((row) => (row.expires_at ? Date.parse(row.expires_at) : Infinity)));
    // The hub says when one has expired; this is for the time without a connection.
    if (next !== Infinity) this.#expiry = setTimeout(() => this.#refresh(), Math.min(Math.max(next - Date.now(), 1_000), 3_600_000));
  }
}

function expired(row: NoticeRow): boolean {
  return row.expires_at !== null && row.expires_at !== undefined && Date.parse(row.expires_at) <= Date.now();
}

function newestFirst(a: NoticeRow, b: NoticeRow): number {
  if (a.priority !== b.priority) return b.priority - a.priority;
  return a.created_at < b.created_at ? 1 : -1;
}
