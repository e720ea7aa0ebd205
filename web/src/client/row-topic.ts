/**
 * One subscription to a topic that is a set of rows (`contexts`, `notices`).
 *
 * Each row has a position of its own. Within an epoch the newest row wins; a row of another epoch than the one held
 * is taken, and the set is read again. There are no gaps to see here: a row that was missed while away comes with the
 * set, which is read on every connection.
 */
import type { Position, Row, RowEvent, RowsReply } from "../wire";
import { Backoff } from "./backoff";
import type { TopicLink } from "./context-topic";
import { asHubError, HubError } from "./errors";

export interface RowTopicHandlers<R extends Row> {
  /** Another set; `read` is what the hub says is read already (notices). */
  replaced(rows: ReadonlyMap<string, R>, reply: RowsReply<R>): void;
  /** One row is new or changed, or gone (null). */
  changed(id: string, row: R | null): void;
  refused(error: HubError): void;
}

const TOMBSTONES = 1_000;
/** After so many milliseconds without doubt, the next reading again is a first one. */
const HEALTHY = 30_000;

export class RowTopic<R extends Row> {
  #rows = new Map<string, R>();
  /** Versions of rows that are gone, so that an older row does not bring them back. */
  #gone = new Map<string, string>();
  #buffer: RowEvent<R>[] | null = null;
  #generation = 0;
  #live = false;
  #closed = false;
  #retry: ReturnType<typeof setTimeout> | null = null;
  #backoff = new Backoff({ first: 250, limit: 10_000 });
  #joinedAt = 0;

  constructor(
    readonly topic: string,
    private readonly link: TopicLink,
    private readonly handlers: RowTopicHandlers<R>,
  ) {}

  get rows(): ReadonlyMap<string, R> { return this.#rows; }

  connected(): void {
    if (this.#closed) return;
    this.#backoff.reset();
    this.#subscribe();
  }

  disconnected(): void {
    this.#generation += 1;
    this.#live = false;
    this.#buffer = null;
    this.#clearRetry();
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.disconnected();
    if (this.link.online) this.link.ask("unsubscribe", { topic: this.topic }, { resend: false }).catch(() => undefined);
  }

  event(name: string, payload: unknown): void {
    if (this.#closed || name !== "row") return;
    const event = payload as RowEvent<R>;
    if (this.#buffer !== null) this.#buffer.push(event);
    else if (this.#live) this.#take(event);
  }

  /** Rows that came by a page: those that are newer than the ones held are taken. */
  merge(rows: readonly R[]): void {
    for (const row of rows) this.#take({ topic: this.topic, id: row.id, version: row.version, row });
  }

  #subscribe(): void {
    this.#clearRetry();
    if (this.#closed || !this.link.online) return;
    const generation = ++this.#generation;
    this.#buffer = [];
    this.link.ask<RowsReply<R>>("subscribe", { topic: this.topic }, { resend: false }).then(
      (reply) => { if (generation === this.#generation) this.#joined(reply); },
      (error: unknown) => { if (generation === this.#generation) this.#refused(asHubError(error)); },
    );
  }

  #joined(reply: RowsReply<R>): void {
    const buffered = this.#buffer ?? [];
    this.#buffer = null;
    this.#live = true;
    this.#joinedAt = Date.now();
    this.#rows = new Map(reply.rows.map((row) => [row.id, row]));
    this.#gone.clear();
    this.handlers.replaced(this.#rows, reply);
    for (const event of buffered) this.#take(event);
  }

  #refused(error: HubError): void {
    this.#buffer = null;
    if (error.code === "disconnected") return;
    if (!error.retryable) return this.handlers.refused(error);
    this.#later();
  }

  #take({ id, version, row }: RowEvent<R>): void {
    const held = this.#rows.get(id)?.version;
    const known = held ?? this.#gone.get(id);
    if (known !== undefined) {
      const [before, after] = [parseVersion(known), parseVersion(version)];
      if (before.epoch === after.epoch && after.seq <= before.seq) return;
      // Another epoch of a row that is held: which is newer cannot be told here.
      if (held !== undefined && before.epoch !== after.epoch) this.#later();
    }
    if (row === null) {
      this.#rows.delete(id);
      this.#gone.delete(id);
      this.#gone.set(id, version);
      if (this.#gone.size > TOMBSTONES) this.#gone.delete(this.#gone.keys().next().value as string);
      if (held !== undefined) this.handlers.changed(id, null);
      return;
    }
    this.#gone.delete(id);
    const kept = row.version === version ? row : { ...row, version };
    this.#rows.set(id, kept);
    this.handlers.changed(id, kept);
  }

  #later(): void {
    if (this.#retry !== null) return;
    if (Date.now() - this.#joinedAt > HEALTHY) this.#backoff.reset();
    this.#retry = setTimeout(() => this.#subscribe(), this.#backoff.next());
  }

  #clearRetry(): void {
    if (this.#retry !== null) clearTimeout(this.#retry);
    this.#retry = null;
  }
}

export function parseVersion(version: string): Position {
  const at = version.lastIndexOf(":");
  return { epoch: version.slice(0, at), seq: Number(version.slice(at + 1)) };
}
