/**
 * One subscription to `context:<id>`: keeps a replica right, whatever the connection does.
 *
 * A reconnection asks for what was missed, from the replica's position. Whatever does not fit (see replica.ts) makes it
 * read the whole again. The replica shown stays until another is there. What is not the context's own is in subscription.ts.
 */
import { Replica, type Outcome, type Touched } from "../replica";
import type { ChangeEvent, Entry, Position, SnapshotEvent, SubscribeReply } from "../wire";
import type { HubError } from "./errors";
import { Subscription, type TopicLink } from "./subscription";

export type ContextTopicState =
  | { readonly kind: "joining" }
  | { readonly kind: "live" }
  /** The hub refuses it: there is no such context, or it may not be seen. Not tried again by itself. */
  | { readonly kind: "refused"; readonly error: HubError };

export interface ContextTopicHandlers {
  state(state: ContextTopicState): void;
  /** Another replica: everything shown before is void. `reason` says why, where it is no first one. */
  replaced(replica: Replica, reason: string | null): void;
  changed(replica: Replica, touched: Touched): void;
}

type ContextEvent = { name: "change"; payload: ChangeEvent } | { name: "snapshot"; payload: SnapshotEvent };

interface PageReply { readonly entries: readonly Entry[]; readonly epoch?: string; readonly seq?: number }

const TAIL = 50;

export class ContextTopic {
  readonly topic: string;
  #replica: Replica | null = null;
  /** False from a misfit on until the next snapshot: then `from` must not be claimed, and changes mean nothing. */
  #sound = false;
  /** The position that the last `subscribe` asked to go on from. */
  #from: Position | null = null;
  #subscription: Subscription<SubscribeReply, ContextEvent>;

  constructor(
    readonly context: string,
    private readonly link: TopicLink,
    private readonly handlers: ContextTopicHandlers,
  ) {
    this.topic = `context:${context}`;
    this.#subscription = new Subscription(this.topic, link, {
      wanted: () => this.#wanted(),
      joined: (reply) => this.#joined(reply),
      live: () => this.handlers.state({ kind: "live" }),
      take: (event) => this.#take(event),
      refused: (error) => {
        this.#sound = false;
        this.handlers.state({ kind: "refused", error });
      },
    });
  }

  get replica(): Replica | null { return this.#replica; }

  /** A connection is there (or the caller wants to try again). */
  connected(): void { this.#subscription.connected(); }
  disconnected(): void { this.#subscription.disconnected(); }
  close(): void { this.#subscription.close(); }

  event(name: string, payload: unknown): void {
    if (name === "change" || name === "snapshot") this.#subscription.event({ name, payload } as ContextEvent);
  }

  /**
   * Page in entries older than those held. Answers how many came; 0 with `first > begin` means that the log is another by
   * now, which the changes will tell.
   */
  async older(limit: number): Promise<number> {
    const replica = this.#replica;
    if (!replica || replica.first <= replica.begin) return 0;
    const log = replica.logId;
    const reply = await this.link.ask<PageReply>("log.page", { context: this.context, log, before: replica.first, limit });
    if (replica !== this.#replica) return 0;
    const ahead = reply.epoch === replica.position.epoch && reply.seq !== undefined ? reply.seq : null;
    return replica.prepend(log, reply.entries, ahead);
  }

  #wanted(): object {
    this.#from = this.#sound && this.#replica ? this.#replica.position : null;
    this.handlers.state({ kind: "joining" });
    return { deliver: "patch", tail: TAIL, ...(this.#from && { from: this.#from }) };
  }

  #joined(reply: SubscribeReply): boolean {
    const from = this.#from;
    if (reply.recovered) {
      const fits = from !== null && reply.epoch === from.epoch && reply.seq === from.seq;
      if (!fits) this.#resync("a recovery from elsewhere");
      return fits;
    }
    const fits = this.#replace(reply, from ? (reply.reason ?? "unknown") : null);
    if (!fits) this.#resync("a reply without a snapshot");
    return fits;
  }

  #take(event: ContextEvent): void {
    if (!this.#sound) return;
    if (event.name === "snapshot") {
      const { payload } = event;
      if (!this.#replace(payload, payload.reason ?? "lagged")) this.#resync("a snapshot without entries");
      return;
    }
    const replica = this.#replica as Replica;
    const outcome: Outcome = replica.apply(event.payload);
    if (outcome.kind === "applied") this.handlers.changed(replica, outcome.touched);
    else if (outcome.kind === "resync") this.#resync(outcome.reason);
  }

  #replace(source: SubscribeReply | SnapshotEvent, reason: string | null): boolean {
    const { epoch, seq, document, entries, data } = source;
    if (!document || !entries) return false;
    this.#replica = new Replica({
      epoch, seq, document, entries, log_id: source.log_id ?? document.log.id, ...(data && { data }),
    });
    this.#sound = true;
    this.handlers.replaced(this.#replica, reason);
    return true;
  }

  #resync(reason: string): void {
    console.warn(`${this.topic}: reading again: ${reason}`);
    this.#sound = false;
    this.#subscription.again(true);
  }
}
