/**
 * One subscription to `context:<id>`: keeps a replica right, whatever the connection does.
 *
 * Events that come before the answer to `subscribe` wait in a buffer. A reconnection asks for what was missed,
 * from the replica's position. Whatever does not fit (see replica.ts) makes it read the whole again, with growing
 * waits should that repeat itself. The replica shown stays until another is there.
 */
import { Replica, type Outcome, type Touched } from "../replica";
import type { ChangeEvent, Entry, Position, SnapshotEvent, SubscribeReply } from "../wire";
import { Backoff } from "./backoff";
import { asHubError, HubError } from "./errors";

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

/** What a topic needs of the client. */
export interface TopicLink {
  readonly online: boolean;
  ask<Reply>(event: string, payload: object, options?: { timeout?: number; resend?: boolean }): Promise<Reply>;
}

type Buffered = { name: "change"; payload: ChangeEvent } | { name: "snapshot"; payload: SnapshotEvent };

interface PageReply { readonly entries: readonly Entry[]; readonly epoch?: string; readonly seq?: number }

const TAIL = 50;
/** After so many milliseconds without a misfit, the next one is a first one again. */
const HEALTHY = 30_000;

export class ContextTopic {
  readonly topic: string;
  #replica: Replica | null = null;
  /** False from a misfit on until the next snapshot: then `from` must not be claimed. */
  #sound = false;
  #buffer: Buffered[] | null = null;
  #generation = 0;
  #closed = false;
  #retry: ReturnType<typeof setTimeout> | null = null;
  #backoff = new Backoff({ first: 250, limit: 10_000 });
  #joinedAt = 0;

  constructor(
    readonly context: string,
    private readonly link: TopicLink,
    private readonly handlers: ContextTopicHandlers,
  ) {
    this.topic = `context:${context}`;
  }

  get replica(): Replica | null { return this.#replica; }

  /** A connection is there (or the caller wants to try again). */
  connected(): void {
    if (this.#closed) return;
    this.#backoff.reset();
    this.#subscribe();
  }

  disconnected(): void {
    this.#generation += 1;
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
    if (this.#closed || (name !== "change" && name !== "snapshot")) return;
    const event = { name, payload } as Buffered;
    if (this.#buffer !== null) this.#buffer.push(event);
    else if (this.#sound) this.#take(event);
  }

  /**
   * Page in entries older than those held. Answers how many came; 0 with `first > 0` means that the log is another by
   * now, which the changes will tell.
   */
  async older(limit: number): Promise<number> {
    const replica = this.#replica;
    if (!replica || replica.first === 0) return 0;
    const log = replica.logId;
    const reply = await this.link.ask<PageReply>("log.page", { context: this.context, log, before: replica.first, limit });
    if (replica !== this.#replica) return 0;
    const ahead = reply.epoch === replica.position.epoch && reply.seq !== undefined ? reply.seq : null;
    return replica.prepend(log, reply.entries, ahead);
  }

  #subscribe(): void {
    this.#clearRetry();
    if (this.#closed || !this.link.online) return;
    const generation = ++this.#generation;
    const from: Position | null = this.#sound && this.#replica ? this.#replica.position : null;
    this.#buffer = [];
    this.handlers.state({ kind: "joining" });
    this.link.ask<SubscribeReply>("subscribe", {
      topic: this.topic, deliver: "patch", tail: TAIL, ...(from && { from }),
    }, { resend: false }).then(
      (reply) => { if (generation === this.#generation) this.#joined(reply, from); },
      (error: unknown) => { if (generation === this.#generation) this.#refused(asHubError(error)); },
    );
  }

  #joined(reply: SubscribeReply, from: Position | null): void {
    const buffered = this.#buffer ?? [];
    this.#buffer = null;
    if (reply.recovered) {
      if (!from || reply.epoch !== from.epoch || reply.seq !== from.seq) return this.#resync("a recovery from elsewhere");
    } else if (!this.#replace(reply, from ? (reply.reason ?? "unknown") : null)) {
      return this.#resync("a reply without a snapshot");
    }
    this.#joinedAt = Date.now();
    this.handlers.state({ kind: "live" });
    for (const event of buffered) {
      if (!this.#sound) return;
      this.#take(event);
    }
  }

  #refused(error: HubError): void {
    this.#buffer = null;
    if (error.code === "disconnected") return;
    if (error.retryable) return this.#later();
    this.#sound = false;
    this.handlers.state({ kind: "refused", error });
  }

  #take(event: Buffered): void {
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
    this.#generation += 1;
    if (Date.now() - this.#joinedAt > HEALTHY) this.#backoff.reset();
    // The first time at once; the waits are for a hub and a reader that keep disagreeing.
    if (this.#backoff.attempt === 0) {
      this.#backoff.next();
      this.#subscribe();
    } else {
      this.#later();
    }
  }

  #later(): void {
    this.#clearRetry();
    this.#retry = setTimeout(() => this.#subscribe(), this.#backoff.next());
  }

  #clearRetry(): void {
    if (this.#retry !== null) clearTimeout(this.#retry);
    this.#retry = null;
  }
}
