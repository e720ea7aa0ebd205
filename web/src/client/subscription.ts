/**
 * What every subscription does, whatever its topic means: it joins on each connection, keeps events that come before
 * the answer to `subscribe` aside, and joins again after growing waits when it was refused for now or something does not fit.
 */
import { Backoff } from "./backoff";
import { asHubError, type HubError } from "./errors";

/** What a topic needs of the client. */
export interface TopicLink {
  readonly online: boolean;
  ask<Reply>(event: string, payload: object, options?: { timeout?: number; resend?: boolean }): Promise<Reply>;
}

/** What the answer and the events mean is the owner's. */
export interface TopicOwner<Reply, Event> {
  /** What `subscribe` asks for besides the topic; called whenever it goes out. */
  wanted(): object;
  /** The answer; false if it does not fit (then the owner has asked for another). */
  joined(reply: Reply): boolean;
  /** Events follow, first those that came before the answer. */
  live?(): void;
  take(event: Event): void;
  /** For good. */
  refused(error: HubError): void;
}

/** After so many milliseconds without a misfit, the next one is a first one again. */
const HEALTHY = 30_000;

export class Subscription<Reply, Event> {
  #buffer: Event[] | null = null;
  #live = false;
  #closed = false;
  /** Counts the attempts, so that the answer to an old one is told from the newest's. */
  #generation = 0;
  #retry: ReturnType<typeof setTimeout> | null = null;
  #backoff = new Backoff({ first: 250, limit: 10_000 });
  #joinedAt = 0;

  constructor(
    readonly topic: string,
    private readonly link: TopicLink,
    private readonly owner: TopicOwner<Reply, Event>,
  ) {}

  /** A connection is there (or the caller wants to try again). */
  connected(): void {
    if (this.#closed) return;
    this.#backoff.reset();
    this.#join();
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

  event(event: Event): void {
    if (this.#buffer !== null) this.#buffer.push(event);
    else if (this.#live) this.owner.take(event);
  }

  /**
   * What came does not fit: join again. With `atOnce` the first time without a wait; the waits are for a hub and a reader
   * that keep disagreeing.
   */
  again(atOnce: boolean): void {
    if (Date.now() - this.#joinedAt > HEALTHY) this.#backoff.reset();
    if (!atOnce || this.#backoff.attempt > 0) return this.#later();
    this.#backoff.next();
    this.#join();
  }

  #join(): void {
    this.#clearRetry();
    if (this.#closed || !this.link.online) return;
    const generation = ++this.#generation;
    this.#buffer = [];
    this.link.ask<Reply>("subscribe", { topic: this.topic, ...this.owner.wanted() }, { resend: false }).then(
      (reply) => { if (generation === this.#generation) this.#joined(reply); },
      (error: unknown) => { if (generation === this.#generation) this.#refused(asHubError(error)); },
    );
  }

  #joined(reply: Reply): void {
    const buffered = this.#buffer ?? [];
    this.#buffer = null;
    if (!this.owner.joined(reply)) return;
    this.#live = true;
    this.#joinedAt = Date.now();
    this.owner.live?.();
    for (const event of buffered) this.owner.take(event);
  }

  #refused(error: HubError): void {
    this.#buffer = null;
    if (error.code === "disconnected") return;
    if (error.retryable) return this.#later();
    this.#live = false;
    this.owner.refused(error);
  }

  #later(): void {
    this.#retry ??= setTimeout(() => this.#join(), this.#backoff.next());
  }

  #clearRetry(): void {
    if (this.#retry !== null) clearTimeout(this.#retry);
    this.#retry = null;
  }
}
