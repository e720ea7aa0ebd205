/**
 * One subscription to a topic that is a set of rows (`contexts`, `notices`).
 *
 * Each row has a position of its own. Within an epoch the newest row wins; a row of another epoch than the one held
 * is taken, and the set is read again. There are no gaps to see here: a row that was missed while away comes with the
 * set, which is read on every connection, and when the hub says that it left rows out (`hub.lagged`).
 */
import type { Position, Row, RowEvent, RowsReply } from "../wire";
import type { HubError } from "./errors";
import { Subscription, type TopicLink } from "./subscription";

export interface RowTopicHandlers<R extends Row> {
  /** Another set; `read` is what the hub says is read already (notices). */
  replaced(rows: ReadonlyMap<string, R>, reply: RowsReply<R>): void;
  /** One row is new or changed, or gone (null). */
  changed(id: string, row: R | null): void;
  refused(error: HubError): void;
}

const TOMBSTONES = 1_000;

export class RowTopic<R extends Row> {
  #rows = new Map<string, R>();
  /** Versions of rows that are gone, so that an older row does not bring them back. */
  #gone = new Map<string, string>();
  #subscription: Subscription<RowsReply<R>, RowEvent<R>>;

  constructor(
    readonly topic: string,
    link: TopicLink,
    private readonly handlers: RowTopicHandlers<R>,
  ) {
    this.#subscription = new Subscription(topic, link, {
      wanted: () => ({}),
      joined: (reply) => this.#joined(reply),
      take: (event) => this.#take(event),
      refused: (error) => this.handlers.refused(error),
    });
  }

  get rows(): ReadonlyMap<string, R> { return this.#rows; }

  connected(): void { this.#subscription.connected(); }
  disconnected(): void { this.#subscription.disconnected(); }
  close(): void { this.#subscription.close(); }

  event(name: string, payload: unknown): void {
    if (name === "row") this.#subscription.event(payload as RowEvent<R>);
    else if (name === "hub.lagged") this.#subscription.again(true);
  }

  /** Rows that came by a page: those that are newer than the ones held are taken. */
  merge(rows: readonly R[]): void {
    for (const row of rows) this.#take({ topic: this.topic, id: row.id, version: row.version, row });
  }

  #joined(reply: RowsReply<R>): boolean {
    this.#rows = new Map(reply.rows.map((row) => [row.id, row]));
    this.#gone.clear();
    this.handlers.replaced(this.#rows, reply);
    return true;
  }

  #take({ id, version, row }: RowEvent<R>): void {
    const held = this.#rows.get(id)?.version;
    const known = held ?? this.#gone.get(id);
    if (known !== undefined) {
      const [before, after] = [parseVersion(known), parseVersion(version)];
      if (before.epoch === after.epoch && after.seq <= before.seq) return;
      // Another epoch of a row that is held: which is newer cannot be told here.
      if (held !== undefined && before.epoch !== after.epoch) this.#subscription.again(false);
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
}

export function parseVersion(version: string): Position {
  const at = version.lastIndexOf(":");
  return { epoch: version.slice(0, at), seq: Number(version.slice(at + 1)) };
}
