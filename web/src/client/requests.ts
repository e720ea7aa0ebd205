/**
 * Requests and their answers.
 *
 * Reads are asked again after a reconnection, or when the hub says that it takes them, until their time is up. What
 * changes something carries a key `writer/n`, counted per context, and goes in that order: it stays here until it is
 * answered, is sent again with the same key after a lost connection, a lost answer or an answer that says `retryable`,
 * and applies once whatever happens. At most 64 of a context are unanswered at the hub at a time; the rest wait here.
 */
import { Backoff } from "./backoff";
import { errorIn, HubError, retryAfter } from "./errors";

const WINDOW = 64;
const ANSWER_TIME = 20_000;

export type Emit = (event: string, payload: object, acknowledge: (reply: unknown) => void) => void;

export interface SendOptions {
  /** Give up after this time, in milliseconds; without it the request is kept until it is answered. */
  readonly patience?: number;
  /** Called when a try did not succeed and another follows. */
  readonly onRetry?: (error: HubError) => void;
  /** Take the request back, if it is not answered yet. */
  readonly signal?: AbortSignal;
}

interface Read {
  readonly event: string;
  readonly payload: object;
  readonly resend: boolean;
  readonly settle: (reply: unknown, error: HubError | null) => void;
}

interface Write {
  readonly event: string;
  readonly payload: object;
  readonly settle: (reply: unknown, error: HubError | null) => void;
  readonly onRetry: ((error: HubError) => void) | undefined;
  /** Counts the tries, so that the answer to an old one is told from the newest's; 0 while it waits. */
  sent: number;
  timer: ReturnType<typeof setTimeout> | null;
}

class Lane {
  readonly writes: Write[] = [];
  readonly backoff = new Backoff({ first: 300, limit: 10_000 });
  count = 0;
  pause: ReturnType<typeof setTimeout> | null = null;
}

export class Requests {
  #online = false;
  #reads = new Set<Read>();
  #lanes = new Map<string, Lane>();
  #tries = 0;

  constructor(
    private readonly emit: Emit,
    private readonly writer: string,
  ) {}

  /** Unanswered requests that change something. */
  get waiting(): number {
    let sum = 0;
    for (const lane of this.#lanes.values()) sum += lane.writes.length;
    return sum;
  }

  /** Ask for something. `resend: false` fails with `disconnected` instead of asking again on a new connection. */
  ask<Reply>(event: string, payload: object, options: { timeout?: number; resend?: boolean } = {}): Promise<Reply> {
    const { timeout = ANSWER_TIME, resend = true } = options;
    return new Promise<Reply>((resolve, reject) => {
      const timer = setTimeout(() => read.settle(null, new HubError("timeout", "The hub did not answer in time.", true)), timeout);
      const read: Read = {
        event, payload, resend,
        settle: (reply, error) => {
          if (!this.#reads.delete(read)) return;
          clearTimeout(timer);
          if (error) reject(error);
          else resolve(reply as Reply);
        },
      };
      this.#reads.add(read);
      if (this.#online) this.#emitRead(read);
      else if (!resend) read.settle(null, new HubError("disconnected", "There is no connection.", true));
    });
  }

  /** Change something in `context`; `payload` gets its key here. */
  send<Reply>(event: string, context: string, payload: object, options: SendOptions = {}): Promise<Reply> {
    const lane = this.#lane(context);
    lane.count += 1;
    const key = `${this.writer}/${lane.count}`;
    return new Promise<Reply>((resolve, reject) => {
      const write: Write = {
        event,
        payload: { ...payload, key },
        onRetry: options.onRetry,
        sent: 0,
        timer: null,
        settle: (reply, error) => {
          const at = lane.writes.indexOf(write);
          if (at < 0) return;
          lane.writes.splice(at, 1);
          this.#clear(write);
          if (patience !== null) clearTimeout(patience);
          options.signal?.removeEventListener("abort", abort);
          if (error) reject(error);
          else resolve(reply as Reply);
          this.#pump(lane);
        },
      };
      const abort = (): void => write.settle(null, new HubError("aborted", "Taken back."));
      const patience = options.patience === undefined ? null
        : setTimeout(() => write.settle(null, new HubError("timeout", "The hub did not answer in time.", true)), options.patience);
      options.signal?.addEventListener("abort", abort);
      lane.writes.push(write);
      this.#pump(lane);
    });
  }

  /** A connection is there: everything unanswered goes out, oldest first. */
  connected(): void {
    this.#online = true;
    for (const read of [...this.#reads]) this.#emitRead(read);
    for (const lane of this.#lanes.values()) {
      this.#unpause(lane);
      lane.backoff.reset();
      this.#pump(lane);
    }
  }

  disconnected(): void {
    this.#online = false;
    for (const read of [...this.#reads]) {
      if (!read.resend) read.settle(null, new HubError("disconnected", "The connection was lost.", true));
    }
    for (const lane of this.#lanes.values()) {
      for (const write of lane.writes) this.#clear(write);
    }
  }

  /** Nothing will be answered any more. */
  close(error: HubError): void {
    this.disconnected();
    for (const read of [...this.#reads]) read.settle(null, error);
    for (const lane of this.#lanes.values()) {
      this.#unpause(lane);
      for (const write of [...lane.writes]) write.settle(null, error);
    }
  }

  #emitRead(read: Read): void {
    this.emit(read.event, read.payload, (reply) => {
      const error = errorIn(reply);
      const after = error?.code === "rate_limited" ? retryAfter(error) : 0;
      if (after === 0) return read.settle(reply, error);
      setTimeout(() => { if (this.#online && this.#reads.has(read)) this.#emitRead(read); }, after);
    });
  }

  #pump(lane: Lane): void {
    if (!this.#online || lane.pause !== null) return;
    for (const write of lane.writes.slice(0, WINDOW)) {
      if (write.sent === 0) this.#emitWrite(lane, write);
    }
  }

  #emitWrite(lane: Lane, write: Write): void {
    const attempt = ++this.#tries;
    write.sent = attempt;
    write.timer = setTimeout(
      () => this.#again(lane, write, new HubError("timeout", "The hub did not answer in time.", true)), ANSWER_TIME);
    this.emit(write.event, write.payload, (reply) => {
      const error = errorIn(reply);
      if (error?.retryable) {
        if (write.sent === attempt) this.#again(lane, write, error);
        return;
      }
      // The first answer counts, whichever try it belongs to: the key makes all of them the same.
      lane.backoff.reset();
      write.settle(reply, error);
    });
  }

  /** Hold the lane for a while, then go on with this one first: later ones must not overtake it. */
  #again(lane: Lane, write: Write, error: HubError): void {
    this.#clear(write);
    write.onRetry?.(error);
    if (lane.pause !== null) return;
    lane.pause = setTimeout(() => {
      lane.pause = null;
      this.#pump(lane);
    }, lane.backoff.next(retryAfter(error)));
  }

  #lane(context: string): Lane {
    let lane = this.#lanes.get(context);
    if (!lane) this.#lanes.set(context, lane = new Lane());
    return lane;
  }

  #unpause(lane: Lane): void {
    if (lane.pause !== null) clearTimeout(lane.pause);
    lane.pause = null;
  }

  #clear(write: Write): void {
    if (write.timer !== null) clearTimeout(write.timer);
    write.timer = null;
    write.sent = 0;
  }
}
